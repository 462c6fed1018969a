"""What retrieval works on: `Document` (a text and what is known about it) and `Blob` (bytes not yet read)."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any

from runwell.errors import InvalidInput

__all__ = ["Blob", "Document"]


@dataclass(slots=True)
class Document:
    """A text and what is known about it. Equal when all three fields are."""

    page_content: str
    """The text."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """What is known about the text: `source` by convention, and page, title, access tags and so on."""
    id: str | None = None
    """A name that is unique among the documents of a store, or None."""

    def __post_init__(self) -> None:
        if not isinstance(self.page_content, str):
            raise InvalidInput(
                f"A document's page_content is a string, not {self.page_content!r:.100}.",
                hint="Decode bytes first, or load them as a Blob with a loader.",
            )

    def __str__(self) -> str:
        return f"page_content={self.page_content!r} metadata={self.metadata!r}" if self.metadata else self.page_content


@dataclass(slots=True)
class Blob:
    """Raw data, in memory or in a file that is read when asked for.

    Holds `data`, or reads the file `path` when asked (which may raise OSError).
    """

    data: bytes | str | None = None
    """The content; None when it stands in the file `path`."""
    mimetype: str | None = None
    """What kind of content it is, such as `text/html`; None when not known."""
    encoding: str = "utf-8"
    """How the bytes of a text are to be read."""
    path: str | Path | None = None
    """Where the content stands; with `data`, where it came from."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """What is known about the content; `source` overrides the path as its origin."""
    id: str | None = None
    """A name that is unique among blobs, or None."""

    def __post_init__(self) -> None:
        if self.data is None and self.path is None:
            raise InvalidInput("A blob needs data or a path.", hint="Blob(data=…) or Blob.from_path(…)")

    @classmethod
    def from_path(
        cls,
        path: str | Path,
        *,
        encoding: str = "utf-8",
        mime_type: str | None = None,
        guess_type: bool = True,
        metadata: dict[str, Any] | None = None,
    ) -> Blob:
        """A blob that reads `path` when asked; the type is guessed from the file's name unless given."""
        if mime_type is None and guess_type:
            mime_type = mimetypes.guess_type(str(path))[0]
        return cls(path=path, mimetype=mime_type, encoding=encoding, metadata=dict(metadata or {}))

    @classmethod
    def from_data(
        cls,
        data: bytes | str,
        *,
        encoding: str = "utf-8",
        mime_type: str | None = None,
        path: str | Path | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Blob:
        """A blob that holds `data`; `path` says where it came from."""
        return cls(data=data, path=path, mimetype=mime_type, encoding=encoding, metadata=dict(metadata or {}))

    @property
    def source(self) -> str | None:
        """Where the content came from: `metadata["source"]`, else the path, else None."""
        if "source" in self.metadata:
            return str(self.metadata["source"])
        return None if self.path is None else str(self.path)

    def as_bytes(self) -> bytes:
        """The content as bytes."""
        if isinstance(self.data, str):
            return self.data.encode(self.encoding)
        return self.data if self.data is not None else Path(self._file()).read_bytes()

    def as_string(self) -> str:
        """The content as text. Raises UnicodeDecodeError when `encoding` does not fit it."""
        return self.data if isinstance(self.data, str) else self.as_bytes().decode(self.encoding)

    @contextmanager
    def as_bytes_io(self) -> Iterator[BytesIO | BufferedReader]:
        """The content as an open binary file, for the length of a `with` block."""
        if self.data is not None:
            yield BytesIO(self.as_bytes())
            return
        with open(self._file(), "rb") as file:
            yield file

    def _file(self) -> str | Path:
        assert self.path is not None
        return self.path

    def __repr__(self) -> str:
        return f"Blob({self.source or self.id or 'in memory'!r}, mimetype={self.mimetype!r})"
