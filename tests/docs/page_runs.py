"""Runs the commands of a page, on small models under the names that pages use."""

import json
import pathlib
import shutil
import subprocess

import page_commands
from golden import fixtures
from golden.suite import Suite
from written_commands import Command

ROOT = fixtures.MODELS.parents[2]
TOKENIZER = fixtures.MODELS.parent / "tokenizer" / "smollm" / "tokenizer.json"
VOCABULARY = 448  # at least the tokenizer's
CONTEXT = 2048
# Names in capitals in a page's commands, which readers replace by their own files.
ANY_NAMES = {"MODEL": "SmolLM2-135M", "FILE": "SmolLM2-135M", "STATS": "smollm2.stats", "PROMPT": "the ship"}
ANY_NAMES_OF_PAGE = {
    "extending.md": {"MODEL": "llama3", "expected.safetensors": "llama3.expected.safetensors"},
    "adding-an-architecture.md": {"tests/data/models/NAME": "llama3",
                                  "tests/data/models/NAME/expected.safetensors": "llama3.expected.safetensors"},
    "streaming.md": {"FILE": "wikitext.txt"},
}
# Commands that make the models that a page uses but does not make, in this order.
MADE = {
    "smollm2.stats": ["calibrate", "SmolLM2-135M", "--text", "calibration.txt", "--samples", "4"],
    "smollm2-w8a8": ["convert", "SmolLM2-135M", "--scheme", "w8a8", "--text", "calibration.txt"],
    "smollm2-w4a8": ["convert", "SmolLM2-135M", "--scheme", "w4a8", "--text", "calibration.txt"],
    "smollm2-q8_0.gguf": ["convert", "SmolLM2-135M", "--to", "gguf", "--scheme", "w8a16", "--format", ".=q8_0",
                          "--text", "calibration.txt"],
    "smollm2-q5_0.gguf": ["convert", "SmolLM2-135M", "--to", "gguf", "--scheme", "w8a16", "--format", ".=q5_0",
                          "--text", "calibration.txt"],
    "SmolLM2-135M-GPTQ": ["convert", "SmolLM2-135M", "--to", "gptq", "--scheme", "w4a16", "--group-size", "64",
                          "--text", "calibration.txt"],
    "qwen2.5-coder-0.5b-q4_k_m.gguf": ["convert", "SmolLM2-135M", "--to", "gguf", "--scheme", "w4a8",
                                       "--text", "calibration.txt"],
    "qwen2.5-1.5b-w4a8": ["convert", "SmolLM2-135M", "--scheme", "w4a8", "--text", "calibration.txt"],
    "qwen2.5-0.5b-w4a8": ["convert", "SmolLM2-135M", "--scheme", "w4a8", "--text", "calibration.txt"],
    "qwen2.5-coder-w4a8": ["convert", "SmolLM2-135M", "--scheme", "w4a8", "--text", "calibration.txt"],
    "smollm2-q4": ["convert", "SmolLM2-135M", "--scheme", "w4a8", "--bits", "4", "--group-size", "32", "--symmetric",
                   "--outliers", "none", "--embedding", "int8-g32", "--text", "calibration.txt"],
    "minilm-w8a8": ["convert", "all-MiniLM-L6-v2", "--scheme", "w8a8", "--text", "calibration.txt"],
    "q30-w4a16": ["convert", "Qwen3-30B-A3B", "--scheme", "w4a16", "--text", "calibration.txt"],
}
COPIES = {"llama3": "llama3", "all-MiniLM-L6-v2": "bert", "Qwen2.5-0.5B": "qwen2", "Qwen3-30B-A3B": "qwen3_moe"}
# Logits that another program computed are not available here.
NOT_RUN = {("README.md", "verify"), ("evaluate.md", "verify")}


def is_run(page: pathlib.Path, command: Command) -> bool:
    return command.program == "curl" or (page.name, command.words[0]) not in NOT_RUN


def write_inputs(folder: pathlib.Path) -> None:
    """Makes texts, keys and models under the names that pages use. SmolLM2-135M is a model of one layer with its
    shapes."""
    model = folder / "SmolLM2-135M"
    fixtures.write_large_model(model, hidden=576, layers=1, mlp=1536, vocabulary=VOCABULARY, heads=9, kv_heads=3)
    config = json.loads((model / "config.json").read_text()) | {"max_position_embeddings": CONTEXT}
    (model / "config.json").write_text(json.dumps(config))
    shutil.copy(TOKENIZER, model / "tokenizer.json")
    words = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": fixtures.CHATML}
    (model / "tokenizer_config.json").write_text(json.dumps(words))
    (folder / "HuggingFaceTB").mkdir()  # a name on the Hub is the path of a folder that exists
    (folder / "HuggingFaceTB" / "SmolLM2-135M").symlink_to(model)
    (folder / "calibration.txt").write_text(fixtures.text(16000, 2))
    (folder / "keys.txt").write_text("reader an-example-of-a-key-of-32-letters\n")
    (folder / "wikitext.txt").write_text(fixtures.text(6000, 1))
    (folder / "prompt.txt").write_text(fixtures.text(60, 3))
    city = {"type": "object", "properties": {"city": {"type": "string"}, "population": {"type": "integer"}},
            "required": ["city", "population"]}
    (folder / "city.json").write_text(json.dumps(city))
    for name, model in COPIES.items():
        fixtures.copy_model(model, folder / name)
    fixtures.copy_classifier("modernbert_texts", folder / "reranker")
    fixtures.copy_translator("t5", folder / "opus-mt-en-de")
    (folder / "pairs.tsv").write_text("".join(f"the rain\tin {word}\n" for word in ("there", "a tin", "an hour")))
    (folder / "sentences.txt").write_text("".join(fixtures.text(4, i) for i in range(12)))
    questions = [{"question": f"what is {word}", "choices": ["the one", "another"], "answer": i % 2}
                 for i, word in enumerate(["rain", "tin", "hat"])]
    (folder / "questions.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    for seed, name in enumerate(("sql", "poems")):
        fixtures.write_adapter(folder / "SmolLM2-135M", folder / "adapters" / name, seed)
    (folder / "peers.csv").write_text("name,file_mb,kl\nQ8_0,145,0.0047\nQ4_K_M,105.5,0.056\n")


def make_missing(suite: Suite, folder: pathlib.Path, words: list[str]) -> None:
    """Makes the files that a command reads if no command before it wrote them."""
    written = {value for flag, value in zip(words, words[1:], strict=False) if flag == "-o"}
    for name, command in MADE.items():
        if name not in words or name in written or (folder / name).exists():
            continue
        made = page_commands.shortened([*command, "-o", name, "-q"])
        run = subprocess.run([*suite.program, *made], cwd=folder, capture_output=True, text=True, check=False)
        suite.check(f"'{' '.join(command)}' makes {name}", run.returncode == 0, run.stderr)
    if "mine.json" in words:
        make_missing(suite, folder, ["smollm2-w4a8"])
        shutil.copy(folder / "smollm2-w4a8" / "recipe.json", folder / "mine.json")


def run_page(suite: Suite, page: pathlib.Path, commands: list[Command], folder: pathlib.Path, mpirun: str) -> None:
    write_inputs(folder)
    runs = page_commands.PageCommands(suite, page, folder, mpirun)
    names = ANY_NAMES | ANY_NAMES_OF_PAGE.get(page.name, {})
    try:
        for command in commands:
            if command.program == "ballast":
                words = [names.get(word, word) for word in command.words]
                make_missing(suite, folder, words)
                # A page may show the same output name twice, made in two ways.
                for flag, value in zip(words, words[1:], strict=False):
                    if flag == "-o" and (folder / value).exists():
                        shutil.rmtree(folder / value) if (folder / value).is_dir() else (folder / value).unlink()
                command = Command(command.line, command.text, command.program, words, command.launcher)
            runs.run(command, stdin="the ship took on\n")
    finally:
        runs.stop()
