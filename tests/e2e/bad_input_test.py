#!/usr/bin/env python3
"""Requests that must be refused, over real processes: each a 400 that names the field, while the
requests beside it get their tokens as if nothing had happened."""
import threading
import unittest

import cluster

CONTEXT = 512     # of the tiny model
VOCABULARY = 512
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGE = '{"role":"user","content":"hi"}'


def completion(fields):
    return COMPLETIONS, '{"model":"test",' + fields + "}"


def with_prompt(fields):
    return completion('"prompt":"a",' + fields)


def with_message(fields):
    return CHAT, '{"model":"test","messages":[' + MESSAGE + "]," + fields + "}"


def with_messages(messages):
    return CHAT, '{"model":"test","messages":' + messages + "}"


# (path, body), the name in the answer.
TOKEN_IDS = [
    (completion('"prompt":[-1]'), "prompt"),
    (completion(f'"prompt":[[{VOCABULARY}]]'), "prompt"),
    (completion('"prompt":[2147483648]'), "prompt"),
    (completion(f'"prompt":[1,2,{VOCABULARY}]'), "prompt"),
    (completion('"prompt":[18446744073709551617]'), "prompt"),
    (completion('"prompt":[1.5]'), "prompt"),
    (with_prompt(f'"logit_bias":{{"{VOCABULARY}":5}}'), "logit_bias"),
    (with_prompt('"logit_bias":{"-1":1}'), "logit_bias"),
    (with_prompt(f'"stop_token_ids":[{VOCABULARY}]'), "stop_token_ids"),
    (with_prompt('"stop_token_ids":[-1]'), "stop_token_ids"),
]

SHAPES = [
    ((CHAT, "{:"), "body"), ((CHAT, ""), "body"), ((CHAT, "[]"), "body"), ((CHAT, "5"), "body"),
    ((CHAT, '"x"'), "body"), ((COMPLETIONS, "{}"), "prompt"), ((CHAT, "{}"), "messages"),
    (with_messages('"hi"'), "messages"),
    (with_messages("[]"), "messages"),
    (with_messages('[{"role":"bot","content":"hi"}]'), "messages[0].role"),
    (with_messages('[{"role":"user","content":5}]'), "messages[0].content"),
    (with_messages(f'[{MESSAGE},{{"role":"assistant","content":"","tool_calls":[{{"id":"c",'
                   '"type":"function","function":{"name":"f","arguments":"{"}}]}]'),
     "messages[1].tool_calls"),
    (with_message('"stream":"true"'), "stream"),
    (with_message('"max_tokens":"256"'), "max_tokens"),
    (with_message('"max_tokens":1.5'), "max_tokens"),
    (with_message('"n":0'), "n"),
    (with_messages("[" * 100_000 + "]" * 100_000), "messages[0][0]"),
]

FLOATS = ["temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty",
          "repetition_penalty"]
NUMBERS = [(with_prompt(f'"{field}":{value}'), field) for field in FLOATS
           for value in ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", '"NaN"')]
NUMBERS += [(with_prompt(f'"repetition_penalty":{value}'), "repetition_penalty")
            for value in (-1, 0)]


class Refused(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster.Cluster(cluster.settings_of())
        cls.addClassCleanup(cls.cluster.close)
        cls.good = [{"prompt": [300 + i] * (1 + 20 * i), "max_tokens": 30, "ignore_eos": True,
                     "temperature": 0 if i % 2 else 0.9, "seed": i} for i in range(7)]
        cls.expected = [cls.cluster.complete(**fields)["choices"] for fields in cls.good]

    def setUp(self):
        """Seven good requests, over and over, until the bad ones have been answered."""
        self.stop = threading.Event()
        self.rounds, self.wrong = [0] * len(self.good), []
        self.threads = [threading.Thread(target=self.repeat, args=(i,))
                        for i in range(len(self.good))]
        for thread in self.threads:
            thread.start()

    def repeat(self, i):
        try:
            while not self.stop.is_set() or self.rounds[i] == 0:
                choices = self.cluster.complete(**self.good[i])["choices"]
                if choices != self.expected[i]:
                    self.wrong.append((i, choices))
                self.rounds[i] += 1
        except Exception as error:  # noqa: BLE001 - reported by tearDown
            self.wrong.append((i, error))

    def tearDown(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        self.assertEqual(self.wrong, [])
        self.cluster.wait_idle()

    def check(self, cases):
        for (path, body), field in cases:
            with self.subTest(path=path, body=body[:120]):
                reply = self.cluster.post(path, body)
                self.assertEqual(reply.status, 400, reply.body)
                error = reply.json()["error"]
                self.assertEqual(error["param"], field)
                self.assertTrue(error["message"])
                self.assertEqual(error["type"], "invalid_request_error")

    def test_token_ids_outside_the_vocabulary(self):
        self.check(TOKEN_IDS)

    def test_wrong_shapes(self):
        self.check(SHAPES)

    def test_numbers_that_are_none(self):
        self.check(NUMBERS)

    def test_unknown_fields_are_accepted(self):
        reply = self.cluster.post(*with_prompt('"max_tokens":2,"no_such_field":{"a":[1]}'))
        self.assertEqual(reply.status, 200, reply.body)

    def answer(self, length, stream, **fields):
        """Status and the whole of the answer: ids and finish_reason, or the error."""
        body = {"prompt": [300] * length, "ignore_eos": True, "temperature": 0,
                "return_token_ids": True, **fields}
        reply = self.cluster.post(COMPLETIONS, {"model": "test", "stream": stream, **body})
        if reply.status != 200:
            return reply.status, reply.json()["error"]
        if not stream:
            choice = reply.json()["choices"][0]
            return 200, (choice["token_ids"], choice["finish_reason"])
        events = [line.removeprefix("data: ") for line in reply.body.splitlines() if line]
        self.assertEqual(events[-1], "[DONE]")
        choices = [choice for event in events[:-1]
                   for choice in cluster.json.loads(event)["choices"]]
        return 200, ([i for choice in choices for i in choice.get("token_ids") or []],
                     choices[-1]["finish_reason"])

    def both(self, length, **fields):
        """The same in both modes."""
        whole = self.answer(length, False, **fields)
        self.assertEqual(self.answer(length, True, **fields), whole)
        return whole

    def test_limits_of_length(self):
        status, (ids, reason) = self.both(CONTEXT - 1, max_tokens=1)
        self.assertEqual((status, len(ids), reason), (200, 1, "length"))
        for length in (CONTEXT, CONTEXT + 1):
            status, error = self.both(length, max_tokens=1)
            self.assertEqual((status, error["param"]), (400, "prompt"))
            self.assertIn(str(CONTEXT), error["message"])
            self.assertIn(str(length), error["message"])
        status, error = self.both(CONTEXT - 1, max_tokens=2)
        self.assertEqual((status, error["param"]), (400, "max_tokens"))
        for count in (0, -1, 2**31, 2**63, 2**64 + 1):
            status, error = self.both(5, max_tokens=count)
            self.assertEqual((status, error["param"]), (400, "max_tokens"), count)

    def test_without_a_limit_the_answer_ends_where_the_context_does(self):
        for fields in ({}, {"max_tokens": None}):
            status, (ids, reason) = self.both(CONTEXT - 3, **fields)
            self.assertEqual((status, len(ids), reason), (200, 3, "length"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
