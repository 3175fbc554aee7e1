"""Reductions."""
import numpy as np

import penstock.compat.v1 as tf
from tests.registry.sample import b, f, i, sample

AXES = ([0], [1], [0, 2], [-1], [], [0, 1, 2])


def over(ref, axes, keep):
    return lambda x, _: ref(x, axis=tuple(axes), keepdims=keep).astype(x.dtype) if axes else x


for op, ref in {"Sum": np.sum, "Prod": np.prod, "Max": np.max, "Min": np.min, "Mean": np.mean}.items():
    for axes in AXES:
        for keep in (False, True):
            sample(op, f(2, 3, 4), np.array(axes, np.int32), keep_dims=keep, expect=over(ref, axes, keep))
    sample(op, i(3, 4), np.array(0, np.int32), expect=lambda x, a, ref=ref: (
        np.trunc(ref(x, 0)) if ref is np.mean else ref(x, 0)).astype(np.int32))
    for t in (np.uint16, np.uint32, np.uint64):
        sample(op, i(3, 4, low=1, high=6, dtype=t), np.array([0], np.int32),
               expect=lambda x, a, ref=ref: ref(x, 0).astype(x.dtype))
    sample(op, (f(3, 2) + 1j * f(3, 2)).astype(np.complex64), np.array([0], np.int32),
           expect=lambda x, a, ref=ref: ref(x, 0)) if op in ("Sum", "Prod", "Mean") else None
sample("Prod", np.array([[0, 2, 3], [4, 0, 0], [1, 2, 3]], np.float32), np.array([1], np.int32),
       expect=lambda x, a: x.prod(1))
sample("Max", np.zeros((0, 3), np.float32), np.array([0], np.int32), grad=False,
       expect=lambda x, a: np.full(3, -np.inf, np.float32))
sample("Min", np.zeros((0, 3), np.int32), np.array([0], np.int32), grad=False,
       expect=lambda x, a: np.full(3, np.iinfo(np.int32).max, np.int32))
sample("EuclideanNorm", f(2, 3), np.array([1], np.int32), expect=lambda x, a: np.linalg.norm(x, axis=1))
sample("EuclideanNorm", np.array([3, 4], np.int32), np.array([0], np.int32), expect=lambda x, a: np.int32(5))
for op, ref in {"All": np.all, "Any": np.any}.items():
    sample(op, b(3, 4), np.array([1], np.int32), expect=lambda x, a, ref=ref: ref(x, 1))
    sample(op, b(3, 4), np.array([0, 1], np.int64), keep_dims=True,
           expect=lambda x, a, ref=ref: ref(x, (0, 1), keepdims=True))
for op, ref in {"ArgMax": np.argmax, "ArgMin": np.argmin}.items():
    sample(op, f(3, 4), np.int32(1), expect=lambda x, a, ref=ref: ref(x, 1))
    sample(op, np.array([2, 5, 5, 2], np.int32), np.int32(0), output_type=tf.int32,
           expect=lambda x, a, ref=ref: ref(x, 0).astype(np.int32))
    sample(op, i(2, 5, low=0, dtype=np.uint64), np.int32(-1), expect=lambda x, a, ref=ref: ref(x, -1))
    sample(op, b(4), np.int32(0), expect=lambda x, a, ref=ref: ref(x, 0))
