"""The programs of steps as text: Session.explain and `penstock explain`."""
import numpy as np
import pytest

import penstock.compat.v1 as tf
from penstock_cli import main


@pytest.fixture
def model():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        w = tf.Variable(np.ones((3, 2), np.float32), name="w", use_resource=False)
        tf.nn.relu(tf.matmul(x, w) + tf.constant([1., 2.]), name="y")
        yield graph


def test_kernels_shapes_and_constants_are_named(model):
    with tf.Session(graph=model) as sess:
        text = sess.explain("y:0", {"x:0": None})
    assert "f0: x:0 float32[?,3]" in text
    assert "FusedMatMul(f0, " in text and "y: _FusedMatMul -> float32[?,2]" in text
    assert "[1.0, 2.0] float32[2]" in text and "<variable w" in text


def test_devices_are_named_where_there_are_several(model):
    with tf.Session(graph=model, config=tf.ConfigProto(device_count={"CPU": 2}, inter_op_parallelism_threads=1)) as sess:
        assert "device:CPU:0" in sess.explain("y:0", {"x:0": None})


@pytest.mark.parametrize("text", [False, True])
def test_the_command(model, tmp_path, capsys, text):
    tf.train.write_graph(model, str(tmp_path), "graph.pbtxt" if text else "graph.pb", as_text=text)
    path = str(tmp_path / ("graph.pbtxt" if text else "graph.pb"))
    assert main(["explain", path, "--fetch", "y:0", "--feed", "x"]) == 0
    assert "FusedMatMul" in capsys.readouterr().out
    assert main(["explain", path, "--fetch", "y", "--plain"]) == 0
    assert "Relu(" in capsys.readouterr().out


def test_mistakes_are_said_in_one_line(model, tmp_path, capsys):
    assert main(["explain", str(tmp_path / "no.pb"), "--fetch", "y"]) == 1
    assert "no.pb" in capsys.readouterr().err
    tf.train.write_graph(model, str(tmp_path), "graph.pb", as_text=False)
    assert main(["explain", str(tmp_path / "graph.pb"), "--fetch", "nothing"]) == 1
    assert "nothing" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "Show the program" in capsys.readouterr().out
