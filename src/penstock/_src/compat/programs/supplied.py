"""How names that are gone are supplied to programs: a module gets a `__getattr__`, and each is said once, on stderr."""
from __future__ import annotations

import sys
import types
from typing import Any

_said: set[str] = set()


def say(old: str, new: str) -> None:
    """Reports once, on stderr, that a removed name was supplied."""
    if old not in _said:
        _said.add(old)
        print(f"penstock run: {old} was removed since; using {new}", file=sys.stderr)


def shown(value: Any) -> str:
    """How a value is named in what is said."""
    return getattr(value, "__name__", None) or repr(value)


def supply(module: types.ModuleType, values: dict[str, Any], short: str) -> None:
    """Lets a module answer for names that it no longer has."""
    before = module.__dict__.get("__getattr__")
    if getattr(before, "supplies", None) is values:
        return

    def find(name: str) -> Any:
        if name in values:
            say(f"{short}.{name}", shown(values[name]))
            return values[name]
        if before is not None:
            return before(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    find.supplies = values                                             # type: ignore[attr-defined]
    module.__dict__["__getattr__"] = find
