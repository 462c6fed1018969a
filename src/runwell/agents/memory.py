"""Long-term memories: whose they are, finding those that fit a text, and tools to write and search them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from runwell.agents.bm25 import BM25
from runwell.effects import Call, Callee
from runwell.errors import InvalidConfig, InvalidInput, ToolError
from runwell.ports.runtime import Runtime
from runwell.ports.store import Item, Namespace, PutOp, SearchItem, SearchOp, check_namespace
from runwell.schemas.injection import InjectedStore
from runwell.tools.runtime import ToolRuntime
from runwell.tools.structured import StructuredTool

__all__ = [
    "MAX_TEXT",
    "MemoryNamespace",
    "find_memories",
    "memory_text",
    "memory_tools",
    "put_memories",
    "remember_tool",
]

MAX_TEXT = 2_000
"""Characters of one memory."""
SCANNED = 500
"""How many of the newest memories are ranked by their words where a store cannot search by meaning."""

_BLANK = re.compile(r"\{([^{}]*)\}")


class MemoryNamespace:
    """Where memories are kept, as a template: `("memories", "{tenant}", "{principal}")`.

    `{principal}` and `{tenant}` are of the run's `principal=`; any other name is a key of the run's `context`, or of
    its `configurable`. A function of the runtime gives a namespace of its own. Without a template each principal has
    one. A name that the run does not give raises InvalidInput: nothing falls back to a namespace that others share.
    """

    def __init__(self, given: Sequence[str] | Callable[[Any], Any] | None = None) -> None:
        self.template: tuple[str, ...] | None = None
        self.function: Callable[[Any], Any] | None = None
        if given is None:
            return
        if callable(given):
            self.function = given
            return
        check_namespace(given)
        self.template = tuple(given)
        for label in given:
            if unknown := [name for name in _BLANK.findall(label) if not name.isidentifier()]:
                raise InvalidInput(
                    f"The namespace {tuple(given)!r} has a blank {unknown[0]!r}.",
                    hint='Blanks are names: "{principal}", "{tenant}", "{user_id}".',
                )

    def __str__(self) -> str:
        if self.function is not None:
            return f"what {getattr(self.function, '__qualname__', self.function)!s} gives"
        return "/".join(self.template) if self.template is not None else "the run's principal"

    def of(self, runtime: Runtime[Any]) -> Namespace:
        """The namespace for a run."""
        if self.function is not None:
            made = self.function(runtime)
            check_namespace(made)
            return tuple(made)
        principal = runtime.principal
        if self.template is None:
            if principal is None:
                raise self._missing("principal")
            tenant = "no tenant" if principal.tenant is None else f"tenant {principal.tenant}"
            return ("memories", tenant, principal.id)
        blanks = {name for label in self.template for name in _BLANK.findall(label)}
        if principal is not None and principal.tenant is not None and "principal" in blanks and "tenant" not in blanks:
            raise InvalidInput(
                f"The namespace {self.template!r} would mix the tenants' principals of one id.",
                hint='Put "{tenant}" into it, before "{principal}".',
            )
        known = {name: self._value(name, runtime) for name in blanks}
        made = tuple(_BLANK.sub(lambda hit: known[hit.group(1)], label) for label in self.template)
        check_namespace(made)
        return made

    def _value(self, name: str, runtime: Runtime[Any]) -> str:
        found: Any = None
        if name in ("principal", "tenant"):
            principal = runtime.principal
            found = None if principal is None else principal.id if name == "principal" else principal.tenant
        else:
            context = runtime.context
            found = context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)
            if found is None:
                found = (runtime.config.get("configurable") or {}).get(name)
        if found is None or found == "":
            raise self._missing(name)
        if not isinstance(found, (str, int)) or isinstance(found, bool):
            raise InvalidInput(f"{name}={found!r:.100} cannot be a label of the namespace {self.template!r}.")
        return str(found)

    def _missing(self, name: str) -> InvalidInput:
        how = "principal=Principal(...)" if name in ("principal", "tenant") else f"context={{{name!r}: ...}}"
        return InvalidInput(
            f"Memories are kept by {name!r}, and this run does not say whose they are.",
            hint=f"Run the agent with {how}.",
        )


def _store(store: Any) -> Callee[Any]:
    return Callee(store.batch, store.abatch, cheap=bool(getattr(store, "cheap", False)))


async def find_memories(
    store: Any, namespace: Namespace, query: str, limit: int, min_score: float | None = None
) -> list[SearchItem]:
    """The memories that fit a text best, the best first: by meaning, or by shared words in a store without an index."""
    try:
        [found] = await Call(_store(store), [SearchOp(namespace, query=query, limit=limit)])
    except InvalidConfig:
        [newest] = await Call(_store(store), [SearchOp(namespace, limit=SCANNED)])
        return _by_words(newest, query)[:limit]
    return [item for item in found if min_score is None or item.score is None or item.score >= min_score]


def _by_words(items: Sequence[SearchItem], query: str) -> list[SearchItem]:
    scores = BM25([memory_text(item) for item in items]).scores(query)
    ranked = sorted((-score, place) for place, score in enumerate(scores) if score > 0)
    return [items[place] for _, place in ranked]


async def put_memories(store: Any, namespace: Namespace, texts: Sequence[str]) -> list[str]:
    """Keep texts, each once however often it is put; gives their keys."""
    puts = [_put(namespace, text) for text in texts]
    if puts:
        await Call(_store(store), puts)
    return [put.key for put in puts]


def _put(namespace: Namespace, text: str) -> PutOp:
    from hashlib import blake2b  # loads OpenSSL, which a program without memories does without

    text = text.strip()
    key = blake2b(" ".join(text.lower().split()).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return PutOp(namespace, key, {"text": text})


def memory_text(item: Item) -> str:
    """What a memory says: its "text" or "content", or all of it as JSON."""
    for name in ("text", "content"):
        said = item.value.get(name)
        if isinstance(said, str):
            return said
    return json.dumps(item.value, ensure_ascii=False, default=str)


def memory_tools(
    namespace: Sequence[str] | Callable[[Any], Any] | None = None, *, limit: int = 5
) -> list[StructuredTool]:
    """Three tools with which a model keeps memories of its own: `remember`, `search_memories` and `forget`.

    They work on the store of the run, in a namespace as `MemoryNamespace` says: by default the run's principal's, so
    that nobody reads what is another's. A run without a store is refused when it starts.
    """
    place = MemoryNamespace(namespace)
    if limit.__class__ is not int or limit < 1:
        raise InvalidInput(f"memory_tools got limit={limit!r}.", hint="How many memories a search shows: at least 1.")
    return [remember_tool(place), _search(place, limit), _forget(place)]


Store = Annotated[Any, InjectedStore()]


def _checked(text: str) -> str:
    if not text.strip():
        raise ToolError("There is nothing to remember: the text is empty.")
    if len(text) > MAX_TEXT:
        raise ToolError(f"A memory has at most {MAX_TEXT} characters, and this one {len(text)}. Say it shorter.")
    return text


def remember_tool(place: MemoryNamespace) -> StructuredTool:
    """The tool that writes."""

    def remember(text: str, runtime: ToolRuntime[Any, Any], store: Store) -> str:
        """Keep something for later conversations with this person.

        Args:
            text: One fact, understandable by itself.
        """
        store.batch([_put(place.of(runtime), _checked(text))])
        return "Remembered."

    async def aremember(text: str, runtime: ToolRuntime[Any, Any], store: Store) -> str:
        await store.abatch([_put(place.of(runtime), _checked(text))])
        return "Remembered."

    return StructuredTool.from_function(remember, aremember, idempotent=True)


def _search(place: MemoryNamespace, limit: int) -> StructuredTool:
    def told(found: Sequence[SearchItem]) -> str:
        return "\n".join(f"[{item.key}] {memory_text(item)}" for item in found) or "Nothing fits."

    def search_memories(query: str, runtime: ToolRuntime[Any, Any], store: Store) -> str:
        """Look for what was remembered in earlier conversations with this person.

        Args:
            query: What it is about.
        """
        from runwell.drivers.sync import run_sync

        return told(run_sync(find_memories(store, place.of(runtime), query, limit)))

    async def asearch_memories(query: str, runtime: ToolRuntime[Any, Any], store: Store) -> str:
        from runwell.drivers.aio import run_async

        return told(await run_async(find_memories(store, place.of(runtime), query, limit)))

    return StructuredTool.from_function(search_memories, asearch_memories, read_only=True, idempotent=True)


def _forget(place: MemoryNamespace) -> StructuredTool:
    def forget(id: str, runtime: ToolRuntime[Any, Any], store: Store) -> str:
        """Remove a memory for good.

        Args:
            id: Its id, as search_memories gives it.
        """
        return _gone(store.batch(_removal(place.of(runtime), id))[0], id)

    async def aforget(id: str, runtime: ToolRuntime[Any, Any], store: Store) -> str:
        return _gone((await store.abatch(_removal(place.of(runtime), id)))[0], id)

    return StructuredTool.from_function(forget, aforget, destructive=True, idempotent=True)


def _removal(namespace: Namespace, key: str) -> list[Any]:
    from runwell.ports.store import GetOp

    if not key or "\0" in key:  # what no store takes for a key
        raise ToolError(f"There is no memory {key!r}.")
    return [GetOp(namespace, key, refresh_ttl=False), PutOp(namespace, key, None)]


def _gone(found: Item | None, key: str) -> str:
    if found is None:
        raise ToolError(f"There is no memory {key!r}.")
    return "Forgotten."
