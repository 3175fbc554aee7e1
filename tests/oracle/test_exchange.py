"""Files of every format between penstock and real TensorFlow, in both directions (`make oracle` runs this)."""
import glob
import os
import subprocess

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from tests.oracle.exchange_values import DTYPES, EXAMPLE, LARGE, RECORDS, array, frozen_graph, large, same, same_bits

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("PENSTOCK_ORACLE", os.path.join(HERE, "..", "..", ".oracle", "bin", "python"))
pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]


def ask(what, folder):
    done = subprocess.run([PYTHON, os.path.join(HERE, "exchange_tf.py"), what, str(folder)], capture_output=True, text=True,
                          timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def tensors():
    out = {f"t/{n}": tf.constant(array(n), tf.as_dtype(n)) for n in DTYPES}
    out["t/string"] = tf.constant([[b"a", b""], [b"\x00\xff", b"x" * 300]])
    return out


def save_objects(path):
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(array("float32", (2, 3)))
            self.parts = [tf.Variable(2.0)]

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
        def f(self, x):
            y = tf.matmul(x, self.w)
            for _ in tf.range(3):
                y = y * self.parts[0]
            return {"y": y}
    model = Model()
    tf.saved_model.save(model, path, signatures=model.f)


def test_tensorflow_reads_what_we_write(tmp_path):
    ours = str(tmp_path / "ours")
    os.makedirs(ours)
    values, whole = tensors(), array("float32", (6, 4))
    tf.raw_ops.SaveV2(prefix=f"{ours}/v2", tensor_names=[*values, "p", "p", "p"],
                      shape_and_slices=[""] * len(values) + ["6 4 0,2:-", "6 4 2,4:0,3", "6 4 2,4:3,1"],
                      tensors=[*values.values(), *map(tf.constant, (whole[:2], whole[2:, :3], whole[2:, 3:]))])
    tf.train.Checkpoint(a=tf.Variable(array("float32")), parts=[tf.Variable(3)]).write(f"{ours}/objects")
    with tf.Graph().as_default(), v1.Session() as sess:
        a = v1.get_variable("a", initializer=array("float32"), use_resource=False)
        v1.get_variable("b", initializer=array("int32"), use_resource=False)
        sess.run(v1.global_variables_initializer())
        v1.train.Saver(write_version=v1.train.SaverDef.V1).save(sess, f"{ours}/v1")
        v1.train.Saver().save(sess, f"{ours}/meta")
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        v1.saved_model.simple_save(sess, f"{ours}/model1", {"x": x}, {"y": tf.add(x, tf.reduce_sum(a), name="y")})
    for kind in ("", "GZIP", "ZLIB"):
        with tf.io.TFRecordWriter(f"{ours}/records{kind}", kind) as w:
            for r in RECORDS:
                w.write(r)
    example = v1.train.Example()
    for k, (kind, v) in EXAMPLE.items():
        getattr(example.features.feature[k], kind).value.extend(v)
    tf.io.write_file(f"{ours}/example", example.SerializeToString())
    writer = tf.summary.create_file_writer(f"{ours}/events")
    with writer.as_default():
        for step in range(3):
            tf.summary.scalar("loss", step * 0.5, step=step)
    writer.close()
    with tf.Graph().as_default() as g, v1.Session() as sess:
        y = frozen_graph(v1)
        v1.io.write_graph(g, ours, "frozen.pb", as_text=False)
        np.save(f"{ours}/frozen.npy", sess.run(y, {"x:0": array("float32", (2, 8, 8, 3))}))
    save_objects(f"{ours}/model2")
    ask("read", tmp_path)


def test_we_read_what_tensorflow_writes(tmp_path):
    ask("write", tmp_path)
    theirs = str(tmp_path / "theirs")
    reader = tf.train.load_checkpoint(f"{theirs}/v2")
    for name, value in tensors().items():
        assert same(reader.get_tensor(name), value.numpy()), name
    assert same(reader.get_tensor("p"), array("float32", (6, 4)))
    a, parts = tf.Variable(tf.zeros([2, 3])), [tf.Variable(0)]
    tf.train.Checkpoint(a=a, parts=parts).read(f"{theirs}/objects").assert_consumed()
    assert same(a.numpy(), array("float32")) and parts[0].numpy() == 3
    reader = v1.train.NewCheckpointReader(f"{theirs}/v1")
    assert same(reader.get_tensor("a"), array("float32")) and same(reader.get_tensor("b"), array("int32"))
    with tf.Graph().as_default(), v1.Session() as sess:
        v1.train.import_meta_graph(f"{theirs}/meta.meta").restore(sess, f"{theirs}/meta")
        assert same(sess.run(v1.global_variables()[0]), array("float32"))
    with tf.Graph().as_default(), v1.Session() as sess:
        loaded = v1.saved_model.load(sess, ["serve"], f"{theirs}/model1").signature_def["serving_default"]
        got = sess.run(loaded.outputs["y"].name, {loaded.inputs["x"].name: [[1.0, 2.0]]})
        np.testing.assert_allclose(got, np.array([[1.0, 2.0]]) + array("float32").sum(), rtol=1e-6)
    for kind in ("", "GZIP", "ZLIB"):
        assert list(v1.io.tf_record_iterator(f"{theirs}/records{kind}", kind)) == RECORDS
    features = v1.train.Example.FromString(tf.io.read_file(f"{theirs}/example").numpy()).features.feature
    for k, (kind, v) in EXAMPLE.items():
        assert list(getattr(features[k], kind).value) == v
    path, = glob.glob(f"{theirs}/events/*")
    found = [(e.step, v.tag, float(v1.make_ndarray(v.tensor))) for e in v1.train.summary_iterator(path)
             for v in e.summary.value]
    assert found == [(0, "loss", 0.0), (1, "loss", 0.5), (2, "loss", 1.0)]
    with tf.Graph().as_default(), v1.Session() as sess, open(f"{theirs}/frozen.pb", "rb") as f:
        y, = v1.import_graph_def(v1.GraphDef.FromString(f.read()), return_elements=["y:0"], name="")
        got = sess.run(y, {"x:0": array("float32", (2, 8, 8, 3))})
    np.testing.assert_allclose(got, np.load(f"{theirs}/frozen.npy"), atol=1e-5)
    model, x = tf.saved_model.load(f"{theirs}/model2"), tf.constant([[1.0, 2.0]])
    want = np.array([[1.0, 2.0]]) @ array("float32", (2, 3)) * 8
    np.testing.assert_allclose(model.f(x)["y"], want, rtol=1e-6)
    np.testing.assert_allclose(model.signatures["serving_default"](x=x)["y"], want, rtol=1e-6)
    assert model.look(tf.constant(["b", "q"])).numpy().tolist() == [2, -1]


def test_a_gigabyte_in_both_directions(tmp_path):
    os.makedirs(tmp_path / "ours")
    tf.raw_ops.SaveV2(prefix=str(tmp_path / "ours/large"), tensor_names=LARGE, shape_and_slices=[""] * len(LARGE),
                      tensors=[tf.constant(large(n)) for n in LARGE])
    ask("read_large", tmp_path)
    for file in glob.glob(str(tmp_path / "ours/*")):
        os.unlink(file)
    ask("write_large", tmp_path)
    reader = tf.train.load_checkpoint(str(tmp_path / "theirs/large"))
    for name in LARGE:
        assert same_bits(reader.get_tensor(name), large(name)), name


def test_a_frozen_image_classifier(tmp_path):
    ask("classifier", tmp_path)
    known = np.load(tmp_path / "theirs/classifier.npz")
    with tf.Graph().as_default(), v1.Session() as sess:
        graph_def = v1.GraphDef.FromString((tmp_path / "theirs/classifier.pb").read_bytes())
        assert sum(n.op == "Conv2D" for n in graph_def.node) == 94
        x, logits = v1.import_graph_def(graph_def, return_elements=[str(n) for n in known["names"]], name="")
        found = sess.run(logits, {x: known["images"]})
    want = known["logits"]
    assert want.shape == (2, 1000) and want.std() > 1e-3
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())
