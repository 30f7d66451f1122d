#!/usr/bin/env python3
"""Clients that leave: nothing stays behind, every generated token is accounted for."""
import asyncio
import contextlib
import json
import os
import pathlib
import random
import time
import unittest

import cluster

SEED = int(os.environ.get("TANDEM_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
CONCURRENCY = 64
IDLE_WITHIN_S = 2


def prompt_of(rng, max_length=60):
    return [rng.randrange(256, 500) for _ in range(rng.randint(1, max_length))]


def body_of(prompt, max_tokens, stream=True):
    return {"model": "test", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True,
            "temperature": 0, "stream": stream}


class Clients:
    """Requests over raw sockets: a client may close its connection at any event."""

    def __init__(self, url):
        host, port = url.removeprefix("http://").split(":")
        self.address = (host, int(port))

    async def one(self, body, leave_after=None, leave_after_s=None):
        """Reads to the end (True), or closes after so many events or seconds (False)."""
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            text = json.dumps(body)
            writer.write((f"POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: "
                          f"application/json\r\nContent-Length: {len(text)}\r\nConnection: close"
                          f"\r\n\r\n{text}").encode())
            await writer.drain()
            if leave_after == 0:
                return False
            if leave_after_s is not None:
                await asyncio.sleep(leave_after_s)
                return False
            return await self._read(reader, body["stream"], leave_after)
        finally:
            writer.close()

    @staticmethod
    async def _read(reader, is_stream, leave_after):
        status = await asyncio.wait_for(reader.readline(), 120)
        assert b" 200 " in status, (status, await reader.read())
        num_events = 0
        while line := await asyncio.wait_for(reader.readline(), 120):
            if not line.startswith(b"data: "):
                continue
            if line.startswith(b"data: [DONE]"):
                return True
            assert b'"error"' not in line, line
            num_events += 1
            if num_events == leave_after:
                return False
        assert not is_stream, "the stream ended without [DONE]"
        return True

    def all(self, bodies_and_ways):
        """Runs all, CONCURRENCY at a time. Returns how many were read to their end."""
        async def run():
            slots = asyncio.Semaphore(CONCURRENCY)

            async def limited(body, way):
                async with slots:
                    return await self.one(body, **way)
            return sum(await asyncio.gather(*(limited(*pair) for pair in bodies_and_ways)))
        return asyncio.run(run())


class LeavingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"\nseed {SEED}", flush=True)
        cls.cluster = cluster.Cluster(cluster.settings_of())
        cls.addClassCleanup(cls.cluster.close)
        cls.clients = Clients(cls.cluster.url)

    def processes(self):
        """Supervisor, mpiruns, coordinator, workers: {pid: command line}."""
        found = {}
        for pid in [self.cluster.main.pid, *cluster.descendants(self.cluster.main.pid)]:
            found[pid] = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
        self.assertEqual(len(found), 6, found)
        return found

    def files(self):
        return {f"{name} {pid}": cluster.open_files(pid) for pid, name in self.processes().items()}

    def assert_accounted(self):
        samples = self.cluster.metrics()
        discarded = {name: value for name, value in samples.items()
                     if name.startswith("tandem_tokens_discarded_total{")}
        generated = self.cluster.total("tandem_tokens_generated_total")
        delivered = samples["tandem_tokens_delivered_total"]
        print(f"generated {generated:.0f} = delivered {delivered:.0f} + discarded {discarded}")
        self.assertEqual(generated, delivered + sum(discarded.values()))
        return discarded

    def assert_nothing_held(self):
        start = time.monotonic()
        self.cluster.wait_idle(IDLE_WITHIN_S)

        def all_closed():
            state = self.cluster.get("/admin/cluster").json()
            return state["requests"] == state["queued"] == state["closing"] == 0
        cluster.wait_for(all_closed, "all requests closed", start + IDLE_WITHIN_S -
                         time.monotonic())
        print(f"idle after {time.monotonic() - start:.2f} s")
        time.sleep(0.5)  # that was seen by heartbeats, which may have been old
        self.cluster.wait_idle(0.1)

    def test_500_streams_of_which_a_third_is_left(self):
        self.assertTrue(self.clients.all([(body_of([300, 301], 8), {})]))
        self.cluster.wait_idle()
        time.sleep(0.5)  # the connections of the questions above are closed
        files = self.files()
        rng = random.Random(SEED)
        requests = []
        for i in range(500):
            way = {"leave_after": rng.choice([0, 1, 5, 20])} if i % 10 < 3 else {}
            requests.append((body_of(prompt_of(rng), rng.randint(8, 40)), way))
        rng.shuffle(requests)
        start = time.monotonic()
        num_whole = self.clients.all(requests)
        print(f"{len(requests)} requests in {time.monotonic() - start:.1f} s, {num_whole} whole")
        self.assertGreaterEqual(num_whole, 350)
        self.assertLess(num_whole, 500)
        self.assert_nothing_held()
        discarded = self.assert_accounted()
        self.assertGreater(discarded['tandem_tokens_discarded_total{reason="cancel"}'], 0)
        with contextlib.suppress(AssertionError):
            cluster.wait_for(lambda: self.files() == files, "", 5)
        self.assertEqual(self.files(), files)

    def test_what_nobody_reads_is_not_generated(self):
        """Long answers, left while queued, in prefill, after three events, and without stream."""
        rng = random.Random(SEED + 1)
        before = self.cluster.total("tandem_tokens_generated_total")
        requests = []
        for i in range(200):
            stream = i % 2 == 0
            way = ({"leave_after": (0, 1, 3, 10)[i // 2 % 4]} if stream else
                   {"leave_after_s": (0, 0.002, 0.02, 0.1)[i // 2 % 4]})
            requests.append((body_of(prompt_of(rng, 200), 300, stream), way))
        self.assertEqual(self.clients.all(requests), 0)
        self.assert_nothing_held()
        generated = self.cluster.total("tandem_tokens_generated_total") - before
        print(f"{generated:.0f} tokens generated of {200 * 300} asked for")
        self.assertLess(generated, 200 * 300 / 4)
        self.assert_accounted()
        # As able as before.
        self.assertEqual(self.clients.all([(body_of(prompt_of(rng), 8), {})] * 64), 64)
        self.assert_nothing_held()


class DropTest(unittest.TestCase):
    # Of the median: a client or coordinator that the machine keeps from running is no fault.
    MAX_STEPS_AFTER = 2 * cluster.SLACK
    NUM_EVENTS = 3

    def test_a_dropped_stream_is_computed_for_two_more_steps_at_most(self):
        if not cluster.SMOLLM2.exists():
            self.skipTest(f"no model at {cluster.SMOLLM2}; deploy/local/quickstart.sh fetches it")
        settings = cluster.settings_of(cluster.SMOLLM2, {role: {"kv_memory": "128MiB"}
                                                         for role in ("prefill", "decode")})
        with cluster.Cluster(settings) as running:
            clients = Clients(running.url)
            extra = []
            for i in range(7):
                before = running.total("tandem_tokens_generated_total")
                self.assertEqual(clients.all([(body_of([1000 + i] * 20, 1000),
                                               {"leave_after": self.NUM_EVENTS})]), 0)
                time.sleep(0.5)  # longer than a heartbeat
                running.wait_idle()
                generated = running.total("tandem_tokens_generated_total") - before
                extra.append(int(generated) - self.NUM_EVENTS)
            print(f"\ntokens generated after the drop: {extra}", flush=True)
            self.assertLessEqual(sorted(extra)[len(extra) // 2], self.MAX_STEPS_AFTER)


if __name__ == "__main__":
    unittest.main(verbosity=2)
