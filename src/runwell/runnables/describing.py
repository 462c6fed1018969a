"""What every runnable says of itself: names, types, schemas, parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from runwell.runnables.config import RunnableConfig
from runwell.runnables.forms import form

if TYPE_CHECKING:
    from runwell.runnables.configurable_spec import ConfigurableFieldSpec
    from runwell.runnables.explain import StreamingReport
    from runwell.runnables.graph_view import Graph

__all__ = ["Described"]


class Described:
    """Everything here is worked out when somebody asks, never while composing or running."""

    name: str | None

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """What it is called in traces."""
        called = name or self.name or type(self).__name__
        if not suffix:
            return called
        return f"{called}_{suffix.lower()}" if called[0].islower() else called + suffix.title()

    @property
    def InputType(self) -> Any:
        """The type of its input as declared; Any when nothing says."""
        return _declared(type(self), 0)

    @property
    def OutputType(self) -> Any:
        """The type of its output as declared; Any when nothing says."""
        return _declared(type(self), 1)

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[Any]:
        """A pydantic model of the input."""
        return cast("type[Any]", form("input_schema")(self))

    def get_output_schema(self, config: RunnableConfig | None = None) -> type[Any]:
        """A pydantic model of the output."""
        return cast("type[Any]", form("output_schema")(self))

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """The JSON schema of the input."""
        return cast("dict[str, Any]", self.get_input_schema(config).model_json_schema())

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """The JSON schema of the output."""
        return cast("dict[str, Any]", self.get_output_schema(config).model_json_schema())

    def get_graph(self, config: RunnableConfig | None = None, *, xray: bool | int = False) -> Graph:
        """Its parts and how they are connected. `xray` shows what state graphs among them are made of."""
        return cast("Graph", form("Graph").of(self, xray))

    def get_prompts(self, config: RunnableConfig | None = None) -> list[Any]:
        """The prompts in it, in the order they stand, also those in functions that refer to them."""
        return cast("list[Any]", form("prompts_of")(self))

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """The keys of `configurable` that it and its parts read."""
        return cast("list[ConfigurableFieldSpec]", form("config_specs")(self))

    def config_schema(self, *, include: Sequence[str] | None = None) -> type[Any]:
        """A pydantic model of its config: `configurable`, if anything reads it, and the usual keys in `include`."""
        return cast("type[Any]", form("config_schema")(self, include))

    def get_config_jsonschema(self, *, include: Sequence[str] | None = None) -> dict[str, Any]:
        """The JSON schema of its config."""
        return cast("dict[str, Any]", self.config_schema(include=include).model_json_schema())

    def explain_streaming(self) -> StreamingReport:
        """Which of its steps let a stream through, which stop it, and why. Print it to read it."""
        return cast("StreamingReport", form("explain")(self))


def _declared(cls: type, position: int) -> Any:
    """The argument a class gave to a generic base: `class Upper(Runnable[str, str])`."""
    for each in cls.__mro__:
        for base in getattr(each, "__orig_bases__", ()):
            arguments = getattr(base, "__args__", ())
            if len(arguments) == 2 and not isinstance(arguments[position], TypeVar):
                return arguments[position]
    return Any
