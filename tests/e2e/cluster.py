"""A real cluster for end-to-end tests: daemons, a generated YAML file, free ports, HTTP helpers.

Uses the standard library only. TANDEM_BINARY_DIR is the build folder, TANDEM_SOURCE_DIR the tree.
"""
import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

SOURCE = pathlib.Path(os.environ["TANDEM_SOURCE_DIR"])
BINARY = pathlib.Path(os.environ["TANDEM_BINARY_DIR"]) / "bin"
SLACK = 3  # on promised deadlines: the test machine has other things to do
FULL = bool(os.environ.get("TANDEM_FULL"))
TINY = SOURCE / "tests/golden/gguf/llama-Q4_0.gguf"
SMOLLM2 = pathlib.Path("~/.cache/tandem/models/SmolLM2-135M-Instruct.Q4_1.gguf").expanduser()


def wait_for(condition, what, timeout_s=30):
    """The first true value of condition()."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.03)
    raise AssertionError(f"not within {timeout_s} s: {what}")


def descendants(pid):
    """Ids of the processes below `pid`."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = list(parents.get(pid, []))
    for child in found:
        found += parents.get(child, [])
    return found


def children_named(pid, program):
    """Those descendants that run `program`."""
    def name(child):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{child}/exe").resolve().name
    return [child for child in descendants(pid) if name(child) == program]


def open_files(pid):
    """What a process has open: how many files of each kind."""
    kinds = collections.Counter()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            kinds[os.readlink(entry.path).split(":[")[0]] += 1
    return dict(kinds)


def yaml_text(settings, indent=0):
    """Nested dicts as YAML; texts are quoted, so that no value is taken for another type."""
    lines = []
    for key, value in settings.items():
        if isinstance(value, dict):
            lines.append(" " * indent + f"{key}:")
            lines.append(yaml_text(value, indent + 2))
        else:
            lines.append(" " * indent + f"{key}: {value}")
    return "\n".join(lines)


def settings_of(model=TINY, pools=None, **sections):
    """A whole configuration: `pools` by role, other sections as they stand in the file."""
    defaults = {"threads": 1, "kv_memory": "64MiB"}
    pools = pools or {"prefill": {}, "decode": {}}
    return {
        "model": {"path": model, "alias": "test", **sections.pop("model_keys", {})},
        "coordinator": {"http": '"127.0.0.1:0"', "control": '"tcp://127.0.0.1:0"'},
        "pools": {role: {**defaults, **keys} for role, keys in pools.items()},
        **sections,
    }


def slow_model(folder):
    """A model with the vocabulary of TINY that needs about a millisecond per token."""
    file = pathlib.Path(folder) / "slow.gguf"
    subprocess.run([BINARY.parent / "tests/write_tiny_model", file, f"tokenizer={TINY}",
                    "vocab=512", "context=2048", "layers=8", "hidden=256", "heads=4",
                    "kv_heads=2", "head_dim=64", "ffn=1024", "type=Q8_0"], check=True)
    return file


class Process:
    """A child whose output is gathered in the background."""

    def __init__(self, arguments, **options):
        self.arguments = [str(argument) for argument in arguments]
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, errors="replace",
                                        start_new_session=True, **options)
        self.out, self.err = [], []
        self._readers = [threading.Thread(target=self._read, args=pair, daemon=True)
                         for pair in ((self.process.stdout, self.out),
                                      (self.process.stderr, self.err))]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(stream, lines):
        with stream:
            for line in stream:
                lines.append(line.rstrip("\n"))

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def first_line(self, timeout_s=60):
        wait_for(lambda: self.out or not self.alive(), "a line on stdout", timeout_s)
        for reader in self._readers if not self.alive() else []:
            reader.join(5)
        assert self.out, f"{self.arguments} ended:\n" + "\n".join(self.err)
        return self.out[0]

    def status(self, timeout_s=30):
        """Waits for the end; the exit status."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {timeout_s} s; log:\n" + "\n".join(self.err))
        for reader in self._readers:
            reader.join(5)
        return status

    def signal(self, number):
        if self.alive():
            self.process.send_signal(number)

    def log(self):
        return "\n".join(self.err)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Cluster:
    """A running cluster; a context manager that leaves nothing behind.

    with_up: by `tandem up`; else coordinator and workers are children of the test, without mpirun.
    settings: what settings_of() gives, or the path of a file, which `arguments` should give port 0.
    """

    def __init__(self, settings, with_up=True, arguments=(), wait=True):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tandem-e2e-"))
        self.settings = settings
        if isinstance(settings, dict):
            self.config = self.folder / "cluster.yaml"
            self.config.write_text(yaml_text(settings) + "\n")
        else:
            self.config = settings
        self.workers = {}
        self.extra = []
        try:
            if with_up:
                self.main = Process([BINARY / "tandem", "up", self.config, *arguments])
                self.url = self.main.first_line().removeprefix("ready ")
            else:
                self.main = Process([BINARY / "tandem-coordinator", "--config", self.config])
                bound = re.fullmatch(r"bound http=(\S+) control=(\S+)", self.main.first_line())
                self.url = "http://" + bound[1]
                self.control = bound[2]
                for role, keys in settings["pools"].items():
                    for index in range(int(keys.get("instances", 1))):
                        self.start_worker(f"{role}-{index}")
                if wait:
                    self.wait_ready()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            print(self.logs())
        self.close()

    def start_worker(self, name, arguments=(), config=None, launcher=()):
        self.workers[name] = Process(
            [*launcher, BINARY / "tandem-worker", "--config", config or self.config, "--instance",
             name, "--set", f"coordinator.control={self.control}", *arguments])
        return self.workers[name]

    def logs(self):
        texts = [self.main.log()] if hasattr(self, "main") else []
        return "\n".join(texts + [worker.log() for worker in self.workers.values()])

    def close(self):
        """Asks politely, then kills; the folder goes too."""
        processes = [*self.workers.values(), *([self.main] if hasattr(self, "main") else [])]
        for process in processes:
            process.signal(signal.SIGTERM)
        for process in processes:
            with contextlib.suppress(AssertionError):
                process.status(20)
            process.signal(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- HTTP ----

    http_timeout_s = 120  # of silence; an answer that is not streamed is silent until it ends

    def connection(self, timeout_s=None):
        host, port = self.url.removeprefix("http://").split(":")
        return http.client.HTTPConnection(host, int(port), timeout=timeout_s or self.http_timeout_s)

    def request(self, method, path, body=None):
        connection = self.connection()
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            text = None if body is None else (body if isinstance(body, str) else json.dumps(body))
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read().decode())
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body):
        return self.request("POST", path, body)

    def complete(self, prompt, **fields):
        """One completion with its ids; `prompt` is text or ids."""
        reply = self.post("/v1/completions", {"model": "test", "prompt": prompt, "temperature": 0,
                                              "return_token_ids": True, **fields})
        assert reply.status == 200, reply.body
        return reply.json()

    def stream(self, path, body, on_event=None):
        """The parsed events of a stream, [DONE] left out. on_event(event) may return True to leave
        at once."""
        connection = self.connection()
        events = []
        try:
            connection.request("POST", path, json.dumps({"model": "test", **body, "stream": True}),
                               {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            done = False
            for line in response:
                text = line.decode().strip()
                if not text.startswith("data: "):
                    continue
                if text == "data: [DONE]":
                    done = True
                    break
                events.append(json.loads(text.removeprefix("data: ")))
                if on_event is not None and on_event(events[-1]):
                    return events
            assert done, "the stream ended without [DONE]"
            return events
        finally:
            connection.close()

    # ---- state ----

    def instances(self):
        return {entry["name"]: entry for entry in self.get("/admin/cluster").json()["instances"]}

    def wait_ready(self, timeout_s=60):
        def ready():
            for worker in self.workers.values():
                assert worker.alive(), "a worker ended:\n" + worker.log()
            return all(entry["state"] == "ready" for entry in self.instances().values())
        wait_for(ready, "all instances ready", timeout_s)

    def wait_idle(self, timeout_s=10):
        """Every instance holds nothing any more."""
        def idle():
            return all(entry["state"] == "ready" and entry["running"] == 0 and
                       entry["waiting"] == 0 and entry["blocks"]["leased"] == 0 and
                       entry["blocks"]["free"] + entry["blocks"]["cached"] ==
                       entry["blocks"]["total"] for entry in self.instances().values())
        try:
            wait_for(idle, "idle", timeout_s)
        except AssertionError:
            raise AssertionError(f"not idle: {json.dumps(self.instances(), indent=1)}")

    def metrics(self, instance=None):
        """All samples of the coordinator or of an instance: {'name{labels}': value}."""
        if instance is None:
            text = self.get("/metrics").body
        else:
            url = self.instances()[instance]["metrics"].removeprefix("http://")
            address, path = url.split("/", 1)
            connection = http.client.HTTPConnection(address, timeout=10)
            connection.request("GET", "/" + path)
            text = connection.getresponse().read().decode()
            connection.close()
        samples = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def total(self, name, role=None):
        """The sum of one sample over all instances (of a role)."""
        return sum(self.metrics(entry["name"]).get(name, 0.0)
                   for entry in self.instances().values() if role in (None, entry["role"]))
