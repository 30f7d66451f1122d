#!/usr/bin/env python3
"""How the processes of a real cluster end: drains, signals, and who ends with whom."""
import os
import pathlib
import shutil
import signal
import tempfile
import threading
import unittest

import cluster


def alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


class Lifecycle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="tandem-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.slow = cluster.slow_model(cls.folder)

    def start(self, model=cluster.TINY, **options):
        running = cluster.Cluster(cluster.settings_of(model=model), **options)
        self.addCleanup(running.close)
        return running

    def assert_gone(self, pids, timeout_s=5 * cluster.SLACK):
        cluster.wait_for(lambda: not any(alive(pid) for pid in pids), "all processes gone",
                         timeout_s)

    def test_a_drain_finishes_running_streams_and_refuses_new_requests(self):
        running = self.start(self.slow)
        body = {"prompt": "Once upon a time", "max_tokens": 1000, "ignore_eos": True,
                "temperature": 0, "return_token_ids": True}
        expected = running.complete(**{k: v for k, v in body.items()
                                       if k not in ("temperature", "return_token_ids")})
        started, ids, late = threading.Event(), [], []

        def on_event(event):
            ids.extend(i for choice in event["choices"] for i in choice.get("token_ids") or [])
            if not started.is_set():
                started.set()
                late.append(running.post("/admin/drain", {}))
                late.append(running.post("/v1/completions",
                                         {"model": "test", "prompt": "Too late."}))
        running.stream("/v1/completions", body, on_event)
        self.assertEqual([reply.status for reply in late], [202, 503])
        self.assertEqual(ids, expected["choices"][0]["token_ids"])
        coordinators = cluster.children_named(running.main.pid, "tandem-coordinator")
        self.assert_gone(coordinators)

    def test_a_worker_ends_with_its_mpirun(self):
        running = self.start()
        entry = running.instances()["decode-0"]
        self.assertGreater(entry["launcher_pid"], 0)
        self.assertNotEqual(entry["launcher_pid"], entry["pid"])
        os.kill(entry["launcher_pid"], signal.SIGKILL)
        self.assert_gone([entry["pid"]])
        cluster.wait_for(lambda: running.instances()["decode-0"]["state"] == "ready" and
                         running.instances()["decode-0"]["pid"] != entry["pid"], "back", 30)

    def test_sigterm_ends_a_worker_with_status_0(self):
        running = self.start(with_up=False)
        worker = running.workers["decode-0"]
        worker.signal(signal.SIGTERM)
        self.assertEqual(worker.status(), 0, worker.log())

    def test_a_second_sigterm_ends_the_coordinator_at_once(self):
        running = self.start(self.slow, with_up=False)
        body = {"prompt": "Once", "max_tokens": 1500, "ignore_eos": True}

        def on_event(event):
            running.main.signal(signal.SIGTERM)
            # Two at once may count as one.
            cluster.wait_for(lambda: "event=signal" in running.main.log(), "the first one", 10)
            running.main.signal(signal.SIGTERM)
            running.main.status()
        with self.assertRaises((AssertionError, cluster.http.client.HTTPException,
                                ConnectionError)):
            running.stream("/v1/completions", body, on_event)
        self.assertEqual(running.main.status(), 1, running.main.log())

    def test_the_coordinator_drains_on_sigterm(self):
        running = self.start(self.slow, with_up=False)
        finished = []

        def on_event(event):
            finished.append(event)
            if len(finished) == 1:
                running.main.signal(signal.SIGTERM)
        events = running.stream("/v1/completions", {"prompt": "Once", "max_tokens": 300,
                                                    "ignore_eos": True}, on_event)
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "length")
        self.assertEqual(running.main.status(), 0, running.main.log())

    def test_a_worker_reports_health_and_metrics(self):
        running = self.start(with_up=False)
        running.complete("Some work.", max_tokens=4, ignore_eos=True)
        running.wait_idle()
        samples = running.metrics("decode-0")
        self.assertGreater(samples["tandem_steps_total"], 0)
        self.assertEqual(samples["tandem_step_age_seconds"], 0)
        address = running.instances()["decode-0"]["metrics"].split("/")[2]
        connection = cluster.http.client.HTTPConnection(address, timeout=10)
        self.addCleanup(connection.close)
        connection.request("GET", "/health")
        response = connection.getresponse()
        self.assertEqual((response.status, response.read()), (200, b'{"status":"ok"}'))


if __name__ == "__main__":
    unittest.main(verbosity=2)
