"""Tensor parallelism: each device has a part of the weights and computes a part of the result; then the parts are exchanged.

A dense layer can be cut by columns (each device computes some of the outputs from all inputs: outputs are put side by side) or
by rows (each device takes some of the inputs: outputs are added up). A cut by columns followed by one by rows needs no exchange
in between: `gather_output=False` returns the parts, and the second layer takes them as they are.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import device
from penstock._src.models.keras import activations, initializers
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.ops.math.matmul import matmul, tensordot
from penstock._src.ops.registry import get


def shares(total: int, parts: int) -> list[int]:
    """How many of `total` each part gets: the same number, or one more for the first ones."""
    if not 0 < parts <= total:
        raise ValueError(f"{total} cannot be cut into {parts} parts.")
    return [total // parts + (i < total % parts) for i in range(parts)]


class _Parallel(Layer):
    """A layer whose weights are on several devices."""

    def __init__(self, devices: Sequence[str], **kwargs: Any):
        super().__init__(**kwargs)
        self.devices = list(devices)
        self.kernels: list[Any] = []

    def _weights_on_devices(self, name: str, shapes: list, initializer: Any) -> list:
        made = []
        for i, (where, shape) in enumerate(zip(self.devices, shapes, strict=True)):
            with device(where):
                made.append(self.add_weight(name=f"{name}_{i}", shape=shape, initializer=initializer))
        return made


class _ParallelDense(_Parallel):
    """The base of both parallel dense layers."""

    def __init__(self, units: int, devices: Sequence[str], activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", **kwargs: Any):
        super().__init__(devices, **kwargs)
        self.units, self.use_bias = units, use_bias
        self.activation = activations.get(activation)
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "units": self.units, "devices": self.devices, "use_bias": self.use_bias,
                "activation": activations.serialize(self.activation),
                "kernel_initializer": initializers.serialize(self.kernel_initializer),
                "bias_initializer": initializers.serialize(self.bias_initializer)}


@export("distribute.experimental.ColumnParallelDense")
class ColumnParallelDense(_ParallelDense):
    """A dense layer cut by columns: each device computes some of the units.

    >>> y = ColumnParallelDense(4096, ["/gpu:0", "/gpu:1"], activation="relu", gather_output=False)(x)
    """

    def __init__(self, units: int, devices: Sequence[str], gather_output: bool = True, **kwargs: Any):
        super().__init__(units, devices, **kwargs)
        self.gather_output = gather_output

    def build(self, input_shape: Any) -> None:
        """Creates the parts of the weights."""
        width, sizes = input_shape[-1], shares(self.units, len(self.devices))
        self.kernels = self._weights_on_devices("kernel", [(width, n) for n in sizes], self.kernel_initializer)
        self.biases = self._weights_on_devices("bias", [(n,) for n in sizes], self.bias_initializer) if self.use_bias else None
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """Some outputs on each device; all of them side by side, or a list."""
        parts = []
        for i, where in enumerate(self.devices):
            with device(where):
                y = _product(get("Identity")(inputs), self.kernels[i])
                parts.append(self.activation(y if self.biases is None else get("BiasAdd")(y, self.biases[i])))
        return get("ConcatV2")(parts, -1) if self.gather_output else parts

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "gather_output": self.gather_output}


@export("distribute.experimental.RowParallelDense")
class RowParallelDense(_ParallelDense):
    """A dense layer cut by rows: each device has the weights of some inputs; what they return is added up.

    Takes a tensor, or the list that ColumnParallelDense returns.
    """

    def build(self, input_shape: Any) -> None:
        """Creates the parts of the weights."""
        self._sizes = [int(s[-1]) for s in input_shape] if isinstance(input_shape, list) else \
            shares(int(input_shape[-1]), len(self.devices))
        if len(self._sizes) != len(self.devices):
            raise ValueError(f"{self.name} has {len(self.devices)} devices, but was given {len(self._sizes)} parts.")
        whole = sum(self._sizes)
        initial = _RowsOf(self.kernel_initializer, whole, self._sizes, self.units)
        self.kernels = [self._part(i, n, initial) for i, n in enumerate(self._sizes)]
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer=self.bias_initializer) \
            if self.use_bias else None
        super().build(input_shape)

    def _part(self, i: int, rows: int, initial: _RowsOf) -> Any:
        with device(self.devices[i]):
            return self.add_weight(name=f"kernel_{i}", shape=(rows, self.units), initializer=initial.part(i))

    def call(self, inputs: Any) -> Any:
        """The sum of the devices' results."""
        given = inputs if isinstance(inputs, (list, tuple)) else \
            get("SplitV")(inputs, self._sizes, -1, num_split=len(self._sizes))
        parts = []
        for i, where in enumerate(self.devices):
            with device(where):
                parts.append(_product(get("Identity")(given[i]), self.kernels[i]))
        y = get("AddN")(parts)
        return self.activation(y if self.bias is None else get("BiasAdd")(y, self.bias))


class _RowsOf:
    """Initial values of the parts of a matrix, scaled as those of the whole: fans count all rows."""

    def __init__(self, initializer: Any, rows: int, sizes: list[int], units: int):
        self._initializer, self._rows, self._sizes, self._units = initializer, rows, sizes, units

    def part(self, i: int) -> Any:
        """The initializer of one part."""
        begin = sum(self._sizes[:i])

        def initial(shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
            whole = self._initializer((self._rows, self._units), dtype=dtype)
            return whole[begin:begin + self._sizes[i]]
        return initial


@export("distribute.experimental.VocabularyParallelEmbedding")
class VocabularyParallelEmbedding(_Parallel):
    """An embedding whose rows are spread over devices, in consecutive ranges.

    >>> vectors = VocabularyParallelEmbedding(50000, 512, ["/gpu:0", "/gpu:1"])(ids)
    """

    def __init__(self, input_dim: int, output_dim: int, devices: Sequence[str], embeddings_initializer: Any = "uniform",
                 **kwargs: Any):
        super().__init__(devices, **kwargs)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.embeddings_initializer = initializers.get(embeddings_initializer)

    def build(self, input_shape: Any) -> None:
        """Creates the parts of the table."""
        self._sizes = shares(self.input_dim, len(self.devices))
        self.kernels = self._weights_on_devices("embeddings", [(n, self.output_dim) for n in self._sizes],
                                                self.embeddings_initializer)
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """Each device looks up the ids in its range, and returns zeros for others; the sum is the result."""
        ids = convert(inputs)
        ids = ids if ids.dtype.is_integer else get("Cast")(ids, DstT="int32")
        parts, begin = [], 0
        for where, table, size in zip(self.devices, self.kernels, self._sizes):
            with device(where):
                own = get("Identity")(ids) - begin
                inside = get("LogicalAnd")(get("GreaterEqual")(own, 0), get("Less")(own, size))
                rows = table.sparse_read(get("SelectV2")(inside, own, get("ZerosLike")(own)))
                parts.append(rows * get("ExpandDims")(get("Cast")(inside, DstT=table.dtype), -1))
            begin += size
        return get("AddN")(parts)

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "input_dim": self.input_dim, "output_dim": self.output_dim, "devices": self.devices,
                "embeddings_initializer": initializers.serialize(self.embeddings_initializer)}


def _product(x: Any, kernel: Any) -> Any:
    return matmul(x, kernel) if x.shape.rank == 2 else tensordot(x, kernel, 1)
