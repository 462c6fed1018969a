"""Pausing for an answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from runwell.errors import GraphInterrupt, InvalidInput, InvalidResume, NoCheckpointer, UsageError
from runwell.graph.updates import same
from runwell.ports.command import Interrupt
from runwell.ports.runtime import CURRENT_TASK, TaskScope

__all__ = ["answers_for", "interrupt", "interrupt_id", "record"]


SEED = "__asked__"
"""Among a task's records: what tells its questions from those of all other tasks, also in other threads."""
EDITED = "__edited__"
"""Among a task's records: what it asked, by id, before the state was changed by hand."""


def interrupt_id(records: Mapping[str, Any], ns: str, task_id: str, index: int) -> str:
    """A question's id: the same whenever this task asks its `index`-th question again, in a copy of its thread too."""
    from hashlib import blake2b  # loads OpenSSL, 3.5 MiB, which a program that never pauses does without

    return blake2b(f"{records.get(SEED)}|{ns}|{task_id}#{index}".encode(), digest_size=16).hexdigest()


def interrupt(value: Any, *, response_schema: Any = None) -> Any:
    """Ask a person (or any outsider) and give their answer.

    The first time, the run pauses here: what is finished is saved, `invoke` returns with the question under
    `"__interrupt__"`, and `invoke(Command(resume=answer), config)` runs the node again from its start, in which this
    call gives the answer. Several calls in one node are answered in order; what was answered is not asked again.

    `response_schema` (a JSON schema, Pydantic model, dataclass or TypedDict) is what an answer must fit; one that does
    not fit is refused when it is given, and the pause stays as it was.

    Raises NoCheckpointer where nothing can save the pause. Must be called in a node, or a tool, of a running graph.
    """
    scope = CURRENT_TASK.get()
    if scope is None:
        raise UsageError(
            "interrupt() was called outside a graph's node.",
            hint="Call it in a node or tool of a compiled graph that has a checkpointer; in a thread of your own, "
            "carry the run over with runwell.copy_context.",
        )
    index = scope.asked
    scope.asked = index + 1
    if index < len(scope.answers) and EDITED in scope.records:
        _drop_answers_to_another(scope, index, value)
    if index < len(scope.answers):
        return scope.answers[index]
    if SEED not in scope.records:
        scope.records[SEED] = scope.runtime.execution_info.checkpoint_id or os.urandom(8).hex()
    asked = interrupt_id(scope.records, scope.place[1], scope.task_id, index)
    question = Interrupt(value, asked, _json_schema(response_schema))
    if scope.in_process is not None:
        answer = _checked(question, scope.in_process(question))
        scope.answers.append(answer)
        return answer
    if not scope.can_pause:
        raise NoCheckpointer(
            f"Node {scope.node!r} asks {value!r:.200}, and nothing can save the pause.",
            hint="Compile the graph with checkpointer=InMemorySaver() (or SqliteSaver) and pass "
            '{"configurable": {"thread_id": ...}}, or answer in process with answer_interrupts=.',
        )
    scope.pause = GraphInterrupt([question])
    raise scope.pause


def _drop_answers_to_another(scope: TaskScope, index: int, value: Any) -> None:
    """Forget the answers from the `index`-th on, if that one was given to another question than is asked now."""
    asked = interrupt_id(scope.records, scope.place[1], scope.task_id, index)
    edited = scope.records[EDITED]
    if asked in edited and not same(edited[asked], value):
        del scope.answers[index:]
        for key in (f"answer/{asked}", f"actor/{asked}"):
            scope.records.pop(key, None)


def record(key: str, make: Any) -> Any:
    """What `make()` gave when this task first got here; kept with the task's pause, so not computed again after it.

    `key` is unique within the task. The value must be serialisable. Outside a graph `make()` is simply called.
    """
    scope = CURRENT_TASK.get()
    if scope is None:
        return make()
    key = scope.prefix + key
    if key not in scope.records:
        scope.records[key] = make()
    return scope.records[key]


def _json_schema(schema: Any) -> dict[str, Any] | None:
    if schema is None:
        return None
    if isinstance(schema, dict):
        import jsonschema_rs

        from runwell.schemas.json_schema import never_fetch

        try:
            jsonschema_rs.validator_for(schema, retriever=never_fetch)
        except ValueError as error:
            raise InvalidInput(
                f"response_schema={schema!r:.200} is no JSON schema: {str(error).splitlines()[0]}",
                hint="Correct it, or give a Pydantic model, dataclass or TypedDict.",
            ) from error
        return schema
    from runwell.schemas.type_schema import type_schema

    return type_schema(schema, f"response_schema={schema!r} has no JSON schema", "Use a type that JSON can say.")[0]


def _checked(question: Interrupt, answer: Any) -> Any:
    """The answer, if it fits what was asked."""
    if question.response_schema is None:
        return answer
    import jsonschema_rs

    from runwell.schemas.branches import told_problems
    from runwell.schemas.json_schema import never_fetch

    try:
        validator = jsonschema_rs.validator_for(question.response_schema, retriever=never_fetch)
        problems = [
            f"{'.'.join(map(str, path)) or '(whole)'}: {text}"
            for path, text in told_problems(validator.iter_errors(answer))
        ]
    except ValueError as error:  # an answer that is not JSON at all
        problems = [str(error)]
    if problems:
        raise InvalidResume(
            f"The answer {answer!r:.200} to {question.value!r:.200} does not fit: {'; '.join(problems)}.",
            hint="The run is still paused; resume with an answer that fits.",
        )
    return answer


def _looks_like_id(key: Any) -> bool:
    return isinstance(key, str) and len(key) == 32 and set(key) <= set("0123456789abcdef")


def answers_for(questions: Sequence[Interrupt], resume: Any) -> dict[str, Any]:
    """A `Command(resume=...)` as answer per question id. Raises InvalidResume; nothing is changed then."""
    known = {question.id: question for question in questions}
    if not known:
        raise InvalidResume(
            f"There is nothing to resume with {resume!r:.200}: the thread has no open question.",
            hint="Look at get_state(config).interrupts; continue with invoke(None, config), which also asks "
            "again what was open before an update_state, or send new input.",
        )
    by_id = isinstance(resume, dict) and bool(resume) and all(_looks_like_id(key) for key in resume)
    if by_id and (stale := [key for key in resume if key not in known]):
        raise InvalidResume(
            f"No open question has the id {stale[0]!r}: it was answered already, or is another thread's.",
            hint="Open are " + ", ".join(f"{id_!r}" for id_ in known) + "; see get_state(config).interrupts.",
        )
    if by_id:
        given = resume
    elif len(known) > 1:
        raise InvalidResume(
            f"{len(known)} questions are open, and {resume!r:.200} does not say which one it answers.",
            hint="Answer by id: Command(resume={"
            + ", ".join(f"{id_!r}: ..." for id_ in known)
            + "}); get_state(config).interrupts lists them.",
        )
    else:
        given = {next(iter(known)): resume}
    return {id_: _checked(known[id_], answer) for id_, answer in given.items()}
