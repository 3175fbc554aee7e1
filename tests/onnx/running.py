"""Exports models and runs the files with onnxruntime."""
import numpy as np
import onnxruntime

import penstock as tf


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def agree(model, folder, feeds, expected=None, tol=1e-4, **options):
    """Exports a model, and compares what onnxruntime computes for each of the feeds with what the model computes.

    Returns the exported message. Feeds are dictionaries of arrays by the names of inputs."""
    path = folder / "model.onnx"
    path.unlink(missing_ok=True)
    made = tf.onnx.export(model, path, **options)
    runner = session(path)
    names = [o.name for o in runner.get_outputs()]
    for i, feed in enumerate(feeds):
        found = dict(zip(names, runner.run(None, feed), strict=True))
        wanted = expected[i] if expected is not None else called(model, feed)
        if not isinstance(wanted, dict):
            flat = wanted if isinstance(wanted, (list, tuple)) else [wanted]
            wanted = dict(zip(names, flat, strict=True))
        assert set(wanted) == set(found)
        for key, value in wanted.items():
            value = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
            assert found[key].dtype == value.dtype or value.dtype == object
            np.testing.assert_allclose(found[key].astype(value.dtype), value, rtol=tol, atol=tol) \
                if value.dtype.kind in "fiu" else np.testing.assert_array_equal(found[key], value)
            assert found[key].shape == value.shape
    return made


def called(model, feed):
    if isinstance(model, tf.keras.Model):
        values = list(feed.values())
        return model(values[0] if len(values) == 1 else feed)
    return model(**{k: tf.constant(v) for k, v in feed.items()})


def batches(name, shape, seed=0, sizes=(2, 3)):
    """Feeds with one input of normal numbers, of two batch sizes."""
    draw = np.random.default_rng(seed)
    return [{name: draw.normal(size=(n, *shape)).astype(np.float32)} for n in sizes]


def types(model):
    """The operators of a model, without those of bodies."""
    return [n.op_type for n in model.graph.node]
