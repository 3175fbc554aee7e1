"""Run by real TensorFlow: the client of tensorflow-serving-api, and JSON, against `penstock serve`.

    python serving_client.py FOLDER GRPC_PORT REST_PORT

FOLDER is what serving_tf.py wrote. Prints a JSON object: the largest difference of each model, and what else was seen.
"""
import base64
import json
import os
import subprocess
import sys
import urllib.request

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

FOLDER, PORT, REST_PORT = sys.argv[1:]
CHANNEL = grpc.insecure_channel(f"localhost:{PORT}")
PREDICTION = prediction_service_pb2_grpc.PredictionServiceStub(CHANNEL)
MODELS = model_service_pb2_grpc.ModelServiceStub(CHANNEL)
URL = f"http://localhost:{REST_PORT}/v1/models/"


def requests_of(name):
    """The recorded requests of a model: signature, inputs, outputs."""
    with np.load(os.path.join(FOLDER, f"{name}.npz"), allow_pickle=True) as data:
        for i in range(sum(k.endswith("/signature") for k in data)):
            parts = [{k.split("/", 2)[2]: data[k] for k in data if k.startswith(f"{i}/{kind}/")} for kind in ("in", "out")]
            yield str(data[f"{i}/signature"]), *parts


def difference(found, expected):
    """0 for equal strings, integers and booleans, else the largest relative difference; infinite if they do not compare."""
    if set(found) != set(expected):
        return float("inf")
    worst = 0.0
    for key, want in expected.items():
        have = found[key]
        if have.shape != want.shape or have.dtype.kind != want.dtype.kind and {have.dtype.kind, want.dtype.kind} != {"O", "S"}:
            return float("inf")
        if want.dtype.kind == "f":
            finite = np.isfinite(want)
            if not np.array_equal(have[~finite], want[~finite], equal_nan=True):
                return float("inf")
            worst = max(worst, float(np.max(np.abs(have[finite] - want[finite]) / (1 + np.abs(want[finite])), initial=0.0)))
        elif have.tolist() != want.tolist():
            return float("inf")
    return worst


def by_rpc(name, signature, inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = name, signature
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    response = PREDICTION.Predict(request, 60.0)
    assert response.model_spec.version.value == 1
    return {k: tf.make_ndarray(v) for k, v in response.outputs.items()}


def listed(array):
    if array.dtype.kind == "O":
        return np.vectorize(lambda s: {"b64": base64.b64encode(s).decode()}, otypes=[object])(array).tolist()
    return array.tolist()


def post(path, body):
    with urllib.request.urlopen(URL + path, json.dumps(body).encode(), timeout=60) as answer:
        return json.loads(answer.read())


def by_rest(name, signature, inputs, expected):
    """Columns; of a single output, the answer does not have the name."""
    body = {"signature_name": signature, "inputs": {k: listed(v) for k, v in inputs.items()}}
    found = post(f"{name}:predict", body)["outputs"]
    found = found if len(expected) > 1 else {next(iter(expected)): found}

    def array(key, value, want):
        if want.dtype.kind != "O":
            return np.array(value, want.dtype).reshape(want.shape)
        raw = [base64.b64decode(v["b64"]) if isinstance(v, dict) else v.encode() for v in np.array(value, object).ravel()]
        return np.array(raw, object).reshape(want.shape)
    return {k: array(k, v, expected[k]) for k, v in found.items()}


def examples():
    for x in ([1.0, 2.0], [-0.5, 3.0]):
        made = tf.train.Example()
        made.features.feature["x"].float_list.value.extend(x)
        yield made


def over_examples():
    """Classify, Regress and MultiInference of the 1.x graph, against what TensorFlow's session fetched."""
    recorded = {s: out for s, _, out in requests_of("session_graph")}
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name, request.model_spec.signature_name = "session_graph", "classify"
    request.input.example_list.examples.extend(examples())
    classes = PREDICTION.Classify(request, 60.0).result.classifications
    labels = [[c.label.encode() for c in row.classes] for row in classes]
    assert labels == recorded["classify"]["classes"].tolist(), labels
    np.testing.assert_allclose([[c.score for c in row.classes] for row in classes], recorded["classify"]["scores"],
                               rtol=1e-5, atol=1e-5)
    request = regression_pb2.RegressionRequest()
    request.model_spec.name, request.model_spec.signature_name = "session_graph", "regress"
    request.input.example_list.examples.extend(examples())
    values = [r.value for r in PREDICTION.Regress(request, 60.0).result.regressions]
    np.testing.assert_allclose(values, recorded["regress"]["outputs"].ravel(), rtol=1e-5, atol=1e-5)
    request = inference_pb2.MultiInferenceRequest()
    request.input.example_list.examples.extend(examples())
    for kind in ("classify", "regress"):
        task = request.tasks.add(method_name=f"tensorflow/serving/{kind}")
        task.model_spec.name, task.model_spec.signature_name = "session_graph", kind
    results = PREDICTION.MultiInference(request, 60.0).results
    assert [r.value for r in results[1].regression_result.regressions] == values
    rows = post("session_graph:classify", {"signature_name": "classify", "examples": [{"x": [1.0, 2.0]}, {"x": [-0.5, 3.0]}]})
    assert [[label.encode() for label, _ in row] for row in rows["results"]] == labels


def about(name):
    """Metadata and status through their messages."""
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = name
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert PREDICTION.GetModelMetadata(request, 60.0).metadata["signature_def"].Unpack(signatures)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = name
    states = [s.state for s in MODELS.GetModelStatus(request, 60.0).model_version_status]
    assert states == [get_model_status_pb2.ModelVersionStatus.AVAILABLE], states
    return sorted(signatures.signature_def)


def reload():
    """Takes all models but one away, and back: what is not configured is not found."""
    names = sorted(n[:-4] for n in os.listdir(FOLDER) if n.endswith(".npz"))
    for chosen in (["strings"], names):
        assert configured(*chosen).error_code == 0
        try:
            about("tables")
            found = True
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.NOT_FOUND, e
            found = False
        assert found == ("tables" in chosen)


def configured(*names, **policies):
    """Has the server load these models; `policies` has the version labels of a model all of whose versions are loaded."""
    request = model_management_pb2.ReloadConfigRequest()
    for name in (*names, *policies):
        added = request.config.model_config_list.config.add(name=name, base_path=os.path.join(FOLDER, name),
                                                            model_platform="tensorflow")
        if name in policies:
            added.model_version_policy.all.SetInParent()
            for label, version in policies[name].items():
                added.version_labels[label] = version
    return MODELS.HandleReloadConfigRequest(request, 300.0).status


def curl(path, body=None):
    """What a shell user sends, and gets."""
    more = [] if body is None else ["-d", json.dumps(body)]
    done = subprocess.run(["curl", "-s", "--max-time", "60", *more, URL + path], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def by_label(label):
    """What the version with a label, by its number or none (the latest) answers to 3."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "labelled"
    if isinstance(label, str):
        request.model_spec.version_label = label
    elif label:
        request.model_spec.version.value = label
    request.inputs["x"].CopyFrom(tf.make_tensor_proto([3.0]))
    return tf.make_ndarray(PREDICTION.Predict(request, 60.0).outputs["y"]).tolist()


def labels():
    """Labels over gRPC and with curl: they move with the configuration, and unknown ones are refused."""
    for stable, canary in ((1, 2), (2, 1)):
        assert configured("strings", labelled={"stable": stable, "canary": canary}).error_code == 0
        for label, version in (("stable", stable), ("canary", canary), (1, 1), (2, 2), (0, 2)):
            assert by_label(label) == [3.0 * version], label
            where = f"/labels/{label}" if isinstance(label, str) else f"/versions/{label}" if label else ""
            assert curl(f"labelled{where}:predict", {"instances": [3.0]}) == {"predictions": [3.0 * version]}
    states = {s["version"]: s["state"] for s in curl("labelled")["model_version_status"]}
    assert states == {"1": "AVAILABLE", "2": "AVAILABLE"}
    try:
        by_label("none")
        raise AssertionError("an unknown label was answered")
    except grpc.RpcError as e:
        assert e.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION), e
    assert "error" in curl("labelled/labels/none:predict", {"instances": [3.0]})


report = {"models": {}, "requests": 0}
for name in sorted(n[:-4] for n in os.listdir(FOLDER) if n.endswith(".npz")):
    worst = {"rpc": 0.0, "rest": 0.0}
    for signature, inputs, outputs in requests_of(name):
        worst["rpc"] = max(worst["rpc"], difference(by_rpc(name, signature, inputs), outputs))
        worst["rest"] = max(worst["rest"], difference(by_rest(name, signature, inputs, outputs), outputs))
        report["requests"] += 2
    report["models"][name] = {**worst, "signatures": about(name)}
over_examples()
reload()
labels()
print(json.dumps(report))
