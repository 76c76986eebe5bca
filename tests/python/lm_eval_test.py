"""Compares the evaluation harness's results with the model's logits and, if torch is installed, with the harness's
hf."""

import json
import os
import signal
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np
from support import WithModel, fixtures, require

require("lm_eval")
from ballast.lm_eval import BallastLM  # noqa: E402
from lm_eval.api.instance import Instance  # noqa: E402


def instances(kind, arguments):
    return [Instance(kind, {}, entry, index) for index, entry in enumerate(arguments)]


PAIRS = [("the rain", " in a tin"), ("the rain", " on the hat"), ("", "the tin"), ("an other place", " is"),
         ("the rain in", " an"), (fixtures.text(30, 4), " the end")]
TEXTS = [("the rain in an other tin",), (fixtures.text(60, 5),)]
PROMPTS = [("the rain", {"until": ["q"], "max_gen_toks": 8}), ("an other", {"until": [], "max_gen_toks": 5}),
           (fixtures.text(40, 6), {"until": ["z"], "max_gen_toks": 6})]


class Harness(WithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ours = BallastLM(path=str(cls.model), batch_size=3)

    def logprobs(self, ids):
        logits = self.ours.model.logits(ids).astype(np.float64)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def test_loglikelihoods_follow_from_the_logits(self):
        results = self.ours.loglikelihood(instances("loglikelihood", PAIRS), disable_tqdm=True)
        for (context, continuation), (total, greedy) in zip(PAIRS[:2], results[:2], strict=True):
            ids = self.ours.tok_encode(context + continuation)
            first = len(self.ours.tok_encode(context))
            rows = self.logprobs(ids)[first - 1:-1]
            self.assertAlmostEqual(total, rows[np.arange(len(rows)), ids[first:]].sum(), places=4)
            self.assertEqual(greedy, (rows.argmax(axis=1) == ids[first:]).all())

    def test_several_requests_with_one_prompt_are_sampled_separately(self):
        prompt = ("the rain", {"until": [], "max_gen_toks": 8, "do_sample": True, "temperature": 2.0})
        tries = self.ours.generate_until(instances("generate_until", [prompt] * 4), disable_tqdm=True)
        self.assertGreater(len(set(tries)), 1)
        self.assertEqual(tries, self.ours.generate_until(instances("generate_until", [prompt] * 4), disable_tqdm=True))

    def test_greedy_continuations_are_reported(self):
        text = self.ours.model.generate("the rain", max_tokens=2, kv="f32", ignore_eos=True)
        context = self.ours.tok_encode("the rain")
        greedy = self.ours._loglikelihood_tokens([(None, context, text.ids.tolist())], disable_tqdm=True)
        self.assertTrue(greedy[0][1])
        other = [int(text.ids[0]), (int(text.ids[1]) + 1) % 60]
        self.assertFalse(self.ours._loglikelihood_tokens([(None, context, other)], disable_tqdm=True)[0][1])

    def test_results_do_not_depend_on_the_batch(self):
        alone = BallastLM(path=str(self.model), batch_size=1)
        for kind, arguments in (("loglikelihood", PAIRS), ("loglikelihood_rolling", TEXTS),
                                ("generate_until", PROMPTS)):
            requests = instances(kind, arguments)
            self.assertEqual(getattr(alone, kind)(requests, disable_tqdm=True),
                             getattr(self.ours, kind)(requests, disable_tqdm=True))

    def test_generations_end_before_stop_strings(self):
        texts = self.ours.generate_until(instances("generate_until", PROMPTS), disable_tqdm=True)
        whole = self.ours.model.generate("an other", max_tokens=5, kv="f32").text
        self.assertEqual(texts[1], whole)
        stopped = self.ours.generate_until(
            instances("generate_until", [("an other", {"until": [whole[2]], "max_gen_toks": 5})]), disable_tqdm=True)
        self.assertEqual(stopped[0], whole[:whole.index(whole[2])])

    def test_the_harnesss_command_runs_a_task(self):
        """Regression: the model was registered twice, which ended every command."""
        require("datasets")
        pages = self.place / "pages.jsonl"
        pages.write_text(json.dumps({"page": "the rain in an other tin"}) + "\n")
        task = {"task": "pages", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(pages)}},
                "test_split": "test", "output_type": "loglikelihood_rolling", "doc_to_text": "",
                "doc_to_target": "{{page}}", "metric_list": [{"metric": "bits_per_byte"}]}
        (self.place / "pages.yaml").write_text(json.dumps(task))  # which YAML holds, too
        run = subprocess.run([sys.executable, "-m", "ballast.lm_eval", "run", "--model", "ballast", "--model_args",
                              f"path={self.model}", "--tasks", "pages", "--include_path", str(self.place)],
                             capture_output=True, text=True,
                             env=os.environ | {"HF_HOME": str(self.place), "HF_DATASETS_OFFLINE": "1"})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"bits_per_byte\|.*\|\s*[1-9]")

    def test_unknown_model_arguments_are_refused(self):
        with self.assertRaisesRegex(ValueError, "path=MODEL is missing"):
            BallastLM()
        with self.assertRaisesRegex(ValueError, "unknown colour"):
            BallastLM(path=str(self.model), colour=1)

    def test_results_equal_those_of_the_harnesss_hf_model(self):
        try:
            import torch
            from lm_eval.models.huggingface import HFLM
        except ImportError:
            self.skipTest("torch is not installed")
        file = self.model / "tokenizer.json"
        tokenizer = json.loads(file.read_text())
        for token in tokenizer["added_tokens"]:
            token |= {"single_word": False, "lstrip": False, "rstrip": False}
        file.write_text(json.dumps(tokenizer))
        theirs = HFLM(pretrained=str(self.model), device="cpu", dtype=torch.float32, batch_size=2)
        self.assertEqual(self.ours.max_length, theirs.max_length)
        self.assertEqual(self.ours.prefix_token_id, theirs.prefix_token_id)
        self.assertEqual(self.ours.eot_token_id, theirs.eot_token_id)
        for kind, arguments in (("loglikelihood", PAIRS), ("loglikelihood_rolling", TEXTS)):
            requests = instances(kind, arguments)
            ours = getattr(self.ours, kind)(requests, disable_tqdm=True)
            np.testing.assert_allclose(np.array(ours, dtype=float),
                                       np.array(getattr(theirs, kind)(requests, disable_tqdm=True), dtype=float),
                                       rtol=1e-4)
        requests = instances("generate_until", PROMPTS)
        self.assertEqual(self.ours.generate_until(requests, disable_tqdm=True),
                         theirs.generate_until(requests, disable_tqdm=True))


class Interrupts(WithModel):
    """Regression: Ctrl-C waited for all requests of the slices that ran."""

    def setUp(self):
        super().setUp()
        self.ours = BallastLM(path=str(self.model), batch_size=3)
        self.done = 0

    def interrupt(self, *_):
        """A hook of results that sends Ctrl-C at the first one."""
        self.done += 1
        if self.done == 1:
            signal.raise_signal(signal.SIGINT)

    def test_ctrl_c_ends_a_run_between_requests(self):
        self.ours.cache_hook.add_partial = self.interrupt
        requests = [(("a", str(i)), [1, 9], [10]) for i in range(200_000)]
        with self.assertRaises(KeyboardInterrupt):
            self.ours._loglikelihood_tokens(requests, disable_tqdm=True)
        self.assertGreater(self.done, 0)
        self.assertLess(self.done, 200_000 / 12)  # a slice

    def test_ctrl_c_ends_a_text_without_end(self):
        plain = self.ours.model.generate

        def endless(prompt, **options):
            self.interrupt()
            return plain(prompt, **options | {"max_tokens": 10**9, "ignore_eos": True, "window": 20, "sinks": 4})

        with mock.patch.object(self.ours.model, "generate", endless), self.assertRaises(KeyboardInterrupt):
            self.ours.generate_until(instances("generate_until", PROMPTS), disable_tqdm=True)

    def test_an_error_ends_the_other_requests(self):
        first = ("", {"until": [], "max_gen_toks": 64})
        requests = instances("generate_until", [*PROMPTS * 4000, first])
        plain = self.ours.model.generate

        def counted(prompt, **options):
            self.done += 1
            return plain(prompt, **options)

        with mock.patch.object(self.ours.model, "generate", counted), self.assertRaisesRegex(ValueError, "no room"):
            self.ours.generate_until(requests, disable_tqdm=True)
        self.assertLess(self.done, 12_000 / 12)


if __name__ == "__main__":
    unittest.main()
