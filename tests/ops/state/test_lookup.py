"""Lookup tables: the three kinds, their errors, files, sessions and eager execution."""
import numpy as np
import pytest

import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.kernels.tables import DenseTable, StaticTable, Table

Invalid = tf.errors.InvalidArgumentError
Failed = tf.errors.FailedPreconditionError


@pytest.fixture
def sess():
    with tf.Graph().as_default(), tf.Session() as s:
        yield s


def strings(*words):
    return tf.constant(list(words))


def static(keys, values, default=-1, dtype=tf.int64):
    init = tf.lookup.KeyValueTensorInitializer(keys, values, tf.string, dtype)
    return tf.lookup.StaticHashTable(init, default)


def test_static_table(sess):
    table = static(["a", "b"], [1, 2])
    out = table.lookup(strings("b", "c"))
    assert out.shape.as_list() == [2]
    with pytest.raises(Failed, match="Table not initialized"):
        sess.run(out)
    sess.run(tf.tables_initializer())
    assert sess.run(out).tolist() == [2, -1]
    assert sess.run(table.size()) == 2
    assert sess.run(table.lookup(tf.SparseTensor([[0, 1]], ["a"], [1, 2]))).values.tolist() == [1]
    keys, values = sess.run(table.export())
    assert dict(zip(keys.tolist(), values.tolist(), strict=True)) == {b"a": 1, b"b": 2}
    sess.run(table.initializer)                    # again with the same entries
    with pytest.raises(TypeError, match="Signature mismatch"):
        table.lookup(tf.constant([1]))


def test_sessions_have_their_own_tables():
    with tf.Graph().as_default() as g:
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        insert, size = table.insert(strings("a"), tf.constant([1], tf.int64)), table.size()
        with tf.Session(graph=g) as one, tf.Session(graph=g) as two:
            one.run(insert)
            assert one.run(size) == 1 and two.run(size) == 0


def test_static_table_is_filled_once(sess):
    table = static(["a", "a"], [1, 2])
    with pytest.raises(Failed, match="different value for same key"):
        sess.run(table.initializer)
    value = tf.placeholder_with_default(tf.constant([1], tf.int64), [1])
    table = static(["a"], value)
    sess.run(table.initializer)
    with pytest.raises(Failed, match="already initialized"):
        sess.run(table.initializer, {value: [2]})
    with pytest.raises(ValueError, match="not compatible"):
        static(["a"], [1, 2])
    with pytest.raises(tf.errors.NotFoundError, match="no HashTable"):
        sess.run(static(["a"], [1], tf.constant(1, tf.int8), tf.int8).initializer)


def test_text_file(sess, tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(b"brain\t1\r\nsalad\t2\nsurgery\t3")
    index = tf.lookup.TextFileIndex

    def table(key_dtype, key_index, value_dtype, value_index, default, name=str(path), **kwargs):
        init = tf.lookup.TextFileInitializer(name, key_dtype, key_index, value_dtype, value_index, **kwargs)
        made = tf.lookup.StaticHashTable(init, default)
        sess.run(made.initializer)
        return made
    lines = table(tf.string, 0, tf.int64, index.LINE_NUMBER, -1)
    assert sess.run(lines.lookup(strings("surgery", "x"))).tolist() == [2, -1]
    column = table(tf.int64, index.LINE_NUMBER, tf.float32, 1, -1.)
    assert sess.run(column.lookup(tf.constant([1, 5], tf.int64))).tolist() == [2., -1.]
    assert sess.run(table(tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER, -1, vocab_size=2).size()) == 2
    assert len(tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)) == 3
    for error, words, kwargs in ((Invalid, "expected 4 but got 3", {"vocab_size": 4}),
                                 (tf.errors.NotFoundError, "nowhere", {"name": str(tmp_path / "nowhere")})):
        with pytest.raises(error, match=words):
            table(tf.string, 0, tf.int64, index.LINE_NUMBER, -1, **kwargs)
    with pytest.raises(Invalid, match="Invalid number of columns"):
        table(tf.string, 2, tf.int64, index.LINE_NUMBER, -1)
    with pytest.raises(Invalid, match="not a valid int64"):
        table(tf.int64, 0, tf.int64, 1, -1)
    path.write_bytes(b"a\n\nb")
    with pytest.raises(Invalid, match="empty line"):
        table(tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER, -1)
    with pytest.raises(ValueError, match="Signature mismatch"):
        tf.lookup.TextFileInitializer(str(path), tf.string, index.LINE_NUMBER, tf.int64, 0)


def test_mutable_table(sess):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.string, "none")
    sess.run(table.insert(tf.constant([1, 2, 1], tf.int64), strings("a", "b", "c")))
    keys = tf.placeholder(tf.int64)
    out = table.lookup(keys)
    assert sess.run(out, {keys: [[1, 2], [3, 1]]}).tolist() == [[b"c", b"b"], [b"none", b"c"]]
    sess.run(table.remove(tf.constant([1, 9], tf.int64)))
    assert sess.run([table.size(), out], {keys: 1}) == [1, b"none"]
    with pytest.raises(ValueError):
        table.insert(strings("a"), strings("b"))
    with pytest.raises(Invalid, match="Expected shape"):
        sess.run(table.insert(tf.constant([1, 2], tf.int64), strings("a")))


def test_table_of_vectors(sess):
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, [-1., -1.])
    sess.run(table.insert(strings("a"), tf.constant([[1., 2.]])))
    out = table.lookup(strings("b", "a"))
    assert out.shape.as_list() == [2, 2]
    assert sess.run(out).tolist() == [[-1, -1], [1, 2]]
    keys, values = table.export()
    assert values.shape.as_list() == [None, 2] and sess.run(values).tolist() == [[1, 2]]


def test_dense_table(sess):
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, empty_key=0, deleted_key=-1,
                                                  initial_num_buckets=4)
    sess.run(table.insert(tf.range(1, 21, dtype=tf.int64), tf.range(20, dtype=tf.int64)))
    sess.run(table.erase(tf.constant([3], tf.int64)))
    assert sess.run([table.size(), table.lookup(tf.constant([1, 3, 20, 99], tf.int64))])[1].tolist() == [0, -1, 19, -1]
    keys, values = sess.run(table.export())
    assert len(keys) == len(values) == 32 and sorted(k for k in keys if k not in (0, -1)) == [1, 2, *range(4, 21)]
    for key, words in ((0, "empty_key"), (-1, "deleted_key")):
        with pytest.raises(Invalid, match=words):
            sess.run(table.lookup(tf.constant([key], tf.int64)))
    for wrong, words in (({"initial_num_buckets": 12}, "power of 2"), ({"deleted_key": 0}, "cannot be equal"),
                         ({"deleted_key": [1, 2]}, "same shape"), ({"initial_num_buckets": 2 ** 40}, "power of 2")):
        kwargs = {"empty_key": 0, "deleted_key": -1, "initial_num_buckets": 4, **wrong}
        with pytest.raises(Invalid, match=words):
            sess.run(tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, **kwargs).size())


def test_dense_table_of_vector_keys(sess):
    table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.string, "?", empty_key=[0, 0], deleted_key=[-1, -1],
                                                  initial_num_buckets=4)
    sess.run(table.insert(tf.constant([[1, 2], [3, 4]], tf.int64), strings("a", "b")))
    assert sess.run(table.lookup(tf.constant([[3, 4], [2, 1]], tf.int64))).tolist() == [b"b", b"?"]
    with pytest.raises(Invalid, match="Expected key shape"):
        sess.run(table.lookup(tf.constant([[1, 2, 3]], tf.int64)))


def test_import_replaces_entries():
    for made in (Table("", "t", tf.int64, tf.int64), DenseTable("", "t", tf.int64, tf.int64, (), *_keys(0, -1), 4, 0.8)):
        made.insert(_tensor([1, 2]), _tensor([10, 20]))
        copy = Table("", "u", tf.int64, tf.int64)
        copy.insert(_tensor([5]), _tensor([50]))
        if isinstance(made, DenseTable):
            copy = DenseTable("", "u", tf.int64, tf.int64, (), *_keys(0, -1), 8, 0.8)
        copy.import_entries(*made.export())
        assert copy.find(_tensor([2, 5]), _tensor(-1)).tolist() == [20, -1]


def _tensor(values):
    import torch
    return torch.tensor(values)


def _keys(*values):
    return [_tensor(v) for v in values]


def test_many_keys_at_once_agree_with_few():
    table = Table("", "t", tf.int64, tf.int64)
    keys = np.random.RandomState(0).randint(0, 1000, 500)
    table.insert(_tensor(keys), _tensor(keys * 3))
    wanted = _tensor(np.arange(-5, 1005))
    many = table.find(wanted, _tensor(-1)).tolist()
    assert many == [int(table.find(k, _tensor(-1))) for k in wanted]
    table.remove(_tensor(keys[:100]))
    assert table.find(_tensor(keys[:100]), _tensor(-1)).tolist() == [-1] * 100


def test_eager_tables():
    table = tf2.lookup.StaticHashTable(tf2.lookup.KeyValueTensorInitializer(["a"], [1]), -1)
    assert table[tf2.constant(["a", "b"])].numpy().tolist() == [1, -1]
    other = tf2.lookup.StaticHashTable(tf2.lookup.KeyValueTensorInitializer(["a"], [7]), -1)
    assert other.lookup(tf2.constant(["a"])).numpy().tolist() == [7]
    ragged = tf2.ragged.constant([["a"], [], ["b", "a"]])
    assert table.lookup(ragged).to_list() == [[1], [], [-1, 1]]


def test_vocabulary():
    init = tf2.lookup.KeyValueTensorInitializer(["emerson", "lake"], [0, 1], value_dtype=tf2.int64)
    table = tf2.lookup.StaticVocabularyTable(init, num_oov_buckets=2)
    assert int(table.size()) == 4
    found = table.lookup(tf2.constant(["lake", "palmer", "king"])).numpy()
    assert found[0] == 1 and found[1:].tolist() == (2 + tf2.strings.to_hash_bucket_fast(["palmer", "king"], 2)).numpy().tolist()
    with pytest.raises(ValueError, match="oov_buckets must be > 0"):
        tf2.lookup.StaticVocabularyTable(init, 0)


def test_tables_from_vocabularies(sess, tmp_path):
    path = tmp_path / "vocabulary"
    path.write_text("brain\nsalad\nsurgery\n")
    lookup = tf.contrib.lookup
    from_file = lookup.index_table_from_file(str(path), num_oov_buckets=1)
    from_tensor = lookup.index_table_from_tensor(["brain", "salad"], default_value=-7)
    ints = lookup.index_table_from_tensor([42, 7], num_oov_buckets=3, dtype=tf.int32,
                                          hasher_spec=lookup.StrongHashSpec([1, 2]))
    back = lookup.index_to_string_table_from_tensor(["x", "y"])
    back_file = lookup.index_to_string_table_from_file(str(path), default_value="?")
    sess.run(tf.tables_initializer())
    assert sess.run(from_file.lookup(strings("surgery", "tarkus"))).tolist() == [2, 3]
    assert sess.run(from_tensor.lookup(strings("salad", "x"))).tolist() == [1, -7]
    assert sess.run(ints.lookup(tf.constant([7, 42]))).tolist() == [1, 0]
    assert 2 <= sess.run(ints.lookup(tf.constant([5])))[0] < 5
    assert sess.run(back.lookup(tf.constant([1, 2], tf.int64))).tolist() == [b"y", b"UNK"]
    assert sess.run(back_file.lookup(tf.constant([0, 3], tf.int64))).tolist() == [b"brain", b"?"]
    with pytest.raises(ValueError, match="vocabulary_file"):
        lookup.index_table_from_file("")
    with pytest.raises(TypeError, match="integer and string"):
        lookup.index_table_from_tensor([1.], dtype=tf.float32)


def test_reference_tables(sess):
    """The older ops pass tables by reference: a vector of container and name."""
    table = tf.raw_ops.HashTable(key_dtype=tf.string, value_dtype=tf.int64, shared_name="shared")
    fill = tf.raw_ops.InitializeTable(table_handle=table, keys=["a"], values=tf.constant([3], tf.int64))
    find = tf.raw_ops.LookupTableFind(table_handle=table, keys=["a", "b"], default_value=tf.constant(0, tf.int64))
    sess.run(fill)
    assert sess.run(find).tolist() == [3, 0]
    assert sess.run(table).tolist() == [b"", b"shared"]
    with pytest.raises(tf.errors.UnimplementedError, match="Insert not supported"):
        sess.run(tf.raw_ops.LookupTableInsert(table_handle=table, keys=["a"], values=tf.constant([3], tf.int64)))


def test_wrong_types_are_refused():
    table = StaticTable("", "t", tf.string, tf.int64)
    with pytest.raises(Invalid, match="Conflicting key/value dtypes"):
        table.check_types(tf.int64, tf.int64)


def test_numbers_of_lines_start_at_an_offset(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("a\nb\nc\n")
    index = tf2.lookup.TextFileIndex
    init = tf2.lookup.TextFileInitializer(str(path), tf2.string, index.WHOLE_LINE, tf2.int64, index.LINE_NUMBER,
                                          value_index_offset=2)
    table = tf2.lookup.StaticHashTable(init, -1)
    assert table.lookup(tf2.constant(["a", "c", "z"])).numpy().tolist() == [2, 4, -1]


def test_whole_lines_as_integer_values(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("10\n20\n")
    index = tf2.lookup.TextFileIndex
    init = tf2.lookup.TextFileInitializer(str(path), tf2.int64, index.LINE_NUMBER, tf2.int64, index.WHOLE_LINE)
    table = tf2.lookup.StaticHashTable(init, -1)
    assert table.lookup(tf2.constant([0, 1, 2], tf2.int64)).numpy().tolist() == [10, 20, -1]
    with pytest.raises(ValueError, match="integer or string"):
        tf2.lookup.TextFileInitializer(str(path), tf2.int64, index.LINE_NUMBER, tf2.float32, index.WHOLE_LINE)


def test_the_entries_of_an_eager_table_as_saveables():
    table = tf2.lookup.experimental.MutableHashTable(tf2.string, tf2.int32, -1, name="words")
    table.insert(tf2.constant(["a"]), tf2.constant([4]))
    saveable = table._gather_saveables_for_checkpoint()["table"]()
    assert [spec.tensor.numpy().tolist() for spec in saveable.specs] == [[b"a"], [4]]
    saveable.restore([tf2.constant(["b"]), tf2.constant([5])], None)
    assert table.lookup(tf2.constant(["a", "b"])).numpy().tolist() == [-1, 5]
