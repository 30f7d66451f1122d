#!/usr/bin/env python3
"""Stands in for tandem-coordinator in tests of the supervisor.

The folder FAKE_DIR holds the state the test plays with: NAME.json of each fake worker, `fenced`
(names reported dead although they live), `coordinator_mode` (fail | die | deaf) and `drain_s`.
"""
import http.server
import json
import os
import pathlib
import sys
import threading
import time

FOLDER = pathlib.Path(os.environ["FAKE_DIR"])


def text_of(name, default=""):
    path = FOLDER / name
    return path.read_text().strip() if path.exists() else default


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state != "Z"
    except OSError:
        return False


def instances():
    entries = []
    for path in sorted(FOLDER.glob("*.json")):
        entry = json.loads(path.read_text())
        fenced = text_of("fenced").split()
        dead = not is_alive(entry["pid"]) or f"{entry['name']}:{entry['pid']}" in fenced
        entries.append({**entry, "state": "dead" if dead else "ready"})
    return entries


class Handler(http.server.BaseHTTPRequestHandler):
    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/admin/cluster":
            self.reply(200, {"instances": instances()})
        else:
            self.reply(404, {})

    def do_POST(self):
        if self.path == "/admin/instance_exited":
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            with open(FOLDER / "exited", "a") as file:
                file.write(body + "\n")
            self.reply(202, {})
            return
        if self.path != "/admin/drain" or text_of("coordinator_mode") == "deaf":
            self.reply(404, {})
            return
        self.reply(202, {})
        (FOLDER / "drained").write_text("yes")
        threading.Timer(float(text_of("drain_s", "0")), lambda: os._exit(0)).start()

    def log_message(self, *_):
        pass


def die_when_told():
    while text_of("coordinator_mode") != "die":
        time.sleep(0.05)
    os._exit(1)


def main():
    (FOLDER / "coordinator_arguments").write_text("\n".join(sys.argv[1:]))
    if text_of("coordinator_mode") == "fail":
        print("tandem-coordinator: port 8000 is in use", file=sys.stderr)
        sys.exit(2)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"bound http=127.0.0.1:{server.server_port} control=tcp://127.0.0.1:9", flush=True)
    threading.Thread(target=die_when_told, daemon=True).start()
    server.serve_forever()


main()
