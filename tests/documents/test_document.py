"""Documents and blobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter

from runwell.documents import Blob, Document
from runwell.errors import InvalidInput


def test_a_document_is_a_text_and_what_is_known_about_it() -> None:
    document = Document("text", metadata={"source": "a.txt"}, id="1")
    assert document == Document(page_content="text", metadata={"source": "a.txt"}, id="1")
    assert str(Document("text")) == "text"
    assert Document("a").metadata is not Document("b").metadata
    with pytest.raises(InvalidInput, match="page_content is a string, not b'x'"):
        Document(b"x")  # type: ignore[arg-type]


def test_documents_go_through_json() -> None:
    adapter = TypeAdapter(list[Document])
    documents = [Document("text", metadata={"page": 1})]
    assert adapter.validate_json(adapter.dump_json(documents)) == documents


def test_a_blob_reads_its_file_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    blob = Blob.from_path(path, encoding="latin-1", metadata={"page": 1})
    assert (blob.mimetype, blob.source) == ("text/html", str(path))
    with pytest.raises(FileNotFoundError):
        blob.as_bytes()
    path.write_bytes("Grüße".encode("latin-1"))
    assert blob.as_string() == "Grüße"
    with blob.as_bytes_io() as file:
        assert file.read() == "Grüße".encode("latin-1")


def test_a_blob_in_memory() -> None:
    blob = Blob.from_data("Grüße", mime_type="text/plain", metadata={"source": "mail"})
    assert blob.as_bytes() == "Grüße".encode()
    assert Blob.from_data(b"ab").as_string() == "ab"
    with blob.as_bytes_io() as file:
        assert file.read() == "Grüße".encode()
    assert blob.source == "mail"
    assert Blob.from_data("x").source is None
    with pytest.raises(InvalidInput, match="data or a path"):
        Blob()
