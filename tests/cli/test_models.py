"""`runwell models`, in an empty RUNWELL_HOME and without a network."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

NAMES = ["qwen2.5-coder-0.5b", "smollm2-135m", "all-minilm-l6-v2"]


def test_list(runwell: Any) -> None:
    rows = runwell("models", "list", "--json").json
    assert [row["name"] for row in rows] == NAMES
    for row in rows:
        assert row["licence"] and row["sources"] and len(row["sha256"]) == 64 and row["size"] > 1e6
        assert row["path"] is None
    out = runwell("models", "list").out
    assert all(f"local:{name}" in out for name in NAMES)


@pytest.mark.parametrize("name", ["smollm2-135m", "local:smollm2-135m"])
def test_a_model_that_is_not_here(runwell: Any, folder: Path, name: str) -> None:
    where = runwell("models", "path", name)
    assert where.status == 1
    assert "not on this machine" in where.err
    assert f"runwell models fetch {name}" in where.err
    assert runwell("models", "remove", name, "--json").json == {"name": "smollm2-135m", "removed": False}
    assert "was not here" in runwell("models", "remove", name).out
    fetched = runwell("models", "fetch", name)
    assert fetched.status == 1
    assert "RUNWELL_OFFLINE" in fetched.err
    assert "Traceback" not in fetched.err
    assert not list(folder.rglob("*.gguf"))


@pytest.mark.parametrize("command", ["fetch", "path", "remove", "serve"])
def test_an_unknown_model(runwell: Any, command: str) -> None:
    done = runwell("models", command, "smolm2-135m", "--json")
    assert done.status == 1
    assert "did you mean 'smollm2-135m'" in done.json["error"]["message"]
    assert "Traceback" not in done.err


def test_a_file_of_ones_own(runwell: Any, folder: Path) -> None:
    (folder / "fake.gguf").write_bytes(b"not a model")
    done = runwell("models", "path", "fake.gguf")
    assert done.status == 1
    assert "fake.gguf" in done.err


def test_a_folder_given_in_place_of_the_network_is_checked(runwell: Any, folder: Path) -> None:
    (folder / "smollm2-135m-instruct-q4_1.gguf").write_bytes(b"GGUF but not the model")
    done = runwell("models", "fetch", "smollm2-135m", "--from", str(folder))
    assert done.status == 1
    assert "sha256" in done.err
    assert not list((folder / "home").rglob("*.gguf"))


def _bundled(name: str) -> str:
    from runwell.providers.local.fetch import fetch

    return str(fetch(name).parent)


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(600)
def test_fetch_find_serve_and_remove(runwell: Any, terminal: Any, folder: Path) -> None:
    """With the real model, out of this machine's own cache."""
    kept = _bundled("smollm2-135m")
    fetched = runwell("models", "fetch", "smollm2-135m", "--from", kept, "--json").json
    assert Path(fetched["path"]).is_relative_to(folder)
    assert runwell("models", "path", "smollm2-135m").out.strip() == fetched["path"]
    assert [row["name"] for row in runwell("models", "list", "--json").json if row["path"]] == ["smollm2-135m"]

    server = terminal("models", "serve", "smollm2-135m", "--port", "0", "--json")
    server.expect('{"base_url"')
    told = json.loads('{"base_url"' + server.expect("}") + "}")
    import httpx

    with httpx.Client(base_url=told["base_url"], trust_env=False, timeout=60) as client:
        assert client.get("/models").status_code == 401
        headers = {"Authorization": f"Bearer {told['api_key']}"}
        assert client.get("/models", headers=headers).json()["data"][0]["id"] == told["model"]
        body = {"model": told["model"], "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
        said = client.post("/chat/completions", json=body, headers=headers).json()
        assert said["choices"][0]["message"]["content"]
    server.ctrl_c()
    assert server.end() == 0
    assert "Traceback" not in server.seen

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = runwell("models", "serve", "smollm2-135m", "--port", port)
        assert refused.status == 1
        assert f"Cannot listen on 127.0.0.1:{port}" in refused.err
    mine = runwell("models", "serve", "all-minilm-l6-v2", RUNWELL_MODEL_PATH=kept)
    assert mine.status == 1
    assert "is not a chat model" in mine.err

    assert runwell("models", "remove", "smollm2-135m", "--json").json["removed"]
    assert not Path(fetched["path"]).exists()
