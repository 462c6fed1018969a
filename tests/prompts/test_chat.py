"""Chat prompts: their entries, their variables, and what they fill to."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from runwell.errors import InvalidInput
from runwell.messages.chunks import AIMessageChunk
from runwell.messages.message import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from runwell.prompts import (
    AIMessagePromptTemplate,
    ChatMessagePromptTemplate,
    ChatPromptTemplate,
    ChatPromptValue,
    FewShotChatMessagePromptTemplate,
    HumanMessagePromptTemplate,
    MessagesPlaceholder,
    PromptTemplate,
    SystemMessagePromptTemplate,
    load_prompt,
)

SUPPORT = ChatPromptTemplate.from_messages(
    [
        ("system", "You are a support agent for {product}. Be concise."),
        MessagesPlaceholder("history"),
        ("human", "{input}"),
    ]
)


def test_a_conversation_is_filled_in_order() -> None:
    history: list[BaseMessage] = [HumanMessage("Hi"), AIMessage("Hello")]
    value = SUPPORT.invoke({"product": "Acme", "history": history, "input": "Why?"})
    assert isinstance(value, ChatPromptValue)
    assert value.to_messages() == [
        SystemMessage("You are a support agent for Acme. Be concise."),
        *history,
        HumanMessage("Why?"),
    ]
    assert value.to_messages()[1] is history[0]
    assert value.to_string() == (
        "System: You are a support agent for Acme. Be concise.\nHuman: Hi\nAI: Hello\nHuman: Why?"
    )
    assert SUPPORT.input_variables == ["history", "input", "product"]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("Hi {x}", HumanMessage("Hi 1")),
        (("human", "Hi {x}"), HumanMessage("Hi 1")),
        (("user", "Hi {x}"), HumanMessage("Hi 1")),
        (("ai", "Hi {x}"), AIMessage("Hi 1")),
        (["assistant", "Hi {x}"], AIMessage("Hi 1")),
        (("system", "Hi {x}"), SystemMessage("Hi 1")),
        ({"role": "system", "content": "Hi {x}"}, SystemMessage("Hi 1")),
        ((HumanMessage, "Hi {x}"), HumanMessage("Hi 1")),
        ((AIMessagePromptTemplate, "Hi {x}"), AIMessage("Hi 1")),
        (PromptTemplate.from_template("Hi {x}"), HumanMessage("Hi 1")),
        (SystemMessagePromptTemplate.from_template("Hi {x}"), SystemMessage("Hi 1")),
        (ChatMessagePromptTemplate.from_template("Hi {x}", role="judge"), ChatMessage("Hi 1", role="judge")),
        (ChatPromptTemplate.from_template("Hi {x}"), HumanMessage("Hi 1")),
    ],
)
def test_every_kind_of_entry(entry: Any, message: BaseMessage) -> None:
    prompt = ChatPromptTemplate.from_messages([entry])
    assert prompt.input_variables == ["x"]
    assert prompt.format_messages(x=1) == [message]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (("humna", "x"), "did you mean 'human'"),
        (("tool", "x"), "the role 'tool'"),
        (7, "is no message"),
        (("human", "a", "b"), "is no message"),
        (("human", 7), "a text or a list of blocks"),
        (("human", [7]), "neither a text nor a dict"),
        (("placeholder", "history"), "not one variable in braces"),
        (("placeholder", "{a} {b}"), "not one variable in braces"),
        (("system", "ok {"), "In entry 1 of the chat prompt"),
    ],
)
def test_an_entry_that_is_none_is_refused_with_its_place(entry: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        ChatPromptTemplate.from_messages([("human", "fine"), entry])


def test_a_bare_text_is_no_list_of_messages() -> None:
    with pytest.raises(InvalidInput, match="made of a list of messages"):
        ChatPromptTemplate.from_messages("You are {name}")


def test_safe_01_literal_braces_in_a_message() -> None:
    """SAFE-01"""
    text = 'use {} and {"a": 1}'
    prompt = ChatPromptTemplate.from_messages([SystemMessage(text), ("human", "{q}")])
    assert prompt.input_variables == ["q"]
    assert prompt.format_messages(q="{x}") == [SystemMessage(text), HumanMessage("{x}")]
    with pytest.raises(InvalidInput, match=r"entry 0 of the chat prompt.*line 1, column 5"):
        ChatPromptTemplate.from_messages([("system", text)])


def test_a_message_given_as_it_is_stays_as_it_is() -> None:
    given = SystemMessage("Be kind.")
    prompt = ChatPromptTemplate.from_messages([given])
    first = prompt.format_messages()[0]
    first.content = "Be rude."
    assert prompt.format_messages() == [SystemMessage("Be kind.")]
    assert given.content == "Be kind."


def test_a_placeholder_takes_anything_that_is_a_message() -> None:
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history")])
    filled = prompt.format_messages(history=[("human", "{not a blank}"), {"role": "assistant", "content": "b"}])
    assert filled == [HumanMessage("{not a blank}"), AIMessage("b")]
    for wrong in ("text", HumanMessage("x"), None, {"role": "user"}):
        with pytest.raises(InvalidInput, match="'history' takes a list of messages"):
            prompt.format_messages(history=wrong)
    with pytest.raises(InvalidInput, match="The placeholder 'history' takes messages"):
        prompt.format_messages(history=[object()])


def test_an_optional_placeholder_may_be_left_out() -> None:
    prompt = ChatPromptTemplate.from_messages(
        [("placeholder", "{history}"), MessagesPlaceholder("notes", optional=True), ("human", "{q}")]
    )
    assert prompt.input_variables == ["q"]
    assert prompt.optional_variables == ["history", "notes"]
    assert prompt.format_messages(q="x") == [HumanMessage("x")]
    assert prompt.format_messages(q="x", notes=[AIMessage("n")]) == [AIMessage("n"), HumanMessage("x")]


def test_the_last_messages_of_a_placeholder_never_begin_with_a_lost_tool_result() -> None:
    call = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1", "type": "tool_call"}])
    history = [HumanMessage("a"), call, ToolMessage("r", tool_call_id="1"), AIMessage("b")]
    taken = {
        n: ChatPromptTemplate([MessagesPlaceholder("h", n_messages=n)]).format_messages(h=history) for n in range(1, 6)
    }
    assert taken == {1: history[3:], 2: history[3:], 3: history[1:], 4: history, 5: history}
    with pytest.raises(InvalidInput, match="at least 1"):
        MessagesPlaceholder("h", n_messages=0)


def test_every_missing_variable_of_the_whole_prompt_is_listed() -> None:
    with pytest.raises(InvalidInput) as caught:
        SUPPORT.invoke({"product": "Acme", "inptu": "x"})
    assert "needs the variables 'history', 'input'" in caught.value.message
    assert "'product', 'inptu'" in caught.value.message


def test_a_bare_value_fills_the_only_variable() -> None:
    assert ChatPromptTemplate.from_template("Hi {x}").invoke("you").to_messages() == [HumanMessage("Hi you")]
    with pytest.raises(InvalidInput, match="takes a dict with the variables 'history', 'input', 'product'"):
        SUPPORT.invoke("you")


def test_values_set_beforehand() -> None:
    calls = []

    def today() -> str:
        calls.append(1)
        return f"day {len(calls)}"

    prompt = SUPPORT.partial(product="Acme", history=[]) + ("human", "It is {today}.")  # noqa: RUF005
    prompt = prompt.partial(today=today)
    assert prompt.input_variables == ["input"]
    assert not calls
    assert prompt.format_messages(input="x")[-1] == HumanMessage("It is day 1.")
    assert prompt.format_messages(input="x")[-1] == HumanMessage("It is day 2.")
    assert prompt.format_messages(input="x", today="now")[-1] == HumanMessage("It is now.")
    assert SUPPORT.input_variables == ["history", "input", "product"]
    with pytest.raises(InvalidInput, match="no variable 'prodct'; did you mean 'product'"):
        SUPPORT.partial(prodct="x")


def test_a_message_template_may_have_values_of_its_own() -> None:
    part = SystemMessagePromptTemplate.from_template("{a} {b}", partial_variables={"a": lambda: "A"})
    prompt = ChatPromptTemplate.from_messages([part])
    assert prompt.input_variables == ["b"]
    assert prompt.format_messages(b="B") == [SystemMessage("A B")]


def test_prompts_are_joined_cut_and_extended() -> None:
    one, two = ChatPromptTemplate.from_template("{a}"), ChatPromptTemplate([("ai", "{b}")])
    joined = one + two + SystemMessage("{s}")
    joined = joined + "{c}" + [("ai", "{d}"), "{e}"] + ("human", "{f}")
    assert joined.input_variables == ["a", "b", "c", "d", "e", "f"]
    assert len(joined) == 7
    assert [type(message) for message in joined.format_messages(**dict.fromkeys("abcdef", "x"))] == [
        *(HumanMessage, AIMessage, SystemMessage, HumanMessage, AIMessage, HumanMessage, HumanMessage)
    ]
    assert joined[0] == HumanMessagePromptTemplate.from_template("{a}")
    assert joined[1:3] == ChatPromptTemplate([("ai", "{b}"), SystemMessage("{s}")])
    assert (HumanMessagePromptTemplate.from_template("{a}") + two) == one + two
    grown = one[:]
    grown.append(("ai", "{z}"))
    grown.extend(["{y}", MessagesPlaceholder("x")])
    assert grown.input_variables == ["a", "x", "y", "z"]
    with pytest.raises(InvalidInput, match="Entry 5"):
        grown.extend(["{fine}", ("nobody", "x")])
    assert len(grown) == 4
    assert one.input_variables == ["a"]


def test_two_prompts_that_set_a_variable_differently_are_not_joined() -> None:
    one, two = (ChatPromptTemplate.from_template("{a}").partial(a=value) for value in (1, 2))
    with pytest.raises(InvalidInput, match="set the variable 'a' beforehand"):
        one + two


def test_content_of_several_blocks() -> None:
    prompt = ChatPromptTemplate.from_messages(
        [
            (
                "human",
                [
                    "Look at {what}.",
                    {"text": "Closely, {who}."},
                    {"type": "image_url", "image_url": "https://x.test/{what}.png"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,{data}", "detail": "low"}},
                    {"type": "file", "file": {"ids": ["{a}", 7]}, "cache_control": {"type": "ephemeral"}},
                ],
            )
        ]
    )
    assert prompt.input_variables == ["a", "data", "what", "who"]
    (message,) = prompt.format_messages(what="it", who="you", data="Zm9v", a="A")
    assert message.content == [
        {"type": "text", "text": "Look at it."},
        {"type": "text", "text": "Closely, you."},
        {"type": "image_url", "image_url": {"url": "https://x.test/it.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,Zm9v", "detail": "low"}},
        {"type": "file", "file": {"ids": ["A", 7]}, "cache_control": {"type": "ephemeral"}},
    ]


def test_mustache_in_a_conversation() -> None:
    prompt = ChatPromptTemplate.from_messages(
        [("system", 'Answer as {"a": 1}, {{name}}.'), ("placeholder", "{{history}}")], template_format="mustache"
    )
    assert prompt.input_variables == ["name"]
    assert prompt.format_messages(name="Ann", history=[]) == [SystemMessage('Answer as {"a": 1}, Ann.')]


def test_declared_variables_have_to_be_the_real_ones() -> None:
    assert ChatPromptTemplate([("human", "{a}")], input_variables=["a"]).input_variables == ["a"]
    with pytest.raises(InvalidInput, match="input_variables says"):
        ChatPromptTemplate([("human", "{a}")], input_variables=["b"])
    with pytest.raises(InvalidInput, match="input_variables says"):
        PromptTemplate("{a}", input_variables=["a", "b"])


# -- safety


class Vault:
    password = "hunter2"


def forged(template: str) -> PromptTemplate:
    """A prompt whose constructor, and so whose first check, never ran."""

    class Forged(PromptTemplate):
        def __init__(self, template: str) -> None:
            self.name = None
            self.template = template
            self.template_format = "f-string"
            self.partial_variables = {}

    return Forged(template)


@pytest.mark.parametrize("template", ["Hello {u.password}", "{u[0].__class__}", "{u.__init__.__globals__}"])
def test_safe_04_no_way_of_getting_a_template_gets_round_the_check(template: str) -> None:
    """SAFE-04"""
    with pytest.raises(InvalidInput, match="reaches inside"):
        PromptTemplate.from_template(template)
    with pytest.raises(InvalidInput, match="reaches inside"):
        ChatPromptTemplate.from_messages([("human", template)])

    changed = PromptTemplate.from_template("{u}")
    changed.format(u=1)
    changed.template = template
    bare = object.__new__(PromptTemplate)
    bare.__dict__.update(vars(changed))
    stale = PromptTemplate.from_template("{u}")
    stale.format(u=1)
    stale.__dict__["template"] = template
    inside = HumanMessagePromptTemplate.from_template("{u}")
    inside.prompt.template = template  # type: ignore[union-attr]

    for prompt in (
        forged(template),
        copy.deepcopy(forged(template)),
        changed,
        copy.copy(changed),
        copy.deepcopy(changed),
        pickle.loads(pickle.dumps(changed)),
        bare,
        stale,
    ):
        with pytest.raises(InvalidInput, match="reaches inside"):
            prompt.format(u=Vault())
        with pytest.raises(InvalidInput, match="reaches inside"):
            prompt.invoke({"u": Vault()})
    for get in (lambda: inside, lambda: copy.deepcopy(inside), lambda: pickle.loads(pickle.dumps(inside))):
        with pytest.raises(InvalidInput, match="reaches inside"):
            get().format(u=Vault())


def test_copies_and_pickles_are_the_same_prompt() -> None:
    prompt = ChatPromptTemplate.from_messages(
        [
            SystemMessage("{literal}"),
            ("human", ["{a}", {"type": "image_url", "image_url": "{b}"}]),
            ChatMessagePromptTemplate.from_template("{c}", role="judge"),
            MessagesPlaceholder("history", n_messages=2),
            FewShotChatMessagePromptTemplate(
                examples=[{"q": "1", "r": "2"}], example_prompt=ChatPromptTemplate([("human", "{q}"), ("ai", "{r}")])
            ),
        ]
    ).partial(c="C")
    values = {"a": 1, "b": 2, "history": [HumanMessage("x")]}
    for other in (copy.copy(prompt), copy.deepcopy(prompt), pickle.loads(pickle.dumps(prompt))):
        assert other.input_variables == prompt.input_variables
        assert other.format_messages(**values) == prompt.format_messages(**values)


def test_safe_05_a_prompt_file_runs_nothing(tmp_path: Path) -> None:
    """SAFE-05"""
    marker = tmp_path / "marker"
    file = tmp_path / "prompt.json"
    attack = f"{{{{ cycler.__init__.__globals__.os.system('touch {marker}') }}}}"
    nested = {"_type": "few_shot", "examples": [], "example_prompt": {"template": attack, "template_format": "jinja2"}}
    for config in (
        {"_type": "prompt", "template": attack, "template_format": "jinja2"},
        {"_type": "chat", "messages": [["human", attack]], "template_format": "jinja2"},
        nested,
    ):
        file.write_text(json.dumps(config))
        with pytest.raises(InvalidInput, match="may not choose the template format 'jinja2'"):
            load_prompt(file)
    assert not marker.exists()


def test_prompts_from_files(tmp_path: Path) -> None:
    def load(config: Any) -> Any:
        file = tmp_path / "prompt.json"
        file.write_text(json.dumps(config))
        return load_prompt(file)

    assert load({"_type": "prompt", "input_variables": ["x"], "template": "Hi {x}"}) == PromptTemplate("Hi {x}")
    chat = load({"messages": [["system", "Hi {x}"], {"role": "ai", "content": "{y}"}, {"placeholder": "history"}]})
    assert chat == ChatPromptTemplate([("system", "Hi {x}"), ("ai", "{y}"), MessagesPlaceholder("history")])
    few = load(
        {
            "_type": "few_shot",
            "example_prompt": {"_type": "prompt", "template": "{a}={b}"},
            "examples": [{"a": "1", "b": "2"}],
            "suffix": "{q}=",
        }
    )
    assert few.format(q="3") == "1=2\n\n3="
    for config, said in (
        ([], "described by an object"),
        ({"_type": "promt", "template": ""}, "did you mean 'prompt'"),
        ({"_type": "prompt", "tempalte": ""}, "did you mean 'template'"),
        ({"_type": "chat"}, "needs the key 'messages'"),
        ({"template": "{u.x}"}, "reaches inside"),
    ):
        with pytest.raises(InvalidInput, match=said):
            load(config)
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(InvalidInput, match="is no JSON"):
        load_prompt(tmp_path / "broken.json")


def test_messages_and_texts_add_up_to_a_prompt():
    prompt = SystemMessage("Literal {braces}.") + HumanMessage("hi") + AIMessage("what?") + "{input}"
    assert [message.text for message in prompt.format_messages(input="x")] == ["Literal {braces}.", "hi", "what?", "x"]
    more = HumanMessage("first") + ChatPromptTemplate.from_template("{a}")
    assert more.input_variables == ["a"]
    several = [AIMessage("a"), ("human", "{b}")]
    assert len(HumanMessage("first") + several) == 3
    assert (AIMessageChunk("a") + AIMessageChunk("b")).text == "ab"
    with pytest.raises(InvalidInput, match="no message"):
        HumanMessage("first") + 3


def test_one_pair_is_no_list_of_messages():
    with pytest.raises(InvalidInput, match="one message"):
        ChatPromptTemplate.from_messages(("human", "{x}"))
    assert len(ChatPromptTemplate.from_messages((("human", "{x}"),))) == 1
