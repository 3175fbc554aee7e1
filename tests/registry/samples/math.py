"""Arithmetic of two operands, and sums of many."""
import numpy as np

from tests.registry.sample import f, i, s, sample

PAIRS = (lambda **kw: (f(2, 3, **kw), f(2, 3, **kw))), (lambda **kw: (f(2, 1, 3, **kw), f(4, 1, **kw))), \
    (lambda **kw: (f(3, **kw), f(**kw)))
WIDE = (np.uint16, np.uint32, np.uint64)


def away(*shape, low=0.5, high=2.0, dtype=np.float32):
    """Random floats away from zero, of either sign."""
    return f(*shape, low=low, high=high, dtype=dtype) * np.where(f(*shape) > 0, 1, -1).astype(dtype)


for op, ref in (("Add", np.add), ("AddV2", np.add), ("Sub", np.subtract), ("Mul", np.multiply)):
    for make in PAIRS:
        sample(op, *make(), expect=ref)
    sample(op, i(2, 3), i(3), expect=ref)
    sample(op, (f(3) + 1j * f(3)).astype(np.complex64), (f(3) - 1j * f(3)).astype(np.complex64), expect=ref)
    for t in WIDE:
        sample(op, i(4, low=0, high=200, dtype=t), i(4, low=0, high=200, dtype=t), expect=ref)
sample("Add", s("a", "b"), s("c", "d"), expect=lambda x, y: x + y)
sample("SquaredDifference", f(2, 3), f(3), expect=lambda x, y: (x - y) ** 2)
sample("SquaredDifference", i(2, 3), i(2, 3), expect=lambda x, y: (x - y) ** 2)

for op in ("Div", "RealDiv"):
    for shapes in (((2, 3), (2, 3)), ((2, 1, 3), (4, 1)), ((3,), ())):
        sample(op, f(*shapes[0]), away(*shapes[1]), expect=np.divide)
sample("Div", i(6), np.array([1, -1, 2, -3, 4, 5], np.int32), expect=lambda x, y: np.trunc(x / y).astype(np.int32))
sample("Div", np.array([-2 ** 31, 7], np.int32), np.array([-1, 2], np.int32),
       expect=lambda x, y: np.array([-2 ** 31, 3], np.int32))
sample("DivNoNan", f(2, 3), np.array([0.0, 2.0, -3.0], np.float32), grad=[0],
       expect=lambda x, y: np.where(y == 0, 0, x / np.where(y == 0, 1, y)))
sample("DivNoNan", f(3), away(2, 3), expect=np.divide)
sample("MulNoNan", np.array([np.inf, np.nan, 2], np.float32), np.array([0, 0, 3], np.float32), grad=False,
       expect=lambda x, y: np.array([0, 0, 6], np.float32))
sample("MulNoNan", f(3), away(2, 3), expect=np.multiply)
for op, ref in (("FloorDiv", np.floor_divide), ("TruncateDiv", lambda x, y: np.trunc(x / y).astype(x.dtype)),
                ("FloorMod", np.mod), ("Mod", np.fmod), ("TruncateMod", np.fmod)):
    sample(op, i(3, 4, low=-9, high=10), np.array([1, -2, 3, -4], np.int32), expect=ref)
    sample(op, f(3, 4, low=-9, high=9), np.array([1.5, -2, 3, -4], np.float32), expect=ref, atol=1e-4,
           grad=op == "FloorMod")
    for t in WIDE:
        sample(op, np.array([0, 5, 250, np.iinfo(t).max], t), np.array([1, 3, 7, 10], t), atol=0 if t != np.uint64 else 1,
               expect=lambda x, y, op=op: x % y if "Mod" in op else x // y)

sample("Pow", f(2, 3, low=0.5, high=2), f(3), expect=np.power)
sample("Pow", i(2, 3), i(3, low=0, high=5), expect=np.power)
sample("Pow", i(3, low=0, high=9, dtype=np.uint64), i(3, low=0, high=5, dtype=np.uint64), expect=np.power)
for op, ref in (("Maximum", np.maximum), ("Minimum", np.minimum)):
    sample(op, f(2, 3), f(2, 3), expect=ref)
    sample(op, f(4, 1), f(3), expect=ref)
    sample(op, i(4, 1), i(3), expect=ref)
    for t in WIDE:
        sample(op, np.array([1, np.iinfo(t).max], t), np.array([2, 5], t), expect=ref)
sample("Atan2", away(2, 3), away(3), expect=np.arctan2)
sample("Xdivy", np.array([0, 2], np.float32), np.array([0, 4], np.float32), grad=False,
       expect=lambda x, y: np.array([0, 0.5], np.float32))
sample("Xdivy", f(2, 3), away(3), expect=np.divide)
sample("Xlogy", np.array([0, 2], np.float32), np.array([0, 4], np.float32), grad=False,
       expect=lambda x, y: np.array([0, 2 * np.log(4)], np.float32))
sample("Xlogy", f(2, 3), f(3, low=0.5, high=3), expect=lambda x, y: x * np.log(y))
sample("Xlog1py", f(2, 3), f(3, low=-0.5, high=3), expect=lambda x, y: x * np.log1p(y))
sample("NextAfter", f(2, 3), f(3), expect=np.nextafter, grad=False)

sample("AddN", [f(2, 3), f(2, 3), f(2, 3)], expect=lambda xs: sum(xs))
sample("AddN", [f(3)], expect=lambda xs: xs[0])
sample("AddN", [i(3, low=0, dtype=np.uint16), i(3, low=0, dtype=np.uint16)], expect=lambda xs: sum(xs))
sample("AccumulateNV2", [f(2, 3), f(2, 3)], shape=[2, 3], expect=lambda xs: sum(xs))
sample("BroadcastGradientArgs", np.array([2, 3, 1], np.int32), np.array([3, 4], np.int32), grad=False,
       expect=lambda a, b: (np.array([2], np.int32), np.array([0], np.int32)))
