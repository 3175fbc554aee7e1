"""The order in which `tf.Module` finds variables and modules. Values recorded from TensorFlow."""
import penstock as tf


class Leaf(tf.Module):
    def __init__(self, name):
        super().__init__()
        self.v = tf.Variable(0., name=name)


class Inner(tf.Module):
    def __init__(self):
        super().__init__()
        self.b = tf.Module()
        self.b.items = [Leaf("deep")]
        self.c = tf.Variable(0., name="inner")
        self.d = Leaf("late")


def test_a_submodule_comes_whole_before_the_next_one():
    root = tf.Module()
    root.inner, root.z = Inner(), tf.Variable(0., name="own")
    assert [v.name for v in root.variables] == ["own:0", "inner:0", "deep:0", "late:0"]
    names = [type(m).__name__ for m in root.submodules]
    assert names == ["Inner", "Module", "Leaf", "Leaf"] and root.submodules[2] is root.inner.d


def test_layers_in_modules_have_the_order_of_their_attributes():
    class Network(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self._encoder = tf.keras.Sequential([tf.keras.layers.Dense(3)])
            self._last = tf.keras.layers.Dense(1)

        def call(self, inputs):
            return self._last(self._encoder(inputs))
    policy = tf.Module()
    policy._network = Network()
    policy._network(tf.ones([1, 2]))
    assert [v.shape.as_list() for v in policy.variables] == [[2, 3], [3], [3, 1], [1]]


def test_paths_name_each_way_to_a_variable_and_end_at_cycles():
    root = tf.Module()
    root.a = root.b = Leaf("s")
    root.c = [root.a, {"k": Leaf("k")}]
    root.a.up = root
    assert [v.name for v in root.variables] == ["s:0", "k:0"]
    found = root._flatten(predicate=lambda v: isinstance(v, tf.Variable), with_path=True)
    assert [path for path, _ in found] == [("a", "v"), ("b", "v"), ("c", 0, "v"), ("c", 1, "k", "v")]


def test_the_name_scope_of_a_module_can_be_entered_by_hand():
    module = tf.Module("outer")
    assert module.name_scope is module.name_scope
    module.name_scope.__enter__()
    with module.name_scope as inner:
        assert inner == "outer/"
    named = tf.Variable(1.0, name="v").name
    module.name_scope.__exit__(None, None, None)
    assert named == "outer/v:0" and tf.Variable(1.0, name="v").name == "v:0"
