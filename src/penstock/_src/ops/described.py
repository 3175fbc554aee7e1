"""Docstrings of functions that are generated from the declarations of ops: tf.raw_ops, and the public names of single ops."""
from __future__ import annotations

import inspect
from typing import Any

from penstock._src.ops.signature import REQUIRED, Arg, Attr

_KINDS = {"int": "An integer", "float": "A float", "bool": "A boolean", "string": "A string", "type": "A dtype",
          "shape": "A shape", "func": "A function", "tensor": "A constant", "list(int)": "A list of integers",
          "list(float)": "A list of floats",
          "list(bool)": "A list of booleans", "list(string)": "A list of strings", "list(type)": "A list of dtypes",
          "list(shape)": "A list of shapes", "list(func)": "A list of functions", "list(attr)": "A list"}


def described(definition: Any, signature: inspect.Signature, names: dict[str, str] | None = None) -> str:
    """A docstring for an op as a function: its own text or its call, every parameter, and what it returns.

    `names` has the parameters that are called otherwise than in the declaration.
    """
    first, explained, rest = (definition.doc or "").partition("Args:")
    if explained and all(f" {p}: " in rest for p in signature.parameters):
        return definition.doc
    first = first.strip() or f"Op {definition.name}{signature}."
    declared = {v: k for k, v in (names or {}).items()}
    inputs = {a.name: a for a in definition.inputs}
    lines = [first, "", "Args:"]
    for p in signature.parameters:
        name = declared.get(p, p)
        if name in inputs:
            words = _tensor(inputs[name], definition.attrs)
        elif name in definition.attrs:
            words = _attribute(definition.attrs[name])
        else:
            words = "A name for the op"
        lines.append(f"    {p}: {words}.")
    if len(lines) == 3:
        lines = lines[:1]
    return "\n".join([*lines, "", "Returns:", f"    {_results(definition)}."])


def _results(definition: Any) -> str:
    if not definition.outputs:
        return "The operation"
    if len(definition.outputs) == 1:
        return _tensor(definition.outputs[0], definition.attrs)
    return f"A named tuple of tensors: {', '.join(f'`{a.name}`' for a in definition.outputs)}"


def _tensor(arg: Arg, attrs: dict[str, Attr]) -> str:
    """The tensors that an input or output is."""
    attr = attrs.get(arg.type_attr or arg.type_list_attr or "")
    types: Any = (arg.type,) if arg.type is not None else attr.allowed if attr is not None else None
    of = f" of {_choices([t.name for t in types])}" if types else "" if arg.type_list_attr else " of any type"
    tensor = "variable" if arg.is_ref else "tensor"
    return f"A list of {tensor}s{of}" if arg.is_list else f"A {tensor}{of}"


def _attribute(attr: Attr) -> str:
    words = _KINDS[attr.kind]
    if attr.allowed is not None:
        words += f": {_choices([getattr(a, 'name', None) or repr(a) for a in attr.allowed])}"
    if attr.minimum is not None:
        words += f" of at least {attr.minimum}"
    if attr.default is not REQUIRED:
        words += f"; {getattr(attr.default, 'name', None) or repr(attr.default)} by default"
    return words


def _choices(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
