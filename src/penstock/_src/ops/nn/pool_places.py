"""Max pooling in training steps on the CPU: the pooling saves the positions of its maxima, and its gradient needs nothing else.

What these internal ops represent: `_MaxPoolPlaces` a MaxPool, with the ReLU before it; `_MaxPoolGradPlaces` the MaxPoolGrad,
with the ReluGrad and the BiasAddGrad after it. A ReLU and a pooling can be swapped, because both are monotonic; a maximum that
the ReLU sets to zero has no position, and no gradient. The pooled images themselves are not kept.
The kernels are those of `kernels/pools.py`; where these do not exist, the rules in `pool.py` use ATen's.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph.node import Tensor
from penstock._src.kernels import pools
from penstock._src.ops.nn import pool
from penstock._src.ops.registry import internal

_WINDOW = "ksize: list(int) >= 4, strides: list(int) >= 4, padding: string in {SAME VALID}"
_NAMES = ("ksize", "strides", "padding")

max_pool_places = internal("_MaxPoolPlaces", "input: float32 -> output: float32, places: uint8",
                           f"{_WINDOW}, relu: bool = False")
max_pool_grad_places = internal("_MaxPoolGradPlaces", "grad: float32, places: uint8 -> output: float32, bias: float32",
                                f"{_WINDOW}, height: int, width: int, bias: bool = False")


@max_pool_places.kernel
def _max_pool_places_kernel(input, *, ksize, strides, padding, relu):
    p = pool.plan_of("MaxPool", input.shape, tuple(ksize), tuple(strides), padding, "NHWC")
    if p.empty:
        return input.new_zeros(p.result), None
    return pools.max_pool(input.contiguous(), p.window, p.stride, p.before, p.output, relu, places=True)


@max_pool_grad_places.kernel
def _max_pool_grad_places_kernel(grad, places, *, ksize, strides, padding, height, width, bias):
    shape = (grad.shape[0], height, width, grad.shape[-1])
    p = pool.plan_of("MaxPoolGrad", shape, tuple(ksize), tuple(strides), padding, "NHWC")
    pool.expect("grad", grad, p.result)
    if p.empty:
        return grad.new_zeros(shape), grad.new_zeros(shape[-1:])
    return pools.max_pool_grad(grad, places, (height, width), p.window, p.stride, p.before, bias)


def fuse_grad(op: Any, f: Any, forward: Any) -> Any:
    """A MaxPoolGrad whose pooling, `forward`, is in the same step; None if these ops cannot represent them."""
    dims = forward.inputs[0].static_dims
    if not f.on_host(op) or op.attrs["T"] is not dtypes.float32 or op.attrs["data_format"] != "NHWC" or \
            dims is None or None in dims[1:3] or op.attrs["ksize"][1] * op.attrs["ksize"][2] >= pools.NOWHERE or \
            forward.attrs.get("relu") or not pools.available():       # with a ReLU: its places are another gradient's
        return None
    attrs = {n: op.attrs[n] for n in _NAMES}
    if forward.opdef is not max_pool_places:
        made = f.make("_MaxPoolPlaces", forward.inputs, attrs, forward,
                      outputs=[forward.outputs[0], f.result(dtypes.uint8, forward.outputs[0].static_dims)])
        f.put(made, forward)
        forward = made
    return f.make("_MaxPoolGradPlaces", [op.inputs[2], forward.outputs[1]], {**attrs, "height": dims[1], "width": dims[2]}, op,
                  extra=[f.result(dtypes.float32, dims[3:])])


def fuse_relu_grad(op: Any, f: Any, grad: Any) -> Any:
    """A ReluGrad that is the only consumer of `grad`, a pooling's gradient."""
    dy, places = grad.inputs
    forward = f.maker(places, op)
    if forward is None or f.users(places) != [grad]:
        return None
    x = forward.inputs[0]
    if f.source(x) is not f.source(op.inputs[1]):
        return None
    users = f.users(x)
    if users is not None and {*users} == {forward, grad, op}:
        before = pool.without_relu(f, f.maker(x, op))
        x = x if before is None else before
    first = f.make("_MaxPoolPlaces", [x], {**forward.attrs, "relu": True}, forward)
    f.put(first, forward)
    return f.make("_MaxPoolGradPlaces", [dy, first.outputs[1]], grad.attrs, op, outputs=[op.outputs[0], grad.outputs[1]])


def fuse_bias_grad(op: Any, f: Any, grad: Any) -> Tensor:
    """A BiasAddGrad of `grad`, a pooling's gradient, which also returns the sums."""
    both = f.make("_MaxPoolGradPlaces", grad.inputs, {**grad.attrs, "bias": True}, grad,
                  outputs=[grad.outputs[0], op.outputs[0]])
    f.put(both, grad)
    return both.outputs[1]
