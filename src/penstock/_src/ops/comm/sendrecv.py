"""Ops at edges between partitions: a send on one side, a receive on the other; and the arguments of a step.

A value goes through the step's rendezvous under a key that both sides know (execute/rendezvous.py). Between devices with
their own memory, the sender's device begins the copy and the receiver's ends it. The Host- forms are for tensors that
stay in the host's memory on both sides (int32 and strings).
"""
from __future__ import annotations

import functools
from typing import Any

from penstock._src.base import errors
from penstock._src.ops.registry import op

_ENDS = "tensor_name: string, send_device: string, send_device_incarnation: int, recv_device: string, " \
        "client_terminated: bool = False"

send_op = op("_Send", "tensor: T ->", f"T: type, {_ENDS}", stateful=True, transfer="send").no_gradient()
recv_op = op("_Recv", "-> tensor: tensor_type", f"tensor_type: type, {_ENDS}", stateful=True, transfer="recv").no_gradient()
host_send_op = op("_HostSend", "tensor: T ->", f"T: type, {_ENDS}", stateful=True, transfer="send").no_gradient()
host_recv_op = op("_HostRecv", "-> tensor: tensor_type", f"tensor_type: type, {_ENDS}", stateful=True,
                  transfer="recv").no_gradient()
for _op in (recv_op, host_recv_op):
    _op.shape(lambda: None)

arg_op = op("_Arg", "-> output: T", "T: type, index: int >= 0", stateful=True, transfer="arg").no_gradient()
arg_op.shape(lambda: None)
retval_op = op("_Retval", "input: T ->", "T: type, index: int >= 0", stateful=True).no_gradient()
retval_op.kernel(lambda input: None)


@functools.lru_cache(maxsize=65536)
def edge_key(send_device: str, incarnation: int, recv_device: str, tensor_name: str, frame: str = "0:0") -> str:
    """The key of an edge: "source;incarnation;destination;edge;frame:iteration". Outside of loops the last is 0:0.

    >>> edge_key("/device:CPU:0", 10, "/device:CPU:1", "edge_3_x")
    '/device:CPU:0;000000000000000a;/device:CPU:1;edge_3_x;0:0'
    """
    return f"{send_device};{incarnation & 0xffffffffffffffff:016x};{recv_device};{tensor_name};{frame}"


def _meeting(ctx: Any) -> Any:
    if ctx.rendezvous is None:
        raise errors.InternalError(None, None, "A send or receive op needs a step with a rendezvous: partitions run together.")
    return ctx.rendezvous


# The dataflow executor passes kernels their frame, and receives a callback, so that they do not wait.
@send_op.kernel
def _send_kernel(tensor, *, tensor_name, send_device, send_device_incarnation, recv_device, ctx, frame="0:0"):
    devices = ctx.devices.by_name
    source, target = devices.get(send_device), devices.get(recv_device, ctx.devices.host)
    if source is not None and not source.host:
        tensor = source.start(tensor, target)
    _meeting(ctx).send(edge_key(send_device, send_device_incarnation, recv_device, tensor_name, frame), tensor)


@host_send_op.kernel
def _host_send_kernel(tensor, *, tensor_name, send_device, send_device_incarnation, recv_device, ctx, frame="0:0"):
    _meeting(ctx).send(edge_key(send_device, send_device_incarnation, recv_device, tensor_name, frame), tensor)


@recv_op.kernel
def _recv_kernel(*, tensor_name, send_device, send_device_incarnation, recv_device, ctx, frame="0:0", done=None):
    key = edge_key(send_device, send_device_incarnation, recv_device, tensor_name, frame)
    finish = ctx.devices.by_name[recv_device].finish
    return finish(_meeting(ctx).recv(key, ctx)) if done is None else _meeting(ctx).recv_async(key, _then(finish, done))


@host_recv_op.kernel
def _host_recv_kernel(*, tensor_name, send_device, send_device_incarnation, recv_device, ctx, frame="0:0", done=None):
    key = edge_key(send_device, send_device_incarnation, recv_device, tensor_name, frame)
    return _meeting(ctx).recv(key, ctx) if done is None else _meeting(ctx).recv_async(key, done)


def _then(finish: Any, done: Any) -> Any:
    def arrived(value: Any, error: BaseException | None) -> None:
        try:
            value = finish(value) if error is None else None
        except Exception as e:
            error = e
        done(value, error)
    return arrived
