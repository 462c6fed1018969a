"""Reading a state class: its channels, what may come in, and what a node sees."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal, NotRequired, Required, get_args, get_origin, get_type_hints

from typing_extensions import ReadOnly, TypeVar, is_typeddict

from runwell.errors import GraphError, InvalidInput, InvalidUpdateError, nearest
from runwell.graph.channels import EphemeralValue, Topic, UntrackedValue, kind_of
from runwell.graph.managed import Managed
from runwell.ports.command import START
from runwell.ports.saver import GONE

__all__ = ["Channel", "ContextT", "InputT", "OutputT", "StateSchema", "StateT", "is_schema", "told_errors"]

StateT = TypeVar("StateT", default=Any)
ContextT = TypeVar("ContextT", default=Any)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)

Kind = Literal["typeddict", "dataclass", "pydantic"]


@dataclasses.dataclass(slots=True)
class Channel:
    """One key of the state. Without a `reducer` a write replaces the value, and a step may write it once. A `fleeting`
    value is gone after the step that follows; one that is not `tracked` is never saved."""

    name: str
    annotation: Any
    reducer: Callable[[Any, Any], Any] | None = None
    fleeting: bool = False
    tracked: bool = True

    @classmethod
    def of(cls, name: str, annotation: Any, notes: list[Any]) -> Channel:
        """A key as its annotation says it."""
        made = cls(name, annotation)
        for note in notes:
            kind = kind_of(note)
            if kind is not None:
                made.reducer = getattr(kind, "operator", made.reducer)
                made.fleeting = isinstance(kind, EphemeralValue) or (isinstance(kind, Topic) and not kind.accumulate)
                made.tracked = not isinstance(kind, UntrackedValue)
            elif _is_reducer(note):
                made.reducer = note
        return made

    def empty(self) -> Any:
        """What a reducer starts from: the type's own empty value where it has one; raises TypeError where not."""
        plain = get_origin(self.annotation) or self.annotation
        if plain in (list, dict, set, frozenset, tuple, int, float, str, bool, bytes):
            return plain()
        raise TypeError(plain)

    def begun(self, value: Any) -> Any:
        """What the reducer makes of the first value: reduced into the empty one where there is one, else as it is."""
        assert self.reducer is not None
        try:
            empty = self.empty()
        except TypeError:
            return value
        return self.reducer(empty, value)


def _strip(annotation: Any) -> tuple[Any, list[Any]]:
    """The type without Required/NotRequired/ReadOnly/Annotated, and what Annotated said."""
    notes: list[Any] = []
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *extra = get_args(annotation)
            notes = [*extra, *notes]
        elif origin in (Required, NotRequired, ReadOnly):
            annotation = get_args(annotation)[0]
        else:
            return annotation, notes


def _is_reducer(note: Any) -> bool:
    """A plain callable of two values. A function of any other kind raises GraphError: it was meant as one."""
    if not callable(note) or inspect.isclass(note):
        return False
    if inspect.iscoroutinefunction(note):
        raise GraphError(
            f"The reducer {note.__qualname__!r} is async.", hint="Write it as a plain function: it must not wait."
        )
    try:
        parameters = list(inspect.signature(note).parameters.values())
    except (TypeError, ValueError):  # a C function without a signature, such as some of `operator`
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in positional if p.default is p.empty]
    fits = (len(positional) >= 2 and len(needed) <= 2) or any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if not fits and inspect.isfunction(note):
        raise GraphError(
            f"The reducer {note.__qualname__!r} takes {len(positional)} values.",
            hint="A reducer takes two: what is there, and what comes.",
        )
    return fits


def is_schema(given: Any) -> bool:
    """Whether a class can be a state's: a TypedDict, dataclass or Pydantic model."""
    return isinstance(given, type) and (
        is_typeddict(given) or dataclasses.is_dataclass(given) or hasattr(given, "__pydantic_validator__")
    )


class StateSchema:
    """A state class read once: TypedDict, dataclass or Pydantic model."""

    def __init__(self, schema: type) -> None:
        self.type = schema
        self.kind = self._kind_of(schema)
        try:
            hints = get_type_hints(schema, include_extras=True)
        except NameError as error:
            raise GraphError(
                f"The state schema {schema.__qualname__!r} has an annotation that cannot be read: {error}.",
                hint="Define or import the name where the schema is defined, at module level.",
            ) from error
        self.channels: dict[str, Channel] = {}
        self.managed: dict[str, Managed] = {}
        """Keys that are worked out for each step; they are no channels."""
        fields = self._field_names()
        for name, hint in hints.items():
            if fields is not None and name not in fields:
                continue  # a ClassVar, a private attribute, an InitVar: the class's own affair
            annotation, notes = _strip(hint)
            managed = [note for note in notes if isinstance(note, Managed)]
            if managed:
                self.managed[name] = managed[-1]
            else:
                self.channels[name] = Channel.of(name, annotation, notes)
        self.visible = {**self.channels, **self.managed}
        self.required = self._required() - self.managed.keys()
        self._plain = self.kind == "typeddict"
        self._aliases = self._aliases_of() if self.kind == "pydantic" else {}
        """By field, what stands for it where a Pydantic model is made: its alias if it has one."""
        self._together = self.kind == "pydantic" and bool(self._decorated().model_validators)
        """Whether a validator looks at the model as a whole, so that fields cannot be checked one by one."""

    @staticmethod
    def _kind_of(schema: type) -> Kind:
        if is_typeddict(schema):
            return "typeddict"
        if dataclasses.is_dataclass(schema):
            return "dataclass"
        if hasattr(schema, "__pydantic_validator__"):
            return "pydantic"
        raise GraphError(
            f"{schema!r} cannot be a state schema.",
            hint="Use a TypedDict, a dataclass or a Pydantic model, with one annotated field per key.",
        )

    def _field_names(self) -> Collection[str] | None:
        """The annotations that are fields; None for all."""
        schema: Any = self.type
        if self.kind == "dataclass":
            return [each.name for each in dataclasses.fields(schema)]
        return schema.model_fields if self.kind == "pydantic" else None

    def _decorated(self) -> Any:
        model: Any = self.type
        return model.__pydantic_decorators__

    def _aliases_of(self) -> dict[str, str]:
        found: dict[str, str] = {}
        fields: dict[str, Any] = getattr(self.type, "model_fields", {})
        for name, field in fields.items():
            said: Any = field.alias if field.validation_alias is None else field.validation_alias
            choices = getattr(said, "choices", [said])  # AliasChoices
            alias = next((one for one in choices if isinstance(one, str)), None)
            if alias is not None:
                found[name] = alias
        return found

    def _required(self) -> frozenset[str]:
        schema: Any = self.type
        if self.kind == "dataclass":
            return frozenset(
                field.name
                for field in dataclasses.fields(schema)
                if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            )
        if self.kind == "pydantic":
            return frozenset(name for name, field in schema.model_fields.items() if field.is_required())
        return frozenset()

    # -- in

    def intake(self, given: Any, known: Collection[str], *, thread_has: Collection[str] = ()) -> dict[str, Any]:
        """An input as writes per channel.

        `known` are the keys the graph takes; a key beyond them raises `InvalidInput` naming the nearest. A dataclass
        or Pydantic field without default raises when it is in neither the input nor the thread. A Pydantic state takes
        the validated values, its validators' changes included.
        """
        values = self._as_mapping(given)
        for key in values:
            if key not in known:
                raise InvalidInput(
                    f"The input has an unknown key {key!r}{nearest(str(key), known)}.",
                    hint=f'The graph takes {sorted(known)}; pass extra="ignore" to compile() to drop others.',
                )
        missing = [name for name in self.required if name not in values and name not in thread_has]
        if missing:
            raise InvalidInput(
                f"The input lacks {sorted(missing)}, which {self.type.__qualname__!r} requires.",
                hint="Give a value, or give the field a default.",
            )
        if self.kind == "pydantic" and not thread_has:
            return self._validated(values)
        if self.kind == "dataclass" and not thread_has:
            made = self.type(**values, **self._unmanaged())
            return {name: getattr(made, name) for name in self.channels}
        return dict(values)

    def _unmanaged(self) -> dict[str, Any]:
        """Something to stand for managed values where the class is only built to check the others."""
        return {name: value.at(0) for name, value in self.managed.items()}

    def _as_mapping(self, given: Any) -> Mapping[str, Any]:
        if isinstance(given, Mapping):
            if not self._aliases:
                return given
            names: dict[Any, Any] = {alias: name for name, alias in self._aliases.items() if alias not in self.channels}
            renamed: dict[Any, Any] = {names.get(key, key): value for key, value in given.items()}
            return renamed
        if self.kind == "dataclass" and isinstance(given, self.type):
            return {name: getattr(given, name) for name in self.channels}
        if self.kind == "pydantic" and isinstance(given, self.type):
            fields: Any = given
            return {name: getattr(given, name) for name in self.channels if name in fields.model_fields_set}
        raise InvalidInput(
            f"The input is {given!r:.200}, of type {type(given).__name__!r}.",
            hint=f"Pass a dict with keys among {sorted(self.channels)}.",
        )

    def _validated(self, values: Mapping[str, Any]) -> dict[str, Any]:
        made = self._made(values, START)
        return {name: getattr(made, name) for name in self.channels}

    def _made(self, values: Mapping[str, Any], node: str) -> Any:
        """The model of these values, validated; `node` gave them."""
        from pydantic import ValidationError

        model: Any = self.type
        try:
            return model.model_validate(self._aliased({**self._unmanaged(), **values}))
        except ValidationError as error:
            raise self._unfit(node, "", error) from error

    def _unfit(self, node: str, name: str, error: Any) -> Exception:
        if node == START:
            said = f"The input does not fit {self.type.__qualname__!r}: {told_errors(error)}"
            return InvalidInput(said, hint="Correct the named fields.")
        what = (
            f"gave {name!r} a value that {self.type.__qualname__!r} does not take"
            if name
            else (f"made a state that {self.type.__qualname__!r} does not take")
        )
        return InvalidUpdateError(
            f"Node {node!r} {what}: {told_errors(error)}",
            hint="Return a value of the declared type; nothing of this step was saved.",
        )

    def check(self, node: str, before: Mapping[str, Any], changes: dict[str, tuple[Any, Any]]) -> None:
        """A step's changes as a Pydantic state declares them: what its validators make of them goes into `changes`.

        Other kinds take any value. A class with a validator of the whole model is checked as a whole, as it is after
        the step; else what did not change is not looked at again.
        """
        if self.kind != "pydantic":
            return
        from pydantic import ValidationError

        mine = {name: new for name, (_, new) in changes.items() if name in self.channels and new is not GONE}
        after = {name: mine.get(name, value) for name, value in before.items() if name in self.channels} | mine
        if self._together:
            made = self._made(after, node)
            for name in self.channels:
                value = getattr(made, name)
                if name in mine:
                    changes[name] = (changes[name][0], value)
                elif name not in changes and name in after and not _equal(value, after[name]):
                    changes[name] = (before[name], value)
            return
        model: Any = self.type
        state = self._unchecked(after)
        for name, value in mine.items():
            try:
                model.__pydantic_validator__.validate_assignment(state, name, value)
            except ValidationError as error:
                raise self._unfit(node, name, error) from error
            changes[name] = (changes[name][0], getattr(state, name))

    def _unchecked(self, fields: Mapping[str, Any]) -> Any:
        model: Any = self.type
        return model.model_construct(**self._aliased(fields))

    def _aliased(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {self._aliases.get(name, name): value for name, value in fields.items()} if self._aliases else fields

    # -- out

    def view(self, values: dict[str, Any]) -> Any:
        """The state as a node of this schema sees it: its own copy of the top level."""
        if self._plain:
            shown = self.visible
            if len(values) <= len(shown) and values.keys() <= shown.keys():
                return dict(values)
            return {name: value for name, value in values.items() if name in shown}
        fields = {name: values[name] for name in self.visible if name in values}
        if self.kind == "dataclass":
            return self.type(**fields)
        return self._unchecked(fields)


def _equal(one: Any, other: Any) -> bool:
    try:
        return one is other or (one == other) is True
    except (TypeError, ValueError):  # a container of arrays cannot say
        return False


def told_errors(error: Any) -> str:
    """A Pydantic error in one line per problem."""
    return "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or '(whole)'}: {problem['msg']}" for problem in error.errors()
    )
