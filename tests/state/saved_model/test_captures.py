"""What functions of a SavedModel take and capture beside tensors and variables: defaults, ragged tensors, tables, files."""
import functools

import numpy as np
import pytest

import penstock as tf


def again(obj, path, times=2):
    """The object after it was saved and loaded, some times over."""
    for i in range(times):
        tf.saved_model.save(obj, f"{path}/{i}")
        obj = tf.saved_model.load(f"{path}/{i}")
    return obj


def test_tensors_that_a_partial_function_holds(tmp_path):
    root = tf.Module()
    root.f = tf.function(functools.partial(lambda x, y: x + y, x=tf.zeros([1]), y=tf.ones([1])))
    np.testing.assert_array_equal(root.f(), [1.])
    np.testing.assert_array_equal(again(root, tmp_path).f(), [1.])


def test_a_ragged_argument_of_an_input_signature(tmp_path):
    root = tf.Module()
    root.f = tf.function(lambda x: x + 1, input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    ragged = tf.ragged.constant([[1, 2], [3]])
    assert again(root, tmp_path).f(ragged).to_list() == [[2, 3], [4]]
    with pytest.raises(ValueError, match="input_signature"):
        root.f(tf.constant([[1]]))


def test_a_variable_whose_shape_is_not_fixed(tmp_path):
    class Holder(tf.Module):
        v = None

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def make(self, initial):
            if self.v is None:
                self.v = tf.Variable(initial)
    holder = Holder()
    holder.make(tf.constant([1, 2, 3], tf.int64))
    loaded = again(holder, tmp_path)
    loaded.v.assign([1, 2, 3, 4])
    assert loaded.v.shape.as_list() == [None] and loaded.v.numpy().tolist() == [1, 2, 3, 4]


def tabled(table):
    root = tf.Module()
    root.table = table
    root.f = tf.function(lambda keys: table.lookup(keys), input_signature=[tf.TensorSpec([None], tf.string)])
    return root


def test_a_table_of_keys_and_values(tmp_path):
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)
    loaded = again(tabled(table), tmp_path)
    assert loaded.f(tf.constant(["b", "c", "a"])).numpy().tolist() == [2, -1, 1]


def test_the_file_of_a_table_goes_with_the_model(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("zero\none\n")
    table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
        str(words), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), -1)
    root = tabled(table)
    tf.saved_model.save(root, str(tmp_path / "first"))
    words.unlink()
    loaded = again(tf.saved_model.load(str(tmp_path / "first")), tmp_path)
    assert loaded.f(tf.constant(["one", "two"])).numpy().tolist() == [1, -1]


def test_the_entries_of_a_mutable_table_are_saved(tmp_path):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(["a", "b"], [5, 6])
    path = tf.train.Checkpoint(table=table).save(str(tmp_path / "ckpt"))
    other = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    other.insert(["c"], [7])
    tf.train.Checkpoint(table=other).restore(path).assert_consumed()
    assert other.lookup(tf.constant(["a", "b", "c"])).numpy().tolist() == [5, 6, -1]
    dense = tf.lookup.experimental.DenseHashTable(tf.int64, tf.float32, [0., 0.], -1, -2)
    dense.insert([3], [[1., 2.]])
    path = tf.train.Checkpoint(table=dense).save(str(tmp_path / "dense"))
    dense.insert([3], [[9., 9.]])
    tf.train.Checkpoint(table=dense).restore(path).assert_consumed()
    assert dense.lookup(tf.constant([3, 4], tf.int64)).numpy().tolist() == [[1., 2.], [0., 0.]]


def test_a_dataset(tmp_path):
    class Summing(tf.Module):
        def __init__(self):
            super().__init__()
            self.factor = tf.Variable(3, dtype=tf.int64)
            self.dataset = tf.data.Dataset.range(5).map(lambda x: x * self.factor).batch(2)

        @tf.function(input_signature=[tf.TensorSpec([], tf.int64)])
        def __call__(self, x):
            total = tf.zeros([], tf.int64)
            for batch in self.dataset:
                total += x * tf.reduce_sum(batch)
            return total
    root = Summing()
    assert root(tf.constant(2, tf.int64)).numpy() == 60
    loaded = again(root, tmp_path)
    assert loaded(tf.constant(2, tf.int64)).numpy() == 60
    loaded.factor.assign(1)
    assert loaded(tf.constant(2, tf.int64)).numpy() == 20


def test_the_slots_of_an_optimizer(tmp_path):
    class Training(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = tf.Variable([1.0, 2.0])
            self.optimizer = tf.keras.optimizers.Adam(0.1)

        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32)])
        def train(self, target):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((self.weights - target) ** 2)
            self.optimizer.apply_gradients([(tape.gradient(loss, self.weights), self.weights)])
    root, target = Training(), tf.constant([5.0, -3.0])
    for _ in range(3):
        root.train(target)
    loaded = again(root, tmp_path)
    for each in (root, loaded):
        for _ in range(3):
            each.train(target)
    np.testing.assert_allclose(loaded.weights.numpy(), root.weights.numpy(), rtol=1e-6)
    assert loaded.optimizer.learning_rate.numpy() == np.float32(0.1)


def test_what_cannot_be_kept(tmp_path):
    outside = []

    @tf.function
    def leaking(x):
        outside.append(tf.add(x, x, name="a_tensor"))
        return outside[-1] * 2
    leaking(tf.constant(1.0))
    root = tf.Module()
    root.f = tf.function(lambda: outside[-1], input_signature=[])
    with pytest.raises((ValueError, TypeError), match="a_tensor"):
        tf.saved_model.save(root, str(tmp_path), signatures=root.f)
    root = tf.Module()
    root.f = tf.function(lambda x: (x, (x, x)), input_signature=[tf.TensorSpec([], tf.float32)])
    with pytest.raises(ValueError, match="non-flat outputs"):
        tf.saved_model.save(root, str(tmp_path), signatures=root.f)


def test_servers_make_tables_and_datasets_by_themselves(tmp_path):
    class Words(tf.Module):
        def __init__(self):
            super().__init__()
            self.factor = tf.Variable(2, dtype=tf.int64)
            numbers = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
            self.table = tf.lookup.StaticHashTable(numbers, -1)
            self.dataset = tf.data.Dataset.range(4)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
        def number(self, words):
            total = tf.zeros([], tf.int64)
            for n in self.dataset:
                total += n
            return {"number": self.table.lookup(words) * self.factor + total}
    root = Words()
    tf.saved_model.save(root, str(tmp_path), signatures=root.number)
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        signature = tf.compat.v1.saved_model.load(sess, ["serve"], str(tmp_path)).signature_def["serving_default"]
        found = sess.run(signature.outputs["number"].name, {signature.inputs["words"].name: ["a", "b", "z"]})
    assert found.tolist() == [8, 10, 4]


def test_a_model_that_has_not_been_called_is_saved_with_what_it_is_part_of(tmp_path):
    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    root = tf.train.Checkpoint(model=model)
    root.twice = tf.function(lambda x: 2.0 * x, input_signature=[tf.TensorSpec([None], tf.float32)])
    tf.saved_model.save(root, str(tmp_path))
    found = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(found.twice(tf.constant([1.0, 3.0])), [2.0, 6.0])


class Acting(tf.__internal__.tracking.Trackable):
    """An object that acts as the variable in it, as those of Keras 3 do."""

    _should_act_as_resource_variable = True

    def __init__(self, value):
        self.value = tf.Variable(value)

    @property
    def handle(self):
        return self.value.handle

    def _serialize_to_tensors(self):
        return self.value._serialize_to_tensors()

    def _restore_from_tensors(self, restored_tensors):
        return self.value._restore_from_tensors(restored_tensors)


def test_variable_in_an_object_that_acts_as_one(tmp_path):
    root = tf.Module()
    root.weight = Acting([1.0, 2.0])
    root.f = tf.function(lambda x: x * root.weight.value, input_signature=[tf.TensorSpec([2])])
    loaded = again(root, tmp_path, 1)
    np.testing.assert_array_equal(loaded.f(tf.constant([3.0, 4.0])), [3, 8])
    assert isinstance(loaded.weight, tf.Variable)
    loaded.weight.assign([5.0, 6.0])
    np.testing.assert_array_equal(loaded.f(tf.constant([1.0, 1.0])), [5, 6])
    with tf.compat.v1.Session(graph=tf.Graph()) as session:              # servers restore by the graph's own ops
        tf.compat.v1.saved_model.load(session, ["serve"], f"{tmp_path}/0")
        found, = [t for t in session.graph.get_operations() if t.type == "VarHandleOp"]
        read = tf.raw_ops.ReadVariableOp(resource=found.outputs[0], dtype=tf.float32)
        np.testing.assert_array_equal(session.run(read), [1, 2])


def test_variable_that_only_saved_models_reach_keeps_its_value(tmp_path):
    class Hidden(tf.Module):
        def _trackable_children(self, save_type="checkpoint", **kwargs):
            return {"weight": weight} if save_type == "savedmodel" else {}
    weight, root = Acting([1.0, 2.0]), tf.Module()
    root.hidden = Hidden()
    root.f = tf.function(lambda x: x * weight.value, input_signature=[tf.TensorSpec([2])])
    assert not [name for name, _ in tf.train.list_variables(tf.train.Checkpoint(root=root).save(f"{tmp_path}/checkpoint"))
                if "weight" in name]
    loaded = again(root, tmp_path, 1)
    np.testing.assert_array_equal(loaded.f(tf.constant([3.0, 4.0])), [3, 8])
    saved = dict(tf.train.list_variables(f"{tmp_path}/0/variables/variables"))
    assert saved["hidden/weight/.ATTRIBUTES/VARIABLE_VALUE"] == [2]


def test_objects_that_exist_already_take_the_place_of_saved_ones(tmp_path):
    """As tf_keras loads its models: `load_partial` gets the layers that it made from their configs."""
    root, part = tf.Module(), tf.Module()
    root.part, part.weight = part, tf.Variable([1.0, 2.0])
    part.scaled = tf.function(lambda x: x * part.weight, input_signature=[tf.TensorSpec([2])])
    tf.saved_model.save(root, str(tmp_path))
    weight, made, noted = tf.Variable([0.0, 0.0]), tf.Module(), []

    def keep(obj, name, value):
        noted.append(name)
        setattr(obj, name, value)
    load = tf.__internal__.saved_model.load_partial
    found = load(str(tmp_path), {"root": None, "root.part": (made, keep), "root.part.weight": weight})
    assert found["root"].part is found["root.part"] is made and made.weight is found["root.part.weight"] is weight
    assert set(noted) == {"weight", "scaled"}
    np.testing.assert_array_equal(weight, [1, 2])
    weight.assign([3.0, 5.0])
    np.testing.assert_array_equal(made.scaled(tf.constant([1.0, 2.0])), [3, 10])
    alone = load(str(tmp_path), ["root.part.weight"])
    np.testing.assert_array_equal(alone["root.part.weight"], [1, 2])
    with pytest.raises(ValueError, match="no object at root.other"):
        load(str(tmp_path), ["root.other"])
