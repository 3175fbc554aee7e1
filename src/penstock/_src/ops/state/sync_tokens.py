"""Tokens of synchronous training (training/train/sync_replicas.py): a queue of the numbers of steps.

The chief replaces the remaining tokens of a step by those of the next. A worker that has added its gradients to a step takes a
token of another one: a later one, or an earlier one after a restore from a checkpoint. Tokens
that were enqueued initially may be taken by any worker.
"""
from __future__ import annotations

from penstock._src.base import errors
from penstock._src.data.queues.fifo import FIFOQueue
from penstock._src.ops.registry import op
from penstock._src.ops.state.queue import queue_of

put = op("SyncTokensPut", "handle: resource, tokens: T ->", "T: type in {int32 int64}", stateful=True, gpu=False).no_gradient()
take = op("SyncTokensTake", "handle: resource, local_step: T -> token: T", "T: type in {int32 int64}", stateful=True,
          blocking=True, gpu=False).no_gradient()
put.shape(lambda handle, tokens: [])
take.shape(lambda handle, local_step: ())


def _tokens(handle) -> FIFOQueue:
    queue = queue_of(handle)
    if not isinstance(queue, FIFOQueue) or len(queue.types) != 1 or queue.shapes != [()]:
        raise errors.invalid(f"Tokens are numbers in a FIFOQueue; '{queue.name}' is another kind of queue.")
    return queue


@put.kernel
def _put_kernel(handle, tokens):
    queue = _tokens(handle)
    queue._check_types([tokens])
    if tokens.dim() != 1:
        raise errors.invalid(f"Tokens must be a vector, got shape {list(tokens.shape)}")
    queue.put_tokens(tokens.clone())


@take.kernel
def _take_kernel(handle, local_step, *, ctx):
    if local_step.dim():
        raise errors.invalid(f"The local step must be a scalar, got shape {list(local_step.shape)}")
    return _tokens(handle).take_token(int(local_step), ctx)
