"""What a caller may say of one run, handed from the outermost call to all inside it."""

from __future__ import annotations

from typing import Any, TypedDict
from uuid import UUID

__all__ = ["RunnableConfig"]


class RunnableConfig(TypedDict, total=False):
    """All keys are optional; nested calls inherit them without being handed the config."""

    tags: list[str]
    """Labels on this run and those inside it."""
    metadata: dict[str, Any]
    """Values recorded with this run and those inside it."""
    callbacks: Any
    """Handlers (`BaseCallbackHandler`) told of this run and those inside it."""
    run_name: str
    """The name of this run alone."""
    max_concurrency: int | None
    """How many calls of a batch, or branches of a parallel step, run at once; None is no bound."""
    recursion_limit: int
    """How many super-steps a graph may take."""
    configurable: dict[str, Any]
    """Values that the program itself defines, such as `thread_id`."""
    run_id: UUID | None
    """The id of this run alone; one is made when not given."""
