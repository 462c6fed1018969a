"""The script that installs system packages never stops `make test`, and says what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "system_packages.sh"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the script is about Linux"),
]


def run(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """With nothing on PATH but these programs, and what the script itself needs."""
    for name, body in programs.items():
        (folder / name.replace("_", "-")).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name.replace("_", "-")).chmod(0o755)
    for name in ("uname", "cat", "mktemp", "tail", "rm"):
        found = next(path for path in (Path("/usr/bin", name), Path("/bin", name)) if path.exists())
        (folder / name).symlink_to(found)
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), "python3"], env={"PATH": str(folder)}, capture_output=True, text=True, check=False
    )


WHEEL = "exit 0"  # a Python that has a Redis server in a wheel
NO_WHEEL = "exit 1"


@pytest.mark.parametrize("redis", [{"python3": WHEEL}, {"python3": NO_WHEEL, "redis_server": "exit 0"}])
def test_what_is_there_is_left_alone(tmp_path: Path, redis: dict[str, str]) -> None:
    done = run(tmp_path, bwrap="exit 0", apt_get="exit 9", **redis)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_root_installs_it(tmp_path: Path) -> None:
    done = run(tmp_path, id="echo 0", apt_get=f'echo "$*" >>{tmp_path}/asked', python3=NO_WHEEL)
    assert done.returncode == 0
    assert (tmp_path / "asked").read_text().splitlines() == [
        "install -y --no-install-recommends bubblewrap",
        "install -y --no-install-recommends redis-server",
    ]


def test_the_lists_are_fetched_if_need_be(tmp_path: Path) -> None:
    body = f'echo "$1" >>{tmp_path}/asked; [ "$1" = update ] || [ "$(wc -l <{tmp_path}/asked)" = 3 ]'
    (tmp_path / "wc").symlink_to("/usr/bin/wc")
    assert run(tmp_path, id="echo 0", apt_get=body, python3=WHEEL).returncode == 0
    assert (tmp_path / "asked").read_text().split() == ["install", "update", "install"]


@pytest.mark.parametrize(
    "programs", [{}, {"id": "echo 1000", "apt_get": "exit 0"}, {"id": "echo 0", "apt_get": "exit 1"}]
)
def test_what_is_missing_is_told(tmp_path: Path, programs: dict[str, str]) -> None:
    done = run(tmp_path, python3=NO_WHEEL, **programs)
    assert done.returncode == 0
    for package in ("bubblewrap", "redis-server"):
        assert f"{package} is not installed" in done.stderr
        assert f"apt-get install {package}" in done.stderr
