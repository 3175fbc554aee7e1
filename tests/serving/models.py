"""Small models for the tests, and clients that need nothing but grpc and http.client."""
import contextlib
import http.client
import json
import os

import grpc
import numpy as np

import penstock.compat.v1 as tf
from penstock._src.graph.tensor_proto import make_ndarray, make_tensor_proto
from penstock._src.serving.config import Options
from penstock._src.serving.inference import METHODS
from penstock._src.serving.messages import pb
from penstock._src.serving.server import ModelServer


def half_plus(folder, version, extra=2.0):
    """y = x / 2 + extra, as a SavedModel of 1.x: predict, classify (two classes) and regress over examples."""
    path = os.path.join(folder, str(version))
    info = tf.saved_model.utils.build_tensor_info
    make, names = tf.saved_model.signature_def_utils.build_signature_def, tf.saved_model.signature_constants
    with tf.Graph().as_default(), tf.Session() as sess:
        a, b = tf.get_variable("a", initializer=0.5), tf.get_variable("b", initializer=float(extra))
        rows = tf.placeholder(tf.string, [None], "rows")
        parsed = tf.io.parse_example(rows, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
        x = tf.placeholder(tf.float32, [None], "x")
        scores = tf.concat([parsed * a + b, -parsed], 1)
        classes = tf.tile(tf.constant([["yes", "no"]]), [tf.shape(parsed)[0], 1])
        sess.run(tf.global_variables_initializer())
        builder = tf.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(sess, ["serve"], {
            "serving_default": make({"x": info(x)}, {"y": info(x * a + b)}, names.PREDICT_METHOD_NAME),
            "both": make({"x": info(x)}, {"y": info(x * a + b), "square": info(x * x)}, names.PREDICT_METHOD_NAME),
            "classify": make({"inputs": info(rows)}, {"classes": info(classes), "scores": info(scores)},
                             names.CLASSIFY_METHOD_NAME),
            "regress": make({"inputs": info(rows)}, {"outputs": info(parsed * a + b)}, names.REGRESS_METHOD_NAME)})
        builder.save()
    return path


def config_of(name, folder, **fields):
    return pb.ModelConfig(name=name, base_path=str(folder), **fields)


@contextlib.contextmanager
def serving(*models, **options):
    """A server of these models on free ports."""
    server = ModelServer(Options(**{"models": models, "port": 0, "rest_api_port": 0, "file_system_poll_wait_seconds": 0,
                                    "prometheus_path": "/monitoring/prometheus/metrics", **options}))
    server.start()
    try:
        yield server
    finally:
        server.stop(grace=10)


class Client:
    """Calls methods of both interfaces."""

    def __init__(self, server, token=""):
        self._channel = grpc.insecure_channel(f"localhost:{server.port}")
        self._rest_port = server.rest_port
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._channel.close()

    def call(self, service, method, request, response, timeout=60):
        stub = self._channel.unary_unary(f"/{service}/{method}", lambda m: m.SerializeToString(), response.FromString)
        return stub(request, timeout=timeout, metadata=tuple(self._headers.items()), wait_for_ready=True)

    def prediction(self, method, request, timeout=60):
        return self.call("tensorflow.serving.PredictionService", method, request, METHODS[method][1], timeout)

    def predict(self, name, timeout=60, spec=None, output_filter=(), **inputs):
        request = pb.PredictRequest(model_spec=pb.ModelSpec(name=name, **(spec or {})), output_filter=output_filter)
        for key, value in inputs.items():
            request.inputs[key].CopyFrom(make_tensor_proto(value))
        response = self.prediction("Predict", request, timeout)
        return {k: make_ndarray(v) for k, v in response.outputs.items()}

    def http(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("localhost", self._rest_port, timeout=60)
        try:
            body = json.dumps(body) if isinstance(body, dict) else body
            connection.request(method, path, body, {**self._headers, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def rest(self, method, path, body=None):
        status, text = self.http(method, path, body)
        return status, json.loads(text)


def example(*values):
    """Serialized examples with the feature x."""
    made = []
    for value in values:
        message = tf.train.Example()
        message.features.feature["x"].float_list.value.append(value)
        made.append(message.SerializeToString())
    return pb.Input(example_list=pb.ExampleList(examples=made))


def floats(*values):
    return np.array(values, np.float32)
