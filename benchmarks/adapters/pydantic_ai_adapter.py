"""Pydantic AI and pydantic-graph, for the tasks they have a counterpart for.

A chain is a direct model request around hand-written prompt filling; batches are gathered by
hand; a stored conversation is rows of message JSON that the caller keeps, as the documentation
shows. Where a task has no counterpart the cell stays empty.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from dataclasses import dataclass

from pydantic_ai import Agent, Tool
from pydantic_ai.direct import model_request, model_request_stream, model_request_stream_sync, model_request_sync
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import UsageLimits

from adapters import base
from adapters.raw_adapter import own_depth

PROMPT = "You are terse. Answer: {question}"
UNLIMITED = UsageLimits(request_limit=None)


def hello_model(delay=0.0):
    async def answer(messages, info):
        if delay:
            await asyncio.sleep(delay)
        return ModelResponse(parts=[TextPart("hello")])

    return FunctionModel(answer)


def chunk_model(chunks):
    async def answer(messages, info):
        for _ in range(chunks):
            yield "tok "

    return FunctionModel(stream_function=answer)


def scripted_model(steps, width=1, delay=0.0):
    async def answer(messages, info):
        if delay:
            await asyncio.sleep(delay)
        finished = (len(messages) - 1) // 2
        if finished >= steps:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(
            parts=[ToolCallPart("add", {"a": finished, "b": n}, tool_call_id=f"{finished}-{n}") for n in range(width)]
        )

    return FunctionModel(answer)


def request(question):
    return [ModelRequest.user_text_prompt(PROMPT.format(question=question))]


def text_of(response):
    return response.parts[0].content


def sync_add(delay):
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        if delay:
            time.sleep(delay)
        return a + b

    return add


def async_add(delay):
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        if delay:
            await asyncio.sleep(delay)
        return a + b

    return add


class Adapter(base.Adapter):
    packages = ("pydantic-ai-slim", "pydantic-graph", "pydantic")
    imports = {
        "chain": "import pydantic_ai.direct",
        "agent": "from pydantic_ai import Agent",
        "graph": "from pydantic_graph import GraphBuilder",
    }

    # chains

    def chain(self):
        model = hello_model()
        return lambda question: text_of(model_request_sync(model, request(question)))

    def async_chain(self):
        model = hello_model()

        async def answer(question):
            return text_of(await model_request(model, request(question)))

        return answer

    # streaming

    def stream(self, chunks):
        model = chunk_model(chunks)

        def run():
            with model_request_stream_sync(model, request("why")) as events:
                for event in events:
                    if event.event_kind == "part_delta":
                        yield event.delta.content_delta
                    elif event.event_kind == "part_start":
                        yield event.part.content

        return run

    def async_stream(self, chunks):
        model = chunk_model(chunks)

        async def run():
            async with model_request_stream(model, request("why")) as events:
                async for event in events:
                    if event.event_kind == "part_delta":
                        yield event.delta.content_delta
                    elif event.event_kind == "part_start":
                        yield event.part.content

        return run

    def event_stream(self, chunks):
        agent = Agent(chunk_model(chunks))

        async def run():
            async with agent.run_stream_events("why") as events:
                async for event in events:
                    yield event

        return run

    def agent_stream(self, chunks):
        agent = Agent(chunk_model(chunks))

        async def run():
            async with agent.run_stream("why") as answer:
                async for text in answer.stream_text(delta=True, debounce_by=None):
                    yield text

        return run

    # batches

    def async_batch(self, questions, concurrency, delay):
        model = hello_model(delay)

        async def run():
            gate = asyncio.Semaphore(concurrency)

            async def answer(question):
                async with gate:
                    return text_of(await model_request(model, request(question)))

            return await asyncio.gather(*map(answer, questions))

        return run

    # agents

    def agent(self, steps, *, width=1, storage=None, folder="", middlewares=0, tool_delay=0):
        if storage or middlewares:
            return super().agent(steps)
        agent = Agent(scripted_model(steps, width), tools=[sync_add(tool_delay)])
        return lambda: agent.run_sync("go", usage_limits=UNLIMITED).output

    def async_agent(self, steps, *, width=1, storage=None, folder="", middlewares=0, tool_delay=0, model_delay=0):
        if storage or middlewares:
            return super().async_agent(steps)
        agent = Agent(scripted_model(steps, width, model_delay), tools=[async_add(tool_delay)])

        async def run():
            return (await agent.run("go", usage_limits=UNLIMITED)).output

        return run

    def tool_depth(self):
        seen = []

        def add(a: int, b: int) -> int:
            """Add two numbers."""
            seen.append(own_depth())
            return a + b

        agent = Agent(scripted_model(1), tools=[add])

        def run():
            agent.run_sync("go")
            return seen[-1]

        return run

    # conversations

    def conversation(self, path, history):
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS log (place INTEGER PRIMARY KEY, messages BLOB)")

        def store(messages):
            connection.execute("INSERT INTO log (messages) VALUES (?)", (ModelMessagesTypeAdapter.dump_json(messages),))
            connection.commit()

        for place in range(0, len(history), 2):
            asked, answered = history[place : place + 2]
            store([ModelRequest.user_text_prompt(asked), ModelResponse(parts=[TextPart(answered)])])
        agent = Agent(hello_model())

        def turn(text):
            rows = connection.execute("SELECT messages FROM log ORDER BY place")
            messages = [message for (row,) in rows for message in ModelMessagesTypeAdapter.validate_json(row)]
            result = agent.run_sync(text, message_history=messages)
            store(result.new_messages())
            return result.output

        return turn

    # graphs

    def loop_graph(self, steps):
        from pydantic_graph import GraphBuilder, StepContext

        @dataclass
        class Count:
            count: int = 0

        builder = GraphBuilder(state_type=Count, output_type=int)

        def bump(name):
            async def node(ctx: StepContext[Count, None, object]) -> int:
                ctx.state.count += 1
                return ctx.state.count

            return builder.step(node_id=name)(node)

        a, b, c = bump("a"), bump("b"), bump("c")
        builder.add(builder.edge_from(builder.start_node).to(a))
        for node, following in ((a, b), (b, c), (c, a)):
            builder.add(
                builder.edge_from(node).to(
                    builder.decision()
                    .branch(builder.match(int, matches=lambda count: count >= steps).to(builder.end_node))
                    .branch(builder.match(int).to(following))
                )
            )
        graph = builder.build()
        return lambda: asyncio.run(graph.run(state=Count()))

    def fan_out_graph(self, width):
        from pydantic_graph import GraphBuilder, StepContext, reduce_sum

        builder = GraphBuilder(output_type=int)

        @builder.step
        async def numbers(ctx: StepContext[None, None, None]) -> list[int]:
            return list(range(width))

        @builder.step
        async def one(ctx: StepContext[None, None, int]) -> int:
            return 1

        total = builder.join(reduce_sum, initial=0)
        builder.add(
            builder.edge_from(builder.start_node).to(numbers),
            builder.edge_from(numbers).map().to(one),
            builder.edge_from(one).to(total),
            builder.edge_from(total).to(builder.end_node),
        )
        graph = builder.build()
        return lambda: asyncio.run(graph.run())

    def build_agent(self, tools, middlewares):
        from sample_data import tool_functions

        made, model = [Tool(function) for function in tool_functions(tools)], scripted_model(1)
        return lambda: Agent(model, tools=made)

    # tools

    def make_tools(self, functions):
        return lambda: [Tool(function) for function in functions]

    def call_tool(self, function, arguments):
        validate = Tool(function).function_schema.validator.validate_python
        return lambda: function(**validate(arguments))

    def describe_tools(self, functions):
        made = [Tool(function) for function in functions]

        def run():
            definitions = [each.tool_def for each in made]
            return [
                {
                    "type": "function",
                    "function": {
                        "name": each.name,
                        "description": each.description,
                        "parameters": each.parameters_json_schema,
                    },
                }
                for each in definitions
            ]

        return run
