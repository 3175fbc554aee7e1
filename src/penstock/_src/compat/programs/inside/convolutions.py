"""Of `ops.nn_ops`."""
from __future__ import annotations

from typing import Any

import penstock as tf


class Convolution:
    """A convolution of inputs and filters of known shapes, to be called with them; layers keep one of these.

    >>> nn_ops.Convolution(x.shape, kernel.shape, padding="SAME")(x, kernel)
    """

    def __init__(self, input_shape: Any, filter_shape: Any, padding: str, strides: Any = None, dilation_rate: Any = None,
                 name: str | None = None, data_format: str | None = None, num_spatial_dims: int | None = None):
        self.input_shape, self.filter_shape = tf.TensorShape(input_shape), tf.TensorShape(filter_shape)
        self.padding, self.strides, self.dilation_rate = padding, strides, dilation_rate
        self.name, self.data_format = name, data_format
        ranks = {s.rank for s in (self.input_shape, self.filter_shape)} - {None}
        if num_spatial_dims is not None:
            ranks.add(num_spatial_dims + 2)
        if len(ranks) > 1 or not ranks <= {3, 4, 5}:
            raise ValueError(f"A convolution has 1 to 3 dimensions, and its inputs and filters two more. Received input_shape="
                             f"{self.input_shape}, filter_shape={self.filter_shape}, num_spatial_dims={num_spatial_dims}")

    def __call__(self, inp: Any, filter: Any) -> Any:
        return tf.nn.convolution(inp, filter, strides=self.strides, padding=self.padding, data_format=self.data_format,
                                 dilations=self.dilation_rate, name=self.name)
