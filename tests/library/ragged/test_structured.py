"""Structured tensors: records from and to Python values, indices, updates, datasets and functions."""
import pytest

import penstock as tf

Structured = tf.experimental.StructuredTensor
RECORDS = [{"a": 1, "b": [{"c": [1, 2]}, {"c": []}]}, {"a": 2, "b": [{"c": [3]}]}]


def test_there_and_back():
    for value in (RECORDS, RECORDS[0], {"x": [1, 2]}, [[{"x": 1}], []], [{}, {}]):
        assert Structured.from_pyval(value).to_pyval() == value
    people = Structured.from_pyval(RECORDS)
    assert people.shape == (2,) and people["b"].shape.as_list() == [2, None] and set(people.field_names()) == {"a", "b"}
    assert people.field_value(("b", "c")).to_list() == [[[1, 2], []], [[3]]]
    with pytest.raises(KeyError, match="no field|not found"):
        people.field_value("z")


def test_indices():
    people = Structured.from_pyval(RECORDS)
    assert people[0].to_pyval() == RECORDS[0] and people[1:].to_pyval() == RECORDS[1:]
    assert int(people[1, "a"]) == 2 and people[:, "a"].numpy().tolist() == [1, 2]
    assert people[0]["b", 0, "c"].numpy().tolist() == [1, 2]
    for key, message in ((slice(2), "full slice"), (("b", None), "tf.newaxis"), (("b", slice(None), 0), "must be a string")):
        with pytest.raises(ValueError, match=message):
            people[0][key]


def test_changes():
    people = Structured.from_pyval(RECORDS)
    assert people.promote(("b", "c"), "d")["d"].to_list() == [[1, 2], [3]]
    changed = people.with_updates({"a": lambda a: a * 2, ("b", "c"): None})
    assert changed.to_pyval() == [{"a": 2, "b": [{}, {}]}, {"a": 4, "b": [{}]}]
    assert people["b"].merge_dims(0, 1).to_pyval() == [{"c": [1, 2]}, {"c": []}, {"c": [3]}]
    with pytest.raises(ValueError, match="it is not present"):
        people.with_updates({"z": None})


@pytest.mark.parametrize("fields, shape, error, message", [
    ({"a": [1, 2], "b": [1, 2, 3]}, [None], ValueError, "Error in shape of b"), ({"a": 1}, [None], ValueError, "rank"),
    ([1], (), TypeError, "must be a dictionary"), ({1: 2}, (), TypeError, "key"), ({}, None, ValueError, "known rank"),
    ({}, [None], ValueError, "Must specify")])
def test_refused(fields, shape, error, message):
    with pytest.raises(error, match=message):
        Structured.from_fields(fields, shape)


def test_types():
    people = Structured.from_pyval(RECORDS)
    spec = tf.type_spec_from_value(people)
    assert spec.value_type is Structured and spec == tf.type_spec_from_value(Structured.from_pyval(RECORDS))
    assert spec._from_components(spec._to_components(people)).to_pyval() == RECORDS
    again = tf.function(lambda p: p.with_updates({"a": p["a"] + 1}))(people)
    assert [r["a"] for r in again.to_pyval()] == [2, 3]
    with pytest.raises(TypeError, match="TypeSpecs as values"):
        Structured.Spec(tf.experimental.DynamicRaggedShape.Spec([], []), {"x": 0})


def test_datasets():
    batch = Structured.from_fields({"a": [1, 2], "r": tf.ragged.constant([[[1, 2], [3]], [[1]]])}, shape=[2])
    rows = [{"a": 1, "r": [[1, 2], [3]]}, {"a": 2, "r": [[1]]}]
    data = tf.data.Dataset.from_tensors(batch)
    assert [x.to_pyval() for x in data] == [rows]
    assert [x.to_pyval() for x in data.unbatch()] == rows
    assert [x.to_pyval() for x in data.unbatch().batch(2)] == [rows]
    single = [Structured.from_fields({"a": i, "b": [i, i]}) for i in range(2)]
    made = tf.data.Dataset.from_generator(lambda: iter(single), output_signature=tf.type_spec_from_value(single[0]))
    assert [x.to_pyval() for x in made.batch(2)] == [[{"a": 0, "b": [0, 0]}, {"a": 1, "b": [1, 1]}]]


def test_array_functions_act_on_every_field():
    people = Structured.from_pyval(RECORDS)
    assert tf.concat([people, people[:1]], 0).to_pyval() == [*RECORDS, RECORDS[0]]
    assert tf.gather(people, [1, 0, 1]).to_pyval() == [RECORDS[1], RECORDS[0], RECORDS[1]]
    assert tf.gather(people["b"], [0], axis=1).to_pyval() == [[{"c": [1, 2]}], [{"c": [3]}]]
    assert tf.expand_dims(people, 1).to_pyval() == [[r] for r in RECORDS]
    assert sorted(r["a"] for r in tf.random.shuffle(people, seed=1).to_pyval()) == [1, 2]
    assert tf.rank(people["b"]) == 2 and tf.size(people["b"]) == 3 and tf.shape(people["b"]).static_lengths() == [2, (2, 1)]
    assert tf.ones_like(people["b"], tf.int32).to_list() == [[1, 1], [1]]
    assert tf.zeros_like(people).numpy().tolist() == [0.0, 0.0]
    empty = Structured.from_pyval([[{}, {}], [{}]])
    assert tf.concat((empty, empty), 1).to_pyval() == [[{}] * 4, [{}] * 2]


@pytest.mark.parametrize("call, message", [
    (lambda s: tf.concat([s, tf.constant(1)], 0), "structured tensors only"),
    (lambda s: tf.concat([s, s], 1), "axis=1 out of"),
    (lambda s: tf.concat([s, s["b"]], 0), "fields"), (lambda s: tf.random.shuffle(s[0]), "single record"),
    (lambda s: tf.gather(s, 0, axis=0, batch_dims=1), "batch_dims=1 out of"), (lambda s: tf.expand_dims(s, 2), "-2<=axis<2")])
def test_array_functions_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call(Structured.from_pyval(RECORDS))


def test_fields_are_merged():
    mixed = Structured.from_fields_and_rank({"r": tf.ragged.constant([[1, 2], [3, 4]]), "d": [[1, 2], [3, 4]]}, 2)
    assert mixed.shape.as_list() == [2, 2]
    with pytest.raises(ValueError, match="Error in shape of s"):
        Structured.from_fields({"r": tf.ragged.constant([[1, 2], [3]]), "s": tf.ragged.constant([[1], [2, 3]])}, [2, None])
    with pytest.raises(ValueError, match="Field name '_'"):
        Structured.from_fields({"_": 1}, ())
    assert Structured.from_pyval({"s": "x"}).to_pyval() == {"s": b"x"}


@pytest.mark.parametrize("value, fields, rank, message", [
    ({"a": [[1]]}, {"a": tf.TensorSpec([], tf.int32)}, 0, r"Value at \('a',\)"),
    ([[1]], {"a": tf.TensorSpec([1, 1], tf.int32)}, 2, r"Value at \(\)"), ([[{}], 5], None, 0, "Only some items")])
def test_values_of_another_type(value, fields, rank, message):
    with pytest.raises(ValueError, match=message):
        Structured.from_pyval(value, fields and Structured.Spec._from_fields_and_rank(fields, rank))


@pytest.mark.parametrize("updates, message", [
    ({("b", "x", "e"): 5}, r"cannot create new sub-field \('b', 'x', 'e'\).*\('b', 'x'\) is not set"),
    ({("b", "c", "e"): 5}, r"cannot create new sub-field.*\('b', 'c'\) is not a `StructuredTensor`"),
    ({("b", "d", "q"): None}, r"cannot delete field \('b', 'd', 'q'\)"),
    ({("b", "q"): lambda x: x}, r"cannot update the field \('b', 'q'\)"),
    ({("b", "c"): 1, "b": 2}, "both parent and child"),
    ({(): 1}, "does not allow empty names"),
])
def test_updates_that_are_refused_name_the_path(updates, message):
    value = Structured.from_pyval({"a": 12, "b": {"c": 23, "d": {"e": 11}}})
    with pytest.raises(ValueError, match=message):
        value.with_updates(updates)
