"""Cutting a history to a budget without tearing a call from its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, cast, overload

from runwell.errors import InvalidInput
from runwell.messages.convert import convert_to_messages
from runwell.messages.count import Estimate, count_tokens_approximately
from runwell.messages.message import AIMessage, BaseMessage, Content, SystemMessage, ToolMessage
from runwell.messages.select import Kinds, MessageTransform, is_of
from runwell.messages.validity import call_ids

__all__ = ["trim_messages", "whole_groups"]

Counter: TypeAlias = "Callable[[list[BaseMessage]], int] | Callable[[BaseMessage], int] | Literal['approximate'] | Any"


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
        raise InvalidInput(f"strategy is 'first' or 'last', got {strategy!r}.")
    if strategy == "first" and (start_on is not None or include_system):
        raise InvalidInput("start_on and include_system go with strategy='last': 'first' keeps the beginning anyway.")
    if max_tokens < 0:
        raise InvalidInput(f"max_tokens is negative: {max_tokens!r}.")
    budget = _Budget(token_counter, max_tokens)
    split = _splitter(text_splitter) if allow_partial else None
    trim = _first if strategy == "first" else _last

    def run(given: Iterable[Any]) -> list[BaseMessage]:
        return trim(convert_to_messages(given), budget, split, start_on, end_on, include_system)

    return MessageTransform("trim_messages", run) if messages is None else run(messages)


class _Budget:
    """What fits. A counter of single messages is added up; one of lists is asked about lists."""

    def __init__(self, counter: Counter, limit: int) -> None:
        self.limit = limit
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
                f"token_counter must be callable, a model or 'approximate', got {counter!r}.",
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


def whole_groups(messages: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
    """The history in units that must stay together, in order: a call with its results, or a single message.

    What is torn is left out, except calls of the last turn that still wait for results. Messages that stand between a
    call and a late result belong to that unit.
    """
    starts: list[int] = []  # of the units
    kept: list[BaseMessage] = []
    torn = _torn(messages)
    owners: dict[str, int] = {}  # call id -> the unit's number
    for place, message in enumerate(messages):
        if place in torn:
            continue
        if isinstance(message, ToolMessage):
            del starts[owners[message.tool_call_id] + 1 :]
        else:
            if isinstance(message, AIMessage):
                owners.update(dict.fromkeys(call_ids(message), len(starts)))
            starts.append(len(kept))
        kept.append(message)
    return [kept[start:end] for start, end in zip(starts, [*starts[1:], len(kept)], strict=True)]


def _torn(messages: Sequence[BaseMessage]) -> set[int]:
    """Places of results without a call, and of calls (with the results there are) that lack a result."""
    torn: set[int] = set()
    owners: dict[str, int] = {}
    waiting: dict[int, set[str]] = {}
    members: dict[int, list[int]] = {}
    last_said = -1  # the last message that is no result
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            owner = owners.get(message.tool_call_id)
            if owner is None:
                torn.add(place)
            else:
                waiting[owner].discard(message.tool_call_id)
                members[owner].append(place)
            continue
        last_said = place
        if isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
            ids = call_ids(message)
            owners.update(dict.fromkeys(ids, place))
            waiting[place] = set(ids)
            members[place] = [place]
    for owner, left in waiting.items():
        if left and owner != last_said:
            torn.update(members[owner])
    return torn


def _last(
    messages: list[BaseMessage],
    budget: _Budget,
    split: Callable[[str], list[str]] | None,
    start_on: Kinds | None,
    end_on: Kinds | None,
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
    groups = whole_groups(messages)
    if end_on is not None:
        while groups and not is_of(groups[-1][-1], end_on):
            groups.pop()
    cut = _cut(groups, system, budget)
    kept = groups[cut:]
    part: list[BaseMessage] = []
    if (
        split is not None
        and cut > 0
        and len(groups[cut - 1]) == 1
        and (start_on is None or is_of(groups[cut - 1][0], start_on))
    ):
        part = _part(groups[cut - 1][0], split, lambda some: [*system, *some, *_flat(kept)], budget, keep_end=True)
    if not part and start_on is not None:
        while kept and not is_of(kept[0][0], start_on):
            kept.pop(0)
    return [*system, *part, *_flat(kept)]


def _cut(groups: list[list[BaseMessage]], system: list[BaseMessage], budget: _Budget) -> int:
    """The number of the first group of the longest end that fits."""
    cut = len(groups)
    if budget.one is not None:
        left = budget.limit - budget.cost(system)
        while cut > 0:
            left -= budget.cost(groups[cut - 1])
            if left < 0:
                break
            cut -= 1
        return cut
    low = 0
    while low < cut:  # the longest end that fits, by halving
        middle = (low + cut) // 2
        if budget.fits([*system, *_flat(groups[middle:])]):
            cut = middle
        else:
            low = middle + 1
    return cut


def _first(
    messages: list[BaseMessage],
    budget: _Budget,
    split: Callable[[str], list[str]] | None,
    start_on: Kinds | None,
    end_on: Kinds | None,
    include_system: bool,
) -> list[BaseMessage]:
    groups = whole_groups(messages)
    fit, high = 0, len(groups)
    if budget.one is not None:
        left = budget.limit
        while fit < high:
            left -= budget.cost(groups[fit])
            if left < 0:
                break
            fit += 1
    else:
        while fit < high:
            middle = (fit + high + 1) // 2
            if budget.fits(_flat(groups[:middle])):
                fit = middle
            else:
                high = middle - 1
    kept = groups[:fit]
    if split is not None and fit < len(groups) and len(groups[fit]) == 1:
        part = _part(groups[fit][0], split, lambda some: [*_flat(kept), *some], budget, keep_end=False)
        if part:
            kept.append(part)
    if end_on is not None:
        while kept and not is_of(kept[-1][-1], end_on):
            kept.pop()
    return _flat(kept)


def _flat(groups: Iterable[list[BaseMessage]]) -> list[BaseMessage]:
    return [message for group in groups for message in group]


# -- parts of a message


def _splitter(given: Any) -> Callable[[str], list[str]]:
    if given is None:
        return lambda text: text.splitlines(keepends=True)
    split = getattr(given, "split_text", given)
    if not callable(split):
        raise InvalidInput(f"text_splitter must be callable or have split_text, got {given!r}.")
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
    return some if some and some[0].content and budget.fits(around(some)) else []


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
