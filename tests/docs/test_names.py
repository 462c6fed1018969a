"""The names that users of LangChain know: each is here with its call shape, or its absence is explained."""

from __future__ import annotations

import asyncio
import enum
import importlib
import re
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.types import Tool as SdkTool
from pydantic import BaseModel

from runwell.agents import AgentState, create_agent
from runwell.agents import middleware as mw
from runwell.agents import prebuilt as pre
from runwell.agents import structured_output as so
from runwell.chat_history import InMemoryChatMessageHistory
from runwell.mcp import MCPAdapter, MultiServerMCPClient, as_langchain_tool
from runwell.messages import AIMessage
from runwell.messages import HumanMessage as H
from runwell.parsers import (
    BaseOutputParser,
    BooleanOutputParser,
    CommaSeparatedListOutputParser,
    DatetimeOutputParser,
    EnumOutputParser,
    JsonOutputKeyToolsParser,
    JsonOutputParser,
    MarkdownListOutputParser,
    NumberedListOutputParser,
    OutputFixingParser,
    PydanticOutputParser,
    PydanticToolsParser,
    RegexParser,
    RetryOutputParser,
    RetryWithErrorOutputParser,
    SimpleJsonOutputParser,
    StrOutputParser,
    XMLOutputParser,
    parse_json_markdown,
    parse_partial_json,
    parse_tool_call,
)
from runwell.prompts import (
    AIMessagePromptTemplate,
    ChatMessagePromptTemplate,
    ChatPromptTemplate,
    ChatPromptValue,
    DictPromptTemplate,
    FewShotChatMessagePromptTemplate,
    FewShotPromptTemplate,
    HumanMessagePromptTemplate,
    ImagePromptTemplate,
    LengthBasedExampleSelector,
    MaxMarginalRelevanceExampleSelector,
    MessagesPlaceholder,
    PromptTemplate,
    SemanticSimilarityExampleSelector,
    StringPromptValue,
    StructuredPrompt,
    SystemMessagePromptTemplate,
    get_template_variables,
)
from runwell.runnables import (
    AddableDict,
    ConfigurableField,
    ConfigurableFieldMultiOption,
    ConfigurableFieldSingleOption,
    ConfigurableFieldSpec,
    Edge,
    RouterRunnable,
    RunnableAssign,
    RunnableBinding,
    RunnableBranch,
    RunnableEach,
    RunnableGenerator,
    RunnableLambda,
    RunnableMap,
    RunnableParallel,
    RunnablePassthrough,
    RunnablePick,
    RunnableSequence,
    RunnableWithFallbacks,
    RunnableWithMessageHistory,
    aadd,
    add,
    chain,
    ensure_config,
    get_lambda_source,
    merge_configs,
)
from runwell.testing import FakeChatModel, FakeListChatModel

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from-langchain.md"


class Store:
    """As much of a vector store as a selector asks for."""

    similarity_search = max_marginal_relevance_search = staticmethod(list)


NAMES = {
    "runnables": """RunnableConfig RunnableLambda Runnable chain StreamEvent RunnableGenerator
        RunnableWithMessageHistory RunnablePassthrough RunnableBranch ConfigurableField Graph Edge RunnableParallel
        RunnableSequence AddableDict add Node ensure_config RunnableSerializable Input Output RunnableAssign aadd
        merge_configs get_lambda_source RunnablePick RunnableBinding ConfigurableFieldMultiOption
        ConfigurableFieldSingleOption ConfigurableFieldSpec MermaidDrawMethod indent_lines_after_first RouterRunnable
        RunnableMap RunnableEach RunnableRetry RunnableWithFallbacks""",
    "prompts": """PromptTemplate ChatPromptTemplate SystemMessagePromptTemplate HumanMessagePromptTemplate
        ChatMessagePromptTemplate AIMessagePromptTemplate BaseMessagePromptTemplate PromptTemplateFormat
        FewShotPromptTemplate DictPromptTemplate get_template_variables MessagesPlaceholder
        FewShotChatMessagePromptTemplate StructuredPrompt ImagePromptTemplate FewShotPromptWithTemplates
        BaseExampleSelector SemanticSimilarityExampleSelector LengthBasedExampleSelector
        MaxMarginalRelevanceExampleSelector ChatPromptValue StringPromptValue PromptValue""",
    "parsers": """PydanticOutputParser JsonOutputKeyToolsParser XMLOutputParser StrOutputParser PydanticToolsParser
        JsonOutputParser JsonOutputToolsParser BaseOutputParser JsonOutputFunctionsParser SimpleJsonOutputParser
        CommaSeparatedListOutputParser parse_tool_call PydanticOutputFunctionsParser MarkdownListOutputParser
        NumberedListOutputParser EnumOutputParser DatetimeOutputParser BooleanOutputParser RegexParser
        OutputFixingParser RetryOutputParser RetryWithErrorOutputParser""",
    "tools": """tool BaseTool StructuredTool InjectedToolCallId ToolException InjectedToolArg Tool
        TOOL_MESSAGE_BLOCK_TYPES ArgsSchema get_all_basemodel_annotations convert_runnable_to_tool SchemaAnnotationError
        create_schema_from_function create_retriever_tool InjectedState InjectedStore ToolRuntime
        convert_to_openai_function convert_to_openai_tool convert_to_json_schema tool_example_to_messages
        dereference_refs""",
    "persistence.checkpoints": """BaseCheckpointSaver empty_checkpoint CheckpointTuple Checkpoint CheckpointMetadata
        DeltaChannelHistory ChannelVersions InMemorySaver MemorySaver SqliteSaver AsyncSqliteSaver PostgresSaver
        AsyncPostgresSaver validate checkpointer_test""",
    "persistence.stores": """InvalidNamespaceError BaseStore GetOp PutOp SearchOp ListNamespacesOp MatchCondition Op
        Result AsyncBatchedBaseStore validate_op_namespace Item get_text_at_path TTLConfig InMemoryStore SqliteStore
        AsyncSqliteStore PostgresStore AsyncPostgresStore""",
    "persistence.caches": "BaseCache InMemoryCache SqliteCache RedisCache",
    "graph": """StateGraph START END MessagesState add_messages CompiledStateGraph REMOVE_ALL_MESSAGES push_message
        Command interrupt Durability Interrupt StateSnapshot Send StateUpdate PregelTask StreamPart CachePolicy
        Overwrite TimeoutPolicy RetryPolicy StreamWriter GraphOutput DeltaChannel LastValue EphemeralValue
        BinaryOperatorAggregate Topic UntrackedValue Runtime RunControl ExecutionInfo ServerInfo TAG_NOSTREAM task
        entrypoint Pregel NodeBuilder map_debug_tasks get_stream_writer get_config get_store get_runtime RemainingSteps
        IsLastStep GraphCallbackHandler GraphInterruptEvent GraphResumeEvent""",
    "errors": """NodeError InvalidUpdateError GraphDrained ParentCommand NodeTimeoutError GraphRecursionError
        GraphInterrupt is_invalid_resume ModelRefusalError OutputParserException ContextOverflowError
        ModelAuthenticationError ModelRateLimitError""",
    "agents": "create_agent AgentState",
    "agents.middleware": """ModelRequest ModelResponse AgentState AgentMiddleware SummarizationMiddleware
        ModelCallResult HumanInTheLoopMiddleware InputAgentState ToolCallRequest PIIMiddleware ModelFallbackMiddleware
        OutputAgentState FilesystemFileSearchMiddleware ToolRetryMiddleware ProviderToolSearchMiddleware
        ModelRetryMiddleware wrap_tool_call ShellToolMiddleware wrap_model_call ExtendedModelResponse
        TodoListMiddleware write_todos LLMToolSelectorMiddleware LLMToolEmulator ShellToolState internal_call_metadata
        InterruptOnConfig ToolCallLimitMiddleware ModelRefusalMiddleware HostExecutionPolicy Decision before_model
        AutoModeMiddleware InternalCallTransformer InterruptMode PlanningState ClearToolUsesEdit
        ContextEditingMiddleware after_model dynamic_prompt before_agent ToolCallLimitState INTERNAL_CALL_METADATA_KEY
        ToolErrorMiddleware after_agent detect_url ShellSession ModelRouterMiddleware PIIDetectionError detect_ip
        ResponseT CodexSandboxExecutionPolicy ModelChoice configure_trace_policy ModelCallLimitMiddleware
        detect_credit_card detect_email detect_mac_address DockerExecutionPolicy TracePolicy omit_payload PIIMatch
        ModelCallLimitExceededError hook_config PrivateStateAttr ToolCallLimitExceededError ModelCallLimitState""",
    "agents.structured_output": """ToolStrategy ProviderStrategy StructuredOutputValidationError
        StructuredOutputError MultipleStructuredOutputsError""",
    "agents.prebuilt": """ToolNode create_react_agent ToolCallRequest AgentState InjectedState ToolRuntime
        InjectedStore AgentStatePydantic StateSchemaType ToolInvocationError ToolCallTransformer""",
    "messages": """HumanMessage AIMessage ToolMessage BaseMessage ToolCall SystemMessage AnyMessage AIMessageChunk
        get_buffer_string MessageLikeRepresentation count_tokens_approximately convert_to_openai_messages
        RefusalContentBlock trim_messages RemoveMessage tool_call_chunk UsageMetadata filter_messages merge_content
        merge_message_runs FunctionMessage convert_to_messages InputTokenDetails HumanMessageChunk tool_call add_usage
        get_notification_metadata ChatMessage OutputTokenDetails translate_grounding_metadata_to_citations
        add_notification_metadata translate_content ChatMessageChunk FunctionMessageChunk subtract_usage
        messages_from_dict messages_to_dict message_to_dict invalid_tool_call PROVIDER_TRANSLATORS add_messages
        REMOVE_ALL_MESSAGES ToolMessageChunk SystemMessageChunk BaseMessageChunk ToolCallChunk InvalidToolCall
        message_chunk_to_message is_data_content_block ContentBlock""",
    "models": """BaseChatModel LanguageModelInput ModelProfile LangSmithParams BaseLLM LLM SimpleChatModel ChatResult
        ChatGeneration ChatGenerationChunk LLMResult Generation GenerationChunk Embeddings RETURN_VAL_TYPE BaseCache
        InMemoryCache InMemoryRateLimiter BaseRateLimiter set_llm_cache init_chat_model init_embeddings""",
    "testing": """GenericFakeChatModel FakeListChatModel FakeListLLM FakeStreamingListLLM FakeChatModel
        ParrotFakeChatModel FakeMessagesListChatModel DeterministicFakeEmbedding FakeEmbeddings""",
    "chat_history": "InMemoryChatMessageHistory BaseChatMessageHistory",
}


@pytest.mark.parametrize("room", NAMES)
def test_every_name_is_in_its_room_or_explained(room):
    page = PAGE.read_text(encoding="utf-8")
    absent = page[page.index("## Not here") :]
    explained = set(
        re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in absent.splitlines() if line.count("|") > 2))
    )
    here = set(importlib.import_module(f"runwell.{room}").__all__)
    wanted = set(NAMES[room].split())
    assert wanted - here - explained == set()


up = RunnableLambda(str.upper)
pt = PromptTemplate.from_template("{x}")
hist = InMemoryChatMessageHistory()
model = FakeListChatModel(responses=['{"a": 1}'] * 9)
ai = AIMessage("", tool_calls=[{"name": "P", "args": {"a": 1}, "id": "1", "type": "tool_call"}])
TC = {"id": "1", "type": "function", "function": {"name": "P", "arguments": '{"a": 1}'}}


class P(BaseModel):
    a: int


class E(enum.Enum):
    A = "a"


class Par(BaseOutputParser[int]):
    def parse(self, text):
        return int(text)

    @property
    def _type(self):
        return "par"


async def ag():
    yield 1
    yield 2


def look(at: str) -> str:
    """Look at something."""
    return at


def fake():
    return FakeChatModel(responses=["ok"] * 9)


class Mine(AgentState):
    user: str


GO = {"messages": [{"role": "user", "content": "hi"}]}
calculator = MCPServer("calculator", log_level="ERROR")
calculator.add_tool(lambda a: a, name="one", description="Give one back.")
AGENT_CALLS = [
    lambda: create_agent(fake(), [look]).invoke(GO),
    lambda: create_agent(fake(), tools=[look]).invoke({"messages": [("user", "hi")]}),
    lambda: create_agent(
        model=fake(),
        tools=[],
        system_prompt="s",
        middleware=[],
        response_format=None,
        state_schema=Mine,
        context_schema=P,
        checkpointer=None,
        store=None,
        interrupt_before=None,
        interrupt_after=None,
        debug=False,
        name="a",
        cache=None,
    ).invoke({**GO, "user": "u"}),
    lambda: mw.SummarizationMiddleware(
        model=fake(),
        trigger=("tokens", 4000),
        keep=("messages", 20),
        token_counter=len,
        summary_prompt="{messages}",
        trim_tokens_to_summarize=4000,
    ),
    lambda: mw.SummarizationMiddleware(fake(), trigger=[("fraction", 0.8), ("messages", 100)], keep=("tokens", 300)),
    lambda: mw.HumanInTheLoopMiddleware(
        interrupt_on={"look": True, "x": False, "y": {"allowed_decisions": ["approve", "edit"], "description": "d"}},
        description_prefix="p",
    ),
    lambda: mw.InterruptOnConfig(allowed_decisions=["approve"], description="d"),
    lambda: mw.PIIMiddleware("email", strategy="redact", apply_to_input=True, apply_to_output=True),
    lambda: mw.PIIMiddleware("key", detector=r"sk-\w+", strategy="block", apply_to_tool_results=True),
    lambda: mw.ModelFallbackMiddleware(fake(), fake()),
    lambda: mw.FilesystemFileSearchMiddleware(root_path=".", use_ripgrep=True, max_file_size_mb=10),
    lambda: mw.ToolRetryMiddleware(
        max_retries=2,
        tools=["look"],
        retry_on=(ValueError,),
        on_failure="continue",
        backoff_factor=2.0,
        initial_delay=1.0,
        max_delay=60.0,
        jitter=True,
    ),
    lambda: mw.ModelRetryMiddleware(
        max_retries=2,
        retry_on=(ValueError,),
        on_failure="continue",
        backoff_factor=2.0,
        initial_delay=1.0,
        max_delay=60.0,
        jitter=True,
    ),
    lambda: mw.ProviderToolSearchMiddleware(searchable_tools=["look"]),
    lambda: mw.ShellToolMiddleware(
        workspace_root=".",
        execution_policy=mw.HostExecutionPolicy(i_accept_host_access=True),
        env={"A": "b"},
    ),
    lambda: mw.TodoListMiddleware(system_prompt="s", tool_description="d"),
    lambda: mw.LLMToolSelectorMiddleware(model=fake(), system_prompt="s", max_tools=2, always_include=["look"]),
    lambda: mw.LLMToolEmulator(tools=["look"], model=fake()),
    lambda: mw.ToolCallLimitMiddleware(tool_name="look", thread_limit=9, run_limit=2, exit_behavior="continue"),
    lambda: mw.ModelCallLimitMiddleware(thread_limit=9, run_limit=2, exit_behavior="end"),
    lambda: mw.ContextEditingMiddleware(
        edits=[
            mw.ClearToolUsesEdit(
                trigger=100_000,
                clear_at_least=0,
                keep=3,
                clear_tool_inputs=False,
                exclude_tools=(),
                placeholder="[cleared]",
            )
        ],
        token_count_method="approximate",
    ),
    lambda: mw.before_model(lambda state, runtime: None),
    lambda: mw.before_model(can_jump_to=["end"])(lambda state, runtime: {"jump_to": "end"}),
    lambda: mw.after_model(state_schema=Mine, name="n")(lambda state, runtime: None),
    lambda: mw.wrap_model_call(lambda request, handler: handler(request)),
    lambda: mw.wrap_tool_call(lambda request, handler: handler(request)),
    lambda: mw.dynamic_prompt(lambda request: "s"),
    lambda: mw.hook_config(can_jump_to=["end", "tools", "model"]),
    lambda: mw.ModelResponse(result=[AIMessage("x")], structured_response=None),
    lambda: mw.ExtendedModelResponse(model_response=mw.ModelResponse([AIMessage("x")]), command=None),
    lambda: so.ToolStrategy(P, tool_message_content="t", handle_errors=True),
    lambda: so.ToolStrategy(schema=P, handle_errors=(ValueError,)),
    lambda: so.ProviderStrategy(P, strict=True),
    lambda: so.ProviderStrategy(schema=P),
    lambda: create_agent(fake(), response_format=so.ToolStrategy(P)),
    lambda: pre.ToolNode([look], name="tools", tags=["t"], handle_tool_errors=True, messages_key="messages").invoke(
        {"messages": [AIMessage("", tool_calls=[{"name": "look", "args": {"at": "a"}, "id": "1"}])]}
    ),
    lambda: pre.create_react_agent(fake(), [look], prompt="p", checkpointer=None, version="v2").invoke(GO),
]


CALLS = [
    lambda: RunnableLambda(str.upper, afunc=None, name="n").invoke("x"),
    lambda: RunnableLambda(func=str.upper),
    lambda: chain(lambda x: x).invoke(1),
    lambda: RunnableGenerator(transform=lambda c: c, atransform=None, name="g"),
    lambda: RunnableGenerator(lambda c: c, name="g").invoke("x"),
    lambda: RunnableWithMessageHistory(
        up,
        lambda s: hist,
        input_messages_key="q",
        output_messages_key="o",
        history_messages_key="h",
        history_factory_config=[
            ConfigurableFieldSpec(id="u", annotation=str, name="U", description="d", default="", is_shared=True)
        ],
    ),
    lambda: RunnablePassthrough().invoke(1),
    lambda: RunnablePassthrough(lambda x: None).invoke(1),
    lambda: RunnablePassthrough(func=lambda x: None, afunc=None).invoke(1),
    lambda: RunnablePassthrough.assign(b=lambda d: 1).invoke({"a": 1}),
    lambda: RunnableBranch((lambda x: True, up), up).invoke("x"),
    lambda: ConfigurableField(id="i", name="n", description="d", annotation=str, is_shared=False),
    lambda: ConfigurableFieldSingleOption(
        id="i", options={"a": 1}, default="a", name="n", description="d", is_shared=False
    ),
    lambda: ConfigurableFieldMultiOption(id="i", options={"a": 1}, default=["a"], name="n"),
    lambda: RunnableParallel({"a": up}).invoke("x"),
    lambda: RunnableParallel(a=up, b=up).invoke("x"),
    lambda: RunnableParallel(steps__={"a": up}).invoke("x"),
    lambda: RunnableMap({"a": up}, c=up).invoke("x"),
    lambda: RunnableSequence(up, up, name="n").invoke("x"),
    lambda: RunnableSequence(first=up, middle=[up], last=up).invoke("x"),
    lambda: AddableDict({"a": "b"}) + AddableDict({"a": "c"}),
    lambda: add([1, 2]),
    lambda: asyncio.run(aadd(ag())),
    lambda: ensure_config({"tags": ["x"]}),
    lambda: ensure_config(),
    lambda: merge_configs({"tags": ["a"]}, None, {"tags": ["b"]}),
    lambda: get_lambda_source(lambda x: x + 1),
    lambda: RunnableAssign(mapper=RunnableParallel({"a": up})),
    lambda: RunnableAssign(RunnableParallel(a=lambda d: 1)).invoke({"b": 1}),
    lambda: RunnablePick(keys="a").invoke({"a": 1}),
    lambda: RunnablePick(["a"]).invoke({"a": 1}),
    lambda: RunnableBinding(bound=up, kwargs={}, config={"tags": ["t"]}).invoke("x"),
    lambda: RunnableEach(bound=up).invoke(["x"]),
    lambda: RunnableWithFallbacks(
        runnable=up, fallbacks=[up], exceptions_to_handle=(ValueError,), exception_key=None
    ).invoke("x"),
    lambda: RouterRunnable(runnables={"a": up}).invoke({"key": "a", "input": "x"}),
    lambda: RouterRunnable({"a": up}).invoke({"key": "a", "input": "x"}),
    lambda: Edge(source="a", target="b", data="d", conditional=True),
    lambda: up.get_graph().draw_mermaid(),
    lambda: up.get_graph().draw_ascii(),
    lambda: up.get_graph().to_json(),
    lambda: up.get_graph().nodes,
    lambda: up.get_prompts(),
    lambda: up.get_input_schema().model_json_schema(),
    lambda: up.get_output_schema().model_json_schema(),
    lambda: up.get_input_jsonschema(),
    lambda: up.get_output_jsonschema(),
    lambda: up.config_schema(include=["tags"]).model_json_schema(),
    lambda: up.get_config_jsonschema(include=["tags"]),
    lambda: up.config_specs,
    lambda: up.get_name("x", name="y"),
    lambda: up.bind().kwargs,
    lambda: up.with_config({"tags": ["a"]}, run_name="n"),
    lambda: up.with_types(input_type=str, output_type=str),
    lambda: up.with_listeners(on_start=print, on_end=None, on_error=None),
    lambda: up.with_retry(
        retry_if_exception_type=(ValueError,),
        wait_exponential_jitter=False,
        stop_after_attempt=2,
        exponential_jitter_params={"initial": 1},
    ),
    lambda: up.with_fallbacks([up], exceptions_to_handle=(ValueError,), exception_key="e"),
    lambda: up.map().invoke(["a"]),
    lambda: up.pipe(up, up, name="n").name,
    lambda: up.as_tool(name="t", description="d", arg_types={"x": str}),
    lambda: up.as_tool(P, name="t", description="d"),
    lambda: up.batch(["a"], config=[{"tags": []}], return_exceptions=True),
    lambda: up.batch(["a"], {"max_concurrency": 2}),
    lambda: list(up.batch_as_completed(["a", "b"], return_exceptions=True)),
    lambda: list(up.transform(iter(["a"]))),
    lambda: up.invoke("a", config=None),
    lambda: model.configurable_fields(name=ConfigurableField(id="x")),
    lambda: up.configurable_alternatives(
        ConfigurableField(id="x"), default_key="a", prefix_keys=True, b=up, c=lambda: up
    ),
    lambda: PromptTemplate(template="{x}", input_variables=["x"]).format(x=1),
    lambda: PromptTemplate.from_template("{x}", template_format="f-string", partial_variables={"x": "1"}).format(),
    lambda: PromptTemplate.from_file,
    lambda: PromptTemplate.from_examples(["a", "b"], "{s}", ["s"], example_separator="-", prefix="p").format(s="z"),
    lambda: pt.partial(x="1").format(),
    lambda: (pt + "b" + pt).format(x=1),
    lambda: (pt.format_prompt(x=1).to_string(), pt.format_prompt(x=1).to_messages(), pt.format_prompt(x=1).text),
    lambda: (asyncio.run(pt.aformat(x=1)), asyncio.run(pt.aformat_prompt(x=1)), asyncio.run(pt.ainvoke({"x": 1}))),
    lambda: ChatPromptTemplate([("system", "s"), ("human", "{x}")]).invoke({"x": 1}),
    lambda: ChatPromptTemplate(
        messages=[("system", "s")], input_variables=[], partial_variables={}, template_format="f-string"
    ),
    lambda: (
        ChatPromptTemplate.from_messages(
            [("system", "s"), MessagesPlaceholder("h"), ("placeholder", "{c}"), ("ai", "x"), H("y"), "{q}"]
        ).input_variables
    ),
    lambda: ChatPromptTemplate.from_messages([], template_format="mustache"),
    lambda: ChatPromptTemplate.from_template("{x}", template_format="f-string").format_messages(x=1),
    lambda: ChatPromptTemplate.from_template("{x}").format(x=1),
    lambda: ChatPromptTemplate.from_template("{x}").format_prompt(x=1).to_messages(),
    lambda: asyncio.run(ChatPromptTemplate.from_template("{x}").aformat_messages(x=1)),
    lambda: ChatPromptTemplate.from_template("{x}").append(("ai", "y")),
    lambda: ChatPromptTemplate.from_template("{x}").extend([("ai", "y")]),
    lambda: (ChatPromptTemplate.from_template("{x}") + H("y") + "z" + [("ai", "q")])[1:],
    lambda: (len(ChatPromptTemplate.from_template("{x}")), ChatPromptTemplate.from_template("{x}")[0]),
    lambda: ChatPromptTemplate.from_template("{x}").partial(x=1).format_messages(),
    lambda: (
        ChatPromptTemplate.from_template("{x}").partial_variables,
        ChatPromptTemplate.from_template("{x}").optional_variables,
    ),
    lambda: SystemMessagePromptTemplate.from_template("{x}").format(x=1),
    lambda: HumanMessagePromptTemplate.from_template("{x}", template_format="f-string", partial_variables={"x": 1}),
    lambda: HumanMessagePromptTemplate.from_template(
        [
            {"type": "text", "text": "{x}"},
            {"type": "image_url", "image_url": {"url": "{u}"}},
            {"type": "image_url", "image_url": "{u}"},
        ]
    ).format(x=1, u="http://x"),
    lambda: HumanMessagePromptTemplate(prompt=pt).format_messages(x=1),
    lambda: HumanMessagePromptTemplate(prompt=pt, additional_kwargs={"a": 1}),
    lambda: HumanMessagePromptTemplate.from_template_file,
    lambda: (
        HumanMessagePromptTemplate(
            prompt=[pt, ImagePromptTemplate(template={"url": "{u}"}, input_variables=["u"])]
        ).input_variables
    ),
    lambda: AIMessagePromptTemplate.from_template("{x}").format(x=1),
    lambda: ChatMessagePromptTemplate(prompt=pt, role="r").format(x=1),
    lambda: ChatMessagePromptTemplate.from_template("{x}", role="r").format(x=1),
    lambda: ChatMessagePromptTemplate.from_template(role="r", template="{x}").format(x=1),
    lambda: SystemMessagePromptTemplate.from_template("{x}") + HumanMessagePromptTemplate.from_template("{y}"),
    lambda: MessagesPlaceholder(variable_name="h", optional=True, n_messages=1).format_messages(
        h=[("human", "a"), ("human", "b")]
    ),
    lambda: MessagesPlaceholder("h", optional=True).format_messages(),
    lambda: MessagesPlaceholder("h").input_variables,
    lambda: FewShotPromptTemplate(
        examples=[{"a": 1}],
        example_prompt=PromptTemplate.from_template("{a}"),
        prefix="p",
        suffix="{s}",
        input_variables=["s"],
        example_separator="-",
    ).format(s=1),
    lambda: FewShotChatMessagePromptTemplate(
        examples=[{"a": 1}], example_prompt=ChatPromptTemplate.from_template("{a}")
    ).format(),
    lambda: FewShotChatMessagePromptTemplate(
        examples=[{"a": 1}], example_prompt=ChatPromptTemplate.from_template("{a}"), input_variables=[]
    ).format_messages(),
    lambda: StructuredPrompt([("human", "{x}")], P) | model,
    lambda: StructuredPrompt(messages=[("human", "{x}")], schema_=P),
    lambda: StructuredPrompt.from_messages_and_schema([("human", "{x}")], P),
    lambda: DictPromptTemplate(template={"a": "{x}"}, template_format="f-string").format(x=1),
    lambda: ImagePromptTemplate(template={"url": "{u}"}, input_variables=["u"]).format(u="http://x"),
    lambda: ImagePromptTemplate(template={"url": "{u}"}, template_format="f-string", input_variables=["u"]),
    lambda: get_template_variables("{x}", "f-string"),
    lambda: LengthBasedExampleSelector(
        examples=[{"a": "1"}], example_prompt=PromptTemplate.from_template("{a}"), max_length=25, get_text_length=len
    ).select_examples({"x": "y"}),
    lambda: SemanticSimilarityExampleSelector(
        vectorstore=Store(), k=1, example_keys=None, input_keys=["a"], vectorstore_kwargs=None
    ),
    lambda: MaxMarginalRelevanceExampleSelector(vectorstore=Store(), k=1, fetch_k=20, input_keys=["a"]),
    lambda: ChatPromptValue(messages=[H("x")]).to_string(),
    lambda: StringPromptValue(text="x").to_messages(),
    lambda: PydanticOutputParser(pydantic_object=P).parse('{"a": 1}'),
    lambda: PydanticOutputParser(pydantic_object=P).get_format_instructions(),
    lambda: JsonOutputParser(pydantic_object=P, diff=False).parse('{"a": 1}'),
    lambda: SimpleJsonOutputParser().invoke('{"a": 1}'),
    lambda: XMLOutputParser(tags=["a"]).parse("<a>1</a>"),
    lambda: StrOutputParser().invoke(AIMessage("x")),
    lambda: StrOutputParser().parse("x"),
    lambda: asyncio.run(StrOutputParser().aparse("x")),
    lambda: JsonOutputKeyToolsParser(key_name="P", first_tool_only=True, return_id=False).invoke(ai),
    lambda: PydanticToolsParser(tools=[P], first_tool_only=True).invoke(ai),
    lambda: parse_tool_call(TC, partial=False, strict=False, return_id=True),
    lambda: CommaSeparatedListOutputParser().parse("a, b"),
    lambda: CommaSeparatedListOutputParser().get_format_instructions(),
    lambda: NumberedListOutputParser().parse("1. a"),
    lambda: MarkdownListOutputParser().parse("- a"),
    lambda: EnumOutputParser(enum=E).parse("a"),
    lambda: DatetimeOutputParser(format="%Y").parse("2020"),
    lambda: DatetimeOutputParser().get_format_instructions(),
    lambda: BooleanOutputParser(true_val="YES", false_val="NO").parse("yes"),
    lambda: RegexParser(regex="(.*)", output_keys=["a"], default_output_key="a").parse("x"),
    lambda: OutputFixingParser.from_llm(parser=JsonOutputParser(), llm=model, max_retries=1).parse("{'a"),
    lambda: OutputFixingParser.from_llm(
        llm=model, parser=JsonOutputParser(), prompt=PromptTemplate.from_template("{instructions}{completion}{error}")
    ),
    lambda: RetryOutputParser.from_llm(parser=JsonOutputParser(), llm=model, max_retries=1).parse_with_prompt(
        "{'a", pt.format_prompt(x=1)
    ),
    lambda: RetryWithErrorOutputParser.from_llm(parser=JsonOutputParser(), llm=model).parse_with_prompt(
        "{'a", pt.format_prompt(x=1)
    ),
    lambda: asyncio.run(
        RetryWithErrorOutputParser.from_llm(parser=JsonOutputParser(), llm=model).aparse_with_prompt(
            "{'a", pt.format_prompt(x=1)
        )
    ),
    lambda: (Par().invoke("3"), Par().parse_with_prompt("3", pt.format_prompt(x=1)), Par()._type),
    lambda: parse_json_markdown("```json\n{}\n```"),
    lambda: parse_partial_json('{"a'),
    lambda: InMemoryChatMessageHistory(messages=[H("x")]).messages,
    lambda: (
        hist.add_user_message("a"),
        hist.add_ai_message("b"),
        hist.add_message(H("x")),
        hist.add_messages([H("y")]),
    ),
    lambda: hist.add_user_message(H("a")),
    lambda: (asyncio.run(hist.aadd_messages([H("y")])), asyncio.run(hist.aget_messages())),
    lambda: str(hist),
    lambda: (hist.clear(), asyncio.run(hist.aclear())),
    *AGENT_CALLS,
    lambda: MCPAdapter("https://example.org/mcp"),
    lambda: asyncio.run(MCPAdapter(calculator).list_tools())[0].invoke({"a": "1"}),
    lambda: as_langchain_tool(MCPAdapter(calculator), SdkTool(name="one", description="x", input_schema={})),
    lambda: asyncio.run(MultiServerMCPClient({"c": {"transport": "http", "url": "https://x.example"}}).aclose()),
    lambda: asyncio.run(MultiServerMCPClient({"c": calculator}, tool_name_prefix=True).get_tools(server_name="c")),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_call_written_for_langchain_works(number):
    CALLS[number]()
