"""Runs in the environment of real TensorFlow: `python exchange_tf.py write|read|write_large|read_large|classifier FOLDER`.

`write` makes files of every format for penstock to read; `read` checks those that penstock has written; with `_large`,
a checkpoint of a gigabyte. `classifier` makes the frozen graph of an image classifier. Both sides make the
same values from the same rules (`exchange_values.py`), so that only files pass between them.
"""
from __future__ import annotations

import glob
import os
import sys

import numpy as np
import tensorflow as tf
from exchange_values import DTYPES, EXAMPLE, LARGE, RECORDS, array, frozen_graph, large, same, same_bits

v1 = tf.compat.v1


def tensors():
    """Every dtype, under its name; text too."""
    out = {f"t/{n}": tf.constant(array(n), tf.as_dtype(n)) for n in DTYPES}
    out["t/string"] = tf.constant([[b"a", b""], [b"\x00\xff", b"x" * 300]])
    return out


def write(folder):
    values = tensors()
    for part in ("6 4 0,2:-", "6 4 2,4:0,3", "6 4 2,4:3,1"):
        values.setdefault("parts", []).append(part)
    parts = values.pop("parts")
    whole = array("float32", (6, 4))
    sliced = [whole[:2], whole[2:, :3], whole[2:, 3:]]
    tf.raw_ops.SaveV2(prefix=f"{folder}/theirs/v2", tensor_names=[*values, "p", "p", "p"],
                      shape_and_slices=[""] * len(values) + parts, tensors=[*values.values(), *sliced])
    tf.train.Checkpoint(a=tf.Variable(array("float32")), parts=[tf.Variable(3)]).write(f"{folder}/theirs/objects")
    with tf.Graph().as_default(), v1.Session() as sess:
        a = v1.get_variable("a", initializer=array("float32"))
        v1.get_variable("b", initializer=array("int32"))
        sess.run(v1.global_variables_initializer())
        v1.train.Saver(write_version=v1.train.SaverDef.V1).save(sess, f"{folder}/theirs/v1")
        v1.train.Saver().save(sess, f"{folder}/theirs/meta")
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        v1.saved_model.simple_save(sess, f"{folder}/theirs/model1", {"x": x}, {"y": tf.add(x, tf.reduce_sum(a), name="y")})
    for kind in ("", "GZIP", "ZLIB"):
        with tf.io.TFRecordWriter(f"{folder}/theirs/records{kind}", kind) as w:
            for r in RECORDS:
                w.write(r)
    with open(f"{folder}/theirs/example", "wb") as f:
        f.write(tf.train.Example(features=tf.train.Features(feature={
            k: tf.train.Feature(**{kind: getattr(tf.train, {"bytes_list": "BytesList", "float_list": "FloatList",
                                                            "int64_list": "Int64List"}[kind])(value=v)})
            for k, (kind, v) in EXAMPLE.items()})).SerializeToString())
    writer = tf.summary.create_file_writer(f"{folder}/theirs/events")
    with writer.as_default():
        for step in range(3):
            tf.summary.write("loss", tf.constant(step * 0.5), step=step)
    writer.close()
    with tf.Graph().as_default() as g, v1.Session() as sess:
        y = frozen_graph(v1)
        with open(f"{folder}/theirs/frozen.pb", "wb") as f:
            f.write(g.as_graph_def().SerializeToString())
        np.save(f"{folder}/theirs/frozen.npy", sess.run(y, {"x:0": array("float32", (2, 8, 8, 3))}))
    save_objects(tf, f"{folder}/theirs/model2")


def save_objects(tf, path):
    """A module with functions, a table and a signature."""
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(array("float32", (2, 3)))
            self.parts = [tf.Variable(2.0)]
            self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
        def f(self, x):
            y = tf.matmul(x, self.w)
            for _ in tf.range(3):
                y = y * self.parts[0]
            return {"y": y}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def look(self, k):
            return self.table.lookup(k)
    model = Model()
    tf.saved_model.save(model, path, signatures=model.f)


def read(folder):
    reader = tf.train.load_checkpoint(f"{folder}/ours/v2")
    for name, value in tensors().items():
        assert same(reader.get_tensor(name), value.numpy()), name
    assert same(reader.get_tensor("p"), array("float32", (6, 4)))
    a, parts = tf.Variable(tf.zeros([2, 3])), [tf.Variable(0)]
    tf.train.Checkpoint(a=a, parts=parts).read(f"{folder}/ours/objects").assert_consumed()
    assert same(a.numpy(), array("float32")) and parts[0].numpy() == 3
    with tf.Graph().as_default(), v1.Session() as sess:
        saver = v1.train.import_meta_graph(f"{folder}/ours/meta.meta")
        saver.restore(sess, f"{folder}/ours/meta")
        assert same(sess.run("a:0"), array("float32")) and same(sess.run("b:0"), array("int32"))
    reader = v1.train.NewCheckpointReader(f"{folder}/ours/v1")
    assert same(reader.get_tensor("a"), array("float32")) and same(reader.get_tensor("b"), array("int32"))
    with tf.Graph().as_default(), v1.Session() as sess:
        loaded = v1.saved_model.load(sess, ["serve"], f"{folder}/ours/model1").signature_def["serving_default"]
        got = sess.run(loaded.outputs["y"].name, {loaded.inputs["x"].name: [[1.0, 2.0]]})
        assert np.allclose(got, np.array([[1.0, 2.0]]) + array("float32").sum())
    for kind in ("", "GZIP", "ZLIB"):
        assert list(v1.io.tf_record_iterator(f"{folder}/ours/records{kind}", kind)) == RECORDS
    with open(f"{folder}/ours/example", "rb") as f:
        features = tf.train.Example.FromString(f.read()).features.feature
    for k, (kind, v) in EXAMPLE.items():
        assert list(getattr(features[k], kind).value) == v
    path, = glob.glob(f"{folder}/ours/events/*")
    found = [(e.step, v.tag, float(tf.make_ndarray(v.tensor))) for e in v1.train.summary_iterator(path)
             for v in e.summary.value]
    assert found == [(0, "loss", 0.0), (1, "loss", 0.5), (2, "loss", 1.0)]
    with tf.Graph().as_default(), v1.Session() as sess, open(f"{folder}/ours/frozen.pb", "rb") as f:
        y, = v1.import_graph_def(v1.GraphDef.FromString(f.read()), return_elements=["y:0"], name="")
        got = sess.run(y, {"x:0": array("float32", (2, 8, 8, 3))})
        assert np.allclose(got, np.load(f"{folder}/ours/frozen.npy"), atol=1e-5)
    model = tf.saved_model.load(f"{folder}/ours/model2")
    x = tf.constant([[1.0, 2.0]])
    want = np.array([[1.0, 2.0]]) @ array("float32", (2, 3)) * 8
    assert np.allclose(model.f(x)["y"], want) and np.allclose(model.signatures["serving_default"](x=x)["y"], want)


def write_large(folder):
    tf.raw_ops.SaveV2(prefix=f"{folder}/theirs/large", tensor_names=LARGE, shape_and_slices=[""] * len(LARGE),
                      tensors=[tf.constant(large(n)) for n in LARGE])


def read_large(folder):
    reader = tf.train.load_checkpoint(f"{folder}/ours/large")
    assert all(same_bits(reader.get_tensor(n), large(n)) for n in LARGE)


def classifier(folder):
    """Inception-v3 with random weights (moving averages too), frozen; an input, and what the last layers make of it."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    tf.keras.utils.set_random_seed(1)
    model = tf.keras.applications.InceptionV3(weights=None, classifier_activation=None)
    draw = np.random.RandomState(2)
    for layer in model.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.moving_mean.assign(draw.randn(*layer.moving_mean.shape) * 0.1)
            layer.moving_variance.assign(draw.rand(*layer.moving_variance.shape) + 0.5)
    run = tf.function(lambda x: model(x, training=False), input_signature=[tf.TensorSpec([None, 299, 299, 3], tf.float32, "x")])
    frozen = convert_variables_to_constants_v2(run.get_concrete_function())
    images = draw.rand(2, 299, 299, 3).astype(np.float32) * 2 - 1
    with open(f"{folder}/theirs/classifier.pb", "wb") as f:
        f.write(frozen.graph.as_graph_def().SerializeToString())
    np.savez(f"{folder}/theirs/classifier.npz", images=images, logits=frozen(tf.constant(images))[0].numpy(),
             names=[frozen.inputs[0].name, frozen.outputs[0].name])


if __name__ == "__main__":
    os.makedirs(f"{sys.argv[2]}/theirs", exist_ok=True)
    {f.__name__: f for f in (write, read, write_large, read_large, classifier)}[sys.argv[1]](sys.argv[2])
    print("done")
