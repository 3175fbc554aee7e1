"""fingerprint.pb of SavedModels, and TrackableResource."""
import shutil

import pytest

import penstock as tf
from penstock._src.io.messages import SavedModel

read = tf.saved_model.experimental.read_fingerprint


class Doubled(tf.Module):
    def __init__(self, by):
        self.by = tf.Variable(by)

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def __call__(self, x):
        return x * self.by


def test_fingerprint_tells_models_apart(tmp_path):
    for name, by in (("a", 2.0), ("b", 3.0)):
        tf.saved_model.save(Doubled(by), str(tmp_path / name))
    a, b = read(tmp_path / "a"), read(str(tmp_path / "b"))
    assert a.checkpoint_hash != b.checkpoint_hash and a.signature_def_hash == b.signature_def_hash
    assert a != b and a == read(tmp_path / "a") and a.version.producer == 1
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    assert read(tmp_path / "copy") == a
    assert a.singleprint() == "/".join(map(str, (a.graph_def_program_hash, a.signature_def_hash, a.saved_object_graph_hash,
                                                 a.checkpoint_hash)))
    assert str(a).splitlines()[1] == f"  saved_model_checksum: {a.saved_model_checksum}"


def test_fingerprint_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="SavedModel Fingerprint Error"):
        read(str(tmp_path))
    with pytest.raises(ValueError, match="singleprint"):
        tf.saved_model.experimental.Fingerprint(1).singleprint()
    with pytest.raises(ValueError, match="are not a FingerprintDef"):
        tf.saved_model.experimental.Fingerprint.from_proto(tf.compat.v1.GraphDef())


def test_fields_from_a_message():
    # A fingerprint.pb as TensorFlow writes one: fields 1 to 5 and the version.
    f = tf.saved_model.experimental.Fingerprint.from_proto(b"\x08\x01\x10\x02\x18\x03\x20\x04\x28\x05\x32\x02\x08\x01")
    assert repr(f) == "Fingerprint(1, 2, 3, 4, 5)" and f.version.producer == 1


class Words(tf.saved_model.experimental.TrackableResource):
    made = 0

    def _create_resource(self):
        Words.made += 1
        return tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64)

    def _initialize(self):
        tf.raw_ops.LookupTableInsertV2(table_handle=self.resource_handle, keys=["a", "b"], values=tf.constant([1, 2], tf.int64))


class Model(tf.Module):
    def __init__(self):
        self.words = Words()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def find(self, keys):
        return tf.raw_ops.LookupTableFindV2(table_handle=self.words.resource_handle, keys=keys,
                                            default_value=tf.constant(-1, tf.int64))


def test_trackable_resource(tmp_path):
    before = Words.made
    model = Model()
    assert Words.made == before                           # made when it is used
    assert model.find(["a", "z"]).numpy().tolist() == [-1, -1]
    assert Words.made == before + 1
    tf.saved_model.save(model, str(tmp_path / "m"))
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    assert loaded.find(["a", "z", "b"]).numpy().tolist() == [1, -1, 2]     # as in TensorFlow: loading fills it


def test_a_policy_divides_the_variables_of_a_model(tmp_path):
    options = tf.saved_model.SaveOptions(experimental_sharding_callback=tf.train.experimental.MaxShardSizePolicy(4))
    model = Doubled(2.0)
    model.more = tf.Variable([1.0, 2.0])
    tf.saved_model.save(model, str(tmp_path / "m"), options=options)
    assert len(list((tmp_path / "m" / "variables").glob("*.data-*"))) > 1
    assert tf.saved_model.load(str(tmp_path / "m")).more.numpy().tolist() == [1.0, 2.0]


def test_aliases_of_functions(tmp_path):
    model, double = Doubled(2.0), tf.function(lambda x: 2 * x)
    traces = [double.get_concrete_function(tf.TensorSpec([], t)) for t in (tf.float32, tf.int32)]
    options = tf.saved_model.SaveOptions(function_aliases={"serve": model.__call__, "two": traces})
    tf.saved_model.save(model, str(tmp_path / "m"), model.__call__, options=options)
    message = SavedModel.FromString((tmp_path / "m" / "saved_model.pb").read_bytes())
    aliases = message.meta_graphs[0].meta_info_def.function_aliases
    assert {aliases[t.graph_function.name] for t in traces} == {"two"} and sorted(aliases.values()) == ["serve", "two", "two"]


def test_aliases_are_loaded(tmp_path):
    model, both = Doubled(2.0), tf.function(lambda x: 2 * x)
    model.both, traces = both, [both.get_concrete_function(tf.TensorSpec([], t)) for t in (tf.float32, tf.int32)]
    for number, two in enumerate((both, traces[:1])):
        options = tf.saved_model.SaveOptions(function_aliases={"serve": model.__call__, "two": two})
        tf.saved_model.save(model, str(tmp_path / f"{number}"), model.__call__, options=options)
    load = tf.saved_model.LoadOptions(experimental_load_function_aliases=True)
    whole, part = (tf.saved_model.load(str(tmp_path / f"{number}"), options=load).function_aliases for number in (0, 1))
    assert sorted(whole) == sorted(part) == ["serve", "two"]
    assert int(whole["two"](tf.constant(3))) == 6 and float(whole["two"](tf.constant(1.5))) == 3.0
    assert [float(f(tf.constant(1.5))) for f in part["two"]] == [3.0]
    assert not hasattr(tf.saved_model.load(str(tmp_path / "0")), "function_aliases")
    model.function_aliases = tf.Variable(1.0)
    tf.saved_model.save(model, str(tmp_path / "taken"))
    with pytest.raises(ValueError, match="function_aliases"):
        tf.saved_model.load(str(tmp_path / "taken"), options=load)


def _tables():
    words = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
    return [tf.lookup.StaticHashTable(words, -1), tf.lookup.StaticVocabularyTable(words, 1),
            tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1),
            tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, -1, "", "-")]


def test_tables_are_trackable_resources():
    root = tf.Module()
    root.tables = tables = _tables()
    assert all(isinstance(t, tf.saved_model.experimental.TrackableResource) for t in tables)
    found = {id(t) for t in tf.train.TrackableView(root).descendants()
             if isinstance(t, tf.saved_model.experimental.TrackableResource)}
    assert found >= {id(t) for t in tables}


def test_tables_that_are_found_as_resources_are_exported(tmp_path):
    layer, kept = tf.Module(), tf.Module()
    layer.tables = _tables()[:2]
    kept.resources = [t for t in tf.train.TrackableView(layer).descendants()
                      if isinstance(t, tf.saved_model.experimental.TrackableResource)]
    kept.find = tf.function(lambda keys: tf.stack([t.lookup(keys) for t in layer.tables]),
                            input_signature=[tf.TensorSpec([None], tf.string)])
    tf.saved_model.save(kept, str(tmp_path / "m"))
    assert tf.saved_model.load(str(tmp_path / "m")).find(["b", "z"]).numpy().tolist() == [[2, -1], [2, 2]]
