"""Programs for recurring shapes: when they are built, how many, and what happens if one cannot be built."""
import torch

import penstock.compat.v1 as tf
from penstock._src.step.optimize import variants
from penstock._src.step.optimize.variants import Variants
from penstock._src.step.runnable import Runnable


class Named(Runnable):
    def __init__(self, name):
        self.name = name

    def run(self, ctx, *feeds):
        return self.name, *feeds

    def failing_op(self, traceback):
        return None

    def text(self):
        return self.name


def made(build=lambda dims: Named(str(dims))):
    return Variants(Named("general"), build)


def times(step, shape, n):
    return [step.run(None, torch.zeros(shape))[0] for _ in range(n)]


def test_a_shape_that_comes_again_gets_a_program():
    step = made()
    assert times(step, (2, 3), 4) == ["general"] * variants._AFTER + ["[(2, 3)]"] * (4 - variants._AFTER)
    assert times(step, (4, 3), 1) == ["general"]
    assert step.text() == "general"


def test_the_more_programs_there_are_the_more_often_a_shape_must_come():
    step = made()
    for n in range(variants._FEW):
        times(step, (n,), variants._AFTER + 1)
    for n in range(variants._FEW, variants._MOST):
        assert times(step, (n,), n + 1) == ["general"] * n + [f"[({n},)]"]
    assert times(step, (99,), variants._MOST + 2) == ["general"] * (variants._MOST + 2)
    assert times(step, (0,), 1) == ["[(0,)]"]


def test_few_programs_are_kept_where_each_holds_memory():
    step = Variants(Named("general"), lambda dims: Named(str(dims)), few=True)
    for n in range(variants._FEW):
        times(step, (n,), variants._AFTER + 1)
    assert times(step, (99,), 20) == ["general"] * 20
    assert times(step, (0,), 1) == ["[(0,)]"]


def test_shapes_that_never_come_again_are_forgotten():
    step = made()
    for n in range(10 * variants._REMEMBERED):
        step.pick([torch.zeros(n)])
    assert len(step._seen) <= variants._REMEMBERED and not step._made


def test_steps_fed_with_strings_get_programs_for_shapes():
    with tf.Graph().as_default(), tf.Session() as sess:
        words, x = tf.placeholder(tf.string, [None]), tf.placeholder(tf.float32, [None, 2])
        joined = tf.strings.join([words, tf.as_string(tf.reshape(x, [tf.shape(words)[0] * 2]))[::2]])
        for n in (3, 3, 3, 3, 2, 1):
            found = sess.run(joined, {words: [b"a"] * n, x: [[0, 1]] * n})
            assert found.tolist() == [b"a0.000000"] * n
        (step,) = sess._engine._programs.values()
        assert list(step.runnable._made) == [((3,), (3, 2))] and "Shape" not in step.runnable._made[(3,), (3, 2)].text()
