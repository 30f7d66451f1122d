#!/usr/bin/env python3
"""What can't work is refused by name, and the cluster lives on."""
import socket
import subprocess
import unittest

import cluster

OTHER_MODEL = cluster.SOURCE / "tests/golden/gguf/llama-F32.gguf"
SAY_HELLO = cluster.BINARY.parent / "tests" / "say_hello"


class BadJoins(unittest.TestCase):
    """decode-1 is configured, and comes as what it must not be."""

    @classmethod
    def setUpClass(cls):
        settings = cluster.settings_of(pools={"prefill": {}, "decode": {"instances": 2}})
        cls.cluster = cluster.Cluster(settings, with_up=False, wait=False)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.wait_ready()

    def setUp(self):
        worker = self.cluster.workers["decode-1"]
        worker.signal(9)
        worker.status()
        reply = self.cluster.post("/admin/instance_exited",
                                  {"name": "decode-1", "pid": worker.pid})
        self.assertEqual(reply.status, 202)
        self.assertEqual(self.cluster.instances()["decode-1"]["state"], "dead")

    def refused(self, *overrides):
        """Starts decode-1 with other settings; what it says when it ends."""
        arguments = [part for override in overrides for part in ("--set", override)]
        worker = self.cluster.start_worker("decode-1", arguments)
        self.assertEqual(worker.status(), 2, worker.log())
        # The others serve on.
        reply = self.cluster.complete("What lives on?", max_tokens=3, ignore_eos=True)
        self.assertEqual(len(reply["choices"][0]["token_ids"]), 3)
        self.assertEqual(self.cluster.instances()["decode-1"]["state"], "dead")
        return worker.err[-1]

    def test_another_model(self):
        message = self.refused(f"model.path={OTHER_MODEL}")
        self.assertIn("tandem-worker: decode-1: ", message)
        self.assertIn("model_digest", message)

    def test_another_block_size(self):
        message = self.refused("kv.block_size=16")
        self.assertIn("kv.block_size", message)
        self.assertIn("16, the cluster has 32", message)

    def test_another_kv_dtype(self):
        self.assertIn("kv.dtype", self.refused("kv.dtype=f32"))

    def test_another_numerics_class(self):
        self.assertIn("numerics_class", self.refused("pools.decode.ops=reference"))

    def test_another_protocol_version(self):
        answer = subprocess.run([SAY_HELLO, self.cluster.control, "decode-1", "99"],
                                capture_output=True, text=True, timeout=20, check=True)
        self.assertIn("field=protocol_version", answer.stdout)
        self.assertIn("99", answer.stdout)
        self.assertEqual(self.cluster.instances()["decode-1"]["state"], "dead")

    def test_the_right_one_joins_afterwards(self):
        self.refused("kv.block_size=16")
        self.cluster.start_worker("decode-1")
        self.cluster.wait_ready()


class BadStarts(unittest.TestCase):
    def config(self, settings):
        file = cluster.pathlib.Path(cluster.tempfile.mkdtemp(prefix="tandem-e2e-"))
        self.addCleanup(cluster.shutil.rmtree, file)
        (file / "cluster.yaml").write_text(cluster.yaml_text(settings) + "\n")
        return file / "cluster.yaml"

    def fails(self, program, config, *arguments):
        """One line on stderr after the log, exit status 2."""
        process = cluster.Process([cluster.BINARY / program, "--config", config, *arguments])
        self.addCleanup(process.signal, 9)
        self.assertEqual(process.status(), 2, process.log())
        self.assertEqual(process.out, [])
        self.assertTrue(process.err[-1].startswith(program + ": "), process.log())
        return process.err[-1]

    def worker_fails(self, settings, *arguments, instance="decode-0"):
        return self.fails("tandem-worker", self.config(settings), "--instance", instance,
                          "--set", "coordinator.control=tcp://127.0.0.1:1", *arguments)

    def test_ports_in_use(self):
        config = self.config(cluster.settings_of())
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.assertIn(address, self.fails("tandem-coordinator", config, "--set",
                                              f"coordinator.http={address}"))
            self.assertIn(address, self.fails("tandem-coordinator", config, "--set",
                                              f"coordinator.control=tcp://{address}"))

    def test_missing_model(self):
        settings = cluster.settings_of(model="/nowhere/model.gguf")
        self.assertIn("/nowhere/model.gguf", self.fails("tandem-coordinator",
                                                        self.config(settings)))
        self.assertIn("/nowhere/model.gguf", self.worker_fails(settings))

    def test_kv_memory_too_small(self):
        settings = cluster.settings_of(
            model=cluster.TINY, pools={"prefill": {}, "decode": {"kv_memory": "1MiB"}})
        self.assertIn("pools.decode.kv_memory: 1MiB holds",
                      self.worker_fails(settings, "--set", "kv.block_size=64",
                                        "--set", "kv.dtype=f32",
                                        "--set", f"model.path={self.wide_model()}"))

    def wide_model(self):
        """A model with much KV per token."""
        folder = cluster.pathlib.Path(cluster.tempfile.mkdtemp(prefix="tandem-e2e-"))
        self.addCleanup(cluster.shutil.rmtree, folder)
        subprocess.run([SAY_HELLO.parent / "write_tiny_model", folder / "wide.gguf", "layers=8",
                        "heads=8", "kv_heads=8", "head_dim=64"], check=True)
        return folder / "wide.gguf"

    def test_unknown_instance(self):
        message = self.worker_fails(cluster.settings_of(), instance="decode-7")
        self.assertIn("decode-7", message)
        self.assertIn("decode-0", message)

    def test_a_worker_alone_refuses_port_0(self):
        message = self.fails("tandem-worker", self.config(cluster.settings_of()), "--instance",
                             "decode-0")
        self.assertIn("coordinator.control", message)

    def test_longer_context_than_the_model_has(self):
        settings = cluster.settings_of(model_keys={"max_context": 1000000})
        self.assertIn("model.max_context", self.fails("tandem-coordinator",
                                                      self.config(settings)))
        self.assertIn("model.max_context", self.worker_fails(settings))

    def test_nobody_admits_a_worker(self):
        message = self.worker_fails(cluster.settings_of(), "--set", "deadlines.join=1s")
        self.assertIn("tcp://127.0.0.1:1", message)
        self.assertIn("deadlines.join", message)


if __name__ == "__main__":
    unittest.main(verbosity=2)
