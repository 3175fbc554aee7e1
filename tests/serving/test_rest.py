"""REST: paths, rows and columns, base64, errors and their status codes, health and metrics."""
import base64
import gzip
import json

import numpy as np
import pytest

from penstock._src.base import dtypes, errors
from penstock._src.graph.messages import TensorInfo
from penstock._src.serving import json_tensors
from tests.serving.models import Client, config_of, serving

MODEL = "/v1/models/half_plus_two"


def info(dtype):
    return TensorInfo(dtype=dtypes.as_dtype(dtype).enum)


def test_rows_and_columns(client):
    assert client.rest("POST", f"{MODEL}:predict", {"instances": [1.0, 2.0, 5]}) == (200, {"predictions": [3.5, 4.0, 5.5]})
    assert client.rest("POST", f"{MODEL}:predict", {"inputs": [1.0]}) == (200, {"outputs": [3.5]})
    assert client.rest("POST", f"{MODEL}:predict", {"inputs": {"x": [2]}}) == (200, {"outputs": [4.0]})
    both = {"signature_name": "both", "instances": [{"x": 1}, {"x": 3}]}
    assert client.rest("POST", f"{MODEL}:predict", both)[1]["predictions"] == [
        {"square": 1.0, "y": 3.5}, {"square": 9.0, "y": 4.5}]
    both = {"signature_name": "both", "inputs": [1, 3]}
    assert client.rest("POST", f"{MODEL}:predict", both)[1]["outputs"] == {"square": [1.0, 9.0], "y": [3.5, 4.5]}


@pytest.mark.parametrize("path, expected", [("/versions/123", 3.0), ("/versions/124", 4.0), ("/labels/stable", 3.0), ("", 4.0)])
def test_versions_and_labels(client, path, expected):
    assert client.rest("POST", f"{MODEL}{path}:predict", {"instances": [2]})[1] == {"predictions": [expected]}


def test_not_finite_numbers_both_ways(client):
    status, text = client.http("POST", f"{MODEL}:predict", '{"instances": [NaN, Infinity, -Infinity]}')
    assert status == 200 and text.split() == b'{ "predictions": [NaN, Infinity, -Infinity] }'.split()


def test_classify_and_regress(client):
    body = {"signature_name": "classify", "examples": [{"x": 1.0}, {"x": [4.0]}]}
    assert client.rest("POST", f"{MODEL}:classify", body)[1] == {"results": [[["yes", 3.5], ["no", -1.0]],
                                                                              [["yes", 5.0], ["no", -4.0]]]}
    body = {"signature_name": "regress", "context": {"x": 8.0}, "examples": [{}, {}]}
    assert client.rest("POST", f"{MODEL}:regress", body) == (200, {"results": [7.0, 7.0]})


def test_status_and_metadata(client):
    found = client.rest("GET", MODEL)[1]["model_version_status"]
    assert found[0] == {"version": "124", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert [s["version"] for s in found] == ["124", "123"]
    assert len(client.rest("GET", f"{MODEL}/versions/123")[1]["model_version_status"]) == 1
    found = client.rest("GET", f"{MODEL}/versions/123/metadata")[1]
    assert found["model_spec"] == {"name": "half_plus_two", "signature_name": "", "version": "123"}
    signature = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert signature["method_name"] == "tensorflow/serving/predict"
    assert signature["inputs"]["x"] == {"dtype": "DT_FLOAT", "name": "x:0", "tensor_shape": {
        "dim": [{"size": "-1", "name": ""}], "unknown_rank": False}}


@pytest.mark.parametrize("method, path, body, status, words", [
    ("POST", f"{MODEL}:predict", b"", 400, "The document is empty"),
    ("POST", f"{MODEL}:predict", b"{", 400, "JSON Parse error"),
    ("POST", f"{MODEL}:predict", b"\xff\xfe\xfd", 400, "JSON Parse error"),
    ("POST", f"{MODEL}:predict", b"[" * 200_000, 400, "JSON Parse error"),
    ("POST", f"{MODEL}:predict", b"[1]", 400, "Is not object"),
    ("POST", f"{MODEL}:predict", b'\xef\xbb\xbf{"instances": [1]}', 400, "JSON Parse error"),
    ("POST", f"{MODEL}:predict", '{"instances": [1]}'.encode("utf-16"), 400, "JSON Parse error"),
    ("POST", f"{MODEL}:predict", b'{"instances": [1e400]}', 400, "without loss of precision"),
    ("POST", f"{MODEL}:predict", b'{"instances": [1, -1e39, NaN]}', 400, "-1e+39 to float32 without loss"),
    ("POST", f"{MODEL}:predict", b'{"signature_name": "\\ud800"}', 400, "surrogate pair"),
    ("POST", f"{MODEL}:predict", b'{"instances": [{"\\uDC00": 1}]}', 400, "surrogate pair"),
    ("POST", f"{MODEL}:predict", {}, 400, "Missing 'inputs' or 'instances' key"),
    ("POST", f"{MODEL}:predict", {"inputs": [1], "instances": [1]}, 400, "expecting only one of"),
    ("POST", f"{MODEL}:predict", {"instances": 1}, 400, "to be an list/array"),
    ("POST", f"{MODEL}:predict", {"instances": []}, 400, "No values in 'instances'"),
    ("POST", f"{MODEL}:predict", {"instances": ["one"]}, 400, "Type: String is not of expected type: float32"),
    ("POST", f"{MODEL}:predict", {"instances": [True]}, 400, "Type: True is not of expected type"),
    ("POST", f"{MODEL}:predict", {"instances": [[1], [1, 2]]}, 400, "unexpected size: 2"),
    ("POST", f"{MODEL}:predict", {"instances": [1, [2]]}, 400, "unexpected level"),
    ("POST", f"{MODEL}:predict", {"instances": [[1, 2]]}, 400, "has shape [1, 2]"),
    ("POST", f"{MODEL}:predict", {"instances": [{"z": 1}]}, 400, "keys must be equal to: x"),
    ("POST", f"{MODEL}:predict", {"inputs": {"z": [1]}}, 400, "Missing named input: x"),
    ("POST", f"{MODEL}:predict", {"signature_name": "no", "instances": [1]}, 400, "not found in signature def"),
    ("POST", f"{MODEL}:predict", {"signature_name": 3, "instances": [1]}, 400, "must be a string"),
    ("POST", "/v1/models/none:predict", {"instances": [1]}, 404, "Servable not found for request: Latest(none)"),
    ("POST", f"{MODEL}/versions/9:predict", {"instances": [1]}, 404, "Specific(half_plus_two, 9)"),
    ("POST", f"{MODEL}/versions/99999999999999999999:predict", {"instances": [1]}, 400, "Failed to convert version"),
    ("POST", f"{MODEL}/labels/x:predict", {"instances": [1]}, 400, "Unrecognized servable version label: x"),
    ("POST", f"{MODEL}:classify", {"examples": []}, 400, "is an empty array"),
    ("POST", f"{MODEL}:classify", {}, 400, "key 'examples' is expected"),
    ("POST", f"{MODEL}:regress", {"examples": [1]}, 400, "Example must be JSON object but got JSON Number"),
    ("POST", f"{MODEL}:explain", {}, 400, "Malformed request: POST"),
    ("DELETE", MODEL, None, 400, "Malformed request: DELETE"),
    ("GET", "/v1/models", None, 400, "Missing model name in request."),
    ("GET", "/v1/models/none", None, 404, "Could not find any versions of model none"),
    ("GET", f"{MODEL}/versions/5", None, 404, "Could not find version 5"),
    ("GET", "/favicon.ico", None, 404, "Not found"),
])
def test_bad_requests(client, method, path, body, status, words):
    found, answer = client.rest(method, path, body)
    assert found == status and words in answer["error"]
    assert client.rest("POST", f"{MODEL}:predict", {"instances": [2]})[0] == 200


def test_compressed_body(client):
    body = gzip.compress(json.dumps({"instances": [2]}).encode())
    assert client.http("POST", f"{MODEL}:predict", body, {"Content-Encoding": "gzip"})[0] == 200
    assert client.http("POST", f"{MODEL}:predict", b"{}", {"Content-Encoding": "gzip"})[0] == 400


def test_health_and_metrics(client):
    assert client.http("GET", "/healthz")[0] == client.http("GET", "/readyz")[0] == 200
    client.rest("POST", f"{MODEL}:predict", {"instances": [2]})
    status, page = client.http("GET", "/monitoring/prometheus/metrics")
    assert status == 200 and b'# TYPE :tensorflow:serving:request_count counter' in page
    assert b':tensorflow:serving:request_count{model_name="half_plus_two",status="OK"}' in page
    cell = b'{model_name="half_plus_two",API="Predict",entrypoint="REST",le="+Inf"}'
    assert b":tensorflow:serving:request_latency_bucket" + cell in page


def test_not_ready_without_a_model(tmp_path):
    with serving(config_of("missing", tmp_path / "none")) as server, Client(server) as client:
        assert client.http("GET", "/healthz")[0] == 200 and client.http("GET", "/readyz")[0] == 503


# -- JSON, without a server -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("value, dtype, expected", [
    ([[1, 2], [3, 4]], "int32", np.array([[1, 2], [3, 4]], np.int32)), ([], "float32", np.zeros(0, np.float32)),
    ([[], []], "float32", np.zeros((2, 0), np.float32)), (1.5, "float64", np.array(1.5)), (True, "bool", np.array(True)),
    ([16777215, -1e30], "float32", np.float32([16777215, -1e30])), (1 << 200, "float64", np.array(float(1 << 200))),
    ([1, 2.5], "bfloat16", np.array([1, 2.5], dtypes.bfloat16.np)), (255, "uint8", np.array(255, np.uint8)),
    (1 << 63, "uint64", np.array(1 << 63, np.uint64))])
def test_arrays_from_json(value, dtype, expected):
    found = json_tensors.array_of(value, info(dtype), "x")
    assert found.dtype == expected.dtype and found.shape == expected.shape and np.array_equal(found, expected)


@pytest.mark.parametrize("value, dtype", [
    (16777217, "float32"), (-(1 << 60), "float64"), (4e38, "float32"), (1e5, "float16"), (1.0, "int32"), (1 << 40, "int32"),
    (-1, "uint8"), ("1", "int64"), (1, "bool"), (None, "float32"),
    ({"b64": "!"}, "string"), ({"b": "aa"}, "string"), (1, "string")])
def test_values_of_the_wrong_type(value, dtype):
    with pytest.raises(errors.InvalidArgumentError):
        json_tensors.array_of([value], info(dtype), "x")


def test_strings_and_bytes():
    raw = base64.b64encode(b"\xff\x00").decode()
    assert json_tensors.array_of(["ü", {"b64": raw}], info("string"), "x").tolist() == ["ü".encode(), b"\xff\x00"]
    assert json_tensors.array_of([{"b64": "AAEC\nAw"}], info("string"), "x").tolist() == [b"\x00\x01\x02\x03"]
    assert json_tensors.parse(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}
    made = json_tensors.predictions({"a_bytes": np.array([b"\xff"], object), "b": np.array(["ü".encode()], object)}, True)
    assert json.loads(made) == {"predictions": [{"a_bytes": {"b64": "/w=="}, "b": "ü"}]}


@pytest.mark.parametrize("array", [
    np.float32([0.2, 1e-7, 3.4e38, 1, 1 / 3]), np.array([0.1, 1e300]), np.zeros((2, 0, 3), np.int64),
    np.arange(6).reshape(1, 2, 3), np.array([True, False]), np.float32([[1.5], [2]])])
def test_arrays_to_json_and_back(array):
    back = json.loads(json_tensors.predictions({"x": array}, False))["outputs"]
    assert np.array_equal(np.array(back, array.dtype).reshape(array.shape), array)
    assert json.loads(json_tensors.predictions({"x": array}, True))["predictions"] == back


def test_floats_have_the_digits_of_their_type():
    assert b"[0.2]" in json_tensors.predictions({"x": np.float32([0.2])}, True)
