"""Random calls: what is generated and how answers are compared; and, with TensorFlow, that no difference is new."""
import os

import numpy as np
import pytest

from tests.oracle.calls import run, sources
from tests.oracle.calls.compare import difference
from tests.oracle.calls.values import Draw, encoded

CASE = {"name": "math.add", "kind": "eager", "args": []}


def answer(*values):
    return {"leaves": [["tensor", encoded(v)] for v in values]}


def test_calls_depend_on_their_seed_and_name_only():
    assert run.collect("data", 3, 1) == run.collect("data", 3, 1) != run.collect("data", 4, 1)
    whole = run.collect("keras", 0, 2)
    some = run.collect("keras", 0, 2, "keras.layers.Dense")
    assert [{**c, "id": 0} for c in some] == [{**c, "id": 0} for c in whole if c["name"] == "keras.layers.Dense"]


def test_functions_get_arguments_for_all_that_they_require():
    names = sources.functions()
    assert len(names) > 600 and "nn.conv2d" in names and "io.gfile.exists" not in names
    found = run.collect("functions", 0, 1, "nn.conv2d")
    assert [c["kind"] for c in found] == ["eager", "function", "vectorized", "gradients"]
    assert len(found[0]["args"]) == 4 and len(found[1]["shapes"]) == 2


def test_functions_of_1x_are_called_where_they_differ():
    names = sources.functions_v1()
    assert len(names) > 300 and "compat.v1.nn.conv2d" in names
    assert not {"compat.v1.get_variable_scope", "compat.v1.Session", "compat.v1.sin"} & set(names)
    assert [c["kind"] for c in run.collect("functions_v1", 0, 1, "compat.v1.nn.conv2d")] == ["graph", "eager"]


def test_a_mistake_is_one_argument():
    (wrong,) = run.collect("mistakes", 1, 1, "math.add")
    assert any(v in sources.WRONG for v in [*wrong["args"], *wrong["kwargs"].values()])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "complex64", "string", "bool"])
def test_arrays_are_written_and_read(dtype):
    from tests.oracle.calls.compare import decoded
    value = Draw(5).numbers([2, 3], dtype)
    found = decoded(encoded(value))
    assert found.dtype == value.dtype and found.shape == (2, 3)
    assert found.tolist() == value.tolist()


@pytest.mark.parametrize("ours, theirs, what", [
    (answer(np.float32(1)), answer(np.float32(1.00001)), ""), (answer(np.float32(1)), answer(np.float32(1.1)), "value"),
    (answer(np.float32(1)), answer(np.float64(1)), "dtype"), (answer(np.float32(1)), answer(), "structure"),
    (answer(np.array([b"a"], object)), answer(np.array([b"b"], object)), "value"),
    (answer(), {"error": "ValueError", "bases": [], "text": ""}, "raises there"),
    ({"error": "KeyError", "bases": ["KeyError", "LookupError"], "text": ""},
     {"error": "LookupError", "bases": [], "text": ""}, ""),
    ({"error": "KeyError", "bases": [], "text": ""}, {"error": "TypeError", "bases": [], "text": ""}, "exception")])
def test_answers_are_compared(ours, theirs, what):
    assert difference(CASE, ours, theirs)[0] == what


@pytest.mark.oracle
@pytest.mark.timeout(900)
@pytest.mark.parametrize("source, each", [("keras", 3), ("data", 2)])
def test_no_difference_is_new(source, each):
    found, counts = run.compared(os.environ.get("PENSTOCK_ORACLE", ".oracle/bin/python"), run.collect(source, 0, each))
    assert counts[True] > 100
    assert not [(x["what"], x["case"]["name"], x["why"]) for x in found if not x["known"]]
