"""How runnables are put together and wrapped: the operators and `with_*` methods that every one has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from runwell.runnables.config import RunnableConfig
from runwell.runnables.forms import form

if TYPE_CHECKING:
    from runwell.runnables.cache import OutputStore
    from runwell.runnables.configurable_spec import AnyConfigurableField, ConfigurableField
    from runwell.runnables.listeners import Listener
    from runwell.runnables.runnable import Runnable, RunnableLike
    from runwell.runnables.sequence import RunnableSequence

__all__ = ["Composable", "Input", "Other", "Output"]

Input = TypeVar("Input", contravariant=True)
Output = TypeVar("Output", covariant=True)
Other = TypeVar("Other")


class Composable(Generic[Input, Output]):
    """What makes new runnables of one. None of these changes it."""

    def __or__(self, other: RunnableLike[Any, Other]) -> RunnableSequence[Input, Other]:
        return cast("RunnableSequence[Input, Other]", form("RunnableSequence")(self, other))

    def __ror__(self, other: RunnableLike[Other, Any]) -> RunnableSequence[Other, Output]:
        return cast("RunnableSequence[Other, Output]", form("RunnableSequence")(other, self))

    def pipe(self, *others: RunnableLike[Any, Any], name: str | None = None) -> RunnableSequence[Input, Any]:
        """`self | other | ...`, with a name if you like."""
        return cast("RunnableSequence[Input, Any]", form("RunnableSequence")(self, *others, name=name))

    def bind(self, **kwargs: Any) -> Runnable[Input, Output]:
        """The same, called with these keyword arguments each time. What a call itself passes goes before them."""
        return cast("Runnable[Input, Output]", form("RunnableBinding")(self, kwargs=kwargs))

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> Runnable[Input, Output]:
        """The same, called with this config merged under each call's own: `part.with_config(tags=["nightly"])`."""
        from runwell.runnables.config import merge_configs

        merged = merge_configs(config, kwargs)
        return cast("Runnable[Input, Output]", form("RunnableBinding")(self, config=merged))

    def with_types(self, *, input_type: Any = None, output_type: Any = None) -> Runnable[Input, Output]:
        """The same, said to take and give these types."""
        binding = form("RunnableBinding")(self, input_type=input_type, output_type=output_type)
        return cast("Runnable[Input, Output]", binding)

    def with_retry(
        self,
        *,
        retry_if_exception_type: type[BaseException] | tuple[type[BaseException], ...] = (Exception,),
        wait_exponential_jitter: bool = True,
        exponential_jitter_params: Mapping[str, float] | None = None,
        stop_after_attempt: int = 3,
    ) -> Runnable[Input, Output]:
        """The same, tried again when it fails with one of these exceptions, `stop_after_attempt` times in all.

        Waits about 1, 2, 4, ... s between attempts (at most 60; `initial`, `max`, `exp_base`, `jitter` in
        `exponential_jitter_params`), or not at all without `wait_exponential_jitter`. A stream is only tried again
        before its first chunk. The last error is raised, with `.attempts` listing all.
        """
        retry = form("RunnableRetry")(
            self,
            retry_if_exception_type=retry_if_exception_type,
            wait_exponential_jitter=wait_exponential_jitter,
            exponential_jitter_params=exponential_jitter_params,
            stop_after_attempt=stop_after_attempt,
        )
        return cast("Runnable[Input, Output]", retry)

    def with_fallbacks(
        self,
        fallbacks: Sequence[RunnableLike[Any, Any]],
        *,
        exceptions_to_handle: tuple[type[BaseException], ...] = (Exception,),
        exception_key: str | None = None,
    ) -> Runnable[Input, Output]:
        """The same, and when it fails with one of these exceptions, the fallbacks in turn with the same input.

        With `exception_key` the input must be a dict, and a fallback finds the error before it under that key. A
        stream falls back only before its first chunk: after it, the error is raised. An empty stream is an answer.
        If all fail the first error is raised, with `.attempts` listing all.
        """
        fallback = form("RunnableWithFallbacks")(
            self, fallbacks, exceptions_to_handle=exceptions_to_handle, exception_key=exception_key
        )
        return cast("Runnable[Input, Output]", fallback)

    def pick(self, keys: str | list[str]) -> Runnable[Input, Any]:
        """The value under one key of the output dict, or a dict of several keys."""
        return self | form("RunnablePick")(keys)  # type: ignore[no-any-return]

    def assign(self, **steps: RunnableLike[Any, Any]) -> Runnable[Input, Any]:
        """The output dict, and in it each step's output for it under the step's name."""
        return self | form("RunnableAssign")(form("RunnableParallel")(steps))  # type: ignore[no-any-return]

    def map(self) -> Runnable[Any, Any]:
        """The same for a list: a list of inputs in, the list of outputs out, in order."""
        return cast("Runnable[Any, Any]", form("RunnableEach")(self))

    def with_listeners(
        self, *, on_start: Listener | None = None, on_end: Listener | None = None, on_error: Listener | None = None
    ) -> Runnable[Input, Output]:
        """The same, with functions told of each of its own calls (not of those inside it).

        A listener is called with a `ListenedRun` (`id`, `inputs`, `outputs`, `error`, `start_time`, ...) and, if it
        takes two arguments, the config. It may be plain or `async`. What it raises is logged and breaks nothing.
        """
        listened = form("RunnableWithListeners")(self, on_start=on_start, on_end=on_end, on_error=on_error)
        return cast("Runnable[Input, Output]", listened)

    def with_alisteners(
        self, *, on_start: Listener | None = None, on_end: Listener | None = None, on_error: Listener | None = None
    ) -> Runnable[Input, Output]:
        """As `with_listeners`, which takes `async` functions, too."""
        return self.with_listeners(on_start=on_start, on_end=on_end, on_error=on_error)

    def with_timeout(self, timeout_s: float) -> Runnable[Input, Output]:
        """The same, given up on after so many seconds with `NodeTimeoutError`, which is also a `TimeoutError`.

        For a stream the time runs from the first read to the last chunk. `async` work is cancelled. Plain work cannot
        be: it runs in a thread of its own, which is left behind, and costs that thread on every call.
        """
        return cast("Runnable[Input, Output]", form("RunnableWithTimeout")(self, timeout_s))

    def with_cache(
        self, cache: OutputStore | None = None, *, key: Callable[[Any], str] | None = None
    ) -> Runnable[Input, Output]:
        """The same, not called again for an input whose output is kept.

        Inputs are equal when their JSON, the call's keyword arguments and the config's `configurable` are; `key` gives
        a string of your own for an input instead. `cache` has `get(key)`, which gives `(output,)` or None, and
        `set(key, output)`; without it there is an `OutputCache` of 1,000 outputs in this process. Failures are not
        kept. Equal calls at the same time are each made.
        """
        return cast("Runnable[Input, Output]", form("RunnableWithCache")(self, cache, key=key))

    def as_tool(
        self,
        args_schema: Any = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, Any] | None = None,
    ) -> Any:
        """A tool that calls it. Its input schema, or `args_schema`, or `arg_types`, tells a model the arguments."""
        return form("convert_runnable_to_tool")(
            self, args_schema, name=name, description=description, arg_types=arg_types
        )

    def configurable_fields(self, **fields: AnyConfigurableField) -> Runnable[Input, Output]:
        """The same, some of whose values a call's config may set:

            model.configurable_fields(temperature=ConfigurableField(id="llm_temperature"))
            model.invoke("Hi", {"configurable": {"llm_temperature": 0.9}})

        The names are those of its constructor's arguments. Raises `InvalidInput` for one that it does not have.
        """
        return cast("Runnable[Input, Output]", form("RunnableConfigurableFields")(self, fields))

    def configurable_alternatives(
        self,
        which: ConfigurableField,
        *,
        default_key: str = "default",
        prefix_keys: bool = False,
        **alternatives: RunnableLike[Any, Any] | Callable[[], Runnable[Any, Any]],
    ) -> Runnable[Input, Output]:
        """This, or one of the alternatives, as `configurable[which.id]` of a call's config says.

        An alternative may be a function without arguments that makes it when it is first chosen. With `prefix_keys`
        fields of an alternative are addressed as `"{which.id}=={key}/{field.id}"`, so that each can be set apart. An
        unknown key raises `InvalidConfig` with the known ones.
        """
        made = form("RunnableConfigurableAlternatives")(
            which, self, alternatives, default_key=default_key, prefix_keys=prefix_keys
        )
        return cast("Runnable[Input, Output]", made)
