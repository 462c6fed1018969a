"""Reading the web, for a model that chooses the address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from runwell.errors import InvalidInput, ToolError
from runwell.tools.decorator import tool
from runwell.tools.kits.addresses import Destinations
from runwell.tools.kits.fetching import Fetched, Fetcher
from runwell.tools.kits.page_text import page_text
from runwell.tools.structured import StructuredTool

__all__ = ["fetch_tool"]


def fetch_tool(
    *,
    only_hosts: Sequence[str] | None = None,
    allow_private: Sequence[str] = (),
    max_bytes: int = 2_000_000,
    max_chars: int = 50_000,
    timeout: float = 20.0,
    max_redirects: int = 5,
    headers: Mapping[str, str] | None = None,
    name: str = "fetch_url",
) -> StructuredTool:
    """A tool that gets a page of the web and gives its text.

    Addresses that are not of the open internet are refused, after the name was looked up and on every redirect:
    private, loopback, link-local, multicast and reserved ones, also inside IPv6, and hosts written as bare numbers.
    `allow_private` lets some be reached: hosts (`"localhost:8000"`) and networks (`"10.2.0.0/16"`). `only_hosts` bounds
    it to hosts (`"docs.example.com"`, `"*.example.org"`), redirects included. The connection goes to the address that
    was checked.

    Of a body `max_bytes` are read, of the text `max_chars` shown, and the answer says when there is more; the whole
    takes at most `timeout` seconds. `headers` go to the host asked for, not to those it redirects to. What the model
    cannot get, it is told why (`ToolError`).
    """
    if max_chars < 1:
        raise InvalidInput(f"max_chars={max_chars!r}", hint="At least 1.")
    destinations = Destinations(allow_private=allow_private, only_hosts=only_hosts)
    fetcher = Fetcher(destinations, max_bytes=max_bytes, timeout=timeout, max_redirects=max_redirects, headers=headers)
    bounds = "" if only_hosts is None else f" Only these hosts can be reached: {', '.join(only_hosts)}."

    @tool(
        name,
        description=f"Get a page of the web: its text, links as <address>.{bounds}",
        read_only=True,
        open_world=True,
    )
    def fetch_url(url: Annotated[str, "The address, as in https://example.com/page."]) -> str:
        return _told(fetcher.get(url), max_chars)

    return fetch_url


def _told(found: Fetched, max_chars: int) -> str:
    text = found.text()
    if text is None:
        raise ToolError(f"{found.url} is {found.content_type or 'no text'}, which cannot be shown.")
    if "html" in found.content_type.lower():
        text = page_text(text)
    notes = [f"{found.url}: HTTP {found.status}, {found.content_type or 'no content type'}"]
    if found.cut:
        notes.append(f"only its first {len(found.body):,} bytes were read")
    if len(text) > max_chars:
        notes.append(f"the first {max_chars:,} of {len(text):,} characters are shown")
    told = f"[{'; '.join(notes)}]\n{text[:max_chars]}"
    if found.status >= 400:
        raise ToolError(told[:2_000])
    return told
