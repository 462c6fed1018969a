"""Values in the state come back as what they were, or saving names what cannot; nothing unlisted is ever built."""

from __future__ import annotations

import operator
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel

from runwell.agents import create_agent
from runwell.errors import ForbiddenType, UnserializableType
from runwell.graph import START, Command, StateGraph, interrupt
from runwell.messages import AIMessage, HumanMessage
from runwell.persistence import SqliteSaver
from runwell.testing import FakeChatModel


class Report(BaseModel):
    class Stage(Enum):
        DRAFT = "draft"
        FINAL = "final"

    stage: Stage = Stage.DRAFT
    tags: list[str] = []


class Colour(Enum):
    RED = 1


class Word(StrEnum):
    YES = "yes"


class Level(IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Note:
    text: str
    at: Point = field(default_factory=lambda: Point(0, 0))
    parts: list[Note] = field(default_factory=list)


@dataclass
class Stranger:
    """In no schema below."""

    text: str = "x"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.sqlite"


def paused_and_resumed(run: Any, schema: Any, given: dict[str, Any], path: Path, node: Any = None) -> dict[str, Any]:
    """What a node finds, and what the caller gets, after a pause over which the file was closed and opened again."""
    found: list[Any] = []

    def ask(state: Any) -> Any:
        interrupt("go on?")
        found.append(state)
        return node(state) if node is not None else None

    graph = StateGraph(schema).add_node(ask).add_edge(START, "ask")
    thread = {"configurable": {"thread_id": "t"}}
    with SqliteSaver(path) as saver:
        run.invoke(graph.compile(saver), given, thread)
    with SqliteSaver(path) as saver:
        app = graph.compile(saver)
        result: dict[str, Any] = run.invoke(app, Command(resume="yes"), thread)
        assert run.state(app, thread).values == result
        values = found[0] if isinstance(found[0], dict) else {key: getattr(found[0], key) for key in given}
        assert values == given
        assert [type(values[key]) for key in given] == [type(value) for value in given.values()]
    return result


def one(kind: Any) -> Any:
    """A state with one key `value` of this type."""
    made: Any = TypedDict("State", {"value": kind})  # type: ignore[operator]
    return made


# -- what comes back


def test_ckpt_01_an_enum_declared_inside_a_model(run: Any, path: Path) -> None:
    report = Report(stage=Report.Stage.FINAL, tags=["x"])
    result = paused_and_resumed(run, one(Report), {"value": report}, path)
    assert result["value"].stage is Report.Stage.FINAL


def test_ckpt_01_in_a_state_that_is_itself_a_model(run: Any, path: Path) -> None:
    class State(BaseModel):
        report: Report

    result = paused_and_resumed(run, State, {"report": Report()}, path)
    assert result["report"].stage is Report.Stage.DRAFT


@pytest.mark.parametrize("member", [Colour.RED, Word.YES, Level.LOW], ids=repr)
def test_ckpt_02_enums_of_every_kind_keep_their_type(run: Any, path: Path, member: Any) -> None:
    result = paused_and_resumed(run, one(type(member)), {"value": member}, path)
    assert result["value"] is member
    result = paused_and_resumed(
        run, one(dict[str, list[type(member)]]), {"value": {"k": [member]}}, path.with_suffix(".2")
    )
    assert result["value"]["k"][0] is member


@pytest.mark.parametrize(
    "value", [defaultdict(list, a=[1]), Counter("abca"), OrderedDict(b=1, a=2)], ids=lambda v: type(v).__name__
)
def test_ckpt_03_dict_subclasses_keep_their_type(run: Any, path: Path, value: Any) -> None:
    result = paused_and_resumed(run, one(type(value)), {"value": value}, path)
    if isinstance(value, defaultdict):
        result["value"]["missing"].append(4)
        assert result["value"]["missing"] == [4]
    if isinstance(value, OrderedDict):
        assert list(result["value"]) == ["b", "a"]


def test_ckpt_04_a_bounded_deque_keeps_its_bound(run: Any, path: Path) -> None:
    result = paused_and_resumed(run, one(deque[int]), {"value": deque([1, 2, 3], maxlen=3)}, path)
    result["value"].append(4)
    assert list(result["value"]) == [2, 3, 4]


@pytest.mark.parametrize(
    "value",
    [Fraction(1, 3), 1 + 2j, range(3), PurePosixPath("/a"), Decimal("1.1"), frozenset({1}), (1, (2,)), {(1, 2): 3}],
    ids=repr,
)
def test_ckpt_06_standard_types_are_saved(run: Any, path: Path, value: Any) -> None:
    paused_and_resumed(run, one(Any), {"value": value}, path)


def test_declared_classes_are_saved_inside_each_other(run: Any, path: Path) -> None:
    note = Note("a", Point(1, 2), [Note("b")])
    result = paused_and_resumed(run, one(list[Note] | None), {"value": [note]}, path)
    assert type(result["value"][0].parts[0].at) is Point


# -- SAFE-06, SAFE-07: data that looks like an envelope

ENVELOPES = [
    {"lc": 1, "type": "secret", "id": ["PATH"]},
    {"lc": 1, "type": "constructor", "id": ["builtins", "dict"], "kwargs": {"a": 1}},
    {"lc": 2, "type": "constructor", "id": ["runwell", "messages", "HumanMessage"], "kwargs": {"content": "x"}},
    {"__type__": "tests.graph.test_types:Stranger", "text": "x"},
    {"$ext": 50, "data": b"\x81"},
]


@pytest.mark.parametrize("envelope", ENVELOPES, ids=str)
def test_safe_06_an_envelope_in_a_message_stays_data(run: Any, path: Path, envelope: Any) -> None:
    message = AIMessage("x", id="1", additional_kwargs={"extra": envelope}, response_metadata=envelope)
    result = paused_and_resumed(run, one(list[Any]), {"value": [HumanMessage([envelope], id="0"), message]}, path)
    assert result["value"][1].additional_kwargs == {"extra": envelope}
    assert result["value"][0].content == [envelope]


@pytest.mark.parametrize("envelope", ENVELOPES, ids=str)
def test_safe_07_an_envelope_in_the_state_stays_data(run: Any, path: Path, envelope: Any) -> None:
    result = paused_and_resumed(run, one(Any), {"value": envelope}, path, lambda state: {"value": [state["value"]]})
    assert result["value"] == [envelope]
    assert type(result["value"][0]) is dict


# -- D6: what is allowed by itself, and what is refused


class Log(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def saving(node: Any, saver: Any, **options: Any) -> Any:
    return StateGraph(Log, **options).add_node("work", node).add_edge(START, "work").compile(saver)


def test_d6_an_undeclared_class_is_refused_when_saving_naming_key_and_call(run: Any, path: Path, thread: Any) -> None:
    with SqliteSaver(path) as saver:
        app = saving(lambda state: {"log": [{"deep": [Stranger()]}]}, saver)
        with pytest.raises(UnserializableType) as caught:
            run.invoke(app, {"log": []}, thread)
        assert "log[0]['deep'][0]" in str(caught.value)
        assert "Stranger" in str(caught.value)
        assert "SqliteSaver(..., allow=[Stranger])" in str(caught.value)
        assert run.state(app, thread).values == {"log": []}
        with pytest.raises(UnserializableType, match=r"'log\[0\]'|log\[0\]"):
            run.invoke(app, {"log": [Stranger()]}, {"configurable": {"thread_id": "input"}})


def test_d6_allow_takes_it(run: Any, path: Path, thread: Any) -> None:
    with SqliteSaver(path, allow=[Stranger]) as saver:
        app = saving(lambda state: {"log": [Stranger("kept")]}, saver)
        run.invoke(app, {"log": []}, thread)
        assert run.state(app, thread).values == {"log": [Stranger("kept")]}


def test_d6_a_question_or_answer_of_an_undeclared_class_is_refused_by_name(run: Any, path: Path, thread: Any) -> None:
    with SqliteSaver(path) as saver:
        app = saving(lambda state: {"log": [interrupt(Stranger())]}, saver)
        with pytest.raises(UnserializableType, match="Stranger"):
            run.invoke(app, {"log": []}, thread)
        asking = saving(lambda state: {"log": [interrupt("?")]}, saver)
        other = {"configurable": {"thread_id": "answer"}}
        run.invoke(asking, {"log": []}, other)
        with pytest.raises(UnserializableType, match="Stranger"):
            run.invoke(asking, Command(resume=Stranger()), other)
        assert run.state(asking, other).interrupts[0].value == "?"
        assert run.invoke(asking, Command(resume="plain"), other) == {"log": ["plain"]}


def test_d6_the_context_schemas_types_may_be_saved(run: Any, path: Path, thread: Any) -> None:
    @dataclass
    class Context:
        note: Note

    def work(state: Any, runtime: Any) -> Any:
        return {"log": [runtime.context.note]}

    with SqliteSaver(path) as saver:
        app = saving(work, saver, context_schema=Context)
        assert run.invoke(app, {"log": []}, thread, context=Context(Note("a"))) == {"log": [Note("a")]}
        assert run.state(app, thread).values == {"log": [Note("a")]}


def test_d6_private_input_and_output_schemas_count(run: Any, path: Path, thread: Any) -> None:
    class Private(TypedDict):
        note: Note

    graph = StateGraph(Log).add_node("make", lambda s: {"note": Note("a")})
    graph.add_node("use", lambda s: {"log": [s["note"].text]}, input_schema=Private)
    with SqliteSaver(path) as saver:
        app = graph.add_edge(START, "make").add_edge("make", "use").compile(saver)
        assert run.invoke(app, {"log": []}, thread)["log"] == ["a"]


def test_d6_a_response_formats_types_may_be_saved(run: Any, path: Path, thread: Any) -> None:
    call = {"name": "Report", "args": {"stage": "final", "tags": ["t"]}, "id": "1", "type": "tool_call"}
    with SqliteSaver(path) as saver:
        model = FakeChatModel(responses=[AIMessage("", tool_calls=[call])])
        agent = create_agent(model, response_format=Report, checkpointer=saver)
        run.invoke(agent, {"messages": [HumanMessage("go")]}, thread)
        kept = run.state(agent, thread).values["structured_response"]
        assert (type(kept), kept.stage) == (Report, Report.Stage.FINAL)


def test_d6_a_nested_graphs_types_may_be_saved(run: Any, path: Path, thread: Any) -> None:
    class Inner(Log, total=False):
        note: Note

    inner = StateGraph(Inner).add_node("make", lambda s: {"note": Note("a")})
    inner.add_node("ask", lambda s: {"log": [interrupt("?"), s["note"].text]}).add_edge(START, "make")
    with SqliteSaver(path) as saver:
        app = saving(inner.add_edge("make", "ask").compile(), saver)
        run.invoke(app, {"log": []}, thread)
        assert run.invoke(app, Command(resume="yes"), thread) == {"log": ["yes", "a"]}


BUILT: list[str] = []


@dataclass
class Bomb:
    """Tells when it is built."""

    text: str = ""

    def __post_init__(self) -> None:
        BUILT.append(self.text)


def test_d6_an_unlisted_type_is_never_built_on_load(run: Any, path: Path, thread: Any) -> None:
    class Armed(Log, total=False):
        bomb: Bomb

    with SqliteSaver(path) as saver:
        armed = StateGraph(Armed).add_node("work", lambda s: {"bomb": Bomb("made by a node")}).add_edge(START, "work")
        run.invoke(armed.compile(saver), {"log": []}, thread)
    BUILT.clear()
    with SqliteSaver(path) as saver:
        app = saving(lambda state: {"log": ["ran"]}, saver)
        for read in (
            lambda: run.state(app, thread),
            lambda: run.history(app, thread),
            lambda: run.invoke(app, {"log": []}, thread),
            lambda: run.invoke(app, None, thread),
            lambda: run.update(app, thread, {"log": []}, as_node="work"),
        ):
            with pytest.raises(ForbiddenType, match=r"Bomb.*was not loaded(?s:.)*SqliteSaver\(..., allow=\[Bomb\]\)"):
                read()
    assert BUILT == []
    with SqliteSaver(path) as saver:
        assert run.state(armed.compile(saver), thread).values["bomb"].text == "made by a node"
