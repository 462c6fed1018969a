"""Strict serialisation: exact types come back, everything else is refused by name, nothing is imported."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import math
import pathlib
import re
import sys
import threading
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from types import SimpleNamespace
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar
from uuid import UUID, uuid1
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, PrivateAttr, field_validator

from runwell.errors import CheckpointCorrupt, ForbiddenType, InvalidConfig, SerializationError, UnserializableType
from runwell.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage, add_messages
from runwell.persistence.serialization import Serializer, reachable_types
from runwell.ports.command import Command, Interrupt, Overwrite, Send
from runwell.ports.saver import PlannedTask


class Colour(enum.Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796  # an alias


class Status(enum.StrEnum):
    OPEN = "open"


class Level(enum.IntEnum):
    LOW = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: Status = Status.OPEN


@dataclass
class Address:
    city: str


@dataclass(frozen=True, slots=True)
class Order:
    id: int
    address: Address
    tags: list[str] = field(default_factory=list)
    computed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "computed", self.id + 1)


@dataclass
class Loose:
    n: int
    seen: list[str] = field(default_factory=list, compare=False)

    @cached_property
    def lock(self) -> Any:
        return threading.Lock()


class Report(BaseModel):
    """A model with an enum inside, a validator, extra fields and private state."""

    class Stage(enum.Enum):
        DRAFT = "draft"

    model_config = ConfigDict(extra="allow")
    stage: Stage
    title: str = "untitled"
    _secret: int = PrivateAttr(default=7)

    @field_validator("title")
    @classmethod
    def _loud(cls, value: str) -> str:
        return value + "!"


MINE = [Colour, Status, Level, Rights, Point, Address, Order, Loose, Report, Report.Stage]
serializer = Serializer(allow=MINE)


def round_trip(value: Any) -> Any:
    return serializer.loads(serializer.dumps(value))


def deep_repr(value: Any) -> str:
    """Types, order and values, all the way down."""
    if isinstance(value, dict):
        inside = [f"{deep_repr(key)}={deep_repr(item)}" for key, item in value.items()]
    elif isinstance(value, (set, frozenset)):
        inside = sorted(map(deep_repr, value))
    elif isinstance(value, (list, tuple, deque)):
        inside = list(map(deep_repr, value))
    elif dataclasses.is_dataclass(value):
        inside = [f"{each.name}={deep_repr(getattr(value, each.name))}" for each in dataclasses.fields(value)]
    else:
        return f"{type(value).__qualname__}:{value!r}"
    return f"{type(value).__qualname__}[{'|'.join(inside)}]"


STANDARD_VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**50,
    1.5,
    -0.0,
    math.inf,
    "",
    "text ł 🙂",
    b"",
    b"\x00\xc4",
    bytearray(b"x"),
    1 + 2j,
    range(3),
    range(10**30, 0, -7),
    [],
    (),
    {},
    set(),
    frozenset(),
    ((1,), [2, (3,)]),
    {1, (2, 3)},
    frozenset({frozenset({1})}),
    {
        1: "int",
        (1, 2): "tuple",
        None: "none",
        1.5: "float",
        b"b": "bytes",
        frozenset({1}): "set",
        date(2024, 1, 1): "date",
    },
    datetime(2024, 2, 29, 12, 0, 1, 5),
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(1, 1, 1),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-3, minutes=-30), "NST")),
    date(2024, 1, 1),
    time(1, 2, 3, 4, fold=1),
    time(1, tzinfo=UTC),
    timedelta(-1, 2, 3),
    timedelta.max,
    UTC,
    timezone(timedelta(hours=1)),
    ZoneInfo("UTC"),
    UUID(int=5),
    uuid1(),
    Decimal("1.10"),
    Decimal("-0"),
    Decimal("1E+400"),
    Decimal("sNaN12"),
    Fraction(1, 3),
    pathlib.PurePosixPath("/a/b"),
    pathlib.PureWindowsPath("c:\\a"),
    pathlib.Path("/a"),
    re.compile("a(?i:b)", re.MULTILINE),
    re.compile(b"\xff"),
    deque([1, 2]),
    deque([1, 2, 3], maxlen=3),
    defaultdict(list, {"a": [1]}),
    defaultdict(None, {1: 2}),
    Counter("aab"),
    Counter({"a": -2}),
    OrderedDict([("b", 1), ("a", 2)]),
]


@pytest.mark.parametrize("value", STANDARD_VALUES, ids=lambda value: f"{type(value).__name__}")
def test_a_standard_value_comes_back_exactly(value: Any) -> None:
    assert deep_repr(round_trip(value)) == deep_repr(value)
    assert deep_repr(round_trip({"nested": [value]})) == deep_repr({"nested": [value]})


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.decimals()
    | st.fractions() | st.uuids() | st.datetimes(timezones=st.timezones() | st.none()) | st.dates() | st.times()
    | st.timedeltas() | st.complex_numbers() | st.sampled_from([*Colour, *Status, *Level, Rights.READ | Rights.WRITE])
)  # fmt: skip
keys = st.none() | st.booleans() | st.integers() | st.text(st.characters()) | st.binary() | st.dates()
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3).map(OrderedDict)
        | st.frozensets(keys, max_size=3)
        | st.builds(Address, inner)
        | st.builds(lambda x: HumanMessage("x", id="i", additional_kwargs={"x": x}), inner)
        | st.builds(Send, st.text(max_size=3), inner)
    ),
    max_leaves=12,
)


@given(anything)
def test_any_mixture_comes_back_exactly(value: Any) -> None:
    assert deep_repr(round_trip(value)) == deep_repr(value)


@pytest.mark.parametrize("text", ["\ud800", "a\udfff b", "\ud83d\ude00"])
def test_ckpt_08_odd_text_keeps_the_format_and_the_value(text: str) -> None:
    for value in (text, {"key": [text]}, {text: 1}, Address(text)):
        data = serializer.dumps(value)
        assert data[0] == serializer.dumps("plain")[0]
        assert serializer.loads(data) == value


def test_ckpt_01_an_enum_declared_inside_a_class_comes_back() -> None:
    loaded = round_trip(Report(stage=Report.Stage.DRAFT))
    assert loaded.stage is Report.Stage.DRAFT


def test_ckpt_02_enums_keep_their_type() -> None:
    loaded = round_trip([Colour.RED, Status.OPEN, Level.LOW, Rights.READ | Rights.WRITE, Rights(0), Colour.CRIMSON])
    assert loaded[0] is Colour.RED
    assert loaded[1] is Status.OPEN
    assert loaded[2] is Level.LOW
    assert loaded[3] is Rights.READ | Rights.WRITE
    assert loaded[4] is Rights(0)
    assert loaded[5] is Colour.RED
    [key] = round_trip({Status.OPEN: 1})
    assert key is Status.OPEN


def test_ckpt_03_dict_subclasses_are_kept() -> None:
    state = round_trip({"d": defaultdict(list), "c": Counter("aa"), "o": OrderedDict(a=1)})
    state["d"]["missing"].append(1)
    assert state["d"]["missing"] == [1]
    assert state["c"].most_common() == [("a", 2)]
    assert type(state["o"]) is OrderedDict


def test_ckpt_03_a_factory_that_is_code_is_refused_by_key() -> None:
    with pytest.raises(UnserializableType, match=r"'state\[0\]'.*default_factory"):
        serializer.dumps([defaultdict(lambda: 1)], "state")


def test_ckpt_04_a_bounded_deque_keeps_its_bound() -> None:
    loaded = round_trip(deque([1, 2, 3], maxlen=3))
    loaded.append(4)
    assert list(loaded) == [2, 3, 4]


def test_ckpt_06_standard_types_are_all_saved() -> None:
    values = [Fraction(1, 3), 1 + 2j, range(3), pathlib.PurePosixPath("/a"), Decimal("1.1")]
    assert round_trip(values) == values


MESSAGES = [
    HumanMessage("hi", id="1", name="ann"),
    HumanMessage([{"type": "text", "text": "hi"}, {"type": "image", "url": "x"}], id="1"),
    SystemMessage("be kind", response_metadata={"a": 1}),
    AIMessage(
        "",
        id="2",
        tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    ToolMessage("4", tool_call_id="c1", artifact={"raw": (1, Decimal(4))}, status="error"),
    RemoveMessage(id="3"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_equal(message: Any) -> None:
    loaded = round_trip([message])[0]
    assert loaded == message
    assert type(loaded) is type(message)


def test_a_history_that_add_messages_made_comes_back_as_the_list_it_is() -> None:
    history = add_messages([HumanMessage("hi", id="1")], [AIMessage("hello", id="2")])
    for value in (history, {"messages": history}, {1: history}, {"b": bytearray(b"x"), "messages": history}):
        assert round_trip(value) == value
    with pytest.raises(UnserializableType, match=r"messages\[1\].artifact"):
        bad = ToolMessage("x", tool_call_id="c", artifact=object(), id="3")
        serializer.dumps(add_messages([HumanMessage("hi", id="1")], [bad]), "messages")


@pytest.mark.parametrize(
    "value",
    [
        Send("node", {"a": (1,)}),
        Command(update={"a": 1}, goto=[Send("x", Address("Rome")), "y"], resume={"i": 1}, graph=Command.PARENT),
        Interrupt("sure?", "id", {"type": "boolean"}),
        Overwrite([1]),
        PlannedTask("id", "node", True, {1: 2}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_runwells_own_values_need_no_permission(value: Any) -> None:
    bare = Serializer(allow=[Address])
    assert bare.loads(bare.dumps(value)) == value


def test_a_document_needs_no_permission() -> None:
    documents = pytest.importorskip("runwell.documents.document")
    document = documents.Document("text", metadata={"page": 1}, id="d")
    assert Serializer().loads(Serializer().dumps(document)) == document


# -- classes of the user's


def test_a_dataclass_comes_back_without_running_its_code() -> None:
    order = Order(1, Address("Rome"), ["x"])
    object.__setattr__(order, "computed", 99)
    loaded = round_trip(order)
    assert loaded == order
    assert loaded.computed == 99
    assert type(loaded.address) is Address


def test_a_dataclass_keeps_attributes_that_are_no_fields_and_drops_cached_ones() -> None:
    loose = Loose(1, ["a"])
    loose.extra = {"more": True}  # type: ignore[attr-defined]
    assert loose.lock is loose.lock
    loaded = round_trip(loose)
    assert vars(loaded) == {"n": 1, "seen": ["a"], "extra": {"more": True}}


def test_a_pydantic_model_comes_back_exactly_as_saved() -> None:
    report = Report(stage=Report.Stage.DRAFT, title="a", more=Address("Rome"))  # type: ignore[call-arg]
    report._secret = 8
    report.title = "not validated"
    loaded = round_trip(report)
    assert loaded == report
    assert loaded.title == "not validated"  # the validator would have added a "!"
    assert loaded._secret == 8
    assert loaded.model_fields_set == report.model_fields_set
    assert loaded.model_extra == {"more": Address("Rome")}


def test_a_named_tuple_comes_back_as_one() -> None:
    loaded = round_trip([Point(1)])
    assert loaded == [Point(1)]
    assert type(loaded[0]) is Point
    assert loaded[0].y is Status.OPEN


class Sub(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        Sub("x"),
        type("I", (int,), {})(1),
        type("F", (float,), {})(1.0),
        type("L", (list,), {})(),
        type("D", (dict,), {})(),
        type("B", (bytes,), {})(b""),
        type("T", (tuple,), {})(),
        type("S", (set,), {})(),
        type("Dt", (datetime,), {})(2024, 1, 1),
    ],
    ids=lambda value: type(value).__mro__[1].__name__,
)
def test_subclasses_of_builtins_are_refused_not_flattened(value: Any) -> None:
    for state in (value, {"k": [value]}, (value,), Address(value), HumanMessage("x", additional_kwargs={"v": value})):
        with pytest.raises(UnserializableType, match=type(value).__name__):
            serializer.dumps(state)
    with pytest.raises(UnserializableType, match="a key"):
        serializer.dumps({Sub("x"): 1})


def test_a_subclass_of_a_listed_class_is_not_listed() -> None:
    class Special(Address):
        pass

    with pytest.raises(UnserializableType, match="Special"):
        serializer.dumps(Special("x"))

    class MyMessage(HumanMessage):
        pass

    with pytest.raises(UnserializableType, match="MyMessage"):
        serializer.dumps([MyMessage("x")])


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, object()]}, "state['a'][1]"),
        ([HumanMessage("x"), ToolMessage("x", tool_call_id="c", artifact=object())], "state[1].artifact"),
        ([HumanMessage([{"type": "text", "x": object()}])], "state[0].content[0]['x']"),
        (Order(1, Address(object())), "state.address.city"),  # type: ignore[arg-type]
        ({1: {(2,): object()}}, "state[1][(2,)]"),
        ((1, deque([object()])), "state[1][0]"),
        (Report(stage=Report.Stage.DRAFT, more=object()), "state.more"),  # type: ignore[call-arg]
        (Send("x", [object()]), "state.arg[0]"),
    ],
)
def test_a_refusal_names_the_place_the_type_and_the_way_out(value: Any, path: str) -> None:
    with pytest.raises(UnserializableType) as caught:
        Serializer(allow=MINE, owner="SqliteSaver").dumps(value, "state")
    assert path in str(caught.value)
    assert "builtins.object" in str(caught.value)
    assert "SqliteSaver(..., allow=[...])" in str(caught.value)


def test_a_refusal_of_a_class_that_could_be_listed_says_how() -> None:
    with pytest.raises(UnserializableType, match=r"allow=\[Address\]\), or declare it in the state schema"):
        Serializer().dumps(Address("x"))


def test_functions_locks_and_clients_are_refused() -> None:
    for value in (lambda: 1, threading.Lock(), sys, (n for n in ()), SimpleNamespace(), ValueError("x"), int, ...):
        with pytest.raises(UnserializableType):
            serializer.dumps({"x": value})


def test_a_memoryview_is_refused_and_a_bytearray_stays_one_beside_bytes() -> None:
    with pytest.raises(UnserializableType, match="memoryview"):
        serializer.dumps([memoryview(b"x")])
    value = [b"a" * 300, {"x": bytearray(b"a" * 70_000)}, HumanMessage("ł", additional_kwargs={"b": bytearray(b"")})]
    loaded = round_trip(value)
    assert [type(loaded[0]), type(loaded[1]["x"])] == [bytes, bytearray]
    assert type(loaded[2].additional_kwargs["b"]) is bytearray
    for size in (1, 300, 70_000):  # msgpack has three headers for bytes
        assert type(round_trip([bytearray(size)])[0]) is bytearray


def test_deep_values_are_saved_and_endless_ones_refused() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    assert round_trip(deep) == deep
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UnserializableType, match="contains itself"):
        serializer.dumps({"x": endless}, "state")


def test_ctrl_c_while_saving_is_ctrl_c() -> None:
    """It comes once, inside a call back from C, which must not take it for a value that does not fit."""
    interrupting = Serializer(allow=[Colour])
    kinds = interrupting._codec(frozenset())._kinds
    original = kinds[Colour]

    def stop(value: Any) -> Any:
        kinds[Colour] = original
        raise KeyboardInterrupt

    kinds[Colour] = original._replace(parts=stop)
    with pytest.raises(KeyboardInterrupt):
        interrupting.dumps([(Colour.RED,)])
    assert interrupting.loads(interrupting.dumps(Colour.RED)) is Colour.RED


@pytest.mark.parametrize("given_", [object, 1, "module.Name", lambda: 1, type("L", (list,), {}), typing.Any])
def test_allow_takes_only_what_can_be_rebuilt(given_: Any) -> None:
    with pytest.raises(InvalidConfig, match="allow="):
        Serializer(allow=[given_])


def test_two_classes_of_one_name_are_refused() -> None:
    def make() -> type:
        @dataclass
        class Same:
            n: int

        return Same

    with pytest.raises(InvalidConfig, match="Same"):
        Serializer(allow=[make(), make()])


# -- loading


def test_ckpt_07_a_name_in_the_data_is_never_imported(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "marker"
    (tmp_path / "evil_module.py").write_text(
        f"import dataclasses, pathlib\npathlib.Path({str(marker)!r}).touch()\n"
        "@dataclasses.dataclass\nclass Evil:\n    n: int = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import evil_module  # type: ignore[import-not-found]

    data = Serializer(allow=[evil_module.Evil]).dumps({"x": evil_module.Evil()})
    marker.unlink()
    del sys.modules["evil_module"]
    with pytest.raises(ForbiddenType, match="evil_module:Evil"):
        serializer.loads(data)
    assert not marker.exists()
    assert "evil_module" not in sys.modules


def test_ckpt_09_no_pickle_is_written_or_read(tmp_path: pathlib.Path) -> None:
    import pickle

    class Bomb:
        def __reduce__(self) -> Any:
            return pathlib.Path.touch, (tmp_path / "marker",)

    with pytest.raises(UnserializableType):
        serializer.dumps({"x": Bomb()})
    with pytest.raises(CheckpointCorrupt):
        serializer.loads(pickle.dumps(Bomb()))
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", ["runwell:system", "runwell:NodeError", "runwell.ports.command:Send", "os:system", ""])
def test_ckpt_07_no_name_leads_outside_the_closed_lists(name: str) -> None:
    forged = _forged(name)
    with pytest.raises(ForbiddenType):
        serializer.loads(forged)


def _forged(name: str) -> bytes:
    import zlib

    import ormsgpack

    body = ormsgpack.packb(ormsgpack.Ext(41, ormsgpack.packb([name, {"a": 1}])))
    return b"\x01" + zlib.crc32(body).to_bytes(4, "little") + body


def test_safe_06_data_that_imitates_an_envelope_stays_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH_OF_SECRETS", "hunter2")
    imitations = [
        {"lc": 1, "type": "secret", "id": ["PATH_OF_SECRETS"]},
        {"lc": 1, "type": "constructor", "id": ["tests", "Address"], "kwargs": {"city": "x"}},
        {"__type__": "Address", "__module__": __name__, "city": "x"},
        [41, f"{__name__}:Address", {"city": "x"}],
        [f"{__name__}:Address", {"city": "x"}],
        ["human", "id", "content", {}],
    ]
    message = HumanMessage("x", id="i", additional_kwargs={"extra": imitations})
    loaded = round_trip({"field": imitations, "messages": [message]})
    assert deep_repr(loaded["field"]) == deep_repr(imitations)
    assert deep_repr(loaded["messages"][0].additional_kwargs["extra"]) == deep_repr(imitations)


def test_every_damaged_byte_and_every_cut_is_noticed() -> None:
    data = serializer.dumps({"messages": MESSAGES, "n": 1})
    for at in range(len(data)):
        flipped = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        for bad in (flipped, data[:at]):
            with pytest.raises(CheckpointCorrupt, match="thread 't'"):
                serializer.loads(bad, where="thread 't'")
    with pytest.raises(CheckpointCorrupt):
        serializer.loads(data + b"\x00")


def test_data_of_a_newer_format_says_upgrade() -> None:
    data = serializer.dumps(1)
    with pytest.raises(CheckpointCorrupt, match="upgrade"):
        serializer.loads(b"\x02" + data[1:])


@given(st.binary(max_size=60))
def test_arbitrary_bytes_only_ever_give_a_documented_error(body: bytes) -> None:
    import zlib

    whole = b"\x01" + zlib.crc32(body).to_bytes(4, "little") + body
    for data in (body, whole):
        with contextlib.suppress(CheckpointCorrupt, SerializationError):
            serializer.loads(data)


# -- classes that have changed since


def _renamed(old: type, new: type) -> tuple[Serializer, Serializer]:
    new.__qualname__, new.__module__ = old.__qualname__, old.__module__
    return Serializer(allow=[old]), Serializer(allow=[new])


def test_a_field_gained_gets_its_default() -> None:
    @dataclass(slots=True)
    class Was:
        a: int

    @dataclass(slots=True)
    class Now:
        a: int
        b: list[int] = field(default_factory=lambda: [1])

    class WasModel(BaseModel):
        a: int

    class NowModel(BaseModel):
        a: int
        b: list[int] = [1]

    for was, now in ((Was, Now), (WasModel, NowModel)):
        before, after = _renamed(was, now)
        assert after.loads(before.dumps(was(a=3))) == now(a=3, b=[1])


def test_a_field_without_a_default_or_a_lost_member_is_an_error_that_says_so() -> None:
    @dataclass
    class Was:
        a: int

    @dataclass
    class Now:
        a: int
        b: int  # new, without a default

    before, after = _renamed(Was, Now)
    with pytest.raises(SerializationError, match=r"needs \['b'\].*thread 't'"):
        after.loads(before.dumps(Was(1)), where="thread 't'")

    class Old(enum.Enum):
        GONE = 1

    class New(enum.Enum):
        KEPT = 1

    before, after = _renamed(Old, New)
    with pytest.raises(SerializationError, match=r"GONE"):
        after.loads(before.dumps(Old.GONE))


def test_a_class_of_another_kind_is_an_error() -> None:
    @dataclass
    class Was:
        a: int

    class Now(BaseModel):
        a: int

    before, after = _renamed(Was, Now)
    with pytest.raises(SerializationError, match=r"was a dataclass and the class is now a Pydantic model"):
        after.loads(before.dumps(Was(1)))


# -- reachable types

T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    content: T
    next: Box[T] | None = None


class Shape(BaseModel):
    colour: Colour


Id = NewType("Id", Address)


class Nested(TypedDict, total=False):
    points: list[Point]


class State(TypedDict):
    """Each field hides a class in another way."""

    messages: Annotated[list[HumanMessage], lambda old, new: new]
    box: Box[Order]
    shapes: dict[str, tuple[Shape | None, ...]]
    mode: Literal[Level.LOW]
    id: Id
    nested: Nested
    rights: typing.Optional[Rights]  # noqa: UP045
    plain: dict[str, Any]


def test_reachable_types_finds_what_a_schema_can_hold() -> None:
    found = reachable_types(State)
    assert found >= {Box, Order, Address, Shape, Colour, Level, Point, Status, Rights}
    assert not found & {Report, Loose, dict, list, str}
    allowed = Serializer()
    value = {"box": Box(Order(1, Address("x"))), "shapes": {"a": (Shape(colour=Colour.RED), None)}, "mode": Level.LOW}
    assert allowed.loads(allowed.dumps(value, types=found), found) == value


def test_reachable_types_reads_generic_models_and_local_classes() -> None:
    class Local(BaseModel):
        n: int

    class Page(BaseModel, Generic[T]):
        items: list[T]

    @dataclass
    class Holder:
        here: Address
        unknown: NoSuchName  # type: ignore[name-defined]  # noqa: F821

    assert reachable_types(Page[Local]) >= {Page[Local], Local}
    assert reachable_types(Holder) == {Holder, Address}
    assert reachable_types(Any) == frozenset()


def test_types_of_one_call_do_not_leak_into_another() -> None:
    strict = Serializer()
    data = strict.dumps(Address("x"), types=frozenset({Address}))
    assert strict.loads(data, frozenset({Address})) == Address("x")
    with pytest.raises(ForbiddenType):
        strict.loads(data)
    with pytest.raises(UnserializableType):
        strict.dumps(Address("x"))


@given(st.lists(st.recursive(st.text() | st.integers(0, 2**40) | st.none(), st.lists, max_leaves=4), min_size=2))
def test_a_listing_found_plain_can_be_read_by_anyone_and_a_damaged_one_is_not(values: list[Any]) -> None:
    serializer = Serializer()
    stored = [serializer.dumps(value) for value in values]
    if serializer.are_plain(stored):
        assert [serializer.loads(data) for data in stored] == values
    assert serializer.are_plain([serializer.dumps("plain"), serializer.dumps({"n": [1]})])
    for odd in (b"", stored[0][:-1], stored[0][:3], b"\x02" + stored[0][1:], serializer.dumps(uuid1())):
        assert not serializer.are_plain([*stored, odd])
