"""tf.train.CheckpointOptions, CheckpointView and TrackableView."""
import copy
import gc
import weakref

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
    both, only_there, only_here = view.diff(other)                 # TensorFlow's order
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


def test_one_object_of_a_checkpoint_in_two_places(tmp_path, caplog):
    saved, given = tf.Module(), tf.Module()
    saved.a = saved.b = tf.Variable(1.0)
    given.a, given.b = tf.Variable(2.0), tf.Variable(3.0)
    caplog.set_level("WARNING", "tensorflow")
    view = tf.train.CheckpointView(tf.train.Checkpoint(root=saved).write(str(tmp_path / "c")))
    assert set(view.match(given)) == {0, 1} and view.match(given)[1] is given.a
    assert "Inconsistent references" in caplog.text
    assert view._descendants_with_paths() == {0: "root", 1: "root.a"}


def test_manager_passes_options_on(tmp_path):
    seen = []
    options = tf.train.CheckpointOptions(experimental_write_callbacks=[seen.append])
    manager = tf.train.CheckpointManager(objects(), str(tmp_path), max_to_keep=None)
    path = manager.save(options=options)
    manager.sync()
    assert seen == [path] and len(options.experimental_write_callbacks) == 1


def test_copies_save_their_own_objects(tmp_path):
    original = tf.train.Checkpoint(v=tf.Variable(1.0))
    copied = copy.deepcopy(original)
    copied.v.assign(2.0)
    assert original.v.numpy() == 1.0
    original.read(copied.write(str(tmp_path / "c")))
    assert original.v.numpy() == 2.0


def test_objects_without_values_need_no_match(tmp_path):
    path = tf.train.Checkpoint(a=[]).write(str(tmp_path / "c"))
    load = tf.train.Checkpoint(b=[])
    load.dep = [[]]
    load.read(path).assert_consumed().assert_existing_objects_matched()
    load.dep.append(tf.Variable(1.0))
    with pytest.raises(AssertionError, match="not bound"):
        load.read(path).assert_existing_objects_matched()


def test_waiting_values_do_not_keep_the_root(tmp_path):
    saved = tf.Module()
    saved.v = tf.Variable(1.0)
    path = tf.train.Checkpoint(root=saved).write(str(tmp_path / "c"))
    root = tf.Module()
    gone = weakref.ref(root)
    gc.disable()
    try:
        tf.train.Checkpoint(root=root).read(path).expect_partial()
        del root
        assert gone() is None                            # without the collector of cycles
    finally:
        gc.enable()
