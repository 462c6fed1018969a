"""runwell, used the way its documentation shows. `bench.py` finds it through BENCH_ADAPTERS (see `make bench`)."""

from __future__ import annotations

import asyncio
import itertools
import operator
import os
import time
from typing import Annotated, TypedDict

from adapters import base
from adapters.raw_adapter import own_depth
from runwell import ChatPromptTemplate, RunnableLambda, RunnablePassthrough, StrOutputParser
from runwell.messages import AIMessage, AIMessageChunk, HumanMessage
from runwell.models import BaseChatModel
from runwell.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


def result(message):
    return ChatResult(generations=[ChatGeneration(message=message)])


class HelloModel(BaseChatModel):
    delay: float = 0.0
    text: str = "hello"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        if self.delay:
            time.sleep(self.delay)
        return result(AIMessage(self.text))

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        if self.delay:
            await asyncio.sleep(self.delay)
        return result(AIMessage(self.text))


class ChunkModel(HelloModel):
    chunks: int = 0

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for _ in range(self.chunks):
            yield ChatGenerationChunk(message=AIMessageChunk(content="tok "))

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        for _ in range(self.chunks):
            yield ChatGenerationChunk(message=AIMessageChunk(content="tok "))


class ScriptedModel(BaseChatModel):
    steps: int = 0
    width: int = 1
    delay: float = 0.0

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        finished = (len(messages) - 1) // (1 + self.width)
        if finished >= self.steps:
            return result(AIMessage("done"))
        calls = [
            {"id": f"{finished}-{n}", "name": "add", "args": {"a": finished, "b": n}, "type": "tool_call"}
            for n in range(self.width)
        ]
        return result(AIMessage("", tool_calls=calls))

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        if self.delay:
            await asyncio.sleep(self.delay)
        return self._generate(messages)


def saver(storage, folder):
    from runwell.persistence import InMemorySaver, SqliteSaver

    if storage == "memory":
        return InMemorySaver()
    return SqliteSaver(os.path.join(folder, "runwell.sqlite")) if storage == "sqlite" else None


def middleware_list(count):
    """Middlewares that do nothing: before the model, after it and around it, in turn."""
    from runwell.agents.middleware import AgentMiddleware

    hooks = [
        {"before_model": lambda self, state, runtime: None},
        {"after_model": lambda self, state, runtime: None},
        {"wrap_model_call": lambda self, request, handler: handler(request)},
    ]
    return [type(f"Middleware{n}", (AgentMiddleware,), hooks[n % 3])() for n in range(count)]


def conversation_messages(history):
    return [AIMessage(text) if n % 2 else HumanMessage(text) for n, text in enumerate(history)]


def add_up(pieces):
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    return total


class Count(TypedDict):
    count: int


class Total(TypedDict):
    total: Annotated[int, operator.add]


def loop(steps, checkpointer=None):
    from runwell.graph import END, START, StateGraph

    def bump(state):
        return {"count": state["count"] + 1}

    graph = StateGraph(Count)
    for name in "abc":
        graph.add_node(name, bump)
    graph.add_edge(START, "a")
    for name, following in ("ab", "bc", "ca"):
        graph.add_conditional_edges(
            name, lambda state, go=following: END if state["count"] >= steps else go, [following, END]
        )
    return graph.compile(checkpointer=checkpointer)


class Adapter(base.Adapter):
    packages = ("runwell", "pydantic", "anyio", "ormsgpack", "jsonschema-rs", "numpy", "bm25s")
    imports = {
        "runnables": "import runwell.runnables",
        "chain": "from runwell.models import BaseChatModel; from runwell import ChatPromptTemplate, StrOutputParser",
        "agent": "from runwell import create_agent",
        "graph": "from runwell import StateGraph",
    }

    # chains

    def _chain(self, model):
        return ChatPromptTemplate.from_template("You are terse. Answer: {question}") | model | StrOutputParser()

    def chain(self):
        chain = self._chain(HelloModel())
        return lambda question: chain.invoke({"question": question})

    def async_chain(self):
        chain = self._chain(HelloModel())
        return lambda question: chain.ainvoke({"question": question})

    def retrieval_chain(self):
        prompt = ChatPromptTemplate.from_template("Use this: {context}. Answer: {question}")
        sources = {"context": RunnableLambda(lambda question: "some context"), "question": RunnablePassthrough()}
        return (sources | prompt | HelloModel() | StrOutputParser()).invoke

    def step_chain(self, steps):
        chain = RunnableLambda(lambda value: value + 1)
        for _ in range(steps - 1):
            chain = chain | (lambda value: value + 1)
        return chain.invoke

    def chain_depth(self):
        chain = RunnableLambda(lambda value: value) | RunnableLambda(lambda value: own_depth())
        return lambda: chain.invoke(1) - own_depth()

    # streaming

    def stream(self, chunks):
        chain = self._chain(ChunkModel(chunks=chunks))
        return lambda: chain.stream({"question": "why"})

    def async_stream(self, chunks):
        chain = self._chain(ChunkModel(chunks=chunks))
        return lambda: chain.astream({"question": "why"})

    def event_stream(self, chunks):
        chain = self._chain(ChunkModel(chunks=chunks))
        return lambda: chain.astream_events({"question": "why"}, version="v2")

    def agent_stream(self, chunks):
        from runwell import create_agent

        agent = create_agent(ChunkModel(chunks=chunks), tools=[])
        return lambda: agent.astream({"messages": [HumanMessage("why")]}, stream_mode="messages")

    # batches

    def batch(self, questions, concurrency, delay):
        chain, inputs = self._chain(HelloModel(delay=delay)), [{"question": question} for question in questions]
        return lambda: chain.batch(inputs, {"max_concurrency": concurrency})

    def async_batch(self, questions, concurrency, delay):
        chain, inputs = self._chain(HelloModel(delay=delay)), [{"question": question} for question in questions]
        return lambda: chain.abatch(inputs, {"max_concurrency": concurrency})

    # agents

    def agent(self, steps, *, width=1, storage=None, folder="", middlewares=0, tool_delay=0):
        from runwell import create_agent
        from runwell.agents import Budget

        def add(a: int, b: int) -> int:
            """Add two numbers."""
            if tool_delay:
                time.sleep(tool_delay)
            return a + b

        agent = create_agent(
            ScriptedModel(steps=steps, width=width),
            tools=[add],
            middleware=middleware_list(middlewares),
            checkpointer=saver(storage, folder),
            budget=Budget(model_calls=steps + 1),
        )
        threads = itertools.count()

        def run():
            config = {"recursion_limit": 100 + 10 * steps, "configurable": {"thread_id": f"t{next(threads)}"}}
            return agent.invoke({"messages": [HumanMessage("go")]}, config)["messages"][-1].content

        return run

    def watched_agent(self, steps, by, folder):
        from runwell.observe import DecisionLog, JsonlTrace, observing

        watchers = [DecisionLog()] if by != "trace" else []
        if by != "decisions":
            watchers.append(JsonlTrace(f"{folder}/trace.jsonl", redact=None))
        run = self.agent(steps)

        def watched():
            with observing(*watchers):
                return run()

        return watched

    def async_agent(self, steps, *, width=1, storage=None, folder="", middlewares=0, tool_delay=0, model_delay=0):
        from runwell import create_agent
        from runwell.agents import Budget

        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            if tool_delay:
                await asyncio.sleep(tool_delay)
            return a + b

        agent = create_agent(
            ScriptedModel(steps=steps, width=width, delay=model_delay),
            tools=[add],
            middleware=middleware_list(middlewares),
            checkpointer=saver(storage, folder),
            budget=Budget(model_calls=steps + 1),
        )
        threads = itertools.count()

        async def run():
            config = {"recursion_limit": 100 + 10 * steps, "configurable": {"thread_id": f"t{next(threads)}"}}
            return (await agent.ainvoke({"messages": [HumanMessage("go")]}, config))["messages"][-1].content

        return run

    def tool_depth(self):
        from runwell import create_agent

        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return own_depth()

        agent = create_agent(ScriptedModel(steps=1), tools=[add])

        def run():
            here = own_depth()  # the tool runs in the caller's thread
            return int(agent.invoke({"messages": [HumanMessage("go")]})["messages"][-2].content) - here

        return run

    # conversations

    def conversation(self, path, history):
        from runwell import SqliteSaver, create_agent

        agent = create_agent(HelloModel(), tools=[], checkpointer=SqliteSaver(path))
        config = {"configurable": {"thread_id": "t"}}
        if history:
            agent.update_state(config, {"messages": conversation_messages(history)})
        return lambda text: agent.invoke({"messages": [HumanMessage(text)]}, config)["messages"][-1].content

    # graphs

    def loop_graph(self, steps):
        graph = loop(steps)
        return lambda: graph.invoke({"count": 0}, {"recursion_limit": steps + 10})["count"]

    def fan_out_graph(self, width):
        from runwell.graph import START, Send, StateGraph

        graph = StateGraph(Total)
        graph.add_node("one", lambda number: {"total": 1})
        graph.add_conditional_edges(START, lambda state: [Send("one", number) for number in range(width)], ["one"])
        compiled = graph.compile()
        return lambda: compiled.invoke({"total": 0})["total"]

    def build_agent(self, tools, middlewares):
        from runwell import create_agent, tool
        from sample_data import tool_functions

        made, model = [tool(function) for function in tool_functions(tools)], ScriptedModel(steps=1)
        around = middleware_list(middlewares)
        return lambda: create_agent(model, tools=made, middleware=around)

    def saved_states(self, steps, storage, folder):
        graph = loop(steps, saver(storage, folder))
        config = {"recursion_limit": steps + 10, "configurable": {"thread_id": "t"}}
        graph.invoke({"count": 0}, config)
        return (
            lambda: graph.get_state(config).values,
            lambda: sum(1 for _ in graph.get_state_history(config)),
        )

    # tools

    def make_tools(self, functions):
        from runwell import tool

        return lambda: [tool(function) for function in functions]

    def call_tool(self, function, arguments):
        from runwell import tool

        made = tool(function)
        return lambda: made.invoke(arguments)

    def describe_tools(self, functions):
        from runwell import tool
        from runwell.tools import convert_to_openai_tool

        made = [tool(function) for function in functions]
        return lambda: [convert_to_openai_tool(each) for each in made]

    # messages

    def append_message(self, history):
        from runwell.messages import add_messages

        messages = add_messages([], conversation_messages(history))
        return lambda: len(add_messages(messages, [HumanMessage("one more")]))

    def trim_messages(self, history, tokens):
        from runwell.messages import count_tokens_approximately, trim_messages

        messages = conversation_messages(history)
        return lambda: trim_messages(
            messages, max_tokens=tokens, strategy="last", start_on="human", token_counter=count_tokens_approximately
        )

    def merge_chunks(self, chunks, *, one_by_one):
        pieces = [AIMessageChunk(content="tok ", id="run-1") for _ in range(chunks)]
        if one_by_one:
            return lambda: add_up(pieces).content
        return lambda: (pieces[0] + pieces[1:]).content

    def replay_stream(self, lines):
        from runwell.providers.openai import ChatOpenAI

        model = ChatOpenAI(model="gpt-5.5", api_key="k", http_client=base.replaying(lines), use_responses_api=False)
        return lambda: (chunk.text for chunk in model.stream("Hi"))

    def write_history(self, turns):
        from runwell.messages import ToolMessage
        from runwell.providers.openai import ChatOpenAI

        model = ChatOpenAI(model="gpt-5.5", api_key="k")
        messages = []
        for n, (question, args, result, answer, picture) in enumerate(turns):
            call = {"name": "add", "args": args, "id": f"c{n}"}
            shown = {"type": "image", "url": "https://x.example/y.png"}
            said = [{"type": "text", "text": question}, shown] if picture else question
            messages += [
                HumanMessage(said),
                AIMessage("Let me see.", tool_calls=[call]),
                ToolMessage(result, tool_call_id=f"c{n}"),
                AIMessage(answer),
            ]
        return lambda: model._request(messages, None, {}, False)[0]

    def merge_tool_call(self, chunks):
        texts = ['{"items": ["x"'] + [', "x"'] * (chunks - 2) + ["]}"]
        pieces = [
            AIMessageChunk(
                content="",
                tool_call_chunks=[
                    {
                        "name": None if n else "add",
                        "args": text,
                        "id": None if n else "1",
                        "index": 0,
                        "type": "tool_call_chunk",
                    }
                ],
            )
            for n, text in enumerate(texts)
        ]
        return lambda: len(add_up(pieces).tool_calls[0]["args"]["items"])
