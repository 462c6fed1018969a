"""Real HTTP, recorded once and given again in tests: what a provider really answers, without a network or a key.

The recording is vcrpy's, which knows every HTTP client that vendors' SDKs use. What is added here: nothing secret is
written, and a request that is not on the tape ends the test with a diff, whatever retries, fallbacks and SDKs are in
between.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from runwell.errors import CassetteMismatch, InvalidInput, MissingExtra

__all__ = ["Tape", "cassette"]

MASK = "**********"

_KEPT_IN_REQUESTS = frozenset({"accept", "content-type", "anthropic-version", "anthropic-beta", "openai-beta"})
_KEPT_IN_RESPONSES = re.compile(
    r"content-type|content-encoding|retry-after(-ms)?|(x-)?request-?id|x-amzn-\w+|date", re.I
)
"""Of headers only what a reader of the answer needs is kept: one that nobody thought of is no leak."""
_SECRET = re.compile(
    r"(api|access|secret|private|subscription|session)?[-_]?key|key[-_]?id|secret|password|passwd|authorization|"
    r"(access|refresh|id|auth|bearer|session|security)[-_]?token|token|client[-_]?secret|assertion|credentials?|"
    r"signature|sig|x-amz-\w+(-\w+)*|goog-\w+",
    re.I,
)
"""Names of query parameters and of body fields that are written masked. `signature` only in queries: in a body it is a
thought's, which must come back as it was."""
_NOT_IN_BODIES = re.compile(r"signature|sig|key|token|goog-\w+", re.I)
_SECRET_VARIABLE = re.compile(r"(.*_)?(API_?KEY|KEY|TOKEN|SECRET|PASSWORD)", re.I)
_SHORTEST = 8
"""A shorter secret is likely to be an ordinary word, which would be masked everywhere."""
_STREAMS = ("text/event-stream", "application/x-ndjson", "application/jsonl", "application/vnd.amazon.eventstream")

Mode = Literal["once", "none", "all", "new_episodes"]


class _NotOnTape(BaseException):
    """No `Exception`: neither an SDK nor a retry nor a fallback may take it for an error of the network."""


class Tape:
    """What a `cassette` block gives: what was played and recorded."""

    def __init__(self, path: Path, recorder: Any) -> None:
        self.path = path
        self._recorder = recorder

    @property
    def requests(self) -> list[Any]:
        """The requests on the tape, as written: `.method`, `.uri`, `.headers`, `.body`."""
        return list(self._recorder.requests)

    @property
    def played(self) -> int:
        """How many answers were given from the tape."""
        return int(self._recorder.play_count)

    @property
    def all_played(self) -> bool:
        """Whether every answer on the tape was given."""
        return bool(self._recorder.all_played)


@contextmanager
def cassette(
    path: str | os.PathLike[str],
    *,
    record: Mode = "once",
    secrets: Iterable[str] = (),
    match_on: Iterable[str] = ("method", "host", "path", "query", "body"),
    scrub: Callable[[str], str] | None = None,
) -> Iterator[Tape]:
    """HTTP inside the block is recorded in the file `path` the first time, and answered from it from then on.

        with cassette("tests/cassettes/weather.yaml"):
            agent.invoke({"messages": "What is the weather?"})

    `record`: "once" records where there is no file yet and otherwise only plays; "none" only plays (for CI);
    "new_episodes" records what is not there yet; "all" records everything anew. Every request must be on the tape with
    the same method, address and body (`match_on`); each answer is given once, in order. Another request raises
    CassetteMismatch, with a diff to the nearest one, out of the block.

    Nothing secret is written: of headers only a few known ones are kept; parameters and body fields whose names say
    that they are secret are masked; the keys that were sent, the values of environment variables named like keys, and
    the texts in `secrets` are masked wherever they stand, answers included. `scrub` is given every text that is written
    and returns what is written in its place (a name, an address of yours).

    It sees what goes through httpx, httpx2, requests, urllib3, aiohttp and the standard library, in threads and event
    loops alike, and is for one test of a process at a time. Needs the extra `cassettes`.
    """
    try:
        import vcr
    except ImportError:
        raise MissingExtra("cassette", "cassettes") from None
    path = Path(path)
    if record not in ("once", "none", "all", "new_episodes"):
        raise InvalidInput(f"cassette(record={record!r}): one of 'once', 'none', 'all', 'new_episodes'.")
    if record == "none" and not path.exists():
        raise InvalidInput(f"There is no cassette {str(path)!r}.", hint='Record it: record="once" with a real key.')
    scrubber = _Scrubber(secrets, scrub)
    config = vcr.VCR(
        record_mode=vcr.mode(record),
        match_on=tuple(match_on),
        before_record_request=scrubber.request,
        before_record_response=scrubber.response,
        decode_compressed_response=True,
    ).get_merged_config(path=str(path))
    config.pop("path_transformer", None)
    config.pop("func_path_generator", None)
    config.pop("record_on_exception", None)
    kind = _recorder_class()
    failed: BaseException | None = None
    with ExitStack() as stack:
        recorder = stack.enter_context(kind.use(**config))
        for name in ("httpx", "httpx2"):
            if find_spec(name) is not None:
                _play_in_pieces(stack, import_module(name))
        try:
            yield Tape(path, recorder)
        except BaseException as error:
            if recorder.mismatch is None:
                raise
            failed = error
    if recorder.mismatch is not None:
        raise CassetteMismatch(
            recorder.mismatch, hint=f"If the request is right, delete {str(path)!r} and record it anew."
        ) from (failed if not isinstance(failed, _NotOnTape) else None)


def _recorder_class() -> Any:
    from vcr.cassette import Cassette
    from vcr.errors import CannotOverwriteExistingCassetteException

    class Recorder(Cassette):  # type: ignore[misc]
        mismatch: str | None = None

        def can_play_response_for(self, request: Any) -> Any:
            playable = super().can_play_response_for(request)
            if not playable and self.write_protected and self.filter_request(request):
                problem = CannotOverwriteExistingCassetteException(cassette=self, failed_request=request)
                text = str(problem).partition("\n\nHow to fix:")[0]
                self.mismatch = self.mismatch or text.replace(request.uri, self.filter_request(request).uri)
                raise _NotOnTape(self.mismatch)
            return playable

    return Recorder


class _Scrubber:
    """Takes out what must not be written. It learns a program's keys from the requests that carry them."""

    def __init__(self, secrets: Iterable[str], scrub: Callable[[str], str] | None) -> None:
        if isinstance(secrets, str):
            secrets = [secrets]
        self._secrets = {each for each in secrets if each}
        self._secrets |= {
            value for name, value in os.environ.items() if len(value) >= _SHORTEST and _SECRET_VARIABLE.fullmatch(name)
        }
        self._scrub = scrub

    def _learn(self, value: Any) -> None:
        text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
        text = text.removeprefix("Bearer ").removeprefix("Basic ").strip()
        if len(text) >= _SHORTEST:
            self._secrets.add(text)

    def _clean(self, text: str) -> str:
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return self._scrub(text) if self._scrub is not None else text

    def request(self, request: Any) -> Any:
        for name, value in list(request.headers.items()):
            if _SECRET.fullmatch(name) or re.search("key|token|auth|secret", name, re.I):
                self._learn(value)
        parts = urlsplit(request.uri)
        if parts.password:
            self._learn(parts.password)
        query = parse_qsl(parts.query, keep_blank_values=True)
        for name, value in query:
            if _SECRET.fullmatch(name):
                self._learn(value)
        masked = urlencode([(name, MASK if _SECRET.fullmatch(name) else value) for name, value in query], safe="*")
        request.uri = self._clean(urlunsplit(parts._replace(query=masked, netloc=parts.netloc.rpartition("@")[2])))
        request.headers = {
            name: self._clean(str(value))
            for name, value in request.headers.items()
            if name.lower() in _KEPT_IN_REQUESTS
        }
        if request.body:
            request.body = self._body(request.body)
        return request

    def response(self, response: Any) -> Any:
        headers = response["headers"]
        response["headers"] = {
            name: [self._clean(str(each)) for each in (value if isinstance(value, list) else [value])]
            for name, value in headers.items()
            if _KEPT_IN_RESPONSES.fullmatch(name)
        }
        body = response["body"]
        if body.get("string"):
            body["string"] = self._body(body["string"])
        return response

    def _body(self, body: Any) -> Any:
        if hasattr(body, "read"):
            body = body.read()
        elif not isinstance(body, bytes | bytearray | str):
            body = b"".join(body)
        try:
            text = body if isinstance(body, str) else bytes(body).decode()
        except UnicodeDecodeError:  # a picture, an archive, frames: what was sent as a key is taken out all the same
            for secret in self._secrets:
                body = body.replace(secret.encode(), MASK.encode()[: len(secret)].ljust(len(secret), b"*"))
            return body
        try:
            read = json.loads(text)
        except ValueError:
            return self._clean(text).encode()
        hidden = self._masked(read)
        return self._clean(text if hidden == read else json.dumps(hidden, ensure_ascii=False)).encode()

    def _masked(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._masked(each) for each in value]
        if not isinstance(value, dict):
            return value
        masked = {}
        for name, inner in value.items():
            if isinstance(inner, str) and _SECRET.fullmatch(name) and not _NOT_IN_BODIES.fullmatch(name):
                self._learn(inner)
                masked[name] = MASK
            else:
                masked[name] = self._masked(inner)
        return masked


def _play_in_pieces(stack: ExitStack, library: Any) -> None:
    """A recorded stream comes event by event again, not at once: it can be left in the middle, as a real one."""

    class Pieces(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, whole: bytes) -> None:
            self._pieces = (
                re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", whole)
                if b"\n\n" in whole or b"\r\n\r\n" in whole
                else (whole.splitlines(keepends=True))
            )

        def __iter__(self) -> Iterator[bytes]:
            return iter([piece for piece in self._pieces if piece])

        async def __aiter__(self) -> Any:
            for piece in self:
                yield piece

    def cut(response: Any) -> Any:
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        if kind in _STREAMS and isinstance(response.stream, library.ByteStream):
            response.stream = Pieces(b"".join(response.stream))
        return response

    plain, asynchronous = library.HTTPTransport.handle_request, library.AsyncHTTPTransport.handle_async_request

    def handle(self: Any, request: Any) -> Any:
        return cut(plain(self, request))

    async def ahandle(self: Any, request: Any) -> Any:
        return cut(await asynchronous(self, request))

    stack.enter_context(patch.object(library.HTTPTransport, "handle_request", handle))
    stack.enter_context(patch.object(library.AsyncHTTPTransport, "handle_async_request", ahandle))
