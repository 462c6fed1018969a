"""The sandbox of the Codex command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from runwell.errors import InvalidInput, SandboxUnavailable
from runwell.tools.sandbox.policy import Launch, SandboxPolicy

__all__ = ["CodexPolicy"]


@dataclass(frozen=True, kw_only=True)
class CodexPolicy(SandboxPolicy):
    """`codex sandbox`: Landlock and seccomp on Linux, Seatbelt on macOS. Writes only in the workspace, no network.

    `config_overrides` are settings of Codex (`-c key=value`), added to `sandbox_mode` and the network's. `platform`
    names the system for versions of Codex that ask for it ("linux", "macos"); "auto" leaves it out.
    """

    network_enabled: bool = False
    config_overrides: Mapping[str, Any] = field(default_factory=dict)
    platform: Literal["auto", "linux", "macos"] = "auto"
    binary: str = "codex"

    name: ClassVar[str] = "codex"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.platform not in ("auto", "linux", "macos"):
            raise InvalidInput(f"platform={self.platform!r}", hint='It is "auto", "linux" or "macos".')

    def check(self) -> None:
        import shutil

        if shutil.which(self.binary) is None:
            raise SandboxUnavailable(
                f"CodexPolicy cannot be used: there is no {self.binary!r} on PATH.",
                hint="Install the Codex command, or choose BubblewrapPolicy() or DockerPolicy().",
            )

    def launch(self, shell: Sequence[str], workspace: Path, env: Mapping[str, str]) -> Launch:
        settings: dict[str, Any] = {
            "sandbox_mode": "workspace-write",
            "sandbox_workspace_write.network_access": self.network_enabled,
            **self.config_overrides,
        }
        line = [self.binary, "sandbox", *([] if self.platform == "auto" else [self.platform])]
        for key in sorted(settings):
            line += ["-c", f"{key}={_toml(key, settings[key])}"]
        return Launch(argv=(*line, "--", *shell), env=self.environment(workspace, env), cwd=str(workspace))

    def describe(self) -> str:
        network = "with network" if self.network_enabled else "no network"
        return f"The Codex sandbox: {network}, reads the host's files, writes in one folder."


def _toml(key: str, value: Any) -> str:
    """A value as `-c` reads it. What JSON and TOML share is enough."""
    if isinstance(value, (bool, int, float, str)) or (
        isinstance(value, (list, tuple)) and all(isinstance(each, (bool, int, float, str)) for each in value)
    ):
        return json.dumps(value)
    raise InvalidInput(f"config_overrides[{key!r}]={value!r}", hint="A text, a number, a boolean, or a list of these.")
