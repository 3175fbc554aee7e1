"""Errors of a running step, with the op's name, its device, and the user's line where the op was created.

A kernel that is one ATen call reports ATen's message. The shapes that it was called with are found in the
frame of the program that called it, so that successful runs have no overhead.
"""
from __future__ import annotations

import re
import types
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.graph.build import ShapeContext, group_inputs
from penstock._src.graph.node import AnyOp

HOST = "/job:localhost/replica:0/task:0/device:CPU:0"
_MISTAKES = (AttributeError, KeyError, NameError, ZeroDivisionError, UnicodeError, BufferError)     # bugs of a kernel
_VALUE = re.compile(r"\b[a-z]\d+\b")


def where(op: AnyOp, device: str = "") -> str:
    """'[[node name = type on device (defined at file:line)]]'."""
    return f"[[node {op.name} = {op.type} on {device or op.device or HOST}{op.made_note}]]"


def typed(error: BaseException, op: AnyOp | None, device: str = "") -> BaseException:
    """The tf.errors.* exception for what a kernel raised; other exceptions are returned unchanged."""
    if op is None or not isinstance(error, Exception):
        return error
    origin = op.origin or op
    if isinstance(error, errors.OpError):
        if error.op is not None:
            return error
        made_as: Any = type(error)
        words = error.message
    else:
        found = kind(error)
        if found is None:
            return error
        made_as, words = found, _words(error, op)
    made = made_as(None, None, f"{words}\n\t {where(origin, device)}")
    made.op, made._node_def = origin, origin.node_def
    return made


def _words(error: Exception, op: AnyOp) -> str:
    """The message with the shapes of the inputs: the shape rule's message where it has one."""
    words = reason(error)
    values = _inputs(error.__traceback__, len(op.inputs))
    if not values or not all(isinstance(v, (torch.Tensor, np.ndarray)) for v in values):
        return words
    shapes = [tuple(v.shape) for v in values]
    return _rule_words(op, shapes) or f"{words} (input shapes: {', '.join(str(list(s)) for s in shapes)})"


def _rule_words(op: AnyOp, shapes: list[tuple]) -> str | None:
    rule, wants = op.opdef.shape_rule, op.opdef.shape_wants
    if rule is None:
        return None
    grouped = group_inputs(op.opdef, shapes, op.counts) if op.counts else shapes
    try:
        rule(*grouped, **{n: ShapeContext(op) if n == "c" else op.attrs[n] for n in wants})
    except ValueError as e:
        return str(e)
    return None


def _inputs(traceback: types.TracebackType | None, count: int) -> list[Any] | None:
    """The values that the failing op of a program was called with; None if they cannot be found."""
    found = None
    while traceback is not None:
        frame = traceback.tb_frame
        source = frame.f_globals.get("PROGRAM")
        if source is not None:
            call = source.splitlines()[traceback.tb_lineno - 1].partition("#")[0].partition("(")[2]
            found = [frame.f_locals.get(n, frame.f_globals.get(n)) for n in _VALUE.findall(call)]
        traceback = traceback.tb_next
    return found if found is not None and len(found) == count else None


def reason(error: Exception) -> str:
    """The message for a plain exception of a kernel."""
    if isinstance(error, AttributeError) and isinstance(error.obj, np.ndarray):
        return "there is no kernel for strings"
    if isinstance(error, (*_MISTAKES, MemoryError)) or not str(error):
        return f"{type(error).__name__}: {error}"
    return str(error)


def kind(error: Exception) -> type | None:
    """The tf.errors class for a plain exception of a kernel; None if there is none."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return errors.ResourceExhaustedError
    if isinstance(error, NotImplementedError):
        return errors.UnimplementedError
    if isinstance(error, RuntimeError) and "alloc" in str(error).lower() and "memory" in str(error).lower():
        return errors.ResourceExhaustedError
    if isinstance(error, RecursionError):
        return errors.ResourceExhaustedError
    if isinstance(error, AttributeError) and isinstance(error.obj, np.ndarray):     # a kernel for numbers, called with text
        return errors.UnimplementedError
    if isinstance(error, _MISTAKES):
        return errors.InternalError
    if isinstance(error, (RuntimeError, IndexError, ValueError, TypeError, OverflowError, AssertionError)):
        return errors.InvalidArgumentError
    return None
