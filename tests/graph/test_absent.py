"""Attributes of NumPy's arrays and PyTorch's tensors that tensors do not have."""
import inspect

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.graph.absent import _INSTEAD


@pytest.mark.parametrize("name", _INSTEAD)
def test_the_error_names_what_to_call(name):
    """Also on classes; and `hasattr` is still False."""
    x = tf.ones([2])
    with pytest.raises(AttributeError, match=f"no attribute '{name}': use ") as caught:
        getattr(x, name)
    assert caught.value.name == name and caught.value.obj is x
    assert not hasattr(x, name) and not hasattr(tf.Tensor, name) and name not in dir(x)


def test_a_symbolic_tensor_has_no_value():
    with v1.Graph().as_default():
        x = v1.constant(1.0)
        with pytest.raises(AttributeError, match="no value before its function or session runs"):
            x.numpy()
        assert "numpy" not in dir(x) and not hasattr(x, "numpy")
        for convert in (float, int):
            with pytest.raises(TypeError, match="as a number"):
                convert(x)
    assert "numpy" in dir(tf.constant(1.0)) and tf.constant(1.0).numpy() == 1.0


def test_attributes_of_instances_and_arrays_are_as_before():
    x = tf.ones([2])
    x.data = "own"
    assert x.data == "own" and "data" in dir(x)
    np.testing.assert_array_equal(np.asarray(tf.ones([2])), [1, 1])
    assert [n for n, _ in inspect.getmembers(x) if n in _INSTEAD] == ["data"]
