"""Modules below tensorflow.contrib.NAME.python: which names are modules, and which are functions."""
import importlib
import types

import pytest

from penstock._src.compat.programs import importer


@pytest.fixture(autouse=True)
def in_place():
    with importer.in_place("v1"):
        yield


@pytest.mark.parametrize("module, name", [
    ("slim.python.slim.learning", "create_train_op"), ("slim.python.slim.data.prefetch_queue", "prefetch_queue"),
    ("framework.python.ops", "arg_scope"), ("layers.python.layers", "batch_norm"),
    ("framework.python.ops.variables", "get_or_create_global_step"), ("rnn.python.ops.rnn", "stack_bidirectional_dynamic_rnn"),
    ("sparsemax.python.ops.sparsemax", "sparsemax"), ("crf.python.ops.crf", "crf_decode"),
    ("image.python.ops.dense_image_warp", "dense_image_warp")])
def test_functions(module, name):
    package, _, last = f"tensorflow.contrib.{module}".rpartition(".")
    found = getattr(importlib.import_module(package), last)
    assert isinstance(found, types.ModuleType)
    assert isinstance(getattr(found, name), types.FunctionType)


def test_estimators_of_the_package_that_held_them():
    import tensorflow_estimator as package
    from tensorflow_estimator.contrib.estimator.python.estimator import extenders
    from tensorflow_estimator.python.estimator import estimator
    from tensorflow_estimator.python.estimator.canned import head

    import penstock.compat.v1 as tf
    assert package.estimator.Estimator is estimator.Estimator is tf.estimator.Estimator
    assert extenders.clip_gradients_by_norm is tf.contrib.estimator.clip_gradients_by_norm
    assert callable(head._regression_head)


def test_module_that_is_called_as_its_function():
    from tensorflow.contrib.sparsemax.python.ops import sparsemax
    assert sparsemax([[0.0, 10.0]]).shape == (1, 2)


def test_module_that_cannot_be_called():
    from tensorflow.contrib.rnn.python.ops import rnn
    with pytest.raises(NotImplementedError, match="rnn"):
        rnn()
