"""Batching across steps: concurrent calls of an op are processed together. The state is in `queues.batching`."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from penstock._src.base import errors, nest
from penstock._src.base.api import export
from penstock._src.data.queues.batching import Batcher, Call, GradientUnbatcher, Unbatcher
from penstock._src.graph.functions import as_function
from penstock._src.graph.node import Tensor
from penstock._src.kernels import arrays
from penstock._src.ops.registry import op
from penstock.compat import v1 as tf

_NAMES = "container: string = '', shared_name: string = ''"
_LIMITS = ("num_batch_threads: int, max_batch_size: int, batch_timeout_micros: int, max_enqueued_batches: int = 10, "
           "allowed_batch_sizes: list(int) = []")
_QUEUE = f"{_NAMES}, batching_queue: string = ''"

batch_op = op("Batch", "in_tensors: T -> batched_tensors: T, batch_index: int64, id: int64",
              f"{_LIMITS}, grad_timeout_micros: int, {_QUEUE}, T: list(type) >= 1", stateful=True, blocking=True).no_gradient()
unbatch_op = op("Unbatch", "batched_tensor: T, batch_index: int64, id: int64 -> unbatched_tensor: T",
                f"timeout_micros: int, {_NAMES}, T: type", stateful=True, blocking=True).no_gradient()
unbatch_grad = op("UnbatchGrad", "original_input: T, batch_index: int64, grad: T, id: int64 -> batched_grad: T",
                  f"{_NAMES}, T: type", stateful=True, blocking=True).no_gradient()
batch_function_op = op("BatchFunction", "in_tensors: Tin, captured_tensors: Tcaptured -> out_tensors: Tout",
                       f"f: func, {_LIMITS}, {_QUEUE}, Tin: list(type) >= 1, Tcaptured: list(type) >= 0, "
                       "Tout: list(type) >= 1", stateful=True, blocking=True).no_gradient()


@batch_op.shape
def _batch_shape(in_tensors):
    open_first = [None if d is None or not d else (None, *d[1:]) for d in in_tensors]
    return [*open_first, (None, 3), ()]


unbatch_op.shape(lambda batched_tensor, batch_index, id: None if batched_tensor is None else (None, *batched_tensor[1:]))
unbatch_grad.shape(lambda original_input, batch_index, grad, id: None if grad is None else (None, *grad[1:]))


def _batcher(ctx: Any, node: Any) -> Batcher:
    """The batcher of a node, by its attributes."""
    a = node.attrs
    name = a["shared_name"] or node.name
    return ctx.resources.get_or_create(a["container"], f"{name}/{a['batching_queue']}", Batcher, lambda: Batcher(
        name, a["num_batch_threads"], a["max_batch_size"], a["batch_timeout_micros"] / 1e6, a["max_enqueued_batches"],
        a["allowed_batch_sizes"], a["container"]))


@batch_op.kernel(device="cpu")
def _batch_kernel(in_tensors, *, ctx, node):
    batcher = _batcher(ctx, node)

    def give(calls: list[Call]) -> None:
        """The batch goes to the last call; the others get empty tensors."""
        joined = batcher.joined(calls)
        for c in calls[:-1]:
            empty = [arrays.part(v, (slice(0, 0),)) for v in c.values]
            c.answer = (empty, torch.zeros((0, 3), dtype=torch.int64), torch.tensor(c.id))
        rows, start = [], 0
        for c in calls:
            rows.append([c.id, start, start + c.size])
            start += c.size
        calls[-1].answer = joined, torch.tensor(rows), torch.tensor(calls[-1].id)
    return batcher.run(Call(in_tensors), give, ctx)


def _index(batch_index: torch.Tensor, id: torch.Tensor) -> tuple[list, int]:
    if id.ndim:
        raise errors.invalid(f"Input id should be scalar; got shape {list(id.shape)}")
    if batch_index.ndim != 2 or batch_index.shape[1] != 3:
        raise errors.invalid(f"batch_index must have shape [n, 3], got {list(batch_index.shape)}")
    return batch_index.tolist(), int(id)


@unbatch_op.kernel(device="cpu")
def _unbatch_kernel(batched_tensor, batch_index, id, *, timeout_micros, container, shared_name, ctx, node):
    if not arrays.dims_of(batched_tensor):
        raise errors.invalid("Input to Unbatch must have at least one dimension")
    index, own = _index(batch_index, id)
    name = shared_name or node.name
    made = ctx.resources.get_or_create(container, name, Unbatcher, lambda: Unbatcher(name, timeout_micros / 1e6, container))
    return made.exchange(batched_tensor, index, own, ctx)


@unbatch_grad.kernel(device="cpu")
def _unbatch_grad_kernel(original_input, batch_index, grad, id, *, container, shared_name, ctx, node):
    index, own = _index(batch_index, id)
    name = shared_name or node.name
    made = ctx.resources.get_or_create(container, name, GradientUnbatcher, lambda: GradientUnbatcher(name, container))
    joined = made.collect(grad, index, own, ctx)
    return arrays.part(original_input, (slice(0, 0),)) if joined is None else joined


@batch_function_op.kernel(device="cpu")
def _batch_function_kernel(in_tensors, captured_tensors, *, f, ctx, node):
    batcher = _batcher(ctx, node)
    function = as_function(f, node.graph)
    given = len(in_tensors) + len(captured_tensors)
    if len(function.inputs) != given:
        raise errors.invalid(f"Function takes {len(function.inputs)} arguments but {given} were given")

    def compute(calls: list[Call]) -> None:
        joined = batcher.joined(calls)
        total = arrays.dims_of(joined[0])[0]
        outputs = list(function.run(ctx, [*joined, *calls[-1].captured]))
        for out in outputs:
            if not arrays.dims_of(out):
                raise errors.FailedPreconditionError(None, None, "Batched output tensor has 0 dimensions")
            if arrays.dims_of(out)[0] != total:
                raise errors.FailedPreconditionError(None, None, "Batched output tensor's 0th dimension does not equal the "
                                                     "sum of the 0th dimension sizes of the input tensors")
        start = 0
        for c in calls:
            c.answer = [arrays.part(out, (slice(start, start + c.size),)) for out in outputs]
            start += c.size
    return batcher.run(Call(in_tensors, captured_tensors), compute, ctx)


def _any_rows(shape: Any) -> Any:
    """The shape of one argument of a batch: its rows come from several calls, their number is known when it is made."""
    return [None, *shape.as_list()[1:]] if shape.rank else shape


@export("nondifferentiable_batch_function")
def batch_function(num_batch_threads: int, max_batch_size: int, batch_timeout_micros: int,
                   allowed_batch_sizes: Sequence[int] | None = None, max_enqueued_batches: int = 10,
                   autograph: bool = True) -> Callable:
    """Decorates a function so that calls which run at the same time are computed together.

    The arguments are tensors, joined along their first axis, up to `max_batch_size` rows or for `batch_timeout_micros`.
    `allowed_batch_sizes` are the sizes that batches are filled up to; the last of them is `max_batch_size`.

        @tf.nondifferentiable_batch_function(1, 10, 1000)
        def layer(x):
            return tf.matmul(x, w)
    """
    def decorator(function: Callable) -> Callable:
        @functools.wraps(function)
        def decorated(*args: Any) -> Any:
            for a in args:
                if not isinstance(a, Tensor):
                    raise ValueError("All arguments to functions decorated with `batch_function` are supposed to be "
                                     f"Tensors; found {a!r}")
            specs = [tf.TensorSpec(_any_rows(a.shape), a.dtype, name=str(i)) for i, a in enumerate(args)]
            concrete = tf.function(lambda *inner: function(*inner), autograph=autograph).get_concrete_function(*specs)
            with tf.name_scope("batch") as name:
                found = batch_function_op(list(args), list(concrete.captured_inputs), f=concrete,
                                          num_batch_threads=num_batch_threads, max_batch_size=max_batch_size,
                                          batch_timeout_micros=batch_timeout_micros,
                                          allowed_batch_sizes=list(allowed_batch_sizes or []),
                                          max_enqueued_batches=max_enqueued_batches, shared_name=name,
                                          Tout=[o.dtype for o in concrete.outputs])
            return nest.pack_sequence_as(concrete.structured_outputs, found, expand_composites=True)
        return decorated
    return decorator
