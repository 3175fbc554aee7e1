"""tf.experimental.dtensor on the devices of one process: tensors and variables with a layout over a mesh.

A DTensor is its value, once, and a layout, which says what part of it belongs to which device: `unpack` returns the parts. An
op with a DTensor among its inputs computes the value and the layout of its results (`dtensor_rules.py`), also on tapes and in
functions. So results are those of many devices; memory and time are those of one.
"""
from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.eager.execute import execute
from penstock._src.graph.build import group_inputs
from penstock._src.graph.eager_tensor import EagerTensor
from penstock._src.graph.engine import engine
from penstock._src.kernels import bridge
from penstock._src.kernels.devices.device_config import eager_devices
from penstock._src.models.distribute.dtensor_layout import Layout, Mesh, preferred_device_type
from penstock._src.models.distribute.dtensor_rules import layout_of
from penstock._src.ops.registry import OpDef
from penstock._src.state.checkpoint.saveable import VALUE_KEY
from penstock._src.state.variables.resource import ResourceVariable

SMALL = 256                        # elements of integers and strings that join DTensors as they are


class DTensor(EagerTensor):
    """A tensor with a layout."""

    _layout: Layout

    def numpy(self) -> Any:
        """The value, if each device has all of it."""
        self._check_whole()
        return super().numpy()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self._check_whole()
        return super().__array__(dtype, copy)

    def _check_whole(self) -> None:
        if not self._layout.is_fully_replicated():
            raise errors.UnimplementedError(None, None, "Trying to copy a non-single-device and non-replicated DTensor is not "
                                            f"supported. Unpack it, or relayout it first. Input tensor is: {self!s}")

    def _show(self, form: Any) -> str:
        if self._layout.is_fully_replicated():
            return super()._show(form)
        names = [d.rpartition("device:")[2] for d in self._layout.mesh.local_devices()]
        return "{" + ", ".join(f'"{n}": {form(p.numpy())}' for n, p in zip(names, unpack(self), strict=True)) + "}"

    def __str__(self) -> str:
        return f'tf.Tensor({self._show(str)}, layout="{self._layout.to_string()}", shape={self.shape}, dtype={self.dtype.name})'

    def __repr__(self) -> str:
        return (f'<tf.Tensor: shape={self.shape}, dtype={self.dtype.name}, value={self._show(str)}, '
                f'layout="{self._layout.to_string()}">')


def _with_layout(tensor: EagerTensor, layout: Layout) -> DTensor:
    """A tensor that has the value of another, with a layout that fits it."""
    runner.install()
    layout.local_shape(tensor.shape.as_list())
    result = DTensor(tensor._value, tensor.dtype)
    result._layout = layout
    return result


class _Runner(threading.local):
    """Runs ops on DTensors, before the engine's dispatch to other tasks."""

    inner = False                              # whether an op on DTensors computes its values
    after: Any = None                          # what was there before

    def install(self) -> None:
        """Installs the dispatch when the first DTensor is created."""
        if engine.elsewhere is not take:
            _Runner.after, engine.elsewhere = engine.elsewhere, take

    def computed(self, opdef: OpDef, inputs: list, attrs: dict[str, Any], counts: tuple) -> list:
        """The values of the results."""
        if "f" in attrs:
            values = attrs["f"].call(engine.eager_context(), [t._value for t in inputs])
            return [EagerTensor(v, t.dtype.base_dtype) for v, t in zip(values, attrs["f"].outputs, strict=True)]
        plain: list = [EagerTensor(t._value, t.dtype) for t in inputs]
        self.inner = True
        try:
            out = execute(opdef, tuple(group_inputs(opdef, plain, counts) if counts else plain), attrs, None)
        finally:
            self.inner = False
        return [] if out is None else tf.nest.flatten(out)


runner = _Runner()


def take(opdef: OpDef, inputs: list, attrs: dict[str, Any], counts: tuple) -> list | None:
    """The results of an op with a DTensor, or the handle of a DVariable, among its inputs; None of another one."""
    layouts = [getattr(t, "_layout", None) for t in inputs]
    mesh = next((x.mesh for x in layouts if x is not None), None)
    if mesh is None or runner.inner:
        return runner.after(opdef, inputs, attrs, counts) if runner.after is not None else None
    _check(opdef, inputs, layouts, mesh)
    outputs = runner.computed(opdef, inputs, attrs, counts)
    if "f" in attrs:
        found = _of_function(attrs["f"], layouts, mesh)
        return [t if x is None else _with_layout(t, x) for t, x in zip(outputs, found, strict=True)]
    shapes, values = [tuple(t.shape.as_list()) for t in inputs], [_known(t) for t in inputs]
    return [_with_layout(t, _result(opdef.name, mesh, inputs, layouts, shapes, values, attrs, tuple(t.shape.as_list())))
            for t in outputs]


def _check(opdef: OpDef, inputs: list, layouts: list, mesh: Mesh) -> None:
    """Raises if the inputs have different meshes."""
    for i, (t, layout) in enumerate(zip(inputs, layouts, strict=True)):
        if layout is not None and layout.mesh != mesh:
            raise errors.invalid(f"The inputs of {opdef.name} are on different meshes: {mesh} and {layout.mesh}")
        small = t.dtype in (tf.resource, tf.variant) or t.shape.rank == 0 or \
            not t.dtype.is_floating and t.shape.num_elements() <= SMALL
        if layout is None and not small and "f" not in opdef.attrs:
            raise errors.UnimplementedError(
                None, None, f"The op/function {opdef.name} got a regular tensor for input {i} (shape {t.shape.as_list()}) but "
                "was expecting a DTensor. Use copy_to_mesh to make it one.")
    if opdef.name.startswith("Assign") and layouts[0] is not None and layouts[1] is not None and layouts[0] != layouts[1]:
        raise errors.invalid(f"The variable has the layout {layouts[0]}, which does not change: a value with the layout "
                             f"{layouts[1]} cannot be assigned. Relayout it first.")


def _known(t: Any) -> Any:
    """The value of a small tensor of integers: axes, permutations."""
    return bridge.to_numpy(t._value) if t.dtype in (tf.int32, tf.int64) and t.shape.num_elements() <= SMALL else None


def _result(op_type: str, mesh: Mesh, inputs: list, layouts: list, shapes: list, values: list, attrs: dict[str, Any],
            shape: tuple) -> Layout:
    """The layout of a result; what reads a variable has the variable's."""
    for t, layout in zip(inputs, layouts, strict=True):
        if t.dtype == tf.resource and layout is not None and layout.rank == len(shape):
            return layout
    return layout_of(op_type, mesh, layouts, shapes, values, attrs, shape)


def _of_function(function: Any, layouts: list, mesh: Mesh) -> list[Layout | None]:
    """The layouts of the results of a function, op by op."""
    found: dict[Any, Layout | None] = dict(zip(map(id, function.inputs), layouts, strict=True))
    for op in function.graph.get_operations():
        given = [found.get(id(t)) for t in op.inputs]
        shapes = [t.static_dims for t in op.inputs]
        for t in op.outputs:
            if id(t) in found or t.dtype in (tf.resource, tf.variant):
                continue
            dims = t.static_dims
            if not any(x is not None for x in given):
                continue
            if dims is None or None in dims or any(s is None or None in s for s in shapes):
                found[id(t)] = None if dims is None else Layout.replicated(mesh, len(dims))
                continue
            values = [tf.get_static_value(i) for i in op.inputs]
            found[id(t)] = _result(op.type, mesh, list(op.inputs), given, shapes, values, op.attrs, tuple(dims))
    return [found.get(id(t)) or Layout.replicated(mesh, len(t.static_dims or ())) for t in function.outputs]


def layout_or_none(tensor: Any) -> Layout | None:
    """The layout of a DTensor or DVariable."""
    return getattr(tensor.handle if isinstance(tensor, DVariable) else tensor, "_layout", None)


@export(v2=["experimental.dtensor.DVariable"])
class DVariable(ResourceVariable):
    """A variable with a layout, which is that of its initial value and does not change."""

    def __init__(self, initial_value: Any, *args: Any, dtype: Any = None, **kwargs: Any):
        value = initial_value() if callable(initial_value) else initial_value
        if not isinstance(value, DTensor):
            raise ValueError("The initial value of a DVariable is a DTensor, or a function that returns one: make it one by "
                             "copy_to_mesh or call_with_layout.")
        value = value if dtype is None else tf.cast(value, dtype)
        super().__init__(EagerTensor(value._value, value.dtype), *args, **kwargs)
        self.handle._layout = value._layout

    layout = property(lambda self: self.handle._layout, doc="The layout.")
    saved_by: Any = None                           # what makes a SaveableObject of it, if not its value is saved

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        if self.saved_by is None:
            return super()._gather_saveables_for_checkpoint()
        return {VALUE_KEY: functools.partial(self.saved_by, self)}

    def __repr__(self) -> str:
        value = self.read_value()
        return (f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}, value={value._show(str)}, "
                f'layout="{self.layout.to_string()}">')


@export(v2=["experimental.dtensor.fetch_layout"])
def fetch_layout(tensor: Any) -> Layout:
    """The layout of a DTensor or DVariable."""
    found = layout_or_none(tensor)
    if found is None:
        raise errors.invalid("FetchLayout expects a DTensor or a DVariable.")
    return found


@export(v2=["experimental.dtensor.is_dtensor"])
def is_dtensor(tensor: Any) -> bool:
    """Whether a value is a DTensor."""
    return layout_or_none(tensor) is not None


@export(v2=["experimental.dtensor.check_layout"])
def check_layout(tensor: Any, layout: Layout) -> None:
    """Raises ValueError if a DTensor has another layout."""
    if fetch_layout(tensor) != layout:
        raise ValueError(f"The layout of the tensor is {fetch_layout(tensor)}, expected {layout}")


@export(v2=["experimental.dtensor.copy_to_mesh"])
def copy_to_mesh(tensor: Any, layout: Layout, source_layout: Layout | None = None) -> DTensor:
    """A DTensor of a tensor, or on another mesh."""
    value = tf.convert_to_tensor(tensor)
    copied = tf.identity(value)
    return _retyped(copied, Layout.replicated(layout.mesh, copied.shape.rank) if layout.rank != copied.shape.rank else layout)


def _retyped(tensor: Any, layout: Layout) -> DTensor:
    """The result of an op that was just run, which tapes know, with another layout."""
    if not isinstance(tensor, DTensor):
        runner.install()
        tensor.__class__ = DTensor
    layout.local_shape(tensor.shape.as_list())
    tensor._layout = layout
    return tensor


@export(v2=["experimental.dtensor.relayout"])
def relayout(tensor: Any, layout: Layout, name: str | None = None) -> DTensor:
    """A DTensor with the same value and another layout; MATCH keeps that of an axis.

    >>> tf.experimental.dtensor.relayout(x, Layout(["x", UNSHARDED], mesh))
    """
    return copy_to_mesh(tensor, layout)


@export(v2=["experimental.dtensor.relayout_like"])
def relayout_like(tensor: Any, layout_tensor: Any, name: str | None = None) -> DTensor:
    """A DTensor with the layout of another."""
    return copy_to_mesh(tensor, fetch_layout(layout_tensor))


@export(v2=["experimental.dtensor.unpack"])
def unpack(tensor: Any) -> list[EagerTensor]:
    """The parts of a DTensor, one for each device."""
    layout, devices = fetch_layout(tensor), eager_devices().by_name
    value = tensor.read_value()._value if isinstance(tensor, DVariable) else tensor._value
    parts = []
    for name, part in zip(layout.mesh.local_devices(), layout.parts(tensor.shape.as_list()), strict=True):
        local = EagerTensor(value[part] if part else value, tensor.dtype)
        local._on = devices.get(name)
        parts.append(local)
    return parts


@export(v2=["experimental.dtensor.pack"])
def pack(tensors: Any, layout: Layout) -> DTensor:
    """A DTensor of its parts, one for each device; parts that several devices have must be equal."""
    parts = [tf.convert_to_tensor(t) for t in tensors]
    if len(parts) != layout.mesh.size:
        raise errors.invalid(f"The mesh has {layout.mesh.size} devices: expected as many inputs to pack, but got {len(parts)}")
    shape = layout.global_shape_from_local_shape(parts[0].shape.as_list())
    whole = np.empty(shape, parts[0].dtype.as_numpy_dtype)
    for at, part in zip(layout.parts(shape), parts, strict=True):
        if part.shape != parts[0].shape or part.dtype != parts[0].dtype:
            raise errors.invalid(f"The parts of a DTensor must have the same shape and dtype, got {parts[0].shape} and "
                                 f"{part.shape}")
        whole[at] = np.asarray(part)
    return _with_layout(tf.convert_to_tensor(whole), layout)


@export(v2=["experimental.dtensor.call_with_layout"])
def call_with_layout(fn: Any, layout: Layout | None, *args: Any, **kwargs: Any) -> Any:
    """Calls a function, and sets the layout of its results.

    Args:
        fn: Function that returns tensors, such as `tf.ones`.
        layout: The layout of the results; None calls the function as it is.
        *args: Arguments of the function.
        **kwargs: Arguments of the function.

    Returns:
        What the function returns, with DTensors for tensors.

    >>> ones = tf.experimental.dtensor.call_with_layout(tf.ones, Layout(["x", "y"], mesh), shape=(6, 4))
    """
    result = fn(*args, **kwargs)
    return result if layout is None else tf.nest.map_structure(lambda t: copy_to_mesh(t, layout), result)


_meshes: list[Mesh] = []


@export(v2=["experimental.dtensor.get_default_mesh"])
def get_default_mesh() -> Mesh | None:
    """The mesh of the innermost `default_mesh` block."""
    return _meshes[-1] if _meshes else None


@export(v2=["experimental.dtensor.default_mesh", "experimental.dtensor.run_on"])
@contextlib.contextmanager
def default_mesh(mesh: Any) -> Iterator[None]:
    """A block with a default mesh: that of layouts that are inferred."""
    _meshes.append(mesh)
    try:
        yield
    finally:
        _meshes.pop()


@export(v2=["experimental.dtensor.barrier"])
def barrier(mesh: Mesh, barrier_name: str | None = None, timeout_in_ms: int | None = None) -> None:
    """Waits for the other clients, of which there are none."""


@export(v2=["experimental.dtensor.initialize_accelerator_system", "experimental.dtensor.initialize_multi_client"])
def initialize_accelerator_system(device_type: str | None = None, enable_coordination_service: bool | None = True,
                                  num_logical_cpu_devices: int | None = None, experimental_reset_context: bool | None = False,
                                  experimental_enable_megcore: bool | None = False) -> str:
    """Prepares the devices: with a number, so many logical CPUs. Returns the type of devices."""
    if num_logical_cpu_devices is not None:
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                                   [tf.config.LogicalDeviceConfiguration()] * num_logical_cpu_devices)
    return device_type or preferred_device_type()


@export(v2=["experimental.dtensor.shutdown_accelerator_system"])
def shutdown_accelerator_system() -> None:
    """Releases the devices: they stay, as they belong to the process."""


@export(v2=["experimental.dtensor.DTensorDataset"])
class DTensorDataset:
    """A dataset whose batches are DTensors: an iterable over structures of them."""

    def __init__(self, dataset: Any, *, mesh: Mesh, layouts: Any, global_batch_size: int, dataset_already_batched: bool = False,
                 batch_dim: str | None = None, prefetch: int | None = None, tf_data_service_config: Any = None):
        batched = dataset if dataset_already_batched else dataset.batch(global_batch_size, drop_remainder=True)
        self._dataset, self._layouts = batched if prefetch is None else batched.prefetch(prefetch), layouts

    def __len__(self) -> int:
        return len(self._dataset)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._dataset:
            yield tf.nest.map_structure(copy_to_mesh, batch, self._layouts)
