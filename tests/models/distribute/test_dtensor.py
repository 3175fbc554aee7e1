"""tf.experimental.dtensor on logical devices: layouts, parts, ops, variables, gradients; layouts as in TensorFlow 2.21."""
import json
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import json
import numpy as np
import penstock as tf
from penstock.experimental import dtensor
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 6)
mesh = dtensor.create_mesh([("x", 3), ("y", 2)], devices=[f"CPU:{i}" for i in range(6)])
U = dtensor.UNSHARDED
whole = dtensor.copy_to_mesh(tf.reshape(tf.range(6.0), (3, 2)), dtensor.Layout.replicated(mesh, 2))
split = dtensor.relayout(whole, dtensor.Layout(["x", "y"], mesh))
specs = lambda t: dtensor.fetch_layout(t).sharding_specs
joined = lambda t: dtensor.relayout(t, dtensor.Layout([U, U], mesh)).numpy().tolist()
def error(f):
    try:
        f()
    except Exception as e:
        return type(e).__name__
"""


def run(body):
    """What a program prints as JSON; devices are configured once in a process."""
    done = subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(body)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found():
    return run("""
        layout = dtensor.Layout(["x", "y"], mesh)
        columns = dtensor.relayout(tf.transpose(whole), dtensor.Layout([U, "x"], mesh))
        v = dtensor.DVariable(split)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * v)
        gradient = tape.gradient(loss, v)
        before = specs(v + 1.0)
        v.assign_add(split)
        f = tf.function(lambda x: (tf.reduce_sum(x, 0), x + 1.0))
        other = dtensor.create_mesh([("x", 6)], devices=[f"CPU:{i}" for i in range(6)])
        ones = dtensor.call_with_layout(tf.function(tf.ones), layout, shape=(6, 4))
        batches = dtensor.DTensorDataset(tf.data.Dataset.range(12), mesh=mesh, layouts=dtensor.Layout(["x"], mesh),
                                         global_batch_size=6)
        print(json.dumps({
            "mesh": [mesh.shape(), mesh.size, mesh.dim_names, mesh.device_type(),
                     dtensor.Mesh.from_string(mesh.to_string()) == mesh],
            "layout": [layout.shape, layout.rank, layout.is_fully_replicated(), layout.local_shape([6, 4]),
                       dtensor.Layout.from_string(layout.to_string()) == layout],
            "parts": [[p.device[-5:], p.numpy().tolist()] for p in dtensor.unpack(split)],
            "packed": dtensor.relayout_like(dtensor.pack([[i] for i in (0, 0, 1, 1, 2, 2)], dtensor.Layout(["x"], mesh)),
                                            dtensor.copy_to_mesh([0, 0, 0], dtensor.Layout([U], mesh))).numpy().tolist(),
            "ops": [specs(t) for t in (split + whole, split * 2.0, tf.reduce_sum(split, 0),
                    tf.reduce_sum(split, 0, keepdims=True), tf.transpose(split), tf.reduce_sum(split),
                    tf.matmul(split, columns), tf.matmul(split, tf.transpose(whole)))],
            "function": [specs(t) for t in f(split)],
            "variable": [specs(v), before, specs(gradient), joined(gradient), joined(v)],
            "ones": [specs(ones), [p.shape.as_list() for p in dtensor.unpack(ones)]],
            "batches": [[p.numpy().tolist() for p in dtensor.unpack(b)][::2] for b in batches],
            "errors": [error(g) for g in (
                split.numpy, lambda: split + tf.ones([3, 2]), lambda: dtensor.Layout(["z"], mesh),
                lambda: dtensor.Layout(["x", "x"], mesh), lambda: dtensor.create_mesh([("x", 5)], devices=["CPU:0"]),
                lambda: dtensor.unpack(tf.ones(2)), lambda: dtensor.pack([[1.0]] * 5, dtensor.Layout(["x"], mesh)),
                lambda: v.assign(whole), lambda: dtensor.relayout(tf.ones(5), dtensor.Layout(["x"], mesh)),
                lambda: split + dtensor.copy_to_mesh(tf.ones([3, 2]), dtensor.Layout([U, U], other)))]}))
        """)


def test_meshes_and_layouts(found):
    assert found["mesh"] == [[3, 2], 6, ["x", "y"], "CPU", True]
    assert found["layout"] == [[3, 2], 2, False, [2, 2], True]


def test_parts(found):
    assert found["parts"] == [[f"CPU:{i}", [[float(i)]]] for i in range(6)]
    assert found["packed"] == [0, 1, 2]
    assert found["ones"] == [["x", "y"], [[2, 2]] * 6]
    assert found["batches"] == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]


def test_results_keep_axes_split(found):
    assert found["ops"] == [["x", "y"], ["x", "y"], ["y"], ["unsharded", "y"], ["y", "x"], [], ["unsharded", "unsharded"],
                            ["x", "unsharded"]]
    assert found["function"] == [["y"], ["x", "y"]]


def test_variables_and_gradients(found):
    doubled = [[0, 2], [4, 6], [8, 10]]
    assert found["variable"] == [["x", "y"], ["x", "y"], ["x", "y"], doubled, doubled]


def test_errors(found):
    assert found["errors"] == ["UnimplementedError", "UnimplementedError", "ValueError", "ValueError", "ValueError",
                               "InvalidArgumentError", "InvalidArgumentError", "InvalidArgumentError", "InvalidArgumentError",
                               "InvalidArgumentError"]


def test_checkpoints():
    found = run("""
    import os, tempfile
    folder = tempfile.mkdtemp()
    v = dtensor.DVariable(split)
    dtensor.name_based_save(mesh, folder + "/a/ck", {"w": v})
    back = dtensor.name_based_restore(mesh, folder + "/a/ck", {"w": v})["w"]
    checkpoint = dtensor.DTensorCheckpoint(mesh=mesh, v=v)
    whole_path = checkpoint.save(folder + "/b/ck")
    dtensor.enable_save_as_bf16([v])
    half_path = checkpoint.save(folder + "/c/ck")
    key = "v/.ATTRIBUTES/VARIABLE_VALUE"
    types = [tf.train.load_checkpoint(p).get_variable_to_dtype_map()[key].name for p in (whole_path, half_path)]
    v.assign(v * 2.0)
    checkpoint.restore(half_path)
    print(json.dumps([specs(back), joined(back), types, joined(v.read_value()), specs(v),
                      error(lambda: dtensor.create_tpu_mesh(["x"], [1], "m"))]))
    """)
    values = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert found == [["x", "y"], values, ["float32", "bfloat16"], values, ["x", "y"], "UnimplementedError"]


def test_devices_are_named_by_specs():
    import penstock as tf
    from penstock._src.models.distribute.dtensor_layout import full_name
    name = "/job:localhost/replica:0/task:0/device:CPU:0"
    spec = tf.DeviceSpec(job="localhost/replica:0/task:0", device_type="CPU", device_index=0)
    assert full_name(spec) == full_name("CPU:0") == full_name(name) == name
