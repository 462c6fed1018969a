"""A model behind rules: what it is sent and what it says pass them before anybody sees it, streams included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runwell.agents.pii.reply import ReplyCleaner
from runwell.agents.pii.rule import Restorer
from runwell.agents.pii.stage import Stage
from runwell.agents.pii.walk import clean_message
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.convert import convert_to_messages
from runwell.messages.message import AIMessage, BaseMessage
from runwell.models.bound import BoundModel
from runwell.models.chat_model import BaseChatModel
from runwell.models.reply import as_chunk, text_of, whole
from runwell.observe.context import CURRENT, Inherited, RunContext, context_with
from runwell.observe.run import OpenRun, Run, open_run

__all__ = ["GuardedModel"]


class GuardedModel:
    """One call of `model`. It is observed as the model itself would be, by what has passed the rules.

    `history` is the conversation as it is kept, from which the values of tokens are known.
    """

    def __init__(self, model: Any, stages: Sequence[Stage], history: Sequence[BaseMessage]) -> None:
        self.model = model
        self.stages = tuple(stages)
        self.history = history
        self.hidden: dict[str, Any] = {}

    @property
    def never_blocks(self) -> bool:
        return bool(getattr(self.model, "never_blocks", False))

    def __repr__(self) -> str:
        return f"{self.model!r} behind {len(self.stages)} rules"

    # -- calling; the two colours differ in nothing but `await`

    def invoke(self, input: Any, config: Mapping[str, Any] | None = None, **given: Any) -> AIMessage:
        base, config, kwargs = self._parts(config, given)
        messages, cleaner = self._ready(input)
        run = self._open(base, messages, config)
        if run is None:
            return self._answer(base, messages, kwargs, cleaner, None)
        with run:
            return run.end(self._answer(base, messages, kwargs, cleaner, run))

    async def ainvoke(self, input: Any, config: Mapping[str, Any] | None = None, **given: Any) -> AIMessage:
        base, config, kwargs = self._parts(config, given)
        messages, cleaner = self._ready(input)
        run = self._open(base, messages, config)
        if run is None:
            return await self._aanswer(base, messages, kwargs, cleaner, None)
        async with run:
            return run.end(await self._aanswer(base, messages, kwargs, cleaner, run))

    def _answer(
        self, base: Any, messages: list[BaseMessage], kwargs: dict[str, Any], cleaner: ReplyCleaner, run: Run | None
    ) -> AIMessage:
        if not _is_ours(base):
            context = context_with(_unheard())
            made = context.run(base.invoke, messages, None, **kwargs)
            return self._foreign(made, cleaner, run)  # type: ignore[no-any-return]
        stop = kwargs.pop("stop", None)
        if run is None or not _streams(base, kwargs, run):
            return self._seen(base._answer(messages, stop, kwargs, _quiet(run)), cleaner)
        out: list[AIMessageChunk] = []
        for chunk in base._counted(messages, stop, kwargs, run):
            self._tell(cleaner.feed(chunk), out, run)
        self._tell(cleaner.finish(), out, run)
        return self._kept(whole(out), cleaner)

    async def _aanswer(
        self, base: Any, messages: list[BaseMessage], kwargs: dict[str, Any], cleaner: ReplyCleaner, run: Run | None
    ) -> AIMessage:
        if not _is_ours(base):
            from runwell.observe.resume import InContext

            context = context_with(_unheard())
            made = await InContext(context, base.ainvoke(messages, None, **kwargs))
            return self._foreign(made, cleaner, run)  # type: ignore[no-any-return]
        stop = kwargs.pop("stop", None)
        if run is None or not _streams(base, kwargs, run):
            return self._seen(await base._aanswer(messages, stop, kwargs, _quiet(run)), cleaner)
        out: list[AIMessageChunk] = []
        async for chunk in base._acounted(messages, stop, kwargs, run):
            self._tell(cleaner.feed(chunk), out, run)
        self._tell(cleaner.finish(), out, run)
        return self._kept(whole(out), cleaner)

    # -- the parts

    def _parts(self, config: Mapping[str, Any] | None, given: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """The model itself, and what was bound to it."""
        model = self.model
        if isinstance(model, BoundModel):
            return model.bound, model._config(config), {**model.kwargs, **given}
        return model, config, dict(given)

    def _ready(self, input: Any) -> tuple[list[BaseMessage], ReplyCleaner]:
        messages = convert_to_messages(input)
        restorers = []
        for stage in self.stages:
            values = stage.values([*self.history, *messages])
            if values:
                restorers.append(Restorer(values))
            messages = stage.outgoing(messages)
        return messages, ReplyCleaner(self.stages, restorers)

    def _open(self, base: Any, messages: list[BaseMessage], config: Any) -> OpenRun | None:
        if isinstance(base, BaseChatModel):
            return base._open(messages, config)
        name = base.get_name() if hasattr(base, "get_name") else type(base).__name__
        return open_run("chat_model", name, messages, config)

    def _tell(self, chunk: AIMessageChunk | None, out: list[AIMessageChunk], run: Run) -> None:
        if chunk is not None:
            run.token(chunk, text_of)
            out.append(chunk)

    def _seen(self, reply: AIMessage, cleaner: ReplyCleaner) -> AIMessage:
        return self._kept(cleaner.message(reply), cleaner)

    def _kept(self, reply: AIMessage, cleaner: ReplyCleaner) -> AIMessage:
        self.hidden = cleaner.hidden
        for stage in self.stages:
            if stage.from_model:
                clean_message(reply, stage.rule.passed)
        return reply

    def _foreign(self, reply: Any, cleaner: ReplyCleaner, run: Run | None) -> Any:
        """An answer of a model of another make, which cannot be read in pieces without being heard."""
        if not isinstance(reply, AIMessage):
            return reply  # the agent says what is wrong with it
        reply = self._seen(reply, cleaner)
        if run is not None and run.inherited.wants_tokens:
            chunk = as_chunk(reply)
            run.token(chunk, text_of)
        return reply


def _is_ours(base: Any) -> bool:
    """Whether the model answers by the steps that all our models share."""
    return isinstance(base, BaseChatModel) and all(
        getattr(type(base), name) is getattr(BaseChatModel, name)
        for name in ("invoke", "ainvoke", "_answer", "_aanswer", "_counted", "_acounted")
    )


def _streams(base: Any, kwargs: Mapping[str, Any], run: Run) -> bool:
    return run.inherited.wants_tokens and bool(base._streams(kwargs))


class _Quiet:
    """A model's run to which it tells its retries, and no tokens: those have not passed the rules."""

    __slots__ = ("id_text", "inherited", "retried", "run_id", "watched")

    def __init__(self, run: Run) -> None:
        self.run_id = run.run_id
        self.id_text = None
        self.retried = run.retried
        self.watched = False
        self.inherited = Inherited()


def _quiet(run: Run | None) -> Any:
    return None if run is None else _Quiet(run)


def _unheard() -> RunContext:
    """The current run's config, with nobody who hears."""
    now = CURRENT.get()
    if now is None:
        return RunContext(Inherited())
    above = now.inherited
    return RunContext(
        Inherited(
            tags=above.tags,
            metadata=above.metadata,
            configurable=above.configurable,
            max_concurrency=above.max_concurrency,
            recursion_limit=above.recursion_limit,
        )
    )
