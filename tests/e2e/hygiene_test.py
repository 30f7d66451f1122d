#!/usr/bin/env python3
"""What a real cluster costs while it idles and what it leaves behind."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import tempfile
import time
import unittest

import cluster

RUNS = pathlib.Path(f"/tmp/tandem-{os.getuid()}")
IDLE_OVER_S = 10
IDLE_SHARE = 0.03  # of one core, all processes together


def cpu_seconds(pids):
    """Processor time of living processes so far, by pid."""
    spent = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            spent[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent


def program_of(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def environment_of(pid):
    entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(entry.decode().split("=", 1) for entry in entries if b"=" in entry)


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def temporary_files_of(pids):
    """Paths below /dev/shm and /tmp that the processes have open or mapped."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found |= {os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd")}
            maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
            found |= set(re.findall(r"(/(?:dev/shm|tmp)/\S+)", maps))
    return {path for path in found if path.startswith(("/dev/shm/", "/tmp/"))}


def shared_memory():
    return set(os.listdir("/dev/shm"))


def left_in_tmp():
    """Entries of /tmp that MPI or this program may have made; other programs use it, too."""
    return {name for name in os.listdir("/tmp") if re.search(r"ompi|pmix|vader|openmpi|prte", name)}


class HygieneTest(unittest.TestCase):
    def setUp(self):
        self.shared_memory_before = shared_memory()
        self.tmp_before = left_in_tmp()
        # The temporary directory of everything that is started here.
        self.temporary = pathlib.Path(tempfile.mkdtemp(prefix="tandem-e2e-tmpdir-"))
        self.addCleanup(shutil.rmtree, self.temporary)
        before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = str(self.temporary)

        def restore():
            del os.environ["TMPDIR"]
            if before is not None:
                os.environ["TMPDIR"] = before
        self.addCleanup(restore)

    def start(self):
        running = cluster.Cluster(cluster.settings_of())
        self.addCleanup(running.close)
        pids = [running.main.pid, *cluster.descendants(running.main.pid)]
        self.assertEqual(sorted(program_of(pid) for pid in pids),
                         sorted(["tandem", "tandem-coordina", "mpirun", "mpirun", "tandem-worker",
                                 "tandem-worker"]))
        run = pathlib.Path(environment_of(pids[-1])["TANDEM_RUN_DIR"])
        self.assertEqual(run.parent, RUNS)
        self.assertTrue(run.is_dir())
        return running, pids, run

    def assert_nothing_left(self, pids, run, files):
        self.assertEqual([pid for pid in pids if is_alive(pid)], [])
        self.assertFalse(run.exists())
        self.assertEqual({path for path in files if os.path.exists(path)}, set())
        self.assertEqual(list(self.temporary.iterdir()), [])
        self.assertEqual(shared_memory() - self.shared_memory_before, set())
        self.assertEqual(left_in_tmp() - self.tmp_before, set())

    def test_an_idle_cluster_rests(self):
        running, pids, _ = self.start()
        running.complete([300] * 40, max_tokens=8, ignore_eos=True)
        running.wait_idle()
        time.sleep(1)
        before = cpu_seconds(pids)
        time.sleep(IDLE_OVER_S)
        after = cpu_seconds(pids)
        self.assertEqual(before.keys(), after.keys())
        shares = {f"{program_of(pid)} {pid}": (after[pid] - before[pid]) / IDLE_OVER_S
                  for pid in pids}
        total = sum(shares.values())
        print(f"\nidle: {total:.2%} of one core; " +
              ", ".join(f"{name} {share:.2%}" for name, share in shares.items()), flush=True)
        self.assertLess(total, IDLE_SHARE)

    def test_sigterm_leaves_nothing(self):
        running, pids, run = self.start()
        running.complete([300] * 40, max_tokens=8, ignore_eos=True)
        files = temporary_files_of(pids)
        start = time.monotonic()
        running.main.signal(signal.SIGTERM)
        self.assertEqual(running.main.status(35 * 3), 0)
        print(f"\nstopped in {time.monotonic() - start:.2f} s; files then: {len(files)}",
              flush=True)
        self.assert_nothing_left(pids, run, files)

    def test_sigkill_of_the_supervisor_takes_all_along_and_is_swept(self):
        running, pids, run = self.start()
        running.complete([300] * 40, max_tokens=8, ignore_eos=True)
        files = temporary_files_of(pids)
        running.main.signal(signal.SIGKILL)
        start = time.monotonic()
        cluster.wait_for(lambda: not any(is_alive(pid) for pid in pids), "the end of all", 5 * 3)
        print(f"\nall ended {time.monotonic() - start:.2f} s after the supervisor", flush=True)
        self.assertTrue(run.exists())
        again, next_pids, next_run = self.start()
        self.assertIn(f"swept {run}", again.main.log())
        self.assertFalse(run.exists())
        again.main.signal(signal.SIGTERM)
        self.assertEqual(again.main.status(35 * 3), 0)
        self.assert_nothing_left(next_pids, next_run, files)


if __name__ == "__main__":
    unittest.main(verbosity=2)
