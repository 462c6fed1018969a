"""The judgments that an agent makes over and over: each one a seat, with the question, and who usually answers it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from runwell.errors import InvalidInput, nearest
from runwell.ports.seat import Holder

__all__ = ["SEATS", "STAGES", "Kind", "Seat", "seat"]

Kind = Literal["RULE", "RULING"]
"""RULE: one right answer given what is known. RULING: competent people could differ."""


class Seat(NamedTuple):
    """A judgment. `holder` is who takes it unless an agent is built otherwise; `behaviour` what runwell does;
    `lacks` what of that is not there yet."""

    id: str
    question: str
    kind: Kind
    holder: Holder
    behaviour: str
    lacks: str = ""

    @property
    def stage(self) -> str:
        """The letter of its stage, a key of STAGES."""
        return self.id[0]


STAGES = {
    "A": "Intake and routing",
    "B": "What the model sees",
    "C": "Choosing the next action",
    "D": "May this action run",
    "E": "Execution and observation",
    "F": "Limits and memory",
    "G": "Judging the result",
    "H": "Delegation",
    "I": "Learning",
}

_ALL = (
    # -- A
    Seat(
        "A1", "Which provider does a model string with a prefix call?", "RULE", "code",
        "The prefix before the first colon, if a provider is registered under it; else the whole string is a name.",
    ),
    Seat(
        "A2", "Which provider does a bare model name mean?", "RULING", "code",
        "Only a family that leaves no doubt is inferred; otherwise UnknownModel names the candidates.",
    ),
    Seat(
        "A3", "Does model traffic go straight to the provider?", "RULE", "code",
        "Always, to an explicit address. Environment variables change it only with base_url=\"env\".",
    ),
    Seat(
        "A4", "May a later step use another model?", "RULE", "code",
        "Fixed when the agent is built; middleware may swap it for a call. The model that answered stands in the "
        "reply's response_metadata.",
    ),
    Seat(
        "A5", "What happens to input that is extra or misshapen?", "RULE", "code",
        "Unknown keys raise InvalidInput with the nearest known one; extra=\"ignore\" drops them. No messages at all, "
        "in neither input nor thread, raises too.",
    ),
    Seat(
        "A6", "Which roles may a caller's messages have?", "RULE", "code",
        "In process any role, unless AgentLimits(allowed_roles=...) restricts them; texts, pairs and dicts are "
        "converted.",
    ),
    Seat(
        "A7", "Which of two tools with one name is meant?", "RULING", "code",
        "Neither: DuplicateTool names both origins when the agent is built. replace_tools=True lets the later one win.",
    ),
    Seat(
        "A8", "Which tools run at the provider, out of sight?", "RULE", "code",
        "Only a ProviderTool, or a dict whose type the model's adapter declares. A dict that just describes a function "
        "is refused.",
    ),
    Seat(
        "A9", "Which tools of an MCP server does the agent get?", "RULING", "code",
        "Those an allow-list includes, under a prefix for each server; a pinned tool that changed is refused.",
    ),
    Seat(
        "A10", "May an MCP address given as text start a process?", "RULE", "code",
        "No: only http and https are taken from text, everywhere.",
    ),
    Seat(
        "A11", "Which steps does the agent's graph have?", "RULE", "code",
        "The nodes its parts need, fixed when it is built; agent.get_graph() draws exactly those.",
    ),
    # -- B
    Seat(
        "B1", "What standing instructions does the model get?", "RULE", "code",
        "system_prompt, put before the history at each call and never stored.",
    ),
    Seat(
        "B2", "Does the model see the whole conversation?", "RULING", "code",
        "Whole, unless a middleware cuts or summarises it.",
    ),
    Seat(
        "B3", "How does new history join the old?", "RULE", "code",
        "By message id, in constant time an append. A model's reply that reuses an id gets a fresh one, and that is "
        "recorded.",
    ),
    Seat(
        "B4", "What is the model told about arguments it broke?", "RULE", "code",
        "What was wrong, in the same run, also when every call was malformed; bounded by max_repairs.",
    ),
    Seat(
        "B5", "Is the model offered every tool or a selection?", "RULING", "code",
        "Every tool, unless a middleware selects.",
    ),
    Seat(
        "B6", "Is the model forced to call a tool?", "RULING", "code",
        "No; under tool-based structured output yes, unless tool_choice=\"auto\".",
    ),
    Seat(
        "B7", "How is the shape of a structured answer shown to the model?", "RULE", "code",
        "As the provider's response format, or as one more tool for each schema.",
    ),
    Seat(
        "B8", "What of a tool's return does the model read, and is it cut?", "RULING", "code",
        "Typed content as it is, anything else as JSON. Beyond max_tool_chars the head and tail stay, of media beyond "
        "max_tool_media and max_tool_media_bytes the first; what was cut is "
        "said, and the model is given the tool read_artifact to read the rest.",
    ),
    Seat(
        "B9", "Where does the model see a system message from the middle of the history?", "RULING", "code",
        "In place, unless the model's profile says that it takes it at the top only: then there, and that is recorded. "
        "Never an error in mid-conversation.",
    ),
    Seat(
        "B10", "Who wrote the name, description and schema of an MCP tool?", "RULE", "external",
        "The server, within limits of length, stripped of control characters.",
    ),
    Seat(
        "B11", "Where do a function tool's name, description and schema come from?", "RULE", "code",
        "Its name, its docstring's text, its type hints; the docstring's sections describe the arguments. Without a "
        "description it is refused.",
    ),
    # -- C
    Seat("C1", "Tools or an answer, and which calls?", "RULING", "llm", "The model chooses."),
    Seat(
        "C2", "After the model: tools, the model again, or the end?", "RULE", "code",
        "Open calls run; calls answered without running and unmet formats go back to the model; else the run ends.",
    ),
    Seat(
        "C3", "Must the model call a tool this turn?", "RULE", "code",
        "As the request's tool_choice says, under every strategy.",
    ),
    Seat(
        "C4", "Are the arguments of a call well-formed JSON?", "RULE", "code",
        "Read strictly, alike for all providers; a broken call is set aside and never executed as repaired.",
    ),
    Seat(
        "C5", "After the tools: the model again, or the end?", "RULE", "code",
        "The model, unless every call returned directly or a structured answer is there.",
    ),
    Seat(
        "C6", "What if a structured answer comes with other calls?", "RULE", "code",
        "on_mixed decides: finish (the others run, then it ends), continue, or reject. An invalid answer always goes "
        "back.",
    ),
    Seat(
        "C7", "What may a Command from a tool change?", "RULING", "external",
        "Keys of the state's schema and places in the graph; every call is answered exactly once.",
    ),
    # -- D
    Seat(
        "D1", "May this tool call run, as the model wrote it?", "RULING", "code",
        "Yes, unless approvals= or a middleware asks first. Tools declare read_only, idempotent, destructive, "
        "open_world.",
    ),
    Seat(
        "D2", "May this request go to the provider as it is?", "RULING", "code",
        "Yes, unless a middleware inspects it; the map names those that do.",
    ),
    Seat("D3", "May a tool's Command change the state or the way?", "RULE", "code", "Checked against the schema: C7."),
    Seat(
        "D4", "What if a question comes up and nothing can save the pause?", "RULE", "code",
        "A run that can pause and has no checkpointer is refused when it starts; a bare interrupt() "
        "without one raises.",
    ),
    Seat(
        "D5", "Does a person's answer fit what was asked?", "RULE", "code",
        "Validated against the question's response_schema; one that does not fit leaves the run paused.",
    ),
    Seat(
        "D6", "May a stored type become a live object again?", "RULE", "code",
        "Only types reachable from the graph's schemas; any other is refused when saving. Nothing is unpickled.",
    ),
    Seat(
        "D7", "Does the run stop at this step for a breakpoint?", "RULE", "code",
        "interrupt_before and interrupt_after name nodes; unknown names are refused when the graph is compiled.",
    ),
    Seat(
        "D8", "Does a paused run go on, go on changed, or end?", "RULING", "human",
        "Whoever resumes it says; Command(actor=...) records who.",
    ),
    Seat(
        "D9", "Does this call need a person's review?", "RULING", "code",
        "Named tools do; `when` is asked once and its verdict is kept with the pause.",
    ),
    Seat(
        "D10", "Does the call run as written, edited, not at all, or is it answered?", "RULING", "human",
        "A person decides for each call by its id; lists by position only when complete.",
    ),
    Seat(
        "D11", "Is the person's decision allowed and complete?", "RULE", "code",
        "Checked always: an allowed decision, the same tool unless allow_rename, arguments that fit the tool.",
    ),
    Seat(
        "D12", "Which call runs after an edit, and what does the model hear?", "RULE", "code",
        "The edited one; the history keeps both, and the model is told.",
    ),
    Seat(
        "D13", "Is this text personal data?", "RULING", "code",
        "Detectors decide where a middleware has them; without one nothing looks.",
    ),
    Seat(
        "D14", "Which messages are scanned for personal data?", "RULING", "code",
        "Every one about to leave, where a middleware scans.",
    ),
    Seat(
        "D15", "What happens to personal data that was found?", "RULE", "code",
        "What the middleware's strategy says: block, redact, mask, hash or replace by a token.",
    ),
    Seat(
        "D16", "Does a reader of a stream see personal data?", "RULE", "code",
        "A middleware that redacts does so on every way out, streams included.",
    ),
    Seat(
        "D17", "What may a shell command of the model reach?", "RULING", "code",
        "A sandbox by default: no network, read-only root, one writable folder.",
    ),
    Seat(
        "D18", "Does the shell see the environment of the host?", "RULE", "code",
        "No: PATH, HOME, LANG, and what is named.",
    ),
    Seat(
        "D19", "How much may a shell command print, and how long may it run?", "RULE", "code",
        "Limits in lines, bytes and seconds, visible to the model; the whole process group ends.",
    ),
    Seat(
        "D20", "Is this path inside the folder that may be read?", "RULE", "code",
        "Checked after links are resolved; a refusal says that it is one.",
    ),
    Seat(
        "D21", "Which files of the folder are searched?", "RULING", "code",
        "The same ones on every machine: hidden, ignored and large files are left out, with or without ripgrep.",
    ),
    Seat(
        "D22", "Who answers a question that an MCP server asks?", "RULING", "human",
        "A person, through a pause; earlier answers are replayed.",
    ),
    Seat(
        "D23", "Which requests of an MCP server are accepted?", "RULE", "code",
        "Forms, whose answers are validated; sampling and roots only with a handler.",
    ),
    # -- E
    Seat(
        "E1", "What happens when the model names a tool that is not there?", "RULE", "code",
        "The model is told which there are, and which name is nearest.",
    ),
    Seat(
        "E2", "Do the arguments fit the tool?", "RULE", "code",
        "Validated for every kind of schema; the model hears path, problem and what was expected.",
    ),
    Seat(
        "E3", "Is an error of a tool told to the model, or does it end the run?", "RULING", "code",
        "The tool's own handler, then middleware, then on_tool_error: by default the model hears ToolError, bad "
        "arguments and errors of the outside; anything else is raised.",
    ),
    Seat(
        "E4", "Which inputs does a tool get that the model did not choose?", "RULE", "code",
        "Those it declares as injected; forged values are dropped. A store it needs and does not get is refused at the "
        "start.",
    ),
    Seat(
        "E5", "Do the calls of one turn run side by side?", "RULE", "code",
        "Yes, up to max_concurrency; answers stand in the order of the calls. An exclusive tool runs alone.",
    ),
    Seat(
        "E6", "What happens to the others when one call fails?", "RULING", "code",
        "They are awaited and kept, or with on_sibling_failure=\"cancel\" stopped; a retry runs what did not finish.",
    ),
    Seat(
        "E7", "Is a failed step tried again?", "RULING", "code",
        "Model calls that failed for a passing reason are, twice; so are calls of idempotent tools. model_retry= and "
        "tool_retry= say otherwise.",
    ),
    Seat(
        "E8", "Is a rate-limited model call tried again?", "RULING", "code",
        "By runwell, once and visibly: the SDK's own retries are off, Retry-After is honoured.",
    ),
    Seat("E9", "How does a tool's return become a message?", "RULE", "code", "As B8 says; an artifact is kept apart."),
    Seat("E10", "What does the model hear of calls it malformed?", "RULE", "code", "As B4 says."),
    Seat("E11", "Is a state update from a tool accepted?", "RULE", "code", "As C7 says."),
    Seat(
        "E12", "Does the model hear that an MCP tool failed?", "RULING", "code",
        "Yes, the server's errors and the connection's alike.",
    ),
    Seat(
        "E13", "What does the agent take as the outcome of a call?", "RULING", "external",
        "What the tool's own code returns; where it declares an output schema, only what fits it.",
    ),
    # -- F
    Seat(
        "F1", "How far may a run go?", "RULING", "code",
        "As the budget says: 200 model calls unless told otherwise, counted over pauses and resumes. "
        "Every call of a model in the run counts.",
    ),
    Seat(
        "F2", "How long may a step take?", "RULING", "code",
        "A model call 600 s to its first output and 120 s between chunks; a tool as long as its timeout says.",
    ),
    Seat(
        "F3", "What if the conversation outgrows the model?", "RULING", "code",
        "Measured before the call where the window is known: what is sure not to fit raises ContextOverflow, which "
        "says by how much, as a provider's refusal does; an estimate only warns. AgentLimits(overflow=...) may trim or "
        "summarize.",
    ),
    Seat("F4", "When is old conversation summarised?", "RULING", "code", "When a middleware's trigger is reached."),
    Seat("F5", "What does the summary say?", "RULING", "llm", "What a model writes, having seen all that is dropped."),
    Seat("F6", "Which recent messages stay word for word?", "RULING", "code", "As a middleware says, pairs whole."),
    Seat("F7", "Which old tool results are blanked?", "RULING", "code", "As a middleware says; none without one."),
    Seat(
        "F8", "How many model calls may a run or a thread make?", "RULING", "code",
        "As the budget says for a run; for a thread, as a middleware says.",
    ),
    Seat(
        "F9", "How many tool calls may a run make, and what of those beyond?", "RULING", "code",
        "As the budget says; the excess is answered with an error and the run goes on.",
    ),
    Seat(
        "F10", "Does a new run go on where an earlier one ended?", "RULE", "code",
        "With a checkpointer and the same thread_id.",
    ),
    Seat(
        "F11", "When is a finished step safe?", "RULING", "code",
        "Before the next begins; durability=\"async\" or \"exit\" save later.",
    ),
    Seat(
        "F12", "Does an earlier structured answer stay for the next turn?", "RULE", "code",
        "No: cleared at the start of every run, and by every model call that gives none.",
    ),
    # -- G
    Seat(
        "G1", "Is the task finished?", "RULING", "llm",
        "The model says so by calling no tool; a done= check may send the answer back, a bounded number of times.",
    ),
    Seat(
        "G2", "Does a tool's result end the run unread?", "RULE", "code",
        "A return_direct tool's does; its error never.",
    ),
    Seat(
        "G3", "Does the structured answer have the shape asked for?", "RULE", "code",
        "Validated, whatever kind of schema it is.",
    ),
    Seat(
        "G4", "How often may a bad structured answer be tried again?", "RULING", "code",
        "Three attempts, then StructuredOutputError with all of them.",
    ),
    Seat(
        "G5", "Is a structured answer asked for by a tool or by the provider's own means?", "RULING", "code",
        "By the provider's, where the model's profile says that it has them; else by a tool.",
    ),
    Seat("G6", "What if the provider's own structured answer does not parse?", "RULE", "code", "Asked again: G4."),
    Seat(
        "G7", "Which of several structured answers counts?", "RULE", "code",
        "None, and the model is told; unless they are equal.",
    ),
    Seat(
        "G8", "Does the run end when the answer comes with other calls?", "RULING", "code",
        "As C6 says; never with neither an answer nor an error.",
    ),
    # -- H, I
    Seat(
        "H1", "Is a part of the work handed to another agent?", "RULING", "llm",
        "By calling a tool that is one, or a handoff.",
    ),
    Seat(
        "H2", "How far may an agent inside a tool go?", "RULING", "code",
        "It draws on its caller's budget; its own can only be tighter.",
    ),
    Seat(
        "H3", "Does an agent inside a tool share its parent's saved conversation?", "RULE", "code",
        "It is saved by the parent's checkpointer, under the task that called it.",
    ),
    Seat(
        "H4", "Does another model answer when the call fails?", "RULING", "code",
        "Only where fallbacks= or a middleware names others; never for errors of the program.",
    ),
    Seat("H5", "Is an MCP server's report believed?", "RULING", "external", "Yes; checked against its schema."),
    Seat(
        "I1", "What is kept beyond the conversation, and who says so?", "RULING", "external",
        "Nothing by itself; tools and middleware may write to the store they are given.",
    ),
    Seat(
        "I2", "What is taken as known about the model?", "RULE", "code",
        "Its profile, which profile= overrides; an unknown model has none, and the map says so.",
    ),
)  # fmt: skip

SEATS: dict[str, Seat] = {each.id: each for each in _ALL}
"""All seats by id, in order."""


def seat(id: str) -> Seat:
    """The seat with this id."""
    found = SEATS.get(id)
    if found is None:
        raise InvalidInput(f"There is no seat {id!r}{nearest(id, SEATS)}.", hint="Seats go from A1 to I2.")
    return found
