"""tf.train.CheckpointOptions, CheckpointView and TrackableView."""
import pytest

import penstock as tf


def objects():
    root = tf.train.Checkpoint(a=tf.Variable(1.), b=tf.Module())
    root.b.v = tf.Variable([2., 3.])
    return root


def test_callbacks_get_the_path(tmp_path):
    seen = []
    options = tf.train.CheckpointOptions(experimental_write_callbacks=[lambda: seen.append("done"), seen.append],
                                         enable_async=True)
    path = objects().write(str(tmp_path / "c"), options)
    assert seen == ["done", path] and options.experimental_enable_async_checkpoint
    with pytest.raises(AssertionError, match="callable"):
        tf.train.CheckpointOptions(experimental_write_callbacks=[3])


def test_views_match_objects(tmp_path):
    root = objects()
    path = root.write(str(tmp_path / "c"))
    view = tf.train.CheckpointView(path)
    names = view.children(0)
    assert set(names) >= {"a", "b"} and view.children(names["b"]).keys() == {"v"}
    assert sorted(view.descendants()) == list(range(len(view.descendants())))
    other = tf.train.Checkpoint(a=tf.Variable(5.))
    matched = view.match(other)
    assert matched[names["a"]] is other.a and names["b"] not in matched
    only_there, only_here, both = view.diff(other)
    assert names["b"] in only_there and both[0] is other and all(o is not other.a for o in only_here)
    assert [type(o) for o in tf.train.TrackableView(root).descendants()][0] is type(root)
    assert any(o is root.b.v for o in tf.train.TrackableView(root).descendants())


def test_slots_are_left_out_on_request(tmp_path):
    v = tf.Variable(1.)
    optimizer = tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)
    optimizer.apply_gradients([(tf.constant(1.), v)])
    root = tf.train.Checkpoint(v=v, optimizer=optimizer)

    def slots(options):
        path = root.write(str(tmp_path / "c"), options)
        return [n for n, _ in tf.train.list_variables(path) if "OPTIMIZER_SLOT" in n]
    assert slots(None) and not slots(tf.train.CheckpointOptions(experimental_skip_slot_variables=True))
