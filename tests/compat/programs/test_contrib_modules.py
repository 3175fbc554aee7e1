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


def test_folders_that_hold_modules_of_ours_have_their_own_names():
    from tensorflow.contrib.learn.python import learn
    from tensorflow.contrib.learn.python.learn import LinearRegressor

    import penstock.compat.v1 as tf
    assert LinearRegressor is learn.LinearRegressor is tf.contrib.learn.LinearRegressor


@pytest.mark.parametrize("module, name", [("summary.summary", "scalar"), ("predictor.predictor_factories", "from_saved_model"),
                                          ("graph_editor.select", "get_backward_walk_ops"),
                                          ("session_bundle.exporter", "Exporter")])
def test_modules_beside_the_folder_python(module, name):
    found = importlib.import_module(f"tensorflow.contrib.{module}")
    package = importlib.import_module(f"tensorflow.contrib.{module.partition('.')[0]}")
    assert callable(getattr(found, name))
    assert getattr(package, name, getattr(found, name)) is getattr(found, name)


def test_modules_of_ops_hold_those_that_they_import():
    from tensorflow.python.ops import rnn_cell_impl
    from tensorflow.python.ops.rnn import rnn_cell_impl as imported
    assert imported is rnn_cell_impl and callable(imported._Linear)


def test_events_of_the_c_library(tmp_path):
    from tensorflow.core.util import event_pb2
    from tensorflow.python import pywrap_tensorflow

    import penstock.compat.v1 as tf
    writer = pywrap_tensorflow.EventsWriter(str(tmp_path / "events").encode())
    summary = tf.Summary(value=[tf.Summary.Value(tag="loss", simple_value=0.5)])
    writer.WriteEvent(event_pb2.Event(wall_time=1.0, step=3, summary=summary))
    assert writer.Flush() and writer.Close()
    first, second = tf.train.summary_iterator(writer_path := next(str(p) for p in tmp_path.iterdir()))
    assert ".out.tfevents." in writer_path and first.file_version == "brain.Event:2"
    assert (second.step, second.summary.value[0].tag, second.summary.value[0].simple_value) == (3, "loss", 0.5)


def test_module_that_is_called_as_its_function():
    from tensorflow.contrib.sparsemax.python.ops import sparsemax
    assert sparsemax([[0.0, 10.0]]).shape == (1, 2)


def test_module_that_cannot_be_called():
    from tensorflow.contrib.rnn.python.ops import rnn
    with pytest.raises(NotImplementedError, match="rnn"):
        rnn()


def test_the_folder_of_keras_in_contrib():
    from tensorflow.contrib.keras.api.keras import models
    from tensorflow.contrib.keras.api.keras.layers import Dense

    import penstock.compat.v1 as tf
    assert models.Sequential is tf.keras.models.Sequential and Dense is tf.keras.layers.Dense
