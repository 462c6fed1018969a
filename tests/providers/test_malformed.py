"""What a program gets wrong in a message, a setting or a call is told by its place, with every vendor and before
anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runwell import init_chat_model
from runwell.errors import InvalidHistory, InvalidInput, ModelError, UsageError
from runwell.messages import AIMessage, HumanMessage, ToolMessage
from runwell.providers.openai import ChatLMStudio, ChatOpenAI
from runwell.providers.openai.wire import messages_to_wire
from runwell.testing import WireServer
from runwell.testing.wire import OllamaDialect, OpenAIDialect

from .test_own_blocks import DIALECTS, Vendor

CALL: Any = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}


@pytest.fixture(scope="module")
def wires() -> Iterator[dict[str, WireServer]]:
    servers = {name: WireServer(dialect) for name, dialect in DIALECTS.items()}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture(params=list(DIALECTS))
def vendor(request: pytest.FixtureRequest, wires: dict[str, WireServer]) -> Vendor:
    return Vendor(request.param, wires[request.param])


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"type": ["text"], "text": "x"}, r"has the type \['text'\]"),
        ({"type": "text", "text": "x", "extras": "y"}, "has extras that are no dict: 'y'"),
        ({"type": "image", "url": "https://x/y.png", "extras": "y"}, "has extras that are no dict"),
        ({"type": "text", "text": "x", "annotations": "y"}, "has annotations that are no list of dicts"),
        ({"type": "reasoning", "reasoning": 3}, "has a reasoning that is no text: 3"),
        ({"type": "server_tool_call"}, "lacks 'id', 'name'"),
        ({"type": "server_tool_result", "tool_call_id": "x", "output": {1, 2}}, "holds {1, 2} in its output"),
        ({"type": "server_tool_result", "tool_call_id": "x", "output": [float("nan")]}, "holds nan in its output"),
        ({"type": "non_standard"}, "lacks 'value'"),
        ({"type": "refusal"}, "lacks 'refusal'"),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value.get("type")),
)
def test_a_block_that_is_not_what_its_type_says(vendor: Vendor, block: Any, told: str) -> None:
    place = r"Message 1 \(AIMessage\), block 1, .*"
    vendor.refuses(InvalidInput, place + told, HumanMessage("Hi"), AIMessage(["x", block]))


def test_oddities_beside_the_content_stop_nothing(vendor: Vendor) -> None:
    odd = {"annotations": "y", "reasoning_content": 5}
    told = AIMessage("Yes.", additional_kwargs=odd, response_metadata={"model_provider": 3, "thought_signatures": "x"})
    thought = AIMessage([{"type": "reasoning", "reasoning": None}, {"type": "text", "text": "No."}])
    assert "No." in vendor.sent(HumanMessage("Hi"), told, HumanMessage("Sure?"), thought, HumanMessage("Why?"))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"stop": 5}, "stop is a text or a list of texts.* got 5"),
        ({"stop": [1]}, "stop is a text or a list of texts"),
        ({"temperature": "hot"}, "temperature is a number; got 'hot'"),
        ({"max_tokens": "many"}, "max_tokens is a number|max_output_tokens is a number"),
        ({"temperature": "0.5"}, "temperature is a number; got '0.5'"),
        ({"temperature": True}, "temperature is a number; got True"),
        ({"temperature": float("nan")}, "temperature is a finite number, 0 or more; got nan"),
        ({"temperature": -0.5}, "temperature is a finite number, 0 or more; got -0.5"),
        ({"top_p": 1.5}, "p is a finite number from 0 to 1; got 1.5"),
        ({"max_tokens": 100.0}, r"max_(output_)?tokens is a whole number, 0 or more; got 100\.0"),
        ({"max_tokens": float("inf")}, r"max_(output_)?tokens is a whole number, 0 or more; got inf"),
        ({"max_tokens": -5}, "max_(output_)?tokens is a whole number, 0 or more; got -5"),
        ({"max_tokens": True}, "max_(output_)?tokens is a number; got True"),
        ({"stop": ["a", ""]}, r"stop holds an empty text, which ends no answer; got \['a', ''\]"),
        ({"max_retries": 1.5}, "max_retries is a whole number, 0 or more; got 1.5"),
        ({"max_retries": -1}, "max_retries is a whole number, 0 or more; got -1"),
        ({"timeout": float("inf")}, "timeout is a number of seconds above 0; got inf"),
        ({"timeout": (1, -1, 1, 1)}, r"timeout is a number of seconds above 0; got \(1, -1, 1, 1\)"),
        ({"timeout": "soon"}, "timeout is a number of seconds above 0; got 'soon'"),
        ({"timeout": -1}, "timeout is a number of seconds above 0; got -1"),
    ],
    ids=str,
)
def test_a_setting_that_cannot_be(vendor: Vendor, settings: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        vendor.model.invoke("Hi", **settings)
    if vendor.name != "responses":  # whose API has no stop at all
        prefix = vendor.name
        with pytest.raises(InvalidInput, match=told):
            init_chat_model(f"{prefix}:m", base_url=vendor.wire.base_url, api_key="none", **settings)
    if "max_retries" not in settings:  # which is no argument of the vendor's
        with pytest.raises(InvalidInput, match=told):
            vendor.model.bind(**settings)
        with pytest.raises(InvalidInput, match=told):
            vendor.model.bind_tools([sum_up]).bind(**settings)
    assert vendor.wire.requests == []


def sum_up(numbers: list[int]) -> int:
    """Add numbers up."""
    return sum(numbers)


def test_a_limit_of_none_is_said_as_the_server_says_it() -> None:
    """Ollama and servers of one's own take -1; elsewhere it is no number of tokens."""
    with WireServer(OllamaDialect()) as wire:
        wire.say("Yes.")
        wire.say("No.")
        model = init_chat_model("ollama:m", base_url=wire.base_url, num_predict=-2)
        model.invoke("Hi")
        assert wire.last["body"]["options"]["num_predict"] == -2
        model.bind(max_tokens=-1).invoke("Hi")
        assert wire.last["body"]["options"]["num_predict"] == -1
    with WireServer(OpenAIDialect()) as wire:
        wire.say("Yes.")
        wire.say("No.")
        ChatLMStudio(model="m", base_url=wire.base_url, max_tokens=-1).invoke("Hi")
        assert wire.last["body"]["max_tokens"] == -1
        ChatOpenAI(model="m", api_key="k", base_url=wire.base_url, extra_body={"max_tokens": -1}).invoke("Hi")
        assert wire.last["body"]["max_tokens"] == -1
        with pytest.raises(InvalidInput, match=r'extra_body=\{"max_tokens": -1\}'):
            ChatOpenAI(model="m", api_key="k", base_url=wire.base_url, max_tokens=-1)


ROUND: dict[str, Any] = {}
ROUND["itself"] = [ROUND]


def test_what_is_secret_beside_the_key_is_not_shown(vendor: Vendor) -> None:
    """Headers that are bound, and a password in the address."""
    bound = vendor.model.bind(extra_headers={"x": "sk-hidden"}, max_tokens=5)
    assert "hidden" not in repr(bound)
    assert "extra_headers='**********', max_tokens=5" in repr(bound)
    address = "http://me:sk-hidden@127.0.0.1:1"
    model = type(vendor.model)(model="m", base_url=address, api_key="none", max_retries=0)
    assert "hidden" not in repr(model)
    assert "me:**********@127.0.0.1:1" in repr(model)
    with pytest.raises(ModelError) as caught:
        model.invoke("Hi")
    assert "hidden" not in str(caught.value)
    assert model.base_url.startswith(address)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"default_headers": {"x": 5}}, r"default_headers\['x'\] is a text; got one of type int"),
        ({"default_headers": {"x": "a\nsk-hidden"}}, r"default_headers\['x'\] holds '\\n', which no header carries"),
        ({"default_headers": {"x y": "a"}}, "has 'x y', which is no name of a header"),
        ({"default_headers": ["x"]}, "default_headers is a dict of texts; got a list"),
        ({"extra_headers": {"x": "é"}}, r"extra_headers\['x'\] holds 'é'"),
        ({"model_kwargs": "x"}, "model_kwargs is a dict; got 'x'"),
        ({"model_kwargs": {"a": [{"b": float("nan")}]}}, r"model_kwargs\['a'\] holds nan, which JSON cannot say"),
        ({"extra_body": [1]}, r"extra_body is a dict; got \[1\]"),
        ({"extra_body": {"a": float("inf")}}, r"extra_body\['a'\] holds inf, which JSON cannot say"),
        ({"extra_body": {"a": ROUND}}, r"extra_body\['a'\] is nested too deeply"),
        ({"model_kwargs": {"a": ROUND}}, r"model_kwargs\['a'\] is nested too deeply"),
        ({"base_url": 5}, "base_url is a text"),
        ({"api_key": 5}, "is a text.*got one of type int"),
        ({"api_key": "sk-hidden\nhidden"}, r"the API key has '\\n' at place 9, which no header carries"),
        ({"api_key": "sk-hiddén"}, "the API key has 'é' at place 7"),
        ({"model": " "}, "needs the name of a model"),
    ],
    ids=str,
)
def test_what_goes_beside_the_body_is_looked_at_too(vendor: Vendor, settings: Any, told: str) -> None:
    """And neither a key nor a header's value is shown."""
    calls = []
    if not settings.keys() & {"default_headers", "model_kwargs", "base_url", "api_key", "model"}:
        calls = [lambda: vendor.model.invoke("Hi", **settings), lambda: vendor.model.bind(**settings)]
    if "extra_headers" not in settings:
        given = {"model": "m", "base_url": vendor.wire.base_url, "api_key": "none", **settings}
        calls.append(lambda: type(vendor.model)(**given))
    for call in calls:
        with pytest.raises(InvalidInput, match=told) as caught:
            call()
        assert "hidd" not in str(caught.value)
    assert vendor.wire.requests == []


def test_a_key_from_a_file_has_no_end_of_line(vendor: Vendor) -> None:
    vendor.wire.say("Yes.")
    model = vendor.model.model_copy(update={"api_key": " sk-from-a-file\r\n"})
    assert model.invoke("Hi").text == "Yes."
    sent = vendor.wire.last["headers"]
    assert any(value.endswith("sk-from-a-file") for value in sent.values())
    vendor.wire.requests.clear()


def test_a_function_that_gives_a_key_gives_a_sendable_one(driver: Any) -> None:
    with WireServer(OpenAIDialect()) as wire:
        wire.say("Yes.")
        keys = iter(["sk-ok\n", "sk-hidden\nhidden"])
        model = ChatOpenAI(model="m", base_url=wire.base_url, api_key=lambda: next(keys), max_retries=0)
        assert driver.invoke(model, "Hi").text == "Yes."
        with pytest.raises(InvalidInput, match="the API key has") as caught:
            driver.invoke(model, "Hi")
        assert "hidden" not in str(caught.value)


def test_a_request_that_is_no_json(vendor: Vendor) -> None:
    with pytest.raises(InvalidInput, match=r"JSON cannot say|does not know an argument|SDK refused the request"):
        vendor.model.invoke("Hi", extra_body={"a": object()})
    assert vendor.wire.requests == []


@pytest.mark.parametrize("tools", [None, "add", 3, {"name": "add"}], ids=repr)
def test_tools_that_are_no_list(vendor: Vendor, tools: Any) -> None:
    with pytest.raises(InvalidInput, match="bind_tools takes a list of tools"):
        vendor.model.bind_tools(tools)


@pytest.mark.parametrize("tools", ["add", ["add"], [5], [{"add": {}, "x": 1}]], ids=repr)
def test_tools_that_are_none_are_refused_when_they_are_bound(vendor: Vendor, tools: Any) -> None:
    with pytest.raises(UsageError, match=r"bind_tools takes a list|describe|is in no form"):
        vendor.model.bind(tools=tools)


@pytest.mark.parametrize("name", ["anthropic", "google_genai", "bedrock_converse"])
def test_nothing_to_answer_is_refused(wires: dict[str, WireServer], name: str) -> None:
    Vendor(name, wires[name]).refuses(InvalidHistory, "is sent nothing to answer", AIMessage(""))


def test_a_tools_result_is_looked_at_too(vendor: Vendor) -> None:
    result = ToolMessage([{"type": "text", "text": "x", "extras": 3}], tool_call_id="c1")
    vendor.refuses(InvalidInput, r"Message 1 \(ToolMessage\), block 0", AIMessage("", tool_calls=[CALL]), result)


ODD_ANSWERS: dict[str, list[Any]] = {
    "openai": [
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": "x", "tool_calls": [None]}}]},
        {"choices": [{"message": {"content": "x"}}], "usage": 5},
        {"choices": "x"},
    ],
    "responses": [{"output": [None]}, {"output": [{"type": "message", "content": [None]}]}, {"output": "x"}],
    "anthropic": [{"content": [None]}, {"content": [{}]}, {"content": [{"type": "text"}]}, {"content": "x"}],
    "google_genai": [{"candidates": [None]}, {"candidates": [{"content": {"parts": [None]}}]}, {"candidates": "x"}],
    "mistralai": [{"choices": [None]}, {"choices": [{}]}, {"choices": "x"}],
    "cohere": [{"message": {"content": [None]}}, {"message": {"tool_calls": [None]}}],
    "bedrock_converse": [{"output": {"message": {"content": [None]}}}],
    "ollama": [
        {"message": {"content": "x", "tool_calls": [{}]}},
        {"message": {"content": "x", "tool_calls": [None]}},
        {"message": {"content": "x"}, "eval_count": "x"},
    ],
}


def test_an_answer_of_another_form_is_told_as_one(vendor: Vendor) -> None:
    """What comes back is read once, here: no error of Python's own, and no key in it."""
    model = vendor.model.with_max_retries(0)
    for odd in ODD_ANSWERS[vendor.name]:
        vendor.wire.json(odd)
        with pytest.raises(ModelError) as caught:
            model.invoke("Hi")
        assert caught.value.retryable
        vendor.wire.events(odd)
        with pytest.raises(ModelError):
            list(model.stream("Hi"))


def test_the_error_of_a_function_that_gives_the_key_is_its_own(wires: dict[str, WireServer]) -> None:
    from runwell.providers.openai import ChatOpenAI

    def key() -> str:
        raise KeyError("MY_TOKEN")

    with pytest.raises(KeyError, match="MY_TOKEN"):
        ChatOpenAI(model="m", api_key=key, base_url=wires["openai"].base_url, max_retries=0).invoke("Hi")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize(
    ("tools", "bound", "told"),
    [
        ([add], {"parallel_tool_calls": "no"}, "parallel_tool_calls is True, False or None; got 'no'"),
        ([add], {"strict": "yes"}, "strict is True, False or None; got 'yes'"),
        ([add, add], {}, "Two of the tools are called 'add'"),
        ([], {"tool_choice": "any"}, "must call a tool, and there is none|cannot be told which tools"),
        (
            [add],
            {"tool_choice": {"type": "function", "function": {"name": "ad"}}},
            "names 'ad', which is none of the tools; did you mean 'add'|cannot be told which tools",
        ),
    ],
    ids=["parallel", "strict", "twice", "none", "another"],
)
def test_tools_that_cannot_be_bound_so(vendor: Vendor, tools: Any, bound: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        vendor.model.bind_tools(tools, **bound)


class Number:
    """As other libraries' numbers are: no int and no float."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


class Whole(Number):
    def __index__(self) -> int:
        return int(self.value)


def test_numbers_of_other_libraries_are_numbers(vendor: Vendor) -> None:
    if vendor.name == "responses":
        return
    settings: Any = {"temperature": Number(0.5), "max_tokens": Whole(7), "timeout": Whole(9)}
    model = init_chat_model(f"{vendor.name}:m", base_url=vendor.wire.base_url, api_key="none", **settings)
    for made, given in ((model, {}), (vendor.model, settings)):
        vendor.wire.say("Fine.")
        made.invoke("Hi", **given)
        body = str(vendor.wire.last["body"])
        assert "0.5" in body
        assert ": 7" in body


def test_what_is_not_given_may_be_said_so(vendor: Vendor) -> None:
    prefix = "openai" if vendor.name == "responses" else vendor.name
    settings: Any = {"model_kwargs": None, "cache": False, "temperature": None, "timeout": None}
    model = init_chat_model(f"{prefix}:m", base_url=vendor.wire.base_url, api_key="none", **settings)
    if vendor.name != "responses":
        vendor.wire.say("Fine.")
        assert model.invoke("Hi").text == "Fine."
    with pytest.raises(InvalidInput, match="got cache=True"):
        init_chat_model(f"{prefix}:m", base_url=vendor.wire.base_url, api_key="none", cache=True)


def test_an_agent_goes_on_after_arguments_that_are_no_json(vendor: Vendor) -> None:
    """Servers that read the arguments of a history (vLLM, llama.cpp, Ollama) refuse what is no JSON."""
    broken: Any = {"name": "look", "args": '{"a": ', "id": "c1", "error": "cut", "type": "invalid_tool_call"}
    told = ToolMessage("No JSON: cut.", tool_call_id="c1", status="error")
    body = vendor.sent(HumanMessage("Hi"), AIMessage("", invalid_tool_calls=[broken]), told)
    assert "No JSON: cut." in body
    if vendor.name != "responses":
        assert "malformed_arguments" in body


def test_openai_itself_is_sent_what_its_model_wrote() -> None:
    broken: Any = {"name": "look", "args": '{"a": ', "id": "c1", "error": "cut", "type": "invalid_tool_call"}
    history = [HumanMessage("Hi"), AIMessage("", invalid_tool_calls=[broken]), ToolMessage("cut", tool_call_id="c1")]
    [_, said, _] = messages_to_wire(history)
    assert said["tool_calls"][0]["function"]["arguments"] == '{"a": '
