"""gRPC: the methods of PredictionService and ModelService, and health."""
import grpc
import numpy as np
import pytest

from penstock._src.graph.tensor_proto import make_tensor_proto
from penstock._src.serving.messages import STATES, pb
from tests.serving.models import example, floats

CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


def spec(signature="", **more):
    return pb.ModelSpec(name="half_plus_two", signature_name=signature, **more)


def test_predict_latest(client):
    assert client.predict("half_plus_two", x=floats(1, 2, 5))["y"].tolist() == [3.5, 4.0, 5.5]


@pytest.mark.parametrize("choice, extra", [({"version": {"value": 123}}, 2), ({"version": {"value": 124}}, 3),
                                           ({"version_label": "stable"}, 2)])
def test_predict_version_or_label(client, choice, extra):
    assert client.predict("half_plus_two", spec=choice, x=floats(2))["y"].tolist() == [1 + extra]


def test_response_says_what_answered(client):
    request = pb.PredictRequest(model_spec=spec())
    request.inputs["x"].CopyFrom(make_tensor_proto(floats(1)))
    response = client.prediction("Predict", request)
    assert (response.model_spec.name, response.model_spec.version.value, response.model_spec.signature_name) == (
        "half_plus_two", 124, "serving_default")
    assert list(response.outputs["y"].float_val) == [3.5] and not response.outputs["y"].tensor_content


def test_output_filter(client):
    chosen = {"signature_name": "both"}
    assert set(client.predict("half_plus_two", spec=chosen, x=floats(3))) == {"y", "square"}
    assert client.predict("half_plus_two", spec=chosen, output_filter=["square"], x=floats(3)) == {"square": floats(9)}


def test_classify_regress_and_both_at_once(client):
    classified = client.prediction("Classify", pb.ClassificationRequest(model_spec=spec("classify"), input=example(1.0, 4.0)))
    assert [[(c.label, c.score) for c in row.classes] for row in classified.result.classifications] == [
        [("yes", 3.5), ("no", -1.0)], [("yes", 5.0), ("no", -4.0)]]
    regressed = client.prediction("Regress", pb.RegressionRequest(model_spec=spec("regress"), input=example(1.0, 4.0)))
    assert [r.value for r in regressed.result.regressions] == [3.5, 5.0]
    both = client.prediction("MultiInference", pb.MultiInferenceRequest(input=example(4.0), tasks=[
        pb.InferenceTask(model_spec=spec("regress"), method_name=REGRESS),
        pb.InferenceTask(model_spec=spec("classify"), method_name=CLASSIFY)]))
    assert both.results[0].regression_result.regressions[0].value == 5.0
    assert both.results[1].classification_result.classifications[0].classes[0].label == "yes"


def test_context_is_merged_with_each_example(client):
    whole = example(8.0).example_list.examples[0]
    given = pb.Input(example_list_with_context=pb.ExampleListWithContext(examples=[b"", b""], context=whole))
    answer = client.prediction("Regress", pb.RegressionRequest(model_spec=spec("regress"), input=given))
    assert [r.value for r in answer.result.regressions] == [7.0, 7.0]


def test_metadata_and_status(client):
    request = pb.GetModelMetadataRequest(model_spec=spec(), metadata_field=["signature_def"])
    answer = client.call("tensorflow.serving.PredictionService", "GetModelMetadata", request, pb.GetModelMetadataResponse)
    packed = answer.metadata["signature_def"]
    assert packed.type_url == "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    assert set(pb.SignatureDefMap.FromString(packed.value).signature_def) == {"serving_default", "both", "classify", "regress"}
    status = client.call("tensorflow.serving.ModelService", "GetModelStatus", pb.GetModelStatusRequest(model_spec=spec()),
                         pb.GetModelStatusResponse)
    assert [(s.version, s.state, s.status.error_code) for s in status.model_version_status] == [
        (124, STATES["AVAILABLE"], 0), (123, STATES["AVAILABLE"], 0)]


@pytest.mark.parametrize("given, code, words", [
    ({"name": "other", "x": floats(1)}, "NOT_FOUND", "Servable not found for request: Latest(other)"),
    ({"name": "", "x": floats(1)}, "INVALID_ARGUMENT", "ModelSpec has no name specified."),
    ({"spec": {"version": {"value": 7}}, "x": floats(1)}, "NOT_FOUND", "Specific(half_plus_two, 7)"),
    ({"spec": {"version_label": "canary"}, "x": floats(1)}, "INVALID_ARGUMENT", "Unrecognized servable version label: canary"),
    ({"spec": {"signature_name": "none"}, "x": floats(1)}, "FAILED_PRECONDITION", 'Serving signature key "none" not found.'),
    ({"z": floats(1)}, "INVALID_ARGUMENT", "Sent extra: {z}. Missing but required: {x}."),
    ({}, "INVALID_ARGUMENT", "Missing but required: {x}."),
    ({"x": np.array([1])}, "INVALID_ARGUMENT", "to be float32 but int64 is provided"),
    ({"x": floats([1, 2])}, "INVALID_ARGUMENT", "has shape [1, 2]"),
    ({"x": np.array([b"1"], object)}, "INVALID_ARGUMENT", "string is provided"),
    ({"x": floats(1), "output_filter": ["z"]}, "INVALID_ARGUMENT", "output tensor alias not found in signature: z"),
    ({"x": floats(1), "output_filter": ["y", "y"]}, "INVALID_ARGUMENT", "duplicate output tensor alias: y"),
])
def test_bad_predict_requests(client, given, code, words):
    with pytest.raises(grpc.RpcError) as failed:
        client.predict(**{"name": "half_plus_two", **given})
    assert failed.value.code().name == code and words in failed.value.details()


def test_content_that_does_not_fit_its_shape(client):
    request = pb.PredictRequest(model_spec=spec())
    request.inputs["x"].CopyFrom(make_tensor_proto(floats(1, 2)))
    request.inputs["x"].tensor_shape.dim[0].size = 1 << 40
    with pytest.raises(grpc.RpcError, match="tensor parsing error"):
        client.prediction("Predict", request)
    assert client.predict("half_plus_two", x=floats(0))["y"].tolist() == [3.0]


def test_examples_are_required(client):
    with pytest.raises(grpc.RpcError, match="Input is empty."):
        client.prediction("Regress", pb.RegressionRequest(model_spec=spec("regress")))
    with pytest.raises(grpc.RpcError, match="Expected one input Tensor|No regression inputs"):
        client.prediction("Regress", pb.RegressionRequest(model_spec=spec(), input=example(1.0)))


def test_health(client):
    def check(service):
        return client.call("grpc.health.v1.Health", "Check", pb.HealthCheckRequest(service=service), pb.HealthCheckResponse)
    assert check("").status == check("half_plus_two").status == check("tensorflow.serving.PredictionService").status == 1
    with pytest.raises(grpc.RpcError) as failed:
        check("other")
    assert failed.value.code() == grpc.StatusCode.NOT_FOUND
