"""What a new input of an agent's thread does before the first node runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runwell.agents.history import abandoned_answers
from runwell.agents.setup import Setup
from runwell.errors import InvalidInput, NoCheckpointer
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import ToolMessage
from runwell.ports.command import Overwrite

__all__ = ["on_input_of", "unsaved"]


def on_input_of(setup: Setup, kept: Sequence[str], anew: Sequence[str]) -> Callable[[Any, list[Any]], list[Any]]:
    """What a new input does first: calls of an unfinished run are answered, what the last run left is cleared."""

    def on_input(run: Any, writes: list[Any]) -> list[Any]:
        if kept and run.saver is None:
            raise unsaved(setup.name, kept)
        values = run.values
        history = values.get("messages") or []
        given = dict(writes)
        new = convert_to_messages(_as_list(given["messages"])) if given.get("messages") else []
        if not new and not history:
            raise InvalidInput(
                f"Agent {setup.name!r} got no messages, and its thread has none.",
                hint='Pass {"messages": [{"role": "user", "content": "..."}]}.',
            )
        finished: list[Any] = []
        if history:
            finished = _close(run, history, new)
        if new:
            given["messages"] = new
        if "ledger" in values:
            given["ledger"] = {}
        if "spent" in values:
            given["spent"] = Overwrite({})
        for name in ("structured_response", "stopped", *anew):
            if values.get(name) is not None:
                given[name] = None
        return [*finished, *given.items()]

    return on_input


def _close(run: Any, history: Sequence[Any], new: list[Any]) -> list[Any]:
    """Put answers to calls of an unfinished run before the `new` messages, unless these answer them. Gives what calls
    that finished changed beside their answers, which is kept with these."""
    answered = {message.tool_call_id for message in new if isinstance(message, ToolMessage)}
    finished = [write for record in run.records.values() if record.done for write in record.writes]
    kept_answers = {
        message.tool_call_id: message
        for channel, value in finished
        if channel == "messages"
        for message in _as_list(value)
        if isinstance(message, ToolMessage)
    }
    new[:0] = [each for each in abandoned_answers(history, kept_answers) if each.tool_call_id not in answered]
    if not kept_answers:
        return []
    known = run.graph.channels.keys() - {"messages", "ledger", "spent"}
    return [(name, value) for name, value in finished if name in known]


def _as_list(messages: Any) -> list[Any]:
    return messages if isinstance(messages, list) else [messages]


def unsaved(name: str, kept: Sequence[str]) -> NoCheckpointer:
    return NoCheckpointer(
        f"{name!r} needs a saved thread ({'; '.join(kept)}), and nothing saves it.",
        hint="Give it a checkpointer (InMemorySaver, SqliteSaver) and a thread_id, or leave that setting out.",
    )
