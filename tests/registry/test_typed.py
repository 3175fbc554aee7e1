"""Every op answers text, zeros and strange types with a result or one of tf.errors; mistakes of kernels are InternalErrors."""
import dataclasses

import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock._src.graph.failure import kind
from penstock._src.ops.registry import OPS
from tests.registry.load import all_samples
from tests.registry.running import eager
from tests.registry.sample import SAMPLES

all_samples()
FIRST = [many[0] for many in SAMPLES.values()]
TYPES = ("string", "bool", "complex64", "int8", "uint64", "bfloat16", "qint8")


def texts(array):
    out = np.empty(np.shape(array), object)
    out.reshape(-1)[:] = [b"ab"] * out.size
    return out


def zeros(array):
    array = np.asarray(array)
    return np.zeros_like(array) if array.dtype != object else np.full(array.shape, b"", object)


def replaced(sample):
    """Each input in turn, and all of them, as text and as zeros; each type as another."""
    for change in (texts, zeros):
        new = [[change(x) for x in v] if isinstance(v, list) else change(v) for v in sample.inputs]
        for k in range(len(new)):
            yield dataclasses.replace(sample, inputs=(*sample.inputs[:k], new[k], *sample.inputs[k + 1:]))
        yield dataclasses.replace(sample, inputs=tuple(new))
    for name in OPS[sample.op].explicit_attrs:
        if OPS[sample.op].attrs[name].kind == "type":
            for dtype in TYPES:
                yield dataclasses.replace(sample, attrs={**sample.attrs, name: tf.as_dtype(dtype)})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sample", FIRST, ids=[s.op for s in FIRST])
def test_strange_arguments(sample):
    for changed in replaced(sample):
        try:
            eager(changed)
        except tf.errors.InternalError as e:
            raise AssertionError(f"{sample.op}: a mistake of the kernel: {e}") from e
        except (tf.errors.OpError, ValueError, TypeError):
            pass


@pytest.mark.parametrize("error, expected", [
    (KeyError("a"), tf.errors.InternalError), (ZeroDivisionError(), tf.errors.InternalError),
    (NameError("x"), tf.errors.InternalError), (AttributeError("no", name="dim", obj=3), tf.errors.InternalError),
    (AttributeError("no", name="dim", obj=np.empty(1, object)), tf.errors.UnimplementedError),
    (RecursionError(), tf.errors.ResourceExhaustedError), (MemoryError(), tf.errors.ResourceExhaustedError),
    (RuntimeError("shape"), tf.errors.InvalidArgumentError), (ValueError("shape"), tf.errors.InvalidArgumentError)])
def test_the_kind_of_an_error(error, expected):
    assert kind(error) is expected
