"""The difference between two states of a growing JSON value, as JSON Patch operations (RFC 6902)."""

from __future__ import annotations

from typing import Any

__all__ = ["json_diff"]


def json_diff(before: Any, after: Any) -> list[dict[str, Any]]:
    """Operations that turn `before` into `after`. Parts that both share (the same object) are not looked into."""
    operations: list[dict[str, Any]] = []
    _compare(before, after, "", operations)
    return operations


def _compare(before: Any, after: Any, path: str, operations: list[dict[str, Any]]) -> None:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() - after.keys():
            operations.append({"op": "remove", "path": _join(path, key)})
        for key, value in after.items():
            if key in before:
                _compare(before[key], value, _join(path, key), operations)
            else:
                operations.append({"op": "add", "path": _join(path, key), "value": value})
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(len(before) - 1, len(after) - 1, -1):
            operations.append({"op": "remove", "path": f"{path}/{index}"})
        for index, value in enumerate(after):
            if index < len(before):
                _compare(before[index], value, f"{path}/{index}", operations)
            else:
                operations.append({"op": "add", "path": f"{path}/-", "value": value})
    elif type(before) is not type(after) or before != after:
        operations.append({"op": "replace", "path": path, "value": after})


def _join(path: str, key: str) -> str:
    return f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
