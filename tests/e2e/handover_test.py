#!/usr/bin/env python3
"""What a hand-over moves, who computes what, and that the tokens do not depend on it."""
import concurrent.futures
import random
import unittest

import cluster

BLOCK_SIZE = 32
# llama-Q4_0: 3 layers, 2 KV heads of 32; K and V; 2 bytes.
KV_BYTES_PER_TOKEN = 2 * 3 * 2 * 32 * 2


def prompt_of(length, seed):
    """Ids of ordinary tokens; different seeds share no first block."""
    rng = random.Random(seed)
    return [rng.randrange(256, 500) for _ in range(length)]


def block_bytes(uncached_tokens):
    return -(-uncached_tokens // BLOCK_SIZE) * BLOCK_SIZE * KV_BYTES_PER_TOKEN


class OneAndOne(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster.Cluster(cluster.settings_of(kv={"block_size": BLOCK_SIZE}))
        cls.addClassCleanup(cls.cluster.close)

    def transferred(self):
        return (self.cluster.total('tandem_kv_transfer_bytes_total{direction="sent"}', "prefill"),
                self.cluster.total('tandem_kv_transfer_bytes_total{direction="received"}',
                                   "decode"))

    def test_bytes_follow_the_formula_and_decode_computes_no_prompt(self):
        for length in (1, 31, 32, 33, 64, 100, 129, 200):
            with self.subTest(length=length):
                before = self.transferred()
                reply = self.cluster.complete(prompt_of(length, seed=length), max_tokens=4,
                                              ignore_eos=True)
                trace, usage = reply["tandem"], reply["usage"]
                self.assertEqual(usage["prompt_tokens"], length)
                self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], 0)
                self.assertEqual(trace["kv_bytes_moved"], block_bytes(length))
                self.assertEqual(trace["decode_local_compute"], 0)
                self.assertEqual(trace["prefill_instance"], "prefill-0")
                self.assertEqual(trace["decode_instance"], "decode-0")
                self.assertEqual((trace["attempts"], trace["epochs"]), (1, 1))
                self.assertEqual(len(reply["choices"][0]["token_ids"]), 4)
                self.cluster.wait_idle()
                moved = [after - b for after, b in zip(self.transferred(), before)]
                self.assertEqual(moved, [block_bytes(length)] * 2)

    def test_a_repeated_prompt_moves_only_its_uncached_part(self):
        prompt = prompt_of(150, seed="repeated")
        first = self.cluster.complete(prompt, max_tokens=8, ignore_eos=True)
        self.cluster.wait_idle()
        again = self.cluster.complete(prompt, max_tokens=8, ignore_eos=True)
        cached = 149 // BLOCK_SIZE * BLOCK_SIZE
        self.assertEqual(again["usage"]["prompt_tokens_details"]["cached_tokens"], cached)
        self.assertEqual(again["tandem"]["kv_bytes_moved"], block_bytes(150 - cached))
        self.assertEqual(again["tandem"]["decode_local_compute"], 0)
        self.assertEqual(again["choices"][0]["token_ids"], first["choices"][0]["token_ids"])

    def test_a_common_beginning_is_reused(self):
        head = prompt_of(96, seed="common")
        self.cluster.complete(head + prompt_of(20, seed="a"), max_tokens=2, ignore_eos=True)
        self.cluster.wait_idle()
        reply = self.cluster.complete(head + prompt_of(40, seed="b"), max_tokens=2,
                                      ignore_eos=True)
        self.assertEqual(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 96)
        self.assertEqual(reply["tandem"]["kv_bytes_moved"], block_bytes(40))

    def test_one_token_needs_no_decode_instance(self):
        reply = self.cluster.complete(prompt_of(70, seed="one"), max_tokens=1)
        self.assertEqual(len(reply["choices"][0]["token_ids"]), 1)
        self.assertEqual(reply["tandem"]["decode_instance"], "")
        self.cluster.wait_idle()

    def test_generated_is_delivered_plus_discarded(self):
        self.cluster.complete(prompt_of(40, seed="stop"), max_tokens=30, ignore_eos=True)
        self.cluster.wait_idle()
        samples = self.cluster.metrics()
        discarded = sum(value for name, value in samples.items()
                        if name.startswith("tandem_tokens_discarded_total{"))
        self.assertEqual(self.cluster.total("tandem_tokens_generated_total"),
                         samples["tandem_tokens_delivered_total"] + discarded)

    def test_the_stream_carries_the_same_ids(self):
        prompt = prompt_of(50, seed="stream")
        whole = self.cluster.complete(prompt, max_tokens=12, ignore_eos=True)
        events = self.cluster.stream("/v1/completions", {
            "prompt": prompt, "temperature": 0, "max_tokens": 12, "ignore_eos": True,
            "return_token_ids": True})
        choices = [choice for event in events for choice in event["choices"]]
        self.assertEqual([i for choice in choices for i in choice.get("token_ids") or []],
                         whole["choices"][0]["token_ids"])
        self.assertEqual("".join(choice["text"] for choice in choices),
                         whole["choices"][0]["text"])


class SlowLink(unittest.TestCase):
    def test_the_hidden_share_sees_a_link_that_is_slower_than_the_compute(self):
        # 7 blocks at 7 blocks per second: at least 6/7 s pass after the prompt was computed, and
        # a whole one of this model takes some milliseconds.
        rate = 7 * BLOCK_SIZE * KV_BYTES_PER_TOKEN
        settings = cluster.settings_of(pools={"prefill": {"prefill_chunk": 64}, "decode": {}},
                                       testing={"slow_link": f"{rate // 1024}KiB"})
        with cluster.Cluster(settings) as running:
            reply = running.complete(prompt_of(200, seed="slow"), max_tokens=4, ignore_eos=True)
            self.assertEqual(reply["tandem"]["kv_bytes_moved"], block_bytes(200))
            self.assertGreaterEqual(reply["tandem"]["hidden_share"], 0)
            self.assertLess(reply["tandem"]["hidden_share"], 0.5)
            reply = running.complete(prompt_of(20, seed="one chunk"), max_tokens=4)
            self.assertNotIn("hidden_share", reply["tandem"])


class OtherForms(unittest.TestCase):
    REQUESTS = [(length, {"temperature": temperature, "seed": 7 + length})
                for length, temperature in ((1, 0), (17, 0.8), (40, 0), (64, 1.2), (100, 0),
                                            (130, 0.7))]

    def run_all(self, running):
        """The ids of all requests, sent at once."""
        def one(request):
            length, fields = request
            reply = running.complete(prompt_of(length, seed=length), max_tokens=16,
                                     ignore_eos=True, **fields)
            return reply["choices"][0]["token_ids"], reply["tandem"]
        with concurrent.futures.ThreadPoolExecutor(len(self.REQUESTS)) as pool:
            answers = list(pool.map(one, self.REQUESTS))
        return [ids for ids, _ in answers], [trace for _, trace in answers]

    def test_tokens_do_not_depend_on_the_form(self):
        with cluster.Cluster(cluster.settings_of(pools={"mixed": {}})) as mixed:
            expected, traces = self.run_all(mixed)
            self.assertEqual({trace["kv_bytes_moved"] for trace in traces}, {0})
            self.assertEqual([trace["decode_local_compute"] for trace in traces],
                             [length for length, _ in self.REQUESTS])
            mixed.wait_idle()
        pools = {"prefill": {"instances": 2, "prefill_chunk": 16}, "decode": {"instances": 2}}
        with cluster.Cluster(cluster.settings_of(pools=pools)) as two_and_two:
            ids, traces = self.run_all(two_and_two)
            self.assertEqual(ids, expected)
            self.assertEqual({trace["decode_local_compute"] for trace in traces}, {0})
            self.assertEqual([trace["kv_bytes_moved"] for trace in traces],
                             [block_bytes(length) for length, _ in self.REQUESTS])
            # How many are used depends on how fast the requests come.
            self.assertLessEqual({trace["prefill_instance"] for trace in traces},
                                 {"prefill-0", "prefill-1"})
            self.assertLessEqual({trace["decode_instance"] for trace in traces},
                                 {"decode-0", "decode-1"})
            two_and_two.wait_idle()


class ShortPrompts(unittest.TestCase):
    """router.local_prefill_tokens: a short rest is computed where it is needed."""

    def test_the_decode_side_prefills_what_is_shorter(self):
        settings = cluster.settings_of(kv={"block_size": BLOCK_SIZE},
                                       router={"local_prefill_tokens": 50})
        with cluster.Cluster(settings, with_up=False) as running:
            for length, prefill, moved in ((49, "decode-0", 0),
                                           (50, "prefill-0", block_bytes(50))):
                with self.subTest(length=length):
                    reply = running.complete(prompt_of(length, seed=length), max_tokens=4,
                                             ignore_eos=True)
                    self.assertEqual(reply["tandem"]["prefill_instance"], prefill)
                    self.assertEqual(reply["tandem"]["kv_bytes_moved"], moved)
                    self.assertEqual(reply["tandem"]["decode_instance"], "decode-0")
            stages = running.metrics()
            for stage in ("queued", "reserve", "prefill", "commit"):
                name = f'tandem_handover_stage_seconds_count{{stage="{stage}"}}'
                self.assertGreater(stages[name], 0, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
