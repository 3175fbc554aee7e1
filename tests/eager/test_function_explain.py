"""tf.function(...).explain: the step behind a function as text, in each tier."""
import numpy as np

import penstock as tf
from penstock._src.base import switches
from penstock._src.step.tiers import inductor
from penstock_cli import main


def trained(size=4):
    w = tf.Variable(np.eye(size, dtype="f"), name="w")

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.elu(x @ w) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss
    return w, step


def test_a_program_is_shown_without_running_it():
    w, step = trained()
    text = step.explain(tf.TensorSpec([None, 4], tf.float32))
    assert "# f0: x:0 float32[?,4]" in text and "AssignSubVariableOp(" in text and "<variable w" in text
    np.testing.assert_array_equal(w, np.eye(4))
    assert step.experimental_get_tracing_count() == 1


def test_shapes_that_come_again_have_their_own_program():
    _, step = trained()
    spec = tf.TensorSpec([None, 4], tf.float32)
    f = tf.function(step.python_function, input_signature=[spec])
    for _ in range(4):
        f(tf.ones([3, 4]))
    assert "# for shapes [3, 4]" in f.explain()


def test_functions_of_variables_are_shown_as_well():
    w = tf.Variable([1.0, 2.0])
    f = tf.function(lambda v: v * 2.0)
    assert "ReadVariableOp" in f.explain(w) and "def step" in f.explain(w)


class Generated:
    """What Inductor returns: the function, with its source."""

    _boxed_call = True
    source_code = "def call(args):\n    buf0 = empty_strided_cpu((4, 8), (8, 1), torch.float32)\n    cpp_fused_0(buf0)\n"

    def __init__(self, graph):
        self.graph = graph

    def __call__(self, inputs):
        return self.graph(*inputs)


def test_a_compiled_step_shows_its_tier_kernels_memory_and_source(monkeypatch):
    monkeypatch.setattr(inductor, "available", lambda device: True)
    monkeypatch.setattr(inductor, "compiled", lambda graph, example: Generated(graph))
    monkeypatch.setenv(switches.TIER.name, "wait")
    _, step = trained(300)
    x = tf.ones([200, 300])
    assert "# tier 1: it has not run" in step.explain(x)
    for _ in range(3):
        step(x)
    text = step.explain(x)
    assert "# tier 3, compiled for feeds float32[200, 300]" in text and Generated.source_code in text
    assert "# 1 generated kernels, called 1 times: cpp_fused_0" in text and "# memory: 1 buffers" in text


def test_the_command_shows_functions_of_saved_models(tmp_path, capsys):
    class Model(tf.Module):
        def __init__(self):
            self.w = tf.Variable([[2.0]], name="w")

        @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32)])
        def double(self, x):
            return tf.nn.relu(x @ self.w)
    model = Model()
    tf.saved_model.save(model, str(tmp_path), signatures=model.double)
    assert main(["explain", str(tmp_path)]) == 0
    assert "float32[?,1]" in capsys.readouterr().out
    assert main(["explain", str(tmp_path), "--function", "double"]) == 0
    assert "MatMul" in capsys.readouterr().out
    assert main(["explain", str(tmp_path), "--function", "no"]) == 1
    assert "no function no" in capsys.readouterr().err
