"""Keys and tokens whose form their makers define."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["PEM", "secrets"]

_FORMS = (
    r"sk-(?:ant-|proj-|svcacct-|admin-|or-)?[A-Za-z0-9_-]{20,}+",  # OpenAI, Anthropic, OpenRouter
    r"gh[pousr]_[A-Za-z0-9]{36,}+",  # GitHub
    r"github_pat_[A-Za-z0-9_]{22,}+",
    r"glpat-[A-Za-z0-9_-]{20,}+",  # GitLab
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}",  # AWS
    r"AIza[A-Za-z0-9_-]{35}",  # Google
    r"GOCSPX-[A-Za-z0-9_-]{28}",
    r"ya29\.[A-Za-z0-9_-]{20,}+",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}+",  # Slack
    r"xapp-\d-[A-Za-z0-9-]{20,}+",
    r"[spr]k_(?:live|test)_[A-Za-z0-9]{16,}+",  # Stripe
    r"whsec_[A-Za-z0-9+/=]{24,}+",
    r"hf_[A-Za-z0-9]{30,}+",  # Hugging Face
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[A-Za-z0-9_-]{50,}+",
    r"SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+",  # SendGrid
    r"dop_v1_[a-f0-9]{64}",  # DigitalOcean
    r"dapi[0-9a-f]{32}",  # Databricks
    r"\d{8,10}:AA[A-Za-z0-9_-]{33}",  # Telegram
    r"eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]*+",  # a signed web token
)
_KEY = re.compile(rf"(?:(?<![\w-])|(?<=\\[nrt]))(?:{'|'.join(_FORMS)})(?![\w-])", re.ASCII)

_LONG = re.compile(r"[\w+/=.:-]{20}", re.ASCII)
"""What every key holds, and little else does."""

PEM = "-----BEGIN "
PEM_LONGEST = 16_384
"""Characters of a private key block; one that does not end within them is taken up to there."""
_PEM_HEAD = re.compile(r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PEM_FOOT = re.compile(r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")


def secrets(text: str) -> Iterator[tuple[int, int]]:
    """Where keys stand. A private key block without its end goes on as far as there is text."""
    if _LONG.search(text) is not None:
        for hit in _KEY.finditer(text):
            yield hit.span()
    if PEM not in text:
        return
    place = 0
    while (head := _PEM_HEAD.search(text, place)) is not None:
        foot = _PEM_FOOT.search(text, head.end(), head.start() + PEM_LONGEST)
        place = foot.end() if foot is not None else min(len(text), head.start() + PEM_LONGEST)
        yield head.start(), place
