"""Every Python block of the README and the documentation runs, as a reader would run it.

A block on `local:` runs on the bundled model. A block on `openai:` runs through the vendor's SDK against an
OpenAI-compatible server on this machine, which first asks for the block's tool and then answers. A link that names a
file names one that is there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    path
    for folder in (".", "docs", "docs/agents", "design", "examples", "benchmarks")
    for path in sorted((ROOT / folder).glob("*.md"))
]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def blocks(needs: str) -> list[Any]:
    """The blocks that need this model ("local:" or "openai:"), or none ("")."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for hit in FENCE.finditer(text):
            source = hit.group(1)
            model = next((prefix for prefix in ("local:", "openai:") if f'"{prefix}' in source), "")
            if model == needs:
                line = text.count("\n", 0, hit.start()) + 2
                found.append(pytest.param(source, id=f"{page.relative_to(ROOT)}:{line}"))
    return found


def run(source: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", source], cwd=folder, capture_output=True, text=True, check=False)
    if "runwell.errors.SandboxUnavailable" in done.stderr:
        pytest.skip(f"no sandbox on this machine: {done.stderr.splitlines()[-2]}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_walk_finds_blocks() -> None:
    assert blocks("")
    assert blocks("local:")
    assert blocks("openai:")


@pytest.mark.integration
@pytest.mark.timeout(300)  # one imports every vendor's SDK, which takes its time on a busy machine
@pytest.mark.parametrize("source", blocks(""))
def test_a_block_runs(source: str, tmp_path: Path) -> None:
    """And prints what its `# > ` lines say, if it has any."""
    printed = run(source, tmp_path)
    said = [line.removeprefix("# >").removeprefix(" ") for line in source.splitlines() if line.startswith("# >")]
    if said:
        assert printed.splitlines() == said


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", blocks("local:"))
def test_a_block_runs_on_the_bundled_model(source: str, tmp_path: Path) -> None:
    assert run(source, tmp_path).strip()


class Scripted(BaseHTTPRequestHandler):
    """Asks for the first tool offered, then answers with what the tool said."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        last = asked["messages"][-1]
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if last["role"] == "tool":
            message["content"] = f"It says: {last['content']}"
        else:
            function = asked["tools"][0]["function"]
            arguments = json.dumps(dict.fromkeys(function["parameters"]["properties"], "Oslo"))
            call = {"name": function["name"], "arguments": arguments}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
        finish = "tool_calls" if "tool_calls" in message else "stop"
        body = json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 0,
                "model": asked["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *ignored: object) -> None:
        """Keeps the test's output clean."""


@pytest.fixture
def server_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.integration
@pytest.mark.parametrize("source", blocks("openai:"))
def test_a_block_runs_through_the_openai_sdk(source: str, tmp_path: Path, server_url: str) -> None:
    model = f'ChatOpenAI(model="gpt-5.5", base_url="{server_url}", api_key="none")'
    redirected = re.sub(r'"openai:[^"]*"', lambda hit: model, source)
    shown = run(f"from runwell.providers.openai.chat import ChatOpenAI\n{redirected}", tmp_path)
    assert shown.startswith("It says: Oslo")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [each for each in targets if "://" not in each and not (page.parent / each).exists()]
    assert not missing
