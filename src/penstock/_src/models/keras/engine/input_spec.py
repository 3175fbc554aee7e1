"""InputSpec: the inputs that a layer accepts, and the check of inputs against it."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import LazyModule, export
from penstock._src.base.dtypes import as_dtype
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.type_spec import TensorSpec

backend = LazyModule("penstock._src.models.keras.backend")


@export("keras.layers.InputSpec", "keras.InputSpec", v1=["layers.InputSpec"])
class InputSpec:
    """Dtype, rank and dimensions of an input; a layer that has one refuses inputs that differ.

    >>> layer.input_spec = InputSpec(min_ndim=2, axes={-1: 3})
    """

    def __init__(self, dtype: Any = None, shape: Any = None, ndim: int | None = None, max_ndim: int | None = None,
                 min_ndim: int | None = None, axes: dict | None = None, allow_last_axis_squeeze: bool = False,
                 name: str | None = None, optional: bool = False):
        self.dtype = as_dtype(dtype).name if dtype is not None else None
        self.shape = shape
        self.ndim = len(shape) if shape is not None else ndim
        self.max_ndim, self.min_ndim, self.name = max_ndim, min_ndim, name
        self.allow_last_axis_squeeze, self.optional = allow_last_axis_squeeze, optional
        if axes is not None and not isinstance(axes, dict) and context.eager_outside_functions():
            raise TypeError(f"Argument `axes` must be a dict. Received: {axes} of type {type(axes)}")
        try:
            self.axes = {int(k): v for k, v in (axes or {}).items()}
        except (ValueError, TypeError, AttributeError):
            raise TypeError("The keys in axes must be integers.") from None
        highest = self.ndim if self.ndim is not None else self.max_ndim
        if self.axes and highest is not None and max(self.axes) > highest - 1:
            raise ValueError(f"Axis {max(self.axes)} is greater than the maximum allowed value: {highest - 1}")

    def __repr__(self) -> str:
        fields = ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes")
        return f"InputSpec({', '.join(f'{f}={getattr(self, f)}' for f in fields if getattr(self, f))})"

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate it."""
        return {f: getattr(self, f) for f in ("dtype", "shape", "ndim", "max_ndim", "min_ndim", "axes")}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> InputSpec:
        """An InputSpec from its config."""
        return cls(**config)


def to_tensor_shape(spec: InputSpec) -> TensorShape:
    """The shape that a spec describes; unspecified dimensions are unknown."""
    if spec.shape is not None:
        return TensorShape(spec.shape)
    if spec.ndim is None:
        return TensorShape(None)
    return TensorShape([spec.axes.get(a, spec.axes.get(a - spec.ndim)) for a in range(spec.ndim)])


def to_tensor_spec(spec: Any, default_dtype: Any = None) -> TensorSpec:
    """The TensorSpec that a spec describes."""
    default_dtype = default_dtype or backend.floatx()
    if isinstance(spec, InputSpec):
        return TensorSpec(to_tensor_shape(spec), spec.dtype or default_dtype)
    return TensorSpec(None, default_dtype)


def assert_input_compatibility(input_spec: Any, inputs: Any, layer_name: str) -> None:
    """ValueError, with the layer's name and both shapes, if inputs are not what the layer accepts."""
    if not input_spec:
        return
    flat, specs = nest.flatten(inputs), nest.flatten(input_spec)
    for x in flat:
        if not hasattr(x, "shape"):
            raise TypeError(f"Inputs to a layer should be tensors. Got '{x}' (of type {type(x)}) as input for layer "
                            f"'{layer_name}'.")
    if len(flat) != len(specs):
        raise ValueError(f"Layer {quoted(layer_name)} expects {counted(len(specs))}, but it received {len(flat)} input "
                         f"tensors. Inputs received: {flat}")
    for i, (x, spec) in enumerate(zip(flat, specs, strict=True)):
        if spec is not None:
            _check(i, x, spec, layer_name)


def counted(n: int) -> str:
    """A number of inputs as messages have it."""
    return f"{n} {'input(s)' if context.eager_outside_functions() else 'inputs'}"


def check_dimensions(i: int, found: list, wanted: list, layer_name: str) -> None:
    """ValueError if the i-th input of a model has other dimensions than declared. A last one of 1 may be absent."""
    wanted = [None, *wanted[1:]]
    cut = [dims[:-1] if dims and dims[-1] == 1 else dims for dims in (found, wanted)]
    if any(a is not None and b is not None and a != b for a, b in zip(*cut)):
        raise ValueError(f"Input {i} of layer {quoted(layer_name)} is incompatible with the layer: expected "
                         f"shape={tuple(wanted)}, found shape={tuple(found)}{advice(tuple(found), tuple(wanted[1:]))}")


def advice(found: tuple, wanted: tuple) -> str:
    """What a shape that does not fit suggests."""
    if found == wanted or found == (*wanted, 1):
        return f". The data of shape {found} look like one example: batch the dataset, or add an axis for the batch"
    if len(wanted) >= 3 and sorted(map(str, found[1:])) == sorted(map(str, wanted)):
        return ". The axes are in another order: see tf.transpose, or the layer's `data_format`"
    return ""


def quoted(name: str) -> str:
    """A layer's name as messages have it: in quotes, in 2.x."""
    return f'"{name}"' if context.eager_outside_functions() else name


def _check(i: int, x: Any, spec: InputSpec, layer_name: str) -> None:
    newer = context.eager_outside_functions()
    what = f"Input {i} of layer {quoted(layer_name)} is incompatible with the layer: "
    shape = x.shape if isinstance(x.shape, TensorShape) else TensorShape(x.shape)
    rank = shape.rank
    if rank is None:
        if spec.ndim is not None or spec.min_ndim is not None or spec.max_ndim is not None:
            raise ValueError(what + "its rank is undefined, but the layer requires a defined rank.")
        return
    dims = shape.as_list()
    full = f"Full shape received: {tuple(dims) if newer else dims}"
    if spec.ndim is not None and rank != spec.ndim and not _squeezable(spec, dims):
        raise ValueError(what + f"expected ndim={spec.ndim}, found ndim={rank}. {full}")
    if spec.max_ndim is not None and rank > spec.max_ndim:
        raise ValueError(what + f"expected max_ndim={spec.max_ndim}, found ndim={rank}")
    if spec.min_ndim is not None and rank < spec.min_ndim:
        raise ValueError(what + f"{'' if newer else ': '}expected min_ndim={spec.min_ndim}, found ndim={rank}. {full}")
    if spec.dtype is not None and x.dtype != spec.dtype:
        raise ValueError(what + f"expected dtype={spec.dtype}, found dtype={x.dtype}")
    for axis, value in spec.axes.items():
        value = getattr(value, "value", value)
        if value is not None and dims[axis] not in (value, None):
            raise ValueError(what + f"expected axis {axis} of input shape to have value {value}{',' if newer else ''} but "
                             f"received input with shape {tuple(dims) if newer else dims}")
    if spec.shape is not None:
        for wanted, found in zip(spec.shape, dims):
            if wanted is not None and found is not None and wanted != found:
                raise ValueError(f"Input {i}{f' of layer {quoted(layer_name)}' if newer else ''} is incompatible with "
                                 f"{'the layer' if newer else f'layer {layer_name}'}: expected shape={spec.shape}, found "
                                 f"shape={tuple(dims) if newer else dims}")


def _squeezable(spec: InputSpec, dims: list) -> bool:
    """Whether the shapes differ only in a last dimension of one, which the layer accepts."""
    return spec.allow_last_axis_squeeze and spec.shape is not None and (
        len(dims) == len(spec.shape) + 1 and dims[-1] == 1 or len(dims) + 1 == len(spec.shape) and spec.shape[-1] == 1)
