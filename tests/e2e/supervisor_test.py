#!/usr/bin/env python3
"""`tandem up` with stand-ins for the daemons: life and death of the processes of a cluster.

Uses the standard library only. TANDEM_BINARY_DIR is the build folder.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TANDEM = pathlib.Path(os.environ["TANDEM_BINARY_DIR"]) / "bin" / "tandem"
RUNS = pathlib.Path(f"/tmp/tandem-{os.getuid()}")


def marked_processes(run):
    """Ids of the processes that carry the marker of a run."""
    wanted = f"TANDEM_RUN_DIR={run}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def wait_for(condition, what, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {timeout_s} s: {what}")


class Up:
    """One running `tandem up`; its output is gathered in the background."""

    def __init__(self, folder, yaml, arguments=()):
        self.folder = folder
        config = folder / "cluster.yaml"
        config.write_text(yaml)
        self.process = subprocess.Popen(
            [folder / "bin" / "tandem", "up", config, *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "FAKE_DIR": str(folder / "state")})
        self.out, self.err = [], []
        self.readers = [threading.Thread(target=self._read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.out),
                                     (self.process.stderr, self.err))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def ready_url(self):
        wait_for(lambda: self.out or self.process.poll() is not None, "ready")
        assert self.out, "\n".join(self.err)
        return self.out[0].removeprefix("ready ")

    def exit_status(self, timeout_s=20):
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no exit in {timeout_s} s; log:\n" + "\n".join(self.err))
        for reader in self.readers:
            reader.join()
        return status

    def run_folder(self):
        """The run's folder, from the environment of its coordinator."""
        for pid in pathlib.Path("/proc").iterdir():
            if not pid.name.isdigit():
                continue
            try:
                entries = (pid / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"FAKE_DIR={self.folder / 'state'}".encode() not in entries:
                continue
            for entry in entries:
                if entry.startswith(b"TANDEM_RUN_DIR="):
                    return pathlib.Path(entry.decode().split("=", 1)[1])
        raise AssertionError("no process of the run")


class SupervisorTest(unittest.TestCase):
    YAML = ("model: {path: m.gguf}\n"
            "coordinator: {http: 127.0.0.1:0, control: \"tcp://127.0.0.1:0\"}\n"
            "pools: {prefill: {}, decode: {}}\n")

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tandem-e2e-"))
        self.state = self.folder / "state"
        self.state.mkdir()
        programs = self.folder / "bin"
        programs.mkdir()
        shutil.copy(TANDEM, programs / "tandem")
        shutil.copy(HERE / "fakes" / "fake_coordinator.py", programs / "tandem-coordinator")
        shutil.copy(HERE / "fakes" / "fake_worker.py", programs / "tandem-worker")
        for program in programs.iterdir():
            program.chmod(0o755)
        self.started = []
        self.shm_before = set(os.listdir("/dev/shm"))

    def tearDown(self):
        for up in self.started:
            if up.process.poll() is None:
                up.process.kill()
                up.process.wait()
            for reader in up.readers:
                reader.join()
            up.process.stdout.close()
            up.process.stderr.close()
        shutil.rmtree(self.folder)

    def up(self, *arguments, yaml=None):
        up = Up(self.folder, yaml or self.YAML, arguments)
        self.started.append(up)
        return up

    def worker(self, name):
        return json.loads((self.state / f"{name}.json").read_text())

    def assert_nothing_left(self, run):
        self.assertEqual(marked_processes(run), [])
        self.assertFalse(run.exists())
        self.assertEqual(set(os.listdir("/dev/shm")) - self.shm_before, set())

    def test_ready_then_sigterm_drains_and_leaves_nothing(self):
        up = self.up("--set", "kv.block_size=16", "--set", "kv.dtype=f32")
        url = up.ready_url()
        self.assertRegex(url, r"^http://127\.0\.0\.1:\d+$")
        urllib.request.urlopen(url + "/admin/cluster").close()
        run = up.run_folder()
        self.assertGreaterEqual(len(marked_processes(run)), 5)
        arguments = (self.state / "decode-0_arguments").read_text().split("\n")
        self.assertEqual(arguments, [
            "--config", str(self.folder / "cluster.yaml"), "--set", "kv.block_size=16", "--set",
            "kv.dtype=f32", "--set", "coordinator.control=tcp://127.0.0.1:9", "--instance",
            "decode-0"])
        up.process.send_signal(signal.SIGTERM)
        self.assertEqual(up.exit_status(), 0)
        self.assertEqual(up.out, ["ready " + url])
        self.assertTrue((self.state / "drained").exists())
        self.assert_nothing_left(run)

    def test_sigint_waits_for_running_requests(self):
        (self.state / "drain_s").write_text("1.5")
        up = self.up()
        up.ready_url()
        start = time.monotonic()
        up.process.send_signal(signal.SIGINT)
        self.assertEqual(up.exit_status(), 0)
        self.assertGreaterEqual(time.monotonic() - start, 1.5)

    def test_drain_ends_at_its_deadline(self):
        (self.state / "drain_s").write_text("60")
        up = self.up("--set", "deadlines.drain=1s")
        up.ready_url()
        run = up.run_folder()
        up.process.send_signal(signal.SIGTERM)
        self.assertEqual(up.exit_status(6), 0)
        self.assert_nothing_left(run)

    def test_second_signal_exits_fast(self):
        (self.state / "drain_s").write_text("60")
        up = self.up()
        up.ready_url()
        run = up.run_folder()
        up.process.send_signal(signal.SIGINT)
        wait_for((self.state / "drained").exists, "the drain")
        up.process.send_signal(signal.SIGINT)
        self.assertEqual(up.exit_status(3), 1)
        self.assert_nothing_left(run)

    def test_coordinator_that_can_not_drain_is_stopped(self):
        (self.state / "coordinator_mode").write_text("deaf")
        up = self.up()
        up.ready_url()
        up.process.send_signal(signal.SIGTERM)
        self.assertEqual(up.exit_status(6), 0)

    def test_killed_worker_comes_back(self):
        up = self.up()
        up.ready_url()
        before = self.worker("decode-0")
        other = self.worker("prefill-0")
        os.kill(before["pid"], signal.SIGKILL)
        wait_for(lambda: self.worker("decode-0")["pid"] != before["pid"], "a new decode-0", 10)
        self.assertEqual(self.worker("prefill-0"), other)
        self.assertEqual((self.state / "exited").read_text().splitlines(),
                         [f'{{"name":"decode-0","pid":{before["pid"]}}}'])
        up.process.send_signal(signal.SIGTERM)
        self.assertEqual(up.exit_status(), 0)
        self.assertTrue(any("decode-0 ended (status 137)" in line for line in up.err), up.err)
        self.assertEqual(len(up.out), 1)

    def test_the_coordinator_hears_of_an_end_before_the_launcher_is_gone(self):
        up = self.up()
        up.ready_url()
        before = self.worker("decode-0")
        os.kill(before["launcher_pid"], signal.SIGSTOP)
        os.kill(before["pid"], signal.SIGKILL)
        wait_for((self.state / "exited").exists, "the report", 2)
        # The launcher that can't end is ended.
        wait_for(lambda: self.worker("decode-0")["pid"] != before["pid"], "a new decode-0", 10)
        up.process.send_signal(signal.SIGTERM)
        self.assertEqual(up.exit_status(), 0)

    def test_stopped_worker_that_is_fenced_is_killed_and_replaced(self):
        up = self.up()
        up.ready_url()
        before = self.worker("decode-0")
        os.kill(before["pid"], signal.SIGSTOP)
        (self.state / "fenced").write_text(f"decode-0:{before['pid']}")
        wait_for(lambda: self.worker("decode-0")["pid"] != before["pid"], "a new decode-0", 10)
        wait_for(lambda: not pathlib.Path(f"/proc/{before['pid']}").exists(), "its end")
        up.process.send_signal(signal.SIGTERM)
        self.assertEqual(up.exit_status(), 0)

    def test_killed_supervisor_takes_its_children_along_and_is_swept(self):
        up = self.up()
        up.ready_url()
        run = up.run_folder()
        up.process.kill()
        wait_for(lambda: not marked_processes(run), "the end of the children", 5)
        self.assertTrue(run.exists())
        again = self.up()
        again.ready_url()
        self.assertFalse(run.exists())
        second_run = again.run_folder()
        again.process.send_signal(signal.SIGTERM)
        self.assertEqual(again.exit_status(), 0)
        self.assertTrue(any(f"swept {run}" in line for line in again.err), again.err)
        self.assert_nothing_left(second_run)

    def test_worker_that_can_not_start_ends_the_start(self):
        (self.state / "worker_mode").write_text("fail")
        up = self.up()
        self.assertEqual(up.exit_status(), 2)
        self.assertEqual(up.out, [])
        log = "\n".join(up.err)
        self.assertIn("] tandem-worker: model.path: no such file", log)
        self.assertRegex(log, r"tandem up: \w+-0 did not start \(status 2\); its message is above")
        self.assertNotIn("mpirun detected", log)

    def test_worker_that_keeps_crashing_ends_the_start(self):
        (self.state / "worker_mode").write_text("crash")
        up = self.up()
        self.assertEqual(up.exit_status(), 2)

    def test_coordinator_that_can_not_start_ends_the_start(self):
        (self.state / "coordinator_mode").write_text("fail")
        up = self.up()
        self.assertEqual(up.exit_status(), 2)
        self.assertIn("[coordinator] tandem-coordinator: port 8000 is in use", up.err)

    def test_death_of_the_coordinator_ends_the_cluster(self):
        up = self.up()
        up.ready_url()
        run = up.run_folder()
        (self.state / "coordinator_mode").write_text("die")
        self.assertEqual(up.exit_status(), 1)
        self.assertTrue(any("the coordinator ended (status 1)" in line for line in up.err))
        self.assert_nothing_left(run)

    def test_signal_before_ready_ends_at_once(self):
        (self.state / "worker_mode").write_text("mute")
        up = self.up()
        wait_for(lambda: any("decode-0 starting" in line for line in up.err), "the start")
        run = up.run_folder()
        up.process.send_signal(signal.SIGTERM)
        self.assertEqual(up.exit_status(6), 0)
        self.assertEqual(up.out, [])
        self.assert_nothing_left(run)

    def test_bad_file_is_one_line(self):
        up = self.up(yaml="model: {path: m.gguf}\npools: {mixed: {}}\nkv: {blok_size: 16}\n")
        self.assertEqual(up.exit_status(), 2)
        self.assertEqual(up.err, [f"tandem: {self.folder}/cluster.yaml:3: kv.blok_size: unknown "
                                  "key; did you mean block_size?"])

    def test_missing_program_is_named(self):
        (self.folder / "bin" / "tandem-worker").unlink()
        up = self.up()
        self.assertEqual(up.exit_status(), 2)
        self.assertEqual(up.err, [f"tandem: {self.folder}/bin/tandem-worker: no such program; "
                                  "build it (ninja -C build/release)"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
