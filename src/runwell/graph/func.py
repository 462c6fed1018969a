"""Workflows as plain functions: `@entrypoint` and `@task`."""

from __future__ import annotations

from runwell.graph.future import TaskFuture
from runwell.graph.tasks import TaskFunction, task
from runwell.graph.workflow import Entrypoint, entrypoint

__all__ = ["Entrypoint", "TaskFunction", "TaskFuture", "entrypoint", "task"]
