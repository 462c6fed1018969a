"""A retriever as a tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from runwell.errors import InvalidInput, UsageError
from runwell.tools.structured import StructuredTool

__all__ = ["create_retriever_tool"]


def create_retriever_tool(
    retriever: Any,
    name: str,
    description: str,
    *,
    document_prompt: Any = None,
    document_separator: str = "\n\n",
    response_format: Literal["content", "content_and_artifact"] = "content",
) -> StructuredTool:
    """A tool that searches with `retriever` and gives the texts of what it finds, best first.

    `retriever` is anything whose `invoke(query)` gives documents (with `page_content` and `metadata`).
    `document_prompt` writes one document: a prompt template over `page_content` and its metadata, or a function of
    the document; by default the text alone. With `response_format="content_and_artifact"` the documents themselves are
    the message's artifact.
    """
    if not callable(getattr(retriever, "invoke", None)):
        raise InvalidInput(
            f"{retriever!r:.200} is no retriever.", hint="It needs an invoke(query) that gives documents."
        )
    write = _writer(document_prompt)

    def told(found: Any) -> Any:
        documents = _documents(found, name)
        text = document_separator.join(write(each) for each in documents) or "Nothing was found."
        return text if response_format == "content" else (text, documents)

    def search(query: Annotated[str, "What to look for, in a few words or a question."]) -> Any:
        return told(retriever.invoke(query))

    async def asearch(query: Annotated[str, "What to look for, in a few words or a question."]) -> Any:
        return told(await retriever.ainvoke(query))

    return StructuredTool.from_function(
        search,
        asearch if callable(getattr(retriever, "ainvoke", None)) else None,
        name=name,
        description=description,
        response_format=response_format,
        read_only=True,
        idempotent=True,
    )


def _writer(prompt: Any) -> Callable[[Any], str]:
    if prompt is None:
        return lambda document: str(document.page_content)
    if callable(getattr(prompt, "format", None)):
        return lambda document: str(prompt.format(**{**document.metadata, "page_content": document.page_content}))
    if callable(prompt):
        return lambda document: str(prompt(document))
    raise InvalidInput(
        f"document_prompt={prompt!r:.100}.", hint="A prompt template over page_content, or a function of a document."
    )


def _documents(found: Any, name: str) -> list[Any]:
    if isinstance(found, Sequence) and all(hasattr(each, "page_content") for each in found):
        return list(found)
    raise UsageError(
        f"The retriever of tool {name!r} gave {found!r:.200}, which are no documents.",
        hint="Its invoke(query) gives a list of Document.",
    )
