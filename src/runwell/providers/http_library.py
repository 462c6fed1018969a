"""Which of two alike HTTP libraries a client or an error is of: vendors' SDKs are made on one or the other."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from runwell.errors import InvalidInput

__all__ = ["REACH", "check_http_clients", "ended", "http_error", "http_module"]

REACH = "Is base_url= right, and can it be reached from here?"
"""What to look at when a server was not reached."""

_LIBRARIES = ("httpx", "httpx2")


def http_module(thing: Any) -> Any:
    """The library that an object's class, or one of its bases, is of; None for what is of neither."""
    found = _of_library(thing)
    return import_module(found[0]) if found else None


def http_error(error: Exception) -> Literal["", "timeout", "transport"]:
    """What kind of error it is, of either library; empty for others."""
    module = http_module(error)
    if module is None:
        return ""
    if isinstance(error, module.TimeoutException):
        return "timeout"
    return "transport" if isinstance(error, module.TransportError) else ""


def ended(said: object) -> str:
    """What an error says, with one full stop at its end."""
    return f"{str(said).rstrip('. ') or type(said).__name__}."


def check_http_clients(who: str, plain: Any, aio: Any, taken: tuple[str, ...]) -> None:
    """Raises InvalidInput for a client of the other library, or of the other colour. Clients of neither pass."""
    for argument, client, wanted in (("http_client", plain, "Client"), ("http_async_client", aio, "AsyncClient")):
        found = _of_library(client)
        if found and (found[0] not in taken or found[1] != wanted):
            raise InvalidInput(
                f"{who} got an {found[0]}.{found[1]} as {argument}.",
                hint=f"{argument}={' or '.join(f'{library}.{wanted}(...)' for library in taken)}",
            )


def _of_library(thing: Any) -> tuple[str, str] | None:
    """(The library, the name in it) of the first base that is of one."""
    for kind in type(thing).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in _LIBRARIES:
            return name, kind.__name__
    return None
