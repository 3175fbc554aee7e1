"""tf.train.Checkpoint: objects by their places, restored now or when they are made; containers; optimizers; managers."""
import collections
import os

import numpy as np
import pytest

import penstock as tf
import penstock.compat.v1 as v1
from penstock._src.graph.composite_tensor import CompositeTensor
from penstock._src.state.checkpoint.object_graph import PythonState
from penstock._src.state.containers import DictWrapper, ListWrapper


class Dense(tf.Module):
    def __init__(self, n=2):
        super().__init__()
        self.kernel = tf.Variable(np.arange(float(n)), name="kernel")
        self.parts = [tf.Variable(1.0), {"x": tf.Variable(2.0)}]


def test_what_is_saved_comes_back(tmp_path):
    layer = Dense()
    path = tf.train.Checkpoint(layer=layer, n=tf.Variable(7)).save(str(tmp_path / "c"))
    assert [n for n, _ in tf.train.list_variables(path)] == [
        "_CHECKPOINTABLE_OBJECT_GRAPH", "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE", "layer/parts/0/.ATTRIBUTES/VARIABLE_VALUE",
        "layer/parts/1/x/.ATTRIBUTES/VARIABLE_VALUE", "n/.ATTRIBUTES/VARIABLE_VALUE",
        "save_counter/.ATTRIBUTES/VARIABLE_VALUE"]
    other = Dense()
    other.kernel.assign([9.0, 9.0])
    other.parts[1]["x"].assign(0.0)
    checkpoint = tf.train.Checkpoint(layer=other, n=tf.Variable(0))
    checkpoint.restore(path).assert_consumed()
    assert other.kernel.numpy().tolist() == [0, 1] and other.parts[1]["x"].numpy() == 2.0 and checkpoint.n.numpy() == 7
    assert tf.train.latest_checkpoint(str(tmp_path)) == path


def test_objects_made_after_the_restore_get_their_values(tmp_path):
    path = tf.train.Checkpoint(layer=Dense(3)).save(str(tmp_path / "c"))
    root = tf.train.Checkpoint()
    status = root.restore(path)
    with pytest.raises(AssertionError, match="Unresolved object"):
        status.assert_consumed()
    layer = Dense(3)
    layer.kernel.assign([5.0, 5.0, 5.0])
    root.layer = layer
    assert layer.kernel.numpy().tolist() == [0, 1, 2]
    status.assert_consumed()


def test_nothing_in_common_is_noticed(tmp_path):
    path = tf.train.Checkpoint(a=tf.Variable(1.0)).write(str(tmp_path / "c"))
    status = tf.train.Checkpoint(b=tf.Variable(1.0)).read(path)
    with pytest.raises(AssertionError):
        status.assert_existing_objects_matched()
    with pytest.raises(AssertionError, match="Nothing except the root"):
        status.assert_nontrivial_match()
    status.expect_partial()


def test_slots_of_optimizers(tmp_path):
    def trained(steps):
        v, opt = tf.Variable([1.0, 2.0]), v1.train.AdamOptimizer(0.1)
        for _ in range(steps):
            opt.minimize(lambda: tf.reduce_sum(v * v), var_list=[v])
        return v, opt
    v, opt = trained(3)
    path = tf.train.Checkpoint(v=v, opt=opt).save(str(tmp_path / "c"))
    names = [n for n, _ in tf.train.list_variables(path)]
    assert "v/.OPTIMIZER_SLOT/opt/m/.ATTRIBUTES/VARIABLE_VALUE" in names
    w, other = tf.Variable([0.0, 0.0]), v1.train.AdamOptimizer(0.1)
    status = tf.train.Checkpoint(v=w, opt=other).restore(path)
    other.minimize(lambda: tf.reduce_sum(w * w), var_list=[w])
    opt.minimize(lambda: tf.reduce_sum(v * v), var_list=[v])
    status.assert_consumed()
    np.testing.assert_allclose(w.numpy(), v.numpy(), rtol=1e-6)


def test_in_graphs(tmp_path):
    with tf.Graph().as_default(), v1.Session() as sess:
        v = v1.get_variable("v", initializer=3.0, use_resource=True)
        opt = v1.train.MomentumOptimizer(0.1, 0.9)
        train = opt.minimize(v * v)
        checkpoint = v1.train.Checkpoint(v=v, opt=opt)
        sess.run(v1.global_variables_initializer())
        sess.run(train)
        path = checkpoint.save(str(tmp_path / "c"), session=sess)
        before = sess.run(v)
        sess.run(train)
        size = len(sess.graph.get_operations())
        checkpoint.save(str(tmp_path / "c"), session=sess)
        assert len(sess.graph.get_operations()) == size          # ops are created once
        checkpoint.restore(path).assert_consumed().run_restore_ops(sess)
        assert sess.run(v) == before
    w = tf.Variable(0.0)
    tf.train.Checkpoint(v=w).restore(path).expect_partial()
    assert w.numpy() == before


def test_checkpoints_of_savers_are_restored_by_name(tmp_path):
    v = tf.Variable(4.0, name="v")
    path = v1.train.Saver([v]).save(None, str(tmp_path / "m"))
    w = tf.Variable(0.0, name="v")
    tf.train.Checkpoint(anything=w).restore(path)
    assert w.numpy() == 4.0


def test_savers_restore_checkpoints_of_objects_by_name(tmp_path):
    path = tf.train.Checkpoint(anything=tf.Variable(4.0, name="v")).save(str(tmp_path / "m"))
    with tf.Graph().as_default(), v1.Session() as sess:
        v = v1.get_variable("v", [])
        v1.train.Saver().restore(sess, path)
        assert sess.run(v) == 4.0


def test_lists_that_were_changed_refuse(tmp_path):
    root = tf.train.Checkpoint()
    root.items = [tf.Variable(1.0)]
    root.items.append(tf.Variable(2.0))
    assert isinstance(root.items, ListWrapper) and isinstance(root.items, list) and len(root.items) == 2
    root.save(str(tmp_path / "c"))
    root.items[0] = tf.Variable(3.0)
    with pytest.raises(ValueError, match="element was replaced"):
        root.save(str(tmp_path / "c"))


def test_dictionaries_are_seen_through(tmp_path):
    root, inner = tf.train.Checkpoint(), {"a": tf.Variable(1.0)}
    root.d = inner
    assert isinstance(root.d, dict) and isinstance(root.d, DictWrapper) and root.d == inner
    assert [v.numpy() for v in tf.nest.flatten(root.d)] == [1.0]
    root.d["b"] = tf.Variable(2.0)
    root.save(str(tmp_path / "c"))
    inner["c"] = tf.Variable(3.0)
    with pytest.raises(ValueError, match="modified outside"):
        root.save(str(tmp_path / "c"))
    root.d = {1: tf.Variable(1.0)}
    with pytest.raises(ValueError, match="non-string key"):
        root.save(str(tmp_path / "c"))


def test_tuples_are_tracked():
    root = tf.train.Checkpoint()
    root.t = (1, tf.Variable(2.0))
    assert root.t == (1, root.t[1]) and [n for n, _ in root.t._checkpoint_dependencies] == ["1"]


def test_python_state(tmp_path):
    class Counter(PythonState):
        n = 0

        def serialize(self):
            return str(self.n)

        def deserialize(self, string_value):
            self.n = int(string_value)
    counter = Counter()
    counter.n = 5
    checkpoint = tf.train.Checkpoint(counter=counter)
    path = checkpoint.save(str(tmp_path / "c"))
    counter.n = 0
    checkpoint.restore(path).assert_consumed()
    assert counter.n == 5


def test_managers_keep_the_newest(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    made = [manager.save() for _ in range(4)]
    assert manager.checkpoints == made[-2:] and manager.latest_checkpoint == made[-1]
    assert sorted(f for f in os.listdir(tmp_path) if f.endswith(".index")) == ["ckpt-3.index", "ckpt-4.index"]
    again = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    assert again.checkpoints == made[-2:]
    assert again.save(checkpoint_number=9).endswith("ckpt-9") and again.checkpoints[0] == made[-1]


def test_modules():
    layer = Dense()
    layer.inner = Dense()
    layer.fixed = tf.Variable(1.0, trainable=False)
    assert layer.name == "dense" and layer.submodules == (layer.inner,)
    assert len(layer.variables) == 7 and len(layer.trainable_variables) == 6
    with pytest.raises(ValueError, match="not a valid module name"):
        tf.Module(name="a b")


def test_a_checkpoint_restores_from_a_saved_model(tmp_path):
    module = tf.Module()
    module.v = tf.Variable([1.0, 2.0])
    tf.saved_model.save(module, str(tmp_path / "saved"))
    other = tf.Module()
    other.v = tf.Variable([0.0, 0.0])
    tf.train.Checkpoint(other).restore(str(tmp_path / "saved")).expect_partial()
    np.testing.assert_array_equal(other.v.numpy(), [1.0, 2.0])
    with pytest.raises(tf.errors.NotFoundError, match="Error when restoring from checkpoint or SavedModel"):
        tf.train.Checkpoint(other).restore(str(tmp_path / "absent"))


def test_the_prefix_may_be_the_argument_of_a_function(tmp_path):
    checkpoint = tf.train.Checkpoint(v=tf.Variable(3.0))

    @tf.function
    def write(prefix):
        return checkpoint.write(prefix)
    prefix = write(tf.constant(str(tmp_path / "ckpt"))).numpy().decode()
    fresh = tf.train.Checkpoint(v=tf.Variable(0.0))
    fresh.read(prefix).assert_consumed()
    assert fresh.v.numpy() == 3.0


def test_subclasses_of_dictionaries_stay_what_they_are(tmp_path):
    """A key that is no string, or items that a default factory makes, do not keep the object from being saved."""
    module = tf.Module()
    module.layers = collections.defaultdict(list)
    module.layers[0].append(tf.Variable(1.0))
    module.count = collections.Counter("aab")
    assert type(module.layers) is collections.defaultdict and type(module.count) is collections.Counter
    assert tf.train.latest_checkpoint(os.path.dirname(tf.train.Checkpoint(m=module).save(str(tmp_path / "c"))))


def test_a_checkpoint_may_have_the_name_of_a_folder(tmp_path):
    """`write` to an existing folder's name makes files beside it, which `read` prefers to what is in the folder."""
    tf.train.Checkpoint(v=tf.Variable(2.0)).write(str(tmp_path))
    v = tf.Variable(0.0)
    tf.train.Checkpoint(v=v).read(str(tmp_path)).assert_consumed()
    assert v.numpy() == 2.0


def test_weights_without_a_name_are_saved_as_attributes(tmp_path):
    class Sum(tf.keras.layers.Layer):
        def build(self, input_shape):
            self.first = self.add_weight(shape=[2], initializer="ones")
            self.second = self.add_weight(shape=[2])

        def call(self, inputs):
            return inputs + self.first + self.second
    old, new = Sum(), Sum()
    old(tf.ones([1, 2]))
    old.second.assign([3.0, 4.0])
    path = tf.train.Checkpoint(layer=old).save(str(tmp_path / "c"))
    restored = tf.train.Checkpoint(layer=new).restore(path)
    new(tf.ones([1, 2]))
    restored.assert_consumed()
    np.testing.assert_array_equal(new.second.numpy(), [3.0, 4.0])
    np.testing.assert_array_equal(new.first.numpy(), [1.0, 1.0])


class Pair(tf.__internal__.tracking.Trackable):
    """Is saved by its tensors: one whole, one in two slices, and takes them back together."""

    def __init__(self, low, high):
        self.low, self.high, self.restored = tf.Variable(low), tf.Variable(high), []

    def _serialize_to_tensors(self):
        return {"low": self.low.read_value(), "high/er": {"4 0,2": self.high[:2], "4 2,2": self.high[2:]}}

    def _restore_from_tensors(self, restored_tensors):
        self.restored.append(sorted(restored_tensors))
        self.high.assign(tf.concat([restored_tensors["high/er"]["4 0,2"], restored_tensors["high/er"]["4 2,2"]], 0))
        return self.low.assign(restored_tensors["low"])


def test_objects_that_serialize_themselves_to_tensors(tmp_path):
    path = tf.train.Checkpoint(pair=Pair(1.0, [1.0, 2.0, 3.0, 4.0])).save(str(tmp_path / "c"))
    assert dict(tf.train.list_variables(path)) == {
        "_CHECKPOINTABLE_OBJECT_GRAPH": [], "pair/.ATTRIBUTES/low": [], "pair/.ATTRIBUTES/high.Ser": [4],
        "save_counter/.ATTRIBUTES/VARIABLE_VALUE": []}
    other = Pair(0.0, [0.0] * 4)
    tf.train.Checkpoint(pair=other).restore(path).assert_consumed()
    assert other.low.numpy() == 1 and other.high.numpy().tolist() == [1, 2, 3, 4] and other.restored == [["high/er", "low"]]
    late = tf.train.Checkpoint()
    late.restore(path)
    late.pair = Pair(0.0, [0.0] * 4)
    assert late.pair.low.numpy() == 1


def test_serializing_to_tensors_in_a_graph_adds_its_ops_once(tmp_path):
    class One(tf.__internal__.tracking.Trackable):
        def __init__(self):
            self.v = tf.Variable(3.0)

        def _serialize_to_tensors(self):
            return {"v": self.v.read_value()}

        def _restore_from_tensors(self, restored_tensors):
            return self.v.assign(restored_tensors["v"])

    with tf.Graph().as_default() as graph, v1.Session() as session:
        one = One()
        saver = v1.train.Checkpoint(one=one)
        session.run(v1.global_variables_initializer())
        session.run(saver.save_counter.initializer)
        path = saver.save(str(tmp_path / "c"), session)
        count = len(graph.get_operations())
        saver.save(str(tmp_path / "c"), session)
        assert len(graph.get_operations()) == count
        session.run(one.v.assign(0.0))
        saver.restore(path).run_restore_ops(session)
        assert session.run(one.v) == 3


def test_a_variable_gives_and_takes_its_tensors():
    v = tf.Variable([1.0, 2.0])
    given = v._serialize_to_tensors()
    v.assign([0.0, 0.0])
    v._restore_from_tensors(given)
    assert v.numpy().tolist() == [1, 2] and list(given) == ["VARIABLE_VALUE"]


def test_references_to_dependencies_are_no_tuples():
    root = tf.train.Checkpoint(v=tf.Variable(1.0))
    reference, = [r for r in root._checkpoint_dependencies if r.name == "v"]
    assert not isinstance(reference, tuple)          # libraries search tuples for layers
    name, ref = reference
    assert (name, ref is root.v) == ("v", True)
    assert reference == tf.__internal__.tracking.TrackableReference("v", root.v) == ("v", root.v)
    assert reference != tf.__internal__.tracking.TrackableReference("w", root.v)


def test_tuples_of_modules_have_the_structure_of_tuples():
    Pair = collections.namedtuple("Pair", "x y")
    module = tf.Module()
    module.t, module.p = (tf.Variable(1.0),), Pair(tf.Variable(1.0), 2)
    for held, plain in ((module.t, (1,)), (module.p, Pair(1, 2))):
        tf.nest.assert_same_structure(held, plain)
        tf.nest.assert_same_structure(plain, held)
    with pytest.raises(TypeError):
        tf.nest.assert_same_structure((1, 2), module.p)


def test_modules_have_the_variables_of_composite_tensors():
    class Several(tf.experimental.ExtensionType):
        a: tf.Tensor

    class Both(CompositeTensor):
        """A composite tensor of variables."""

        def __init__(self, variables):
            self.variables = variables

        @property
        def _type_spec(self):
            return BothSpec()

    class BothSpec(tf.TypeSpec):
        value_type = Both
        _component_specs = property(lambda self: self)

        def _serialize(self):
            return ()

        def _to_components(self, value):
            return value.variables

        def _from_components(self, variables):
            return Both(variables)

    module = tf.Module()
    module.both = [Both([tf.Variable(1.0), tf.Variable(2.0, trainable=False)])]
    module.plain, module.sparse = Several(tf.ones([2])), tf.sparse.from_dense([1.0])
    module.operator = tf.linalg.LinearOperatorDiag(tf.Variable([1.0, 2.0]))
    assert [v.numpy().tolist() for v in module.variables] == [1.0, 2.0, [1.0, 2.0]]
    assert len(module.trainable_variables) == 2 and len(module.non_trainable_variables) == 1


def test_values_of_lists_that_are_not_tracked_may_move():
    root = tf.Module()
    root.plain, root.tracked = [3, 1, 2], [tf.Variable(1.0), 5]
    for change in (lambda x: x.insert(0, 7), lambda x: x.sort(), lambda x: x.reverse(), lambda x: x.__delitem__(0),
                   lambda x: x.__setitem__(slice(0, 1), [9, 9])):
        change(root.plain)
        assert root.plain._trackable_children() == {}
    assert root.plain == [9, 9, 2, 1]
    root.tracked.insert(2, 6)
    with pytest.raises(ValueError, match="Unable to save the object ListWrapper"):
        root.tracked._trackable_children()


def test_named_tuples_have_their_values_by_name_and_by_place(tmp_path):
    pair = collections.namedtuple("pair", "x y")
    root, v = tf.Module(), tf.Variable(2.0)
    root.pair = pair(v, 3)
    assert root._trackable_children()["pair"]._trackable_children() == {"x": v, "0": v}
    path = tf.train.Checkpoint(root=root).save(str(tmp_path / "c"))
    v.assign(0.0)
    tf.train.Checkpoint(root=root).restore(path).assert_consumed()
    assert float(v) == 2.0
