"""A retriever as a tool."""

from __future__ import annotations

from typing import Any

import pytest

from runwell.documents import Document
from runwell.errors import InvalidInput, UsageError
from runwell.prompts import PromptTemplate
from runwell.runnables import RunnableLambda
from runwell.tools.kits import create_retriever_tool

DOCUMENTS = [Document("Cats purr.", {"source": "a"}), Document("Dogs bark.", {"source": "b"})]


class Async:
    async def ainvoke(self, query: str) -> list[Document]:
        return [Document(f"async {query}")]

    def invoke(self, query: str) -> list[Document]:
        return [Document(f"plain {query}")]


def found(query: str) -> list[Document]:
    return [each for each in DOCUMENTS if query.lower() in each.page_content.lower() or query == "all"]


retriever = RunnableLambda(found)
CALL = {"type": "tool_call", "name": "animals", "id": "1", "args": {"query": "all"}}


def test_it_gives_the_texts(driver: Any) -> None:
    made = create_retriever_tool(retriever, "animals", "Search what is known of animals.")
    assert driver.invoke(made, {"query": "all"}) == "Cats purr.\n\nDogs bark."
    assert driver.invoke(made, {"query": "fish"}) == "Nothing was found."
    assert (made.name, made.description, made.read_only) == ("animals", "Search what is known of animals.", True)
    assert set(made.args) == {"query"}
    assert driver.invoke(made, CALL).artifact is None


def test_each_colour_is_called_in_its_own(driver: Any) -> None:
    made = create_retriever_tool(Async(), "animals", "Search.")
    assert driver.invoke(made, {"query": "x"}) == ("async x" if driver.colour == "async" else "plain x")


@pytest.mark.parametrize(
    "prompt",
    [PromptTemplate.from_template("{source}: {page_content}"), lambda d: f"{d.metadata['source']}: {d.page_content}"],
)
def test_how_a_document_is_written(prompt: Any, driver: Any) -> None:
    made = create_retriever_tool(retriever, "animals", "Search.", document_prompt=prompt, document_separator="\n")
    assert driver.invoke(made, {"query": "all"}) == "a: Cats purr.\nb: Dogs bark."


def test_the_documents_beside_the_text(driver: Any) -> None:
    made = create_retriever_tool(retriever, "animals", "Search.", response_format="content_and_artifact")
    answer = driver.invoke(made, CALL)
    assert (answer.text, answer.artifact) == ("Cats purr.\n\nDogs bark.", DOCUMENTS)


def test_what_is_no_retriever() -> None:
    with pytest.raises(InvalidInput, match="is no retriever"):
        create_retriever_tool(3, "x", "y")
    with pytest.raises(InvalidInput, match="document_prompt=3"):
        create_retriever_tool(retriever, "x", "y", document_prompt=3)
    with pytest.raises(UsageError, match="'x' gave 'text', which are no documents"):
        create_retriever_tool(RunnableLambda(lambda query: "text"), "x", "y").invoke({"query": "q"})
