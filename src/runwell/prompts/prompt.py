"""What all prompts have in common: variables, values set beforehand, and being a step of a chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from runwell.drivers.other_colour import beneath
from runwell.errors import InvalidInput, nearest
from runwell.observe.context import CURRENT
from runwell.observe.run import open_run
from runwell.prompts.prompt_value import PromptValue
from runwell.prompts.template import require
from runwell.runnables.config import RunnableConfig
from runwell.runnables.runnable import Runnable

__all__ = ["BasePromptTemplate"]


class BasePromptTemplate(Runnable[Any, PromptValue]):
    """A prompt with named blanks: give it a dict, get a `PromptValue`.

    A subclass says which variables it has (`_names`, `_optional`) and how it is filled (`_fill`, and `_afill` when
    there is something to wait for). The same prompt may be used from several threads at once.
    """

    run_kind = "prompt"
    never_blocks = True
    partial_variables: dict[str, Any]
    """Values set beforehand: a value, or a function without arguments that gives it at the time of filling."""

    def _names(self) -> tuple[str, ...]:
        """Every variable that must have a value."""
        raise NotImplementedError

    def _optional(self) -> tuple[str, ...]:
        """Every variable that may be left out."""
        return ()

    def _fill(self, values: Mapping[str, Any]) -> PromptValue:
        """Fill in `values`, which hold every variable of `_names()`."""
        raise NotImplementedError

    async def _afill(self, values: Mapping[str, Any]) -> PromptValue:
        """`_fill` for prompts that do not say `never_blocks`."""
        return self._fill(values)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> PromptValue:
        """The prompt filled from a dict. Raises `InvalidInput` that lists every missing variable."""
        if config or CURRENT.get() is not None:
            run = open_run("prompt", self, input, config)
            if run is not None:
                return run.call(lambda: self._fill(self._values(input)))
        return self._fill(self._values(input))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> PromptValue:
        if self.never_blocks:
            return beneath(self, "invoke")(input, config)  # type: ignore[no-any-return]
        run = open_run("prompt", self, input, config)
        if run is not None:
            return await run.acall(lambda: self._afill(self._values(input)))
        return await self._afill(self._values(input))

    @property
    def InputType(self) -> Any:
        return dict[str, Any]

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[Any]:
        """A pydantic model with a field for each variable; those that may be left out are None by default."""
        from pydantic import ConfigDict, create_model

        fields: dict[str, Any] = dict.fromkeys(self.input_variables, (Any, ...))
        fields.update(dict.fromkeys(self.optional_variables, (Any, None)))
        model: type[Any] = create_model("PromptInput", __config__=ConfigDict(protected_namespaces=()), **fields)
        return model

    @property
    def input_variables(self) -> list[str]:
        """The variables a caller has to give, sorted."""
        return sorted(name for name in self._names() if name not in self.partial_variables)

    @property
    def optional_variables(self) -> list[str]:
        """The variables a caller may leave out, sorted."""
        needed = self._names()
        return sorted(name for name in self._optional() if name not in self.partial_variables and name not in needed)

    def partial(self, **values: Any) -> Self:
        """The same prompt with some variables set; a function is called each time the prompt is filled.

        Raises `InvalidInput` for a name the prompt does not have.
        """
        known = {*self._names(), *self._optional()}
        unknown = [name for name in values if name not in known]
        if unknown:
            raise InvalidInput(
                f"The prompt has no variable {unknown[0]!r}{nearest(unknown[0], known) or '.'}",
                hint=f"It has {', '.join(map(repr, sorted(known))) or 'none'}.",
            )
        return self._with_partial({**self.partial_variables, **values})

    def _with_partial(self, partial_variables: dict[str, Any]) -> Self:
        raise NotImplementedError

    def format_prompt(self, **values: Any) -> PromptValue:
        """The prompt filled with `values`. Raises `InvalidInput` that lists every missing variable."""
        return self._fill(self._complete(values))

    async def aformat_prompt(self, **values: Any) -> PromptValue:
        """As `format_prompt`."""
        return await self._afill(self._complete(values))

    def _values(self, given: Any) -> Mapping[str, Any]:
        """All values by name, from what a caller of `invoke` gave: a dict, or the value of the only variable."""
        if given.__class__ is not dict and not isinstance(given, Mapping):
            given = self._sole(given)
        return self._complete(given)

    def _complete(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """`given` and the values set beforehand. Raises `InvalidInput` when a variable is missing."""
        if self.partial_variables:
            set_before = {
                name: value() if callable(value) else value
                for name, value in self.partial_variables.items()
                if name not in given
            }
            given = {**set_before, **given}
        for name in self._names():
            if name not in given:
                require(self._names(), given, where=f"The prompt {self.name!r}" if self.name else "The prompt")
        return given

    def _sole(self, value: Any) -> dict[str, Any]:
        names = self.input_variables
        if len(names) != 1:
            raise InvalidInput(
                f"The prompt takes a dict with the variables {', '.join(map(repr, names)) or '(none)'}, "
                f"not {value!r:.200}.",
                hint="Only a prompt with exactly one variable takes its bare value.",
            )
        return {names[0]: value}
