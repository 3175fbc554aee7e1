"""Running sums and products."""
import numpy as np

from tests.registry.sample import f, i, sample


def running(ref, start, exclusive, reverse, axis):
    def compute(x, _):
        x = np.flip(x, axis) if reverse else x
        out = ref(x, axis=axis, dtype=x.dtype)
        if exclusive:
            out = np.roll(out, 1, axis)
            out[tuple(0 if k == axis % x.ndim else slice(None) for k in range(x.ndim))] = start
        return np.flip(out, axis) if reverse else out
    return compute


for op, ref, start in (("Cumsum", np.cumsum, 0), ("Cumprod", np.cumprod, 1)):
    for exclusive in (False, True):
        for reverse in (False, True):
            for axis in (0, -1):
                sample(op, f(3, 4, low=0.5), np.int32(axis), exclusive=exclusive, reverse=reverse,
                       expect=running(ref, start, exclusive, reverse, axis))
    sample(op, i(4), np.int32(0), expect=lambda x, a, ref=ref: ref(x, dtype=np.int32))
    sample(op, i(4, low=0, dtype=np.uint32), np.int32(0), expect=lambda x, a, ref=ref: ref(x, dtype=np.uint32))
for reverse in (False, True):
    sample("CumulativeLogsumexp", f(2, 4), np.int32(1), reverse=reverse, expect=lambda x, a, r=reverse: np.flip(
        np.log(np.cumsum(np.exp(np.flip(x, 1)), 1)), 1) if r else np.log(np.cumsum(np.exp(x), 1)))
