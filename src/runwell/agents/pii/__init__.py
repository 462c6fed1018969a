"""Finding personal data and secrets in what is said, and keeping them from going on."""

from __future__ import annotations
