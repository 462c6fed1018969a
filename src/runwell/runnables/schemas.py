"""What a runnable takes and gives, as pydantic models, made when somebody asks."""

from __future__ import annotations

from typing import Any

__all__ = ["input_schema", "output_schema"]


def input_schema(runnable: Any) -> type[Any]:
    """A model of its input: of its first step for a sequence, of the fields it reads for a parallel step."""
    return _schema(runnable, "input")


def output_schema(runnable: Any) -> type[Any]:
    """A model of its output."""
    return _schema(runnable, "output")


def _schema(runnable: Any, side: str) -> type[Any]:
    from pydantic import BaseModel, ConfigDict, RootModel, create_model

    name = f"{_identifier(runnable.get_name())}_{side}"
    steps: Any = getattr(runnable, "steps", None)
    if isinstance(steps, list):
        inner = steps[0] if side == "input" else steps[-1]
        return inner.get_input_schema() if side == "input" else inner.get_output_schema()  # type: ignore[no-any-return]
    if hasattr(steps, "items") and side == "output":
        fields: dict[str, Any] = {key: (step.OutputType, ...) for key, step in steps.items()}
        made: type[Any] = create_model(
            name, __config__=ConfigDict(arbitrary_types_allowed=True, defer_build=True), **fields
        )
        return made
    declared = runnable.InputType if side == "input" else runnable.OutputType
    if isinstance(declared, type) and issubclass(declared, BaseModel):
        return declared
    root: type[Any] = create_model(name, __base__=RootModel[declared])  # type: ignore[valid-type]
    return root


def _identifier(name: str) -> str:
    return "".join(character if character.isalnum() else "_" for character in name)
