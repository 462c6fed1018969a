"""Which roles the messages of a caller may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from runwell.errors import InvalidInput, nearest
from runwell.messages.convert import ROLES, convert_to_messages
from runwell.ports.command import Overwrite

__all__ = ["check_roles", "message_types"]


def message_types(roles: Sequence[str]) -> frozenset[str]:
    """The types of message that roles mean: "user" and "human" are the same."""
    if isinstance(roles, str) or not roles:
        raise InvalidInput(f"allowed_roles={roles!r}.", hint='Pass a list of roles: ["user"].')
    for role in roles:
        if role not in ROLES:
            raise InvalidInput(f"allowed_roles names {role!r}, which is no role{nearest(str(role), ROLES)}.")
    return frozenset(ROLES[role].type for role in roles)


def check_roles(writes: Iterable[tuple[str, Any]], allowed: frozenset[str], owner: str) -> None:
    """Refuse messages that a caller wrote with another role, an instruction to remove some included."""
    for name, value in writes:
        if name != "messages" or value is None:
            continue
        given = value.value if isinstance(value, Overwrite) else value
        for message in convert_to_messages(given if isinstance(given, (list, tuple)) else [given]):
            if message.type not in allowed:
                raise InvalidInput(
                    f"Agent {owner!r} takes no message of role {message.type!r} from its caller: {message.text!r:.99}.",
                    hint=f"AgentLimits(allowed_roles=...) allows {', '.join(sorted(allowed))}.",
                )
