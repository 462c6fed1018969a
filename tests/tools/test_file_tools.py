"""Files for a model: what it may read and change, and that nothing leads out of the folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import InvalidInput, ToolError
from runwell.tools.kits import file_tools


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "sub" / "b.txt").write_text("b")
    (folder / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "dangling").symlink_to(tmp_path / "outside" / "new")
    return folder


@pytest.fixture
def tools(root: Path) -> dict[str, Any]:
    return {each.name: each for each in file_tools(root, writable=True)}


def test_only_reading_unless_it_is_said(root: Path) -> None:
    assert [each.name for each in file_tools(root)] == ["read_file", "list_directory"]
    assert all(each.read_only for each in file_tools(root))
    changing = [each for each in file_tools(root, writable=True) if not each.read_only]
    assert {each.name for each in changing} == {"write_file", "edit_file", "copy_file", "move_file", "delete_file"}
    assert all(each.destructive for each in changing)
    assert [each.name for each in file_tools(root, select=["list_directory"])] == ["list_directory"]
    with pytest.raises(InvalidInput, match="changes files"):
        file_tools(root, select=["write_file"])
    with pytest.raises(InvalidInput, match="no file tool 'reed_file'; did you mean 'read_file'"):
        file_tools(root, select=["reed_file"])


def test_reading(tools: dict[str, Any], driver: Any) -> None:
    read, listed = tools["read_file"], tools["list_directory"]
    assert driver.invoke(listed, {}) == "a.txt\nbytes\ndangling@\nlink@\nsub/"
    assert driver.invoke(read, {"path": "/a.txt"}) == "one\ntwo\nthree\n"
    assert driver.invoke(read, {"path": "a.txt", "first_line": 2, "lines": 1}) == "two\n\n[Lines 2 to 2 of 3.]"
    assert driver.invoke(read, {"path": "./sub/../sub/b.txt"}) == "b"
    for path, said in [("bytes", "no text"), ("sub", "is a folder"), ("nothing", "There is no"), ("a.txt/x", "folder")]:
        with pytest.raises(ToolError, match=said):
            driver.invoke(read, {"path": path})
    with pytest.raises(ToolError, match="has 3 lines"):
        driver.invoke(read, {"path": "a.txt", "first_line": 9})


def test_changing(tools: dict[str, Any], driver: Any, root: Path) -> None:
    write = tools["write_file"]
    assert driver.invoke(write, {"path": "new/deep/c.txt", "text": "é"}) == "Wrote new/deep/c.txt (2 bytes)."
    assert (root / "new/deep/c.txt").read_text() == "é"
    with pytest.raises(ToolError, match="is there already"):
        driver.invoke(write, {"path": "a.txt", "text": "x"})
    os.chmod(root / "a.txt", 0o640)
    assert driver.invoke(write, {"path": "a.txt", "text": "x y x", "replace": True}).startswith("Replaced")
    assert os.stat(root / "a.txt").st_mode & 0o777 == 0o640
    edit = tools["edit_file"]
    assert driver.invoke(edit, {"path": "a.txt", "old": "y", "new": "z"}) == "Changed a.txt."
    for old in ("x", "nothing", ""):
        with pytest.raises(ToolError, match="exactly once"):
            driver.invoke(edit, {"path": "a.txt", "old": old, "new": "z"})
    assert (root / "a.txt").read_text() == "x z x"
    driver.invoke(tools["copy_file"], {"source": "a.txt", "target": "copies/a.txt"})
    driver.invoke(tools["move_file"], {"source": "copies", "target": "sub/moved"})
    assert (root / "sub/moved/a.txt").read_text() == "x z x"
    for wrong in ({"source": "sub", "target": "sub/moved/sub"}, {"source": "/", "target": "x"}):
        with pytest.raises(ToolError, match="into itself"):
            driver.invoke(tools["move_file"], wrong)
    with pytest.raises(ToolError, match="cannot be removed"):
        driver.invoke(tools["delete_file"], {"path": "sub"})
    driver.invoke(tools["delete_file"], {"path": "sub/moved/a.txt"})
    driver.invoke(tools["delete_file"], {"path": "sub/moved"})
    assert sorted(os.listdir(root / "sub")) == ["b.txt"]
    assert not [name for name in os.listdir(root) if name.startswith(".")]


OUT = [
    *("../outside/secret", "/../outside/secret", "link/secret", "sub/../../outside/secret", "link/../outside/secret"),
    *("dangling", "dangling/x", "link", "link/new"),
]


@pytest.mark.parametrize("path", OUT)
def test_nothing_leads_out(tools: dict[str, Any], root: Path, path: str) -> None:
    outside = root.parent / "outside"
    attempts = [
        ("read_file", {"path": path}),
        ("list_directory", {"path": path}),
        ("write_file", {"path": path, "text": "x", "replace": True}),
        ("edit_file", {"path": path, "old": "secret", "new": "x"}),
        ("copy_file", {"source": path, "target": "stolen"}),
        ("copy_file", {"source": "a.txt", "target": path}),
        ("move_file", {"source": path, "target": "stolen"}),
        ("move_file", {"source": "a.txt", "target": path}),
        ("delete_file", {"path": path}),
    ]
    for name, args in attempts:
        with pytest.raises(ToolError):
            tools[name].invoke(args)
    assert os.listdir(outside) == ["secret"]
    assert (outside / "secret").read_text() == "secret"
    assert (root / "a.txt").exists()


ODD = ["\ud800", "a" * 300, "a/" * 5_000, "sub/../" * 300, "pipe", "\n"]


@pytest.mark.parametrize("path", ODD, ids=lambda path: ascii(path)[:12])
def test_odd_paths_are_told_and_hold_nobody_up(tools: dict[str, Any], root: Path, path: str) -> None:
    os.mkfifo(root / "pipe")
    for name, args in [
        ("read_file", {"path": path}),
        ("list_directory", {"path": path}),
        ("edit_file", {"path": path, "old": "a", "new": "b"}),
        ("copy_file", {"source": path, "target": "copy"}),
        ("move_file", {"source": "nothing", "target": path}),
        ("write_file", {"path": path if path != "\n" else "/", "text": "x", "replace": True}),
    ]:
        with pytest.raises(ToolError):
            tools[name].invoke(args)
    assert len(list(root.rglob("*"))) < 10


@pytest.mark.parametrize("path", ["", "/", ".", "sub/nothing/../../x", "a.txt/x", "x\0y"])
def test_places_that_nothing_can_be_written_to(tools: dict[str, Any], root: Path, path: str) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(ToolError):
        tools["write_file"].invoke({"path": path, "text": "x", "replace": True})
    assert sorted(root.rglob("*")) == before


def test_sizes_are_bounded(root: Path) -> None:
    tools = {each.name: each for each in file_tools(root, writable=True, max_file_size_mb=0.00001, max_lines=2)}
    with pytest.raises(ToolError, match="more than 1e-05 MB"):
        tools["read_file"].invoke({"path": "a.txt"})
    with pytest.raises(ToolError, match="more than 1e-05 MB"):
        tools["write_file"].invoke({"path": "x", "text": "x" * 20})
    with pytest.raises(ToolError, match="more than 1e-05 MB"):
        tools["copy_file"].invoke({"source": "a.txt", "target": "x"})
    assert file_tools(root, max_lines=2)[0].invoke({"path": "a.txt"}).endswith("[Lines 1 to 2 of 3.]")
