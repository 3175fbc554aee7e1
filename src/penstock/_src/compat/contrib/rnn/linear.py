"""A matrix product of joined arguments, with variables `kernel` and `bias` of the scope in which it is called."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock.compat import v1 as tf


@export(v1=["contrib.rnn._linear"])
def linear(args: Any, output_size: int, bias: bool, bias_initializer: Any = None, kernel_initializer: Any = None) -> Tensor:
    """`concat(args) * kernel + bias`."""
    if args is None or (nest.is_nested(args) and not args):
        raise ValueError("`args` must be specified")
    args = list(args) if nest.is_nested(args) else [args]
    for a in args:
        if a.shape.ndims != 2:
            raise ValueError(f"linear is expecting 2D arguments: {[x.shape for x in args]}")
        if a.shape.dims[1].value is None:
            raise ValueError(f"linear expects shape[1] to be provided for shape {a.shape}, but saw {a.shape[1]}")
    dtype, depth = args[0].dtype, sum(a.shape.dims[1].value for a in args)
    kernel = tf.get_variable("kernel", [depth, output_size], dtype=dtype, initializer=kernel_initializer)
    product = tf.matmul(args[0] if len(args) == 1 else tf.concat(args, 1), kernel)
    if not bias:
        return product
    with tf.variable_scope(tf.get_variable_scope()) as whole:
        whole.set_partitioner(None)
        added = tf.get_variable("bias", [output_size], dtype=dtype, initializer=bias_initializer if bias_initializer is not None
                                else tf.constant_initializer(0.0, dtype=dtype))
    return tf.nn.bias_add(product, added)


@export(v1=["contrib.rnn._Linear"])
class Linear:
    """A matrix product of joined arguments. Its variables are made at once, in the scope that is open."""

    def __init__(self, args: Any, output_size: int, build_bias: bool, bias_initializer: Any = None,
                 kernel_initializer: Any = None):
        with tf.variable_scope(tf.get_variable_scope()) as self._scope:
            linear(args, output_size, build_bias, bias_initializer, kernel_initializer)
        self._size, self._bias = output_size, build_bias

    def __call__(self, args: Any) -> Tensor:
        with tf.variable_scope(self._scope, reuse=True, auxiliary_name_scope=False):
            return linear(args, self._size, self._bias)


def depth_of(inputs: Tensor) -> int:
    """The size of inputs, which must be known."""
    depth = inputs.shape.with_rank(2).dims[1].value
    if depth is None:
        raise ValueError("Could not infer input size from inputs.get_shape()[-1]")
    return depth
