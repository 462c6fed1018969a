"""Stage B: what the model sees."""

from __future__ import annotations

from collections.abc import Iterator

from runwell.agents.structured_output import ProviderStrategy, ToolStrategy
from runwell.effects import Callee
from runwell.ports.seat import Held
from runwell.seats.facts import Facts, named

__all__ = ["sight"]

NODE = "runwell.agents.model_node:"


def sight(at: Facts) -> Iterator[Held]:
    """The seats B1 to B11."""
    setup, limits = at.setup, at.setup.limits
    request = f"{NODE}_request"
    if isinstance(setup.system, Callee):
        yield Held("B1", "What a function of the runtime gives at each call; never stored.", setup.system)
    elif setup.system is not None:
        yield Held("B1", f"{len(setup.system.text)} characters before the history; never stored.", request)
    else:
        yield Held("B1", "There are none.", request)
    yield Held(
        "B2", "Whole, unless a hook that D2 names changes it." if at.hooked("wrap_model_call") else "Whole.", request
    )
    yield Held("B3", "By message id.", "runwell.messages.history:add_messages")
    yield Held("B3", "A reply under an id that is taken gets a fresh one.", f"{NODE}_take_in", adds=True)
    yield Held(
        "B4",
        f"Told what was wrong in the same run; {limits.max_repairs} times in a row at most if all calls were "
        "malformed.",
        f"{NODE}_take_in",
    )
    yield Held("B5", f"Every tool: {len(setup.offered)}.", request)
    strategy = setup.response_format
    forced = isinstance(strategy, ToolStrategy) and strategy.tool_choice == "any"
    yield Held("B6", "Yes: the answer itself is a tool call." if forced else "No.", f"{NODE}_bound")
    if isinstance(strategy, ToolStrategy):
        yield Held("B7", f"As tools: {named(strategy.shapes)}.", type(strategy).tools)
    elif isinstance(strategy, ProviderStrategy):
        yield Held("B7", f"As the provider's response format: {strategy.shape.name}.", type(strategy).settings)
    else:
        yield Held("B7", "No structured answer is asked for.", f"{NODE}_bound", status="idle")
    cut = "whole" if limits.max_tool_chars is None else f"head and tail beyond {limits.max_tool_chars} characters"
    if limits.max_tool_media is not None or limits.max_tool_media_bytes is not None:
        bounds = ((limits.max_tool_media, ""), (limits.max_tool_media_bytes, " bytes"))
        cut += f"; media up to {' and '.join(f'{most}{unit}' for most, unit in bounds if most is not None)}"
    yield Held("B8", f"Text and typed blocks as they are, the rest as JSON; {cut}.", "runwell.tools.result:to_content")
    told = " The model reads the rest with read_artifact." if setup.reader is not None else ""
    yield Held(
        "B8", f"What is too long is cut, and the whole kept.{told}", "runwell.agents.cut_results:bounded", adds=True
    )
    known = at.profile.get("system_in_middle")
    if known is False:
        yield Held("B9", "Moved to the top, and that is recorded.", "runwell.models.system_place:system_first")
    else:
        yield Held("B9", "In place." if known else "In place, if the provider takes it there.", type(at.model))
    yield Held("B10", "No MCP server is connected.", "runwell.tools.toolbox:as_tool", status="idle")
    yield Held(
        "B11",
        f"Read from {len(at.local)} tools when they were made.",
        "runwell.tools.definition:define",
        status="held" if at.local else "idle",
    )
