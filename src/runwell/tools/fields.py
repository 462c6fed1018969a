"""Classes whose annotated attributes are constructor arguments, as people write tools with state of their own."""

from __future__ import annotations

import copy
import inspect
import sys
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

from runwell.errors import InvalidInput, nearest
from runwell.schemas.injection import NOTHING

if TYPE_CHECKING:
    from pydantic import Field
else:
    Field = None  # named for type checkers; a class that uses pydantic's Field has loaded pydantic itself

__all__ = ["WithFields"]


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class WithFields:
    """`class Search(WithFields): limit: int = 3` can be made as `Search(limit=5)`. Values are not converted.

    A mutable default, or a pydantic `Field(default_factory=...)`, is made anew for each instance. Raises InvalidInput
    for an argument that is no field, and for a field without default that is not given.
    """

    _fields: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = {
            name: cls.__dict__.get(name, NOTHING)
            for name, annotation in inspect.get_annotations(cls).items()
            if not name.startswith("_") and "ClassVar" not in str(annotation)
        }
        cls._fields = {**cls._fields, **own}

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        for name in fields:
            if name not in self._fields:
                raise InvalidInput(
                    f"{type(self).__name__} has no field {name!r}{nearest(name, self._fields)}",
                    hint=f"It has {', '.join(self._fields)}.",
                )
        for name, default in self._fields.items():
            value = fields[name] if name in fields else _fresh(default)
            if value is NOTHING:
                raise InvalidInput(f"{type(self).__name__} needs {name}=...")
            if name in fields or value is not default:
                setattr(self, name, value)
        self._made()

    def _made(self) -> None:
        """Called once all fields are set."""


def _fresh(default: Any) -> Any:
    pydantic = sys.modules.get("pydantic.fields")
    if pydantic is not None and isinstance(default, pydantic.FieldInfo):
        return NOTHING if default.is_required() else default.get_default(call_default_factory=True)
    return copy.copy(default) if isinstance(default, (list, dict, set)) else default
