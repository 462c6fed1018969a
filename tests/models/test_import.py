"""RUN-09: the base of all models is light."""

from __future__ import annotations

import subprocess
import sys


def test_run_09_the_base_loads_nothing_heavy() -> None:
    code = (
        "import time; start = time.perf_counter(); from runwell.models import BaseChatModel, init_chat_model;"
        "import sys; heavy = {'numpy', 'transformers', 'openai', 'httpx', 'httpx2', 'tenacity', 'anyio', 'asyncio',"
        "'jsonschema_rs', 'docstring_parser', 'sqlite3'};"
        "print(sorted(heavy & sys.modules.keys()), time.perf_counter() - start < 3)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[] True"
