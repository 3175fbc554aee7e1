"""penstock.onnx.export: what it accepts, how it fails, the command, the table in the documentation."""
import importlib.util
import pathlib
import sys

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.onnx import messages
from penstock_cli import main

DOCS = pathlib.Path(__file__).parents[2] / "docs"
needs_onnx = pytest.mark.skipif(not importlib.util.find_spec("onnxruntime"), reason="onnxruntime is not installed")


def double():
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
    def call(x):
        return {"y": x * tf.constant(np.float32(np.arange(400, 802)).reshape(201, 2))[:1]}
    return call


def test_documentation_has_the_table():
    text = (DOCS / "onnx.md").read_text()
    assert tf.onnx.supported_ops() in text, "print(penstock.onnx.supported_ops()) into docs/onnx.md"


def test_without_the_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"penstock\[onnx\]"):
        tf.onnx.export(double(), tmp_path / "m.onnx")


@needs_onnx
def test_all_ops_that_onnx_lacks_are_listed(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def call(x):
        y = tf.math.igamma(x, x)                                       # noqa: F841
        for _ in tf.range(3):
            x = tf.math.bessel_i0(x)
        return tf.math.lgamma(x) + tf.math.lgamma(2 * x) + y
    with pytest.raises(tf.errors.UnimplementedError) as e:
        tf.onnx.export(call, tmp_path / "m.onnx")
    text = str(e.value)
    assert "(BesselI0, Igamma, Lgamma)" in text and text.count("there is no rule for it") == 4
    assert "test_export.py" in text and not (tmp_path / "m.onnx").exists()


@needs_onnx
def test_normalization_in_training_says_why(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec([None, 4, 4, 2], tf.float32)])
    def call(x):
        return tf1.nn.fused_batch_norm(x, [1.0, 1.0], [0.0, 0.0])[0]
    with pytest.raises(tf.errors.UnimplementedError, match="statistics of its batch"):
        tf.onnx.export(call, tmp_path / "m.onnx")


@needs_onnx
def test_arguments_that_are_wrong(tmp_path):
    with pytest.raises(ValueError, match="opset must be between 18 and"):
        tf.onnx.export(double(), tmp_path / "m.onnx", opset=9)
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="no signature 'other'; it has"):
        tf.onnx.export(model, tmp_path / "m.onnx", signature="other")


@needs_onnx
def test_inputs_of_unknown_rank(tmp_path):
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, "x")])
    def call(x):
        return x + 1.0
    with pytest.raises(tf.errors.UnimplementedError, match="rank of the input x"):
        tf.onnx.export(call, tmp_path / "m.onnx")


@needs_onnx
@pytest.mark.parametrize("opset", [18, 19, 20, 21])
def test_versions(opset, tmp_path):
    from tests.onnx.running import agree
    made = agree(double(), tmp_path, [{"x": np.float32([[1, 2], [3, 4]])}], opset=opset)
    assert made.opset_import[0].version == opset


@needs_onnx
def test_large_constants_are_in_a_file_beside(tmp_path, monkeypatch):
    from tests.onnx.running import agree
    weights = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, 40], tf.float32, "x")])
    def call(x):
        return tf.matmul(x, weights)
    feeds = [{"x": np.ones((n, 40), np.float32)} for n in (1, 3)]
    agree(call, tmp_path, feeds)
    assert not (tmp_path / "model.onnx.data").exists()
    monkeypatch.setattr(messages, "LIMIT", 5000)
    agree(call, tmp_path, feeds)
    assert (tmp_path / "model.onnx.data").stat().st_size >= weights.nbytes
    with pytest.raises(tf.errors.InvalidArgumentError, match="external_data"):
        tf.onnx.export(call, tmp_path / "n.onnx", external_data=False)


@needs_onnx
def test_command(tmp_path, capsys):
    from tests.onnx.running import session
    with tf1.Graph().as_default() as graph:
        tf1.multiply(tf1.placeholder(tf1.float32, [None], "x"), 2.0, name="y")
    (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    module = tf.Module()
    module.f = double()
    tf.saved_model.save(module, str(tmp_path / "m"), {"twice": module.f})
    for given, signature, x in (("g.pb", "serving_default", [3]), ("m", "twice", [[1, 2]])):
        target = tmp_path / f"{given}.onnx"
        args = ["convert", "--to", "onnx", "--input", tmp_path / given, "--output", target, "--signature_def", signature]
        assert main(["saved-model", *map(str, args)]) == 0
        assert capsys.readouterr().out == f"inputs: x\noutputs: y\nONNX file written to: {target}\n"
        found, = session(target).run(None, {"x": np.float32(x)})
        np.testing.assert_array_equal(found, np.float32(x) * (2 if given == "g.pb" else np.float32([400, 401])))
    assert main(["saved-model", *map(str, args)]) == 1 and "exists" in capsys.readouterr().err
