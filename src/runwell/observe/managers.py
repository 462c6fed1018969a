"""The run as code that is called in it knows it: `run_manager`, by the names that the field uses."""

from __future__ import annotations

from typing import Any

from runwell.observe.context import BoundCallbacks
from runwell.observe.events import Custom
from runwell.observe.run import Run, tell

__all__ = [
    "AsyncCallbackManagerForChainRun",
    "AsyncCallbackManagerForLLMRun",
    "AsyncCallbackManagerForRetrieverRun",
    "AsyncCallbackManagerForToolRun",
    "AsyncRunManager",
    "CallbackManagerForChainRun",
    "CallbackManagerForLLMRun",
    "CallbackManagerForRetrieverRun",
    "CallbackManagerForToolRun",
    "RunManager",
]


class RunManager:
    """The run that a model, tool or retriever is called in."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def run_id(self) -> Any:
        return self._run.run_id

    @property
    def parent_run_id(self) -> Any:
        return self._run.parent_id

    @property
    def tags(self) -> list[str]:
        return list(self._run.tags)

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self._run.metadata)

    @property
    def handlers(self) -> list[Any]:
        return list(self._run.handlers)

    def get_child(self, tag: str | None = None) -> BoundCallbacks:
        """For `config={"callbacks": run_manager.get_child()}`; only needed in threads of your own."""
        return BoundCallbacks(self._run)

    def on_llm_new_token(self, token: str, *, chunk: Any = None, **kwargs: Any) -> Any:
        """Tell handlers of a piece of text."""
        self._run.token(chunk, token)

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> Any:
        """Tell handlers something of your own."""
        tell(self._run, Custom(self._run, name, data))


class AsyncRunManager(RunManager):
    """The same, its methods to be awaited."""

    async def on_llm_new_token(self, token: str, *, chunk: Any = None, **kwargs: Any) -> None:
        super().on_llm_new_token(token, chunk=chunk, **kwargs)
        await self._run.flush()

    async def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        super().on_custom_event(name, data, **kwargs)
        await self._run.flush()


CallbackManagerForChainRun = CallbackManagerForLLMRun = RunManager
CallbackManagerForRetrieverRun = CallbackManagerForToolRun = RunManager
AsyncCallbackManagerForChainRun = AsyncCallbackManagerForLLMRun = AsyncRunManager
AsyncCallbackManagerForRetrieverRun = AsyncCallbackManagerForToolRun = AsyncRunManager
