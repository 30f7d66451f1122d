#!/usr/bin/env python3
"""kill -9 and SIGSTOP of workers under load: every stream ends with the undisturbed ids, each once.

One cluster per form (2 + 2, 1 + 1) under real `tandem up`; many rounds on each. A round starts
eight streams, kills at random moments, and waits until the cluster is whole and idle again.
TANDEM_SEED replays a schedule (the moments are times, so the course differs), TANDEM_ROUNDS changes
its length.
"""
import collections
import concurrent.futures
import json
import os
import random
import re
import signal
import time
import unittest

import cluster

SEED = int(os.environ.get("TANDEM_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
NUM_STREAMS = 8
BACK_WITHIN_S = 10 * 3  # the promise is 10 s; three times that on a loaded machine
TWO_AND_TWO = {"prefill": 2, "decode": 2}
ONE_AND_ONE = {"prefill": 1, "decode": 1}


def requests_of(rng, scale):
    """Eight requests: prompts from one token to many, greedy and sampled."""
    requests = []
    for i in range(NUM_STREAMS):
        length = rng.choice([1, 31, 32, 33, rng.randint(2, 60), rng.randint(60, scale.max_prompt)])
        request = {"prompt": [rng.randrange(*scale.vocabulary) for _ in range(length)],
                   "max_tokens": rng.randint(scale.max_new // 2, scale.max_new),
                   "ignore_eos": True, "return_token_ids": True, "temperature": 0}
        if i % 2 == 1:
            request.update(temperature=rng.choice([0.7, 1.0, 1.3]), seed=rng.randrange(1 << 30))
        requests.append(request)
    return requests


class Scale:
    """How much a round asks of a model, and how many rounds there are."""

    def __init__(self, model, ops, kv_memory, vocabulary, max_prompt, max_new):
        self.model, self.ops, self.kv_memory, self.vocabulary = model, ops, kv_memory, vocabulary
        self.max_prompt, self.max_new = max_prompt, max_new


# The pools are small, so that the prompts of a round are not cached when they come again. The tiny
# model runs on the slow operations, so that there is time for a kill to hit something.
TINY = Scale(cluster.TINY, "reference", "2MiB", (256, 500), 280, 220)
SMOLLM2 = Scale(cluster.SMOLLM2, "auto", "64MiB", (1000, 40000), 200, 48)


class Streams:
    """The streams of one round, run by threads; how long each was silent at most.

    may_be_refused: no instance may be left when a request arrives; it is then made again.
    """

    def __init__(self, running, requests, may_be_refused=False):
        self.running = running
        self.may_be_refused = may_be_refused
        self.pool = concurrent.futures.ThreadPoolExecutor(len(requests))
        self.num_events = 0
        self.started_at = time.monotonic()
        self.futures = [self.pool.submit(self._one, request) for request in requests]

    def _one(self, request):
        times = [time.monotonic()]

        def note(_event):
            times.append(time.monotonic())
            self.num_events += 1
        events = None
        while events is None:
            try:
                events = self.running.stream("/v1/completions", request, note)
            except AssertionError as error:
                if not self.may_be_refused or "no instance is ready" not in str(error):
                    raise
                time.sleep(0.1)
        times.append(time.monotonic())
        ids, finish = [], None
        for event in events:
            assert "error" not in event, event
            for choice in event["choices"]:
                ids += choice.get("token_ids") or []
                finish = choice.get("finish_reason") or finish
        assert finish == "length", finish
        return ids, max(b - a for a, b in zip(times, times[1:]))

    def num_unfinished(self):
        return sum(not future.done() for future in self.futures)

    def results(self):
        """[(ids, longest gap in s)] in the order of the requests."""
        try:
            return [future.result(120) for future in self.futures]
        finally:
            self.pool.shutdown(wait=True)


def fence_reasons(running):
    """How the coordinator noticed that an instance was gone, from its log."""
    found = re.findall(r"^\[coordinator\].* event=fenced .*why=(\".*?\"|\S+)", running.logs(), re.M)
    return dict(collections.Counter(found))


class KillTest(unittest.TestCase):
    def start(self, scale, instances, **sections):
        if not scale.model.exists():
            self.skipTest(f"no model at {scale.model}; deploy/local/quickstart.sh fetches it")
        pools = {role: {"instances": count, "ops": scale.ops, "kv_memory": scale.kv_memory,
                        "prefill_chunk": 32}
                 for role, count in instances.items()}
        running = cluster.Cluster(cluster.settings_of(model=scale.model, pools=pools, **sections))
        self.addCleanup(running.close)
        return running

    def undisturbed(self, running, rounds):
        """The ids of every request of every round, the time of a round, the longest gap."""
        expected, times, gaps = [], [], []
        for requests in rounds:
            start = time.monotonic()
            results = Streams(running, requests).results()
            times.append(time.monotonic() - start)
            gaps.append(max(gap for _, gap in results))
            expected.append([ids for ids, _ in results])
            for request, ids in zip(requests, expected[-1]):
                self.assertEqual(len(ids), request["max_tokens"])
        running.wait_idle()
        return expected, sorted(times)[len(times) // 2], max(gaps)

    def victims(self, rng, running, kind):
        """[(name, pid)] of one instance of each role that this round hits."""
        entries = running.instances()
        roles = {"both": ["prefill", "decode"]}.get(kind, [kind])
        names = [rng.choice(sorted(n for n, e in entries.items() if e["role"] == role))
                 for role in roles]
        return [(name, entries[name]["pid"]) for name in names]

    def wait_back(self, running, old, since):
        """Waits until every victim is ready under another pid; the longest time it took."""
        def back():
            entries = running.instances()
            return all(entries[name]["pid"] != pid and entries[name]["state"] == "ready"
                       for name, pid in old)
        cluster.wait_for(back, f"back: {old}", BACK_WITHIN_S)
        return time.monotonic() - since

    def wait_idle(self, running):
        """Nothing is held any more, also by heartbeats that were made after the last stream."""
        running.wait_idle()
        time.sleep(0.3)
        running.wait_idle(0.1)

    def check(self, streams, expected, what):
        results = streams.results()
        for i, (ids, _) in enumerate(results):
            self.assertEqual(ids, expected[i], f"{what}, stream {i}")
        return max(gap for _, gap in results)

    def kill_round(self, rng, running, requests, expected, kind, span_s):
        victims = self.victims(rng, running, kind)
        # Prefill is what a round begins with: early moments are likelier for its instances.
        moments = sorted(span_s * rng.random() ** (2 if "prefill" in name else 1)
                         for name, _ in victims)
        none_left = len(victims) == len(running.instances())
        streams = Streams(running, requests, may_be_refused=none_left)
        hit = 0
        for (name, pid), moment in zip(victims, moments):
            time.sleep(max(0.0, streams.started_at + moment - time.monotonic()))
            hit += streams.num_unfinished() > 0
            os.kill(pid, signal.SIGKILL)
        killed_at = time.monotonic()
        what = ", ".join(f"{name} at {moment * 1e3:.0f} ms"
                         for (name, _), moment in zip(victims, moments))
        gap = self.check(streams, expected, f"seed {SEED}: {what}")
        back = self.wait_back(running, victims, killed_at)
        self.wait_idle(running)
        return {"what": what, "kind": kind, "gap": gap, "back": back, "hit": hit}

    def stop_round(self, running, requests, expected, role):
        """A stopped worker is fenced, its streams end elsewhere, the supervisor replaces it."""
        name, pid = self.victims(random.Random(SEED), running, role)[0]
        streams = Streams(running, requests)
        cluster.wait_for(lambda: streams.num_events > NUM_STREAMS, "tokens")
        os.kill(pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        self.assertGreater(streams.num_unfinished(), 0)
        gap = self.check(streams, expected, f"{name} stopped")
        back = self.wait_back(running, [(name, pid)], stopped_at)
        self.wait_idle(running)
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)
        return gap, back

    def files_of_survivors(self, running):
        """Open files, by kind, of the processes that nobody kills here."""
        coordinator, = cluster.children_named(running.main.pid, "tandem-coordinator")
        return {"supervisor": cluster.open_files(running.main.pid),
                "coordinator": cluster.open_files(coordinator)}

    def run_rounds(self, scale, instances, num_rounds, stopped_role=None):
        num_rounds = int(os.environ.get("TANDEM_ROUNDS", num_rounds))
        form = " + ".join(str(count) for count in instances.values())
        rng = random.Random(f"{SEED} {form} {scale.model.name}")
        rounds = [requests_of(rng, scale) for _ in range(num_rounds)]
        running = self.start(scale, instances)
        expected, span_s, quiet_gap = self.undisturbed(running, rounds)
        print(f"\n{form}, seed {SEED}: {num_rounds} rounds of {NUM_STREAMS} streams, "
              f"undisturbed {span_s:.2f} s each, longest gap {quiet_gap * 1e3:.0f} ms", flush=True)
        figures = []
        time.sleep(0.5)  # the connections of the last questions are closed
        files = self.files_of_survivors(running)
        try:
            for i in range(num_rounds):
                kind = ("prefill", "decode", "both")[i % 3]
                figures.append(self.kill_round(rng, running, rounds[i], expected[i], kind, span_s))
                print("  {what}: longest gap {gap:.3f} s, back {back:.2f} s".format(**figures[-1]),
                      flush=True)
            if stopped_role is not None:
                gap, back = self.stop_round(running, rounds[0], expected[0], stopped_role)
                print(f"  {stopped_role} stopped: longest gap {gap:.3f} s, back {back:.2f} s",
                      flush=True)
        except BaseException:
            print(running.logs())
            raise
        self.report(form, figures)
        time.sleep(0.5)
        self.assertEqual(self.files_of_survivors(running), files)
        # The test must have disturbed something.
        samples = running.metrics()
        failovers = [samples[f'tandem_failovers_total{{kind="{kind}"}}']
                     for kind in ("prefill", "decode")]
        print(f"  failovers of streams: prefill {failovers[0]:.0f}, decode {failovers[1]:.0f}; "
              f"fenced because {fence_reasons(running)}", flush=True)
        self.assertGreater(sum(figure["hit"] for figure in figures), 0)
        if num_rounds >= 10:
            self.assertGreater(min(failovers), 0)

    def test_prefill_lost_in_mid_transfer(self):
        """The link is slow, so that blocks are on their way when their sender dies or stops."""
        rng = random.Random(SEED)
        running = self.start(TINY, ONE_AND_ONE, testing={"slow_link": "512KiB"})
        rounds = [[{**request, "prompt": [rng.randrange(*TINY.vocabulary) for _ in range(250)],
                    "max_tokens": 40} for request in requests_of(rng, TINY)] for _ in range(4)]
        expected, _, _ = self.undisturbed(running, rounds)
        sent = 'tandem_kv_transfer_bytes_total{direction="received"}'
        whole_bytes = NUM_STREAMS * 8 * 32 * 768  # 8 blocks of 32 tokens of 768 bytes each
        for i, number in enumerate((signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL)):
            victims = self.victims(rng, running, "prefill")
            before = running.total(sent, "decode")
            streams = Streams(running, rounds[i])
            target = before + rng.uniform(0.1, 0.6) * whole_bytes
            cluster.wait_for(lambda: running.total(sent, "decode") > target, "some blocks")
            os.kill(victims[0][1], number)
            hit_at = time.monotonic()
            moved = (running.total(sent, "decode") - before) / whole_bytes
            gap = self.check(streams, expected[i], f"{number.name} in mid-transfer")
            back = self.wait_back(running, victims, hit_at)
            print(f"\n{number.name} with {moved:.0%} of the blocks moved: longest gap {gap:.3f} s, "
                  f"back {back:.2f} s", flush=True)
            self.wait_idle(running)
        self.assertGreater(running.metrics()['tandem_failovers_total{kind="prefill"}'], 2)

    def test_stopped_and_continued(self):
        """A pause costs nothing but time; one that ends after the fence makes a new incarnation."""
        rng = random.Random(SEED)
        pauses = [("decode", 1.5), ("prefill", 3.6), ("decode", 3.6)]
        rounds = [requests_of(rng, TINY) for _ in pauses]
        running = self.start(TINY, ONE_AND_ONE)
        expected, _, _ = self.undisturbed(running, rounds)
        for i, (role, pause_s) in enumerate(pauses):
            before = next(e for e in running.instances().values() if e["role"] == role)
            streams = Streams(running, rounds[i])
            cluster.wait_for(lambda: streams.num_events > NUM_STREAMS, "tokens")
            os.kill(before["pid"], signal.SIGSTOP)
            time.sleep(pause_s)
            os.kill(before["pid"], signal.SIGCONT)
            gap = self.check(streams, expected[i], f"seed {SEED}: {role} paused for {pause_s} s")
            running.wait_ready()
            self.wait_idle(running)
            after = running.instances()[before["name"]]
            print(f"\n{role} paused for {pause_s} s: longest gap {gap:.3f} s", flush=True)
            self.assertEqual(after["pid"], before["pid"])
            if pause_s < 2:
                self.assertEqual(after["incarnation"], before["incarnation"])
            else:
                self.assertNotEqual(after["incarnation"], before["incarnation"])

    def test_the_coordinator_pauses(self):
        """Instances that are gone only for a coordinator that slept are not given up by it."""
        rng = random.Random(SEED)
        pauses_s = [1.2, 4.0]  # shorter and longer than deadlines.coordinator_grace
        rounds = [requests_of(rng, TINY) for _ in pauses_s]
        running = self.start(TINY, ONE_AND_ONE)
        coordinator, = cluster.children_named(running.main.pid, "tandem-coordinator")
        expected, _, _ = self.undisturbed(running, rounds)
        before = running.instances()
        for pause_s, requests, ids in zip(pauses_s, rounds, expected):
            streams = Streams(running, requests)
            cluster.wait_for(lambda: streams.num_events > NUM_STREAMS, "tokens")
            os.kill(coordinator, signal.SIGSTOP)
            time.sleep(pause_s)
            os.kill(coordinator, signal.SIGCONT)
            gap = self.check(streams, ids, f"seed {SEED}: coordinator paused for {pause_s} s")
            running.wait_ready()
            self.wait_idle(running)
            print(f"\ncoordinator paused for {pause_s} s: longest gap {gap:.3f} s", flush=True)
            after = running.instances()
            for name in before:
                self.assertEqual(after[name]["incarnation"], before[name]["incarnation"])

    def report(self, form, figures):
        for kind in ("prefill", "decode", "both"):
            of_kind = [figure for figure in figures if figure["kind"] == kind]
            if not of_kind:
                continue
            gaps = sorted(figure["gap"] for figure in of_kind)
            backs = sorted(figure["back"] for figure in of_kind)
            print(f"{form} {kind} killed: longest gap {gaps[-1]:.3f} s (median "
                  f"{gaps[len(gaps) // 2]:.3f} s), back {backs[-1]:.2f} s (median "
                  f"{backs[len(backs) // 2]:.2f} s), {len(of_kind)} rounds", flush=True)

    def test_tiny_two_and_two(self):
        self.run_rounds(TINY, TWO_AND_TWO, 26, stopped_role="prefill")

    def test_tiny_one_and_one(self):
        self.run_rounds(TINY, ONE_AND_ONE, 14, stopped_role="decode")

    def test_smollm2_two_and_two(self):
        self.run_rounds(SMOLLM2, TWO_AND_TWO, 20 if cluster.FULL else 2)

    def test_smollm2_one_and_one(self):
        self.run_rounds(SMOLLM2, ONE_AND_ONE, 20 if cluster.FULL else 2)


class NobodyLeft(unittest.TestCase):
    """No other instance, no supervisor: requests end with an error, and the probes say so."""

    def start(self):
        settings = cluster.settings_of(pools={"mixed": {"ops": "reference"}},
                                       deadlines={"join": "4s"})
        running = cluster.Cluster(settings, with_up=False)
        self.addCleanup(running.close)
        self.assertEqual(running.get("/health").status, 200)
        self.assertEqual(running.get("/ready").status, 200)
        self.addCleanup(running.workers["mixed-0"].signal, signal.SIGKILL)
        return running, running.workers["mixed-0"].pid

    def disturb(self, number, unready_within_s):
        running, pid = self.start()
        asked = {"model": "test", "prompt": [300] * 20, "max_tokens": 450, "ignore_eos": True,
                 "stream": True}
        connection = running.connection()
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/completions", json.dumps(asked))
        response = connection.getresponse()
        for _ in range(10):
            response.readline()
        os.kill(pid, number)
        start = time.monotonic()
        cluster.wait_for(lambda: running.get("/ready").status == 503, "unready", unready_within_s)
        self.assertEqual(running.get("/health").status, 503)
        print(f"\n{number.name}: 503 after {time.monotonic() - start:.2f} s", flush=True)
        lines = [line.decode().strip() for line in response]
        lines = [line for line in lines if line.startswith("data: ")]
        print(f"error event after {time.monotonic() - start:.2f} s: {lines[-1]}", flush=True)
        self.assertIn("error", json.loads(lines[-1].removeprefix("data: ")))
        self.assertNotIn("data: [DONE]", lines)
        refused = running.post("/v1/completions", {**asked, "stream": False})
        self.assertEqual(refused.status, 503, refused.body)

    def test_a_killed_worker(self):
        self.disturb(signal.SIGKILL, 2 * 3)

    def test_a_stopped_worker(self):
        self.disturb(signal.SIGSTOP, 3 * 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
