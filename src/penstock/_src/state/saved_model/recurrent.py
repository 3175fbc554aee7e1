"""An LSTM in frozen graphs: BlockLSTMV2 is written as the loop over time that TensorFlow's Keras layer is.

What reads frozen graphs, such as converters to other formats, knows the loop, and does not know the op.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.graph.constant import constant_value
from penstock._src.graph.node import Operation, Tensor
from penstock._src.ops.control.control_flow import while_loop_v2
from penstock._src.ops.registry import get
from penstock._src.ops.state.tensor_array import TensorArray

_CARRY, _OUTPUT = 1, 6             # the results of the op that a layer uses


def is_loop(op: Operation, used: set[int]) -> bool:
    """Whether an op can be written as the loop; `used` has the ids of the tensors that something takes."""
    return op.type == "BlockLSTMV2" and not op.attrs["use_peephole"] and op.attrs["cell_clip"] <= 0 and \
        {i for i, t in enumerate(op.outputs) if id(t) in used} <= {_CARRY, _OUTPUT}


def loop(op: Operation, inputs: list[Tensor], readers: list[Operation]) -> list[Any]:
    """The results of the op from its inputs: all outputs, and all carries unless `readers` take the last one only."""
    length, x, carry, state, weights, bias = (*inputs[:5], inputs[8])
    features = get("Shape")(weights)[0] - get("Shape")(state)[1]
    kernel, recurrent_kernel = weights[:features], weights[features:]
    whole = not all(_takes_last(r) for r in readers if any(t is op.outputs[_CARRY] for t in r.inputs))
    rows = TensorArray(x.dtype, get("Shape")(x)[0], tensor_array_name="input_ta").unstack(x)
    results = [TensorArray(x.dtype, get("Shape")(x)[0], element_shape=t.shape, tensor_array_name="output_ta")
               for t in ([state, carry] if whole else [state])]

    def step(t: Any, arrays: list, h: Any, c: Any) -> tuple:
        product = get("AddV2")(get("MatMul")(rows.read(t), kernel), get("MatMul")(h, recurrent_kernel))
        i, f, n, o = get("Split")(1, get("BiasAdd")(product, bias), num_split=4)
        c_new = get("AddV2")(get("Mul")(get("Sigmoid")(f), c), get("Mul")(get("Sigmoid")(i), get("Tanh")(n)))
        h_new = get("Mul")(get("Sigmoid")(o), get("Tanh")(c_new))
        return t + 1, [a.write(t, value) for a, value in zip(arrays, (h_new, c_new), strict=False)], h_new, c_new
    steps = get("Cast")(length, DstT=dtypes.int32)
    _, arrays, _, last = while_loop_v2(lambda t, *_: t < steps, step, (0, results, state, carry))
    made: list[Any] = [None] * len(op.outputs)
    made[_OUTPUT], made[_CARRY] = arrays[0].stack(), arrays[1].stack() if whole else get("ExpandDims")(last, 0)
    return made


def _takes_last(op: Operation) -> bool:
    """Whether an op is x[-1]."""
    begin = constant_value(op.inputs[1]) if op.type == "StridedSlice" else None
    return begin is not None and op.attrs["shrink_axis_mask"] == 1 and begin.tolist() == [-1]
