"""The arguments of an op: flat tensors, and their groups and types by its declaration."""
from __future__ import annotations

from typing import Any

from penstock._src.ops.registry import OpDef
from penstock._src.ops.signature import Arg

MAX_ARGS = 1 << 16              # tensors in one list argument or result of an op


def group_inputs(opdef: OpDef, flat: Any, counts: tuple) -> list:
    """Flat inputs grouped by declared arguments, as kernels and rules take them."""
    if not counts:
        return list(flat)
    out, i = [], 0
    for n in counts:
        if n is None:
            out.append(flat[i])
            i += 1
        else:
            out.append(list(flat[i:i + n]))
            i += n
    return out


def input_types(opdef: OpDef, attrs: dict[str, Any]) -> list:
    """The dtypes of the flat inputs."""
    return _flat_types(opdef.inputs, attrs)


def output_types(opdef: OpDef, attrs: dict[str, Any]) -> list:
    """The dtypes of the flat outputs."""
    return _flat_types(opdef.outputs, attrs)


def _flat_types(args: list[Arg], attrs: dict[str, Any]) -> list:
    out: list = []
    for a in args:
        if a.type_list_attr is not None:
            types = list(attrs[a.type_list_attr])
        else:
            t = a.type if a.type_attr is None else attrs[a.type_attr]
            count = attrs[a.number_attr] if a.number_attr is not None else 1
            if count > MAX_ARGS:
                raise ValueError(f"{a.number_attr} is {count}: an op has at most {MAX_ARGS} inputs or outputs of one kind")
            types = [t] * count
        out.extend([t._as_ref for t in types] if a.is_ref else types)
    return out
