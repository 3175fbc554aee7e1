"""tf.hessians: second derivatives, one row per step of a loop."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.graph.gradients import as_list, gradients_of
from penstock._src.ops.control.control_flow import while_loop
from penstock._src.ops.registry import get
from penstock._src.ops.state.tensor_array import TensorArray


@export(v2=["hessians"])
def hessians_v2(ys: Any, xs: Any, gate_gradients: bool = False, aggregation_method: Any = None, name: str = "hessians") -> list:
    """The matrices of second derivatives of the sum of `ys` with respect to each of `xs`."""
    return hessians(ys, xs, name, False, gate_gradients, aggregation_method)


@export(v1=["hessians"])
def hessians(ys: Any, xs: Any, name: str = "hessians", colocate_gradients_with_ops: bool = False,
             gate_gradients: bool = False, aggregation_method: Any = None) -> list:
    """The matrices of second derivatives of the sum of `ys` with respect to each of `xs`."""
    xs = as_list(xs)
    out = []
    for g, x in zip(gradients_of(ys, xs, name=name + "_first"), xs, strict=True):
        flat = get("Reshape")(g, [-1])
        n = get("Size")(x)
        rows = TensorArray(x.dtype, n)
        loop = [convert(0, dtypes.int32), rows]
        _, rows = while_loop(
            lambda j, _, n=n: get("Less")(j, n),
            lambda j, acc, flat=flat, x=x: (get("AddV2")(j, 1), acc.write(j, gradients_of(get("GatherV2")(flat, j, 0), x)[0])),
            loop)
        shape = get("Shape")(x)
        out.append(get("Reshape")(rows.stack(), get("ConcatV2")([shape, shape], 0)))
    return out
