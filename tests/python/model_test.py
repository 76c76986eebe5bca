"""Models: text to ids and back, logits, scores, vectors, generations."""

import asyncio
import gc
import json
import os
import pathlib
import shutil
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import ballast
import numpy as np
from ballast._ballast import CacheType
from support import MODELS, WithModel, fixtures

from scripted_model import CHATML, ScriptedModel, tokens_of  # isort: skip

PROMPT = "the rain in"


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Models(WithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.llama = ballast.Model(cls.model)

    def test_ids_decode_to_the_text(self):
        tokenizer = self.llama.tokenizer
        ids = tokenizer.encode(PROMPT)
        self.assertEqual(ids[0], 1)
        self.assertEqual(tokenizer.encode(PROMPT, special_tokens=False), ids[1:])
        self.assertEqual(tokenizer.decode(ids), PROMPT)
        self.assertEqual(b"".join(map(tokenizer.token_bytes, ids[1:])).decode(), " " + PROMPT)
        self.assertIn("<|im_start|>user\nhi<|im_end|>", tokenizer.chat_prompt("hi"))

    def test_a_model_without_a_tokenizer_raises_an_error_for_text(self):
        with self.assertRaises(ballast.Error):
            ballast.Model(MODELS / "llama3").tokenizer.encode("a")

    def test_logits_equal_the_expected_ones_of_verify(self):
        ids = np.arange(1, 9)
        logits = self.llama.logits(ids)
        self.assertEqual((logits.shape, logits.dtype), ((8, self.llama.vocab_size), np.float32))
        for form in (list(ids), tuple(ids), ids.astype(np.int32), ids.astype(np.uint8), np.repeat(ids, 2)[::2]):
            np.testing.assert_array_equal(self.llama.logits(form), logits)
        np.testing.assert_array_equal(np.from_dlpack(logits), logits)

    def test_adapters_change_logits_and_texts_of_the_calls_that_have_them(self):
        with tempfile.TemporaryDirectory() as folder:
            large, path = pathlib.Path(folder) / "large", pathlib.Path(folder) / "adapter"
            fixtures.write_large_model(large)
            fixtures.write_adapter(large, path)
            model = ballast.Model(large)
            adapter, none = model.load_adapter(path), model.load_adapter(path, scale=0)
            ids = [1, 2, 3, 4]
            plain = model.logits(ids)
            self.assertGreater(np.abs(model.logits(ids, adapter=adapter) - plain).max(), 0.01)
            np.testing.assert_allclose(model.logits(ids, adapter=none), plain, atol=1e-5)
            flags = {"max_tokens": 8, "ignore_eos": True}
            texts = [str(model.generate(PROMPT, **flags)), str(model.generate(PROMPT, adapter=adapter, **flags))]
            self.assertEqual(texts, [str(model.generate(PROMPT, adapter=none, **flags)),
                                     str(ballast.Model(path).generate(PROMPT, **flags))])
            with self.assertRaises(ballast.Error):
                model.load_adapter(large)

    def test_chats_use_the_models_generation_defaults_unless_a_call_sets_others(self):
        self.assertEqual(self.llama.generation_defaults, {})
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model"
            shutil.copytree(self.model, path)
            said = {"temperature": 1.5, "top_k": 20}
            (path / "generation_config.json").write_text(json.dumps({"do_sample": True, **said}))
            model = ballast.Model(path)
            plain = ballast.Model(path, generation_config="none")
            self.assertEqual((model.generation_defaults, plain.generation_defaults), (said, {}))
            flags = {"max_tokens": 12, "seed": 3}
            self.assertEqual(str(model.chat(PROMPT, **flags)), str(plain.chat(PROMPT, **flags, **said)))
            self.assertEqual(str(model.chat(PROMPT, **flags, temperature=0)), str(plain.chat(PROMPT, **flags)))
            self.assertEqual(str(model.generate(PROMPT, **flags)), str(plain.generate(PROMPT, **flags)))
        with self.assertRaises(ValueError):
            ballast.Model(self.model, generation_config="file")

    def test_invalid_ids_are_refused(self):
        for ids, error in [([0.5], TypeError), ([[1]], ValueError), ([2**40], ValueError), ([-1], ValueError),
                           ([], ballast.Error), ([67], ballast.Error), ([1] * 65, ballast.Error)]:
            with self.subTest(ids), self.assertRaises(error):
                self.llama.logits(ids)

    def test_activations_are_the_same_as_in_calibration(self):
        statistics = ballast.calibrate(self.model, text=self.calibration, samples=2, length=32)
        for layer in range(self.llama.layers + 1):
            rows = [self.llama.activations(sample, layer) for sample in statistics.tokens]
            self.assertEqual(rows[0].shape, (32, self.llama.hidden_size))
            top = statistics.top_values[statistics.top_values["layer"] == layer]
            self.assertGreater(top.size, 0)
            for value in top:
                measured = rows[value["sample"]][value["position"], value["channel"]]
                self.assertAlmostEqual(measured, value["value"], places=4)
        with self.assertRaisesRegex(ballast.Error, "the model has 2"):
            self.llama.activations([1], 3)

    def test_a_score_is_the_log_softmax_of_logits(self):
        score = self.llama.score(PROMPT)
        logits = self.llama.logits(score.ids).astype(np.float64)
        log_softmax = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected = log_softmax[np.arange(score.ids.size - 1), score.ids[1:]]
        np.testing.assert_allclose(score.logprobs, expected, atol=1e-5)
        self.assertAlmostEqual(score.perplexity, float(np.exp(-expected.mean())), places=3)

    def test_torch_tensors_are_accepted_and_returned_without_copies(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        logits = self.llama.logits(torch.arange(1, 9))
        np.testing.assert_array_equal(logits, self.llama.logits(list(range(1, 9))))
        self.assertEqual(torch.from_dlpack(logits).data_ptr(), logits.ctypes.data)

    def test_vectors_do_not_depend_on_the_other_texts_of_a_call(self):
        vectors = self.llama.embed(["a tin", "the rain"])
        self.assertEqual(vectors.shape, (2, self.llama.hidden_size))
        np.testing.assert_array_equal(self.llama.embed("the rain"), vectors[1])
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        with self.assertRaisesRegex(ValueError, "pooling: 'max' is unknown; there are mean, cls, last"):
            self.llama.embed("a", pooling="max")

    def test_prompts_and_dimensions_of_vectors_are_options(self):
        short = self.llama.embed("a tin", dimensions=3)
        self.assertEqual(short.shape, (3,))
        np.testing.assert_allclose(np.linalg.norm(short), 1, atol=1e-5)
        with self.assertRaisesRegex(ballast.Error, "prompt name: 'query' is unknown; the model has no prompts"):
            self.llama.embed("a tin", prompt_name="query")

    def test_models_without_heads_of_tokens_refuse_what_they_make(self):
        with self.assertRaisesRegex(ballast.Error, "has no sparse_linear.pt"):
            self.llama.embed_sparse(["a tin"])
        with self.assertRaisesRegex(ballast.Error, "has no colbert_linear.pt"):
            self.llama.embed_tokens(["a tin"])

    def test_texts_and_pairs_are_classified(self):
        fixtures.copy_classifier("bert_texts", self.folder / "labels")
        model = ballast.Model(self.folder / "labels")
        self.assertEqual(model.labels, ["LABEL_0", "LABEL_1", "LABEL_2"])
        one = model.classify("the rain")
        several = model.classify(["a tin", "the rain"])
        np.testing.assert_array_equal(several[1].scores, one.scores)
        self.assertAlmostEqual(float(one.scores.sum()), 1, places=5)
        self.assertEqual(one.label, model.labels[one.scores.argmax()])
        raw = model.classify("the rain", raw_scores=True).scores
        np.testing.assert_allclose(np.exp(raw) / np.exp(raw).sum(), one.scores, rtol=1e-4)
        pair = model.classify([("the rain", "a tin")])[0]
        self.assertFalse(np.allclose(pair.scores, one.scores))
        with self.assertRaisesRegex(ballast.Error, "has no classifier"):
            self.llama.classify("a")

    def test_tokens_are_classified(self):
        fixtures.copy_classifier("roberta_tokens", self.folder / "tagger")
        result = ballast.Model(self.folder / "tagger").classify("the rain")
        self.assertEqual("".join(result.tokens).strip(), "the rain")
        self.assertEqual(result.scores.shape, (len(result.tokens), 4))
        self.assertEqual(len(result.label), len(result.tokens))

    def test_documents_are_ranked_by_a_classifier_or_by_vectors(self):
        fixtures.copy_classifier("modernbert_texts", self.folder / "reranker")
        model = ballast.Model(self.folder / "reranker")
        documents = ["a tin", "in there"]
        pairs = model.classify([("the rain", document) for document in documents])
        np.testing.assert_array_equal(model.rerank("the rain", documents), [pair.scores[0] for pair in pairs])
        fixtures.copy_model("bert", self.folder / "vectors")
        cosines = ballast.Model(self.folder / "vectors").rerank("a tin", documents)
        self.assertAlmostEqual(float(cosines[0]), 1, places=5)
        with self.assertRaisesRegex(ballast.Error, "trained neither for scores nor for vectors"):
            self.llama.rerank("a tin", documents)

    def test_texts_are_written_from_source_texts(self):
        fixtures.copy_translator("t5", self.folder / "translator")
        model = ballast.Model(self.folder / "translator")
        texts = ["the rain", "a tin"]
        best = model.translate(texts, beams=3, hypotheses=3, max_tokens=6)
        self.assertEqual([len(text.others) for text in best], [2, 2])
        self.assertGreaterEqual(best[0].score, best[0].others[0].score)
        ids = [model.tokenizer.encode(text) for text in texts]
        self.assertEqual([text.tokens for text in model.translate(ids, beams=3, hypotheses=3, max_tokens=6)],
                         [text.tokens for text in best])
        self.assertEqual(model.translate(texts[0], max_tokens=6).text, model.generate(texts[0], max_tokens=6).text)
        with self.assertRaisesRegex(ballast.Error, "has no encoder"):
            self.llama.translate(texts)

    def test_a_greedy_generation_chooses_the_largest_logits(self):
        generation = self.llama.generate(PROMPT, max_tokens=6, kv="f32", ignore_eos=True, logprobs=2)
        ids = self.llama.tokenizer.encode(PROMPT)
        self.assertEqual(generation.prompt_tokens, len(ids))
        for id_, logprob, top in zip(generation.ids, generation.logprobs, generation.top, strict=True):
            row = self.llama.logits(ids)[-1]
            self.assertEqual(id_, row.argmax())
            self.assertAlmostEqual(logprob, row.max() - np.log(np.exp(row.astype(np.float64)).sum()), places=4)
            self.assertEqual((len(top), top[0][0]), (2, id_))
            ids.append(int(id_))
        self.assertEqual(generation.finish, "length")

    def test_ids_and_text_have_the_same_continuation_which_depends_on_the_seed(self):
        options = {"max_tokens": 8, "temperature": 1.5, "ignore_eos": True}
        one = self.llama.generate(PROMPT, seed=1, **options)
        same = self.llama.generate(np.array(self.llama.tokenizer.encode(PROMPT)), seed=1, **options)
        np.testing.assert_array_equal(one.ids, same.ids)
        others = [self.llama.generate(PROMPT, seed=seed, **options).ids.tolist() for seed in range(2, 6)]
        self.assertTrue(any(other != one.ids.tolist() for other in others))

    def test_the_last_context_is_cached(self):
        model = ballast.Model(self.model)
        model.generate(PROMPT + " an other place", max_tokens=1)
        self.assertGreater(model.generate(PROMPT + " an other hat", max_tokens=1).cached_tokens, 3)

    def test_stop_strings_end_a_text(self):
        text = self.llama.generate(PROMPT, max_tokens=8, ignore_eos=True).text
        stop = text[3:5]
        cut = self.llama.generate(PROMPT, max_tokens=8, ignore_eos=True, stop=stop)
        self.assertEqual(cut.text, text[:text.index(stop)])
        self.assertEqual(cut.finish, "stop")

    def test_logit_bias_forces_a_token(self):
        generation = self.llama.generate(PROMPT, max_tokens=3, logit_bias={9: 100}, ignore_eos=True)
        self.assertEqual(generation.ids.tolist(), [9, 9, 9])

    def test_unknown_arguments_are_refused(self):
        with self.assertRaisesRegex(TypeError, "unknown arguments: tempreature"):
            self.llama.generate(PROMPT, tempreature=1)
        with self.assertRaises(ballast.Error):
            self.llama.generate([1] * 64)

    def test_a_chat_continues_its_prompt(self):
        options = {"max_tokens": 5, "ignore_eos": True}
        turns = [{"role": "user", "content": "the rain"}]
        by_hand = self.llama.tokenizer.encode(self.llama.tokenizer.chat_prompt(turns), special_tokens=False)
        self.assertEqual(self.llama.chat(turns, **options).text, self.llama.generate(by_hand, **options).text)
        self.assertEqual(self.llama.chat("the rain", **options).text, self.llama.chat(turns, **options).text)

    def test_concurrent_generations_give_the_same_as_single_ones(self):
        prompts = [f"the rain in {'tin ' * i}" for i in range(8)]
        options = {"max_tokens": 12, "temperature": 1, "seed": 3, "ignore_eos": True}
        alone = [self.llama.generate(prompt, **options).ids.tolist() for prompt in prompts]
        with ThreadPoolExecutor(8) as pool:
            beside = list(pool.map(lambda prompt: self.llama.generate(prompt, **options).ids.tolist(), prompts))
        self.assertEqual(beside, alone)

    def test_types_of_caches_are_listed_and_others_refused(self):
        self.assertEqual(set(CacheType.__members__), {"auto", "f32", "f16", "int8"})
        with self.assertRaisesRegex(ValueError, "kv"):
            self.llama.generate(PROMPT, kv="bf16")


class Streams(WithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.llama = ballast.Model(cls.model)
        cls.options = {"max_tokens": 24, "ignore_eos": True, "draft_tokens": 0}
        cls.whole = cls.llama.generate(PROMPT, **cls.options)

    def test_the_pieces_of_a_stream_are_the_text(self):
        stream = self.llama.generate(PROMPT, stream=True, **self.options)
        self.assertEqual("".join(stream), self.whole.text)
        np.testing.assert_array_equal(stream.result.ids, self.whole.ids)
        self.assertEqual(list(stream), [])

    def test_the_result_of_a_stream_waits_for_its_end(self):
        stream = self.llama.generate(PROMPT, stream=True, **self.options)
        self.assertEqual(stream.result.text, self.whole.text)

    def test_reasoning_is_separate_from_the_answer(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        template = CHATML + "{{ messages[-1].mood.kind }}{# <think> #}"
        scripted = ScriptedModel(pathlib.Path(work.name) / "model", template)
        prompt = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\ngood"
        scripted.write("<think>\nhm\n</think>\n\nyes", len(tokens_of(prompt, scripted.special)))
        model = ballast.Model(scripted.folder)
        options = {"max_tokens": 64}
        turns = [{"role": "user", "content": "a", "mood": {"kind": "good"}}]
        self.assertEqual(model.tokenizer.chat_prompt(turns), prompt)
        whole = model.chat(turns, **options)
        self.assertEqual((whole.thinking, whole.text, str(whole)), ("hm", "yes", "yes"))
        self.assertEqual("".join(model.chat(turns, stream=True, **options)), "yes")
        kinds = {"thinking": "", "answer": ""}
        stream = model.chat(turns, stream=True, **options)
        for part in stream.parts():
            kinds[part.kind] += part.text
        self.assertEqual(kinds, {"thinking": "hm", "answer": "yes"})
        self.assertEqual(stream.result.thinking, "hm")
        plain = model.chat(turns, reply_format="none", **options)
        self.assertEqual((plain.thinking, plain.text), ("", "<think>\nhm\n</think>\n\nyes"))
        with self.assertRaises(ballast.Error):
            model.chat(turns, reply_format="thonk", **options)

        async def read():
            return [part.kind async for part in model.chat(turns, stream=True, **options).parts()]
        self.assertEqual(set(asyncio.run(read())), {"thinking", "answer"})

    def test_calls_of_tools_are_separate_from_the_answer(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        scripted = ScriptedModel(pathlib.Path(work.name) / "model", CHATML + "{# tools <tool_call> #}")
        prompt = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
        call = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
        scripted.write(f"Sure.\n{call}", len(tokens_of(prompt, scripted.special)))
        model = ballast.Model(scripted.folder)
        tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
        whole = model.chat("a", max_tokens=128, tools=tools)
        self.assertEqual((whole.text, whole.tool_calls), ("Sure.", [ballast.ToolCall("add", {"a": 1})]))
        stream = model.chat("a", max_tokens=128, tools=tools, stream=True)
        parts = list(stream.parts())
        self.assertEqual("".join(part.text for part in parts if part.kind == "tool_arguments"), '{"a": 1}')
        self.assertEqual([part.text for part in parts if part.kind == "tool_name"], ["add"])
        self.assertEqual(stream.result.tool_calls, whole.tool_calls)
        plain = model.chat("a", max_tokens=128)
        self.assertEqual((plain.text, plain.tool_calls), (f"Sure.\n{call}", []))
        cut = model.chat("a", max_tokens=40, tools=tools, stream=True)
        self.assertEqual("".join(cut), f"Sure.\n{call}"[:40])
        self.assertEqual(cut.result.tool_calls, [])
        with self.assertRaisesRegex(ballast.Error, "needs a function with a name"):
            model.chat("a", tools=[{}])

    def test_async_streams_run_concurrently(self):
        async def read(stream):
            return "".join([piece async for piece in stream])

        async def read_all():
            return await asyncio.gather(*(read(self.llama.generate(PROMPT, stream=True, **self.options))
                                          for _ in range(4)))

        self.assertEqual(asyncio.run(read_all()), [self.whole.text] * 4)

    def test_errors_of_a_stream_are_raised_by_the_loop_and_the_result(self):
        with self.assertRaises(ballast.Error):
            list(self.llama.generate([1] * 64, stream=True))
        stream = self.llama.generate([1] * 64, stream=True)
        for _ in range(2):
            with self.assertRaises(ballast.Error):
                _ = stream.result

    def test_a_closed_stream_ends_early(self):
        model, options = self.long_model()
        stream = model.generate(PROMPT, stream=True, **options)
        next(stream)
        stream.close()
        self.assertEqual(stream.result.finish, "cancelled")
        self.assertLess(len(stream.result.ids), options["max_tokens"])

    def long_model(self):
        """Returns a model whose texts never end, because its cache is rolling."""
        return self.llama, {"max_tokens": 10_000_000, "ignore_eos": True, "draft_tokens": 0, "window": 20, "sinks": 4}

    def test_forgotten_streams_leave_no_threads_and_no_memory(self):
        model, options = self.long_model()
        before = resident_bytes()
        for i in range(100):
            stream = model.generate(PROMPT, stream=True, **options)
            for _ in range(i % 5):
                next(stream)
            del stream
        gc.collect()
        end = time.monotonic() + 30
        while any(thread.name == "ballast-generation" for thread in threading.enumerate()):
            self.assertLess(time.monotonic(), end, "a forgotten stream still generates")
            time.sleep(0.01)
        self.assertLess(resident_bytes() - before, 100e6)

    def test_a_cancelled_task_ends_its_generation(self):
        model, options = self.long_model()

        async def read():
            async for _ in model.generate(PROMPT, stream=True, **options):
                pass

        async def cancel():
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(read(), 0.2)

        asyncio.run(cancel())
        for thread in threading.enumerate():
            if thread.name == "ballast-generation":
                thread.join(10)
                self.assertFalse(thread.is_alive())


if __name__ == "__main__":
    unittest.main()
