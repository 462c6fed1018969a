"""The demo's last part: a process that is killed in the middle of a thread, and another one that goes on with it.

`python -m runwell.cli.demo_killed FOLDER MODEL` is those processes.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from runwell.cli.conversation import show
from runwell.cli.screen import safe

__all__ = ["KILLED_THREAD", "TWO_TOOLS", "kill_and_continue", "said", "served"]

TWO_TOOLS = "What is 23 * 47, and what time is it now?"
KILLED_THREAD = "killed"
PATIENCE_S = 300


def said(text: str) -> dict[str, Any]:
    """The input of an agent that a person says `text` to."""
    return {"messages": [{"role": "user", "content": text}]}


@contextlib.contextmanager
def served(model: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The model for other processes, and their environment: this process's own, through its OpenAI-compatible
    endpoint, so that it is loaded once. A model that is not local is reached as it is."""
    if not model.startswith("local:") or importlib.util.find_spec("openai") is None:
        yield model, {}
        return
    from runwell.providers.local.serve import LocalServer

    name = model.removeprefix("local:")
    with LocalServer(name, embeddings=None) as server:
        served_as = server.models()["data"][0]["id"]
        direct = ",".join(filter(None, [os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), "127.0.0.1"]))
        yield (
            f"openai:{served_as}",
            {
                "RUNWELL_DEMO_URL": server.url,
                "RUNWELL_DEMO_KEY": server.key,
                "NO_PROXY": direct,
                "no_proxy": direct,
            },
        )


def kill_and_continue(model: str, folder: Path, environment: dict[str, str], say: Console) -> str | None:
    """Kill one process while its second tool runs, let another one finish; what went wrong, or None."""
    environment = {**os.environ, **environment}
    command = [sys.executable, "-m", "runwell.cli.demo_killed", str(folder), model]
    holding = {**environment, "RUNWELL_DEMO_HOLD": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=holding) as process:
        assert process.stdout is not None
        impatience = threading.Timer(PATIENCE_S, process.kill)
        impatience.start()
        try:
            for line in process.stdout:
                held = "HOLDING" in line  # another thread writes to the same line
                if told := line.replace("HOLDING", "").rstrip():
                    say.print(f"  {safe(told)}")
                if held:
                    break
            else:
                return "the process ended before it could be killed."
        finally:
            impatience.cancel()
            process.kill()  # SIGKILL: nothing in it has a chance to clean up
    say.print(f"  kill -9 {process.pid}", style="red", end=" ")
    say.print("while its second tool runs; a new process goes on:")
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    say.print("".join(f"  {safe(line)}\n" for line in done.stdout.splitlines()), end="")
    return f"the new process failed: {done.stderr[-500:]}" if done.returncode else None


def start_or_continue(folder: str, model: str) -> None:
    """The child process's part: start the thread, or go on with it if it is there."""
    from runwell.agents import create_agent
    from runwell.cli.demo_tools import calculator, current_time
    from runwell.models import init_chat_model
    from runwell.observe import JsonlTrace
    from runwell.persistence import SqliteSaver

    path = Path(folder)
    with SqliteSaver(path / "threads.sqlite") as saver, JsonlTrace(path / "trace.jsonl", redact=None) as trace:
        url = os.environ.get("RUNWELL_DEMO_URL")
        where: dict[str, Any] = (
            {"base_url": url, "api_key": os.environ["RUNWELL_DEMO_KEY"], "temperature": 0} if url else {}
        )
        agent = create_agent(init_chat_model(model, **where), [calculator, current_time], checkpointer=saver)
        config = {"configurable": {"thread_id": KILLED_THREAD}, "callbacks": [trace]}
        begun = bool(agent.get_state(config).values)
        show(agent, None if begun else said(TWO_TOOLS), config)


if __name__ == "__main__":
    start_or_continue(*sys.argv[1:])
