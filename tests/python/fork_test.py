"""A process that forks after a model ran: child and parent continue, or an Error has the reason."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import ballast
from support import WithModel, fixtures

PATIENCE = 120  # seconds for a child; only one that hangs takes so long


def continued(model: ballast.Model) -> str:
    return str(model.generate("the rain", max_tokens=8, ignore_eos=True))


class Forks(WithModel):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ballast.use_processor(threads=3)
        cls.addClassCleanup(ballast.use_processor, threads=os.cpu_count())

    def child(self, body) -> str:
        """Runs body() in a forked process and returns its error, or "" if there is none."""
        read, write = os.pipe()
        process = os.fork()
        if process == 0:
            signal.alarm(PATIENCE)
            try:
                said = str(body() or "")
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(write, said.encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        _, status = os.waitpid(process, 0)
        self.assertEqual(status, 0, "the child hung or crashed")
        return said

    def test_a_used_model_works_in_child_and_parent(self):
        model = ballast.Model(self.model)
        before = continued(model)
        self.assertEqual(self.child(lambda: continued(model)), before)
        self.assertEqual(self.child(lambda: self.child(lambda: continued(model))), before)
        self.assertEqual(continued(model), before)

    def test_logits_vectors_and_scores_are_the_same_in_a_child(self):
        model = ballast.Model(self.model)
        ids = model.tokenizer.encode("the rain")
        logits = model.logits(ids)
        self.assertEqual(self.child(lambda: (model.logits(ids) == logits).all()), "True")
        self.assertTrue((model.logits(ids) == logits).all())

    def test_a_child_can_load_a_model(self):
        before = continued(ballast.Model(self.model))
        self.assertEqual(self.child(lambda: continued(ballast.Model(self.model))), before)

    def test_jobs_run_in_a_child(self):
        continued(ballast.Model(self.model))
        output = self.place / "out"
        self.assertEqual(self.child(lambda: ballast.convert(self.model, output, scheme="w8a8", text=self.calibration,
                                                            samples=4) and None), "")
        self.assertEqual(self.child(lambda: ballast.evaluate(output, text=self.text, context=32).ppl > 0), "True")

    def test_a_model_works_after_a_fork_of_an_unused_package(self):
        script = f"""
import os, ballast
process = os.fork()
model = ballast.Model({str(self.model)!r})
print(len(str(model.generate("the", max_tokens=4, ignore_eos=True))) > 0, flush=True)
if process:
    os.waitpid(process, 0)
else:
    os._exit(0)
"""
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                             timeout=PATIENCE, check=False)
        self.assertEqual((run.returncode, run.stdout), (0, "True\nTrue\n"), run.stderr)

    def test_a_model_works_in_a_multiprocessing_pool(self):
        model = ballast.Model(self.model)
        before = continued(model)
        global shared  # what a pool's processes have by fork
        shared = model
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.assertEqual(pool.map_async(continue_shared, range(4)).get(PATIENCE), [before] * 4)

    def test_a_model_works_after_a_fork_during_another_threads_generation(self):
        large = self.folder / "large"
        if not large.exists():
            fixtures.write_large_model(large)
        model = ballast.Model(large)
        stream = model.generate("the", max_tokens=10**6, ignore_eos=True, window=64, sinks=4, stream=True)
        next(stream)
        outcomes = set()
        for _ in range(8):
            said = self.child(lambda: continued(model))
            outcomes.add(said.split(":")[0] if said.startswith("Error: ") else "text")
            if said.startswith("Error: "):
                self.assertIn("another thread was running it when this process was forked", said)
            time.sleep(0.01)
        self.assertLessEqual(outcomes, {"Error", "text"})
        self.assertIn("the process was forked while the model wrote this text", self.child(lambda: list(stream)))
        stream.close()
        self.assertGreater(len(stream.result.text), 0)

    def test_a_lock_of_the_package_is_free_in_a_child(self):
        model = ballast.Model(self.model)
        before = continued(model)
        held = threading.Event()
        done = threading.Event()

        def hold() -> None:
            with model._lock:
                held.set()
                done.wait(PATIENCE)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(PATIENCE)
        said = self.child(lambda: continued(model))
        done.set()
        thread.join()
        self.assertEqual(said, before)

    def test_subprocesses_do_not_affect_a_model(self):
        model = ballast.Model(self.model)
        before = continued(model)
        run = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True, check=False)
        self.assertEqual(run.stdout, "1\n")
        self.assertEqual(continued(model), before)


class CutFiles(WithModel):
    """A truncated model file gives an Error, and bus errors of other files end the process."""

    def test_an_error_names_the_file(self):
        large = self.place / "large"
        fixtures.write_large_model(large)
        file = large / "model.safetensors"
        script = f"""
import os, ballast
stages = []
def progress(stage, done, total):
    if not stages: os.truncate({str(file)!r}, 1000)
    stages.append(stage)
try:
    ballast.calibrate({str(large)!r}, text={str(self.calibration)!r}, samples=4, length=32, progress=progress)
except ballast.FileError as error:
    print(error.place == {str(file)!r}, "was cut off while it was in use" in error.reason)
"""
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE,
                             check=False)
        self.assertEqual((run.returncode, run.stdout), (0, "True True\n"), run.stderr)

    def test_bus_errors_of_other_files_still_end_the_process(self):
        other = self.place / "other"
        other.write_bytes(b"a" * 100_000)
        script = f"""
import mmap, os, ballast
str(ballast.Model({str(self.model)!r}).generate("the", max_tokens=2))
with open({str(other)!r}, "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    os.truncate({str(other)!r}, 0)
    mapped[50_000]
"""
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual(run.returncode, -signal.SIGBUS)


def continue_shared(_: int) -> str:
    return continued(shared)


if __name__ == "__main__":
    unittest.main()
