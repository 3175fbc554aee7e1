"""How many float operations an op takes, and how many parameters a variable has, from static shapes.

The rules are those of TensorFlow's profiler: one per element and elementary step, two (multiply, add) per product of a
convolution or matrix product. An op with unknown shapes counts as zero.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from penstock._src.base.static_shape import TensorShape

Rule = Callable[[Any], int]


class Unknown(Exception):
    """A shape that a count needs is not known."""


def _size(tensor: Any) -> int:
    count = tensor.shape.num_elements()
    if count is None:
        raise Unknown
    return count


def _dims(tensor: Any) -> list[int]:
    dims: list[Any] = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
    if None in dims:
        raise Unknown
    return dims


def _per_output(times: int = 1) -> Rule:
    return lambda op: times * _size(op.outputs[0])


def _reduction(finalize: int) -> Rule:
    return lambda op: _size(op.inputs[0]) + (finalize - 1) * _size(op.outputs[0])


def _matmul(op: Any) -> int:
    inner = _dims(op.inputs[0])[-2 if op.get_attr("transpose_a") else -1]
    return 2 * inner * _size(op.outputs[0])


def _batch_matmul(op: Any) -> int:
    inner = _dims(op.inputs[0])[-2 if op.get_attr("adj_x") else -1]
    return 2 * inner * _size(op.outputs[0])


def _convolution(op: Any) -> int:
    return 2 * _size(op.outputs[0]) * math.prod(_dims(op.inputs[1])[:-1])


def _depthwise(op: Any) -> int:
    return 2 * _size(op.outputs[0]) * math.prod(_dims(op.inputs[1])[:2])


def _backprop_input(op: Any) -> int:
    strides = math.prod(op.get_attr("strides"))
    return 2 * _size(op.outputs[0]) * _size(op.inputs[1]) // (_dims(op.outputs[0])[-1] * strides)


def _backprop_filter(op: Any) -> int:
    strides = math.prod(op.get_attr("strides"))
    return 2 * _size(op.inputs[0]) * _size(op.outputs[0]) // (_dims(op.inputs[0])[-1] * strides)


def _pool(op: Any) -> int:
    return math.prod(op.get_attr("ksize")) * _size(op.outputs[0])


def _pool_gradient(op: Any) -> int:
    return math.prod(op.get_attr("ksize")) * _size(op.inputs[1]) * 2


def _max_pool_gradient(op: Any) -> int:
    return (math.prod(op.get_attr("ksize")) + 1) * _size(op.inputs[1])


RULES: dict[str, Rule] = {
    **dict.fromkeys(("Reciprocal", "Square", "Log", "Neg", "AssignSub", "AssignAdd", "Add", "AddV2", "Sub", "Mul", "RealDiv",
                     "Maximum", "Minimum", "Pow", "GreaterEqual", "Greater", "LessEqual", "Less", "Equal", "NotEqual",
                     "BiasAdd"), _per_output()),
    **dict.fromkeys(("Rsqrt", "SquaredDifference"), _per_output(2)),
    "RsqrtGrad": _per_output(4), "Softmax": _per_output(5), "Mean": _reduction(1),
    **dict.fromkeys(("Sum", "ArgMax", "ArgMin", "BiasAddGrad"), _reduction(0)),
    "L2Loss": lambda op: 3 * _size(op.inputs[0]) - 1,
    "AddN": lambda op: _size(op.outputs[0]) * (len(op.inputs) - 1),
    "MatMul": _matmul, "BatchMatMul": _batch_matmul, "BatchMatMulV2": _batch_matmul,
    "Conv2D": _convolution, "Conv3D": _convolution, "DepthwiseConv2dNative": _depthwise,
    "Conv2DBackpropInput": _backprop_input, "Conv2DBackpropFilter": _backprop_filter,
    "AvgPool": _pool, "MaxPool": _pool, "AvgPoolGrad": _pool_gradient, "MaxPoolGrad": _max_pool_gradient,
    "Dilation2D": lambda op: 2 * _size(op.outputs[0]) * math.prod(_dims(op.inputs[1])[:2]),
}


class OpStats:
    """A statistic of one op: what it counts (`flops`), and the count, None if it is not known."""

    def __init__(self, statistic_type: str, value: int | None = None):
        self.statistic_type, self.value = statistic_type, value


class RegisterStatistics:
    """A decorator: a function of a graph and a NodeDef that returns the OpStats of a type of op. It replaces the rule above.

    >>> @RegisterStatistics("MyOp", "flops")
    ... def _my_op_flops(graph, node): return OpStats("flops", 12)
    """

    def __init__(self, op_type: str, statistic_type: str):
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string.")
        if "," in op_type:
            raise TypeError("The name of an op type has no commas.")
        self._key = f"{op_type},{statistic_type}"

    def __call__(self, function: Callable) -> Callable:
        if self._key in REGISTERED:
            raise KeyError(f"Registering two statistics with name '{self._key}'!")
        REGISTERED[self._key] = function
        return function


REGISTERED: dict[str, Callable[[Any, Any], OpStats]] = {}


def get_stats_for_node_def(graph: Any, node: Any, statistic_type: str) -> OpStats:
    """The statistic of one node of a graph; its value is None if there is no function for it."""
    function = REGISTERED.get(f"{node.op},{statistic_type}")
    if function is not None:
        return function(graph, node)
    count = float_operations(graph.get_operation_by_name(node.name)) if statistic_type == "flops" else 0
    return OpStats(statistic_type, count or None)


def float_operations(op: Any) -> int:
    """How many float operations one run of an op takes; 0 if there is no rule or the shapes are not known."""
    registered = REGISTERED.get(f"{op.type},flops")
    if registered is not None:
        try:
            return registered(op.graph, op.node_def).value or 0
        except ValueError:                                 # a shape that it needs is not known
            return 0
    rule = RULES.get(op.type)
    if rule is None:
        return 0
    try:
        return rule(op)
    except Unknown:
        return 0


def parameters(op: Any) -> int:
    """How many numbers the variable that an op makes holds; 0 if it makes none."""
    if op.type in ("Variable", "VariableV2"):
        return op.outputs[0].shape.num_elements() or 0
    if op.type == "VarHandleOp":
        return TensorShape(op.get_attr("shape")).num_elements() or 0
    return 0
