"""Conditional accumulators, dense and sparse. The state is in `data.queues.accumulator`."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.base.text import shown_text
from penstock._src.data.queues.accumulator import Accumulator, DenseAccumulator, SparseAccumulator
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.ops import rules
from penstock._src.ops.math.cast import cast
from penstock._src.ops.registry import OpDef, op
from penstock._src.ops.state.queue import shared

WORKER = "_worker"                  # the attribute of an op that adds gradients for a worker, which are counted for it
ONCE = "_once"                      # and that a worker adds one gradient to a step: a second one is dropped
_DTYPE = "dtype: type in {numeric qint8 quint8 qint32}"
_MAKE = (f"{_DTYPE}, shape: shape, container: string = '', shared_name: string = '', "
         "reduction_type: string in {MEAN SUM} = 'MEAN'")


def _maker(name: str, handle: str, kind: type[Accumulator]) -> OpDef:
    made = op(name, f"-> handle: {handle}", _MAKE, stateful=True, per_session=True).no_gradient()
    made.shape((lambda: (2,)) if handle.startswith("Ref") else (lambda: ()))

    @made.kernel
    def _made_kernel(*, dtype, shape, container, shared_name, reduction_type, ctx, node):
        found = shared(ctx, node, container, shared_name, Accumulator,
                       lambda n: kind(n, dtype, shape.static_dims, reduction_type, container))
        if type(found) is not kind or found.dtype != dtype:
            raise errors.invalid(f"Shared accumulator '{found.name}' is a {found.kind} of {found.dtype.name}, but a "
                                 f"{kind.kind} of {dtype.name} was requested")
        return found
    return made


def _user(name: str, args: str, attrs: str = "", prefix: str = "Resource", **flags: Any) -> tuple[OpDef, OpDef]:
    """Declares an op on accumulators: with a reference, and with a resource handle."""
    old = op(name, args.replace("resource", "Ref(string)"), attrs, foldable=False, **flags).no_gradient()
    return old, op(prefix + name, args, attrs, stateful=True, **flags).no_gradient()


dense = _maker("ConditionalAccumulator", "Ref(string)", DenseAccumulator)
dense_resource = _maker("ResourceConditionalAccumulator", "resource", DenseAccumulator)
sparse = _maker("SparseConditionalAccumulator", "Ref(string)", SparseAccumulator)
num_accumulated = _user("AccumulatorNumAccumulated", "handle: resource -> num_accumulated: int32")
set_global_step = _user("AccumulatorSetGlobalStep", "handle: resource, new_global_step: int64 ->")
apply_gradient = _user("AccumulatorApplyGradient", "handle: resource, local_step: int64, gradient: dtype ->", _DTYPE)
take_gradient = _user("AccumulatorTakeGradient", "handle: resource, num_required: int32 -> average: dtype", _DTYPE,
                      blocking=True)
apply_sparse = op("SparseAccumulatorApplyGradient", "handle: Ref(string), local_step: int64, gradient_indices: int64, "
                  "gradient_values: dtype, gradient_shape: int64 ->", f"{_DTYPE}, has_known_shape: bool",
                  foldable=False).no_gradient()
take_sparse = op("SparseAccumulatorTakeGradient", "handle: Ref(string), num_required: int32 -> indices: int64, values: dtype, "
                 "shape: int64", _DTYPE, foldable=False, blocking=True).no_gradient()
rules.program.ends_no_wait.update([*take_gradient, take_sparse])
meet = tuple(op(name, f"handle: {handle} ->", "worker: string, workers: int, present: bool", stateful=True).no_gradient()
             for name, handle in (("AccumulatorMeet", "Ref(string)"), ("ResourceAccumulatorMeet", "resource")))
interrupt = tuple(op(name, f"handle: {handle} ->", stateful=True).no_gradient()
                  for name, handle in (("AccumulatorInterrupt", "Ref(string)"), ("ResourceAccumulatorInterrupt", "resource")))
tallies = tuple(op(name, f"handle: {handle} -> workers: string, counts: int64", stateful=True).no_gradient()
                for name, handle in (("AccumulatorTallies", "Ref(string)"), ("ResourceAccumulatorTallies", "resource")))
take_sparse.shape(lambda handle, num_required: [(None,), None, (None,)])


def _one(value: torch.Tensor, what: str) -> int:
    if value.dim():
        raise errors.invalid(f"Argument {what} must be scalar, but had bad shape {list(value.shape)}")
    return int(value)


def _worker(node: Any) -> str | None:
    name = node._extra.get(WORKER)
    return None if name is None else shown_text(name)


def _held(handle: Any) -> Accumulator:
    return errors.expect(handle, Accumulator, "an accumulator")


def _apply(handle, local_step, gradient, *, node):
    _held(handle).apply(_one(local_step, "local_step"), gradient, _worker(node), bool(node._extra.get(ONCE)))


def _tallies(handle):
    rows = sorted(_held(handle).tallies.items())
    names = np.array([name.encode() for name, _ in rows] or [], dtype=object)
    return names, torch.tensor([[*counts, name not in handle.gone] for name, counts in rows], dtype=torch.int64).reshape(-1, 3)


def _take(handle, num_required, *, dtype, ctx):
    if dtype != _held(handle).dtype:
        raise errors.invalid(f"Accumulator '{handle.name}' holds {handle.dtype.name}, not {dtype.name}")
    return handle.take(_one(num_required, "num_required"), ctx)


for _ops, _kernel, _shape in (
        (num_accumulated, lambda handle: torch.tensor(_held(handle).count, dtype=torch.int32), lambda handle: ()),
        (set_global_step, lambda handle, new_global_step: _held(handle).set_step(_one(new_global_step, "new_global_step")),
         lambda handle, new_global_step: []),
        (apply_gradient, _apply, lambda handle, local_step, gradient: []),
        (meet, lambda handle, *, worker, workers, present: _held(handle).meet(worker, workers, present), lambda handle: []),
        (interrupt, lambda handle: _held(handle).interrupt(), lambda handle: []),
        (tallies, _tallies, lambda handle: [(None,), (None, 3)]),
        (take_gradient, _take, lambda handle, num_required: None),
        ((take_sparse,), _take, None)):
    for _op in _ops:
        _op.kernel(_kernel)
        if _shape is not None:
            _op.shape(_shape)


@apply_sparse.kernel
def _apply_sparse_kernel(handle, local_step, gradient_indices, gradient_values, gradient_shape, *, has_known_shape, node):
    shape = gradient_shape if has_known_shape else None
    _held(handle).apply(_one(local_step, "local_step"), (gradient_indices, gradient_values, shape), _worker(node),
                 bool(node._extra.get(ONCE)))


# -- the classes ------------------------------------------------------------------------------------------------------
@export(v1=["ConditionalAccumulatorBase"])
class ConditionalAccumulatorBase:
    """The base of accumulators. A gradient computed before the accumulator's time step is stale, and dropped."""

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Any):
        self._dtype, self._shape = dtypes.as_dtype(dtype), TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        made_by = (context.state.scope_name or "Empty") if context.executing_eagerly() else accumulator_ref.op.name
        self._name = made_by.rsplit("/", 1)[-1]

    accumulator_ref = property(lambda self: self._accumulator_ref, doc="The handle.")
    name = property(lambda self: self._name, doc="The name of the op that made the accumulator.")
    dtype = property(lambda self: self._dtype, doc="The type of the gradients.")

    def _op(self, pair: tuple) -> OpDef:
        """The op for this kind of handle."""
        return pair[1] if self._accumulator_ref.dtype == dtypes.resource else pair[0]

    def num_accumulated(self, name: str | None = None) -> Any:
        """The number of gradients since the last one was taken."""
        return self._op(num_accumulated)(self._accumulator_ref, name=name or f"{self._name}_NumAccumulated")

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Any:
        """An op that sets the time step; gradients computed before it are stale."""
        return self._op(set_global_step)(self._accumulator_ref, cast(convert(new_global_step), dtypes.int64), name=name)

    def _meet(self, worker: str, workers: int, present: bool) -> Any:
        """An op that reports that one of `workers` workers begins or ends."""
        return self._op(meet)(self._accumulator_ref, worker=worker, workers=workers, present=present)

    def _interrupt(self) -> Any:
        """An op that cancels all waits for gradients."""
        return self._op(interrupt)(self._accumulator_ref)

    def _tallies(self) -> Any:
        """(names of workers, for each: gradients that were added, that were stale, and whether it is there)."""
        return self._op(tallies)(self._accumulator_ref)


@export(v1=["ConditionalAccumulator"])
class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Sums gradients of several workers, and returns their mean when enough of them have arrived.

    >>> a = tf.ConditionalAccumulator(tf.float32, shape=[10])
    >>> a.apply_grad(gradient, local_step=step); mean = a.take_grad(num_required=5)
    """

    def __init__(self, dtype: Any, shape: Any = None, shared_name: str | None = None, name: str = "conditional_accumulator",
                 reduction_type: str = "MEAN"):
        ref = dense_resource(dtype=dtype, shape=shape, shared_name=shared_name or "", name=name, reduction_type=reduction_type)
        super().__init__(dtype, shape, ref)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Any:
        """An op that adds a gradient computed at `local_step`."""
        grad = convert(grad, self._dtype)
        grad.shape.assert_is_compatible_with(self._shape)
        return self._op(apply_gradient)(self._accumulator_ref, cast(convert(local_step), dtypes.int64), grad, name=name)

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """The mean of the gradients, waiting until there are `num_required`; increments the time step."""
        out = self._op(take_gradient)(self._accumulator_ref, num_required, dtype=self._dtype, name=name)
        if not context.executing_eagerly():
            out.set_shape(self._shape)
        return out


@export(v1=["sparse.SparseConditionalAccumulator", "SparseConditionalAccumulator"])
class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Adds up sparse gradients; the mean of a row is over the gradients that have the row.

    >>> a = tf.SparseConditionalAccumulator(tf.float32, shape=[1000, 10])
    """

    def __init__(self, dtype: Any, shape: Any = None, shared_name: str | None = None,
                 name: str = "sparse_conditional_accumulator", reduction_type: str = "MEAN"):
        ref = sparse(dtype=dtype, shape=shape, shared_name=shared_name or "", name=name, reduction_type=reduction_type)
        super().__init__(dtype, shape, ref)

    def apply_indexed_slices_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Any:
        """An op that adds IndexedSlices computed at `local_step`."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(self, grad_indices: Any, grad_values: Any, grad_shape: Any = None, local_step: Any = 0,
                   name: str | None = None) -> Any:
        """An op that adds rows `grad_values` at `grad_indices`, computed at `local_step`."""
        shape = cast(convert([] if grad_shape is None else grad_shape), dtypes.int64)
        return apply_sparse(self._accumulator_ref, cast(convert(local_step), dtypes.int64),
                            cast(convert(grad_indices), dtypes.int64), grad_values, shape,
                            has_known_shape=grad_shape is not None, name=name)

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """(indices, values, shape) of the mean, waiting until there are `num_required` gradients."""
        return take_sparse(self._accumulator_ref, num_required, dtype=self._dtype, name=name)

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        """The mean as IndexedSlices, waiting until there are `num_required` gradients."""
        taken = self.take_grad(num_required, name)
        return IndexedSlices(indices=taken.indices, values=taken.values, dense_shape=taken.shape)
