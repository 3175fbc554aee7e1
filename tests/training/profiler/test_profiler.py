"""tf.profiler: counts against sums by hand, and against what TensorFlow's profiler counted for the same model."""
import pytest

import penstock.compat.v1 as tf

Builder = tf.profiler.ProfileOptionBuilder


@pytest.fixture(autouse=True)
def _graphs():
    tf.disable_v2_behavior()
    tf.reset_default_graph()


def model():
    """A convolution, a pooling and a dense layer, with gradients."""
    x = tf.placeholder(tf.float32, [8, 28, 28, 1])
    with tf.variable_scope("c"):
        w, b = tf.get_variable("w", [3, 3, 1, 4]), tf.get_variable("b", [4])
        y = tf.nn.max_pool(tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b)), 2, 2, "SAME")
    with tf.variable_scope("d"):
        k = tf.get_variable("k", [14 * 14 * 4, 10])
        loss = tf.reduce_mean(tf.nn.softmax(tf.matmul(tf.reshape(y, [8, -1]), k) + 1.0) ** 2)
    return x, loss, tf.gradients(loss, [w, b, k])


def test_parameters(capsys):
    model()
    found = tf.profiler.profile(tf.get_default_graph(), options=Builder.trainable_variables_parameter())
    assert found.total_parameters == 36 + 4 + 7840
    assert [(c.name, c.total_parameters) for c in found.children] == [("c", 40), ("d", 7840)]
    assert capsys.readouterr().out == (
        "node name | # parameters\n_TFProfRoot (--/7.88k params)\n  c (--/40 params)\n    c/b (4, 4/4 params)\n"
        "    c/w (3x3x1x4, 36/36 params)\n  d (--/7.84k params)\n    d/k (784x10, 7.84k/7.84k params)\n")


def test_resource_variables_count():
    tf.get_variable("v", [2, 3], use_resource=True)
    tf.get_variable("fixed", [7], trainable=False)
    options = Builder(Builder.trainable_variables_parameter()).with_empty_output().build()
    assert tf.profiler.profile(options=options).total_parameters == 6


def test_float_operations():
    """What TensorFlow's profiler counts for the same model."""
    model()
    options = Builder(Builder.float_operation()).with_empty_output().build()
    found = {c.name: c.float_ops for c in tf.profiler.profile(cmd="op", options=options).children}
    theirs = {"BiasAdd": 25088, "BiasAddGrad": 25084, "Conv2D": 451584, "Conv2DBackpropFilter": 451584,
              "Conv2DBackpropInput": 451584, "Greater": 80, "Log": 80, "MatMul": 376320, "MaxPool": 25088, "MaxPoolGrad": 31360,
              "Mean": 80, "Mul": 8360, "Pow": 160, "Softmax": 400, "Sub": 84, "Sum": 230, "AddV2": 7960}
    assert {n: found[n] for n in theirs} == theirs
    assert list(found)[0] in ("Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput")      # most first
    by_scope = tf.profiler.profile(options=options)
    assert by_scope.total_float_ops == sum(found.values())
    by_line = tf.profiler.profile(cmd="code", options=options)
    assert sum(c.float_ops for c in by_line.children) == sum(found.values())
    assert any("test_profiler.py" in c.name for c in by_line.children)
    by_inputs = tf.profiler.profile(cmd="graph", options=options)
    assert by_inputs.total_float_ops == sum(found.values())


def test_unknown_shapes_count_nothing():
    x = tf.placeholder(tf.float32, [None, 2])
    tf.matmul(x, tf.ones([2, 3]))
    options = Builder(Builder.float_operation()).with_empty_output().build()
    assert tf.profiler.profile(options=options).total_float_ops == 0
    assert "MatMul" in tf.profiler.advise().checkers["OperationChecker"].reports[0]


def test_times_of_steps(tmp_path):
    x, loss, _ = model()
    profiler = tf.profiler.Profiler(tf.get_default_graph())
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(2):
            metadata = tf.RunMetadata()
            sess.run(loss, {x: [[[[1.0]] * 28] * 28] * 8}, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
                     run_metadata=metadata)
            profiler.add_step(step, metadata)
    log = tmp_path / "profile.txt"
    found = profiler.profile_operations(Builder(Builder.time_and_memory(min_bytes=0)).with_file_output(str(log)).build())
    assert found.total_exec_micros > 0 and found.total_cpu_exec_micros == found.total_exec_micros
    assert "Conv2D" in {c.name for c in found.children} and "total execution time" in log.read_text()
    assert len(profiler.advise({}).checkers["ExpensiveOperationChecker"].reports) == 3
    trace = tmp_path / "trace.json"
    profiler.profile_name_scope(Builder(Builder.time_and_memory()).with_step(0).with_timeline_output(str(trace)).build())
    assert "traceEvents" in trace.read_text()
    with pytest.raises(tf.errors.UnimplementedError, match="pprof"):
        profiler.profile_python(Builder().with_pprof_output(str(tmp_path / "p")).build())


def test_names_choose_what_is_shown():
    model()
    base = Builder.trainable_variables_parameter()
    def options(**kwargs):
        return Builder(base).with_empty_output().with_node_names(**kwargs).build()
    assert tf.profiler.profile(options=options(start_name_regexes=["c"])).total_parameters == 40
    assert [c.name for c in tf.profiler.profile(options=options(hide_name_regexes=["d.*"])).children] == ["c"]
    trimmed = tf.profiler.profile(options=options(trim_name_regexes=["c"]))
    assert [len(c.children) for c in trimmed.children] == [0, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="unknown cmd"):
        tf.profiler.profile(cmd="nothing")


def test_op_log(tmp_path):
    model()
    tf.profiler.write_op_log(tf.get_default_graph(), str(tmp_path))
    log = tf.profiler.OpLogProto.FromString((tmp_path / "tfprof_log").read_bytes())
    entries = {e.name: e for e in log.log_entries}
    assert list(entries["c/w"].types) == ["_trainable_variables"] and entries["d/MatMul"].float_ops == 125440
