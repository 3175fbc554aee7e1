"""slim.model_analyzer: sizes of operations and variables."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export


@export(v1=["contrib.slim.model_analyzer.tensor_description"])
def tensor_description(var: Any) -> str:
    """Type and shape, such as "(float32_ref 3x4)"."""
    sizes = "x".join(str(d.value) if d.value is not None else "?" for d in var.shape.dims)
    return f"({var.dtype.name} {sizes})"


@export(v1=["contrib.slim.model_analyzer.analyze_ops"])
def analyze_ops(graph: Any, print_info: bool = False) -> int:
    """The number of elements of all outputs in a graph."""
    if print_info:
        print("---------\nOperations: name -> (type shapes) [size]\n---------")
    total = 0
    for op in graph.get_operations():
        size = sum(output.shape.num_elements() or 0 for output in op.outputs)
        if print_info:
            print(op.name, "\t->", ", ".join(tensor_description(o) for o in op.outputs if o.shape.dims), f"[{size}]")
        total += size
    return total


@export(v1=["contrib.slim.model_analyzer.analyze_vars"])
def analyze_vars(variables: Any, print_info: bool = False) -> tuple[int, int]:
    """The number of elements and of bytes in variables.

    >>> slim.model_analyzer.analyze_vars(tf.trainable_variables(), print_info=True)
    """
    if print_info:
        print("---------\nVariables: name (type shape) [size]\n---------")
    total = total_bytes = 0
    for var in variables:
        size = var.shape.num_elements() or 0
        count = size * var.dtype.size
        total, total_bytes = total + size, total_bytes + count
        if print_info:
            print(var.name, tensor_description(var), f"[{size}, bytes: {count}]")
    if print_info:
        print(f"Total size of variables: {total}\nTotal bytes of variables: {total_bytes}")
    return total, total_bytes
