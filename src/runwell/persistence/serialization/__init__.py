"""Values to bytes and back, strictly: exact types, an allow-list, no pickle."""

from runwell.persistence.serialization.reachable import reachable_types
from runwell.persistence.serialization.serializer import Serializer

__all__ = ["Serializer", "reachable_types"]
