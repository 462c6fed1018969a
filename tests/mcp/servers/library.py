"""A well-behaved server of the SDK with all that servers may have: over stdio, or over HTTP with --http PORT."""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
import warnings
from pathlib import Path

from mcp.server.mcpserver import Audio, Context, Image, MCPServer
from mcp.server.mcpserver.prompts.base import AssistantMessage, Message, Prompt, UserMessage
from mcp.server.mcpserver.resources import TextResource
from mcp.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    InputRequiredResult,
    ListRootsRequest,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

warnings.simplefilter("ignore")
server = MCPServer("library", log_level="ERROR", instructions="Read before you write.")
notes = Path(os.environ.get("NOTES", os.devnull))
PIXEL = b"\x89PNG\r\n"


def note(what: str) -> None:
    with notes.open("a") as file:
        file.write(what + "\n")


def old(ctx: Context) -> bool:
    return str(ctx.protocol_version) < "2026"


class Weather(BaseModel):
    city: str
    degrees: int


@server.tool()
def weather(city: str) -> Weather:
    """Tell the weather."""
    return Weather(city=city, degrees=21)


@server.tool(structured_output=False)
def show() -> list[object]:
    """Show something of each kind."""
    contents = TextResourceContents(uri="note://1", text="n", mime_type="text/plain")
    return [
        "see",
        Image(data=PIXEL, format="png"),
        Audio(data=b"RIFF", format="wav"),
        ResourceLink(type="resource_link", uri="https://example.org/a.pdf", name="a", mime_type="application/pdf"),
        EmbeddedResource(type="resource", resource=contents),
    ]


@server.tool()
async def count(ctx: Context) -> str:
    """Count aloud."""
    for number in (1, 2, 3):
        await ctx.report_progress(number, 3, f"at {number}")
    return "counted"


@server.tool()
async def complain(ctx: Context) -> str:
    """Log something."""
    await ctx.session.send_log_message("warning", "it is hot", "stove", related_request_id=ctx.request_id)
    return "told"


@server.tool()
async def wait() -> str:
    """Wait until it is given up."""
    note("begun")
    try:
        await asyncio.Event().wait()
    finally:
        note("given up")
    return ""


@server.tool()
async def grow(ctx: Context) -> str:
    """Have one tool, one prompt and one resource more."""
    name = uuid.uuid4().hex[:8]
    server.add_tool(lambda: name, name=f"tool_{name}", description="A new one.")
    server.add_prompt(Prompt.from_function(lambda: name, name=f"prompt_{name}"))
    server.add_resource(TextResource(uri=f"note://{name}", name=name, text=name))
    if old(ctx):
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_list_changed()
    else:
        await ctx.notify_tools_changed()
        await ctx.notify_prompts_changed()
        await ctx.notify_resources_changed()
    return name


def said(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)])


@server.tool()
async def think(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Have the client's model think."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="2 + 2?"))
    if old(ctx):
        made = await ctx.session.create_message(
            [message], max_tokens=10, system_prompt="Be short.", related_request_id=ctx.request_id
        )
    elif ctx.input_responses is None:
        params = CreateMessageRequestParams(messages=[message], max_tokens=10, system_prompt="Be short.")
        return InputRequiredResult(input_requests={"q": CreateMessageRequest(params=params)}, request_state="s")
    else:
        made = ctx.input_responses["q"]
    return said(f"{made.role} {made.model}: {made.content.text}")


@server.tool()
async def look(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Look where it may work."""
    if old(ctx):
        made = await ctx.session.list_roots()
    elif ctx.input_responses is None:
        return InputRequiredResult(input_requests={"q": ListRootsRequest()}, request_state="s")
    else:
        made = ctx.input_responses["q"]
    return said(" ".join(str(each.uri) for each in made.roots))


class Name(BaseModel):
    name: str


@server.tool()
async def ask(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Ask for a name."""
    if old(ctx):
        answer = await ctx.elicit("What name?", Name)
        return said(f"{answer.action} {getattr(getattr(answer, 'data', None), 'name', '')}")
    if ctx.input_responses is None:
        params = ElicitRequestFormParams(message="What name?", requested_schema=Name.model_json_schema())
        return InputRequiredResult(input_requests={"q": ElicitRequest(params=params)}, request_state="s")
    made = ctx.input_responses["q"]
    return said(f"{made.action} {(made.content or {}).get('name', '')}")


@server.resource("note://rain", description="On rain.", mime_type="text/plain")
def rain() -> str:
    return "It falls."


@server.resource("image://pixel", mime_type="image/png")
def pixel() -> bytes:
    return PIXEL


@server.resource("note://{town}/weather", description="A town's weather.")
def town_weather(town: str) -> str:
    return f"Fine in {town}."


@server.prompt(description="Ask about a topic.")
def about(topic: str, depth: str = "1") -> list[Message]:
    return [UserMessage(f"What of {topic}?"), AssistantMessage(f"Depth {depth}.")]


if __name__ == "__main__":
    if "--http" in sys.argv:
        server.run("streamable-http", port=int(sys.argv[sys.argv.index("--http") + 1]))
    else:
        server.run()
