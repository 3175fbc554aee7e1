"""Python functions as text, for the configurations of Lambda layers, and what else a loaded model may not do by itself.

The text is bytecode, and loading it runs code that may come from anyone. Only code that this process itself wrote is
loaded without asking; for anything else `tf.keras.config.enable_unsafe_deserialization()` must have been called, or
`load_model` with `safe_mode=False`. The same holds for files outside of the model that its configuration names, and for
functions of other modules.
"""
from __future__ import annotations

import base64
import binascii
import contextlib
import contextvars
import hashlib
import marshal
import types
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base.api import export

_own: set[bytes] = set()                # digests of the code that was written here
_flags = {"unsafe": False}
_trusted: contextvars.ContextVar[bool | None] = contextvars.ContextVar("trusted", default=None)      # None: nothing is loaded


@export(v2=["keras.config.enable_unsafe_deserialization", "keras.__internal__.enable_unsafe_deserialization"])
def enable_unsafe_deserialization() -> None:
    """Allows loaded models to contain Python code (Lambda layers). Only for files that you trust."""
    _flags["unsafe"] = True


@export(v2=["keras.config.disable_unsafe_deserialization"])
def disable_unsafe_deserialization() -> None:
    """Refuses code in models that others wrote; this is the default."""
    _flags["unsafe"] = False


@contextlib.contextmanager
def loading(safe_mode: Any) -> Iterator[None]:
    """Allows code in the models that are loaded inside, if `safe_mode` is False."""
    before = _trusted.set(safe_mode is False or bool(_trusted.get()))
    try:
        yield
    finally:
        _trusted.reset(before)


def is_trusted() -> bool:
    """Whether models that are loaded now may contain code."""
    return _flags["unsafe"] or bool(_trusted.get())


def check_file(path: str) -> None:
    """Raises ValueError if a model that is being loaded, and is not trusted, names this file."""
    if _trusted.get() is False and not is_trusted():
        raise ValueError(f"Refusing to read {path}, which the configuration of a model names: it is not part of the model. If "
                         "you trust the model's source, load it with `safe_mode=False`.")


def func_dump(func: Callable) -> tuple:
    """A function as (code, defaults, values of its closure)."""
    raw = marshal.dumps(func.__code__)
    _own.add(hashlib.sha256(raw).digest())
    closure = func.__closure__
    values = tuple(c.cell_contents for c in closure) if closure else None
    return base64.encodebytes(raw).decode("ascii"), func.__defaults__, values


def func_load(code: Any, defaults: Any = None, closure: Any = None, globs: Any = None) -> Callable:
    """The function from the result of `func_dump`."""
    try:
        if isinstance(code, (tuple, list)):
            code, defaults, closure = code
        raw = base64.decodebytes(code.encode("ascii"))
    except (UnicodeEncodeError, binascii.Error, AttributeError, ValueError):
        raise ValueError("The code of a Lambda layer cannot be read.") from None
    if not is_trusted() and hashlib.sha256(raw).digest() not in _own:
        raise ValueError("Refusing to load a Lambda layer: it contains Python code from outside of this program, and running "
                         "it can do anything that you can. If you trust its source, load it with `safe_mode=False` or call "
                         "`tf.keras.config.enable_unsafe_deserialization()` first, or pass the function in `custom_objects`.")
    found = marshal.loads(raw)
    cells = None if closure is None else tuple(c if isinstance(c, types.CellType) else types.CellType(c) for c in closure)
    return types.FunctionType(found, {} if globs is None else globs, name=found.co_name,
                              argdefs=None if defaults is None else tuple(defaults), closure=cells)
