"""Writes docs/agents/who-decides-what.md from the catalogue of seats: `make docs`, or --check to compare only."""

from __future__ import annotations

import sys
from pathlib import Path

from runwell.seats.catalogue import SEATS
from runwell.seats.render import catalogue_markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "agents" / "who-decides-what.md"

INTRODUCTION = """\
# Who decides what

An agent makes the same judgments over and over: which provider a name means, whether a call may run, what the model
is told of an error, when it is enough. Each of them is a *seat*, and somebody sits in it: the program's **code**, the
**llm** (the agent's own model), another **model**, a **human**, or someone **external** (a tool's author, a provider, a
server). A RULE has one right answer given what is known; on a RULING competent people could differ.

`agent.seats()` shows who sits where *in one agent as it is configured*, with the file and line of the code
that decides:

```python
from runwell import create_agent, tool
from runwell.testing import FakeChatModel


@tool(destructive=True)
def delete_file(path: str) -> str:
    "Delete a file."
    return f"deleted {path}"


agent = create_agent(FakeChatModel(), [delete_file], approvals="destructive")
seats = agent.seats()
print(seats["D9"].holder, "-", seats["D9"].answer)
# > code - Calls of delete_file do.
print(seats["D10"].holder)
# > human
careless = create_agent(FakeChatModel(), [delete_file])
print([difference.seat.id for difference in seats.diff(careless)][:2])
# > ['A11', 'D1']
```

`seats.to_markdown()` and `seats.to_html()` are pages of it; the second needs nothing else and can be searched. From a
terminal: `runwell seats my_app.agents:support --html seats.html`, `--diff my_app.agents:other`, `--json`. A seat that
comes up and that nobody asks about says so: "nobody asks".

A middleware, tool, model, saver or store says which seats it takes with a method `seats()`:

```python
from runwell import create_agent
from runwell.agents.middleware import AgentMiddleware
from runwell.seats import Held
from runwell.testing import FakeChatModel


class OfficeHours(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        return handler(request)

    def seats(self):
        yield Held("D1", "Calls run in office hours only.", self.wrap_tool_call)


agent = create_agent(FakeChatModel(), middleware=[OfficeHours()])
print(agent.seats()["D1"].answer)
# > Calls run in office hours only.
```

What was decided in a run is told to whoever watches it:

```python
from runwell import create_agent
from runwell.observe import DecisionLog
from runwell.testing import FakeChatModel

log = DecisionLog()
create_agent(FakeChatModel(["Hello."])).invoke({"messages": "Hi"}, {"callbacks": [log]})
for decision in log:
    print(decision.seat, decision.outcome, "-", decision.reason)
# > C2 end - the model called no tool
```

<!-- Everything below is made by `make docs` from src/runwell/seats/catalogue.py. -->
"""


def page() -> str:
    """The whole page."""
    return f"{INTRODUCTION}\nThere are {len(SEATS)} seats.\n\n{catalogue_markdown()}"


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if arguments == ["--check"]:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != page():
            sys.stderr.write(f"{PAGE.name} is not what the catalogue says; run: make docs\n")
            return 1
        return 0
    sys.stderr.write("seat_pages.py --write | --check\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
