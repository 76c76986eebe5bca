"""Recipes: schemes, flags, files."""

import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

import ballast


class Recipes(unittest.TestCase):
    def test_every_scheme_has_a_recipe(self):
        for scheme in ballast.schemes():
            self.assertEqual(ballast.Recipe(scheme).scheme, scheme)
        with self.assertRaisesRegex(ballast.Error, "unknown; there are f32"):
            ballast.Recipe("w2a2")

    def test_flags_change_fields_and_leave_others(self):
        plain = ballast.Recipe("w4a16").to_dict()
        changed = ballast.Recipe("w4a16", rounding="nearest", rotate_values=True, format={"down": "int8-g64"}).to_dict()
        self.assertEqual(changed.pop("rounding"), "nearest")
        self.assertEqual(changed.pop("rotate_values"), True)
        self.assertEqual(changed.pop("exceptions"), [{"pattern": "down", "format": "int8-g64"}])
        self.assertEqual(changed, {name: value for name, value in plain.items()
                                   if name not in ("rounding", "rotate_values", "exceptions")})

    def test_what_names_formats_lets_none_be_chosen(self):
        self.assertEqual(ballast.Recipe("w4a16").to_dict()["target_bytes"], "natural")
        self.assertEqual(ballast.Recipe("w4a16", group_size=64).to_dict()["target_bytes"], 0)
        self.assertEqual(ballast.Recipe("w4a16", bits=5, group_size=32, symmetric=False).to_dict()["linears"],
                         "int5-g32-asym")
        self.assertEqual(ballast.Recipe("w8a8", group_size="channel", scale_bits=16).to_dict()["linears"],
                         "int8-channel")

    def test_sizes_are_read_as_the_program_reads_them(self):
        for text, size in [("92MB", 92_000_000), ("1.5GiB", 3 << 29), ("40 kb", 40_000), (1234, 1234), ("77", 77)]:
            self.assertEqual(ballast.Recipe("w4a16", target_size=text).to_dict()["target_bytes"], size)
        for text in ["", "MB", "1XB", "-3MB", "nan", 0]:
            with self.assertRaisesRegex(ValueError, "target_size"):
                ballast.Recipe("w4a16", target_size=text)

    def test_contradictions_are_refused(self):
        for scheme, flags in [("f32", {"bits": 4}), ("w4a16", {"target_size": "9MB", "bits": 4}),
                              ("bf16", {"target_size": "9MB"}), ("w8a16", {"activation_scales": "group"}),
                              ("w8a8", {"rounding": "up"}), ("w8a8", {"outliers": 0.6}),
                              ("w8a8", {"wide_inputs": 2}), ("w8a16", {"wide_inputs": 0.3}),
                              ("w8a8", {"wide_inputs": 0.3, "group_size": 64}),
                              ("w8a8", {"group_size": "channel", "scale_bits": 8})]:
            with self.subTest(scheme=scheme, **flags), self.assertRaises(ValueError):
                ballast.Recipe(scheme, **flags)
        with self.assertRaises(ballast.Error):
            ballast.Recipe("w8a8", embedding="int99")
        with self.assertRaisesRegex(ballast.Error, "unknown field 'colour'"):
            ballast.Recipe.from_dict({"colour": 1})

    def test_a_file_gives_the_recipe_again(self):
        recipe = ballast.Recipe("w4a8", target_size="9MB", prefix=[3, 1])
        self.assertEqual(recipe.to_dict()["prefix"], "3,1")
        with TemporaryDirectory() as folder:
            file = Path(folder) / "recipe.json"
            recipe.save(file)
            self.assertEqual(ballast.Recipe.load(file), recipe)
            self.assertEqual(hash(ballast.Recipe.load(file)), hash(recipe))
            self.assertNotEqual(ballast.Recipe.load(file, rotate=True), recipe)
        self.assertEqual(recipe.changed(prefix="none"), ballast.Recipe("w4a8", target_size="9MB"))
        self.assertEqual(eval(repr(recipe), {"Recipe": ballast.Recipe}), recipe)


if __name__ == "__main__":
    unittest.main()
