"""Pictures of graphs: what is drawn is what can happen, and Mermaid itself reads what we write."""

from __future__ import annotations

import html
import operator
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict
from xml.etree import ElementTree

import mermaidx  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runwell.agents import create_agent
from runwell.agents.middleware import AgentMiddleware, hook_config
from runwell.errors import MissingExtra
from runwell.graph import END, START, Command, Send, StateGraph
from runwell.runnables import Graph, Node, RunnableLambda
from runwell.testing import FakeChatModel


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


def nothing(state: Log) -> None:
    return None


def graph_of(*names: str) -> StateGraph[Log]:
    graph = StateGraph(Log)
    for name in names:
        graph.add_node(name, nothing)
    return graph


def arrows(graph: Graph) -> set[str]:
    """Edges in short: `a -> b`, conditional ones `a ..> b`, labels behind."""
    return {
        f"{edge.source} {'..>' if edge.conditional else '->'} {edge.target}" + (f" {edge.data}" if edge.data else "")
        for edge in graph.edges
    }


def shown_by_mermaid(text: str) -> str:
    """What Mermaid's own parser and renderer make of a text, without markup; raises where it is not valid."""
    svg = mermaidx.render(text).svg()
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.S)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", svg)))


# -- what is drawn


def test_edges_are_drawn_as_they_were_added() -> None:
    graph = graph_of("a", "b", "c", "d")
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge(["b", "c"], "d")
    drawn = graph.compile().get_graph()
    assert list(drawn.nodes) == [START, "a", "b", "c", "d", END]
    assert arrows(drawn) == {
        "__start__ -> a",
        "a -> b",
        "a -> c",
        "b -> d",
        "c -> d",
        "d -> __end__",
    }


def test_conditional_edges_are_marked_and_labelled() -> None:
    graph = graph_of("a", "b").add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: True, {True: "b", False: END})
    graph.add_conditional_edges("b", lambda state: "a", ["a", END])
    assert arrows(graph.compile().get_graph()) == {
        "__start__ -> a",
        "a ..> b True",
        "a ..> __end__ False",
        "b ..> a",
        "b ..> __end__",
    }


def test_a_path_says_where_it_leads_by_its_annotation_or_may_lead_anywhere() -> None:
    def told(state: Log) -> Literal["b", "__end__"]:
        return "b"

    def untold(state: Log) -> Any:
        return [Send("a", {})]

    graph = graph_of("a", "b").add_edge(START, "a").add_conditional_edges("a", told).add_conditional_edges("b", untold)
    assert arrows(graph.compile().get_graph()) == {
        "__start__ -> a",
        "a ..> b",
        "a ..> __end__",
        "b ..> a",
        "b ..> b",
        "b ..> __end__",
    }


def test_jumps_are_drawn_from_destinations_and_from_annotations() -> None:
    def annotated(state: Log) -> Command[Literal["b", "c"]]:
        return Command(goto="b")

    def silent(state: Log) -> Any:
        return Command(goto="c")

    graph = graph_of("c").add_node("annotated", annotated).add_node("b", silent, destinations=["c"])
    drawn = graph.add_node("silent", silent).add_edge(START, "annotated").compile().get_graph()
    assert arrows(drawn) == {
        "__start__ -> annotated",
        "annotated ..> b",
        "annotated ..> c",
        "b ..> c",
        "c -> __end__",
        "silent ..> __end__",
    }


def test_deferred_nodes_and_breakpoints_are_noted() -> None:
    graph = graph_of("a", "b").add_node("last", nothing, defer=True)
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "last")
    drawn = graph.compile(interrupt_before=["b"], interrupt_after=["last"]).get_graph()
    assert {node.id: node.note for node in drawn.nodes.values() if node.note} == {
        "b": "pauses before",
        "last": "deferred, pauses after",
    }


def nested() -> Any:
    deepest = graph_of("z").add_edge(START, "z").compile()
    inner = graph_of("x", "y").add_node("deep", deepest).add_edge(START, "x").add_edge("y", "deep")
    inner.add_conditional_edges("x", lambda state: "go", {"go": "y", "stop": END})
    outer = graph_of("a").add_node("sub", inner.compile()).add_edge(START, "sub")
    return outer.add_conditional_edges("sub", lambda state: "a", {"again": "sub", "on": "a"}).compile()


def test_nested_graphs_are_boxes_and_xray_opens_them() -> None:
    app = nested()
    closed = {"__start__ -> sub", "sub ..> sub again", "sub ..> a on", "a -> __end__"}
    assert arrows(app.get_graph()) == closed
    assert arrows(app.get_graph(xray=0)) == closed
    assert arrows(app.get_graph(xray=1)) == {
        "__start__ -> sub:x",
        "sub:x ..> sub:y go",
        "sub:y -> sub:deep",
        "sub:x ..> sub:x stop / again",
        "sub:x ..> a stop / on",
        "sub:deep ..> sub:x again",
        "sub:deep ..> a on",
        "a -> __end__",
    }
    whole = app.get_graph(xray=True)
    assert whole.groups == {"sub": ("sub", None), "sub:deep": ("deep", "sub")}
    assert [node.name for node in whole.nodes.values() if node.group == "sub:deep"] == ["z"]
    assert arrows(app.get_graph()) == closed, "looking changes nothing"


def test_a_bound_graph_draws_what_it_is_bound_to() -> None:
    app = nested()
    assert arrows(app.with_config(tags=["x"]).get_graph(xray=True)) == arrows(app.get_graph(xray=True))


# -- agents


class Hooks(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_agent(self, state: Any, runtime: Any) -> None: ...

    def before_model(self, state: Any, runtime: Any) -> None: ...

    def after_model(self, state: Any, runtime: Any) -> None: ...

    def after_agent(self, state: Any, runtime: Any) -> None: ...


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def test_a11_an_agent_draws_exactly_the_steps_it_has() -> None:
    drawn = create_agent(FakeChatModel([]), [add], middleware=[Hooks()]).get_graph()
    assert set(drawn.nodes) == {
        START,
        "before_agent",
        "before_model",
        "model",
        "after_model",
        "tools",
        "after_agent",
        END,
    }
    always = {arrow for arrow in arrows(drawn) if "..>" not in arrow}
    assert always == {
        "__start__ -> before_agent",
        "before_agent -> before_model",
        "before_model -> model",
        "model -> after_model",
        "after_agent -> __end__",
    }
    assert arrows(drawn) - always == {
        "before_agent ..> after_agent",  # its jump
        "model ..> after_agent",  # the budget is used up
        "after_model ..> before_model",
        "after_model ..> tools",
        "after_model ..> after_agent",
        "tools ..> before_model",
        "tools ..> tools",
        "tools ..> after_agent",
    }


def test_a11_a_plain_agent_has_a_model_and_its_tools_and_nothing_else() -> None:
    drawn = create_agent(FakeChatModel([]), [add]).get_graph()
    assert set(drawn.nodes) == {START, "model", "tools", END}
    assert set(create_agent(FakeChatModel([])).get_graph().nodes) == {START, "model", END}


# -- Mermaid


@pytest.mark.slow
def test_graph_14_any_name_is_valid_mermaid_made_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("drawing asked for the network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    graph = graph_of("a", "b", "my node (x)", "end").add_edge(START, "a").add_edge("b", "end")
    graph.add_conditional_edges("a", lambda state: "b", {"to b": "b", 'say "no"': "my node (x)"})
    text = graph.compile().get_graph().draw_mermaid()
    lines = [line.strip() for line in text.splitlines()]
    assert 'n1 -.->|"to b"| n2;' in lines
    assert "n2 --> n4;" in lines
    shown = shown_by_mermaid(text)
    for name in ("__start__", " a ", " b ", "my node (x)", " end ", "to b", 'say "no"', "__end__"):
        assert name in shown


NASTY = [
    "graph",
    "subgraph",
    "class x",
    'q"uo"te',
    "semi;colon",
    "[box]",
    "{brace}",
    "(paren",
    "a --> b",
    "#quot;",
    "&lt;b&gt;",
    "<b>bold</b>",
    "`**md**`",
    "1. first",
    "- item",
    "%% comment",
    "back\\slash",
    "größe 模型 🙂",
    "click me",
    "$$x^2$$",
]


@pytest.mark.slow
def test_mermaid_shows_every_name_as_it_is() -> None:
    graph = graph_of(*NASTY)
    for name in NASTY:
        graph.add_edge(START, name)
    shown = shown_by_mermaid(graph.compile().get_graph().draw_mermaid())
    missing = [name for name in NASTY if name not in shown]
    assert missing == []


@pytest.mark.slow
def test_mermaid_reads_nested_groups_and_notes() -> None:
    shown = shown_by_mermaid(nested().get_graph(xray=True).draw_mermaid())
    for text in ("sub", "deep", " x ", " y ", " z ", "stop / again"):
        assert text in shown
    graph = graph_of("a").add_edge(START, "a").compile(interrupt_before="*")
    assert "a pauses before" in shown_by_mermaid(graph.get_graph().draw_mermaid())


@given(st.text(max_size=30))
def test_a_label_holds_nothing_that_mermaid_could_read_as_its_own(text: str) -> None:
    drawn = Graph(nodes={"a": Node("a", text, data=1)})
    [_, line] = drawn.draw_mermaid().splitlines()
    found = re.fullmatch(r'    n0\["(.*)"\];', line)
    assert found is not None
    inside = re.sub(r"#\d+;|<br/>", "", found[1])
    assert not set(inside) & set('"#;<>&`*[]{}\\\n\r%$.-')
    back = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), found[1].replace("<br/>", "\n"))
    assert back == (text or " ")


# -- plain text


def test_the_text_picture_of_an_agent() -> None:
    drawn = create_agent(FakeChatModel([]), [add]).get_graph().draw_ascii()
    assert drawn.splitlines() == [
        "__start__",
        "    |",
        "    v",
        "  model .....+",
        "    : <......+",
        "    : .........+",
        "    : <......+ :",
        "    v        : :",
        "  tools .....+ :",
        "    : .......+ :",
        "    : <......+ :",
        "    v          :",
        " __end__ <.....+",
    ]


def test_the_text_picture_has_labels_nested_nodes_and_notes() -> None:
    text = nested().get_graph(xray=True).draw_ascii()
    for part in ("sub:x", "sub:deep:z", " go", " stop / on ", "__end__"):
        assert part in text
    graph = graph_of("a").add_edge(START, "a").compile(interrupt_before="*")
    assert "a (pauses before)" in graph.get_graph().draw_ascii()


@given(
    st.integers(1, 6).flatmap(
        lambda size: st.tuples(
            st.just(size),
            st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1), st.booleans()), max_size=8),
        )
    )
)
def test_every_node_and_every_edge_is_in_the_text_picture(made: Any) -> None:
    size, edges = made
    drawn = Graph()
    nodes = [drawn.add_node(None, f"node{at}") for at in range(size)]
    for source, target, conditional in edges:
        drawn.add_edge(nodes[source], nodes[target], conditional=conditional)
    text = drawn.draw_ascii()
    assert all(text.count(f"node{at}") == 1 for at in range(size))
    below = sum(line.strip() == "v" or line.strip().startswith("v ") for line in text.splitlines())
    assert below + text.count("<") == len(edges)
    assert text.count("+") == 2 * text.count("<")
    assert not any(line != line.rstrip() for line in text.splitlines())


# -- SVG and PNG


def svg_texts(svg: str) -> list[str]:
    """The lines of text that a valid SVG document shows."""
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "foreignObject" not in {element.tag.rpartition("}")[2] for element in root.iter()}, "not only for browsers"
    rows = list(root.iter("{http://www.w3.org/2000/svg}text"))
    return [" ".join("".join(row.itertext()).split()) for row in rows]


@pytest.mark.slow
def test_graph_14_svg_and_png_are_made_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("drawing asked for the network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    drawn = nested().get_graph(xray=True)
    svg = drawn.draw_svg(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8") == svg
    assert {"__start__", "sub", "deep", "x", "y", "z", "stop / again", "__end__"} <= set(svg_texts(svg))
    styles = [e.get("class", "").split() for e in ElementTree.fromstring(svg).iter() if e.get("data-edge") == "true"]
    assert sum("edge-pattern-dotted" in style for style in styles) == sum(edge.conditional for edge in drawn.edges)
    assert len(styles) == len(drawn.edges)
    png = drawn.draw_png(tmp_path / "graph.png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert (tmp_path / "graph.png").read_bytes() == png
    assert drawn.draw_mermaid_png(background_color="transparent")[:8] == png[:8]


@pytest.mark.slow
def test_an_svg_shows_every_name_as_it_is() -> None:
    graph = graph_of(*NASTY, "my-svg", "id=my-svg")
    for name in [*NASTY, "my-svg", "id=my-svg"]:
        graph.add_edge(START, name)
    shown = svg_texts(graph.compile().get_graph().draw_svg())
    missing = [name for name in [*NASTY, "my-svg", "id=my-svg"] if name not in shown]
    assert missing == []


@pytest.mark.slow
def test_two_pictures_share_no_ids() -> None:
    ids = [
        {value for element in ElementTree.fromstring(svg).iter() if (value := element.get("id"))}
        for svg in (nested().get_graph().draw_svg(), nested().get_graph(xray=True).draw_svg())
    ]
    assert ids[0]
    assert ids[0].isdisjoint(ids[1])


@pytest.mark.slow
def test_a_chain_is_drawn_by_the_same_code_and_opens_graphs_in_it() -> None:
    chain = RunnableLambda(str) | nested() | {"left": RunnableLambda(str), "right": RunnableLambda(repr)}
    assert {"left", "right"} <= set(svg_texts(chain.get_graph().draw_svg()))
    assert chain.get_graph().groups == {}
    once, whole = chain.get_graph(xray=1), chain.get_graph(xray=True)
    assert [name for name, _ in once.groups.values()] == ["graph"]
    assert [name for name, _ in whole.groups.values()] == ["graph", "sub", "deep"]
    assert {"graph", "sub", "deep", "x", "z", "left"} <= set(svg_texts(whole.draw_svg()))


def test_without_the_library_an_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mermaidx", None)
    with pytest.raises(MissingExtra, match=r"runwell\[draw\]"):
        nested().get_graph().draw_svg()
