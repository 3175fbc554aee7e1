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
    with pytest.raises(KeyError, match="not found"):
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
    with pytest.raises(ValueError, match="no such field"):
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
