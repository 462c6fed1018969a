"""Getting what is at an address of the web, when a model chose the address."""

from __future__ import annotations

import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from runwell.drivers.cancel import CANCEL
from runwell.errors import InvalidInput, RunCancelled, ToolError
from runwell.tools.kits.addresses import Destinations

__all__ = ["Fetched", "Fetcher"]

REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came back: `url` after redirects, the body's first bytes and whether there were more."""

    url: str
    status: int
    content_type: str
    body: bytes
    cut: bool

    def text(self) -> str | None:
        """The body as text; None when it is none."""
        kind = self.content_type.partition(";")[0].strip().lower()
        textual = kind.startswith("text/") or re.search(r"json|xml|yaml|javascript|x-www-form", kind) or not kind
        if not textual or b"\0" in self.body[:1024]:
            return None
        charset = re.search(r"charset=[\"']?([\w.:-]+)", self.content_type, re.I)
        try:
            return self.body.decode(charset[1] if charset else "utf-8", "replace")
        except (LookupError, UnicodeError):  # none, or one that is no encoding of whole texts
            return self.body.decode("utf-8", "replace")


class Fetcher:
    """Makes GET requests to where `destinations` allow, and to nowhere else, on every redirect anew.

    It connects to the address that was checked, so a name that is looked up differently a moment later changes nothing.
    Proxies and certificates named in the environment are not used. At most `max_bytes` of a body are read, unpacked;
    the whole takes at most `timeout` seconds, looking the name up aside. `headers` go to the first host only.
    Thread-safe.
    """

    def __init__(
        self,
        destinations: Destinations,
        *,
        max_bytes: int = 2_000_000,
        timeout: float = 20.0,
        max_redirects: int = 5,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if max_bytes < 1 or not timeout > 0 or max_redirects < 0:
            raise InvalidInput(
                f"max_bytes={max_bytes!r}, timeout={timeout!r}, max_redirects={max_redirects!r}",
                hint="Bytes and seconds are above 0, redirects at least 0.",
            )
        self.destinations = destinations
        self.max_bytes = max_bytes
        self.timeout = timeout
        self.max_redirects = max_redirects
        self.headers = dict(headers or {})

    def get(self, url: str) -> Fetched:
        """What is at `url`, whatever its status. Raises ToolError, in words for the model, if nothing comes back."""
        import httpx

        deadline = time.monotonic() + self.timeout
        here = _checked(url)
        first = (here.scheme, here.host, here.port)
        for _ in range(self.max_redirects + 1):
            headers = self.headers if (here.scheme, here.host, here.port) == first else {}
            found, target = self._ask(here, headers, deadline)
            if target is None:
                return found
            try:
                there = here.join(target)
            except (httpx.InvalidURL, ValueError) as error:
                raise ToolError(f"{here} redirects to {target!r:.200}, which is no address.") from error
            here = _checked(str(there))
        raise ToolError(f"{url!r:.200} redirects more than {self.max_redirects} times.")

    def _ask(self, url: Any, headers: Mapping[str, str], deadline: float) -> tuple[Fetched, str | None]:
        """One request; with a redirect, where it leads."""
        import httpx

        host = url.raw_host.decode("ascii").strip("[]")
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = self.destinations.addresses(host, port)
        problem: Exception | None = None
        for address in addresses:
            guard = _Guard(deadline)
            try:
                with guard, httpx.Client(verify=_certificates(), trust_env=False, follow_redirects=False) as client:
                    request = client.build_request(
                        "GET",
                        url.copy_with(host=address),
                        headers={
                            "Accept": "text/*, application/json;q=0.9, */*;q=0.5",
                            "Accept-Encoding": "gzip, deflate",
                            "User-Agent": "runwell",
                            **headers,
                            "Host": url.netloc.decode("ascii"),
                        },
                        timeout=max(0.01, deadline - time.monotonic()),
                        extensions={"trace": guard.trace, "sni_hostname": host},
                    )
                    response = client.send(request, stream=True)
                    target = response.headers.get("location") if response.status_code in REDIRECTS else None
                    body, cut = (b"", False) if target else self._read(response)
                    response.close()
                    guard.raise_if_stopped(self.timeout, url)  # a body without a length seems whole when it is cut off
                    kind = response.headers.get("content-type", "")
                    return Fetched(str(url), response.status_code, kind, body, cut), target
            except httpx.ConnectError as error:
                guard.raise_if_stopped(self.timeout, url)
                problem = error  # the next address of the same host may answer
            except (httpx.HTTPError, zlib.error, OSError) as error:
                guard.raise_if_stopped(self.timeout, url)
                if isinstance(error, httpx.TimeoutException):
                    raise ToolError(f"{url} took more than {self.timeout:g} s.") from error
                raise ToolError(f"{url} could not be read: {error}") from error
        raise ToolError(f"{url} could not be reached: {problem}") from problem

    def _read(self, response: Any) -> tuple[bytes, bool]:
        """The body's first bytes, unpacked no further than they are wanted."""
        packing = response.headers.get("content-encoding", "identity").strip().lower()
        if packing not in ("identity", "", "gzip", "x-gzip", "deflate"):
            raise ToolError(f"The answer is packed as {packing!r:.40}, which cannot be read.")
        unpack = zlib.decompressobj(47) if packing not in ("identity", "") else None
        body = bytearray()
        for chunk in response.iter_raw():
            room = self.max_bytes + 1 - len(body)
            body += chunk[:room] if unpack is None else unpack.decompress(chunk, room)
            if len(body) > self.max_bytes:
                return bytes(body[: self.max_bytes]), True
        return bytes(body), False


class _Guard:
    """Ends a connection at its deadline, and when the run is cancelled.

    Without it a server that sends a byte now and then could hold us for ever.
    """

    def __init__(self, deadline: float) -> None:
        self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._late)
        self._timer.daemon = True
        self._group = CANCEL.get()
        self._socket: socket.socket | None = None
        self.late = False
        self.cancelled = False

    def trace(self, name: str, info: Mapping[str, Any]) -> None:
        """Told by the client what it does: here is the socket."""
        if name == "connection.connect_tcp.complete":
            self._socket = info["return_value"].get_extra_info("socket")
            if self.late or self.cancelled:
                self._shut()

    def cancel(self) -> None:
        self.cancelled = True
        self._shut()

    def tell(self, report: Callable[[], None]) -> int:
        return 0

    def raise_if_stopped(self, seconds: float, url: Any) -> None:
        if self.cancelled:
            raise RunCancelled()
        if self.late:
            raise ToolError(f"{url} took more than {seconds:g} s.")

    def _late(self) -> None:
        self.late = True
        self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # closed already
                self._socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> None:
        self._timer.start()
        if self._group is not None:
            self._group.add(self)

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()
        if self._group is not None:
            self._group.discard(self)


def _checked(url: str) -> Any:
    """A URL that may be asked for, if its host may be reached."""
    import httpx

    try:
        made = httpx.URL(url.strip())
        host = made.host  # read here: not every name can be
    except (httpx.InvalidURL, ValueError) as error:
        raise ToolError(f"{url!r:.200} is no address: {error}") from error
    if made.scheme not in ("http", "https") or not host:
        raise ToolError(f"Refused: {url!r:.200} is not an http or https address.")
    if made.userinfo:
        raise ToolError("Refused: the address holds a user name or password.")
    return made.copy_with(fragment=None)


@cache
def _certificates() -> Any:
    import httpx

    return httpx.create_ssl_context(trust_env=False)
