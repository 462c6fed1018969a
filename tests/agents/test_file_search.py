"""An agent that searches a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runwell.agents import create_agent
from runwell.agents.middleware import FilesystemFileSearchMiddleware
from runwell.errors import InvalidInput
from runwell.messages import AIMessage, ToolMessage
from runwell.observe import DecisionLog
from runwell.testing.models import FakeChatModel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("import os\n# TODO: more\n")
    (root / "src" / "b.md").write_text("TODO\n")
    (root / ".hidden").write_text("TODO\n")
    (root / "data").write_bytes(b"TODO\0")
    (tmp_path / "secret").write_text("TODO\n")
    (root / "link").symlink_to("../secret")
    return root


def asked(
    run: Any, middleware: FilesystemFileSearchMiddleware, *calls: tuple[str, dict[str, Any]], **config: Any
) -> Any:
    turn = AIMessage(
        "",
        tool_calls=[
            {"name": name, "args": args, "id": str(n), "type": "tool_call"} for n, (name, args) in enumerate(calls)
        ],
    )
    agent = create_agent(FakeChatModel(responses=[turn, "done"]), middleware=[middleware])
    result = run.invoke(agent, {"messages": [("user", "look")]}, config)
    return [each for each in result["messages"] if isinstance(each, ToolMessage)]


def test_d21_a_model_searches_a_folder(run: Any, folder: Path) -> None:
    names, files, lines, counts = asked(
        run,
        FilesystemFileSearchMiddleware(root_path=folder),
        ("glob_search", {"pattern": "**/*.py"}),
        ("grep_search", {"pattern": "TODO"}),
        ("grep_search", {"pattern": "TODO", "path": "/src", "include": "*.py", "output_mode": "content"}),
        ("grep_search", {"pattern": "TODO", "path": "src", "output_mode": "count"}),
    )
    assert names.text == "/src/a.py\n[Not searched: 1 symbolic links.]"
    assert files.text == "/src/a.py\n/src/b.md\n[Not searched: 1 binary, 1 symbolic links.]"
    assert lines.text == "/src/a.py:2:# TODO: more"
    assert counts.text == "/src/a.py:1\n/src/b.md:1"


def test_d20_a_refusal_is_told_and_recorded(run: Any, folder: Path) -> None:
    log = DecisionLog()
    up, link, hidden, mode = asked(
        run,
        FilesystemFileSearchMiddleware(root_path=folder),
        ("grep_search", {"pattern": "TODO", "path": "../"}),
        ("glob_search", {"pattern": "*", "path": "/link"}),
        ("glob_search", {"pattern": "*", "path": "/.hidden"}),
        ("grep_search", {"pattern": "TODO", "output_mode": "lines"}),
        callbacks=[log],
    )
    assert up.text == "Refused: ../: it leads out of the folder."
    assert link.text == "Refused: /link: it leads out of the folder."
    assert hidden.text == "/.hidden is hidden, and hidden files are not searched."
    assert {each.status for each in (up, link, hidden, mode)} == {"error"}
    assert "files_with_matches" in mode.text
    refused = {(each.outcome, each.reason.split(":")[0]) for each in log.of("D20")}
    assert refused == {("refused", "'../'"), ("refused", "'/link'")}


def test_d21_what_is_left_out_is_recorded(run: Any, folder: Path) -> None:
    log = DecisionLog()
    asked(run, FilesystemFileSearchMiddleware(root_path=folder), ("grep_search", {"pattern": "x"}), callbacks=[log])
    assert [(each.outcome, each.reason) for each in log.of("D21")] == [("left out", "1 binary, 1 symbolic links")]


def test_the_model_reads_which_files_are_seen(folder: Path) -> None:
    glob, grep = FilesystemFileSearchMiddleware(root_path=folder, max_file_size_mb=3).tools
    assert "Left out: hidden files, files that .gitignore ignores, symbolic links." in glob.description
    assert "Files over 3 MB and binary files are not read." in grep.description
    assert (glob.read_only, grep.idempotent) == (True, True)
    (glob, _) = FilesystemFileSearchMiddleware(root_path=folder, include_hidden=True, include_ignored=True).tools
    assert "Left out: symbolic links." in glob.description


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no folder"):
        FilesystemFileSearchMiddleware(root_path=tmp_path / "none")
