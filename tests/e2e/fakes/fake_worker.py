#!/usr/bin/env python3
"""Stands in for tandem-worker in tests of the supervisor: joins by writing FAKE_DIR/NAME.json.

FAKE_DIR/worker_mode: `fail` = exit 2 with a message, `crash` = exit 1, `mute` = never join.
"""
import ctypes
import json
import os
import pathlib
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
FOLDER = pathlib.Path(os.environ["FAKE_DIR"])


def main():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    name = sys.argv[sys.argv.index("--instance") + 1]
    (FOLDER / f"{name}_arguments").write_text("\n".join(sys.argv[1:]))
    path = FOLDER / "worker_mode"
    mode = path.read_text().strip() if path.exists() else ""
    if mode == "fail":
        print("tandem-worker: model.path: no such file", file=sys.stderr)
        sys.exit(2)
    if mode == "crash":
        sys.exit(1)
    if mode != "mute":
        entry = {"name": name, "pid": os.getpid(), "launcher_pid": os.getppid()}
        half = FOLDER / f"{name}.half"
        half.write_text(json.dumps(entry))
        half.rename(FOLDER / f"{name}.json")
    while True:
        time.sleep(60)


main()
