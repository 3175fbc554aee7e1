"""Reductions by segments."""
import numpy as np

from tests.registry.sample import f, i, sample

IDS = np.array([0, 0, 1, 3], np.int32)
ANY = np.array([2, 0, -1, 2], np.int32)


def by_segment(ref, empty, n=None):
    """A numpy reference for segments of the first axis."""
    def compute(x, ids, *_):
        count = n if n is not None else ids.max() + 1
        out = np.full((count, *x.shape[1:]), empty, x.dtype)
        for k in range(count):
            if (ids == k).any():
                out[k] = ref(x[ids == k], axis=0)
        return out
    return compute


LOW, HIGH = np.finfo(np.float32).min, np.finfo(np.float32).max
for name, ref, empty, unsorted_empty in (("Sum", np.sum, 0, 0), ("Prod", np.prod, 1, 1), ("Min", np.min, 0, HIGH),
                                         ("Max", np.max, 0, LOW)):
    sample(f"Segment{name}", f(4, 3), IDS, expect=by_segment(ref, empty))
    sample(f"Segment{name}", i(4, 2, low=1), IDS.astype(np.int64), expect=by_segment(ref, empty))
    sample(f"Segment{name}", i(4, low=1, dtype=np.uint32), IDS, expect=by_segment(ref, empty))
    sample(f"UnsortedSegment{name}", f(4, 3, low=0.5), ANY, np.int32(3), grad=unsorted_empty in (0, 1),
           expect=by_segment(ref, unsorted_empty, 3))
    sample(f"UnsortedSegment{name}", f(4), np.array([2, 0, 1, 2], np.int32), np.int32(3),
           expect=by_segment(ref, unsorted_empty, 3))
sample("SegmentProd", (f(4) + 1j * f(4)).astype(np.complex64), IDS, expect=by_segment(np.prod, 1))
sample("SegmentMean", f(4, 3), IDS, expect=by_segment(np.mean, 0))
sample("SegmentMean", i(4, low=0, dtype=np.uint16), IDS)
sample("UnsortedSegmentSum", f(2, 2, 3), np.array([[0, 1], [1, -1]], np.int32), np.int32(2),
       expect=lambda x, ids, n: np.stack([x[0, 0], x[0, 1] + x[1, 0]]))

PICK = np.array([2, 0, 0, 1], np.int32)


def picked(ref, n=None):
    return lambda x, indices, ids, *_: by_segment(ref, 0, n)(x[indices], ids)


def sqrt_n(x, axis):
    return x.sum(axis) / np.sqrt(len(x))


for name, ref in (("Sum", np.sum), ("Mean", np.mean), ("SqrtN", sqrt_n)):
    sample(f"SparseSegment{name}", f(3, 2), PICK, IDS, expect=picked(ref))
    sample(f"SparseSegment{name}WithNumSegments", f(3, 2), PICK, IDS, np.int32(5), expect=picked(ref, 5))
sample("SparseSegmentSum", i(3, 2, low=0, dtype=np.uint16), PICK, IDS, expect=picked(np.sum))
sample("SparseSegmentMeanGrad", f(4, 2), PICK, IDS, np.int32(3), grad=False)
sample("SparseSegmentSqrtNGrad", f(4, 2), PICK, IDS, np.int32(3), grad=False)


def picked_grad(weight):
    """A numpy reference for the gradients of picked rows."""
    def compute(grad, indices, ids, n):
        out = np.zeros((int(n), *grad.shape[1:]), grad.dtype)
        for at, segment in zip(indices, ids, strict=True):
            out[at] += grad[segment] / weight((ids == segment).sum())
        return out
    return compute


for name, weight in (("Sum", lambda n: 1), ("Mean", lambda n: n), ("SqrtN", np.sqrt)):
    inputs = f(2, 3), np.array([4, 1, 4], np.int32), np.array([0, 0, 1], np.int32), np.int32(6)
    if name == "Sum":
        sample("SparseSegmentSumGrad", *inputs, grad=False, expect=picked_grad(weight))
    sample(f"SparseSegment{name}GradV2", *inputs, grad=False, expect=lambda *a, weight=weight: (
        picked_grad(weight)(*a)[[1, 4]], np.array([1, 4], np.int32)))
