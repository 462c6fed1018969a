"""`agent.seats()`: every judgment has a row that says who holds it in this agent, and where the code stands."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from runwell.agents import AgentLimits, Budget, ToolStrategy, create_agent
from runwell.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, hook_config
from runwell.effects import Callee
from runwell.errors import InvalidInput
from runwell.graph import END, START, StateGraph
from runwell.persistence import InMemorySaver, InMemoryStore
from runwell.seats import SEATS, Held, SeatHolder, SeatMap, seat, seats_of
from runwell.seats.anchor import anchor_of
from runwell.testing.models import FakeChatModel
from runwell.tools import ProviderTool, tool

ROOT = Path(__file__).resolve().parents[2]


@tool
def look(path: str) -> str:
    """Look at a file."""
    return path


@tool(destructive=True, exclusive=True, timeout=3)
def delete(path: str) -> str:
    """Delete a file."""
    return path


@tool(return_direct=True)
def quote(text: str) -> str:
    """Say it as it is."""
    return text


class Answer(BaseModel):
    """The answer."""

    total: int


class Words(TypedDict):
    text: str


class Watching(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> None:
        return None

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


class Declaring(AgentMiddleware):
    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        return handler(request)

    def seats(self) -> Iterable[Held]:
        yield Held("D13", "Whatever looks like an address.", self.wrap_model_call, "model")
        yield Held("D2", "Declaring looks at it.", self.wrap_model_call, adds=True)


def judge(state: Any) -> bool:
    """Good enough."""
    return True


def model(**fields: Any) -> FakeChatModel:
    return FakeChatModel(responses=["hi"], **fields)


AGENTS = {
    "bare": lambda: create_agent(model()),
    "tools": lambda: create_agent(model(), [look, delete, quote], system_prompt="Be brief."),
    "gated": lambda: create_agent(model(), [look, delete], approvals="destructive", checkpointer=InMemorySaver()),
    "unsaved": lambda: create_agent(model(), checkpointer=False),
    "provider tool": lambda: create_agent(model(), [ProviderTool("web_search", {}), look]),
    "structured": lambda: create_agent(model(), [look], response_format=ToolStrategy(Answer, on_mixed="reject")),
    "native": lambda: create_agent(model(profile={"structured_output": True}), response_format=Answer),
    "hooked": lambda: create_agent(model(), [look], middleware=[Watching(), Declaring()]),
    "bounded": lambda: create_agent(
        model(max_retries=1, profile={"max_input_tokens": 8000}),
        [look],
        budget=Budget(model_calls=5, tool_calls=7, seconds=60, on_limit="return"),
        limits=AgentLimits(max_repairs=1, max_tool_chars=500, max_concurrency=2),
        on_tool_error=lambda error, call: "sorry",
        done=judge,
        store=InMemoryStore(),
        system_prompt=lambda runtime: "now",
        extra="ignore",
        replace_tools=True,
    ),
    "binding": lambda: create_agent(model().with_config(tags=["a"]), [look]),
}


@functools.cache
def seats(name: str) -> SeatMap:
    return AGENTS[name]().seats()  # type: ignore[no-any-return]


# -- the catalogue


def test_there_are_92_seats_in_order_and_each_says_what_it_is() -> None:
    counts = {"A": 11, "B": 11, "C": 7, "D": 23, "E": 13, "F": 12, "G": 8, "H": 5, "I": 2}
    assert list(SEATS) == [f"{letter}{number}" for letter, count in counts.items() for number in range(1, count + 1)]
    for each in SEATS.values():
        assert each.question.endswith("?")
        assert each.kind in ("RULE", "RULING")
        assert each.holder in ("code", "llm", "model", "human", "external")
        assert each.behaviour.endswith(".")
    assert len({each.question for each in SEATS.values()}) == 92


def test_an_unknown_seat_is_named_with_its_neighbour() -> None:
    assert seat("D9").question == SEATS["D9"].question
    with pytest.raises(InvalidInput, match="no seat 'D99'"):
        seat("D99")
    with pytest.raises(InvalidInput, match="no seat 'Z1'"):
        seats("bare")["Z1"]


# -- every row of every agent


@pytest.mark.parametrize("name", AGENTS)
def test_every_seat_has_an_answer_and_its_code_is_where_the_map_says(name: str) -> None:
    rows = list(seats(name))
    assert [row.seat.id for row in rows] == list(SEATS)
    for row in rows:
        where = row.seat.id
        assert row.parts, where
        assert row.holder in ("code", "llm", "model", "human", "external"), where
        assert row.status in ("held", "idle", "nobody"), where
        assert row.anchors, f"{where} has no code behind it"
        for part in row.parts:
            assert part.anchor is not None, f"{where}: {part.answer!r} has no code behind it"
            assert part.answer.endswith("."), (where, part.answer)
            assert not re.search(r"\.\.|  |\bNone\b|<function|object at", part.answer), (where, part.answer)
        for anchor in row.anchors:
            lines = Path(anchor.path).read_text(encoding="utf-8").splitlines()
            assert 1 <= anchor.first <= anchor.last <= len(lines), (where, anchor)
            own = "\n".join(lines[anchor.first - 1 : anchor.last])
            assert re.search(rf"(def|class) {re.escape(anchor.name.rpartition('.')[2])}\b|lambda", own), (where, anchor)


def test_places_are_short_and_stand_in_the_package() -> None:
    (anchor,) = seats("bare")["C2"].anchors
    assert re.fullmatch(r"runwell/agents/routing\.py:\d+-\d+", anchor.place)
    assert anchor.name == "after_model"
    mine = seats("tools")["E13"].anchors[0]
    assert mine.place.endswith(f"test_map.py:{mine.first}-{mine.last}")
    assert "def look" in Path(mine.path).read_text().splitlines()[mine.first]


# -- what the rows say


@pytest.mark.parametrize(
    ("name", "id", "holder", "status", "words"),
    [
        ("bare", "A5", "code", "held", "raise InvalidInput"),
        ("bare", "A11", "code", "held", "model."),
        ("bare", "B1", "code", "held", "There are none"),
        ("bare", "B10", "external", "idle", "No MCP"),
        ("bare", "C1", "llm", "held", "chooses"),
        ("bare", "D1", "code", "idle", "every call runs"),
        ("bare", "D2", "code", "nobody", "Nobody inspects"),
        ("bare", "D22", "human", "idle", "No MCP"),
        ("bare", "F1", "code", "held", "200 model calls; then an error"),
        ("bare", "F10", "code", "held", "only under the checkpointer of a graph around it"),
        ("bare", "G3", "code", "idle", "No structured answer"),
        ("bare", "I1", "external", "idle", "no store"),
        ("bare", "I2", "code", "nobody", "no profile"),
        ("tools", "A7", "code", "held", "3 tools"),
        ("tools", "B1", "code", "held", "9 characters"),
        ("tools", "B5", "code", "held", "Every tool: 3"),
        ("tools", "C5", "code", "held", "unless only quote ran"),
        ("tools", "D1", "code", "nobody", "Destructive by their own word: delete"),
        ("tools", "D9", "code", "nobody", "No call does"),
        ("tools", "E5", "code", "held", "Up to 32 side by side; alone: delete"),
        ("tools", "E13", "external", "held", "delete: what its code returns"),
        ("tools", "F2", "code", "held", "delete 3 s"),
        ("tools", "G2", "code", "held", "quote"),
        ("gated", "D1", "code", "held", "Calls of delete wait for a person"),
        ("gated", "D4", "code", "held", "Saved by InMemorySaver"),
        ("gated", "D9", "code", "held", "Calls of delete do"),
        ("gated", "D10", "human", "held", "delete: approve, edit, reject, respond"),
        ("gated", "D8", "human", "held", "Whoever"),
        ("gated", "F11", "code", "held", "Before the next step"),
        ("unsaved", "D4", "code", "held", "checkpointer=False"),
        ("unsaved", "F10", "code", "held", "nothing is ever saved"),
        ("provider tool", "A8", "code", "held", "At the provider: web_search. Here: look."),
        ("structured", "B6", "code", "held", "Yes"),
        ("structured", "B7", "code", "held", "As tools: Answer"),
        ("structured", "C6", "code", "held", "on_mixed='reject'"),
        ("structured", "G4", "code", "held", "3 attempts"),
        ("structured", "G5", "code", "held", "By a tool"),
        ("native", "B7", "code", "held", "As the provider's response format: Answer"),
        ("native", "G5", "code", "held", "By the provider's own"),
        ("native", "G6", "code", "held", "asked again"),
        ("hooked", "A4", "code", "held", "Watching may swap it"),
        ("hooked", "C2", "code", "held", "Watching.before_model may go to end instead"),
        ("hooked", "D1", "code", "held", "Watching stands around each call"),
        ("hooked", "D2", "code", "held", "Declaring looks at it"),
        ("hooked", "D13", "model", "held", "Whatever looks like an address"),
        ("bounded", "A5", "code", "held", "are dropped"),
        ("bounded", "A7", "code", "held", "the later one won"),
        ("bounded", "B1", "code", "held", "function of the runtime"),
        ("bounded", "B4", "code", "held", "1 times in a row"),
        ("bounded", "B8", "code", "held", "beyond 500 characters"),
        ("bounded", "E3", "code", "held", "A function of the program's decides"),
        ("bounded", "E7", "code", "held", "1 times"),
        ("bounded", "F1", "code", "held", "5 model calls, 7 tool calls, 60 seconds; then what there is"),
        ("bounded", "F3", "code", "held", "8,000 tokens"),
        ("bounded", "F9", "code", "held", "7 a run"),
        ("bounded", "G1", "llm", "held", "Then done= judges"),
        ("bounded", "I1", "external", "held", "InMemoryStore"),
        ("bounded", "I2", "code", "held", "max_input_tokens=8000"),
        ("binding", "C1", "llm", "held", "FakeChatModel"),
    ],
)
def test_the_map_says_how_it_is_in_this_agent(name: str, id: str, holder: str, status: str, words: str) -> None:
    row = seats(name)[id]
    assert words in row.answer
    assert (row.holder, row.status) == (holder, status)


def test_a_function_of_the_program_is_what_holds_its_seat() -> None:
    done = [anchor for anchor in seats("bounded")["G1"].anchors if anchor.name == "judge"]
    assert done
    assert done[0].place.rpartition("/")[2].startswith("test_map.py:")


# -- what components declare


def test_a_declaration_takes_the_place_of_the_usual_answer_and_an_addition_does_not() -> None:
    row = seats("hooked")["D13"]
    assert [part.answer for part in row.parts] == ["Whatever looks like an address."]
    assert seats("hooked")["D2"].parts[0].answer == "Nobody inspects what leaves."
    assert "Declaring stands around" not in seats("hooked")["D2"].answer, "who declares something is taken at its word"


def test_tools_models_savers_and_stores_may_declare_too() -> None:
    class Saver(InMemorySaver):
        def seats(self) -> Iterable[Held]:
            yield Held("F11", "At once, on two disks.", type(self))

    agent = create_agent(model(), checkpointer=Saver())
    row = agent.seats()["F11"]
    assert row.answer == "At once, on two disks."
    assert row.anchors[0].name.endswith("Saver")
    assert isinstance(Saver(), SeatHolder)


def test_a_declaration_of_a_seat_that_is_not_there_is_refused() -> None:
    class Wrong(AgentMiddleware):
        def seats(self) -> Iterable[Held]:
            yield Held("D77", "Mine.", self.seats)

    with pytest.raises(InvalidInput, match="Wrong declares a seat 'D77'"):
        create_agent(model(), middleware=[Wrong()]).seats()


def test_review_with_a_predicate_says_so() -> None:
    gate = HumanInTheLoopMiddleware({"look": {"when": lambda request: True, "allowed_decisions": ["edit"]}})
    found = create_agent(model(), [look], middleware=[gate], checkpointer=InMemorySaver()).seats()
    assert found["D9"].answer == "Calls of look do, of look only when a predicate says so."
    assert "look: edit" in found["D10"].answer


def test_what_stands_around_an_agent_or_its_model_is_seen_through() -> None:
    agent = create_agent(model(max_retries=3), [look])
    assert seats_of(agent.with_config(tags=["a"])).diff(agent) == []
    retried = create_agent(model().with_retry(stop_after_attempt=4), [look]).seats()
    assert "FakeChatModel chooses" in retried["C1"].answer.replace("fake (FakeChatModel)", "FakeChatModel")
    assert "4 attempts in all" in retried["E7"].answer
    assert retried["E7"].status == "held"
    backed = create_agent(model().with_fallbacks([model()]).with_config(tags=["a"]), [look]).seats()
    assert (backed["H4"].answer, backed["H4"].status) == ("Then FakeChatModel.", "held")


def test_the_map_tells_no_secrets() -> None:
    class Reached(FakeChatModel):
        base_url: str = ""
        api_key: str = ""

    agent = create_agent(
        Reached(responses=["hi"], base_url="https://ann:tulip@models.example/v1", api_key="a-key-of-mine"),
        system_prompt="The launch code is rosebud.",
    )
    found = agent.seats()
    assert found["A3"].answer == "Straight to https://***@models.example/v1."
    assert not re.search("tulip|a-key-of-mine|rosebud", found.to_html() + found.to_markdown())


def test_only_an_agent_has_seats() -> None:
    graph: Any = StateGraph(Words)
    graph.add_node("one", lambda state: {})
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    with pytest.raises(InvalidInput, match="is not an agent"):
        seats_of(graph.compile())


# -- anchors


def test_an_anchor_is_found_under_what_is_wrapped_around_the_code() -> None:
    def plain() -> int:
        return sum(1 for _ in range(3))

    @functools.wraps(plain)
    def around() -> int:
        return plain()

    expected = anchor_of(plain)
    assert expected is not None
    for wrapped in (around, functools.partial(plain), Callee(plain, None), functools.partial(around)):
        assert anchor_of(wrapped) == expected
    assert anchor_of("runwell.agents.routing:after_model") == anchor_of(
        getattr(sys.modules["runwell.agents.routing"], "after_model")  # noqa: B009
    )
    assert anchor_of(Watching()) == anchor_of(Watching)
    assert anchor_of(Watching().before_model) == anchor_of(Watching.before_model)


def test_every_code_that_a_stage_names_is_there() -> None:
    """Also in branches that no agent of these tests takes."""
    named = []
    for path in sorted((ROOT / "src/runwell/seats/stages").glob("[a-z]*.py")):
        known = vars(importlib.import_module(f"runwell.seats.stages.{path.stem}"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                text = _text(node, known)
                if text is not None and re.fullmatch(r"runwell[\w.]*:[\w.]+", text):
                    named.append((path.name, node.lineno, text))
    assert len(named) > 60
    for place in named:
        assert anchor_of(place[2]) is not None, place


def _text(node: ast.Constant | ast.JoinedStr, known: dict[str, Any]) -> str | None:
    """What a string says whose blanks are constants of its module."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    parts = []
    for part in node.values:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        value = known.get(inner.id) if isinstance(inner, ast.Name) else getattr(inner, "value", None)
        if not isinstance(value, str):
            return None
        parts.append(value)
    return "".join(parts)


def test_code_that_no_file_holds_has_no_anchor() -> None:
    scope: dict[str, Any] = {}
    exec("def typed(): return 1", scope)
    assert anchor_of(len) is None
    assert anchor_of(scope["typed"]) is None
    with pytest.raises(InvalidInput, match=r"no code called .*routing:nowhere"):
        anchor_of("runwell.agents.routing:nowhere")


# -- pages


class Page(HTMLParser):
    """Reads a page; every tag that opens must close."""

    VOID = {"meta", "input", "link", "img", "br"}

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.loads += [value or "" for key, value in attrs if key in ("src", "href", "action", "data")]
        if tag == "article":
            self.ids.append(found["id"] or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("name", AGENTS)
def test_the_html_page_is_whole_and_needs_nothing_else(name: str) -> None:
    text = seats(name).to_html()
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert page.ids == list(SEATS)
    assert page.loads == []
    assert not re.search(r"https?://(?!localhost)|@import|url\(", text.replace("http and https", ""))
    assert 'type="search"' in text
    shown = "".join(page.words)
    for row in seats(name):
        assert row.seat.question in shown
        assert all(part.answer in shown for part in row.parts)
        assert all(anchor.place in shown for anchor in row.anchors)


def test_words_of_the_program_are_not_markup() -> None:
    agent = create_agent(model(), [look], name="<script>alert(1)</script>")
    page = agent.seats().to_html()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_markdown_has_a_line_for_each_seat() -> None:
    lines = seats("gated").to_markdown().splitlines()
    ids = [line.split("|")[1].strip() for line in lines if re.match(r"\| [A-I]\d", line)]
    assert ids == list(SEATS)
    assert lines[0] == "# Who decides what: agent"
    (line,) = [line for line in lines if line.startswith("| D10 ")]
    assert "human" in line
    assert "human_in_the_loop.py:" in line


def test_json_says_the_same() -> None:
    found = json.loads(json.dumps(seats("gated").to_json()))
    assert found["agent"] == "agent"
    assert [each["id"] for each in found["seats"]] == list(SEATS)
    assert found["seats"][0].keys() == {"id", "question", "kind", "holder", "status", "answer", "held_by"}


# -- differences


def test_a_map_does_not_differ_from_itself_and_differs_where_the_agents_do() -> None:
    assert seats("gated").diff(seats("gated")) == []
    plain = create_agent(model(), [look, delete], checkpointer=InMemorySaver())
    differences = seats("gated").diff(plain)
    assert [each.seat.id for each in differences] == ["A11", "D1", "D8", "D9", "D10", "D11", "D12"]
    (one,) = [each for each in differences if each.seat.id == "D10"]
    assert (one.left.status, one.right.status) == ("held", "idle")
    assert str(one).splitlines()[0].startswith("D10 ")
    with pytest.raises(InvalidInput, match="3 has no seats"):
        seats("gated").diff(3)
    assert [each.seat.id for each in plain.seats().diff(seats("gated"))] == [each.seat.id for each in differences]


# -- the command


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    code = "from runwell.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", code, "seats", *arguments], cwd=folder, capture_output=True, text=True)


@pytest.mark.integration
def test_the_command_prints_writes_and_compares(tmp_path: Path) -> None:
    (tmp_path / "team.py").write_text(
        "from runwell import create_agent, tool\n"
        "from runwell.testing import FakeChatModel\n"
        "@tool\n"
        "def look(path: str) -> str:\n"
        "    'Look.'\n"
        "    return path\n"
        "one = create_agent(FakeChatModel(), [look], name='one')\n"
        "two = create_agent(FakeChatModel(), [look], name='two', approvals='all')\n"
        "number = 3\n"
    )
    listed = command("team:one", folder=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "NOBODY: Nobody asks: every call runs." in listed.stdout
    assert "team.py:3-6" in listed.stdout
    as_json = json.loads(command("team:one", "--json", folder=tmp_path).stdout)
    assert len(as_json["seats"]) == 92
    written = command("team:one", "--html", "map.html", "--diff", "team:two", folder=tmp_path)
    assert "Who decides what: one" in (tmp_path / "map.html").read_text()
    assert "D10 " in written.stdout
    assert "+ human: A person decides" in written.stdout
    compared = json.loads(command("team:one", "--diff", "team:two", "--json", folder=tmp_path).stdout)
    assert "D1" in [each["left"]["id"] for each in compared]
    refused = command("team:number", folder=tmp_path)
    assert refused.returncode == 1
    assert "not an agent" in refused.stderr


# -- what it costs


def test_a_program_that_never_asks_loads_no_map() -> None:
    code = "import sys; from runwell import create_agent; print([m for m in sys.modules if 'runwell.seats' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
