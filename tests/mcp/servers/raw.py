"""A program that speaks the older protocol by hand, and breaks it as it is told on its command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

HOW = sys.argv[1]
NOTES = os.environ.get("NOTES", os.devnull)
SLEEPER = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)


def note(what: str) -> None:
    with open(NOTES, "a") as file:
        file.write(what + "\n")


def say(line: bytes) -> None:
    os.write(1, line)


def answer(id: int, result: object) -> None:
    say(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n")


def endless() -> None:
    while True:
        say(b"x" * 65_536)


def called() -> str:
    if HOW == "endless":
        endless()
    if HOW == "stderr":
        os.write(2, b"so much to say\n" * 200_000)
        os.write(2, b"and \xff at last\n")
    if HOW == "child":  # it does not heed SIGTERM
        child = subprocess.Popen([sys.executable, "-c", SLEEPER], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        child.stdout.readline()
        return str(child.pid)
    return str(os.getpid())


def term(number: int, frame: object) -> None:
    note("term")


if HOW == "dies":
    os.write(2, b"no such licence\n")
    sys.exit(1)
if HOW == "hangs":
    time.sleep(600)
if HOW == "endless-at-once":
    endless()
if HOW == "stubborn":
    signal.signal(signal.SIGTERM, term)
if HOW == "junk":
    say(b"Welcome!\n\xff\xfe\n{}\n\n[1]\n" + b"chatter\n" * 100)
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        about = {"name": "raw", "version": "1"}
        answer(asked["id"], {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about})
    elif asked.get("method") == "tools/list":
        answer(asked["id"], {"tools": [{"name": "go", "inputSchema": {"type": "object"}}]})
    elif asked.get("method") == "tools/call":
        answer(asked["id"], {"content": [{"type": "text", "text": called()}]})
    elif "id" in asked:
        error = {"code": -32601, "message": "Method not found"}
        say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode() + b"\n")
note("eof")
while HOW == "stubborn":
    time.sleep(0.05)
