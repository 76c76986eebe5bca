"""Statistics as arrays are those of the program's JSON."""

import gc
import unittest

import ballast
import numpy as np
from support import WithModel, fixtures, program_json, require


class StatisticsArrays(WithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.statistics = ballast.calibrate(cls.model, cls.folder / "stats", text=cls.calibration, samples=3, length=32)
        cls.printed = program_json("calibrate", cls.model, "-o", cls.folder / "again", "--text", cls.calibration,
                                   "--samples", 3, "--length", 32)

    def test_layers(self):
        layers = self.printed["layers"]
        np.testing.assert_array_equal(self.statistics.medians, [layer["median"] for layer in layers])
        np.testing.assert_array_equal(self.statistics.massive_layers,
                                      [layer["layer"] for layer in layers if layer["massive"]])
        top = self.statistics.top_values
        for layer in layers:
            mine = top[top["layer"] == layer["layer"]]
            self.assertEqual(mine["channel"][:3].tolist(), [value["channel"] for value in layer["top"]])
            np.testing.assert_array_equal(mine["value"][:3], np.float32([value["value"] for value in layer["top"]]))
            self.assertTrue((np.diff(np.abs(mine["value"])) <= 0).all())

    def test_massive_values_are_large_absolutely_and_relative_to_the_median(self):
        massive = self.statistics.massive_activations
        self.assertTrue((np.abs(massive["value"]) > 100).all() and (massive["times_median"] >= 1000).all())
        self.assertEqual(set(massive["layer"]), set(self.statistics.massive_layers))

    def test_inputs(self):
        self.assertEqual(len(self.statistics.inputs), 9)  # 4 of each layer, and the head's
        by_name = {name: measured for measured in self.statistics.inputs for name in measured.linears}
        for linear in self.printed["linears"]:
            measured = by_name[linear["name"]]
            self.assertAlmostEqual(measured.absmax_ratio, linear["absmax_ratio"], places=6)
            self.assertEqual(measured.outlier_channels.tolist(), linear["outlier_channels"])
            np.testing.assert_array_equal(measured.absmax, np.maximum(np.abs(measured.min), np.abs(measured.max)))
            self.assertTrue((measured.mean_square >= measured.mean**2 - 1e-5).all())

    def test_sinks_and_keys(self):
        self.assertEqual(self.statistics.sink_share.shape, (2, 4))
        sinks = [[head["layer"], head["head"]] for head in self.printed["sink_heads"]]
        self.assertEqual(sorted(self.statistics.sink_heads.tolist()), sorted(sinks))
        self.assertEqual([pair.keys.min.size for pair in self.statistics.key_values], [32, 32])

    def test_experts_are_listed_for_each_layer_with_experts(self):
        self.assertEqual(self.statistics.experts, [])
        model = self.folder / "mixtral"
        fixtures.copy_model("mixtral", model)
        statistics = ballast.calibrate(model, text=self.calibration, samples=4, length=32)
        told = statistics.to_dict()["experts"]
        self.assertEqual([layer.layer for layer in statistics.experts], [layer["layer"] for layer in told])
        self.assertGreater(len(told), 0)
        for ours, printed in zip(statistics.experts, told, strict=True):
            self.assertEqual(ours.tokens.tolist(), printed["tokens"])
            self.assertEqual(ours.tokens.sum() % (4 * 32), 0)

    def test_arrays_share_the_values_and_outlive_the_statistics(self):
        statistics = ballast.Statistics.load(self.folder / "stats")
        share, tokens, least = statistics.sink_share, statistics.tokens, statistics.inputs[0].min
        self.assertFalse(least.flags.writeable)
        self.assertEqual(least.__array_interface__["data"], statistics.inputs[0].min.__array_interface__["data"])
        expected = share.copy(), tokens.copy(), least.copy()
        del statistics
        gc.collect()
        for array, copy in zip((share, tokens, least), expected, strict=True):
            np.testing.assert_array_equal(array, copy)

    def test_saved_statistics_load_unchanged(self):
        self.statistics.save(self.folder / "copy")
        self.assertEqual((self.folder / "copy").read_bytes(), (self.folder / "stats").read_bytes())
        with self.assertRaises(ballast.Error):
            self.statistics.save(self.folder / "copy")
        with self.assertRaises(ballast.Error):
            ballast.Statistics.load(self.text)

    def test_notebooks_show_the_page(self):
        shown = self.statistics._repr_html_()
        self.assertTrue(shown.startswith("<iframe srcdoc="))
        self.assertNotIn("<html", shown)  # escaped
        self.assertIn("&lt;html", shown)
        self.statistics.save_page(self.folder / "page.html")
        self.assertEqual((self.folder / "page.html").read_text(), self.statistics.page())

    def test_a_figure_shows_the_measured_values(self):
        matplotlib = require("matplotlib")
        matplotlib.use("agg")
        figure = self.statistics.plot()
        magnitudes, sinks, inputs = figure.axes[:3]
        top = self.statistics.top_values
        largest = [np.abs(top["value"][top["layer"] == layer]).max() for layer in range(3)]
        drawn = {line.get_label(): line.get_ydata() for line in magnitudes.lines}
        np.testing.assert_array_equal(drawn["largest"], largest)
        np.testing.assert_array_equal(drawn["median"], self.statistics.medians)
        np.testing.assert_array_equal(sinks.images[0].get_array(), self.statistics.sink_share)
        ratios = {line.get_label(): line.get_ydata() for line in inputs.lines}
        self.assertEqual(list(ratios), ["q_proj", "o_proj", "gate_proj", "down_proj"])
        np.testing.assert_array_equal(ratios["down_proj"], [measured.absmax_ratio for measured in self.statistics.inputs
                                                            if "down_proj" in measured.linears[0]])
        self.assertTrue(all(axes.get_xlabel() and axes.get_ylabel() and axes.get_title() for axes in figure.axes[:3]))
        figure.savefig(self.folder / "statistics.png")

    def test_a_data_frame_has_a_row_for_each_input(self):
        require("pandas")
        frame = self.statistics.to_pandas()
        self.assertEqual(len(frame), len(self.statistics.inputs))
        self.assertEqual(frame["channels"][0], 32)


if __name__ == "__main__":
    unittest.main()
