"""Which failures may pass by themselves, and how retries wait: what the retrying middlewares share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from runwell.drivers.colour import callee
from runwell.effects import Call, Callee, Sleep, flow
from runwell.errors import InvalidInput, NodeTimeoutError, OutsideError
from runwell.models.retry import RetryPolicy
from runwell.observe.run import record_decision, watched

__all__ = ["Attempts", "RetryOn", "is_transient", "one_of"]

RetryOn = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""Classes of errors, or a function that says whether to try again after one."""

_CLIENTS = frozenset({"httpx.HTTPError", "requests.RequestException", "aiohttp.ClientError"})
_PASSING = frozenset({408, 425, 429})


def is_transient(error: BaseException) -> bool:
    """Whether trying again can help: timeouts, broken connections, overload, a busy provider. Never an interrupt."""
    if isinstance(error, OutsideError):
        return error.retryable
    if isinstance(error, (NodeTimeoutError, ConnectionError, TimeoutError)):
        return True
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
    if not kinds & _CLIENTS:
        return False
    status = getattr(getattr(error, "response", None), "status_code", None) or getattr(error, "status", None)
    return status is None or status in _PASSING or status >= 500


def one_of(rule: Any, name: str) -> Callee[Any]:
    """A `RetryOn` as something that is asked about an error. Signals (a pause, a cancel) are never asked about."""
    if isinstance(rule, type):
        rule = (rule,)
    if isinstance(rule, (tuple, list)):
        kinds = tuple(rule)
        if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise InvalidInput(f"{name}={rule!r}.", hint="Pass exception classes, or a function of the error.")
        return Callee(lambda error: isinstance(error, kinds), None, cheap=True)
    if not callable(rule):
        raise InvalidInput(f"{name}={rule!r}.", hint="Pass exception classes, or a function of the error.")
    return callee(rule, cheap=True)


class Attempts:
    """Calls something again after failures, with growing pauses in between."""

    def __init__(
        self,
        max_retries: int,
        retry_on: Any,
        backoff_factor: float,
        initial_delay: float,
        max_delay: float,
        jitter: Any,
    ) -> None:
        if max_retries < 1:
            raise InvalidInput(f"max_retries={max_retries!r} tries nothing again.", hint="Leave the middleware out.")
        for name, value in (("backoff_factor", backoff_factor), ("initial_delay", initial_delay)):
            if value < 0:
                raise InvalidInput(f"{name}={value!r} is negative.")
        if max_delay < initial_delay:
            raise InvalidInput(f"max_delay={max_delay!r} is less than initial_delay={initial_delay!r}.")
        self.max_retries = max_retries
        self._again = one_of(retry_on, "retry_on")
        self._policy = RetryPolicy(
            max_retries, initial_delay, backoff_factor or 1.0, 0.25 if jitter else 0.0, max_delay, max(120.0, max_delay)
        )

    @flow
    async def make(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """What `handler(request)` gives; the last error is raised, with a note of how often it was tried."""
        attempt = 1
        while True:
            try:
                return await handler(request)
            except Exception as error:
                patient = (getattr(error, "retry_after", None) or 0.0) <= self._policy.patience_s
                if attempt > self.max_retries or not patient or not await Call(self._again, error):
                    if attempt > 1:
                        error.add_note(f"tried {attempt} times")
                    raise
                pause = self._policy.wait_s(attempt, error)
                if watched():
                    record_decision(
                        "E7", f"again in {pause:.1f} s", f"{type(error).__name__}, attempt {attempt}", "code"
                    )
            attempt += 1
            if pause:
                await Sleep(pause)


def name_of(tool: Any) -> Any:
    """The name of a tool, or of a function that will become one."""
    return getattr(tool, "name", None) or getattr(tool, "__name__", None)


def chosen_tools(tools: Sequence[Any] | None, owner: str) -> frozenset[str] | None:
    """The names of the tools a middleware is for; None for all."""
    if tools is None:
        return None
    if strange := [each for each in tools if not isinstance(each if isinstance(each, str) else name_of(each), str)]:
        raise InvalidInput(f"{owner}(tools=...) holds {strange[0]!r:.100}.", hint="Pass tools, or their names.")
    names = frozenset(each if isinstance(each, str) else name_of(each) for each in tools)
    if not names:
        raise InvalidInput(f"{owner}(tools=[]) is for no tool.", hint="Leave `tools` out for all, or name some.")
    return names


def check_tools(names: frozenset[str] | None, known: dict[str, Any], owner: str) -> None:
    """Refuse names that are no tools of the agent."""
    from runwell.errors import nearest

    for name in sorted(names or ()):
        if name not in known:
            raise InvalidInput(
                f"{owner} names {name!r}, which is not a tool of this agent{nearest(name, known)}.",
                hint=f"Its tools are {sorted(known)}.",
            )
