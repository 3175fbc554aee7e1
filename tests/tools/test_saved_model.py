"""`penstock saved-model`: show, run, freeze, convert."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock_cli import main
from tests.serving.models import half_plus


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return half_plus(tmp_path_factory.mktemp("model"), 1)


def done(capsys, *args):
    assert main(["saved-model", *map(str, args)]) == 0
    return capsys.readouterr().out


def failed(capsys, *args):
    assert main(["saved-model", *map(str, args)]) == 1
    return capsys.readouterr().err


def test_show(model, capsys):
    assert done(capsys, "show", "--dir", model) == "The given SavedModel contains the following tag-sets:\n'serve'\n"
    keys = done(capsys, "show", "--dir", model, "--tag_set", "serve")
    assert 'SignatureDef key: "both"\nSignatureDef key: "classify"' in keys
    assert done(capsys, "show", "--dir", model, "--tag_set", "serve", "--signature_def", "serving_default") == (
        "The given SavedModel SignatureDef contains the following input(s):\n  inputs['x'] tensor_info:\n"
        "      dtype: DT_FLOAT\n      shape: (-1)\n      name: x:0\n"
        "The given SavedModel SignatureDef contains the following output(s):\n  outputs['y'] tensor_info:\n"
        "      dtype: DT_FLOAT\n      shape: (-1)\n      name: add_1:0\nMethod name is: tensorflow/serving/predict\n")
    everything = done(capsys, "show", "--dir", model, "--all", "--list_ops")
    assert "MetaGraphDef with tag-set: 'serve' contains" in everything and "signature_def['regress']:" in everything
    assert "'ParseExample" in everything
    assert "could not be found" in failed(capsys, "show", "--dir", model, "--tag_set", "train")
    assert "choose from" in failed(capsys, "show", "--dir", model, "--tag_set", "serve", "--signature_def", "none")


def test_run(model, capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.float32([1, 2]))
    np.savez(tmp_path / "x.npz", a=np.float32([3]), b=np.float32([4]))
    for given, expected in ((("--inputs", f"x={tmp_path}/x.npy"), "[2.5 3. ]"),
                            (("--inputs", f"x={tmp_path}/x.npz[b]"), "[4.]"), (("--input_exprs", "x=[5.0]"), "[4.5]"),
                            (("--input_exprs", "x=np.ones((2,))"), "[2.5 2.5]")):
        assert done(capsys, "run", "--dir", model, *given) == f"Result for output key y:\n{expected}\n"
    examples = ["--signature_def", "regress", "--input_examples", "inputs=[{'x': [2.0]}, {'x': [4.0]}]"]
    assert "[[3.]\n [4.]]" in done(capsys, "run", "--dir", model, *examples)
    done(capsys, "run", "--dir", model, "--input_exprs", "x=[5.0]", "--outdir", tmp_path / "out")
    assert np.load(tmp_path / "out" / "y.npy").tolist() == [4.5]
    assert "--overwrite" in failed(capsys, "run", "--dir", model, "--input_exprs", "x=[5.0]", "--outdir", tmp_path / "out")


@pytest.mark.parametrize("given, words", [
    ("x=__import__('os').system('true')", "neither a Python literal"), ("x", "not KEY=VALUE"), ("z=[1.0]", "unknown: ['z']"),
    ("", "missing: ['x']")])
def test_inputs_that_are_wrong(model, capsys, given, words):
    assert words in failed(capsys, "run", "--dir", model, "--input_exprs", given)


def run_frozen(path, feeds, fetches):
    graph_def = tf.GraphDef.FromString(path.read_bytes())
    assert not graph_def.library.function and not {n.op for n in graph_def.node} & {"VarHandleOp", "VariableV2"}
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        tf.import_graph_def(graph_def, name="")
        return sess.run(fetches, {graph.get_tensor_by_name(k): v for k, v in feeds.items()})


def test_freeze(model, capsys, tmp_path):
    said = done(capsys, "freeze", "--dir", model, "--output", tmp_path / "g.pb")
    assert said == "inputs: x = x:0\noutputs: y = add_1:0\n"
    assert run_frozen(tmp_path / "g.pb", {"x:0": [4.0]}, "add_1:0").tolist() == [4.0]


def test_freeze_functions_and_loops_that_read_variables(capsys, tmp_path):
    class Model(tf2.Module):
        def __init__(self):
            self.w = tf2.Variable([[0.5, 1.0], [0.25, -1.0]])

        @tf2.function(input_signature=[tf2.TensorSpec([None, 2], tf2.float32, "x"), tf2.TensorSpec([], tf2.int32, "n")])
        def __call__(self, x, n):
            for _ in tf2.range(n):
                if tf2.reduce_sum(x) > 0:
                    x = tf2.matmul(x, self.w)
            return {"y": x}
    model = Model()
    tf2.saved_model.save(model, str(tmp_path / "m"), {"serving_default": model.__call__})
    x = np.float32([[1, 2], [3, 4]])
    expected = model(tf2.constant(x), tf2.constant(3))["y"].numpy()
    names = dict(part.split(" = ") for line in done(capsys, "freeze", "--dir", tmp_path / "m", "--output", tmp_path / "g.pb")
                 .splitlines() for part in line.split(": ")[1].split(", "))
    graph_def = tf.GraphDef.FromString((tmp_path / "g.pb").read_bytes())
    assert not {n.op for n in graph_def.node} & {"VarHandleOp", "StatefulPartitionedCall", "While"}
    found = run_frozen(tmp_path / "g.pb", {names["x"]: x, names["n"]: 3}, names["y"])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_convert(capsys, tmp_path):
    model = tf2.keras.Sequential([tf2.keras.layers.Input((3,)), tf2.keras.layers.Dense(2)])
    model.save(str(tmp_path / "m.keras"))
    done(capsys, "convert", "--input", tmp_path / "m.keras", "--output", tmp_path / "m")
    x = np.float32([[1, 2, 3]])
    found, = tf2.saved_model.load(str(tmp_path / "m")).signatures["serving_default"](tf2.constant(x)).values()
    np.testing.assert_allclose(found.numpy(), model(x).numpy(), rtol=1e-6)
    with tf.Graph().as_default() as graph:
        tf.multiply(tf.placeholder(tf.float32, [None], "x"), 2.0, name="y")
    (tmp_path / "g.pb").write_bytes(graph.as_graph_def().SerializeToString())
    done(capsys, "convert", "--input", tmp_path / "g.pb", "--output", tmp_path / "s")
    assert "[6.]" in done(capsys, "run", "--dir", tmp_path / "s", "--input_exprs", "x=[3.0]")
    assert "exists" in failed(capsys, "convert", "--input", tmp_path / "g.pb", "--output", tmp_path / "s")
