"""Shells in a sandbox: what a command may reach, a session that keeps its folder and variables, capped output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.tools.sandbox.bubblewrap import BubblewrapPolicy
    from runwell.tools.sandbox.codex import CodexPolicy
    from runwell.tools.sandbox.docker import DockerPolicy
    from runwell.tools.sandbox.host import HostPolicy
    from runwell.tools.sandbox.policy import Launch, SandboxPolicy
    from runwell.tools.sandbox.redact import RedactionRule, Redactor
    from runwell.tools.sandbox.session import CommandResult, ShellSession

_HOME = {
    "BubblewrapPolicy": "bubblewrap",
    "CodexPolicy": "codex",
    "CommandResult": "session",
    "DockerPolicy": "docker",
    "HostPolicy": "host",
    "Launch": "policy",
    "RedactionRule": "redact",
    "Redactor": "redact",
    "SandboxPolicy": "policy",
    "ShellSession": "session",
}

__all__ = [
    "BubblewrapPolicy",
    "CodexPolicy",
    "CommandResult",
    "DockerPolicy",
    "HostPolicy",
    "Launch",
    "RedactionRule",
    "Redactor",
    "SandboxPolicy",
    "ShellSession",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"runwell.tools.sandbox.{home}"), name)
    globals()[name] = value
    return value
