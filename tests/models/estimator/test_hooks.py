"""Hooks that end training early, evaluations in the middle of it, and metrics that are added."""
import numpy as np
import pytest

import penstock.compat.v1 as tf

from .test_estimator import inputs, made

more = tf.estimator.experimental


def evaluated(folder, **values):
    """Writes summaries as evaluations do: `loss=[(step, value)]`."""
    with tf.Graph().as_default(), tf.summary.FileWriter(str(folder)) as writer:
        for tag, pairs in values.items():
            for step, value in pairs:
                summary = tf.Summary()
                summary.value.add(tag=tag, simple_value=value)
                writer.add_summary(summary, step)


def steps_made(model, hook, most=20):
    before = model.latest_checkpoint() and model.get_variable_value("global_step") or 0
    model.train(inputs(), hooks=[hook], steps=most)
    return model.get_variable_value("global_step") - before


FALLING, RISING = [(10, 3.0), (20, 2.0), (30, 2.5), (40, 2.1)], [(10, 0.1), (20, 0.5), (30, 0.4), (40, 0.5)]


@pytest.mark.parametrize("make, name, limit, min_steps, stops", [
    (more.stop_if_lower_hook, "loss", 2.05, 0, True), (more.stop_if_lower_hook, "loss", 2.05, 25, False),
    (more.stop_if_lower_hook, "loss", 2.0, 0, False), (more.stop_if_higher_hook, "acc", 0.45, 0, True),
    (more.stop_if_higher_hook, "acc", 0.5, 0, False), (more.stop_if_no_decrease_hook, "loss", 20, 0, True),
    (more.stop_if_no_decrease_hook, "loss", 21, 0, False), (more.stop_if_no_decrease_hook, "loss", 20, 25, False),
    (more.stop_if_no_increase_hook, "acc", 20, 0, True), (more.stop_if_no_increase_hook, "acc", 30, 0, False)])
def testevaluations_end_training(tmp_path, make, name, limit, min_steps, stops):
    model = made(tmp_path)
    evaluated(model.eval_dir(), loss=FALLING, acc=RISING)
    hook = make(model, name, limit, min_steps=min_steps, run_every_secs=None, run_every_steps=1)
    assert steps_made(model, hook, 4) == (1 if stops else 4)


def test_training_goes_on_after_an_early_end(tmp_path):
    model, asked = made(tmp_path), []

    def third():
        asked.append(1)
        return len(asked) == 3
    assert steps_made(model, more.make_early_stopping_hook(model, third, run_every_secs=None, run_every_steps=2)) == 5
    assert model.get_variable_value("signal_early_stopping/STOP")
    assert steps_made(model, more.make_early_stopping_hook(model, lambda: False)) == 20
    assert not model.get_variable_value("signal_early_stopping/STOP")


def test_a_worker_follows_the_chief():
    from penstock._src.models.estimator.early_stopping import _FollowStop, _stop_variable
    with tf.Graph().as_default():
        step = tf.train.create_global_step()
        train, stop = tf.assign_add(step, 1), tf.assign(_stop_variable(), True)
        with tf.train.MonitoredSession(hooks=[_FollowStop()]) as session:
            session.run(train)
            assert not session.should_stop()
            session.run_step_fn(lambda step_context: step_context.session.run(stop))
            session.run(train)
            assert session.should_stop()


def test_hooks_of_wrong_things(tmp_path):
    model = made(tmp_path)
    with pytest.raises(ValueError, match="Only one of"):
        more.make_early_stopping_hook(model, lambda: True, 60, 5)
    with pytest.raises(TypeError, match="Estimator"):
        more.make_early_stopping_hook(3, lambda: True)
    evaluated(model.eval_dir(), loss=FALLING)
    with pytest.raises(ValueError, match="no metric 'auc'"):
        model.train(inputs(), hooks=[more.stop_if_higher_hook(model, "auc", 1)], steps=1)
    for every in (0, None):
        with pytest.raises(ValueError, match="invalid every_n_iter"):
            more.InMemoryEvaluatorHook(model, inputs(1, False), every_n_iter=every)


def test_stopping_at_a_saved_step(tmp_path):
    model = made(tmp_path)
    assert steps_made(model, more.make_stop_at_checkpoint_step_hook(model, 3)) == 3


def testevaluations_in_the_middle_of_training(tmp_path):
    model, found = made(tmp_path), []

    class Watching(tf.train.SessionRunHook):
        def end(self, session):
            w = next(v for v in tf.global_variables() if v.op.name == "w")
            found.append((int(session.run(tf.train.get_global_step())), session.run(w)))
    hook = more.InMemoryEvaluatorHook(model, inputs(1, False), hooks=[Watching()], name="inside", every_n_iter=4)
    model.train(inputs(), hooks=[hook], steps=10)
    assert [step for step, _ in found] == [0, 4, 8, 10]
    np.testing.assert_allclose(found[0][1], np.zeros([3, 1]), rtol=1e-6)
    np.testing.assert_allclose(found[-1][1], model.get_variable_value("w"), rtol=1e-6)
    from penstock._src.models.estimator.early_stopping import evaluations
    losses = [metrics["loss"] for _, metrics in evaluations(model.eval_dir("inside"))]
    assert len(losses) == 4 and losses == sorted(losses, reverse=True)
    np.testing.assert_allclose(losses[-1], model.evaluate(inputs(1, False))["loss"], rtol=1e-5)


def test_metrics_are_added(tmp_path):
    def squares(labels, predictions, features, config):
        assert config.model_dir == str(tmp_path)
        return {"squares": tf.metrics.mean_squared_error(labels, predictions["y"]),
                "largest": tf.metrics.mean(tf.reduce_max(features["x"]))}
    model = tf.estimator.add_metrics(made(tmp_path).train(inputs(), steps=3), squares)
    result = model.evaluate(inputs(1, False))
    np.testing.assert_allclose(result["squares"], result["loss"], rtol=1e-5)
    assert {"error", "largest"} <= set(result) and model.train(inputs(), steps=2).get_variable_value("global_step") == 5
    with pytest.raises(ValueError, match="not expected args: \\['params'\\]"):
        tf.estimator.add_metrics(model, lambda labels, params: {})
