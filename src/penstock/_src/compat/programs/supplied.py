"""Restores removed names in modules by a `__getattr__`; each name that a program uses is reported once, on stderr.

Installed libraries get the names without a report: they often only look whether a name exists.
"""
from __future__ import annotations

import pathlib
import sys
import types
from typing import Any

_said: set[str] = set()


def say(old: str, new: str) -> None:
    """Reports once, on stderr, that a removed name was restored."""
    if old not in _said:
        _said.add(old)
        print(f"penstock run: {old} was removed since; using {new}", file=sys.stderr)


def shown(value: Any) -> str:
    """The name of a value in reports."""
    return getattr(value, "__name__", None) or repr(value)


def _is_installed(frame: types.FrameType) -> bool:
    """Whether a frame runs code of an installed library, and not of a program."""
    return "site-packages" in pathlib.Path(frame.f_code.co_filename).parts


def supply(module: types.ModuleType, values: dict[str, Any], short: str) -> None:
    """Makes a module provide names that it no longer has."""
    before = module.__dict__.get("__getattr__")
    if getattr(before, "supplies", None) is values:
        return

    def find(name: str) -> Any:
        if name in values:
            if not _is_installed(sys._getframe(1)):
                say(f"{short}.{name}", shown(values[name]))
            return values[name]
        if before is not None:
            return before(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    find.supplies = values                                             # type: ignore[attr-defined]
    module.__dict__["__getattr__"] = find
