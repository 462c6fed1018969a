"""How each seat is answered in an agent that nobody told otherwise: one module for each stage."""

from __future__ import annotations
