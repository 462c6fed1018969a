"""Workflows as plain functions: `@entrypoint` and `@task`."""

from __future__ import annotations

from runwell.graph.entrypoint import Entrypoint, entrypoint
from runwell.graph.future import TaskFuture
from runwell.graph.tasks import TaskFunction, task

__all__ = ["Entrypoint", "TaskFunction", "TaskFuture", "entrypoint", "task"]
