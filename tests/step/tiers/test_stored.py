"""Compiled steps that later processes load. Here the cache of Inductor is a dictionary, and graphs run as they were traced."""
import json

import numpy as np
import pytest
import torch

import penstock as tf
import penstock.compat.v1 as tf1
from penstock._src.step.spec import StepSpec
from penstock._src.step.tiers import inductor, lower, stored, tiers


class Cache:
    """What Inductor would keep; how often steps were traced."""

    def __init__(self):
        self.kept, self.traced, self.loaded = {}, 0, 0

    def compiled(self, graph, example):
        def run(inputs):
            return graph(*inputs)
        run._fx_graph_cache_key = f"entry{len(self.kept)}"
        self.kept[run._fx_graph_cache_key] = run
        return run

    def load(self, name, example):
        self.loaded += 1
        return self.kept.get(name)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    made, trace = Cache(), lower.trace
    monkeypatch.setattr(inductor, "available", lambda device: True)
    monkeypatch.setattr(inductor, "compiled", made.compiled)
    monkeypatch.setattr(inductor, "loaded", made.load)
    monkeypatch.setattr(inductor, "folder", lambda: tmp_path)

    def counted(*given):
        made.traced += 1
        return trace(*given)
    monkeypatch.setattr(lower, "trace", counted)
    made.files = lambda: sorted((tmp_path / "penstock").glob("*"))
    return made


def trained(units=8, shape=(4, 6), rate=0.1, scale=2.0, activation=tf.tanh):
    """Some steps of a new model; the same for the same arguments."""
    draw = np.random.RandomState(0)
    w, v = (tf.Variable(draw.randn(*s).astype("f")) for s in ((6, units), (units, 3)))
    optimizer = tf.keras.optimizers.SGD(rate, momentum=0.9)
    weight = tf.constant(np.full(3, scale, "f"))

    @tf.function(jit_compile=True)
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(activation(x @ w) @ v * weight))
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, v]), [w, v], strict=True))
        return loss
    return [float(step(tf.constant(draw.randn(*shape).astype("f")))) for _ in range(5)], w.numpy()


def test_the_second_process_does_not_trace(cache):
    losses, w = trained()
    assert cache.traced == 1 and len(cache.files()) == 1
    again, w_again = trained()
    assert cache.traced == 1 and cache.loaded == 1
    np.testing.assert_allclose(again, losses, rtol=1e-6)
    np.testing.assert_allclose(w_again, w, rtol=1e-6)


@pytest.mark.parametrize("other", [{"units": 9}, {"shape": (5, 6)}, {"scale": 3.0}, {"activation": tf.sin}],
                         ids=lambda d: next(iter(d)))
def test_what_a_step_depends_on_is_part_of_its_name(cache, other):
    trained()
    trained(**other)
    assert cache.traced == 2 and cache.loaded == 0 and len(cache.files()) == 2


def test_settings_of_kernels_are_part_of_the_name(cache):
    trained()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if before == "highest" else "highest")
    try:
        trained()
    finally:
        torch.set_float32_matmul_precision(before)
    assert cache.traced == 2


def test_an_entry_that_is_gone_is_compiled_again(cache):
    losses, _ = trained()
    cache.kept.clear()
    assert trained()[0] == pytest.approx(losses, rel=1e-6)
    assert cache.traced == 2 and cache.kept


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"entry": 3})])
def test_a_damaged_file_is_ignored(cache, text):
    losses, _ = trained()
    cache.files()[0].write_text(text)
    assert trained()[0] == pytest.approx(losses, rel=1e-6)
    assert cache.traced == 2


def test_a_stored_step_that_gives_other_numbers_is_removed(cache):
    losses, _ = trained()
    right = cache.kept["entry0"]
    cache.kept["entry0"] = lambda inputs: [r + 1 for r in right([i.clone() for i in inputs])]
    before = sum(tiers.refused.values())
    assert trained()[0] == pytest.approx(losses, rel=1e-6)
    assert sum(tiers.refused.values()) == before + 1
    assert cache.traced == 2 and len(cache.files()) == 1             # compiled and stored again


def test_steps_that_draw_from_streams_are_not_stored(cache):
    def run():
        tf.random.set_seed(1)
        v = tf.Variable(np.ones([4, 4], "f"))

        @tf.function(jit_compile=True)
        def step():
            v.assign_add(tf.random.uniform([4, 4], seed=3) * 0.1 + tf.sin(v) * tf.cos(v))
            return tf.reduce_sum(v)
        return [float(step()) for _ in range(4)]
    first = run()
    assert cache.traced == 1 and not cache.files()
    assert run() == pytest.approx(first) and cache.traced == 2


def test_sessions_with_loops_and_branches(cache):
    def run(times):
        with tf1.Graph().as_default():
            x = tf1.placeholder(tf1.float32, [3])
            v = tf1.get_variable("v", initializer=np.ones(3, "f"), use_resource=True)
            y = tf1.while_loop(lambda i, a: i < times, lambda i, a: (i + 1, tf1.sin(a) + v * a), [0, x])[1]
            done = v.assign_add(tf1.tanh(y) * 0.1)
            config = tf1.ConfigProto()
            config.graph_options.optimizer_options.global_jit_level = 1
            with tf1.Session(config=config) as sess:
                sess.run(v.initializer)
                return [sess.run(done, {x: np.arange(3.0)}).sum() for _ in range(4)]
    first = run(3)
    assert cache.traced and cache.files()
    traced = cache.traced
    np.testing.assert_allclose(run(3), first, rtol=1e-6)
    assert cache.traced == traced and cache.loaded
    run(4)
    assert cache.traced > traced                                     # the body is the same, the number of iterations is not


def test_functions_in_a_step_are_hashed_by_what_they_do():
    def name(f):
        made = tf.function(f).get_concrete_function(tf.TensorSpec([2], tf.float32)).graph
        spec = StepSpec(made.get_operations(), made.outputs, [], made.inputs)
        return stored.name_of(spec, None, [], [torch.zeros(2)], torch.device("cpu"))

    def called(f):
        return lambda x: tf.cond(x[0] > 0, lambda: f(x), lambda: x)
    assert name(called(tf.sin)) == name(called(tf.sin)) != name(called(tf.cos))


def test_the_folder_is_that_of_inductor(monkeypatch, tmp_path):
    from torch._inductor.runtime import cache_dir_utils
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert str(inductor.folder()) == cache_dir_utils.cache_dir()
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    assert str(inductor.folder()) == cache_dir_utils.default_cache_dir()
