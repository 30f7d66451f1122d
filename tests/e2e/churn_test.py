#!/usr/bin/env python3
"""Clients that come and go: nothing leaks, and every generated token is accounted for."""
import concurrent.futures
import json
import os
import pathlib
import random
import threading
import time
import unittest

import cluster

NUM_REQUESTS = 500
CONCURRENCY = 64
LEAVE_AFTER = (0, 1, 5, 20)  # events
SHARE_LEAVING = 0.3


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Churn(unittest.TestCase):
    def run_clients(self, running, seed):
        """Sends all requests; returns how many clients left early."""
        rng = random.Random(seed)
        plans = []
        for i in range(NUM_REQUESTS):
            body = {"prompt": [rng.randrange(256, 500) for _ in range(rng.randrange(1, 80))],
                    "max_tokens": rng.randrange(1, 40), "ignore_eos": True,
                    "temperature": rng.choice((0, 0.9)), "seed": i}
            leave = rng.choice(LEAVE_AFTER) if rng.random() < SHARE_LEAVING else None
            plans.append((body, leave))
        gate = threading.Semaphore(CONCURRENCY)

        def one(plan):
            body, leave = plan
            with gate:
                if leave == 0:
                    connection = running.connection()
                    connection.request("POST", "/v1/completions",
                                       json.dumps({"model": "test", "stream": True, **body}),
                                       {"Content-Type": "application/json"})
                    connection.close()
                    return
                seen = []

                def on_event(event):
                    seen.append(event)
                    return leave is not None and len(seen) >= leave
                events = running.stream("/v1/completions", body, on_event)
                if leave is None:
                    self.assertIsNotNone(events[-1]["choices"][0]["finish_reason"])
        with concurrent.futures.ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(one, plans))
        return sum(leave is not None for _, leave in plans)

    def test_nothing_leaks(self):
        pools = {"prefill": {}, "decode": {"max_sequences": 32}}
        with cluster.Cluster(cluster.settings_of(pools=pools)) as running:
            running.complete("Warm up.", max_tokens=4, ignore_eos=True)
            running.wait_idle()
            pids = [entry["pid"] for entry in running.instances().values()]
            pids += cluster.children_named(running.main.pid, "tandem-coordinator")
            self.assertEqual(len(pids), 3)
            before = [descriptors(pid) for pid in pids]
            self.assertGreater(self.run_clients(running, seed=1), 100)
            running.wait_idle(timeout_s=2 * cluster.SLACK)
            # Sockets that wait for a reset may take a moment more.
            cluster.wait_for(
                lambda: all(descriptors(pid) <= count for pid, count in zip(pids, before)),
                f"no more descriptors than {before}", 5)
            samples = running.metrics()
            discarded = sum(value for name, value in samples.items()
                            if name.startswith("tandem_tokens_discarded_total{"))
            self.assertEqual(running.total("tandem_tokens_generated_total"),
                             samples["tandem_tokens_delivered_total"] + discarded)
            self.assertGreater(samples['tandem_tokens_discarded_total{reason="cancel"}'], 0)
            self.assertEqual(samples["vllm:num_requests_waiting"], 0)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Idle(unittest.TestCase):
    SECONDS = 10
    LIMIT = 0.03  # of one core: supervisor, mpiruns, coordinator and workers together

    def test_an_idle_cluster_sleeps(self):
        with cluster.Cluster(cluster.settings_of()) as running:
            running.complete("Warm up.", max_tokens=4, ignore_eos=True)
            running.wait_idle()
            pids = [running.main.pid, *cluster.descendants(running.main.pid)]
            self.assertGreaterEqual(len(pids), 6)
            before = [cpu_seconds(pid) for pid in pids]
            time.sleep(self.SECONDS)
            used = [cpu_seconds(pid) - b for pid, b in zip(pids, before)]
            print("idle share of a core:", {pid: u / self.SECONDS for pid, u in zip(pids, used)})
            self.assertLess(sum(used) / self.SECONDS, self.LIMIT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
