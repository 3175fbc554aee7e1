"""Ops that have only a signature.

TensorFlow registers them to test graph construction: GraphDefs can contain them, but they cannot run, and have no public name.
They cover every kind of signature (no input, several outputs, lists, references, defaults), and serve as simple nodes in tests
of importers, rewriters and placers.
"""
from __future__ import annotations

from penstock._src.graph.graph import PRODUCER_VERSION
from penstock._src.ops.registry import OPS, OpDef

for _name, _args, _attrs in (
    ("None", "->", ""),
    ("A", "-> out: float32", ""),
    ("B", "-> out: float32", ""),
    ("IntInput", "a: int32 ->", ""),
    ("IntOutput", "-> a: int32", ""),
    ("Int64Output", "-> out: int64", ""),
    ("IntInputIntOutput", "a: int32 -> b: int32", ""),
    ("TwoIntInputs", "a: int32, b: int32 ->", ""),
    ("TwoIntOutputs", "-> a: int32, b: int32", ""),
    ("FloatInput", "a: float32 ->", ""),
    ("FloatOutput", "-> a: float32", ""),
    ("TwoFloatInputs", "a: float32, b: float32 ->", ""),
    ("TwoFloatOutputs", "-> a: float32, b: float32", ""),
    ("FiveFloatOutputs", "-> a: float32, b: float32, c: float32, d: float32, e: float32", ""),
    ("TwoFloatInputsFloatOutput", "a: float32, b: float32 -> c: float32", ""),
    ("TwoFloatInputsIntOutput", "a: float32, b: float32 -> c: int32", ""),
    ("IntInputFloatInput", "a: int32, b: float32 ->", ""),
    ("IntOutputFloatOutput", "-> a: int32, b: float32", ""),
    ("FloatOutputStringOutput", "-> a: float32, b: string", ""),
    ("Foo1", "a: float32, b: int32, c: int32 -> d: float32, e: int32", ""),
    ("Foo2", "a: float32, b: string, c: string -> d: float32, e: int32", ""),
    ("Foo3", "a: float32, b: string, c: float32 -> d: float32, e: int32", ""),
    ("RefOutput", "-> a: Ref(int32)", ""),
    ("RefOutputFloatOutput", "-> a: Ref(float32), b: float32", ""),
    ("RefInputFloatInput", "a: Ref(float32), b: float32 ->", ""),
    ("RefInputIntInput", "a: Ref(int32), b: int32 ->", ""),
    ("RefInputFloatInputIntOutput", "a: Ref(float32), b: float32 -> c: int32", ""),
    ("ListInput", "a: N * T ->", "N: int >= 1, T: type"),
    ("ListOutput", "-> a: T", "T: list(type) >= 1"),
    ("CopyOp", "a: T -> b: T", "T: type"),
    ("Unary", "a: T -> b: T", "T: type"),
    ("IntAttr", "-> out: int64", "foo: int = 1"),
    ("StringListAttr", "->", "a: list(string), b: string"),
    ("OpWithDefaultAttr", "-> a: int32", "default_float: float = 123.0"),
    ("OpWithFutureDefaultAttr", "->", ""),
):
    OPS[_name] = OpDef(_name, _args, _attrs, foldable=False)

older = OPS["RequiresOlderGraphVersion"] = OpDef(
    "RequiresOlderGraphVersion", "-> version: int32", stateful=True).no_gradient()


@older.shape
def _older_shape(*, c):
    """A scalar, in graphs of the version before this one only."""
    if c.op.graph._producer != PRODUCER_VERSION - 1:
        raise ValueError("Wrong graph version for shape")
    return ()
