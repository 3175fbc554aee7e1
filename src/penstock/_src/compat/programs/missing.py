"""Placeholders for names that penstock does not have: they raise when they are used, and name the alternatives.

An import does not fail for a missing name, because programs import more than they use. But where the program tests for the name
(`try: from tensorflow... import x`, `hasattr`), it gets the error that it handles: ImportError, AttributeError.
"""
from __future__ import annotations

import ast
import dis
import functools
import linecache
import sys
import types
from typing import Any, NoReturn

from penstock._src.base import api as names
from penstock._src.base.near_names import near_names
from penstock._src.base.version import __version__

NOTHING = object()              # instead of a value where there is none: None is a value (tf.newaxis)


class MissingSymbol(AttributeError, NotImplementedError):
    """A name of TensorFlow's that penstock does not have. The text is made on demand: `hasattr` never needs it."""

    def __init__(self, full: str, api: str, public: str):
        super().__init__(full, api, public)
        self.name = full

    def __str__(self) -> str:
        return explain(*self.args)


def explain(full: str, api: str, public: str) -> str:
    """The message for a missing name: similar names, and how to report it."""
    near = nearest(api, public)
    text = f"{full} is not in penstock {__version__}."
    if near:
        text += f" Nearest: {', '.join('tf.' + n for n in near)}."
    return (f"{text} `penstock check PROGRAM` lists every name that a program uses and penstock lacks; "
            f"to report it, open an issue with that list.")


@functools.cache
def nearest(api: str, public: str) -> tuple[str, ...]:
    """Public names that are like `public`: the same name elsewhere first, then similar ones."""
    table = [n for n in names.names_below(api) if not n.startswith("raw_ops.")]
    last = public.rsplit(".", 1)[-1]
    same = [n for n in table if n.rsplit(".", 1)[-1].lower() == last.lower() and n != public]
    similar = near_names(public, table)
    if not same and not similar:
        ends = {n.rsplit(".", 1)[-1]: n for n in table}
        similar = [ends[n] for n in near_names(last, ends, 2, 0.8)]
    return tuple(dict.fromkeys(sorted(same, key=len)[:3] + similar))[:3]


class Missing:
    """A placeholder for an imported name, which raises when the program uses it."""

    def __init__(self, full: str, api: str, public: str):
        self.__dict__["_missing"] = (full, api, public)

    def _use(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise MissingSymbol(*self.__dict__["_missing"])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        full, api, public = self.__dict__["_missing"]
        raise MissingSymbol(f"{full}.{name}", api, f"{public}.{name}")

    __call__ = __setattr__ = __getitem__ = __iter__ = __len__ = __enter__ = __mro_entries__ = _use
    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = __int__ = __float__ = __array__ = _use

    def __repr__(self) -> str:
        return f"<{self.__dict__['_missing'][0]}, which penstock does not have>"


class MissingModule(types.ModuleType):
    """A placeholder for an imported module; its names raise when they are used."""

    def __init__(self, full: str, api: str, public: str):
        super().__init__(full, "A module that penstock does not have.")
        self.__path__: list[str] = []
        self.__dict__["_missing"] = (full, api, public)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        full, api, public = self.__dict__["_missing"]
        return found_missing(f"{full}.{name}", api, f"{public}.{name}")


def module(full: str, api: str, public: str) -> MissingModule | None:
    """A placeholder for a missing module; None where the program handles an ImportError."""
    frame = _importing_frame()
    if frame is not None and _guarded(frame):
        return None
    return MissingModule(full, api, public)


def found_missing(full: str, api: str, public: str) -> Any:
    """The result of a request for `full`: a placeholder, or an error."""
    frame = _importing_frame()
    if frame is not None and not _guarded(frame):
        return Missing(full, api, public)
    raise MissingSymbol(full, api, public)


def importing() -> bool:
    """Whether an import statement of the program is being executed."""
    return _importing_frame() is not None


def _importing_frame() -> types.FrameType | None:
    """The frame of the program's import statement that is being executed, if any."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("penstock.") and not name.startswith("importlib"):
            return frame if _at_import(frame) else None
        frame = frame.f_back
    return None


def _at_import(frame: types.FrameType) -> bool:
    """Whether the instruction that a frame is at belongs to an import statement."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in ("IMPORT_NAME", "IMPORT_FROM")


def _guarded(frame: types.FrameType) -> bool:
    """Whether the current statement of a frame is in a `try` that catches ImportError."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    return frame.f_lineno in _guarded_lines("".join(lines))


@functools.lru_cache(maxsize=64)
def _guarded_lines(source: str) -> frozenset[int]:
    """The lines of a source inside of a `try` whose handlers catch a failed import."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return frozenset()
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(map(_catches, node.handlers)):
            for statement in node.body:
                found.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return frozenset(found)


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = {ast.unparse(n).rsplit(".", 1)[-1] for n in
              (handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type])}
    return bool(caught & {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"})
