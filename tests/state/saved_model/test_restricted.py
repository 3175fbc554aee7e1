"""Untrusted SavedModels: what restricted loading rejects and accepts."""
import json
import re

import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.io.messages import SavedModel
from penstock._src.ops.registry import OPS
from penstock._src.ops.state.keyed import kv_var_handle
from penstock._src.state.saved_model import restricted


def saved(folder, build, main=None):
    """A model of the 1.x kind: `build(x)` makes its output, and `main()` its main op."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None], name="x")
        v = tf.get_variable("v", initializer=[2.0], use_resource=False)
        y = build(x * v)
        op = main() if main else None
        sess.run(tf.global_variables_initializer())
        builder = tf.saved_model.builder.SavedModelBuilder(str(folder))
        signature = tf.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(sess, ["serve"], {"serving_default": signature}, main_op=op)
        builder.save()
    return str(folder)


def loaded(folder, **kwargs):
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.saved_model.load(sess, ["serve"], folder, **kwargs)
        return sess.run("v:0")


def test_a_model_that_only_computes_is_loaded(tmp_path):
    folder = saved(tmp_path / "m", lambda x: tf.map_fn(lambda a: a + 1.0, x))
    assert loaded(folder, restricted=True) == [2.0]
    model = tf2.saved_model.load(folder, restricted=True)
    np.testing.assert_array_equal(model.signatures["serving_default"](x=tf2.constant([1.0]))["y"], [3.0])


def reads(x):
    return x + tf.cast(tf.strings.length(tf.read_file("/etc/hostname")), tf.float32)


def calls(x):
    return tf.py_func(lambda a: a, [x], tf.float32)


def branches(x):
    """A file that is read in a function which only some branch of a condition calls."""
    return tf2.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: reads(x))


def restores(x):
    return x + tf.raw_ops.RestoreV2(prefix="/tmp/other", tensor_names=["v"], shape_and_slices=[""], dtypes=[tf.float32])[0]


def prints(x):
    with tf.control_dependencies([tf2.print(x, output_stream="file:///tmp/printed")]):
        return tf.identity(x)


def saves(x):
    records = tf.data.Dataset.from_tensors(0).map(lambda i: (tf.cast(i, tf.int64), tf.io.serialize_tensor(i)))
    with tf.control_dependencies([tf.raw_ops.WriteDatasetShards(
            input_dataset=records._variant_tensor, path="/tmp/saved", compression_type="", spec="")]):
        return tf.identity(x)


def evicts(x):
    """A table whose rows leave memory for a folder."""
    handle = kv_var_handle(container="", shared_name="t", dtype=tf.float32, Tkeys=tf.int64, shape=[1],
                           config=json.dumps({"dim": 1, "capacity": 1, "policy": 1, "storage": "/tmp/rows"}))
    with tf.control_dependencies([handle.op]):
        return tf.identity(x)


@pytest.mark.parametrize("build", [reads, calls, branches, restores, prints, saves, evicts])
def test_what_leaves_the_process_is_refused_in_signatures(build, tmp_path):
    folder = saved(tmp_path / "m", build)
    with pytest.raises(tf.errors.PermissionDeniedError, match="restricted=True"):
        loaded(folder, restricted=True)
    with pytest.raises(tf.errors.PermissionDeniedError, match="restricted=True"):
        tf2.saved_model.load(folder, restricted=True)


def test_the_main_op_runs_unless_it_is_refused(tmp_path):
    """Loading runs it: that is what the pages say, and why there is a restricted way."""
    mark = tmp_path / "written"
    folder = saved(tmp_path / "m", lambda x: x, lambda: tf.write_file(str(mark), "here"))
    with pytest.raises(tf.errors.PermissionDeniedError, match="WriteFile"):
        loaded(folder, restricted=True)
    assert not mark.exists()
    loaded(folder)
    assert mark.read_text() == "here"


def test_objects_with_functions_that_use_files_are_refused(tmp_path):
    class Good(tf2.Module):
        @tf2.function(input_signature=[tf2.TensorSpec([None], tf2.float32)])
        def __call__(self, x):
            return x * 2.0

    class Bad(tf2.Module):
        @tf2.function(input_signature=[tf2.TensorSpec([], tf2.string)])
        def __call__(self, path):
            return tf2.io.read_file(path)
    tf2.saved_model.save(Good(), str(tmp_path / "good"))
    tf2.saved_model.save(Bad(), str(tmp_path / "bad"))
    np.testing.assert_array_equal(tf2.saved_model.load(str(tmp_path / "good"), restricted=True)(tf2.constant([1.0])), [2.0])
    with pytest.raises(tf2.errors.PermissionDeniedError, match="ReadFile"):
        tf2.saved_model.load(str(tmp_path / "bad"), restricted=True)


def test_every_op_that_takes_a_file_is_known():
    """By the names of inputs and attributes: a new op with a file's name must be listed, or be known not to use files."""
    named = re.compile(r"file|director|folder|path$|prefix|^pattern|checkpoint|logdir|driver_name")
    no_files = {"RegexReplace", "StaticRegexReplace", "RegexFullMatch", "StaticRegexFullMatch", "ShardedFilename",
                "ShardedFilespec", "TensorSliceDataset", "SetStatsAggregatorDataset", "ExperimentalSetStatsAggregatorDataset",
                "_SparseMatrixPruned"}
    found = {name for name, o in OPS.items() if any(map(named.search, (*o.input_names, *map(str, o.attrs))))}
    assert found - no_files <= restricted.FILES
    assert restricted.FILES <= set(OPS)


class Words(tf2.Module):
    """A model with a file of words."""

    def __init__(self, path):
        words = tf2.lookup.TextFileInitializer(str(path), tf2.string, tf2.lookup.TextFileIndex.WHOLE_LINE, tf2.int64,
                                              tf2.lookup.TextFileIndex.LINE_NUMBER)
        self.table = tf2.lookup.StaticHashTable(words, -1)

    @tf2.function(input_signature=[tf2.TensorSpec([None], tf2.string)])
    def __call__(self, x):
        return self.table.lookup(x)


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a/../../../secret", "..", "file:///etc/passwd", "~/secret"])
def test_an_asset_is_a_file_of_the_model(tmp_path, name):
    """The folder `assets` does not contain what a model's message may name."""
    (tmp_path / "words").write_text("a\nb\n")
    (tmp_path / "secret").write_text("s\n")
    tf2.saved_model.save(Words(tmp_path / "words"), str(tmp_path / "m"))
    np.testing.assert_array_equal(tf2.saved_model.load(str(tmp_path / "m"))(tf2.constant(["b", "s"])), [1, -1])
    path = tmp_path / "m" / "saved_model.pb"
    model = SavedModel.FromString(path.read_bytes())
    model.meta_graphs[0].asset_file_def[0].filename = name
    path.write_bytes(model.SerializeToString())
    with pytest.raises(tf.errors.PermissionDeniedError, match="folder of assets"):
        tf2.saved_model.load(str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as sess, pytest.raises(tf.errors.PermissionDeniedError):
        tf.saved_model.load(sess, ["serve"], str(tmp_path / "m"))
