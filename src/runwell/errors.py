"""Every exception runwell raises, as one tree.

RunwellError                      everything below is one; `.code` is stable, `.hint` says what to do next
├── UsageError                    your code: fix the call
│   ├── InvalidInput              (also ValueError) the input does not fit what was declared
│   ├── InvalidConfig             (also ValueError) a config key or value is wrong
│   ├── InvalidUpdateError        (also ValueError) a node returned something the state cannot take
│   ├── InvalidResume             (also ValueError) an answer that fits no open question
│   ├── InvalidHistory            (also ValueError) messages no model accepts (an unanswered call, an orphan result)
│   ├── DuplicateTool             (also ValueError) two tools under one name
│   ├── ToolDefinitionError       (also ValueError) a function that cannot become a tool
│   ├── NoCheckpointer            a pause was asked for and nothing can save it
│   ├── UnknownModel              (also ValueError) no provider is known for a model string
│   ├── MissingApiKey             a provider's key is not set
│   ├── MissingExtra              (also ImportError) an optional part is not installed
│   ├── UnsupportedByProvider     the provider cannot do what is asked
│   ├── RunningLoop               a sync call that would block the thread it needs
│   ├── InvalidNamespaceError     (also ValueError) a store's namespace that cannot be
│   ├── CallOrderChanged          code that goes on from its record calls other tasks than it did before
│   ├── CassetteMismatch          a request that a recorded test did not make before
│   ├── CassetteMismatch          a recorded test makes a request that is not on its tape
│   └── SandboxUnavailable        the sandbox that is asked for does not work on this machine
├── GraphError                    your graph: fix its definition (found by compile)
├── ModelFacingError              goes back to the model as a message
│   ├── ToolError                 a tool says what went wrong  (ToolException is the same class)
│   │   ├── ToolArgumentsError    the model's arguments do not fit the tool  (ToolInvocationError is the same class)
│   │   ├── ToolOutputError       a tool's result does not fit the output schema that it declares
│   │   └── MCPToolError          a tool of an MCP server failed, or its answer does not fit what it declared; .payload
│   └── OutputParserException     (also ValueError) text that does not parse
├── NodeError                     something in a node went wrong that Python cannot carry as it is
├── StructuredOutputError         no valid structured answer after every attempt
├── OutsideError                  a provider or a store: may pass by itself when `.retryable`
│   ├── ModelError                .status, .retry_after (seconds), .request_id
│   │   ├── ModelAuthenticationError, ModelRateLimitError, ModelOverloaded, ModelTimeout,
│   │   │   ModelConnectionError, ModelNotFound, ModelBadRequest, ModelRefusalError
│   │   └── ContextOverflow       (ContextOverflowError is the same class) .over says by how many tokens, if known
│   ├── SandboxError              a shell in a sandbox could not be started
│   ├── MCPConnectionError        (also ConnectionError) an MCP server cannot be reached, or went away
│   ├── FetchError                a bundled model could not be fetched or verified
│   └── StorageError              a database or file
│       ├── CheckpointCorrupt     stored bytes that cannot be read; never half a state
│       └── ThreadBusy            another run moved the thread on
├── SerializationError            (also TypeError) a value that may not be saved or loaded
│   ├── UnserializableType        refused when saving; names the key and the call that allows it
│   └── ForbiddenType             refused when loading
├── LimitError                    .kind, .value, .limit
│   ├── BudgetExceeded, GraphRecursionError
│   └── NodeTimeoutError          (also TimeoutError)
├── PIIDetectionError             personal data where none may pass
├── MCPToolChanged                a tool of an MCP server is not the one that was accepted; .tool
└── EngineBug                     us: please report

Signal (BaseException)            control flow that `except Exception` must not swallow
├── GraphInterrupt                a task waits for a person
├── ParentCommand                 a jump addressed to the parent graph
├── GraphDrained                  a graph inside another was asked to stop, and did after its step
├── StreamClosed                  the reader of a stream went away
└── RunCancelled                  the run was asked to stop
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

__all__ = [
    "BudgetExceeded",
    "CallOrderChanged",
    "CassetteMismatch",
    "CheckpointCorrupt",
    "ContextOverflow",
    "ContextOverflowError",
    "DuplicateTool",
    "EngineBug",
    "FetchError",
    "ForbiddenType",
    "GraphDrained",
    "GraphError",
    "GraphInterrupt",
    "GraphRecursionError",
    "InvalidConfig",
    "InvalidHistory",
    "InvalidInput",
    "InvalidNamespaceError",
    "InvalidResume",
    "InvalidUpdateError",
    "LimitError",
    "MCPConnectionError",
    "MCPToolChanged",
    "MCPToolError",
    "MissingApiKey",
    "MissingExtra",
    "ModelAuthenticationError",
    "ModelBadRequest",
    "ModelConnectionError",
    "ModelError",
    "ModelFacingError",
    "ModelNotFound",
    "ModelOverloaded",
    "ModelRateLimitError",
    "ModelRefusalError",
    "ModelTimeout",
    "NoCheckpointer",
    "NodeError",
    "NodeTimeoutError",
    "OutputParserException",
    "OutsideError",
    "PIIDetectionError",
    "ParentCommand",
    "RunCancelled",
    "RunningLoop",
    "RunwellError",
    "SandboxError",
    "SandboxUnavailable",
    "SerializationError",
    "Signal",
    "StorageError",
    "StreamClosed",
    "StructuredOutputError",
    "ThreadBusy",
    "ToolArgumentsError",
    "ToolDefinitionError",
    "ToolError",
    "ToolOutputError",
    "ToolException",
    "ToolInvocationError",
    "UnknownModel",
    "UnserializableType",
    "UnsupportedByProvider",
    "UsageError",
    "nearest",
]


def nearest(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'search'?"` for a near miss of `name` among `known`, else an empty string."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


class RunwellError(Exception):
    """The root of everything runwell raises on purpose.

    `code` is stable across releases; `hint` is the next thing to do, or None.
    """

    code: ClassVar[str] = "RW000"
    hint: str | None

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        if message.endswith("?."):  # a suggestion at its end has ended the sentence
            message = message[:-1]
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]" if self.hint is None else f"{self.message} [{self.code}]\n  {self.hint}"


# -- your code


class UsageError(RunwellError):
    """The calling code asks for something that cannot be."""

    code = "RW100"


class InvalidInput(UsageError, ValueError):
    """The input does not fit what was declared."""

    code = "RW101"


class InvalidConfig(UsageError, ValueError):
    """A config key or value is wrong."""

    code = "RW102"


class InvalidUpdateError(UsageError, ValueError):
    """A node returned something the state cannot take."""

    code = "RW103"


class InvalidResume(UsageError, ValueError):
    """An answer fits no open question; the pause is left as it was."""

    code = "RW104"


class InvalidHistory(UsageError, ValueError):
    """A list of messages that no model would accept."""

    code = "RW105"


class DuplicateTool(UsageError, ValueError):
    """Two tools under one name."""

    code = "RW106"


class ToolDefinitionError(UsageError, ValueError):
    """A function or schema that cannot become a tool."""

    code = "RW107"


class NoCheckpointer(UsageError):
    """A pause was asked for and nothing can save it."""

    code = "RW108"


class UnknownModel(UsageError, ValueError):
    """No provider is known for a model string."""

    code = "RW109"


class MissingApiKey(UsageError):
    """A provider's key is not set. Raised before any network use; names the variable, never a value."""

    code = "RW110"


class MissingExtra(UsageError, ImportError):
    """An optional part is not installed.

    `extra` is the name for `pip install "runwell[extra]"`.
    """

    code = "RW111"

    def __init__(self, what: str, extra: str) -> None:
        UsageError.__init__(self, f"{what} needs a part that is not installed.", hint=f'pip install "runwell[{extra}]"')
        self.extra = extra


class UnsupportedByProvider(UsageError):
    """The chosen provider cannot do what is asked; known and raised when binding."""

    code = "RW112"


class RunningLoop(UsageError):
    """A sync call from a thread that the call itself would need."""

    code = "RW113"


class InvalidNamespaceError(UsageError, ValueError):
    """A namespace of a store that cannot be."""

    code = "RW114"


class CallOrderChanged(UsageError):
    """Code that runs again after a pause or crash does not make the calls of tasks that were recorded."""

    code = "RW115"


class CassetteMismatch(UsageError):
    """A recorded test makes a request that is not on its tape."""

    code = "RW117"


class SandboxUnavailable(UsageError):
    """The sandbox that is asked for does not work on this machine. Nothing runs outside of it instead."""

    code = "RW116"


# -- your graph


class GraphError(RunwellError, ValueError):
    """The graph's definition is wrong. `problems` lists every one found, not only the first."""

    code = "RW200"

    def __init__(self, message: str = "", *, problems: Sequence[str] = (), hint: str | None = None) -> None:
        if problems:
            message = f"{message}\n" + "\n".join(f"  - {problem}" for problem in problems)
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


# -- the model


class ModelFacingError(RunwellError):
    """An error whose text is meant for the model, as a message it can act on."""

    code = "RW300"


class ToolError(ModelFacingError):
    """Raise it inside a tool: the model is told the text and may try something else."""

    code = "RW301"

    def __str__(self) -> str:  # the model reads it: no code, no hint for programmers
        return self.message


class ToolArgumentsError(ToolError):
    """The model's arguments do not fit the tool's schema."""

    code = "RW302"


class ToolOutputError(ToolError):
    """A tool gave what does not fit the output schema that it declares."""

    code = "RW305"


class MCPToolError(ToolError):
    """A tool of an MCP server failed, or its answer does not fit what it declared.

    `payload` is the structured content it sent, if any; `content` what it said, as message content.
    """

    code = "RW304"

    def __init__(self, message: str = "", *, payload: Any = None, content: Any = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.payload = payload
        self.content = message if content is None else content


class OutputParserException(ModelFacingError, ValueError):
    """Text that does not parse. `llm_output` is the text."""

    code = "RW303"

    def __init__(self, message: str = "", *, llm_output: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.llm_output = llm_output


ToolException = ToolError
ToolInvocationError = ToolArgumentsError


# -- a run


class NodeError(RunwellError):
    """Something in a node went wrong that Python cannot carry through a coroutine as it is."""

    code = "RW401"


class StructuredOutputError(RunwellError):
    """No valid structured answer. `attempts` holds each (message, problem) in order."""

    code = "RW402"

    def __init__(self, message: str = "", *, attempts: Sequence[Any] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.attempts = list(attempts)


# -- the outside


class OutsideError(RunwellError):
    """Something outside this process failed. `retryable` says whether trying again can help."""

    code = "RW500"
    retryable: bool = False


class ModelError(OutsideError):
    """A model provider failed.

    `status` is the HTTP status, `retry_after` the seconds the provider asks to wait, `request_id` its
    own name for the request; each None when unknown.
    """

    code = "RW510"

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after = retry_after
        self.request_id = request_id


class ModelAuthenticationError(ModelError):
    """The key is refused."""

    code = "RW511"


class ModelRateLimitError(ModelError):
    """Too many requests, or the quota is used up."""

    code = "RW512"
    retryable = True


class ModelOverloaded(ModelError):
    """The provider cannot serve right now (5xx, 529)."""

    code = "RW513"
    retryable = True


class ModelTimeout(ModelError, TimeoutError):
    """No answer, or no next chunk, in time."""

    code = "RW514"
    retryable = True


class ModelConnectionError(ModelError, ConnectionError):
    """The provider was not reached, or the connection broke."""

    code = "RW515"
    retryable = True


class ModelNotFound(ModelError):
    """The provider does not know the model."""

    code = "RW516"


class ModelBadRequest(ModelError):
    """The provider refuses the request as malformed."""

    code = "RW517"


class ModelRefusalError(ModelError):
    """The model, or the provider's filter, declined to answer."""

    code = "RW518"


class ContextOverflow(ModelError):
    """The conversation does not fit the model's window. `over` is by how many tokens, None when unknown."""

    code = "RW519"

    def __init__(self, message: str = "", *, over: int | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.over = over


ContextOverflowError = ContextOverflow


class FetchError(OutsideError):
    """A bundled model could not be fetched, or what came is not what was promised."""

    code = "RW520"


class StorageError(OutsideError):
    """A database or file failed."""

    code = "RW530"


class CheckpointCorrupt(StorageError):
    """Stored bytes cannot be read. Nothing of the state is returned."""

    code = "RW531"


class ThreadBusy(StorageError):
    """Another run moved the thread on since this one read it."""

    code = "RW532"


class SandboxError(OutsideError):
    """A shell in a sandbox could not be started, or ended where it must not."""

    code = "RW540"


class MCPConnectionError(OutsideError, ConnectionError):
    """An MCP server cannot be reached, or its connection ended. The next call opens a new one."""

    code = "RW550"


# -- serialisation


class SerializationError(RunwellError, TypeError):
    """A value may not be saved or loaded."""

    code = "RW600"


class UnserializableType(SerializationError):
    """Refused when saving; names the key, the type and the call that allows it."""

    code = "RW601"


class ForbiddenType(SerializationError):
    """Refused when loading: the type is not on the allow-list, so it is never built."""

    code = "RW602"


# -- limits


class LimitError(RunwellError):
    """A limit was reached: `kind` of limit, `value` reached, `limit` set."""

    code = "RW700"

    def __init__(
        self, message: str = "", *, kind: str = "", value: Any = None, limit: Any = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.value = value
        self.limit = limit


class BudgetExceeded(LimitError):
    """An agent's budget is used up; everything finished is saved.

    `owner` is the budget's meter: an agent may have run into its own, or into one that it shares.
    """

    code = "RW701"
    owner: Any = None


class GraphRecursionError(LimitError, RecursionError):
    """The graph wanted more super-steps than `recursion_limit`."""

    code = "RW702"


class NodeTimeoutError(LimitError, TimeoutError):
    """A node or tool took longer than its timeout.

    `kind` is "timeout", or "idle" when it gave no sign of life. `abandoned` says that its code is plain and goes on in
    a thread that nobody waits for; async code was cancelled.
    """

    code = "RW703"
    abandoned: bool = False


# -- policy


class PIIDetectionError(RunwellError):
    """Personal data or a secret where none may pass: `pii_type`, `count` findings. The values stand nowhere in it."""

    code = "RW800"

    def __init__(self, message: str = "", *, pii_type: str = "", count: int = 0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.pii_type = pii_type
        self.count = count


class MCPToolChanged(RunwellError):
    """The tool `tool` of an MCP server is not the one that was accepted: its name, description or schema changed."""

    code = "RW801"

    def __init__(self, message: str = "", *, tool: str = "", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.tool = tool


# -- us


class EngineBug(RunwellError):
    """Something that must not happen did. Please report it with the text."""

    code = "RW900"


# -- signals


class Signal(BaseException):
    """Control flow. Not an Exception, so user code's `except Exception` and retries let it through."""


class GraphInterrupt(Signal):
    """A task waits for an answer. `interrupts` holds the open questions."""

    def __init__(self, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(tuple(interrupts))
        self.interrupts = tuple(interrupts)


class ParentCommand(Signal):
    """A Command addressed to the parent graph."""

    def __init__(self, command: Any) -> None:
        super().__init__(command)
        self.command = command


class GraphDrained(Signal):
    """A graph inside another ended early, saved, because `RunControl.stop` was called. `reason` is what it was told."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class StreamClosed(Signal):
    """The reader of a stream went away: the next emit of the run raises this."""


class RunCancelled(Signal):
    """The run was asked to stop."""
