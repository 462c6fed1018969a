"""The base of every tool: what it is called, what it says, how its arguments are checked and its result is answered."""

from __future__ import annotations

import copy
import marshal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from runwell.drivers.colour import is_async
from runwell.drivers.other_colour import go_back_inside, leave_inside, writes
from runwell.effects import Call, Callee, flow
from runwell.errors import InvalidInput, ToolArgumentsError, ToolDefinitionError, ToolError, UsageError, nearest
from runwell.messages.message import ToolMessage
from runwell.observe.context import CURRENT
from runwell.observe.run import open_run
from runwell.ports.command import Command
from runwell.runnables.fields import KeywordFields
from runwell.runnables.runnable import Runnable
from runwell.schemas.arguments import misfits
from runwell.schemas.injection import NOTHING
from runwell.schemas.json_schema import copy_json
from runwell.tools.explain import Problem, message, shorten
from runwell.tools.result import to_content
from runwell.tools.runtime import ToolRuntime, ambient_runtime

if TYPE_CHECKING:
    from pydantic import BaseModel

    from runwell.tools.definition import Definition
    from runwell.tools.output import OutputSchema

__all__ = ["ArgsSchema", "BaseTool", "Handler"]

ArgsSchema = Any
"""A Pydantic model, a TypedDict, a dataclass or a JSON schema."""
Handler = bool | str | Callable[[Any], Any]
"""What to do with an error: False raises, True tells the model its text, a string or function says something else."""


_KINDS: dict[str, Any] = {
    "return_direct": bool,
    "handle_tool_error": Handler,
    "handle_validation_error": Handler,
    "tags": list[str] | None,
    "metadata": dict[str, Any] | None,
    "extras": dict[str, Any] | None,
    "timeout": float | None,
    "read_only": bool | None,
    "idempotent": bool | None,
    "destructive": bool | None,
    "open_world": bool | None,
    "exclusive": bool,
}
_FLAGS = frozenset(name for name, kind in _KINDS.items() if kind in (bool, bool | None, Handler))


class BaseTool(KeywordFields, Runnable[Any, Any]):
    """Something a model may ask for and the program runs.

    Most tools come from `@tool`. Derive from this class for one with state of its own: declare fields as in a
    dataclass, and write `_run`, `_arun` or both; each serves callers of either colour.

    `invoke(args)` returns what the tool returns; `invoke(tool_call)` returns a `ToolMessage` that answers the call.
    Arguments that do not fit raise `ToolArgumentsError`, whose text is for the model. A tool may be used from several
    threads and tasks at once, if its function may.

    `timeout` is in seconds. `read_only`, `idempotent`, `destructive` and `open_world` say what a call does to the
    world (None: not said). An `exclusive` tool never runs beside another. `return_direct` ends an agent's run with
    the result. With `response_format="content_and_artifact"` the function returns a pair, and the model sees the first.
    `output_schema` (a type or a JSON schema) is what the function returns, or the artifact of its pair: a result that
    does not fit raises `ToolOutputError`, which an agent tells the model in place of the result.
    """

    name: str = ""
    description: str = ""
    args_schema: ArgsSchema = None
    return_direct: bool = False
    response_format: Literal["content", "content_and_artifact"] = "content"
    handle_tool_error: Handler = False
    handle_validation_error: Handler = False
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    extras: dict[str, Any] | None = None
    timeout: float | None = None
    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    exclusive: bool = False
    output_schema: Any = None

    run_kind: ClassVar[str] = "tool"
    calls_itself: ClassVar[bool] = False
    """Whether `invoke` or `ainvoke` is written by a subclass: an agent calls the tool through it then."""

    _definition: Definition | None = None
    _output: OutputSchema | None = None
    _values: Mapping[str, Any] = {}

    def model_post_init(self, context: Any) -> None:
        given = {
            name: value
            for name, value in self.__dict__.items()
            if name in _KINDS and not (value is None or value is False or (value is True and name in _FLAGS))
        }
        if given and (problems := misfits(given, _KINDS)):
            raise InvalidInput(f"Tool {self.name!r}: {'; '.join(problems)}.", hint="Correct each of these.")
        if self.response_format not in ("content", "content_and_artifact"):
            raise InvalidInput(
                f"Tool {self.name!r}: response_format={self.response_format!r}",
                hint='It is "content" or "content_and_artifact".',
            )
        if self.timeout is not None and not self.timeout > 0:
            raise InvalidInput(f"Tool {self.name!r}: timeout={self.timeout!r}", hint="Seconds, more than 0, or None.")
        self._define(wait=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.calls_itself = writes(cls, "invoke", BaseTool) or writes(cls, "ainvoke", BaseTool)

    def model_copy(self, *, update: dict[str, Any] | None = None) -> Self:
        """The same tool with some fields changed; what follows from them is worked out again."""
        other: Self = super().model_copy(update=update)
        other._definition = other._output = None
        other.model_post_init(None)
        return other

    # -- what a subclass writes

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """The work, in plain code."""
        raise NotImplementedError

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        """The work, in async code."""
        raise NotImplementedError

    # -- definition

    def _callee(self) -> Callee[Any]:
        kind = type(self)
        plain = self._run if kind._run is not BaseTool._run else None
        aio = self._arun if kind._arun is not BaseTool._arun else None
        if plain is not None and is_async(plain):
            plain, aio = None, aio or plain
        if plain is None and aio is None:
            raise ToolDefinitionError(
                f"{self._place()}: a tool needs _run or _arun.", hint="Write one of them: def _run(self, ...)."
            )
        from runwell.tools.two_colours import written_out

        return Callee(*written_out(plain, aio))

    def _read(self) -> Definition:
        """Work out everything about the tool."""
        from runwell.tools.definition import define

        callee = self._callee()
        function: Any = callee.sync or callee.aio
        kind = type(self)
        own = kind.__doc__ if "__doc__" in kind.__dict__ and kind.__doc__ is not BaseTool.__doc__ else None
        return define(
            self.name,
            function,
            callee,
            description=self.description,
            doc=function.__doc__ or own,
            args_schema=self.args_schema,
            reserved=frozenset(("run_manager", "callbacks")),
        )

    def _place(self) -> str:
        """Where to look when the tool cannot be made."""
        return f"{type(self).__qualname__} ({type(self).__module__})"

    def _define(self, *, wait: bool = False) -> Definition | None:
        # Working out a tool takes pydantic. A program that only imports this module does not pay for it.
        from runwell.schemas.description import check_name, unresolved
        from runwell.schemas.signature import UnresolvedName

        check_name(self.name, self._place())
        try:
            made = self._read()
        except UnresolvedName as error:
            if wait:  # a type declared further down the module: look again on first use
                return None
            raise unresolved(self._place(), self.name, error) from error
        self.description = made.description
        self._definition = made
        if self.output_schema is not None:
            from runwell.tools.output import OutputSchema

            self._output = OutputSchema(self.output_schema, made.where)
        return made

    @property
    def definition(self) -> Definition:
        """What was worked out about the tool; raises ToolDefinitionError if that is not possible."""
        made = self._definition or self._define()
        assert made is not None
        return made

    @property
    def origin(self) -> str:
        """Where the tool is written: `name (file:line)`."""
        return self.definition.where

    # -- description

    def json_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments that the model fills. A copy of your own."""
        made = self._definition or self.definition
        if made.packed is None:
            schema = made.arguments.json_schema()
            try:
                made.packed = marshal.dumps(schema, 2)  # without shared parts: a copy is its owner's to change
            except ValueError:  # holds what is no plain data
                return copy_json(schema)  # type: ignore[no-any-return]
        return marshal.loads(made.packed)  # type: ignore[no-any-return]  # quicker than copying dict by dict

    @property
    def args(self) -> dict[str, Any]:
        """The schema of each argument, by name."""
        return self.json_schema()["properties"]  # type: ignore[no-any-return]

    @property
    def tool_call_schema(self) -> type[BaseModel] | dict[str, Any]:
        """What checks the model's arguments: a Pydantic model, or a JSON schema for a tool declared with one."""
        model = getattr(self.definition.arguments, "model", None)
        return self.json_schema() if model is None else model

    def get_input_schema(self, config: Any = None) -> type[Any]:
        """A pydantic model of the arguments, where they are checked by one."""
        model = getattr(self.definition.arguments, "model", None)
        return super().get_input_schema(config) if model is None else model

    def get_input_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """The JSON schema of the arguments that the model fills."""
        return self.json_schema()

    def get_output_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """The JSON schema of the output, where one is declared."""
        return super().get_output_jsonschema(config) if self._output is None else copy_json(self._output.json_schema)

    @property
    def needs_store(self) -> bool:
        """Whether a run without a long-term store cannot use this tool."""
        return any(each.kind == "store" and each.default is NOTHING for each in self.definition.injected.values())

    # -- the three steps of a call

    def prepare(
        self,
        args: Mapping[str, Any],
        injected: ToolRuntime[Any, Any] | Mapping[str, Any] | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        tool_call_id: str | None = None,
    ) -> dict[str, Any]:
        """Check the model's arguments and add what is injected; gives the function's keyword arguments.

        Raises ToolArgumentsError for arguments that do not fit. `args` is left as it was. A value the model made up for
        an injected parameter is dropped. `injected` is the runtime, or values by parameter name.
        """
        made = self._definition or self.definition
        if type(args) is not dict and not isinstance(args, Mapping):
            raise ToolArgumentsError(
                message(self.name, [Problem("", f"got {shorten(args)}", "an object with an entry for each argument")])
            )
        if made.unbound:
            raise UsageError(
                f"Tool {self.name!r} is a method and has no instance to run on.",
                hint=f"Take it from an instance: Class(...).{self.name}.",
            )
        wanted = made.injected
        if not wanted:
            return made.arguments.validate(self.name, args if type(args) is dict else dict(args))
        kwargs = made.arguments.validate(self.name, {key: args[key] for key in args if key not in wanted})
        if isinstance(injected, ToolRuntime):
            runtime, values = injected, self._values
        else:
            runtime, values = ambient_runtime(config, tool_call_id), {**self._values, **(injected or {})}
        for name, injection in wanted.items():
            kwargs.pop(name, None)
            value = injection.fill(name, self.name, runtime, values)
            if value is not NOTHING:
                kwargs[name] = value
        return kwargs

    @property
    def callee(self) -> Callee[Any]:
        """The function, called with what `prepare` gives as keywords; `bound` serves positional-only ones too."""
        return self.definition.callee

    def bound(self, kwargs: dict[str, Any]) -> Callee[Any]:
        """The function with its prepared arguments, to be called with none."""
        made = self._definition or self.definition
        positional = [kwargs.pop(name) for name in made.positional if name in kwargs] if made.positional else ()
        callee, name = made.callee, self.name
        return Callee(
            callee.sync and _filled(callee.sync, name, positional, kwargs),
            callee.aio and _filled(callee.aio, name, positional, kwargs),
            cheap=callee.cheap,
        )

    def call(self, kwargs: dict[str, Any]) -> Call[Any]:
        """The effect that runs the tool: `result = await tool.call(tool.prepare(args, runtime))` in engine code."""
        made = self._definition or self.definition
        if self.timeout is not None or made.positional:
            return Call(self.bound(kwargs), timeout=self.timeout)
        # `bound` without what only a timeout's message needs
        callee = made.callee
        sync, aio = callee.sync, callee.aio
        if sync is None:
            return Call(made.spread or made.spreading(), kwargs)
        return Call(
            Callee(
                partial(sync, **kwargs),
                None if aio is None else partial(aio, **kwargs),
                cheap=callee.cheap,
            )
        )

    def finish(self, result: Any, call: Mapping[str, Any]) -> ToolMessage | Command[Any] | list[Any]:
        """What the tool returned, as the answer to `call`. Messages and Commands of the tool's own pass through."""
        if type(result) not in _PLAIN:
            if isinstance(result, ToolMessage):
                return self._stamped(result, call)
            if isinstance(result, Command):
                return result
            if isinstance(result, list) and result and all(isinstance(each, (ToolMessage, Command)) for each in result):
                return [self._stamped(each, call) if isinstance(each, ToolMessage) else each for each in result]
        artifact: Any = None
        if self._output is not None or self.response_format != "content":
            result, artifact = self._split(result)
        content, call_id = to_content(result), call.get("id") or ""
        if type(content) is str and type(call_id) is str:
            return ToolMessage._answering(content, call_id, self.name, artifact)
        return ToolMessage(content, tool_call_id=call_id, name=self.name, artifact=artifact)

    def answer_error(self, error: BaseException, call: Mapping[str, Any]) -> ToolMessage | None:
        """The tool's own answer to an error, by its handlers; None when it leaves the error to others."""
        told = self._handled(error)
        if told is NOTHING:
            return None
        return ToolMessage(to_content(told), tool_call_id=call.get("id") or "", name=self.name, status="error")

    def _split(self, result: Any) -> tuple[Any, Any]:
        if self.response_format == "content":
            return result if self._output is None else self._output.checked(self.name, result), None
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise UsageError(
                f"Tool {self.name!r} has response_format='content_and_artifact' but returned {result!r:.200}.",
                hint="Return a pair: (what the model reads, what is kept beside it).",
            )
        return result[0], result[1] if self._output is None else self._output.checked(self.name, result[1])

    def _stamped(self, answer: ToolMessage, call: Mapping[str, Any]) -> ToolMessage:
        if answer.tool_call_id and answer.name:
            return answer
        answer = copy.copy(answer)
        answer.tool_call_id = answer.tool_call_id or call.get("id") or ""
        answer.name = answer.name or self.name
        return answer

    def _handled(self, error: BaseException) -> Any:
        if isinstance(error, ToolArgumentsError):
            handler = self.handle_validation_error
        elif isinstance(error, ToolError):
            handler = self.handle_tool_error
        else:
            return NOTHING
        if handler is False or handler is None:
            return NOTHING
        if handler is True:
            return str(error) or "The tool failed without saying why."
        return handler if isinstance(handler, str) else handler(error)

    # -- running it by hand

    def invoke(self, input: Any, config: Any = None, *, injected: Any = None, **kwargs: Any) -> Any:
        """Run the tool with a dict of arguments, a bare value for its first one, or a tool call to answer.

        `injected` is a `ToolRuntime`, or values by name, for parameters the model does not fill. Further keywords are
        arguments too (so `tool.bind(units="metric")` fixes one).
        """
        args, call = self._received(input, kwargs)
        if config or CURRENT.get() is not None:
            run = open_run("tool", self, args, config)
            if run is not None:
                return run.call(self._invoke, args, call, injected, config)
        return self._invoke(args, call, injected, config)

    async def ainvoke(self, input: Any, config: Any = None, *, injected: Any = None, **kwargs: Any) -> Any:
        """As `invoke`. A plain function runs in a worker thread."""
        args, call = self._received(input, kwargs)
        if config or CURRENT.get() is not None:
            run = open_run("tool", self, args, config)
            if run is not None:
                return await run.acall(self._ainvoke, args, call, injected, config)
        return await self._ainvoke(args, call, injected, config)

    def _invoke(self, args: Any, call: Mapping[str, Any] | None, injected: Any, config: Any) -> Any:
        inside = leave_inside()
        try:
            prepared = self.prepare(
                args, injected, config=config, tool_call_id=None if call is None else call.get("id")
            )
            made = self.definition
            if self.timeout is None and not made.positional:
                from runwell.drivers.sync import call_sync

                result = call_sync(made.callee, **prepared)
            else:
                from runwell.drivers.sync import run_sync

                result = run_sync(self._flow(prepared))
            return self._plain(result) if call is None else self.finish(result, call)
        except ToolError as error:
            return self._failed(error, call)
        finally:
            go_back_inside(inside)

    async def _ainvoke(self, args: Any, call: Mapping[str, Any] | None, injected: Any, config: Any) -> Any:
        inside = leave_inside()
        try:
            prepared = self.prepare(
                args, injected, config=config, tool_call_id=None if call is None else call.get("id")
            )
            made = self.definition
            if self.timeout is None and not made.positional:
                from runwell.drivers.aio import call_async

                result = await call_async(made.callee, **prepared)
            else:
                from runwell.drivers.aio import run_async

                result = await run_async(self._flow(prepared))
            return self._plain(result) if call is None else self.finish(result, call)
        except ToolError as error:
            return self._failed(error, call)
        finally:
            go_back_inside(inside)

    @flow
    async def _flow(self, prepared: dict[str, Any]) -> Any:
        return await self.call(prepared)

    def _received(self, input: Any, more: dict[str, Any]) -> tuple[Any, Mapping[str, Any] | None]:
        """The arguments in what was given to `invoke`, and the tool call if it is one."""
        call = input if isinstance(input, Mapping) and input.get("type") == "tool_call" and "args" in input else None
        args = input if call is None else call["args"]
        if not isinstance(args, Mapping) and call is None:
            first = next(iter(self.definition.arguments.json_schema()["properties"]), None)
            if first is not None:
                args = {first: args}
        return {**args, **more} if more else args, call

    def _plain(self, result: Any) -> Any:
        return self._split(result)[0] if not isinstance(result, (ToolMessage, Command)) else result

    def _failed(self, error: ToolError, call: Mapping[str, Any] | None) -> Any:
        answer = self._handled(error) if call is None else self.answer_error(error, call)
        if answer is NOTHING or answer is None:
            raise error
        return answer

    # -- variants

    def with_injected(self, **values: Any) -> Self:
        """The same tool with values for its injected parameters: `search.with_injected(user_id="u1")`."""
        for name in values:
            if name not in self.definition.injected:
                raise InvalidInput(
                    f"Tool {self.name!r} has no injected parameter {name!r}{nearest(name, self.definition.injected)}",
                    hint="Mark it: Annotated[str, InjectedToolArg].",
                )
        other = copy.copy(self)
        other._values = {**self._values, **values}
        return other

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, description={self.description[:60]!r})"


_PLAIN = frozenset({str, int, float, bool, dict, type(None)})
"""What tools return most, and what no answer of their own is."""


def _filled(function: Any, name: str, positional: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    call = partial(function, *positional, **kwargs)
    vars(call)["__qualname__"] = name  # what messages call it, instead of a repr that shows the arguments
    return call
