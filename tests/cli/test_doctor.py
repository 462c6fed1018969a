"""`runwell doctor`: what is here, what would leave; and no secret in it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from runwell.cli import doctor
from runwell.cli.extras import EXTRAS, installed
from runwell.models.init import known_providers

PYPROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
SECRETS = {
    "OPENAI_API_KEY": "sk-hunter2",
    "ANTHROPIC_API_KEY": "sk-ant-hunter2",
    "HTTPS_PROXY": "http://lovelace:pass-hunter2@proxy.example:3128",
    "http_proxy": "lovelace:pass-hunter2@other.example:8080",
    "ALL_PROXY": "http://lovelace:pa/ss-hunter2@odd.example",
    "NO_PROXY": "localhost,127.0.0.1",
    "OPENAI_BASE_URL": "https://lovelace:url-hunter2@elsewhere.example/v1",
    "RUNWELL_SERVE_KEY": "serve-hunter2",
}


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_secret_is_printed(runwell: Any, form: tuple[str, ...]) -> None:
    done = runwell("doctor", *form, **SECRETS)
    assert done.status == 0
    assert "hunter2" not in done.out + done.err
    assert "lovelace" not in done.out + done.err
    for told in ("OPENAI_API_KEY", "proxy.example:3128", "other.example:8080", "OPENAI_BASE_URL"):
        assert told in done.out


def test_json_for_scripts(runwell: Any, folder: Path) -> None:
    found = runwell("doctor", "--json", **SECRETS).json
    assert found["keys"] == ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"]
    assert found["proxies"]["HTTPS_PROXY"] == "proxy.example:3128"
    assert found["extras"]["cli"]["installed"]
    assert found["providers"] == sorted({*known_providers(), "scripted"})
    assert found["models"] == []
    assert found["models_folder"] == str(folder / "home" / "runwell" / "models")
    assert found["offline"]
    assert all(found["libraries"].values())


def test_a_machine_without_keys_sends_nothing(runwell: Any) -> None:
    out = runwell("doctor").out
    assert "No provider's API key is set" in out
    assert "no model is fetched" in out
    assert "RUNWELL_OFFLINE" not in runwell("doctor", RUNWELL_OFFLINE="0").out


def test_a_missing_extra_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(EXTRAS, "postgres", ("package_that_is_not_there",))
    doctor.doctor(as_json=False)
    assert 'missing: pip install "runwell[postgres]"' in capsys.readouterr().out
    assert not installed("postgres")


def test_it_knows_the_extras_there_are() -> None:
    """Those of `runwell[all]`, and for each its packages."""
    [everything] = PYPROJECT["optional-dependencies"]["all"]
    assert sorted(EXTRAS) == sorted(everything.removeprefix("runwell[").removesuffix("]").split(","))
    for extra, packages in EXTRAS.items():
        required = " ".join(PYPROJECT["optional-dependencies"][extra]).replace("-", "_")
        assert all(package.partition("_pool")[0].replace(".", "_") in required for package in packages), extra
