"""How types, functions and tools are told to models: JSON schemas, function definitions, answers in a shape."""

from __future__ import annotations
