"""What a docstring tells the model (SEATS B11)."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from runwell.errors import ToolDefinitionError
from runwell.schemas.docstring import read_docstring
from runwell.tools import ToolRuntime, tool


def google(query: str, top_k: int = 5) -> str:
    """Search the index.

    Use it for facts that change:
    prices, news.

    Args:
        query (str): What to look for,
            in plain words.
        top_k (int, optional): How many: at most ten.

    Returns:
        The passages.

    Examples:
        search("x")
            indented

    Raises:
        ValueError: when empty
    """
    return query


def numpy(query: str, top_k: int = 5) -> str:
    """Search the index.

    Use it for facts that change:
    prices, news.

    Parameters
    ----------
    query : str
        What to look for,
        in plain words.
    top_k : int, optional
        How many: at most ten.

    Returns
    -------
    str
        The passages.

    Examples
    --------
    search("x")
        indented
    """
    return query


def sphinx(query: str, top_k: int = 5) -> str:
    """Search the index.

    Use it for facts that change:
    prices, news.

    :param query: What to look for,
        in plain words.
    :type query: str
    :param int top_k: How many: at most ten.
    :returns: The passages.
    :raises ValueError: when empty
    """
    return query


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_tool_14_every_style_describes_the_tool_and_its_arguments_with_no_flag(function: Any) -> None:
    made = tool(function)
    text = "Search the index.\n\nUse it for facts that change:\nprices, news."
    examples = "" if function is sphinx else '\n\nExamples:\nsearch("x")\n    indented'
    assert made.description == text + examples
    assert made.args == {
        "query": {"type": "string", "description": "What to look for, in plain words."},
        "top_k": {"type": "integer", "default": 5, "description": "How many: at most ten."},
    }


def test_tool_10_two_paragraphs_then_args() -> None:
    def run(query: str) -> str:
        """Summary.

        A second paragraph.

        Args:
            query: The words.

        Returns:
            Something.
        """
        return query

    made = tool(run, parse_docstring=True)
    assert made.description == "Summary.\n\nA second paragraph."
    assert made.args["query"]["description"] == "The words."


def test_tool_11_a_typed_argument() -> None:
    def run(x: int) -> int:
        """Run.

        Args:
            x (int): the value
        """
        return x

    assert tool(run, parse_docstring=True).args["x"]["description"] == "the value"


def test_tool_12_other_sections_do_not_reach_the_model() -> None:
    def run(x: int) -> int:
        """Summary line.

        Raises:
            ValueError: never mind
            without a colon

        Args:
            x: A number.

        Note:
            For maintainers.
        """
        return x

    made = tool(run)
    assert made.description == "Summary line."
    assert made.args["x"]["description"] == "A number."


def stale(query: str) -> str:
    """Search.

    Args:
        querry: What to look for.
    """
    return query


def test_an_argument_the_signature_lacks_warns_where_the_function_is() -> None:
    with pytest.warns(UserWarning, match="'querry', which is no parameter; did you mean 'query'") as caught:
        made = tool(stale)
    assert caught[0].filename == __file__
    assert caught[0].lineno == stale.__code__.co_firstlineno
    assert made.description == "Search."


def test_an_argument_the_signature_lacks_is_refused_when_strict() -> None:
    with pytest.raises(ToolDefinitionError, match="did you mean 'query'") as caught:
        tool(stale, parse_docstring=True)
    assert __file__ in str(caught.value)
    with pytest.warns(UserWarning, match="querry"):
        tool(stale, parse_docstring=True, error_on_invalid_docstring=False)


def test_parse_docstring_false_takes_the_docstring_whole() -> None:
    made = tool(google, parse_docstring=False)
    assert made.description.startswith("Search the index.")
    assert "Raises:" in made.description
    assert made.args["query"] == {"type": "string"}


def test_no_docstring_is_refused_naming_function_file_and_line() -> None:
    def bare(x: int) -> int:
        return x

    with pytest.raises(ToolDefinitionError, match="neither a docstring nor a description") as caught:
        tool(bare)
    assert f"bare ({__file__}:{bare.__code__.co_firstlineno})" in str(caught.value)

    def only_sections(x: int) -> int:
        """
        Args:
            x: A number.
        """
        return x

    with pytest.raises(ToolDefinitionError):
        tool(only_sections)
    assert tool(bare, description="Given.").description == "Given."


def test_descriptions_in_the_annotation_come_before_those_in_the_docstring() -> None:
    @tool
    def run(a: Annotated[int, Field(description="from Field")], b: Annotated[int, "from Annotated"], c: int) -> int:
        """Run.

        Args:
            a: from the docstring
            b: from the docstring
            c: from the docstring
        """
        return a

    assert [each["description"] for each in run.args.values()] == ["from Field", "from Annotated", "from the docstring"]


def test_documented_injected_and_open_arguments_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @tool
        def run(a: int, runtime: ToolRuntime) -> int:
            """Run.

            Args:
                a: A number.
                runtime: The run.
            """
            return a

        @tool
        def more(a: int, **options: Any) -> int:
            """Run.

            Args:
                a: A number.
                verbose: An option.
                **options: Others.
            """
            return a

    assert "runtime" not in str(run.json_schema())


def test_an_args_section_that_cannot_be_read_warns_and_leaves_the_rest() -> None:
    def run(x: int) -> int:
        """Run.

        Args:
            just words
        """
        return x

    with pytest.warns(UserWarning, match="cannot be read"):
        made = tool(run)
    assert made.description == "Run."


def test_one_numpy_entry_for_two_parameters() -> None:
    @tool
    def run(x: int, y: int) -> int:
        """Add.

        Parameters
        ----------
        x, y : int
            Numbers to add.
        """
        return x + y

    assert {each["description"] for each in run.args.values()} == {"Numbers to add."}


words = st.sampled_from(
    [
        "Args:",
        "Returns:",
        "Parameters",
        "----------",
        "Examples:",
        ":param x: y",
        ":raises",
        "x: y",
        "x (int): z",
        "    ",
        "\n",
        "\n\n",
        "text",
        ":",
        "-",
        "é",
    ]
)


@given(st.lists(words, max_size=12).map(lambda parts: "\n".join(parts)) | st.text(max_size=80))
def test_no_docstring_breaks_the_reader(text: str) -> None:
    read = read_docstring(text)
    assert isinstance(read.description, str)
    assert all(isinstance(name, str) for name in read.arguments)
