"""Comparisons and logic."""
import numpy as np

from tests.registry.sample import b, f, i, s, sample

for op, ref in {"Less": np.less, "LessEqual": np.less_equal, "Greater": np.greater, "GreaterEqual": np.greater_equal,
                "Equal": np.equal, "NotEqual": np.not_equal}.items():
    sample(op, f(2, 3), f(3), expect=ref)
    sample(op, i(4, 1), i(3), expect=ref)
    for t in (np.uint16, np.uint32, np.uint64):
        sample(op, np.array([1, np.iinfo(t).max], t), np.array([2, 5], t), expect=ref)
for op, ref in {"Equal": np.equal, "NotEqual": np.not_equal}.items():
    sample(op, s("a", "b"), s("a", "c"), expect=ref)
    sample(op, b(3), b(3), expect=ref)
sample("Equal", f(2), f(3), incompatible_shape_error=False, expect=lambda x, y: np.array(False))
sample("NotEqual", f(2), f(3), incompatible_shape_error=False, expect=lambda x, y: np.array(True))
sample("ApproximateEqual", np.array([1, 2], np.float32), np.array([1.001, 2.5], np.float32), tolerance=0.01,
       expect=lambda x, y: np.array([True, False]))
sample("ApproximateEqual", i(3), i(3), tolerance=2.0, expect=lambda x, y: np.abs(x - y) <= 2)
for op, ref in {"LogicalAnd": np.logical_and, "LogicalOr": np.logical_or}.items():
    sample(op, b(2, 3), b(3), expect=ref)
sample("LogicalNot", b(4), expect=np.logical_not)
sample("LogicalAnd", b(2, 1, 3), b(4, 1), expect=np.logical_and)
sample("LogicalOr", b(2, 0), b(1), expect=np.logical_or)
sample("LogicalNot", b(2, 3), expect=np.logical_not)
