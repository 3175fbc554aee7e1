"""Collective ops: one op on every device of a group, which wait for each other and combine their inputs.

The members of a group (`group_key`, `group_size`) may be devices of one task or of several; `instance_key` tells which ops
belong together. `communication_hint` is `auto`, `ring`, `nccl`, `gloo`, or one of the algorithms of
`collective/algorithms.py`. How it works is in `collective`, which is loaded when the first of these ops runs.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.graph.node import Tensor
from penstock._src.kernels.devices.device_spec import canonical_name
from penstock._src.ops import rules
from penstock._src.ops.registry import internal, op

_REDUCED = "T: type in {bfloat16 float32 half float64 int32 int64}"
_GATHERED = "T: type in {float32 half float64 int32 int64}"
_SENT = "T: type in {bool float32 half float64 int32 int64}"
_KEYS = "group_size: int, group_key: int, instance_key: int"
_KEY_INPUTS = "group_size: int32, group_key: int32, instance_key: int32"
_HINT = "communication_hint: string = 'auto', timeout_seconds: float = 0"
_MERGE = "merge_op: string in {Min Max Mul Add}, final_op: string in {Id Div}"
_TOKENS = "is_stateless: bool = False, Nordering_token: int >= 0 = 0"
_BLOCKS: dict[str, Any] = {"stateful": True, "blocking": True, "host": "group_size group_key instance_key shape"}

reduce_op = op("CollectiveReduce", "input: T -> data: T",
               f"{_REDUCED}, {_KEYS}, {_MERGE}, subdiv_offsets: list(int), wait_for: list(int) = [], {_HINT}", **_BLOCKS)
gather_op = op("CollectiveGather", "input: T -> data: T", f"{_GATHERED}, {_KEYS}, shape: shape, {_HINT}", **_BLOCKS)
send_op = op("CollectiveBcastSend", "input: T -> data: T", f"{_SENT}, {_KEYS}, shape: shape, {_HINT}", **_BLOCKS)
recv_op = op("CollectiveBcastRecv", "-> data: T", f"{_SENT}, {_KEYS}, shape: shape, {_HINT}", **_BLOCKS)
reduce_v2 = op("CollectiveReduceV2", f"input: T, {_KEY_INPUTS}, ordering_token: Nordering_token * resource -> data: T",
               f"{_REDUCED}, {_MERGE}, {_HINT}, {_TOKENS}, max_subdivs_per_device: int = -1", **_BLOCKS)
gather_v2 = op("CollectiveGatherV2", f"input: T, {_KEY_INPUTS}, ordering_token: Nordering_token * resource -> data: T",
               f"{_GATHERED}, {_HINT}, {_TOKENS}", **_BLOCKS)
send_v2 = op("CollectiveBcastSendV2", f"input: T, {_KEY_INPUTS} -> data: T", f"{_SENT}, {_HINT}", **_BLOCKS)
recv_v2 = op("CollectiveBcastRecvV2", f"{_KEY_INPUTS}, shape: Tshape -> data: T",
             f"{_SENT}, Tshape: type in {{index}} = int32, {_HINT}", **_BLOCKS)


# -- shapes -------------------------------------------------------------------------------------------------------------
reduce_op.shape(lambda input: input)
reduce_v2.shape(lambda input, group_size, group_key, instance_key, ordering_token: input)
send_v2.shape(lambda input, group_size, group_key, instance_key: input)
recv_op.shape(lambda *, shape: shapes.as_dims(shape))


@send_op.shape
def _send_shape(input, *, shape):
    return shapes.merge(input, shapes.as_dims(shape))


@gather_op.shape
def _gather_shape(input, *, group_size):
    return _gathered(input, group_size)


@gather_v2.shape
def _gather_v2_shape(input, group_size, group_key, instance_key, ordering_token, *, c):
    size = c.const("group_size")
    return _gathered(input, None if size is None else int(size))


def _gathered(dims: tuple | None, size: int | None) -> tuple | None:
    if dims is None:
        return None
    if not dims:
        return (size,)
    return (None if size is None or dims[0] is None else dims[0] * size, *dims[1:])


@recv_v2.shape
def _recv_v2_shape(group_size, group_key, instance_key, shape, *, c):
    return c.dims("shape")


# -- kernels ------------------------------------------------------------------------------------------------------------
def _collective() -> Any:
    """The module of groups and rendezvous, loaded by the first collective op."""
    from penstock._src.collective import front
    return front


@contextlib.contextmanager
def _member(node: Any, ctx: Any, keys: tuple, seconds: float, arrays: Any = ()) -> Iterator[tuple[Any, int, dict[str, Any]]]:
    """The group, the rank in it, and how long to wait, of an op that is a member and brings arrays."""
    size, key, _ = keys
    if size < 1:
        raise errors.invalid(f"group_size must be positive: {size}.")
    limit, about = _collective().Limit(ctx, seconds or None), f"{node.type} {node.name}"
    hub = _collective().meeting_point(key, ctx.resources)
    name = _device(node, ctx).name
    if hub.task and not name.startswith(hub.task + "/"):
        name = hub.task + name[name.index("/device:"):]
    try:
        group = hub.join(key, size, name, limit)
        yield group, group.rank_of[name], {"limit": limit, "about": about}
    except errors.OpError as e:
        brings = f" with {_listed(arrays)}" if len(arrays) else ""
        made_as: Any = type(e)
        raise e if about in e.message else made_as(None, None, f"{about}{brings}: {e.message}") from None


def _described(x: torch.Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')} {list(x.shape)}"


def _listed(arrays: Any) -> str:
    """The types and shapes of the first few arrays."""
    return ", ".join([*map(_described, arrays[:4]), *(["…"] if len(arrays) > 4 else [])])


def _device(node: Any, ctx: Any) -> Any:
    return (ctx.devices.find(node.device) if node.device else None) or ctx.devices.host


def _reduce(x, keys, merge_op, final_op, communication_hint, timeout_seconds, node, ctx):
    how = _collective().named(communication_hint)          # a mistake does not wait for the other members
    with _member(node, ctx, keys, timeout_seconds) as (group, rank, limits):
        return group.all_reduce(rank, keys[2], x, merge_op, final_op, how=how, sequence=None, **limits)


def _gather(x, keys, timeout_seconds, node, ctx):
    with _member(node, ctx, keys, timeout_seconds) as (group, rank, limits):
        return group.gather(rank, keys[2], x, **limits)


def _send(x, keys, timeout_seconds, node, ctx):
    with _member(node, ctx, keys, timeout_seconds) as (group, rank, limits):
        return group.broadcast(rank, keys[2], x, rank, **limits)


def _recv(shape, dtype, keys, timeout_seconds, node, ctx):
    with _member(node, ctx, keys, timeout_seconds) as (group, rank, limits):
        like = _device(node, ctx).allocate(tuple(shape), dtype.torch)
        return group.broadcast(rank, keys[2], like, None, **limits)


@reduce_op.kernel
def _reduce_kernel(input, *, group_size, group_key, instance_key, merge_op, final_op, communication_hint, timeout_seconds,
                   node, ctx):
    return _reduce(input, (group_size, group_key, instance_key), merge_op, final_op, communication_hint, timeout_seconds,
                   node, ctx)


@reduce_v2.kernel
def _reduce_v2_kernel(input, group_size, group_key, instance_key, ordering_token, *, merge_op, final_op, communication_hint,
                      timeout_seconds, node, ctx):
    return _reduce(input, _keys(group_size, group_key, instance_key), merge_op, final_op, communication_hint,
                   timeout_seconds, node, ctx)


@gather_op.kernel
def _gather_kernel(input, *, group_size, group_key, instance_key, timeout_seconds, node, ctx):
    return _gather(input, (group_size, group_key, instance_key), timeout_seconds, node, ctx)


@gather_v2.kernel
def _gather_v2_kernel(input, group_size, group_key, instance_key, ordering_token, *, timeout_seconds, node, ctx):
    return _gather(input, _keys(group_size, group_key, instance_key), timeout_seconds, node, ctx)


@send_op.kernel
def _send_kernel(input, *, group_size, group_key, instance_key, shape, timeout_seconds, node, ctx):
    wanted = shapes.as_dims(shape)
    if wanted is not None and tuple(input.shape) != tuple(wanted):
        raise errors.invalid(f"The input has shape {tuple(input.shape)}, and {tuple(wanted)} was declared.")
    return _send(input, (group_size, group_key, instance_key), timeout_seconds, node, ctx)


@send_v2.kernel
def _send_v2_kernel(input, group_size, group_key, instance_key, *, timeout_seconds, node, ctx):
    return _send(input, _keys(group_size, group_key, instance_key), timeout_seconds, node, ctx)


@recv_op.kernel
def _recv_kernel(*, T, group_size, group_key, instance_key, shape, timeout_seconds, node, ctx):
    dims = shapes.as_dims(shape)
    if dims is None or None in dims:
        raise errors.invalid(f"The shape of what is received must be known: {shape}.")
    return _recv(dims, T, (group_size, group_key, instance_key), timeout_seconds, node, ctx)


@recv_v2.kernel
def _recv_v2_kernel(group_size, group_key, instance_key, shape, *, T, timeout_seconds, node, ctx):
    return _recv(shape.tolist(), T, _keys(group_size, group_key, instance_key), timeout_seconds, node, ctx)


def _keys(*tensors: torch.Tensor) -> tuple:
    if any(t.numel() != 1 for t in tensors):
        raise errors.invalid("group_size, group_key and instance_key must be scalars.")
    return tuple(int(t) for t in tensors)


# -- gradients ----------------------------------------------------------------------------------------------------------
for _op in (reduce_op, gather_op, send_op, recv_op, reduce_v2, gather_v2, send_v2, recv_v2):
    _op.no_gradient()


# -- functions ----------------------------------------------------------------------------------------------------------
def _check(t: Any, group_size: int, what: str) -> None:
    if t is not None and not canonical_name(t.device or ""):
        raise ValueError("Device assignment required for collective ops")
    if group_size <= 1:
        raise ValueError(f"Parameter group_size to {what} must be at least 2.")


def all_reduce(t: Any, group_size: int, group_key: int, instance_key: int, merge_op: str, final_op: str,
               subdiv_offsets: Any = (0,), communication_hint: str = "auto") -> Tensor:
    """The reduction of the tensors that all members of a group pass, on each of their devices.

    >>> with tf.device("/cpu:0"): a = all_reduce(tf.identity(x), 2, 1, 1, "Add", "Div")
    >>> with tf.device("/cpu:1"): b = all_reduce(tf.identity(y), 2, 1, 1, "Add", "Div")
    >>> session.run([a, b])                       # (x + y) / 2, twice
    """
    _check(t, group_size, "all_reduce")
    return reduce_op(t, group_size=group_size, group_key=group_key, instance_key=instance_key, merge_op=merge_op,
                     final_op=final_op, subdiv_offsets=subdiv_offsets, communication_hint=communication_hint)


def all_gather(t: Any, group_size: int, group_key: int, instance_key: int, communication_hint: str = "auto") -> Tensor:
    """The tensors of all members, which have one shape, concatenated along the first dimension."""
    _check(t, group_size, "all_gather")
    return gather_op(t, shape=[0], group_size=group_size, group_key=group_key, instance_key=instance_key,
                     communication_hint=communication_hint)


def broadcast_send(t: Any, shape: Any, dtype: Any, group_size: int, group_key: int, instance_key: int,
                   communication_hint: str = "auto") -> Tensor:
    """Sends a tensor to all other members of a group, which call `broadcast_recv`."""
    _check(t, group_size, "broadcast_send")
    if t.shape != shape:
        raise ValueError(f"Shape of broadcast_send tensor not equal to declared shape: {t.shape} and {shape}")
    if t.dtype != dtype:
        raise ValueError(f"Type of broadcast_send tensor not equal to declared type: {t.dtype} and {dtype}")
    return send_op(t, shape=shape, group_size=group_size, group_key=group_key, instance_key=instance_key,
                   communication_hint=communication_hint)


def broadcast_recv(shape: Any, dtype: Any, group_size: int, group_key: int, instance_key: int,
                   communication_hint: str = "auto") -> Tensor:
    """The tensor that one member of the group sends with `broadcast_send`."""
    _check(None, group_size, "broadcast_recv")
    return recv_op(shape=shape, T=dtypes.as_dtype(dtype), group_size=group_size, group_key=group_key,
                   instance_key=instance_key, communication_hint=communication_hint)


# -- between the workers of a strategy ------------------------------------------------------------------------------------
# Every worker runs the same program, so these come in the same order on all of them, and need no keys: the nth one of a worker
# meets the nth ones of the others, or, if they are not the same, returns an error. Stateful: functions keep them in order.
_TOGETHER: dict[str, Any] = {"stateful": True}
_INSTANCE = "in turn"
_GROUP = "group_size: int, group_key: int, communication_hint: string = 'auto', timeout_seconds: float = 0"

workers_reduce = internal("_WorkersReduce", "inputs: N * T -> outputs: N * T",
                          f"T: type in {{numeric bool}}, N: int >= 1, bytes_per_pack: int = 0, {_GROUP}", **_TOGETHER)
workers_gather = internal("_WorkersGather", "input: T -> output: T", f"T: type in {{numeric bool}}, {_GROUP}", **_TOGETHER)
workers_exchange = internal("_WorkersExchange", "inputs: Tin -> outputs: Tout",           # all inputs of each worker in turn
                            f"Tin: list(type) >= 1, Tout: list(type) >= 1, {_GROUP}", **_TOGETHER)
workers_broadcast = internal("_WorkersBroadcast", "input: T -> output: T", f"T: type in {{numeric bool}}, {_GROUP}",
                             **_TOGETHER)
workers_reduce.shape(lambda inputs: list(inputs))
workers_gather.shape(lambda input: None if input is None else (None, *input[1:]))
workers_exchange.shape(lambda inputs, *, c: [x if not x else (None, *x[1:]) for x in inputs] * c.op.attrs["group_size"])
workers_broadcast.shape(lambda input: input)
for _op in (workers_reduce, workers_gather, workers_exchange, workers_broadcast):
    _op.no_gradient()


def packed(sizes: list[int], most: int) -> list[list[int]]:
    """Packs arrays into messages: neighbours, up to `most` bytes (0: all of them).

    >>> packed([4, 4, 10, 4], 8)
    [[0, 1], [2], [3]]
    """
    packs: list[list[int]] = []
    filled = 0
    for i, size in enumerate(sizes):
        if not packs or most and filled + size > most:
            packs.append([])
            filled = 0
        packs[-1].append(i)
        filled += size
    return packs


@workers_reduce.kernel
def _workers_reduce_kernel(inputs, *, bytes_per_pack, group_size, group_key, communication_hint, timeout_seconds, node, ctx):
    how = _collective().named(communication_hint)
    outputs: list[Any] = [None] * len(inputs)
    with _member(node, ctx, (group_size, group_key, _INSTANCE), timeout_seconds, inputs) as (group, rank, limits):
        for members in packed([x.nbytes for x in inputs], bytes_per_pack):
            together = torch.cat([inputs[i].reshape(-1) for i in members])
            total = group.all_reduce(rank, _INSTANCE, together, how=how, in_place=True, **limits)
            for i, part in zip(members, total.split([inputs[i].numel() for i in members]), strict=True):
                outputs[i] = part.view(inputs[i].shape)
    return tuple(outputs)


@workers_gather.kernel
def _workers_gather_kernel(input, *, group_size, group_key, timeout_seconds, node, ctx):
    with _member(node, ctx, (group_size, group_key, _INSTANCE), timeout_seconds, [input]) as (group, rank, limits):
        parts = group.gather_any(rank, _INSTANCE, input, **limits)
        for other, part in zip(group.members, parts, strict=True):
            if part.shape[1:] != input.shape[1:]:
                raise errors.invalid(f"Shape mismatch in {limits['about']}: {group.members[rank]} has {_described(input)}, and "
                                     f"{other} has {_described(part)}. Only the number of rows may differ.")
        return torch.cat([p.to(input.device) for p in parts])


@workers_exchange.kernel
def _workers_exchange_kernel(inputs, *, group_size, group_key, timeout_seconds, node, ctx):
    sizes = torch.tensor([x.numel() for x in inputs], device=inputs[0].device)
    together = torch.cat([x.contiguous().reshape(-1).view(torch.uint8) for x in (sizes, *inputs)])
    with _member(node, ctx, (group_size, group_key, _INSTANCE), timeout_seconds, inputs) as (group, rank, limits):
        every = group.gather_any(rank, _INSTANCE, together, **limits)
    return tuple(array for who, message in zip(group.members, every, strict=True)
                 for array in _unpacked(who, message.to(together.device), inputs))


def _unpacked(who: str, message: torch.Tensor, like: list[torch.Tensor]) -> list[torch.Tensor]:
    """The arrays of a message; InvalidArgumentError if they are not as many, and as large, as it says."""
    begin = 8 * len(like)
    sizes = message[:begin].clone().view(torch.int64).tolist() if message.numel() >= begin else []
    lengths = [n * x.element_size() for n, x in zip(sizes, like)]
    if min(sizes, default=-1) < 0 or begin + sum(lengths) != message.numel():
        raise errors.invalid(f"{who} has sent {message.numel()} bytes, which are not {len(like)} arrays like those here: "
                             f"{_listed(like)}.")
    arrays = message[begin:].split(lengths)
    return [a.clone().view(x.dtype).reshape((-1, *x.shape[1:]) if x.ndim else ()) for a, x in zip(arrays, like, strict=True)]


@workers_broadcast.kernel
def _workers_broadcast_kernel(input, *, group_size, group_key, timeout_seconds, node, ctx):
    with _member(node, ctx, (group_size, group_key, _INSTANCE), timeout_seconds, [input]) as (group, rank, limits):
        return group.broadcast(rank, _INSTANCE, input, 0, **limits)


# Reductions that continue while the step does: one op passes arrays on as soon as they are ready (`early`: passes put it right
# behind what makes them), another one waits for the sums.
workers_start = internal("_WorkersStart", "inputs: N * T -> pending: variant",
                         f"T: type in {{numeric bool}}, N: int >= 1, number: int, prioritize: bool = False, {_GROUP}",
                         **_TOGETHER)
rules.costs.early.add(workers_start)
workers_finish = internal("_WorkersFinish", "pending: variant -> outputs: N * T",
                          "T: type in {numeric bool}, N: int >= 1, shapes: list(shape), timeout_seconds: float = 0",
                          **_TOGETHER)
workers_start.shape(lambda inputs: ())
workers_finish.shape(lambda pending, *, c: [shapes.as_dims(s) for s in c.op.attrs["shapes"]])
for _op in (workers_start, workers_finish):
    _op.no_gradient()


@workers_start.kernel
def _workers_start_kernel(inputs, *, number, prioritize, group_size, group_key, communication_hint, timeout_seconds, node, ctx):
    with _member(node, ctx, (group_size, group_key, _INSTANCE), timeout_seconds) as (group, rank, limits):
        front = _collective()
        bucket = front.Bucket(list(inputs), number, front.named(communication_hint), front.Limit(None, timeout_seconds or None),
                              limits["about"])
        return group.mover(rank).start(bucket, prioritize)


@workers_finish.kernel
def _workers_finish_kernel(pending, *, timeout_seconds, ctx):
    return tuple(pending.wait(_collective().Limit(ctx, timeout_seconds or None)))


# -- groups -----------------------------------------------------------------------------------------------------------------
assign_group = op("CollectiveAssignGroupV2", "group_assignment: int32, device_index: int32, base_key: int32 -> "
                  "group_size: int32, group_key: int32", stateful=True).no_gradient()
assign_group.shape(lambda group_assignment, device_index, base_key: [(), ()])


@assign_group.kernel(device="cpu")
def _assign_group_kernel(group_assignment, device_index, base_key):
    """The size and the key of the group, a row of the assignment, that a device belongs to."""
    if group_assignment.ndim != 2 or device_index.numel() != 1 or base_key.numel() != 1:
        raise errors.invalid("group_assignment must be a matrix, device_index and base_key scalars")
    rows = (group_assignment == device_index.reshape(())).any(1).nonzero().reshape(-1)
    if len(rows) != 1:
        raise errors.invalid(f"Device {int(device_index)} must be in one group of group_assignment, it is in {len(rows)}")
    size = torch.tensor(group_assignment.shape[1], dtype=torch.int32)
    return size, (base_key.reshape(()) + rows[0]).to(torch.int32)
