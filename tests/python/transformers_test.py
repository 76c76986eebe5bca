"""Models of transformers in memory are converted like their files."""

import shutil
import unittest

import ballast
import numpy as np
from support import WithModel

try:
    import torch
    from transformers import AutoModelForCausalLM
except ImportError:
    raise unittest.SkipTest("torch and transformers are not installed") from None


class FileTokenizer:
    """A tokenizer with transformers' interface of saving; transformers itself cannot read the tiny model's."""

    def __init__(self, folder):
        self.folder = folder

    def save_pretrained(self, place):
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(self.folder / name, place)
        (place / "additional_chat_templates").mkdir()  # as transformers does where there are several
        (place / "additional_chat_templates" / "tool_use.jinja").write_text("{{ messages }}")


class Transformers(WithModel):
    def test_a_model_object_is_converted_like_its_files(self):
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.bfloat16)
        statistics = ballast.calibrate(self.model, text=self.calibration, samples=2, length=32)
        for name, source in (("object", model), ("files", self.model)):
            ballast.convert(source, self.place / name, scheme="w8a8", stats=statistics)
        ids = np.arange(1, 9)
        np.testing.assert_array_equal(ballast.Model(self.place / "object").logits(ids),
                                      ballast.Model(self.place / "files").logits(ids))

    def test_logits_equal_those_of_transformers(self):
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.float32)
        ids = torch.arange(1, 9)
        with torch.no_grad():
            expected = model(ids[None]).logits[0].numpy()
            hidden = model(ids[None], output_hidden_states=True).hidden_states
        ours = ballast.Model(self.model)
        np.testing.assert_allclose(ours.logits(ids), expected, atol=1e-4)
        np.testing.assert_allclose(ours.activations(ids, 1), hidden[1][0].numpy(), atol=1e-4)

    def test_an_interrupted_conversion_resumes(self):
        """Regression: the key of progress had the times of the files to which such a model is saved for each call."""
        model = AutoModelForCausalLM.from_pretrained(self.model, dtype=torch.bfloat16)
        tokenizer = FileTokenizer(self.model)
        statistics = ballast.calibrate(self.model, text=self.calibration, samples=2, length=32)

        def convert(progress):
            ballast.convert(model, self.place / "out", tokenizer=tokenizer, scheme="w8a8", stats=statistics,
                            progress=progress)

        def interrupt(stage, done, total):
            if stage == "converting" and done == total:
                raise InterruptedError

        with self.assertRaises(InterruptedError):
            convert(interrupt)
        with self.assertWarnsRegex(RuntimeWarning, "going on after block"):
            convert(False)
        self.assertTrue((self.place / "out" / "config.json").exists())

    def test_a_tokenizer_with_a_path_is_refused(self):
        with self.assertRaisesRegex(TypeError, "only for a model object"):
            ballast.convert(self.model, self.place / "out", tokenizer=object())


if __name__ == "__main__":
    unittest.main()
