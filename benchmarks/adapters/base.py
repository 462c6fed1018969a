"""What an adapter may provide. Override what the framework can do; the rest is reported as not covered.

Every method sets the task up and returns an operation the workload times, so set-up is never
measured. Operations return plain values, which the workloads check. Models are fakes with no
latency unless the method takes a delay in seconds. A "scripted" model asks for `width` tool
calls in each of `steps` turns and then answers "done".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from kit import NotCovered


def replaying(lines: list[bytes]) -> Any:
    """An HTTP client of OpenAI's SDK to which every request is answered with these lines."""
    import httpx2

    class Lines(httpx2.SyncByteStream):
        def __iter__(self):
            yield from lines

    def answer(request):
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Lines())

    return httpx2.Client(transport=httpx2.MockTransport(answer))


class Adapter:
    packages: Sequence[str] = ()
    """Distributions whose versions go into the report."""

    imports: dict[str, str] = {}
    """Statements a user starts with, by what they are for: "runnables" (only the composition parts),
    "chain", "agent" and "graph"."""

    def versions(self) -> dict[str, str]:
        found = {}
        for package in self.packages:
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                found[package] = "absent"
        return found

    # -- chains: fill in a prompt, call the model (it answers "hello"), take the text out

    def chain(self) -> Callable[[str], str]:
        raise NotCovered

    def async_chain(self) -> Callable[[str], Awaitable[str]]:
        raise NotCovered

    def retrieval_chain(self) -> Callable[[str], str]:
        """The question goes through a retriever and past it in parallel, then into `chain`."""
        raise NotCovered

    def step_chain(self, steps: int) -> Callable[[int], int]:
        """`steps` plain functions in a row, each adding one."""
        raise NotCovered

    def chain_depth(self) -> Callable[[], int]:
        """Frames between the caller and the last function of a two-function chain."""
        raise NotCovered

    # -- streaming: `chunks` pieces of text from the model through the same chain

    def stream(self, chunks: int) -> Callable[[], Iterator[str]]:
        raise NotCovered

    def async_stream(self, chunks: int) -> Callable[[], AsyncIterator[str]]:
        raise NotCovered

    def event_stream(self, chunks: int) -> Callable[[], AsyncIterator[Any]]:
        """The stream of everything that happens, at least one event per chunk."""
        raise NotCovered

    def agent_stream(self, chunks: int) -> Callable[[], AsyncIterator[Any]]:
        """The tokens of an agent's answer."""
        raise NotCovered

    # -- batches of the same chain

    def batch(self, questions: list[str], concurrency: int, delay: float) -> Callable[[], list[str]]:
        raise NotCovered

    def async_batch(self, questions: list[str], concurrency: int, delay: float) -> Callable[[], Awaitable[list[str]]]:
        raise NotCovered

    # -- agents: one run per call, each on a fresh thread; storage is None, "memory" or "sqlite"

    def agent(
        self,
        steps: int,
        *,
        width: int = 1,
        storage: str | None = None,
        folder: str = "",
        middlewares: int = 0,
        tool_delay: float = 0,
    ) -> Callable[[], str]:
        raise NotCovered

    def watched_agent(self, steps: int, by: str, folder: str) -> Callable[[], str]:
        """The plain agent, watched by a list of its "decisions" or a "trace" in a file of the folder."""
        raise NotCovered

    def async_agent(
        self,
        steps: int,
        *,
        width: int = 1,
        storage: str | None = None,
        folder: str = "",
        middlewares: int = 0,
        tool_delay: float = 0,
        model_delay: float = 0,
    ) -> Callable[[], Awaitable[str]]:
        raise NotCovered

    def tool_depth(self) -> Callable[[], int]:
        """Frames below a tool that an agent calls, in the thread the tool runs in."""
        raise NotCovered

    # -- conversations kept in an SQLite file

    def conversation(self, path: str, history: list[str]) -> Callable[[str], str]:
        """A thread stored in `path` that starts with `history` (user and assistant in turn); the
        operation loads it, adds one user message, gets an answer and stores what is new."""
        raise NotCovered

    # -- graphs

    def loop_graph(self, steps: int) -> Callable[[], int]:
        """Three nodes in a circle that count up to `steps`."""
        raise NotCovered

    def fan_out_graph(self, width: int) -> Callable[[], int]:
        """One node run `width` times side by side, their ones summed."""
        raise NotCovered

    def build_agent(self, tools: int, middlewares: int) -> Callable[[], Any]:
        raise NotCovered

    def saved_states(self, steps: int, storage: str, folder: str) -> tuple[Callable[[], Any], Callable[[], int]]:
        """After a `steps`-step run: read the newest state, and list all of them (giving their count)."""
        raise NotCovered

    # -- tools

    def make_tools(self, functions: list[Callable]) -> Callable[[], Any]:
        raise NotCovered

    def call_tool(self, function: Callable, arguments: dict[str, Any]) -> Callable[[], str]:
        raise NotCovered

    def describe_tools(self, functions: list[Callable]) -> Callable[[], list[dict]]:
        """The JSON a provider is sent for ready-made tools."""
        raise NotCovered

    # -- text

    def split_text(self, text: str, size: int, overlap: int) -> Callable[[], list[str]]:
        raise NotCovered

    def split_markdown(self, text: str) -> Callable[[], int]:
        """Sections by heading; returns how many."""
        raise NotCovered

    # -- retrieval

    def vector_search(
        self, vectors: list[list[float]], query: list[float], k: int
    ) -> tuple[Callable[[], list], Callable[[], list]]:
        """Plain similarity search and a diversity-aware (MMR) one, over an in-memory store."""
        raise NotCovered

    def keyword_index(self, texts: list[str]) -> tuple[Callable[[], Any], Callable[[str], list[str]]]:
        """Build a BM25 index, and query a built one for four texts."""
        raise NotCovered

    def fuse(self, first: list[str], second: list[str]) -> Callable[[], list]:
        """Reciprocal rank fusion of two retrievers that return these texts."""
        raise NotCovered

    # -- messages

    def append_message(self, history: list[str]) -> Callable[[], int]:
        """Add one message to a list the way an agent's state does; returns the new length."""
        raise NotCovered

    def trim_messages(self, history: list[str], tokens: int) -> Callable[[], list]:
        raise NotCovered

    def merge_chunks(self, chunks: int, *, one_by_one: bool) -> Callable[[], str]:
        """Add up text chunks of one answer, as they arrive or all at the end."""
        raise NotCovered

    def replay_stream(self, lines: list[bytes]) -> Callable[[], Any]:
        """Texts of a stream of OpenAI's chat completions API, which the SDK's HTTP client is given as it came."""
        raise NotCovered

    def write_history(self, turns: list[tuple]) -> Callable[[], dict]:
        """The body of a request to that API for turns of (question, arguments of a call of `add`, its result, answer,
        whether the question has a picture)."""
        raise NotCovered

    def merge_tool_call(self, chunks: int) -> Callable[[], int]:
        """Add up, as they arrive, chunks of one tool call's JSON arguments; returns how many items arrived."""
        raise NotCovered
