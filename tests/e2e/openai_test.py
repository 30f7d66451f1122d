#!/usr/bin/env python3
"""The official `openai` client against one prefill and one decode instance, and SmolLM2's golden
tokens through HTTP."""
import concurrent.futures
import json
import unittest

import cluster

try:
    import openai
except ModuleNotFoundError:
    openai = None

BLOCK_SIZE = 32
GOLDEN = cluster.SOURCE.parent / "shared/fixtures/smollm2/golden.json"
PROMPT = "The capital of France is"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
# Below this distance of the two best logits, bf16 KV may exchange them.
BF16_GAP = 0.3


def client_of(running):
    # No retries: a failure is to be seen. No environment: it may name a proxy.
    return openai.OpenAI(base_url=running.url + "/v1", api_key="none", max_retries=0, timeout=120,
                         http_client=openai.DefaultHttpxClient(trust_env=False))


class Client:
    """What the client must be able to do; subclasses start a cluster whose model is `model`."""
    model = "test"
    extra = {"return_token_ids": True, "ignore_eos": True}

    def test_models(self):
        models = list(self.client.models.list())
        self.assertEqual([model.id for model in models], [self.model])
        self.assertEqual(self.client.models.retrieve(self.model).id, self.model)

    def test_completion(self):
        fields = {"model": self.model, "prompt": PROMPT, "max_tokens": 12, "temperature": 0,
                  "extra_body": self.extra}
        whole = self.client.completions.create(**fields)
        self.assertEqual(whole.object, "text_completion")
        self.assertEqual(whole.choices[0].finish_reason, "length")
        self.check_usage(whole.usage, completion=12)
        parts = list(self.client.completions.create(
            **fields, stream=True, stream_options={"include_usage": True}))
        self.check_stream(parts, whole)
        self.assertEqual("".join(c.text for p in parts for c in p.choices),
                         whole.choices[0].text)

    def test_chat(self):
        fields = {"model": self.model, "messages": QUESTION, "max_tokens": 12, "temperature": 0,
                  "extra_body": self.extra}
        whole = self.client.chat.completions.create(**fields)
        self.assertEqual(whole.object, "chat.completion")
        self.assertEqual(whole.choices[0].message.role, "assistant")
        self.check_usage(whole.usage, completion=12)
        parts = list(self.client.chat.completions.create(
            **fields, stream=True, stream_options={"include_usage": True}))
        self.check_stream(parts, whole)
        self.assertEqual(parts[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(c.delta.content or "" for p in parts for c in p.choices),
                         whole.choices[0].message.content)

    def check_usage(self, usage, completion):
        self.assertEqual(usage.completion_tokens, completion)
        self.assertGreater(usage.prompt_tokens, 0)
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        self.assertLess(usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens)

    def check_stream(self, parts, whole):
        """Usage once, in the last chunk, without choices; ids and ending as in the whole."""
        self.assertEqual(parts[-1].choices, [])
        self.assertEqual([part.usage for part in parts[:-1]], [None] * (len(parts) - 1))
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            self.assertEqual(getattr(parts[-1].usage, name), getattr(whole.usage, name))
        choices = [choice for part in parts for choice in part.choices]
        self.assertEqual([c.finish_reason for c in choices if c.finish_reason],
                         [whole.choices[0].finish_reason])
        self.assertEqual([i for c in choices for i in c.model_extra.get("token_ids") or []],
                         whole.choices[0].model_extra["token_ids"])
        self.assertEqual(len({part.id for part in parts}), 1)

    def test_no_usage_unless_asked_for(self):
        parts = list(self.client.completions.create(model=self.model, prompt=PROMPT, max_tokens=3,
                                                    stream=True))
        self.assertTrue(all(part.choices for part in parts))
        self.assertEqual({part.usage for part in parts}, {None})

    def test_seed_and_stop(self):
        fields = {"model": self.model, "prompt": PROMPT, "max_tokens": 24, "temperature": 0.9,
                  "top_p": 0.95, "seed": 5, "extra_body": self.extra}
        first, again, other = [
            self.client.completions.create(**{**fields, "seed": seed}).choices[0]
            for seed in (5, 5, 6)]
        self.assertEqual(first.model_extra["token_ids"], again.model_extra["token_ids"])
        self.assertNotEqual(first.model_extra["token_ids"], other.model_extra["token_ids"])
        self.assertGreater(len(first.text), 12)
        stop = first.text[6:10]
        stopped = self.client.completions.create(**fields, stop=[stop]).choices[0]
        self.assertEqual(stopped.text, first.text[:first.text.index(stop)])
        self.assertEqual(stopped.finish_reason, "stop")

    def test_errors_are_the_clients_own(self):
        with self.assertRaises(openai.BadRequestError) as bad:
            self.client.completions.create(model=self.model, prompt=PROMPT, temperature=9)
        self.assertEqual(bad.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as bad:
            self.client.completions.create(model=self.model, prompt=PROMPT, stream=True,
                                           logprobs=5)
        self.assertEqual(bad.exception.param, "logprobs")
        with self.assertRaises(openai.NotFoundError) as missing:
            self.client.chat.completions.create(model="other", messages=QUESTION)
        self.assertEqual(missing.exception.code, "model_not_found")


@unittest.skipIf(openai is None, "the openai package is absent: tests/run.sh installs it")
class TinyClient(Client, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster.Cluster(cluster.settings_of())
        cls.addClassCleanup(cls.cluster.close)
        cls.client = client_of(cls.cluster)


def golden_cases(longest):
    """The shortest first. Cases whose prompt is longer are left to TANDEM_FULL."""
    cases = json.loads(GOLDEN.read_text())["cases"]
    return sorted([case for case in cases if cluster.FULL or len(case["ids"]) <= longest],
                  key=lambda case: len(case["ids"]))


def continue_all(running, cases):
    """Greedy continuations, all at once."""
    def one(case):
        reply = running.complete(case["ids"], model="smollm2", ignore_eos=True,
                                 max_tokens=len(case["greedy_ids"]))
        return reply["choices"][0]["token_ids"], reply
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        answers = list(pool.map(one, cases))
    running.wait_idle()
    return answers


PORTS = ["--set", "coordinator.http=127.0.0.1:0", "--set", "coordinator.control=tcp://127.0.0.1:0"]
SMOLLM2_ABSENT = f"{cluster.SMOLLM2} is absent: deploy/local/quickstart.sh fetches it"


def local_cluster(*overrides):
    """`tandem up configs/local.yaml`, on free ports."""
    arguments = [part for override in overrides for part in ("--set", override)]
    return cluster.Cluster(cluster.SOURCE / "configs/local.yaml",
                           arguments=[*PORTS, *arguments])


@unittest.skipIf(openai is None, "the openai package is absent: tests/run.sh installs it")
@unittest.skipUnless(cluster.SMOLLM2.exists(), SMOLLM2_ABSENT)
class LocalYaml(Client, unittest.TestCase):
    """configs/local.yaml as it stands: the fast op set, bf16 KV."""
    model = "smollm2"
    kv_bytes_per_token = 2 * 30 * 3 * 64 * 2  # K and V, layers, heads, width, bf16

    @classmethod
    def setUpClass(cls):
        cls.cluster = local_cluster()
        cls.addClassCleanup(cls.cluster.close)
        cls.client = client_of(cls.cluster)

    def test_a_sensible_answer(self):
        answer = self.client.chat.completions.create(model=self.model, messages=QUESTION,
                                                     temperature=0, max_tokens=40)
        self.assertIn("Paris", answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    @unittest.skipUnless(GOLDEN.exists(), f"{GOLDEN} is absent")
    def test_golden_tokens(self):
        cases = golden_cases(longest=500)
        self.cluster.wait_idle()
        before = self.decode_prompt_tokens()
        compared = 0
        for case, (ids, reply) in zip(cases, continue_all(self.cluster, cases)):
            with self.subTest(case=case["name"]):
                compared += self.check_ids(ids, case)
                self.check_handover(reply, len(case["ids"]))
        # Most of the golden tokens were reached: an early flip ends the comparison of a case.
        self.assertGreater(compared, 32 * len(cases))
        self.assertEqual(self.decode_prompt_tokens(), before)
        self.assertEqual(before, 0)

    def check_ids(self, ids, case):
        """Equal up to the first step where rounding the KV may turn the choice. How many."""
        golden = case["greedy_ids"]
        self.assertEqual(len(ids), len(golden))
        first = next((i for i in range(len(golden)) if ids[i] != golden[i]), len(golden))
        if first < len(golden):
            self.assertLessEqual(case["greedy_gaps"][first], BF16_GAP, f"at {first}")
        return first

    def check_handover(self, reply, length):
        trace, usage = reply["tandem"], reply["usage"]
        uncached = length - usage["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(trace["kv_bytes_moved"], -(-uncached // BLOCK_SIZE) * BLOCK_SIZE *
                         self.kv_bytes_per_token)
        self.assertEqual(trace["decode_local_compute"], 0)
        self.assertEqual(trace["prefill_instance"], "prefill-0")
        self.assertEqual(trace["decode_instance"], "decode-0")

    def decode_prompt_tokens(self):
        name = 'vllm:prompt_tokens_by_source_total{source="local_compute"}'
        return self.cluster.metrics("decode-0")[name]


@unittest.skipUnless(cluster.SMOLLM2.exists(), SMOLLM2_ABSENT)
@unittest.skipUnless(GOLDEN.exists(), f"{GOLDEN} is absent")
class Reference(unittest.TestCase):
    """The readable op set and f32 KV: every golden token, with no allowance."""

    def test_golden_tokens(self):
        cases = golden_cases(longest=129)
        with local_cluster("kv.dtype=f32", "pools.prefill.ops=reference",
                           "pools.decode.ops=reference", "pools.prefill.kv_memory=512MiB"
                           ) as running:
            running.http_timeout_s = 800  # slow by intent, and all cases wait for each other
            for case, (ids, reply) in zip(cases, continue_all(running, cases)):
                with self.subTest(case=case["name"]):
                    self.assertEqual(ids, case["greedy_ids"])
                    self.assertEqual(reply["tandem"]["decode_local_compute"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
