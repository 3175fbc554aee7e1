"""Locally connected layers: convolutions with a separate kernel at each place."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras import regularizers
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.engine.input_spec import InputSpec
from penstock._src.models.keras.layers.parts import (
    data_format_of,
    described,
    dims_of,
    numbers,
    output_length,
    padding_of,
    passed,
    read,
)
from penstock.compat import v1 as tf


class _LocallyConnected(Layer):
    """Both layers. `implementation` 1 keeps a kernel for each place, 2 a dense matrix with a mask, 3 its nonzero elements."""

    activation: Any
    bias_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    implementation: Any
    kernel_constraint: Any
    kernel_initializer: Any
    kernel_regularizer: Any
    use_bias: Any

    def __init__(self, rank: int, filters: int, kernel_size: Any, strides: Any, padding: str, data_format: Any, activation: Any,
                 use_bias: bool, kernel_initializer: Any, bias_initializer: Any, kernel_regularizer: Any, bias_regularizer: Any,
                 activity_regularizer: Any, kernel_constraint: Any, bias_constraint: Any, implementation: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.rank, self.filters = rank, filters
        self.kernel_size = numbers(kernel_size, rank, "kernel_size")
        self.strides = numbers(strides, rank, "strides")
        self.padding = padding_of(padding)
        if self.padding != "valid" and implementation == 1:
            raise ValueError(f"Invalid border mode for {type(self).__name__} (only \"valid\" is supported if implementation is "
                             f"1): {padding}")
        self.data_format = data_format_of(data_format)
        read(self, activation=activation, use_bias=use_bias, kernel_initializer=kernel_initializer,
             bias_initializer=bias_initializer, kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer,
             kernel_constraint=kernel_constraint, bias_constraint=bias_constraint, implementation=implementation)
        self.activity_regularizer = regularizers.get(activity_regularizer)
        self.input_spec = InputSpec(ndim=rank + 2)

    def _first(self) -> bool:
        return self.data_format == "channels_first"

    def build(self, input_shape: Any) -> None:
        """Creates the kernels and the bias."""
        dims = dims_of(input_shape)
        channels = dims[1] if self._first() else dims[-1]
        space = tuple(dims[2:] if self._first() else dims[1:-1])
        if channels is None:
            raise ValueError(f"Axis 2 of input should be fully-defined. Found shape: {tuple(dims)}")
        if None in space:
            raise ValueError(f"The spatial dimensions of the inputs to  a {type(self).__name__} layer should be fully-defined, "
                             f"but layer received the inputs shape {tuple(dims)}")
        self._places: Any = tuple(output_length(d, k, self.padding, s)
                                  for d, k, s in zip(space, self.kernel_size, self.strides))
        self.kernel = self.add_weight(shape=self._kernel_shape(space, channels), initializer=self.kernel_initializer,
                                      name="kernel", regularizer=self.kernel_regularizer, constraint=self.kernel_constraint)
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(shape=(*self._places, self.filters), initializer=self.bias_initializer, name="bias",
                                        regularizer=self.bias_regularizer, constraint=self.bias_constraint)
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={1 if self._first() else -1: channels})
        super().build(input_shape)

    def _kernel_shape(self, space: tuple, channels: int) -> tuple:
        places = int(np.prod(self._places))
        if self.implementation == 1:
            return (places, int(np.prod(self.kernel_size)) * channels, self.filters)
        seen = self._connections(space)
        if self.implementation == 2:
            if self._first():
                self.kernel_mask = seen.reshape((1, *space, 1, *self._places))
                return (channels, *space, self.filters, *self._places)
            self.kernel_mask = seen.reshape((*space, 1, *self._places, 1))
            return (*space, channels, *self._places, self.filters)
        if self.implementation != 3:
            raise ValueError(f"Unrecognized implementation mode: {self.implementation}.")
        grid = seen.reshape(int(np.prod(space)), places).T              # [places, positions]
        wide = grid[None, :, None, :] if self._first() else grid[:, None, :, None]
        n = grid.shape[1]
        full = (self.filters, places, channels, n) if self._first() else (places, self.filters, n, channels)
        matrix = np.broadcast_to(wide, full).reshape(self.filters * places, channels * n)
        self._matrix_shape = matrix.shape
        self.kernel_idxs = np.argwhere(matrix)
        return (len(self.kernel_idxs),)

    def _connections(self, space: tuple) -> Any:
        """Which positions each place sees: a boolean array [positions..., places...]."""
        seen: np.ndarray = np.zeros((*space, *self._places), np.float32)
        for place in itertools.product(*map(range, self._places)):
            window: list[Any] = []
            for p, size, k, s in zip(place, space, self.kernel_size, self.strides):
                left = k // 2
                center = p * s + (left if self.padding == "valid" else 0)
                window.append(slice(max(0, center - left), min(size, center + k - left)))
            seen[(*window, *place)] = 1
        return seen

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the outputs."""
        dims = dims_of(input_shape)
        space = dims[2:] if self._first() else dims[1:-1]
        places = [output_length(d, k, self.padding, s) for d, k, s in zip(space, self.kernel_size, self.strides)]
        return tf.TensorShape([dims[0], self.filters, *places] if self._first() else [dims[0], *places, self.filters])

    def call(self, inputs: Any) -> Any:
        """The convolution, the bias, the activation."""
        if self.implementation == 1:
            output = K.local_conv(inputs, self.kernel, self.kernel_size, self.strides, self._places, self.data_format)
        else:
            shape = dims_of(self.compute_output_shape(inputs.shape))[1:]
            flat = tf.reshape(inputs, [-1, int(np.prod(dims_of(inputs.shape)[1:]))])
            if self.implementation == 2:
                masked = tf.convert_to_tensor(self.kernel) * self.kernel_mask.astype(self.kernel.dtype.as_numpy_dtype)
                product = tf.matmul(flat, tf.reshape(masked, [dims_of(flat.shape)[1], -1]))
            else:
                matrix = tf.SparseTensor(self.kernel_idxs, self.kernel, self._matrix_shape)
                product = tf.transpose(tf.sparse_tensor_dense_matmul(matrix, flat, adjoint_b=True))
            output = tf.reshape(product, [-1, *shape])
        if self.use_bias:
            output = K.bias_add(output, self.bias, data_format=self.data_format)
        return self.activation(output)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return described(self, super().get_config(), (
            "filters", "kernel_size", "strides", "padding", "data_format", "activation", "use_bias", "kernel_initializer",
            "bias_initializer", "kernel_regularizer", "bias_regularizer", "activity_regularizer", "kernel_constraint",
            "bias_constraint", "implementation"))


@export("keras.layers.LocallyConnected1D")
class LocallyConnected1D(_LocallyConnected):
    """A convolution over time with a separate kernel at each place."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: Any = None,
                 activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
                 implementation: int = 1, **kwargs: Any):
        super().__init__(1, **passed(locals()))


@export("keras.layers.LocallyConnected2D")
class LocallyConnected2D(_LocallyConnected):
    """A convolution over images with a separate kernel at each place."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid", data_format: Any = None,
                 activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
                 implementation: int = 1, **kwargs: Any):
        super().__init__(2, **passed(locals()))
