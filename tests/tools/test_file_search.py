"""Searching a folder: nothing leads out of it, and the answer is the same with and without ripgrep."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
import regex
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from runwell.drivers.cancel import CANCEL, CancelGroup
from runwell.errors import InvalidInput, RunCancelled, ToolError
from runwell.tools.files import RootFolder, search
from runwell.tools.files.literal import required_literal
from runwell.tools.files.ripgrep import find_ripgrep
from runwell.tools.files.search import FileSearch, search_in
from runwell.tools.files.walk import Skipped, walk


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


@pytest.fixture(params=[True, False], ids=["ripgrep", "alone"])
def with_ripgrep(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param and find_ripgrep() is None:
        pytest.skip('no ripgrep on this machine: pip install "runwell[ripgrep]"')
    monkeypatch.setattr(search, "WORTH_IT", 0)
    return bool(request.param)


PROJECT: dict[str, str | bytes] = {
    "a.py": "import os\nprint('hello')\n",
    "src/b.py": "def hello():\r\n    return 1\r\n",
    "src/deep/c.ts": "const hello = 'ä'",
    "src/deep/d.txt": "nothing\n",
    ".env": "SECRET=hello\n",
    ".github/ci.yml": "run: hello\n",
    ".gitignore": "*.log\n!keep.log\n/build/\n",
    "x.log": "hello\n",
    "keep.log": "hello\n",
    "build/out.py": "hello\n",
    "src/build/in.py": "hello\n",
    "src/.gitignore": "d.txt\n",
    "binary.bin": b"hello\0world",
    "latin.txt": b"hello \xe9t\xe9\n",
    "large.txt": "hello\n" * 400,
}


@pytest.fixture
def project(tmp_path: Path, with_ripgrep: bool) -> FileSearch:
    write(tmp_path, PROJECT)
    return search_in(tmp_path, use_ripgrep=with_ripgrep, max_file_size_mb=0.002)


def test_d21_names_are_found_by_pattern(project: FileSearch) -> None:
    assert project.glob("*.py") == "/a.py"
    assert project.glob("**/*.py") == "/a.py\n/src/b.py\n/src/build/in.py"
    assert project.glob("**/*.{ts,txt}").splitlines() == ["/large.txt", "/latin.txt", "/src/deep/c.ts"]
    assert project.glob("*.ts", "/src/deep") == "/src/deep/c.ts"
    assert project.glob("/src/*.py") == "/src/b.py"
    assert project.glob("*.java") == "No files found."


def test_d21_hidden_ignored_large_and_binary_files_are_left_out(project: FileSearch) -> None:
    assert project.grep("hello") == (
        "/a.py\n/keep.log\n/latin.txt\n/src/b.py\n/src/build/in.py\n/src/deep/c.ts\n"
        "[Not searched: 1 over 0.002 MB, 1 binary.]"
    )


def test_d21_options_name_what_else_is_searched(tmp_path: Path, with_ripgrep: bool) -> None:
    write(tmp_path, PROJECT)
    all_ = search_in(tmp_path, use_ripgrep=with_ripgrep, include_hidden=True, include_ignored=True)
    found = set(all_.grep("hello").splitlines()[:-1])
    assert {"/.env", "/.github/ci.yml", "/build/out.py", "/x.log", "/large.txt"} <= found
    write(tmp_path, {".git/config": "hello"})
    assert "/.git/config" not in all_.grep("hello")


def test_d21_the_nearest_ignore_file_decides(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "*.txt\n!b.txt\n", "a.txt": "", "b.txt": "", "in/a.txt": "", "in/b.txt": ""})
    write(tmp_path, {"in/.gitignore": "!a.txt\nb.txt\n"})
    found = search_in(tmp_path)
    assert found.glob("**") == "/b.txt\n/in/a.txt"
    assert found.glob("*", "in") == "/in/a.txt"


def test_what_is_left_out_is_refused_when_it_is_named(project: FileSearch) -> None:
    for path, why in (("/.github", "hidden"), ("/.env", "hidden"), ("/build", "ignored"), ("/x.log", "ignored")):
        with pytest.raises(ToolError, match=why):
            project.grep("hello", path)
        with pytest.raises(ToolError, match=why):
            project.glob("*", path)


def test_the_modes_of_output(project: FileSearch) -> None:
    assert project.grep("hello|return", "/src/b.py", None, "content") == (
        "/src/b.py:1:def hello():\n/src/b.py:2:    return 1"
    )
    assert project.grep("(?i)HELLO", "/src", "*.py", "count") == "/src/b.py:1\n/src/build/in.py:1"
    assert project.grep(r"h\wllo$", "/", "**/build/*") == "/src/build/in.py\n"[:-1]
    assert project.grep("ä", "/", None, "content") == (
        "/src/deep/c.ts:1:const hello = 'ä'\n[Not searched: 1 over 0.002 MB, 1 binary.]"
    )
    assert project.grep("no such text", "/src") == "No matches found."
    assert project.grep(r"\):$", "/src") == "/src/b.py", "the end of a line is the same on Windows"


def test_caps_are_told(tmp_path: Path, with_ripgrep: bool) -> None:
    write(tmp_path, {f"{n:02}.txt": "hit\nhit\n" for n in range(10)})
    write(tmp_path, {"wide.md": "hit" + "x" * 1000})
    capped = search_in(tmp_path, use_ripgrep=with_ripgrep, max_results=3)
    note = "[There are more; only the first 3 are shown. Narrow the search.]"
    assert capped.glob("*.txt").splitlines() == ["/00.txt", "/01.txt", "/02.txt", note]
    assert capped.grep("hit", include="*.txt").splitlines()[-1] == note
    lines = capped.grep("hit", include="*.txt", output_mode="content").splitlines()
    assert lines == ["/00.txt:1:hit", "/00.txt:2:hit", "/01.txt:1:hit", note]
    wide = capped.grep("hit", "/wide.md", None, "content")
    assert wide == f"/wide.md:1:hit{'x' * 397} [... 603 more characters]"


def test_a_search_that_takes_too_long_stops_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "a" * 40 + "b\n", "b.txt": "x"})
    slow = search_in(tmp_path, timeout=0.2)
    began = time.monotonic()
    said = slow.grep(r"^(a|aa|a*)+$")
    assert time.monotonic() - began < 10
    assert said == "No matches found.\n[Stopped after 0.2 s: 2 files were not searched. Narrow the search.]"


def test_a_cancelled_search_stops(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "a"})
    caught: list[BaseException] = []

    def work() -> None:
        group = CancelGroup()
        CANCEL.set(group)
        group.cancel()
        try:
            search_in(tmp_path).grep("a")
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=copy_context().run, args=(work,))
    thread.start()
    thread.join()
    assert [type(each) for each in caught] == [RunCancelled]


@pytest.mark.parametrize("bad", ["(", "[", "", "*a", "(?<n>a"])
def test_patterns_that_are_none_are_told(tmp_path: Path, bad: str) -> None:
    with pytest.raises(ToolError):
        search_in(tmp_path).grep(bad)


def test_bad_arguments_are_told(tmp_path: Path) -> None:
    found = search_in(tmp_path)
    for call in (
        lambda: found.glob(" "),
        lambda: found.glob("{1..100000}{1..100000}"),
        lambda: found.grep("a", output_mode="lines"),  # type: ignore[arg-type]
        lambda: found.grep("a", "/no/such"),
        lambda: found.grep("a", "/a\0b"),
    ):
        with pytest.raises(ToolError):
            call()


@pytest.mark.parametrize(
    "fields", [{"max_file_size_mb": 0}, {"max_results": 0}, {"timeout": 0}], ids=lambda fields: next(iter(fields))
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, fields: Any) -> None:
    with pytest.raises(InvalidInput):
        search_in(tmp_path, **fields)
    with pytest.raises(InvalidInput, match="no folder"):
        search_in(tmp_path / "none")


# -- nothing leads out


@pytest.fixture
def fenced(tmp_path: Path) -> Path:
    write(tmp_path, {"outside/secret.txt": "secret", "root/in/a.txt": "secret", "root/top.txt": "secret"})
    root = tmp_path / "root"
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "out_file").symlink_to("../outside/secret.txt")
    (root / "up").symlink_to("..")
    (root / "here").symlink_to("in")
    (root / "absolute").symlink_to(root / "in")
    (root / "in" / "back").symlink_to("../top.txt")
    (root / "loop").symlink_to("loop")
    (root / "nowhere").symlink_to("missing")
    return root


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../outside", "/../outside/secret.txt", "in/../../outside", "out", "/out/secret.txt", "out_file"),
        *("up", "up/outside", "here/../../outside", "absolute/../../outside"),
    ],
)
def test_d20_what_leads_out_is_refused_aloud(fenced: Path, path: str) -> None:
    found = search_in(fenced)
    for call in (lambda: found.grep("secret", path), lambda: found.glob("*", path)):
        with pytest.raises(ToolError, match=r"^Refused: .*leads out of the folder"):
            call()


def test_d20_what_leads_out_by_its_name_alone_is_refused_too(fenced: Path) -> None:
    """A folder whose name begins as the root's does is not the root."""
    write(fenced.parent, {"root2/secret.txt": "secret"})
    (fenced / "near").symlink_to(fenced.parent / "root2")
    with pytest.raises(ToolError, match="Refused"):
        search_in(fenced).glob("*", "near")


def test_d20_patterns_cannot_lead_out(fenced: Path) -> None:
    for pattern in ("../*", "in/../../outside/*", "/../*"):
        with pytest.raises(ToolError, match="Refused"):
            search_in(fenced).glob(pattern)
        with pytest.raises(ToolError, match="Refused"):
            search_in(fenced).grep("secret", include=pattern)


def test_d20_paths_and_links_that_stay_inside_are_fine(fenced: Path) -> None:
    found = search_in(fenced)
    for path in ("in", "/in/", "./in", "in/../in", "here", "absolute", "here/../in"):
        assert found.glob("*", path).splitlines()[0] == "/in/a.txt"
    assert found.grep("secret", "in/back") == "/top.txt"


def test_d20_links_are_not_followed_by_a_search_and_are_counted(fenced: Path) -> None:
    said = search_in(fenced).grep("secret")
    assert said == "/in/a.txt\n/top.txt\n[Not searched: 8 symbolic links.]"


def test_links_in_circles_and_to_nothing_are_told(fenced: Path) -> None:
    found = search_in(fenced)
    with pytest.raises(ToolError, match="too many symbolic links"):
        found.glob("*", "loop")
    with pytest.raises(ToolError, match="There is no"):
        found.glob("*", "nowhere")
    with pytest.raises(ToolError, match="not a folder"):
        found.glob("*", "top.txt/x")


def test_d20_a_link_put_in_the_way_after_the_check_leads_nowhere(fenced: Path) -> None:
    root = RootFolder(fenced)
    inside = root.locate("in/a.txt")
    (fenced / "in" / "a.txt").unlink()
    (fenced / "in" / "a.txt").symlink_to(fenced.parent / "outside" / "secret.txt")
    with pytest.raises(OSError, match="symbolic link"):
        root.read(inside.parts, None)
    (fenced / "in" / "a.txt").unlink()
    (fenced / "in" / "back").unlink()
    (fenced / "in").rmdir()
    (fenced / "in").symlink_to(fenced.parent / "outside")
    with pytest.raises(OSError):
        root.read(("in", "secret.txt"), None)


def test_a_folder_without_end_is_left(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(210):
        deep /= "d"
    write(deep, {"a.txt": "hit"})
    write(tmp_path, {"d/d/b.txt": "hit"})
    assert search_in(tmp_path).grep("hit") == "/d/d/b.txt\n[Not searched: 1 unreadable.]"


def test_pipes_and_odd_names_disturb_nothing(tmp_path: Path, with_ripgrep: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    names = ["-e", "--help", "a b", "new\nline", "ü", "*", "[x]", "\\", "'", '"']
    write(tmp_path, dict.fromkeys(names, "hit"))
    (tmp_path / os.fsdecode(b"bad\xff")).write_text("hit")
    said = search_in(tmp_path, use_ripgrep=with_ripgrep).grep("hit").splitlines()
    assert len(said) == len(names) + 1
    assert {"/-e", "/--help", "/new\\nline", "/ü"} <= set(said)
    with pytest.raises(ToolError, match="no such"):
        search_in(tmp_path).grep("hit", "no such")


def test_unreadable_places_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a/x.txt": "hit", "b/y.txt": "hit"})
    real = os.open

    def refusing(path: Any, *args: Any, **kwargs: Any) -> int:
        if path == "x.txt":
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", refusing)
    monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, refusing})
    assert search_in(tmp_path).grep("hit") == "/b/y.txt\n[Not searched: 1 unreadable.]"


# -- the same with and without ripgrep

NAMES = st.sampled_from(["a", "b.txt", "c.log", ".d", ".gitignore", "dir", "e.txt", "-x"])
IGNORED = st.lists(
    st.sampled_from(
        [
            "*.log",
            "!c.log",
            "dir/",
            "/a",
            "b.*",
            "**/e.txt",
            "dir/a",
            "#x",
            "a/",
            "!a",
            "[ab]*",
            "a/**",
            "!a/a",
            "/*",
            "!dir/",
            "dir/**/a",
            "e.txt ",
            "\\!a",
            "*/",
        ]
    )
)
TEXT = st.lists(
    st.sampled_from(
        [
            b"ab",
            b"AB",
            b"k",
            "\u212a".encode(),  # the sign of kelvin, which is a k to some
            b"i",
            "ı".encode(),
            "ſ".encode(),
            b"s",
            b"a.b",
            b"\n",
            b"\r\n",
            b"\xff",
            b"\xff\xfea\0b\0",
            b"\0",
            b" ",
            "é".encode(),
            b"a" * 300,
        ]
    )
)
TREES = st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map(tuple), TEXT.map(b"".join), max_size=10)
PIECES = st.sampled_from(
    [
        *"abABkKiIsSé. ",
        "a.b",
        r"\.",
        r"\d",
        "[ab]",
        "(ab)",
        "(a|b)",
        "|",
        "*",
        "+",
        "?",
        "{2}",
        "^",
        "$",
        r"\b",
        "(?:a)",
        "ab",
    ]
)
PATTERNS = st.tuples(st.sampled_from(["", "(?i)"]), st.lists(PIECES, min_size=1, max_size=5).map("".join)).map("".join)


def valid(pattern: str) -> bool:
    try:
        regex.compile(pattern)
    except regex.error:
        return False
    return True


def grown(root: Path, tree: dict[tuple[str, ...], bytes], ignored: list[str]) -> None:
    for parts, content in tree.items():
        path = root.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes("\n".join(ignored).encode() if parts[-1] == ".gitignore" else content)
        except OSError:  # a file is where a folder would be, or the other way round
            continue


@settings(max_examples=60, deadline=None)
@given(TREES, IGNORED, PATTERNS, st.booleans(), st.sampled_from(["files_with_matches", "content", "count"]))
def test_d21_answers_are_the_same_with_and_without_ripgrep(
    tree: dict[tuple[str, ...], bytes], ignored: list[str], pattern: str, everything: bool, mode: Any
) -> None:
    if find_ripgrep() is None:
        pytest.skip('no ripgrep on this machine: pip install "runwell[ripgrep]"')
    assume(valid(pattern))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "WORTH_IT", 0)
        grown(Path(folder), tree, ignored)
        options: dict[str, Any] = {
            "max_file_size_mb": 0.0005,
            "include_hidden": everything,
            "include_ignored": everything,
        }
        sieved, alone = (
            search_in(folder, use_ripgrep=used, **options).grep(pattern, "/", None, mode) for used in (True, False)
        )
        assert sieved == alone


@settings(max_examples=60, deadline=None)
@given(TREES, IGNORED)
def test_d21_ignore_files_are_read_as_ripgrep_reads_them(
    tree: dict[tuple[str, ...], bytes], ignored: list[str]
) -> None:
    binary = find_ripgrep()
    if binary is None:
        pytest.skip('no ripgrep on this machine: pip install "runwell[ripgrep]"')
    with tempfile.TemporaryDirectory() as folder:
        grown(Path(folder), tree, ignored)
        line = [binary, "--files", "--no-config", "--no-require-git", "--no-ignore-parent", "--no-ignore-global", "."]
        listed = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False).stdout
        made = search_in(folder)
        own = [file.path for file in walk(made.root, made.root.locate("/"), made.rules, Skipped())]
        assert sorted(own) == sorted(name.removeprefix("./") for name in listed.splitlines())


@settings(max_examples=300, deadline=None)
@given(
    PATTERNS | st.text("ab|()[]{}?*+\\.^$1,-i", min_size=1, max_size=8),
    st.lists(st.sampled_from([*"abABkKiIs.é1 ", "ſ", "\u212a", "ı"])).map("".join),
)
@example("a{0}b", "b")
@example("ab?c", "ac")
@example(r"[\]a]b", "ab")
@example("(?:ab)+c", "abc")
@example("a{,3}b", "b")
def test_every_match_holds_the_required_text(pattern: str, text: str) -> None:
    assume(valid(pattern))
    required = required_literal(pattern)
    if required is not None and regex.search(pattern, text, timeout=5):
        literal, cased = required
        assert literal in text if cased else literal.lower() in text.lower()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("hello", ("hello", True)),
        (r"def \w+\(self", ("(self", True)),
        ("(?i)Hello", ("Hello", False)),
        ("(?i)task", ("ta", False)),
        ("colou?r", ("colo", True)),
        ("a|b", None),
        ("(a|b)cd+e", ("cd", True)),
        (".*", None),
        (r"\x41bc", None),
        ("(?=abc)d", None),
    ],
)
def test_the_text_that_a_pattern_requires(pattern: str, expected: Any) -> None:
    assert required_literal(pattern) == expected
