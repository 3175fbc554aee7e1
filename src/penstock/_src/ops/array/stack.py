"""Stacks, in which loops save values for their gradients. A stack exists until the end of the step."""
from __future__ import annotations

import itertools
import operator
from typing import Any

import torch

from penstock._src.base import errors
from penstock._src.kernels import strings
from penstock._src.ops import rules
from penstock._src.ops.registry import internal, op

stack = op("StackV2", "max_size: int32 -> handle: resource", "elem_type: type, stack_name: string = ''",
           stateful=True).no_gradient()
push = op("StackPushV2", "handle: resource, elem: T -> output: T", "T: type, swap_memory: bool = False",
          stateful=True).no_gradient()
pop = op("StackPopV2", "handle: resource -> elem: elem_type", "elem_type: type", stateful=True).no_gradient()
close = op("StackCloseV2", "handle: resource ->", stateful=True).no_gradient()

old_stack = op("Stack", "-> handle: Ref(string)", "elem_type: type, stack_name: string = ''", stateful=True).no_gradient()
old_push = op("StackPush", "handle: Ref(string), elem: T -> output: T", "T: type, swap_memory: bool = False",
              foldable=False).no_gradient()
old_pop = op("StackPop", "handle: Ref(string) -> elem: elem_type", "elem_type: type", foldable=False).no_gradient()
old_close = op("StackClose", "handle: Ref(string) ->", foldable=False).no_gradient()

rules.loops.saves.update({stack: "stack", push: "push", pop: "pop"})
rules.shapes.holder.update({stack: "makes", push: "puts", pop: "takes", close: "looks"})
rules.shapes.element[push] = lambda op, dims: op.inputs[1].static_dims
rules.shapes.element[pop] = lambda op, dims: dims
old_stack.shape(lambda: (2,))
stack.shape(lambda max_size: ())
for _push, _pop in ((push, pop), (old_push, old_pop)):
    _push.shape(lambda handle, elem: elem)
    _pop.shape(lambda handle: None)


class Stack:
    """The run-time value of a stack's handle."""

    __slots__ = ("name", "dtype", "limit", "items", "number")
    _numbers = itertools.count()

    def __init__(self, name: str, dtype: Any, limit: int):
        self.name, self.dtype, self.limit = name, dtype, limit
        self.items: list | None = []
        self.number = next(Stack._numbers)

    def read(self) -> Any:
        """The fetched value of a reference to the stack: a container and a unique name."""
        return strings.pack([b"_stacks", f"{self.name}_{self.number}".encode()], (2,))

    def open_items(self) -> list:
        """The elements; InvalidArgumentError after close."""
        if self.items is None:
            raise errors.invalid(f"Stack[{self.name}] has already been closed.")
        return self.items


def _checked(handle: Any) -> Stack:
    if not isinstance(handle, Stack):
        raise errors.invalid(f"a stack was expected, got {type(handle).__name__}")
    return handle


@stack.kernel
def _stack_kernel(max_size, *, elem_type, stack_name):
    return Stack(stack_name or "stack", elem_type, int(max_size))


@old_stack.kernel
def _old_stack_kernel(*, elem_type, stack_name):
    return Stack(stack_name or "stack", elem_type, -1)


@old_push.kernel
@push.kernel
def _old_push_kernel(handle, elem, *, T):
    target = _checked(handle)
    if target.dtype != T:
        raise errors.invalid(f"Must have type {target.dtype.name} but got {T.name}")
    items = target.open_items()
    if 0 <= target.limit <= len(items):
        raise errors.invalid(f"Stack[{target.name}] overflowed its max_size ({target.limit})")
    items.append(elem)
    return elem


@rules.program.prepare(push)
def _push_prepare(known):
    kind, general = known.attrs["T"], push.kernel_for("cpu").bind(known.attrs)

    def put(handle, elem):
        if type(handle) is Stack and handle.limit < 0 and handle.dtype is kind and handle.items is not None:
            handle.items.append(elem)
            return elem
        return general(handle, elem)
    return put


@old_pop.kernel
@pop.kernel
def _old_pop_kernel(handle):
    if type(handle) is Stack and handle.items:
        return handle.items.pop()
    items = _checked(handle).open_items()
    if not items:
        raise errors.invalid(f"Stack[{handle.name}] is empty when calling Pop().")
    return items.pop()


@old_close.kernel
@close.kernel
def _old_close_kernel(handle):
    _checked(handle).items = None


# -- the elements of all iterations at once (step/loops/improve.py) -----------------------------------------------------------
take_all = internal("_StackAll", "handle: resource, count: int32 -> value: T", "T: type, element_shape: shape", stateful=True)
rows = internal("_Rows", "value: T -> rows: variant", "T: type")
row_at = internal("_RowAt", "rows: variant, index: int32 -> row: T", "T: type")
rules.numbers.inputs[row_at] = frozenset(["index"])


@take_all.kernel
def _take_all_kernel(handle, count, *, T, element_shape):
    items = _checked(handle).open_items()
    if len(items) != int(count):
        raise errors.InternalError(None, None, f"Stack[{handle.name}] has {len(items)} elements after {int(count)} iterations")
    if not items:
        return torch.empty((0, *element_shape.static_dims), dtype=T.torch)
    out = torch.stack(items)
    items.clear()
    return out


rows.kernel(lambda value: value.unbind())
row_at.kernel(operator.getitem)
