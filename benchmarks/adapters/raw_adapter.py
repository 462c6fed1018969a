"""The floor: each task as a plain hand-written Python loop, with no framework at all.

Messages are dicts, the state of a run is a list, and storage appends one row per message. The
vector search uses numpy where it is installed.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import math
import os
import re
import sqlite3
import sys
import time
import typing
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

from adapters import base
from kit import NotCovered

PROMPT = "You are terse. Answer: {question}"
GROUNDED_PROMPT = "Use this: {context}. Answer: {question}"


def user(text):
    return {"role": "user", "content": text}


def assistant(text, calls=()):
    return {"role": "assistant", "content": text, "tool_calls": list(calls)}


class HelloModel:
    def __init__(self, delay=0.0):
        self.delay = delay

    def complete(self, messages):
        if self.delay:
            time.sleep(self.delay)
        return assistant("hello")

    async def acomplete(self, messages):
        if self.delay:
            await asyncio.sleep(self.delay)
        return assistant("hello")


class ChunkModel:
    def __init__(self, chunks):
        self.chunks = chunks

    def stream(self, messages):
        for _ in range(self.chunks):
            yield {"delta": "tok "}

    async def astream(self, messages):
        for _ in range(self.chunks):
            yield {"delta": "tok "}


class ScriptedModel:
    def __init__(self, steps, width, delay=0.0):
        self.steps, self.width, self.delay = steps, width, delay

    def complete(self, messages):
        finished = (len(messages) - 1) // (1 + self.width)
        if finished >= self.steps:
            return assistant("done")
        calls = [{"id": f"{finished}-{n}", "name": "add", "args": {"a": finished, "b": n}} for n in range(self.width)]
        return assistant("", calls)

    async def acomplete(self, messages):
        if self.delay:
            await asyncio.sleep(self.delay)
        return self.complete(messages)


class MessageLog:
    """An append-only table of messages."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS log (thread TEXT, place INTEGER, message TEXT, PRIMARY KEY (thread, place))"
        )

    def append(self, thread, place, messages):
        rows = [(thread, place + n, json.dumps(message)) for n, message in enumerate(messages)]
        self.connection.executemany("INSERT INTO log VALUES (?, ?, ?)", rows)
        self.connection.commit()

    def load(self, thread):
        rows = self.connection.execute("SELECT message FROM log WHERE thread = ? ORDER BY place", (thread,))
        return [json.loads(message) for (message,) in rows]


class MemoryLog(dict):
    def append(self, thread, place, messages):
        self.setdefault(thread, []).extend(messages)


def open_log(storage, folder):
    if storage == "sqlite":
        return MessageLog(os.path.join(folder, "raw.sqlite"))
    return MemoryLog() if storage == "memory" else None


def own_depth():
    frame, depth = sys._getframe(1), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


TYPE_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema_of(annotation):
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in TYPE_NAMES:
        return {"type": TYPE_NAMES[annotation]}
    if annotation is type(None):
        return {"type": "null"}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0])}
    return {"anyOf": [schema_of(argument) for argument in arguments]}


def describe(function):
    properties, required = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        properties[name] = schema_of(parameter.annotation)
        if parameter.default is parameter.empty:
            required.append(name)
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"name": function.__name__, "description": inspect.getdoc(function), "parameters": parameters}


def accepts(value, annotation):
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None:
        return isinstance(value, annotation)
    if origin is typing.Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(accepts(item, arguments[0]) for item in value)
    return any(accepts(value, argument) for argument in arguments)


class KeywordIndex:
    """BM25 over an inverted index."""

    def __init__(self, texts, k1=1.5, b=0.75):
        self.texts, self.postings = texts, defaultdict(list)
        lengths = []
        for number, text in enumerate(texts):
            words = text.split()
            lengths.append(len(words))
            for word, count in Counter(words).items():
                self.postings[word].append((number, count))
        mean = sum(lengths) / len(lengths)
        self.k1, self.penalty = k1, [k1 * (1 - b + b * length / mean) for length in lengths]

    def search(self, query, k=4):
        scores, total = defaultdict(float), len(self.texts)
        for word in query.split():
            found = self.postings.get(word, ())
            weight = math.log(1 + (total - len(found) + 0.5) / (len(found) + 0.5))
            for number, count in found:
                scores[number] += weight * count * (self.k1 + 1) / (count + self.penalty[number])
        return [self.texts[number] for number in sorted(scores, key=scores.__getitem__, reverse=True)[:k]]


def split_greedily(text, size, overlap):
    """Cut at the last paragraph, line, sentence or word end that fits."""
    pieces, start, end = [], 0, len(text)
    while start < end:
        stop = start + size
        if stop < end:
            for separator in ("\n\n", "\n", " "):
                cut = text.rfind(separator, start + overlap + 1, stop)
                if cut > 0:
                    stop = cut
                    break
        pieces.append(text[start:stop].strip())
        if stop >= end:
            break
        start = max(text.find(" ", stop - overlap, stop) + 1, start + 1) if overlap else stop
    return pieces


class Adapter(base.Adapter):
    packages = ()
    imports = {"runnables": "pass", "chain": "pass", "agent": "pass", "graph": "pass"}

    def versions(self):
        return {"python": sys.version.split()[0]}

    # chains

    def chain(self):
        model = HelloModel()
        return lambda question: model.complete([user(PROMPT.format(question=question))])["content"]

    def async_chain(self):
        model = HelloModel()

        async def answer(question):
            return (await model.acomplete([user(PROMPT.format(question=question))]))["content"]

        return answer

    def retrieval_chain(self):
        model = HelloModel()

        def retrieve(question):
            return "some context"

        def answer(question):
            filled = GROUNDED_PROMPT.format(context=retrieve(question), question=question)
            return model.complete([user(filled)])["content"]

        return answer

    def step_chain(self, steps):
        functions = [lambda value: value + 1 for _ in range(steps)]

        def run(value):
            for function in functions:
                value = function(value)
            return value

        return run

    def chain_depth(self):
        def run():
            here = own_depth()
            return (lambda value: own_depth())(1) - here

        return run

    # streaming

    def stream(self, chunks):
        model = ChunkModel(chunks)

        def run():
            for piece in model.stream([user(PROMPT.format(question="why"))]):
                yield piece["delta"]

        return run

    def async_stream(self, chunks):
        model = ChunkModel(chunks)

        async def run():
            async for piece in model.astream([user(PROMPT.format(question="why"))]):
                yield piece["delta"]

        return run

    def event_stream(self, chunks):
        model = ChunkModel(chunks)

        async def run():
            yield {"event": "start"}
            async for piece in model.astream([user(PROMPT.format(question="why"))]):
                yield {"event": "chunk", "text": piece["delta"]}
            yield {"event": "end"}

        return run

    agent_stream = async_stream

    # batches

    def batch(self, questions, concurrency, delay):
        model = HelloModel(delay)

        def answer(question):
            return model.complete([user(PROMPT.format(question=question))])["content"]

        def run():
            with ThreadPoolExecutor(concurrency) as pool:
                return list(pool.map(answer, questions))

        return run

    def async_batch(self, questions, concurrency, delay):
        model = HelloModel(delay)

        async def run():
            gate = asyncio.Semaphore(concurrency)

            async def answer(question):
                async with gate:
                    return (await model.acomplete([user(PROMPT.format(question=question))]))["content"]

            return await asyncio.gather(*map(answer, questions))

        return run

    # agents

    def agent(self, steps, *, width=1, storage=None, folder="", middlewares=0, tool_delay=0):
        model, log, threads = ScriptedModel(steps, width), open_log(storage, folder), itertools.count()
        hooks = [lambda messages: None for _ in range(middlewares)]
        pool = ThreadPoolExecutor(width) if tool_delay else None

        def add(a, b):
            if tool_delay:
                time.sleep(tool_delay)
            return a + b

        tools = {"add": add}

        def use(call):
            return {"role": "tool", "id": call["id"], "content": str(tools[call["name"]](**call["args"]))}

        def run():
            thread, messages, stored = f"t{next(threads)}", [user("go")], 0
            while True:
                for hook in hooks:
                    hook(messages)
                reply = model.complete(messages)
                messages.append(reply)
                calls = reply["tool_calls"]
                if calls:
                    messages.extend(pool.map(use, calls) if pool else map(use, calls))
                if log is not None:
                    log.append(thread, stored, messages[stored:])
                    stored = len(messages)
                if not calls:
                    return reply["content"]

        return run

    def async_agent(self, steps, *, width=1, storage=None, folder="", middlewares=0, tool_delay=0, model_delay=0):
        model, log, threads = ScriptedModel(steps, width, model_delay), open_log(storage, folder), itertools.count()

        async def add(a, b):
            if tool_delay:
                await asyncio.sleep(tool_delay)
            return a + b

        tools = {"add": add}

        async def use(call):
            return {"role": "tool", "id": call["id"], "content": str(await tools[call["name"]](**call["args"]))}

        async def run():
            thread, messages, stored = f"t{next(threads)}", [user("go")], 0
            while True:
                reply = await model.acomplete(messages)
                messages.append(reply)
                calls = reply["tool_calls"]
                if calls:
                    messages.extend(await asyncio.gather(*map(use, calls)))
                if log is not None:
                    log.append(thread, stored, messages[stored:])
                    stored = len(messages)
                if not calls:
                    return reply["content"]

        return run

    def tool_depth(self):
        def run():
            here = own_depth()

            def use():
                return own_depth()

            return use() - here

        return run

    # conversations

    def conversation(self, path, history):
        log, model = MessageLog(path), HelloModel()
        log.append("t", 0, [assistant(text) if n % 2 else user(text) for n, text in enumerate(history)])

        def turn(text):
            messages = log.load("t")
            fresh = [user(text)]
            fresh.append(model.complete(messages + fresh))
            log.append("t", len(messages), fresh)
            return fresh[-1]["content"]

        return turn

    # graphs

    def loop_graph(self, steps):
        def bump(state):
            return {"count": state["count"] + 1}

        nodes = {"a": (bump, "b"), "b": (bump, "c"), "c": (bump, "a")}

        def run():
            state, at = {"count": 0}, "a"
            while state["count"] < steps:
                node, at = nodes[at]
                state.update(node(state))
            return state["count"]

        return run

    def fan_out_graph(self, width):
        def node(number):
            return {"total": 1}

        return lambda: sum(node(number)["total"] for number in range(width))

    def build_agent(self, tools, middlewares):
        from sample_data import tool_functions

        functions = tool_functions(tools)
        return lambda: {function.__name__: function for function in functions}

    def saved_states(self, steps, storage, folder):
        log = open_log(storage, folder)
        for number in range(steps):
            log.append("t", number, [{"count": number}])
        if storage == "memory":
            return lambda: log["t"][-1], lambda: len(list(reversed(log["t"])))
        newest = "SELECT message FROM log WHERE thread = 't' ORDER BY place DESC LIMIT 1"
        return lambda: json.loads(log.connection.execute(newest).fetchone()[0]), lambda: len(log.load("t"))

    # tools

    def make_tools(self, functions):
        return lambda: [describe(function) for function in functions]

    def call_tool(self, function, arguments):
        annotations = {name: p.annotation for name, p in inspect.signature(function).parameters.items()}

        def run():
            for name, value in arguments.items():
                if not accepts(value, annotations[name]):
                    raise TypeError(name)
            return function(**arguments)

        return run

    def describe_tools(self, functions):
        made = [describe(function) for function in functions]
        return lambda: [{"type": "function", "function": description} for description in made]

    # text

    def split_text(self, text, size, overlap):
        return lambda: split_greedily(text, size, overlap)

    def split_markdown(self, text):
        heading = re.compile(r"^(#{1,3}) (.+)$")

        def run():
            sections, body, path, fenced = [], [], {}, False
            for line in text.split("\n"):
                if line.startswith("```"):
                    fenced = not fenced
                match = None if fenced else heading.match(line)
                if match is None:
                    body.append(line)
                    continue
                if body:
                    sections.append((dict(path), "\n".join(body)))
                    body = []
                level = len(match[1])
                path = {key: value for key, value in path.items() if key < level} | {level: match[2]}
            sections.append((dict(path), "\n".join(body)))
            return len(sections)

        return run

    # retrieval

    def vector_search(self, vectors, query, k):
        try:
            import numpy as np
        except ImportError as missing:
            raise NotCovered("needs numpy") from missing
        matrix = np.asarray(vectors, dtype=np.float32)
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        wanted = np.asarray(query, dtype=np.float32)
        wanted /= np.linalg.norm(wanted)

        def best(scores, count):
            some = np.argpartition(-scores, count)[:count]
            return some[np.argsort(-scores[some])].tolist()

        def search():
            return best(matrix @ wanted, k)

        def diverse():
            scores = matrix @ wanted
            pool = best(scores, 20)
            chosen = [pool.pop(0)]
            while len(chosen) < k:
                near = (matrix[pool] @ matrix[chosen].T).max(axis=1)
                chosen.append(pool.pop(int((0.5 * scores[pool] - 0.5 * near).argmax())))
            return chosen

        return search, diverse

    def keyword_index(self, texts):
        index = KeywordIndex(texts)
        return lambda: KeywordIndex(texts), index.search

    def fuse(self, first, second):
        def run():
            scores = defaultdict(float)
            for ranking in (first, second):
                for rank, text in enumerate(ranking, 1):
                    scores[text] += 0.5 / (60 + rank)
            return sorted(scores, key=scores.__getitem__, reverse=True)

        return run

    # messages

    def replay_stream(self, lines):
        def start():
            for line in lines:
                if line.startswith(b"data: {"):
                    choices = json.loads(line[6:])["choices"]
                    if choices:
                        yield choices[0]["delta"].get("content") or ""

        return start

    def write_history(self, turns):
        def write():
            messages = []
            for n, (question, args, result, answer, picture) in enumerate(turns):
                content = question
                if picture:
                    shown = {"type": "image_url", "image_url": {"url": "https://x.example/y.png"}}
                    content = [{"type": "text", "text": question}, shown]
                function = {"name": "add", "arguments": json.dumps(args)}
                messages += [
                    {"role": "user", "content": content},
                    assistant("Let me see.", [{"id": f"c{n}", "type": "function", "function": function}]),
                    {"role": "tool", "tool_call_id": f"c{n}", "content": result},
                    {"role": "assistant", "content": answer},
                ]
            return {"model": "m", "messages": messages}

        return write

    def append_message(self, history):
        messages = [user(text) for text in history]
        return lambda: len([*messages, user("one more")])

    def trim_messages(self, history, tokens):
        messages = [assistant(text) if n % 2 else user(text) for n, text in enumerate(history)]

        def run():
            left, first = tokens, len(messages)
            for place in range(len(messages) - 1, -1, -1):
                left -= len(messages[place]["content"]) // 4 + 3
                if left < 0:
                    break
                if messages[place]["role"] == "user":
                    first = place
            return messages[first:]

        return run

    def merge_chunks(self, chunks, *, one_by_one):
        pieces = [{"delta": "tok "} for _ in range(chunks)]
        return lambda: "".join(piece["delta"] for piece in pieces)

    def merge_tool_call(self, chunks):
        pieces = ['{"items": ["x"'] + [', "x"'] * (chunks - 2) + ["]}"]
        return lambda: len(json.loads("".join(pieces))["items"])
