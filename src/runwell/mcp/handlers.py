"""What the SDK's client calls when a server asks or tells something: the program's handlers in the SDK's forms."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runwell.drivers.aio import call_async
from runwell.drivers.colour import callee
from runwell.errors import InvalidConfig, InvalidInput, MCPToolError
from runwell.mcp.prompts import as_messages
from runwell.mcp.questions import Asker, question_of
from runwell.mcp.text import MCPLimits, bounded
from runwell.messages.message import AIMessage

__all__ = ["in_session", "legacy_elicitation", "logging_callback", "roots_callback", "sampling_callback"]

_log = logging.getLogger("runwell.mcp")

_LEVELS = {
    "debug": 10,
    "info": 20,
    "notice": 20,
    "warning": 30,
    "error": 40,
    "critical": 50,
    "alert": 50,
    "emergency": 50,
}


def legacy_elicitation(asker: Asker) -> Any:
    """Answers a server that asks in the middle of a call, and holds its session open meanwhile."""

    async def asked(context: Any, params: Any) -> Any:
        from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, ErrorData

        if asker.elicit is None:
            return ErrorData(
                code=INVALID_REQUEST,
                message="Nobody can be asked while the session waits: the program has no on_elicitation handler.",
            )
        try:
            return await asker.by_handler(question_of(asker.server, None, params, asker.limits))
        except MCPToolError as error:
            return ErrorData(code=INVALID_REQUEST, message=error.message)
        except Exception:  # the server is told nothing of the program's own errors
            _log.exception("the on_elicitation handler of MCP server %r failed", asker.server)
            return ErrorData(code=INTERNAL_ERROR, message="The program's handler failed.")

    return asked


def in_session(callback: Any, server: str) -> Any:
    """The same for a server that holds its session open meanwhile: it is told nothing of the program's own errors."""

    async def called(context: Any, params: Any = None) -> Any:
        from mcp_types import INTERNAL_ERROR, ErrorData

        try:
            return await callback(context, params)
        except Exception:
            _log.exception("a handler of what MCP server %r asks for failed", server)
            return ErrorData(code=INTERNAL_ERROR, message="The program's handler failed.")

    return None if callback is None else called


def sampling_callback(handler: Any) -> Any:
    """A chat model, or a function of (messages, request), as what answers a server's wish for a model."""
    if not callable(handler) and not hasattr(handler, "ainvoke"):
        raise InvalidConfig(f"on_sampling={handler!r:.100}.", hint="Give a chat model or a function.")

    async def sampled(context: Any, params: Any) -> Any:
        from mcp_types import (
            INVALID_REQUEST,
            CreateMessageResult,
            CreateMessageResultWithTools,
            ErrorData,
            TextContent,
        )

        from runwell.messages.message import SystemMessage

        said: list[Any] = [SystemMessage(params.system_prompt)] if params.system_prompt else []
        said += as_messages(
            [type(each)(role=each.role, content=part) for each in params.messages for part in each.content_as_list],
            MCPLimits(),
        )
        if hasattr(handler, "ainvoke"):
            made = await handler.ainvoke(said)
        else:
            made = await call_async(callee(handler), said, params)
        if made is None:
            return ErrorData(code=INVALID_REQUEST, message="The program gives no model's answer to this.")
        if isinstance(made, str):
            made = AIMessage(made)
        if isinstance(made, (CreateMessageResult, CreateMessageResultWithTools, ErrorData)):
            return made
        if not isinstance(made, AIMessage):
            raise InvalidInput(
                f"on_sampling answered {made!r:.200}, which is no model's answer.",
                hint="Give a text, an AIMessage or the SDK's CreateMessageResult; None refuses.",
            )
        model = made.response_metadata.get("model_name") or getattr(handler, "model", None) or "unknown"
        return CreateMessageResult(
            role="assistant",
            content=TextContent(type="text", text=made.text),
            model=str(model),
            stop_reason="endTurn",
        )

    return sampled


def roots_callback(roots: Sequence[str | Path]) -> Any:
    """Folders, as what a server is told of where it may work."""
    if isinstance(roots, (str, Path)):
        raise InvalidConfig(f"roots={roots!r} is one.", hint="Give a list.")
    uris = []
    for root in roots:
        uri = root if isinstance(root, str) and "://" in root else Path(root).resolve().as_uri()
        if not uri.startswith("file://"):
            raise InvalidConfig(f"The root {root!r} is no folder and no file URL.")
        uris.append(uri)

    async def told(context: Any, params: Any = None) -> Any:
        from mcp_types import ListRootsResult, Root

        return ListRootsResult(roots=[Root.model_validate({"uri": uri}) for uri in uris])

    return told


def logging_callback(server: str, limits: MCPLimits, heard: Any) -> Any:
    """A server's log lines, to the program's listener or else to the logger `runwell.mcp.server`."""
    log = logging.getLogger("runwell.mcp.server")

    async def logged(params: Any) -> None:
        from runwell.tools.result import to_text

        said = bounded(to_text(params.data), limits.message)
        if heard is None:
            log.log(_LEVELS.get(params.level, 20), "%s: %s", server, said)
            return
        item = {"server": server, "level": params.level, "logger": params.logger, "message": said}
        try:
            await call_async(callee(heard), item)
        except Exception:
            log.exception("the on_log listener of MCP server %r failed", server)

    return logged
