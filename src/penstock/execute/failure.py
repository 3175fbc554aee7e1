"""Errors of a running step, with the op's name and the user's line where the op was made."""
from __future__ import annotations

import torch

from penstock import errors
from penstock.graph.node import Operation


def where(op: Operation) -> str:
    """'[[node name (defined at file:line)]]'."""
    frames = op.traceback
    at = f" (defined at {frames[-1][0]}:{frames[-1][1]})" if frames else ""
    device = f" on {op.device}" if op.device else ""
    return f"[[node {op.name} = {op.type}{device}{at}]]"


def typed(error: BaseException, op: Operation | None) -> BaseException:
    """The tf.errors.* exception for what a kernel raised; other exceptions come through as they are."""
    if op is None or not isinstance(error, Exception):
        return error
    op = op._origin or op
    if isinstance(error, errors.OpError):
        if error.op is not None:
            return error
        made = type(error)(None, None, f"{error.message}\n\t {where(op)}")
        made._op, made._node_def = op, op.node_def
        return made
    made_as = kind(error)
    if made_as is None:
        return error
    made = made_as(None, None, f"{_words(error, op)}\n\t {where(op)}")
    made._op, made._node_def = op, op.node_def
    return made


def _words(error: Exception, op: Operation) -> str:
    return str(error) or type(error).__name__


def kind(error: Exception) -> type | None:
    """The class of tf.errors that stands for a plain exception of a kernel; None if none does."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return errors.ResourceExhaustedError
    if isinstance(error, NotImplementedError):
        return errors.UnimplementedError
    if isinstance(error, RuntimeError) and "alloc" in str(error).lower() and "memory" in str(error).lower():
        return errors.ResourceExhaustedError
    if isinstance(error, (RuntimeError, IndexError, ValueError, TypeError, OverflowError, AssertionError)):
        return errors.InvalidArgumentError
    return None
