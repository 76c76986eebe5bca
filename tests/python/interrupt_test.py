"""Ctrl-C ends jobs, and the program is part of the package."""

import os
import signal
import subprocess
import sys
import time
import unittest

import ballast
from support import WithModel, fixtures

JOB = """
import sys, ballast
def progress(stage, done, total):
    print(stage, flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


class Interrupts(WithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.large = cls.folder / "large"
        fixtures.write_large_model(cls.large)

    def interrupted(self, call: str) -> None:
        """Checks that Ctrl-C ends the call within seconds."""
        child = subprocess.Popen([sys.executable, "-c", JOB.format(call=call)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        child.stdout.readline()
        time.sleep(0.1)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        rest, _ = child.communicate(timeout=60)
        self.assertTrue(rest.endswith("interrupted\n"), rest)
        self.assertEqual(child.returncode, 0)
        self.assertLess(time.monotonic() - begin, 5)  # one second on an idle machine

    def test_ctrl_c_ends_calibrate(self):
        self.interrupted(f"ballast.calibrate({str(self.large)!r}, text={str(self.calibration)!r}, samples=4000, "
                         "length=64, progress=progress)")

    def test_ctrl_c_ends_convert_without_output(self):
        output = self.place / "out"
        self.interrupted(f"ballast.convert({str(self.large)!r}, {str(output)!r}, scheme='w4a8', preset='best', "
                         f"text={str(self.calibration)!r}, progress=progress)")
        self.assertFalse(output.exists())

    def test_ctrl_c_ends_generate(self):
        self.interrupted(f"model = ballast.Model({str(self.model)!r}); print('loaded', flush=True); "
                         "model.generate('the', max_tokens=10**9, ignore_eos=True, window=20, sinks=4)")

    def test_ctrl_c_ends_a_loop_over_a_stream(self):
        self.interrupted(f"model = ballast.Model({str(self.model)!r}); print('loaded', flush=True); "
                         "list(model.generate('the', max_tokens=10**9, ignore_eos=True, window=20, sinks=4, "
                         "stream=True))")


class Ends(WithModel):
    def test_a_running_stream_does_not_delay_the_end_of_the_process(self):
        script = (f"import ballast; model = ballast.Model({str(self.model)!r}); stream = model.generate('the', "
                  "max_tokens=10**9, ignore_eos=True, window=20, sinks=4, stream=True); print(len(next(stream)) > 0)")
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "True\n", ""))


class Program(WithModel):
    def test_the_package_contains_the_program(self):
        run = subprocess.run([sys.executable, "-m", "ballast", "inspect", self.model], capture_output=True, text=True,
                             env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("llama", run.stdout)
        version = subprocess.run([sys.executable, "-m", "ballast", "--version"], capture_output=True, text=True)
        self.assertIn(ballast.__version__, version.stdout)


if __name__ == "__main__":
    unittest.main()
