"""Kernels on devices: moves the inputs of a kernel to the memory it reads, and its results to its device.

Between partitions, sends and receives move values. Within a partition, inputs that are shapes and axes stay on the host, as do
int32 computations and comparisons whose inputs are all on the host (TensorFlow also keeps shape arithmetic on the host, so that
no loop counter waits for the GPU), and values that a kernel creates without inputs are put on the device. Inside functions, and
where control flow spans devices, this module also moves values between devices.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from penstock._src.base import dtypes, tracing
from penstock._src.kernels import draws
from penstock._src.kernels.devices.cpu import to_host
from penstock._src.kernels.devices.device import Device
from penstock._src.ops import rules
from penstock._src.ops.registry import OpDef
from penstock._src.step.ir import Node, Value

_HOST_KINDS = (dtypes.int32, dtypes.string, dtypes.resource, dtypes.variant)
_COUNTS = (dtypes.int32, dtypes.bool)
_MANY = 1024                 # booleans that no host computation needs


def adapted(bound: Callable, op: Node, placed: dict[Node, Device], fed: set[int]) -> Callable:
    """`bound`, a kernel with its attributes, wrapped for the device of `op`."""
    device = placed[op]
    opdef = op.opdef
    if opdef.calls or opdef.control_flow:
        return bound                                # functions place their own ops; control flow forwards values
    if device.host and all(_on_host(t, placed) for t in op.inputs):
        return bound
    arguments = _arguments(opdef, op.counts, op.inputs)
    host = _host_positions(opdef, [(n, [t.dtype for t in ts]) for n, ts in arguments])
    if op.inputs and not host and all(_on_device(t, placed, device) for t in op.inputs):
        return bound
    constants = frozenset(i for i, (_, ts) in enumerate(arguments) if all(_is_constant(t, fed) for t in ts))
    if not device.host and opdef in rules.algebra.elementwise and len(op.inputs) == 2 and len(constants) == 1:
        at = min(constants)
        t, other = op.inputs[at], op.inputs[1 - at]
        if t.op.opdef.constant and t.static_dims == () and other.dtype.is_floating and _on_device(other, placed, device):
            return _with_number(bound, at, torch.tensor(float(t.op.attrs["value"]), dtype=t.dtype.torch), device)
    return loosely(bound, opdef, device, [t.dtype for t in op.inputs], op.counts, [t.dtype for t in op.outputs], constants)


def loosely(bound: Callable, opdef: OpDef, device: Device, inputs: list, counts: tuple, outputs: list,
            constants: frozenset = frozenset()) -> Callable:
    """The same where only the types of the inputs are known, not their devices."""
    if opdef.calls or opdef.control_flow:
        return bound
    if device.host:
        return lambda *args, **kw: bound(*[_each(to_host, a) for a in args], **kw)
    arguments = _arguments(opdef, counts, inputs)
    host = _host_positions(opdef, arguments)
    data = [t.base_dtype for i, (_, ts) in enumerate(arguments) if i not in host for t in ts]
    if not data and all(t.base_dtype == dtypes.int32 for t in outputs):
        return lambda *args, **kw: bound(*[_each(to_host, a) for a in args], **kw)
    if not data:
        return _making(bound, device)
    if all(t.base_dtype in _HOST_KINDS for t in (*data, *outputs)) or all(t in _COUNTS for t in (*data, *outputs)):
        near = _where_inputs_are(bound, host, device)
        repeated = rules.arithmetic.repeats.get(opdef)
        return near if repeated is None else _where_it_fits(near, _moving(bound, host, constants, device), repeated)
    return _moving(bound, host, constants, device)


def _arguments(opdef: OpDef, counts: tuple, values: Sequence) -> list[tuple[str, Sequence]]:
    """(name, the values of one declared input) in order."""
    out, i = [], 0
    for arg, count in zip(opdef.inputs, counts or (None,) * len(opdef.inputs), strict=True):
        step = 1 if count is None else count
        out.append((arg.name, values[i:i + step]))
        i += step
    return out


def _host_positions(opdef: OpDef, arguments: list[tuple[str, Sequence]]) -> frozenset:
    """Which inputs the kernel reads on the host."""
    return frozenset(i for i, (name, types) in enumerate(arguments)
                     if name in opdef.host_inputs and all(t.is_integer for t in types))


def _on_host(t: Value, placed: dict[Node, Device]) -> bool:
    """Whether a value is known to be in host memory. The arguments of a function may be on any device."""
    if t.dtype.base_dtype == dtypes.string:
        return True
    maker = placed.get(t.op)
    return maker is not None and maker.host and not t.op.opdef.control_flow and not t.op.opdef.calls \
        and t.op.opdef not in rules.devices.anywhere and not _of_argument(t.op, placed)


def _on_device(t: Value, placed: dict[Node, Device], device: Device) -> bool:
    """Whether a value is known to be on a device: floating-point results of its kernels are."""
    kind = t.dtype.base_dtype
    return placed.get(t.op) is device and (kind.is_floating or kind.is_complex) and bool(t.op.inputs) \
        and not t.op.opdef.control_flow and not t.op.opdef.calls and not t.dtype._is_ref_dtype \
        and not _of_argument(t.op, placed)


def stays_on_device(t: Value, op: Node, placed: dict[Node, Device]) -> bool:
    """Whether an op may overwrite a value on its device: no stream of another device may still be reading it."""
    device = placed[op]
    return not device.host and _on_device(t, placed, device) and all(d is device or d.host for d in placed.values())


def _of_argument(op: Node, placed: dict[Node, Device]) -> bool:
    """Whether an op reads a resource that is an argument of a function: the value is on the variable's device."""
    return any(t.dtype.base_dtype == dtypes.resource and (t.op not in placed or t.op.opdef in rules.devices.anywhere)
               for t in op.inputs)


def _is_constant(t: Value, fed: set[int]) -> bool:
    return id(t) not in fed and not t.op.inputs and \
        (t.op.opdef.foldable or t.op.opdef in rules.devices.anywhere and t.dtype.base_dtype != dtypes.resource)


def _each(move: Callable, value: Any) -> Any:
    return [move(v) for v in value] if type(value) is list else move(value)


def _put(value: Any, device: Device) -> Any:
    """A created value on its device; int32 and boolean scalars stay on the host."""
    return device.put(value) if isinstance(value, torch.Tensor) and value.dtype is not torch.int32 and \
        (value.ndim or value.dtype is not torch.bool) else value


def _making(bound: Callable, device: Device) -> Callable:
    """For kernels without inputs on the device: their results are moved to it."""
    def call(*args: Any, **kw: Any) -> Any:
        with draws.made_on(device.torch):
            out = bound(*[_each(to_host, a) for a in args], **kw)
        if isinstance(out, (tuple, list)):
            return type(out)([_each(lambda v: _put(v, device), o) for o in out])
        return _put(out, device)
    return call


def _where_inputs_are(bound: Callable, host: frozenset, device: Device) -> Callable:
    """For kernels over int32 and booleans: on the device if an input is there, else on the host."""
    def there(value: Any) -> bool:
        held = value if isinstance(value, torch.Tensor) else getattr(value, "value", None)           # of a variable
        return isinstance(held, torch.Tensor) and not held.is_cpu

    def call(*args: Any, **kw: Any) -> Any:
        data = [a for i, a in enumerate(args) if i not in host]
        if any(any(map(there, a)) if type(a) is list else there(a) for a in data):
            return bound(*[_each(to_host if i in host else device.put, a) for i, a in enumerate(args)], **kw)
        return bound(*[_each(to_host, a) for a in args], **kw)
    return call


def _where_it_fits(near: Callable, there: Callable, repeated: int) -> Callable:
    """For kernels that repeat a value to a shape: many booleans are created on the device, which is where a mask is used."""
    def call(*args: Any, **kw: Any) -> Any:
        value, dims = args[repeated], args[1 - repeated]
        large = isinstance(value, torch.Tensor) and value.dtype is torch.bool and int(to_host(dims).prod()) > _MANY
        return (there if large else near)(*args, **kw)
    return call


def _with_number(bound: Callable, at: int, number: torch.Tensor, device: Device) -> Callable:
    """For elementwise kernels of a tensor and a constant number, which stays on the host: they take it as an argument, where
    one on the device would be read for every element. Compilers get it on the device."""
    def call(*args: Any, **kw: Any) -> Any:
        given = device.put(args[at]) if tracing.lowering() else number
        return bound(given, args[1], **kw) if at == 0 else bound(args[0], given, **kw)
    return call


def _moving(bound: Callable, host: frozenset, constants: frozenset, device: Device) -> Callable:
    """For all other kernels: each input is moved to the memory that the kernel reads; constants only once."""
    kept: dict[int, Any] = {}

    def move(i: int, value: Any) -> Any:
        if i in kept:
            return kept[i]
        value = _each(to_host if i in host else device.put, value)
        if i in constants:
            kept[i] = value
        return value
    return lambda *args, **kw: bound(*[move(i, a) for i, a in enumerate(args)], **kw)
