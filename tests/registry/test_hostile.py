"""Hostile arguments: every sampled op returns, or raises a typed error; nothing crashes or eats the memory.

Each input in turn is replaced by something that a fed value could be: empty, of another rank, negative, huge, NaN, infinite;
then all of them at once; then each attribute by what a GraphDef could hold. Ops on variables run in a graph, the others
eagerly, where the kernel sees the values before any shape rule does. Memory is capped for the test, so that an allocation
without bound fails here instead of ending the machine.
"""
import dataclasses
import resource
import warnings

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.ops.registry import OPS
from penstock._src.ops.signature import REQUIRED
from tests.registry.load import all_samples, ids
from tests.registry.running import eager
from tests.registry.sample import SAMPLES

all_samples()
FIRST = [many[0] for many in SAMPLES.values()]
OTHERS = [s for many in SAMPLES.values() for s in many[1:]]
SPARE = 4 << 30


@pytest.fixture(scope="module", autouse=True)
def _capped_memory():
    with open("/proc/self/statm") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def mutations(array):
    """Wrong values of the same dtype."""
    array = np.asarray(array)
    yield np.zeros((0,), array.dtype)
    yield np.zeros((0,) * max(array.ndim, 1), array.dtype)
    yield array[None] if array.size < 1000 else array
    yield array.reshape(-1)[:1].reshape(()) if array.size else array
    yield array.reshape((1,) * 9 + array.shape)
    if array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        for value in (-1, info.min, info.max, 10**6 if info.max > 10**6 else info.max // 2, 0):
            with np.errstate(over="ignore"):
                yield np.full(array.shape, np.array(value).astype(array.dtype), array.dtype)
    elif array.dtype.kind in "fc":
        yield np.full(array.shape, np.nan, array.dtype)
        yield np.full(array.shape, np.inf, array.dtype)
        yield np.full(array.shape, -np.inf, array.dtype)
    elif array.dtype == object:
        wrong = np.empty(array.shape, dtype=object)
        wrong.reshape(-1)[:] = [b"\xff\x00"] * array.size
        yield wrong


def attempt(sample, inputs):
    """One call; typed errors are fine."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eager(dataclasses.replace(sample, inputs=tuple(inputs)))
    except tf.errors.InternalError:                 # an error of Python that no check has foreseen
        raise
    except (tf.errors.OpError, ValueError, TypeError):
        pass


def attr_mutations(attr, value):
    """Wrong values for an attribute; None where it has a type that nothing is wrong with."""
    ints = (-1, 0, 1, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1)
    if attr.kind == "int":
        yield from ints
    elif attr.kind == "list(int)":
        yield []
        yield from ([n] * max(len(value or []), 1) for n in ints)
        yield [*(value or []), 1]
    elif attr.kind == "float":
        yield from (-1.0, 0.0, 1e30, float("nan"), float("inf"), float("-inf"))
    elif attr.kind == "list(float)":
        yield []
        yield from ([x] * max(len(value or []), 1) for x in (-1.0, 0.0, 1e30, float("nan"), float("inf")))
    elif attr.kind == "bool":
        yield not value
    elif attr.kind == "string":
        yield from ("", "no such thing", b"\xff\x00")
    elif attr.kind == "shape":
        yield from ([], [None], [-1], [0], [1 << 40, 1 << 40], None)


def attempt_attrs(sample):
    """Each attribute in turn, replaced by wrong values."""
    opdef = OPS[sample.op]
    for name in opdef.explicit_attrs:
        attr = opdef.attrs[name]
        given = sample.attrs.get(name, None if attr.default is REQUIRED else attr.default)
        for wrong in attr_mutations(attr, given):
            attempt(dataclasses.replace(sample, attrs={**sample.attrs, name: wrong}), sample.inputs)


def attempt_together(sample):
    """All inputs at once, replaced by the same kind of mutation."""
    for number in range(8):
        def wrong(array, number=number):
            found = list(mutations(array))
            return found[number % len(found)]
        attempt(sample, [[wrong(a) for a in v] if isinstance(v, list) else wrong(v) for v in sample.inputs])


def attempt_all(sample):
    """Each input in turn, replaced by each of its mutations."""
    for k, v in enumerate(sample.inputs):
        items = v if isinstance(v, list) else [v]
        for j, item in enumerate(items[:2]):
            for wrong in mutations(item):
                replaced = [*items[:j], wrong, *items[j + 1:]] if isinstance(v, list) else wrong
                attempt(sample, [*sample.inputs[:k], replaced, *sample.inputs[k + 1:]])


@pytest.mark.parametrize("sample", FIRST, ids=[s.op for s in FIRST])
def test_hostile_arguments(sample):
    attempt_all(sample)
    attempt_together(sample)


@pytest.mark.parametrize("sample", FIRST, ids=[s.op for s in FIRST])
def test_hostile_attributes(sample):
    attempt_attrs(sample)


@pytest.mark.slow
@pytest.mark.parametrize("sample", OTHERS, ids=ids(OTHERS))
def test_hostile_arguments_of_other_samples(sample):
    attempt_all(sample)
    attempt_together(sample)
    attempt_attrs(sample)
