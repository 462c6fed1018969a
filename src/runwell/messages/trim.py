"""Cutting a history to a budget without tearing a call from its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, cast, overload

from runwell.errors import InvalidInput
from runwell.messages.convert import convert_to_messages
from runwell.messages.count import Estimate, count_tokens_approximately
from runwell.messages.message import AIMessage, BaseMessage, Content, HumanMessage, SystemMessage, ToolMessage
from runwell.messages.select import Kinds, MessageTransform, classes_of
from runwell.messages.validity import call_ids

__all__ = ["trim_messages"]

Counter: TypeAlias = "Callable[[list[BaseMessage]], int] | Callable[[BaseMessage], int] | Literal['approximate'] | Any"

Classes: TypeAlias = "tuple[type[BaseMessage], ...] | None"


@overload
def trim_messages(
    messages: Iterable[Any],
    *,
    max_tokens: int,
    token_counter: Counter,
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: Kinds | None = None,
    start_on: Kinds | None = None,
    include_system: bool = False,
    text_splitter: Callable[[str], list[str]] | Any = None,
) -> list[BaseMessage]: ...


@overload
def trim_messages(
    messages: None = None,
    *,
    max_tokens: int,
    token_counter: Counter,
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: Kinds | None = None,
    start_on: Kinds | None = None,
    include_system: bool = False,
    text_splitter: Callable[[str], list[str]] | Any = None,
) -> MessageTransform: ...


def trim_messages(
    messages: Iterable[Any] | None = None,
    *,
    max_tokens: int,
    token_counter: Counter,
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: Kinds | None = None,
    start_on: Kinds | None = None,
    include_system: bool = False,
    text_splitter: Callable[[str], list[str]] | Any = None,
) -> list[BaseMessage] | MessageTransform:
    """The first or the last messages that fit in `max_tokens`; a new list, never over the budget, in the order given.

    A message with tool calls and the results of these calls are kept or left out together. What is torn already (a
    result without its call, a call without its result) is left out, except calls of the very last turn, which may
    still be running.

    `token_counter` counts a list or one message; `len` counts messages, "approximate" is
    `count_tokens_approximately`, and an object with `get_num_tokens_from_messages` (a model) counts itself.
    `start_on` / `end_on` are types ("human", a class, or several) of which the first or last message kept must be.
    `include_system` keeps a system message at the beginning (raises `InvalidInput` if it alone is over the budget).
    `allow_partial` keeps a part of the message at the cut, by whole content blocks and pieces of text that
    `text_splitter` makes (lines by default).

    Without `messages` gives a callable that does this, which may stand in a chain.
    """
    if strategy not in ("first", "last"):
        raise InvalidInput(f"strategy is 'first' or 'last', got {strategy!r:.200}.")
    if strategy == "first" and (start_on is not None or include_system):
        raise InvalidInput("start_on and include_system go with strategy='last': 'first' keeps the beginning anyway.")
    if max_tokens < 0:
        raise InvalidInput(f"max_tokens is negative: {max_tokens!r:.200}.")
    budget = _Budget(token_counter, max_tokens)
    split = _splitter(text_splitter) if allow_partial else None
    trim = _first if strategy == "first" else _last

    start = None if start_on is None else classes_of(start_on)
    end = None if end_on is None else classes_of(end_on)

    def run(given: Iterable[Any]) -> list[BaseMessage]:
        return trim(convert_to_messages(given), budget, split, start, end, include_system)

    return MessageTransform("trim_messages", run) if messages is None else run(messages)


class _Budget:
    """What fits. A counter of single messages is added up; one of lists is asked about lists."""

    def __init__(self, counter: Counter, limit: int) -> None:
        self.limit = limit
        self.is_quick = counter is len or counter == "approximate" or counter is count_tokens_approximately
        self.one: Callable[[BaseMessage], int] | None = None
        self.many: Callable[[list[BaseMessage]], int] = len
        if counter == "approximate" or counter is count_tokens_approximately:
            self.one = Estimate().of
        elif counter is len:
            self.one = lambda message: 1
        elif hasattr(counter, "get_num_tokens_from_messages"):
            self.many = counter.get_num_tokens_from_messages
        elif not callable(counter):
            raise InvalidInput(
                f"token_counter must be callable, a model or 'approximate', got {counter!r:.200}.",
                hint="token_counter='approximate' needs nothing.",
            )
        elif _takes_one(counter):
            self.one = cast("Callable[[BaseMessage], int]", counter)
        else:
            self.many = cast("Callable[[list[BaseMessage]], int]", counter)

    def cost(self, messages: Sequence[BaseMessage]) -> int:
        return sum(map(self.one, messages)) if self.one is not None else self.many(list(messages))

    def fits(self, messages: Sequence[BaseMessage]) -> bool:
        return not messages or self.cost(messages) <= self.limit


def _takes_one(counter: Any) -> bool:
    """Whether the counter's first parameter is annotated as a single message."""
    import inspect

    try:
        parameters = list(inspect.signature(counter).parameters.values())
    except (TypeError, ValueError):
        return False
    annotation = parameters[0].annotation if parameters else None
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2] in ("BaseMessage", "AnyMessage")
    return isinstance(annotation, type) and issubclass(annotation, BaseMessage)


class _Units:
    """A history without what is torn, and where it may be cut: before each of `starts`."""

    __slots__ = ("kept", "starts")

    def __init__(self, messages: list[BaseMessage], *, apart: bool = False) -> None:
        """`apart`: no calls and no results are where it will be cut."""
        self.kept = messages
        self.starts: Sequence[int] = range(len(messages))
        if not apart and any_calls(messages):
            starts, torn = _starts(messages)
            if torn:
                self.kept = [message for place, message in enumerate(messages) if place not in torn]
                starts, _ = _starts(self.kept)
            self.starts = starts

    def start(self, unit: int) -> int:
        """Where the unit begins in `kept`; for the number after the last, the end."""
        return self.starts[unit] if unit < len(self.starts) else len(self.kept)


def any_calls(messages: list[BaseMessage]) -> bool:
    """Whether there are calls or results at all."""
    for message in messages:
        kind = type(message)
        if kind is HumanMessage:
            continue
        if isinstance(message, AIMessage):
            if message.tool_calls or message.invalid_tool_calls:
                return True
        elif isinstance(message, ToolMessage):
            return True
    return False


def _starts(messages: Sequence[BaseMessage]) -> tuple[list[int], set[int]]:
    """Where units begin, and the places of what is torn.

    A unit is a call with its results and whatever stands between them, or a single message. Torn are results without
    a call, and calls (with the results there are) that lack a result; except calls of the last turn, which may still
    be running.
    """
    starts: list[int] = []
    torn: set[int] = set()
    owners: dict[str, tuple[int, int]] = {}  # call id -> place of the call, number of its unit
    waiting: dict[int, set[str]] = {}  # place of a call -> ids without result
    members: dict[int, list[int]] = {}
    last_said = -1  # the last message that is no result
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            owner, unit = owners.get(message.tool_call_id, (-1, -1))
            if owner < 0:
                torn.add(place)
                starts.append(place)
            else:
                waiting[owner].discard(message.tool_call_id)
                members[owner].append(place)
                del starts[unit + 1 :]
            continue
        last_said = place
        if isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
            ids = call_ids(message)
            owners.update(dict.fromkeys(ids, (place, len(starts))))
            waiting[place] = set(ids)
            members[place] = [place]
        starts.append(place)
    for owner, left in waiting.items():
        if left and owner != last_said:
            torn.update(members[owner])
    return starts, torn


def _last(
    messages: list[BaseMessage],
    budget: _Budget,
    split: Callable[[str], list[str]] | None,
    start_on: Classes,
    end_on: Classes,
    include_system: bool,
) -> list[BaseMessage]:
    system: list[BaseMessage] = []
    if include_system and messages and isinstance(messages[0], SystemMessage):
        system, messages = messages[:1], messages[1:]
        if not budget.fits(system):
            raise InvalidInput(
                f"The system message alone takes {budget.cost(system)} tokens of max_tokens={budget.limit}.",
                hint="Raise max_tokens, shorten the system message, or leave include_system out.",
            )
    places = _cut_apart(messages, system, end_on, budget)
    units = _Units(messages, apart=places is not None)
    if places is not None:
        cut, end = places
    else:
        end = len(units.starts)
        while end and end_on is not None and not isinstance(units.kept[units.start(end) - 1], end_on):
            end -= 1
        cut = _cut(units, end, system, budget)
    stop = units.start(end)
    kept = units.kept[units.start(cut) : stop]
    if split is not None and cut > 0:
        before = units.kept[units.start(cut - 1) : units.start(cut)]
        if len(before) == 1 and (start_on is None or isinstance(before[0], start_on)):
            part = _part(before[0], split, lambda some: [*system, *some, *kept], budget, keep_end=True)
            if part:
                return [*system, *part, *kept]
    while cut < end and start_on is not None and not isinstance(units.kept[units.start(cut)], start_on):
        cut += 1
    return [*system, *units.kept[units.start(cut) : stop]]


def _cut_apart(
    messages: list[BaseMessage], system: list[BaseMessage], end_on: Classes, budget: _Budget
) -> tuple[int, int] | None:
    """Where the messages that fit begin and end, if no call and no result is among them or right before: then nothing
    that they belong to can be torn, and the messages before need not be looked at. None if there is one."""
    if budget.one is None or not budget.is_quick:  # a slow counter is not asked twice for what it counted here
        return None
    left = budget.limit - budget.cost(system)
    end = cut = len(messages)
    for message in reversed(messages):
        if type(message) is not HumanMessage and any_calls([message]):
            return None
        if cut == end and end_on is not None and not isinstance(message, end_on):
            end = cut = end - 1
            continue
        left -= budget.one(message)
        if left < 0:
            break
        cut -= 1
    return cut, end


def _cut(units: _Units, end: int, system: list[BaseMessage], budget: _Budget) -> int:
    """The number of the first unit of the longest run up to `end` that fits."""
    stop = units.start(end)
    if budget.one is not None:
        left = budget.limit - budget.cost(system)
        cut, upto = end, stop
        while cut > 0:
            start = units.starts[cut - 1]
            if upto - start == 1:
                left -= budget.one(units.kept[start])
            else:
                left -= sum(map(budget.one, units.kept[start:upto]))
            if left < 0:
                break
            cut, upto = cut - 1, start
        return cut
    low, cut = 0, end
    while low < cut:  # by halving
        middle = (low + cut) // 2
        if budget.fits([*system, *units.kept[units.start(middle) : stop]]):
            cut = middle
        else:
            low = middle + 1
    return cut


def _first(
    messages: list[BaseMessage],
    budget: _Budget,
    split: Callable[[str], list[str]] | None,
    start_on: Classes,
    end_on: Classes,
    include_system: bool,
) -> list[BaseMessage]:
    units = _Units(messages)
    end, high = 0, len(units.starts)
    if budget.one is not None:
        left = budget.limit
        while end < high:
            left -= sum(map(budget.one, units.kept[units.starts[end] : units.start(end + 1)]))
            if left < 0:
                break
            end += 1
    else:
        while end < high:
            middle = (end + high + 1) // 2
            if budget.fits(units.kept[: units.start(middle)]):
                end = middle
            else:
                high = middle - 1
    if split is not None and end < len(units.starts) and units.start(end + 1) == units.starts[end] + 1:
        kept, after = units.kept[: units.start(end)], units.kept[units.start(end)]
        part = _part(after, split, lambda some: [*kept, *some], budget, keep_end=False)
        if part and (end_on is None or isinstance(after, end_on)):
            return [*kept, *part]
    while end and end_on is not None and not isinstance(units.kept[units.start(end) - 1], end_on):
        end -= 1
    return units.kept[: units.start(end)]


# -- parts of a message


def _splitter(given: Any) -> Callable[[str], list[str]]:
    if given is None:
        return lambda text: text.splitlines(keepends=True)
    split = getattr(given, "split_text", given)
    if not callable(split):
        raise InvalidInput(f"text_splitter must be callable or have split_text, got {given!r:.200}.")
    return cast("Callable[[str], list[str]]", split)


def _part(
    message: BaseMessage,
    split: Callable[[str], list[str]],
    around: Callable[[list[BaseMessage]], list[BaseMessage]],
    budget: _Budget,
    *,
    keep_end: bool,
) -> list[BaseMessage]:
    """As much of the end or beginning of the message as fits among the others, as a list of one message or none."""
    if isinstance(message, ToolMessage) or (isinstance(message, AIMessage) and call_ids(message)):
        return []
    pieces = _pieces(message.content, split)
    low, high = 0, len(pieces) - 1
    while low < high:  # the most pieces that fit
        middle = (low + high + 1) // 2
        if budget.fits(around([_of_pieces(message, pieces, middle, keep_end)])):
            low = middle
        else:
            high = middle - 1
    some = [_of_pieces(message, pieces, low, keep_end)] if low > 0 else []
    return some if some and some[0].content else []


def _pieces(content: Content, split: Callable[[str], list[str]]) -> list[tuple[Any, str | None]]:
    """(block or None, text) in order: texts split, every other block whole."""
    if isinstance(content, str):
        return [(None, text) for text in split(content)]
    pieces: list[tuple[Any, str | None]] = []
    for block in content:
        if isinstance(block, str):
            pieces += [(None, text) for text in split(block)]
        elif block.get("type") == "text" and isinstance(block.get("text"), str) and not block.get("annotations"):
            pieces += [(block, text) for text in split(block["text"])]
        else:
            pieces.append((block, None))
    return pieces


def _of_pieces(message: BaseMessage, pieces: list[tuple[Any, str | None]], number: int, keep_end: bool) -> BaseMessage:
    chosen = pieces[len(pieces) - number :] if keep_end else pieces[:number]
    if isinstance(message.content, str):
        content: Any = "".join(text or "" for _, text in chosen)
    else:
        content = []
        source: Any = None
        for block, text in chosen:
            if text is None:
                content.append(block)
            elif content and source is block and block is not None:
                content[-1] = {**block, "text": content[-1]["text"] + text}
            elif content and block is None and isinstance(content[-1], str):
                content[-1] += text
            else:
                content.append(text if block is None else {**block, "text": text})
            source = block
    return message.model_copy(update={"content": content})
