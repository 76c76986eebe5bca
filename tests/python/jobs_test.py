"""Jobs have the results and the errors of the program."""

import contextlib
import dataclasses
import io
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import unittest.mock
from pathlib import Path

import ballast
from ballast._hub import HubError
from ballast.results import Fold, from_fields
from support import PROGRAM, WithModel, file_bytes, fixtures, program_json, require


class Jobs(WithModel):
    def test_inspect_returns_the_programs_object(self):
        inspection = ballast.inspect(self.model)
        printed = program_json("inspect", self.model)
        self.assertEqual(inspection.details, printed)
        self.assertEqual(inspection.architecture, "llama")
        self.assertEqual(inspection.parameters, printed["parameters"])
        self.assertEqual([dataclasses.asdict(group) for group in inspection.tensor_groups], printed["tensor_groups"])

    def test_calibrate_writes_the_same_bytes_as_the_program(self):
        ours, theirs = self.place / "ours", self.place / "theirs"
        arguments = {"samples": 3, "length": 32, "seed": 5}
        ballast.calibrate(self.model, ours, text=self.calibration, report=self.place / "ours.html", **arguments)
        program_json("calibrate", self.model, "-o", theirs, "--text", self.calibration, "--samples", 3, "--length", 32,
                     "--seed", 5, "--report", self.place / "theirs.html")
        self.assertEqual(ours.read_bytes(), theirs.read_bytes())
        self.assertEqual((self.place / "ours.html").read_text(), (self.place / "theirs.html").read_text())
        self.assertEqual(sorted(path.name for path in self.place.iterdir()),
                         ["ours", "ours.html", "theirs", "theirs.html"])

    def test_calibrate_without_text_or_output_samples_the_model(self):
        statistics = ballast.calibrate(self.model, samples=2, length=16)
        self.assertEqual(statistics.text, "sampled from the model")
        self.assertEqual(statistics.tokens.shape, (2, 16))

    def test_calibrate_keeps_an_existing_file_unless_forced(self):
        place = self.place / "statistics"
        place.write_text("precious")
        with self.assertRaisesRegex(ballast.Error, "exists already"):
            ballast.calibrate(self.model, place, text=self.calibration, samples=2, length=16)
        self.assertEqual(place.read_text(), "precious")
        ballast.calibrate(self.model, place, text=self.calibration, samples=2, length=16, force=True)
        self.assertEqual(ballast.Statistics.load(place).samples, 2)

    def test_calibrate_refuses_a_missing_folder_before_it_begins(self):
        for keywords in ({"output": self.place / "no" / "stats"}, {"report": self.place / "no" / "page.html"}):
            with self.assertRaisesRegex(ballast.FileError, "is not a folder"):
                ballast.calibrate(self.model, text=self.place / "not looked at", **keywords)

    def test_evaluate_reports_experts_on_disk(self):
        model = self.place / "mixtral"
        fixtures.copy_model("mixtral", model)
        arguments = {"text": self.text, "chunks": 1, "context": 32}
        self.assertIsNone(ballast.evaluate(model, **arguments).experts)
        figures = ballast.evaluate(model, expert_memory="1MB", **arguments).experts
        self.assertGreater(figures.used, 0)
        self.assertLessEqual(figures.in_memory, figures.experts)

    def test_use_processor_keeps_options_that_are_not_given(self):
        """Runs in a separate process, because this one must continue."""
        code = ("import ballast\nballast.use_processor(threads=1)\nballast.use_processor(engine='ballast')\n"
                "result = ballast.benchmark({!r}, prompt=8, generate=0, repetitions=1)\nprint(result.machine.threads)")
        run = subprocess.run([sys.executable, "-c", code.format(str(self.model))], capture_output=True, text=True)
        self.assertEqual(run.stdout, "1\n", run.stderr)

    def test_plan_accepts_bits_per_weight(self):
        weights = ballast.inspect(self.model).parameters
        by_size = ballast.plan(self.model, scheme="w4a16", target_size=int(1.5 * weights))
        self.assertEqual(ballast.plan(self.model, scheme="w4a16", target_bpw=12.0).most_bytes, by_size.most_bytes)

    def test_convert_writes_the_same_bytes_as_the_program(self):
        for name, keywords, flags in [
            ("w8a8", {}, []),
            ("w4a16", {"rounding": "nearest", "group_size": 32, "symmetric": False},
             ["--rounding", "nearest", "--group-size", "32", "--asymmetric"]),
            ("w4a8", {"target_size": "40kB", "preset": "fast"}, ["--target-size", "40kB", "--preset", "fast"]),
            ("w8a8", {"outliers": 0.03, "smooth": False, "format": {"down_proj": "int8-g32"}},
             ["--outliers", "3%", "--no-smooth", "--format", "down_proj=int8-g32"]),
            ("w8a8", {"wide_inputs": 0.4}, ["--wide-inputs", "40%"]),
            ("bf16", {"rotate_values": True, "fold_norms": False}, ["--rotate-values", "--no-fold-norms"]),
        ]:
            with self.subTest(name, **keywords):
                ours, theirs = self.place / "ours", self.place / "theirs"
                report = ballast.convert(self.model, ours, scheme=name, text=self.calibration, samples=2, force=True,
                                         **keywords)
                printed = program_json("convert", self.model, "-o", theirs, "--scheme", name, "--text",
                                       self.calibration, "--samples", 2, "--force", *flags)
                self.assertEqual(report.bytes_after, printed["bytes_after"])
                self.assertEqual(report.notes, printed["notes"])
                self.assertEqual([group.format for group in report.groups],
                                 [group["format"] for group in printed["groups"]])
                self.assertEqual(file_bytes(ours), file_bytes(theirs))

    def test_convert_accepts_statistics_as_an_object_or_as_a_file(self):
        statistics = ballast.calibrate(self.model, self.place / "stats", text=self.calibration, samples=2, length=32)
        ballast.convert(self.model, self.place / "a", scheme="w8a8", stats=statistics)
        ballast.convert(self.model, self.place / "b", scheme="w8a8", stats=self.place / "stats")
        self.assertEqual(file_bytes(self.place / "a"), file_bytes(self.place / "b"))
        with self.assertRaisesRegex(ValueError, "exclude each other"):
            ballast.convert(self.model, self.place / "c", stats=statistics, text=self.calibration)

    def test_convert_keeps_to_the_size_of_bits_per_weight(self):
        report = ballast.convert(self.model, self.place / "out", scheme="w4a16", target_bpw=11.5,
                                 text=self.calibration, samples=2)
        self.assertLessEqual(report.bytes_after, 11.5 * ballast.inspect(self.model).parameters / 8)
        self.assertIsNotNone(report.expected_divergence)

    def test_convert_refuses_the_same_options_as_the_program(self):
        with self.assertRaisesRegex(ValueError, "to: 'onnx' is unknown; there are ballast, gguf"):
            ballast.convert(self.model, self.place / "out", to="onnx")
        with self.assertRaisesRegex(ValueError, "preset"):
            ballast.convert(self.model, self.place / "out", preset="slow")
        with self.assertRaisesRegex(ballast.Error, "unknown; there are f32"):
            ballast.convert(self.model, self.place / "out", scheme="w3a3")
        with self.assertRaisesRegex(TypeError, "unknown flags of a recipe: colour"):
            ballast.convert(self.model, self.place / "out", colour="red")
        with self.assertRaisesRegex(TypeError, "a path or a model of transformers"):
            ballast.convert(3, self.place / "out")
        self.assertEqual(list(self.place.iterdir()), [])

    def test_plan_and_explain_return_the_programs_objects(self):
        plan = ballast.plan(self.model, scheme="w4a16")
        printed = program_json("convert", self.model, "--dry-run", "--scheme", "w4a16")
        self.assertEqual((plan.least_bytes, plan.most_bytes, plan.calibrates),
                         (printed["least_bytes"], printed["most_bytes"], printed["calibrates"]))
        folds = ballast.explain(self.model)
        printed = program_json("convert", self.model, "--explain")["folds"]
        self.assertEqual([(fold.what, fold.outcome, fold.reason) for fold in folds],
                         [(fold["what"], fold["outcome"], fold["reason"]) for fold in printed])

    def test_a_printed_field_that_the_package_lacks_is_an_error(self):
        fold = {"what": "a bias", "outcome": "kept", "reason": "it is needed"}
        self.assertEqual(from_fields(Fold, fold), Fold(**fold))
        with self.assertRaises(TypeError):
            from_fields(Fold, fold | {"colour": "red"})

    def test_convert_and_export_write_files_of_other_programs(self):
        ballast.convert(self.model, self.place / "direct", scheme="w8a8", group_size="channel", to="compressed-tensors",
                        text=self.calibration, samples=1)
        config = json.loads((self.place / "direct" / "config.json").read_text())
        self.assertEqual(config["quantization_config"]["quant_method"], "compressed-tensors")
        ballast.convert(self.model, self.place / "own", scheme="bf16", fold_norms=False, fold_biases=False)
        report = ballast.export(self.place / "own", self.place / "exported", to="gptq")
        self.assertEqual(report.bytes_after, (self.place / "exported" / "model.safetensors").stat().st_size)
        with self.assertRaises(ballast.Error):
            ballast.export(self.place / "own", self.place / "gguf", to="gguf")

    def test_16_bit_columns_are_refused_for_files_that_cannot_store_them(self):
        for flags in ({"outliers": 0.01}, {"wide_inputs": 0.3}):
            with self.assertRaisesRegex(ValueError, f"{next(iter(flags))}: is for ballast's own files: those of gguf"):
                ballast.plan(self.model, scheme="w4a8", to="gguf", **flags)
            with self.assertRaisesRegex(ValueError, "cannot mix"):
                ballast.explain(self.model, scheme="w4a8", to="gguf", **flags)
        ballast.plan(self.model, scheme="w8a8", to="compressed-tensors", group_size="channel", outliers=0.0)

    def test_verify_returns_whether_logits_equal_the_expected_ones(self):
        verification = ballast.verify(self.model, self.expected)
        printed = program_json("verify", self.model, "--expected", self.expected)
        self.assertEqual(dataclasses.asdict(verification), printed)
        self.assertTrue(verification.ok)
        self.assertFalse(ballast.verify(self.model, self.expected, tolerance=1e-9).ok)

    def test_evaluate_returns_the_same_figures_as_the_program(self):
        ballast.convert(self.model, self.place / "w8", text=self.calibration, samples=2)
        evaluation = ballast.evaluate(self.place / "w8", text=self.text, reference=self.model, context=32, chunks=3,
                                      per_position=True, worst=2)
        printed = program_json("eval", self.place / "w8", "--text", self.text, "--reference", self.model,
                               "--context", 32, "--chunks", 3, "--per-position", "--worst", 2)
        for name in ("tokens", "ppl", "ppl_stderr", "reference_ppl", "kl_mean", "kl_p99", "top1_agreement",
                     "file_bytes", "bits_per_weight", "chunks"):
            self.assertEqual(getattr(evaluation, name), printed[name], name)
        self.assertEqual([entry.ppl for entry in evaluation.positions],
                         [entry["ppl"] for entry in printed["positions"]])
        self.assertEqual([entry.next.text for entry in evaluation.worst],
                         [entry["next"]["text"] for entry in printed["worst"]])
        self.assertGreater(evaluation.kl_mean, 0)

    def test_evaluate_without_a_reference_has_no_divergence(self):
        evaluation = ballast.evaluate(self.model, text=self.text, context=32, chunks=1)
        self.assertIsNone(evaluation.kl_mean)
        with self.assertRaisesRegex(ValueError, "kv: 'int3' is unknown"):
            ballast.evaluate(self.model, text=self.text, kv="int3")

    def test_evaluate_choices_returns_the_same_figures_as_the_program(self):
        evaluation = ballast.evaluate_choices(self.model, choices=self.questions)
        printed = program_json("eval", self.model, "--choices", self.questions)
        self.assertEqual((evaluation.acc, evaluation.acc_norm, evaluation.answers),
                         (printed["acc"], printed["acc_norm"], printed["answers"]))

    def test_benchmark_measures_both_tests(self):
        benchmark = ballast.benchmark(self.model, prompt=8, generate=4, repetitions=1)
        self.assertEqual([result.test for result in benchmark.results], ["pp8", "tg4"])
        self.assertGreater(benchmark.results[0].tokens_per_second, 0)
        with self.assertRaisesRegex(ValueError, "leave nothing to measure"):
            ballast.benchmark(self.model, prompt=0, generate=0)

    def test_sweep_writes_the_same_page_as_the_program(self):
        arguments = {"text": self.text, "schemes": ["w8a8", "w4a16@40kB"], "context": 32, "chunks": 2, "bench": False,
                     "calibration_text": self.calibration, "preset": "fast"}
        sweep = ballast.sweep(self.model, self.place / "ours", **arguments)
        printed = program_json("sweep", self.model, "-o", self.place / "theirs", "--text", self.text, "--schemes",
                               "w8a8,w4a16@40kB", "--context", 32, "--chunks", 2, "--no-bench", "--calibration-text",
                               self.calibration, "--preset", "fast")
        self.assertEqual([row.name for row in sweep.rows], ["w8a8", "w4a16@40kB"])
        self.assertEqual([row.evaluation.kl_mean for row in sweep.rows],
                         [row["evaluation"]["kl_mean"] for row in printed["rows"]])
        builds = re.compile(r"build \w+")
        theirs = (self.place / "theirs" / "index.html").read_text()
        self.assertEqual(builds.sub("", sweep.page()), builds.sub("", theirs))
        self.assertIn("srcdoc=", sweep._repr_html_())

    def test_a_sweeps_figure_has_a_point_for_each_recipe(self):
        require("matplotlib").use("agg")
        sweep = ballast.sweep(self.model, self.place / "sweep", text=self.text, schemes=["w8a8", "w4a16@40kB"],
                              context=32, chunks=2, calibration_text=self.calibration, preset="fast")
        figure = sweep.plot()
        points = [[row.evaluation.file_bytes / 1e6, row.evaluation.kl_mean] for row in sweep.rows]
        drawn = [collection.get_offsets().tolist() for collection in figure.axes[0].collections]
        self.assertEqual(drawn, [[point] for point in points])
        self.assertEqual({text.get_text() for text in figure.axes[0].texts}, {"w8a8", "w4a16@40kB"})
        self.assertEqual([axes.get_xlabel() for axes in figure.axes],
                         ["size of the tensor files, MB", "pp512, tokens per second", "tg128, tokens per second"])
        figure.savefig(self.place / "sweep.png")
        with self.assertRaisesRegex(ValueError, "no recipe"):
            dataclasses.replace(sweep, rows=[]).plot()

    def test_a_failing_recipe_of_a_sweep_has_an_error_in_its_row(self):
        sweep = ballast.sweep(self.model, self.place / "sweep", text=self.text, schemes=["w8a8", "w4a16@1kB"],
                              context=32, chunks=1, bench=False, calibration_text=self.calibration, preset="fast")
        self.assertIsNone(sweep.rows[0].error)
        self.assertIsNone(sweep.rows[1].evaluation)
        self.assertTrue(sweep.rows[1].error)

    def test_the_default_recipes_of_a_sweep_are_the_programs(self):
        flags = ["--text", self.text, "--context", 32, "--chunks", 1, "--no-bench", "--preset", "fast",
                 "--calibration-text", self.calibration]
        if PROGRAM is None:
            self.skipTest("BALLAST_PROGRAM is not set")
        command = [PROGRAM, "sweep", self.model, "-o", self.place / "theirs", *flags, "--json", "-q"]
        printed = json.loads(subprocess.run([*map(str, command)], capture_output=True).stdout)
        sweep = ballast.sweep(self.model, self.place / "ours", text=self.text, context=32, chunks=1, bench=False,
                              preset="fast", calibration_text=self.calibration)
        self.assertEqual([row.name for row in sweep.rows], [row["name"] for row in printed["rows"]])


class HubNames(WithModel):
    def test_a_name_is_fetched_and_a_warning_says_so(self):
        with (unittest.mock.patch("ballast._checkpoint.fetch", return_value=self.model) as fetch,
              self.assertWarnsRegex(RuntimeWarning, "owner/name@v1 is from the Hub")):
            inspection = ballast.inspect("owner/name@v1")
        fetch.assert_called_once_with("owner/name", "", "v1")
        self.assertEqual(inspection, ballast.inspect(self.model))

    def test_what_the_hub_refuses_is_an_error(self):
        with (unittest.mock.patch("ballast._checkpoint.fetch", side_effect=HubError("is gated")),
              self.assertRaises(ballast.Error) as raised):
            ballast.Model("owner/name")
        self.assertEqual((raised.exception.place, raised.exception.reason), ("owner/name", "is gated"))

    def test_without_the_library_the_error_names_the_command(self):
        with (unittest.mock.patch("ballast._checkpoint.fetch", side_effect=ImportError),
              self.assertRaisesRegex(ballast.FileError, "'hf download owner/name x.gguf'")):
            ballast.Model("owner/name/x.gguf")

    def test_a_path_is_not_looked_up(self):
        with unittest.mock.patch("ballast._checkpoint.fetch") as fetch:
            ballast.inspect(self.model)
        fetch.assert_not_called()


class Builds(WithModel):
    """Regression: the interpreter was taken for the program that did the work."""

    def test_sweeps_of_two_builds_have_different_program_ids(self):
        installed = Path(ballast.__file__).parents[1]
        for folder in installed.glob("ballast*"):
            if folder.name in ("ballast", "ballast_lm.libs"):
                shutil.copytree(folder, self.place / folder.name)
        library = self.place / "ballast" / "lib" / "libballast.so"
        code = library if library.exists() else next((self.place / "ballast").glob("_ballast.*.so"))
        with code.open("ab") as file:
            file.write(b"another build")
        script = (f"import ballast; print(ballast.sweep({str(self.model)!r}, {str(self.place / 'sweep')!r}, "
                  f"text={str(self.text)!r}, schemes=['bf16'], context=32, chunks=1, bench=False, "
                  f"stats={str(self.place / 'stats')!r}).program)")
        ballast.calibrate(self.model, self.place / "stats", text=self.calibration, samples=1, length=16)
        programs = set()
        for folder in (self.place, installed):
            run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True,
                                 env=os.environ | {"PYTHONPATH": str(folder)})
            programs.add(run.stdout)
        self.assertEqual(len(programs), 2, programs)


class Messages(WithModel):
    def test_progress_is_reported_to_the_end(self):
        seen = []
        ballast.calibrate(self.model, text=self.calibration, samples=2, length=16,
                          progress=lambda stage, done, total: seen.append((stage, done, total)))
        self.assertEqual(seen[-1], ("calibrating", 2, 2))

    def test_a_bar_is_shown_on_request_and_by_default_only_on_a_terminal(self):
        require("tqdm")
        for progress, shown in ((True, True), (False, False), (None, False)):
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                ballast.calibrate(self.model, text=self.calibration, samples=2, length=16, progress=progress)
            self.assertEqual("calibrating" in errors.getvalue(), shown, progress)

    def test_an_exception_in_progress_ends_the_job_without_output(self):
        def refuse(stage, done, total):
            raise LookupError(stage)

        with self.assertRaises(LookupError):
            ballast.convert(self.model, self.place / "out", text=self.calibration, samples=1, progress=refuse)
        self.assertFalse((self.place / "out").exists())

    def test_errors_have_a_place_and_a_reason(self):
        missing = Path("/nowhere/at/all")
        with self.assertRaises(ballast.FileError) as caught:
            ballast.inspect(missing)
        self.assertEqual(caught.exception.place, str(missing))
        self.assertTrue(caught.exception.reason.startswith("does not exist"))
        self.assertEqual(str(caught.exception), f"{missing}: {caught.exception.reason}")
        self.assertIsInstance(caught.exception, ballast.Error)
        self.assertIsNone(ballast.Error("no place").place)
        odd = self.place / "run: 3" / "missing"
        with self.assertRaises(ballast.FileError) as caught:
            ballast.inspect(odd)
        self.assertEqual(caught.exception.place, str(odd))

    def test_paths_that_are_not_utf8_are_unchanged_in_messages(self):
        """Regression: UnicodeDecodeError in place of the error."""
        model = self.place / os.fsdecode(b"caf\xe9")
        with self.assertRaises(ballast.FileError) as caught:
            ballast.inspect(model)
        self.assertEqual(caught.exception.place, str(model))
        shutil.copytree(self.model, model)
        self.assertEqual(ballast.inspect(model).architecture, "llama")
        statistics = ballast.calibrate(model, self.place / os.fsdecode(b"\xff"), text=self.calibration, samples=2,
                                       length=16)
        self.assertEqual(statistics.model, model.name)
        output = self.place / os.fsdecode(b"\xe9t\xe9")
        ballast.convert(model, output, scheme="w8a8", stats=statistics)
        evaluation = ballast.evaluate(output, text=self.text, reference=model, context=32, chunks=1)
        self.assertGreater(evaluation.kl_mean, 0)
        with self.assertRaisesRegex(ballast.Error, ": exists") as caught:
            ballast.convert(model, output, scheme="w8a8", stats=statistics)
        self.assertEqual(caught.exception.place, str(output))

    def test_an_unknown_architecture_raises_unsupported_error(self):
        other = self.place / "other"
        shutil.copytree(self.model, other)
        config = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps(config | {"model_type": "abacus"}))
        with self.assertRaisesRegex(ballast.UnsupportedError, "abacus"):
            ballast.inspect(other)


if __name__ == "__main__":
    unittest.main()
