"""What is not used is not loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import runwell.persistence", {"ormsgpack", "sqlite3", "asyncio", "pydantic", "runwell.messages"}),
        (
            "from runwell.persistence import InMemorySaver; InMemorySaver()",
            {"sqlite3", "asyncio", "pydantic", "anyio"},
        ),
        (
            "from runwell.persistence import SqliteSaver; SqliteSaver(':memory:').close()",
            {"asyncio", "pydantic", "anyio"},
        ),
    ],
)
def test_importing_a_saver_loads_only_what_it_needs(statement: str, absent: set[str]) -> None:
    code = f"{statement}; import sys; print(*sorted({absent!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
