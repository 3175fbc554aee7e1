"""Operations on bits."""
import numpy as np

from tests.registry.sample import b, f, i, sample

TYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
for t in TYPES:
    low = 0 if np.issubdtype(t, np.unsignedinteger) else -100
    for op, ref in {"BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor}.items():
        sample(op, i(2, 4, low=low, high=100, dtype=t), i(4, low=low, high=100, dtype=t), expect=ref)
    for op, ref in {"LeftShift": np.left_shift, "RightShift": np.right_shift}.items():
        sample(op, np.array([1, 5, np.iinfo(t).max], t), np.array([0, 3, 2], t), expect=ref, atol=0)
    sample("Invert", i(4, low=low, high=100, dtype=t), expect=np.invert, atol=0)
    sample("PopulationCount", np.array([0, 1, 5, np.iinfo(t).max, np.iinfo(t).min], t), expect=lambda x: np.array(
        [bin(int(v) & (2 ** (8 * x.itemsize) - 1)).count("1") for v in x], np.uint8))
sample("CompareAndBitpack", f(2, 16), np.float32(0.2), expect=lambda x, t: np.packbits(x > t, axis=-1))
sample("CompareAndBitpack", i(3, 1, 8), np.int32(1), expect=lambda x, t: np.packbits(x > t, axis=-1))
sample("CompareAndBitpack", b(8), np.bool_(True), expect=lambda x, t: np.packbits(x, axis=-1))
