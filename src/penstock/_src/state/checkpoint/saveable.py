"""SaveableObjects: created from variables, parts of partitioned variables, tables and other objects.

A SaveableObject has specs, each a tensor and its name in the checkpoint, and a method that assigns restored tensors.
"""
from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import device
from penstock._src.kernels.devices.device_spec import DeviceSpecV2
from penstock._src.ops.core import identity
from penstock._src.ops.registry import get
from penstock._src.state.variables.partitioned import PartitionedVariable
from penstock._src.state.variables.reference import RefVariable
from penstock._src.state.variables.resource import BaseResourceVariable
from penstock._src.state.variables.variable import Variable

VALUE_KEY = "VARIABLE_VALUE"
_REFERENCES = ("Variable", "VariableV2", "AutoReloadVariable")


def set_cpu0(device_string: str) -> str:
    """A device string with the CPU instead of its device."""
    return DeviceSpecV2.from_string(device_string or "").replace(device_type="CPU", device_index=0).to_string()


class SaveSpec:
    """A tensor to save: a tensor or a function that returns it, the slice of a larger tensor, and its name."""

    def __init__(self, tensor: Any, slice_spec: str, name: str, dtype: Any = None, device: str | None = None):
        self._tensor, self.slice_spec, self.name = tensor, slice_spec, name
        if callable(tensor):
            if dtype is None or device is None:
                raise AssertionError("When passing a callable `tensor` to a SaveSpec, an explicit dtype and device must be "
                                     "provided.")
            self.dtype, self.device = dtype, device
        else:
            self.dtype = tensor.dtype
            self.device = tensor.device if device is None else device

    @property
    def tensor(self) -> Any:
        """The tensor; created now if it was given as a function."""
        return self._tensor() if callable(self._tensor) else self._tensor


class SaveableObject:
    """An object that is saved as one or more tensors. Subclasses define `restore`.

    One that reads the checkpoint itself defines `restore_from(prefix)` instead of it: it returns the op that does. One with
    files of its own beside the checkpoint defines `save_beside(prefix)`: it returns the op that writes them; `beside` tells
    which files these are.
    """

    def __init__(self, op: Any, specs: list[SaveSpec], name: str):
        self.op, self.specs, self.name = op, specs, name

    @property
    def optional_restore(self) -> bool:
        """Whether a restore may pass over it when the checkpoint does not have it."""
        return False

    @property
    def device(self) -> str:
        """The device of its tensors."""
        return self.specs[0].device

    def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
        """Ops that assign the restored tensors; `restored_shapes` to reshape them to, or None."""
        raise ValueError("Calling an abstract method.")


def saved_beside(saveables: list, prefix: Any) -> list:
    """The ops that write what saveables have beside a checkpoint; nothing is left to do in eager mode."""
    own = [s for s in saveables if hasattr(s, "save_beside")]
    for s in own:
        if any(s.beside == other.beside and s is not other for other in own):
            raise ValueError(f"Two variables would be saved in the same files, because both are named {s.op.name}: give them, "
                             "or their layers, different names.")
    done = [s.save_beside(prefix) for s in own]
    return [op for op in done if op is not None]


class _OwnTensors:
    """The result of an object's `_serialize_to_tensors`; all parts are restored together, with the last one."""

    def __init__(self, obj: Any):
        self._object = obj
        self._parts: dict[str, _OwnTensor] = {}
        self._restored: dict[str, Any] = {}
        self.tensors: dict[str, Any] = obj._serialize_to_tensors()

    def part(self, attribute: str, name: str) -> _OwnTensor:
        """The saveable of one attribute, with the key it is saved under."""
        made = self._parts[attribute] = _OwnTensor(self, attribute, self.tensors[attribute], name)
        made.full_name = getattr(self._object, "_shared_name", "")
        return made

    def collect(self, attribute: str, value: Any) -> Any:
        """Stores a restored value; after the last one, restores the object."""
        self._restored[attribute] = value
        if len(self._restored) < len(self._parts):
            return None if context.executing_eagerly() else get("NoOp")()
        restored, self._restored = self._restored, {}
        return self._object._restore_from_tensors(restored)


class _OwnTensor(SaveableObject):
    """One tensor of an object: whole, or as a dictionary of its slices."""

    full_name = ""

    def __init__(self, group: _OwnTensors, attribute: str, value: Any, name: str):
        self._group, self._attribute = group, attribute
        self._slices = list(value) if isinstance(value, dict) else None
        specs = [v if isinstance(v, SaveSpec) else SaveSpec(v, part, name)
                 for part, v in (value if isinstance(value, dict) else {"": value}).items()]
        super().__init__(self, specs, name)

    def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
        """Adds the tensors to those of the object."""
        value = restored_tensors[0] if self._slices is None else dict(zip(self._slices, restored_tensors, strict=True))
        return self._group.collect(self._attribute, value)


def saved_values(obj: Any, cache: dict | None = None) -> dict[str, Any]:
    """The saveables of an object: by attribute, a saveable, a variable, or a function from a name to one.

    If the class defines both `_serialize_to_tensors` and `_gather_saveables_for_checkpoint`, the newer one is used. `cache` has
    earlier results by the id of an object.
    """
    for cls in type(obj).__mro__:
        if "_gather_saveables_for_checkpoint" in vars(cls):
            return obj._gather_saveables_for_checkpoint()
        if "_serialize_to_tensors" in vars(cls):
            break
    kept = {} if cache is None else cache.get(id(obj), (obj, {}))[1]
    if kept:
        return {attribute: made for attribute, (made, *_) in kept.items()}
    group = _OwnTensors(obj)
    return {attribute: functools.partial(group.part, attribute) for attribute in group.tensors}


class ReferenceVariableSaveable(SaveableObject):
    """A reference variable."""

    def __init__(self, var: Any, slice_spec: str, name: str):
        super().__init__(var, [SaveSpec(var, slice_spec, name, dtype=var.dtype)], name)

    def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
        """Assigns the restored tensor."""
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = get("Reshape")(value, _shape_input(restored_shapes[0]))
        target = self.op._ref() if isinstance(self.op, RefVariable) else self.op
        return get("Assign")(target, value,
                             validate_shape=restored_shapes is None and self.op.get_shape().is_fully_defined())


class ResourceVariableSaveable(SaveableObject):
    """A resource variable, or the op that reads one."""

    def __init__(self, var: Any, slice_spec: str, name: str):
        self._var_device, self._var_shape = var.device, var.shape
        if isinstance(var, Tensor):
            self.handle_op, tensor = var.op.inputs[0], var
        elif isinstance(var, BaseResourceVariable):
            self.handle_op, tensor = var.handle, _reader(var)
        else:
            raise ValueError(f"Saveable is neither a resource variable nor a read operation. Got: {var!r}")
        super().__init__(var, [SaveSpec(tensor, slice_spec, name, dtype=var.dtype, device=var.device)], name)

    def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
        """Assigns the restored tensor; ValueError if its static shape is incompatible."""
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = get("Reshape")(value, _shape_input(restored_shapes[0]))
        with device(self._var_device):
            value = identity(value)
            if not self._var_shape.is_compatible_with(value.shape):
                raise ValueError(f"{self.name} has shape {self._var_shape}, and the checkpoint has an incompatible tensor with "
                                 f"shape {value.shape}")
            return get("AssignVariableOp")(self.handle_op, value, dtype=value.dtype)


def _reader(variable: Any) -> Any:
    def read() -> Any:
        with device(variable.device):
            value = variable.read_value()
            with device("/device:CPU:0"):
                return identity(value)
    return read


def _shape_input(shape: Any) -> Any:
    return shape.as_list() if isinstance(shape, TensorShape) else shape


# -- from what callers pass --------------------------------------------------------------------------------------------
def _is_of_variable(t: Any) -> bool:
    return isinstance(t, Tensor) and hasattr(t, "op") and t.op.type in (*_REFERENCES, "VarHandleOp", "ReadVariableOp")


def _of_variable(variable: Any, slice_spec: str, name: str) -> SaveableObject:
    kind = ReferenceVariableSaveable if variable.op.type in _REFERENCES else ResourceVariableSaveable
    return kind(variable, slice_spec, name)


def saveable_objects_for_op(op: Any, name: str) -> Iterator[SaveableObject]:
    """The SaveableObjects of a value under a name."""
    if not isinstance(name, str):
        raise TypeError("names_to_saveables must be a dict mapping string names to trackable operations. Name is not a "
                        f"string: {name}")
    if isinstance(op, SaveableObject):
        yield op
    elif isinstance(op, (list, tuple, PartitionedVariable)):
        yield from _of_parts(list(op), name)
    elif hasattr(op, "_gather_saveables_for_checkpoint") and not _is_plain_variable(op):
        for attribute, factory in saved_values(op).items():
            full = name if attribute == VALUE_KEY else f"{name}_{attribute}"
            made = factory(full) if callable(factory) else factory
            yield from saveable_objects_for_op(made, made.name)
    elif isinstance(op, BaseResourceVariable):
        yield ResourceVariableSaveable(op._graph_element if op._in_graph_mode else op, "", name)
    else:
        if context.executing_eagerly():
            raise ValueError(f"In eager execution only resource variables can be saved, got {type(op)}.")
        tensor = _as_reference(op)
        if not _is_of_variable(tensor):
            raise TypeError("names_to_saveables must be a dict mapping string names to Tensors/Variables. Not a variable: "
                            f"{tensor}")
        yield _of_variable(tensor, "", name)


def _is_plain_variable(x: Any) -> bool:
    """Whether an object is a variable that is saved as its value; distributed variables define their own saveables."""
    return isinstance(x, Variable) and not x._own_saveable and not getattr(x, "_keyed", False)


def _as_reference(op: Any) -> Any:
    if isinstance(op, Variable):
        return op._dense_var_to_tensor(as_ref=True)
    if isinstance(op, Tensor):
        return op
    return convert(op)


def _of_parts(parts: list, name: str) -> Iterator[SaveableObject]:
    whole = None
    for part in parts:
        if not isinstance(part, Variable):
            raise ValueError(f"Slices must all be Variables: {part}")
        if not part._save_slice_info:
            raise ValueError(f"Slices must all be slices: {part}")
        if whole is None:
            whole = part._save_slice_info.full_name
        elif whole != part._save_slice_info.full_name:
            raise ValueError(f"Slices must all be from the same tensor: {whole} != {part._save_slice_info.full_name}")
        if isinstance(part, RefVariable):
            yield ReferenceVariableSaveable(part, part._save_slice_info.spec, name)
        else:
            yield ResourceVariableSaveable(part, part._save_slice_info.spec, name)


def op_list_to_dict(op_list: Any, convert_variable_to_tensor: bool = True) -> dict[str, Any]:
    """Variables and SaveableObjects by the names that they are saved under; the parts of one variable as a list."""
    if not isinstance(op_list, (list, tuple, set)):
        raise TypeError(f"Variables to save should be passed in a dict or a list: {op_list}")
    found: dict[str, Any] = {}
    for var in sorted(op_list, key=lambda x: x.name):
        if isinstance(var, SaveableObject):
            found[var.name] = var
        elif isinstance(var, PartitionedVariable):
            _add_new(found, var.name, var)
        elif isinstance(var, Variable) and var._save_slice_info:
            whole = var._save_slice_info.full_name
            if not isinstance(found.setdefault(whole, []), list):
                raise ValueError(f"Slices and whole variables have the same name: {whole}")
            found[whole].append(var)
        elif hasattr(var, "_gather_saveables_for_checkpoint") and not _is_plain_variable(var):
            made = [f() if callable(f) else f for f in saved_values(var).values()]
            found.update(op_list_to_dict(made))
        elif not getattr(var, "_in_graph_mode", True):
            _add_eager(found, var)
        else:
            if convert_variable_to_tensor:
                var = var._graph_element if isinstance(var, BaseResourceVariable) else _as_reference(var)
                if not _is_of_variable(var):
                    raise TypeError(f"Variable to save is not a Variable: {var}")
            source = var.op.inputs[0].op if var.op.type == "ReadVariableOp" else var.op
            _add_new(found, source.name, var)
    return found


def _add_new(found: dict[str, Any], name: str, var: Any) -> None:
    if name in found:
        raise ValueError(f"At least two variables have the same name: {name}")
    found[name] = var


def _add_eager(found: dict[str, Any], var: Any) -> None:
    if not isinstance(var, BaseResourceVariable):
        raise ValueError(f"Can only save/restore ResourceVariables when eager execution is enabled, type: {type(var)}.")
    if found.setdefault(var._shared_name, var) is not var:
        raise ValueError(f"Two different ResourceVariable objects with the same shared_name '{var._shared_name}' were passed "
                         "to the Saver. This likely means that they were created in different Graphs or isolation contexts, "
                         "and may not be checkpointed together.")


def validate_and_slice_inputs(names_to_saveables: Any) -> list[SaveableObject]:
    """The SaveableObjects for a saver's variables, in the order of their names; each thing only once."""
    if not isinstance(names_to_saveables, dict):
        names_to_saveables = op_list_to_dict(names_to_saveables)
    saveables: list[SaveableObject] = []
    seen: set[int] = set()
    for name, op in sorted(names_to_saveables.items(), key=lambda item: item[0]):
        for made in saveable_objects_for_op(op, name):
            if id(made.op) in seen:
                raise ValueError(f"The same saveable will be restored with two names: {made.name}")
            saveables.append(made)
            seen.add(id(made.op))
    return saveables
