#!/usr/bin/env python3
"""Same request, same tokens: the bits of a request's logits depend on the request alone.

Each request's answer carries a digest over the bits of the logits behind every token of it. The
digests of requests run one by one in a `mixed` instance must come back from every other form:
batches, other chunks, warm caches, hand-over between instances, a corrupt block that is recomputed.
"""
import concurrent.futures
import os
import random
import signal
import threading
import unittest

import cluster

BLOCK_SIZE = 32
PASSAGE = 96  # prompt tokens that two of the requests begin with


class Request:
    def __init__(self, prompt, max_tokens, sampling):
        self.prompt, self.max_tokens, self.sampling = prompt, max_tokens, sampling

    def run(self, running):
        return Answer(running.complete(self.prompt, max_tokens=self.max_tokens, ignore_eos=True,
                                       **self.sampling))


class Answer:
    def __init__(self, reply):
        self.trace = reply["tandem"]
        self.ids = reply["choices"][0]["token_ids"]
        self.digest = self.trace["logits_digest"]
        self.cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"]

    def key(self):
        return self.digest, self.ids


def make_requests(lengths, ids, count_of_tokens, seed):
    """Mixed: every other one greedy; the last two begin with the same passage."""
    rng = random.Random(seed)
    samplings = [{"temperature": 0}, {"temperature": 0.8, "seed": 11},
                 {"temperature": 0}, {"temperature": 1.1, "top_p": 0.9, "seed": 2**40},
                 {"temperature": 0}, {"temperature": 0.7, "top_k": 20, "top_p": 0.95, "seed": 0}]
    passage = [rng.randrange(*ids) for _ in range(PASSAGE)]
    requests = []
    for i, length in enumerate(lengths):
        head = passage if i >= len(lengths) - 2 else []
        prompt = head + [rng.randrange(*ids) for _ in range(length - len(head))]
        requests.append(Request(prompt, count_of_tokens(i), samplings[i % len(samplings)]))
    return requests


def alone(running, requests):
    answers = [request.run(running) for request in requests]
    running.wait_idle()
    return answers


def together(running, requests):
    """All at once; the longest prompts first, so that the others join while they prefill."""
    order = sorted(range(len(requests)), key=lambda i: -len(requests[i].prompt))
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        futures = {i: pool.submit(requests[i].run, running) for i in order}
        answers = [futures[i].result() for i in range(len(requests))]
    running.wait_idle(30)
    return answers


class Forms:
    """The forms; subclasses say which model, and which requests."""
    model = None
    kv_memory = "64MiB"
    requests = []

    @classmethod
    def start(cls, pools, **testing):
        pools = {role: {"kv_memory": cls.kv_memory, **keys} for role, keys in pools.items()}
        return cluster.Cluster(cluster.settings_of(
            model=cls.model, pools=pools, kv={"block_size": BLOCK_SIZE},
            testing={"logits_digest": "true", **testing}))

    @classmethod
    def setUpClass(cls):
        # The measure of all: one by one, cold, each prompt in as few chunks as there are.
        with cls.start({"mixed": {"prefill_chunk": 512}}) as mixed:
            cls.expected = alone(mixed, cls.requests)
            cls.warm_batch = together(mixed, cls.requests)

    def check(self, answers):
        for request, answer, expected in zip(self.requests, answers, self.expected):
            with self.subTest(prompt=len(request.prompt), **request.sampling):
                self.assertEqual(answer.ids, expected.ids)
                self.assertEqual(answer.digest, expected.digest)

    def check_cold(self, answers):
        """Nothing was cached; of the last two, one may have found the other's beginning."""
        self.check(answers)
        self.assertEqual({answer.cached for answer in answers[:-2]}, {0})

    def check_warm(self, answers):
        self.check(answers)
        for request, answer in zip(self.requests, answers):
            self.assertEqual(answer.cached, (len(request.prompt) - 1) // BLOCK_SIZE * BLOCK_SIZE)

    def checksum_failures(self, running):
        name = 'tandem_kv_blocks_recomputed_total{reason="checksum"}'
        return running.total(name, "decode")

    def killed(self, running, request, instance, after_tokens=None, after_s=None):
        """The answer of a request during which an instance is killed."""
        victim = running.instances()[instance]["pid"]
        counted = [0]

        def on_event(event):
            if after_tokens is None or counted[0] > after_tokens:
                return
            counted[0] += sum(len(choice.get("token_ids") or []) for choice in event["choices"])
            if counted[0] > after_tokens:
                os.kill(victim, signal.SIGKILL)
        if after_s is not None:
            threading.Timer(after_s, os.kill, (victim, signal.SIGKILL)).start()
        events = running.stream("/v1/completions", {
            "prompt": request.prompt, "max_tokens": request.max_tokens, "ignore_eos": True,
            "return_token_ids": True, **request.sampling}, on_event)
        trace = next(event["tandem"] for event in events if event.get("tandem"))
        ids = [i for event in events for choice in event["choices"]
               for i in choice.get("token_ids") or []]
        running.wait_ready()
        self.assertNotEqual(running.instances()[instance]["pid"], victim)
        return (trace["logits_digest"], ids), trace

    def test_the_measure_itself(self):
        self.check_cold(self.expected)
        self.assertEqual([answer.cached for answer in self.expected[-2:]], [0, PASSAGE])
        self.assertEqual([len(answer.ids) for answer in self.expected],
                         [request.max_tokens for request in self.requests])
        self.assertEqual(len({answer.digest for answer in self.expected}), len(self.requests))

    def test_warm_in_a_batch(self):
        self.check_warm(self.warm_batch)

    def test_one_and_one_in_small_chunks_with_a_corrupt_block(self):
        # The third block to arrive is corrupt: noticed, computed where it is needed, counted.
        with self.start({"prefill": {"prefill_chunk": 16}, "decode": {"prefill_chunk": 16}},
                        flip_received_block=3) as running:
            answers = together(running, self.requests)
            self.check_cold(answers)
            recomputed = [answer.trace["decode_local_compute"] for answer in answers]
            self.assertEqual(len([n for n in recomputed if n > 0]), 1, recomputed)
            self.assertLessEqual(sum(recomputed), BLOCK_SIZE)
            self.assertEqual(self.checksum_failures(running), 1)
            self.check_warm(alone(running, self.requests))
            self.assertEqual(self.checksum_failures(running), 1)

    def test_two_and_two_in_odd_chunks(self):
        with self.start({"prefill": {"instances": 2, "prefill_chunk": 63},
                         "decode": {"instances": 2}}) as running:
            answers = together(running, self.requests)
            self.check_cold(answers)
            self.assertEqual({answer.trace["prefill_instance"] for answer in answers},
                             {"prefill-0", "prefill-1"})
            self.assertEqual({answer.trace["decode_instance"] for answer in answers},
                             {"decode-0", "decode-1"})
            self.assertEqual({answer.trace["decode_local_compute"] for answer in answers}, {0})
            answers = together(running, self.requests)
            self.check(answers)  # warm where a request met the same instance again
            self.assertGreater(sum(answer.cached for answer in answers), 0)

    def test_a_wrong_bit_that_goes_unnoticed_shows_in_the_digest(self):
        # A whole block of a request that generates several tokens from it.
        index = next(i for i, request in enumerate(self.requests)
                     if len(request.prompt) > BLOCK_SIZE and request.max_tokens > 1)
        request = self.requests[index]
        with self.start({"prefill": {}, "decode": {}}, flip_received_block=1,
                        verify_blocks="false") as running:
            wrong = request.run(running)
            self.assertNotEqual(wrong.digest, self.expected[index].digest)
            self.assertEqual(wrong.ids[0], self.expected[index].ids[0])  # sampled before the move
            self.assertEqual(self.checksum_failures(running), 0)
            running.wait_idle()


LENGTHS = [1, 33, 64, 17, 100, 600, 32, 250, 5, 411, 130, 160]


def more(lengths):
    """With TANDEM_FULL: 32 requests."""
    if not cluster.FULL:
        return lengths
    rng = random.Random(32)
    return [rng.randrange(1, 601) for _ in range(20)] + lengths


class Tiny(Forms, unittest.TestCase):
    model = cluster.TINY
    # The context of this model is 512 tokens.
    requests = make_requests([min(length, 480) for length in more(LENGTHS)], (256, 500),
                             lambda i: 8 + 5 * (i % 4), seed="tiny")

    def test_any_block_may_be_the_corrupt_one(self):
        """First, middle, last and partial ones; what is computed again is that block alone."""
        for request in [r for r in self.requests if len(r.prompt) in (100, 33, 1)]:
            expected = self.expected[self.requests.index(request)]
            length = len(request.prompt)
            for block in range(-(-length // BLOCK_SIZE)):
                with self.subTest(prompt=length, block=block), \
                        self.start({"prefill": {}, "decode": {}},
                                   flip_received_block=block + 1) as running:
                    answer = request.run(running)
                    self.assertEqual(answer.key(), expected.key())
                    self.assertEqual(answer.trace["decode_local_compute"],
                                     min(BLOCK_SIZE, length - block * BLOCK_SIZE))
                    self.assertEqual(self.checksum_failures(running), 1)
                    running.wait_idle()
                    self.assertEqual(request.run(running).key(), expected.key())

    def test_a_prefill_instance_that_dies_leaves_no_trace_in_the_bits(self):
        # 15 blocks at 5 per second: the prefill side dies when some have arrived.
        slow = f"{5 * BLOCK_SIZE * 768 // 1024}KiB"
        index = max(range(len(self.requests)), key=lambda i: len(self.requests[i].prompt))
        request = self.requests[index]
        with self.start({"prefill": {"prefill_chunk": 16}, "decode": {}},
                        slow_link=slow) as running:
            key, trace = self.killed(running, request, "prefill-0", after_s=1.5)
            self.assertEqual(key, self.expected[index].key())
            self.assertEqual((trace["attempts"], trace["epochs"]), (1, 2))
            self.assertGreater(trace["decode_local_compute"], 0)
            self.assertLess(trace["decode_local_compute"], len(request.prompt))

    def test_the_digest_covers_every_token(self):
        """As many digests as lengths of the answer, and none at all when it is off."""
        request = self.requests[1]
        with self.start({"mixed": {}}) as running:
            answers = [Request(request.prompt, count, request.sampling).run(running)
                       for count in range(1, 6)]
            self.assertEqual(len({answer.digest for answer in answers}), 5)
            other = Request(request.prompt, 3, {**request.sampling, "seed": 12}).run(running)
            # The first token's logits are the same; the digest then goes with the ids.
            self.assertEqual(other.digest == answers[2].digest, other.ids == answers[2].ids)
        with cluster.Cluster(cluster.settings_of(pools={"mixed": {}})) as running:
            self.assertNotIn("logits_digest",
                             running.complete(request.prompt, max_tokens=2)["tandem"])


@unittest.skipUnless(cluster.SMOLLM2.exists(), f"{cluster.SMOLLM2} is absent: "
                     "deploy/local/quickstart.sh fetches it")
class SmolLM2(Forms, unittest.TestCase):
    model = cluster.SMOLLM2
    kv_memory = "256MiB"
    requests = make_requests(more(LENGTHS), (1000, 40000), lambda i: 4 + 3 * (i % 4),
                             seed="smollm2")

    def test_a_decode_instance_that_dies_leaves_no_trace_in_the_bits(self):
        request = Request(self.requests[1].prompt, 60, {"temperature": 0.9, "seed": 3})
        with self.start({"prefill": {}, "decode": {}}) as running:
            expected = request.run(running)
            key, trace = self.killed(running, request, "decode-0", after_tokens=10)
            self.assertEqual(key, expected.key())
            self.assertEqual(trace["attempts"], 2)
            self.assertEqual(trace["decode_instance"], "prefill-0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
