"""Serve models over TensorFlow Serving's gRPC and REST interfaces.

    penstock serve --model_name half_plus_two --model_base_path /models/half_plus_two --rest_api_port 8501
    penstock serve --model_config_file models.config --enable_batching --batching_parameters_file batching.config

A model's folder has a folder per version: a SavedModel, a Keras file or a frozen graph. Flags are those of
tensorflow_model_server. By default only this machine can connect: --host 0.0.0.0 opens the ports to others (docs/serving.md).
SIGTERM stops listening, answers the pending requests, and ends the server.
"""
from __future__ import annotations

import argparse
import signal
import threading
from typing import Any

from penstock._src.serving.command import options_of
from penstock._src.serving.server import ModelServer


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"must be true or false, got {text!r}")
    return text.lower() in ("true", "1")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand."""
    def flag(name: str, kind: type, default: Any, text: str) -> None:
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)

    def switch(name: str, default: bool, text: str) -> None:
        parser.add_argument(f"--{name}", type=_boolean, nargs="?", const=True, default=default, help=text)
    flag("model_name", str, "default", "name of the model")
    flag("model_base_path", str, "", "folder with the model's versions")
    flag("model_config_file", str, "", "ModelServerConfig in text format: several models, policies, labels, request logs")
    flag("model_config_file_poll_wait_seconds", float, 0, "how often to read the file again; 0: never")
    flag("file_system_poll_wait_seconds", float, 1, "how often to look for new versions; 0: once")
    flag("max_num_load_retries", int, 5, "how often to try again to load a version that failed")
    flag("load_retry_interval_micros", int, 60_000_000, "the time between tries")
    flag("host", str, "127.0.0.1", "address to listen at")
    flag("port", int, 8500, "port of gRPC; 0: none")
    flag("rest_api_port", int, 0, "port of REST; 0: none")
    flag("rest_api_timeout_in_ms", int, 30_000, "deadline of REST requests")
    flag("rest_api_max_body_bytes", int, 1 << 30, "larger bodies are refused")
    switch("rest_api_enable_cors_support", False, "send CORS headers")
    flag("max_pending_requests", int, 1024, "more requests at a time get RESOURCE_EXHAUSTED")
    flag("tensorflow_session_parallelism", int, 0, "concurrent steps without batching; 0: one for each core, two with a GPU")
    switch("enable_batching", False, "combine requests")
    flag("batching_parameters_file", str, "", "BatchingParameters in text format")
    switch("enable_per_model_batching_parameters", False, "read batching_params.pbtxt in each version's folder")
    switch("allow_version_labels_for_unavailable_models", False, "allow labels of versions that are not loaded yet")
    flag("saved_model_tags", str, "serve", "tags of the graph in a SavedModel, with commas")
    switch("restricted", False, "refuse models that could use files, Python functions or other tasks")
    switch("enable_model_warmup", True, "replay assets.extra/tf_serving_warmup_requests")
    flag("num_request_iterations_for_warmup", int, 1, "how often to replay them")
    switch("enable_signature_method_name_check", False, "classify and regress need signatures with that method name")
    switch("enable_serialization_as_tensor_content", False, "answers of Predict have raw tensor_content")
    flag("monitoring_config_file", str, "",
         "MonitoringConfig in text format; by default metrics are at TensorFlow Serving's path")
    flag("ssl_config_file", str, "", "SSLConfig in text format")
    flag("token_file", str, "", "file with bearer tokens, one per line; requests need one of them")
    switch("access_log", False, "log every request")
    flag("drain_seconds", float, 30, "how long to wait for requests that are under way at the end")


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C."""
    ended = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: ended.set())
    server = ModelServer(options_of(args))
    server.start()
    for kind, port in (("gRPC", server.port), ("REST", server.rest_port)):
        if port is not None:
            print(f"{kind} at {args.host}:{port}", flush=True)
    while not ended.wait(1.0):
        pass
    server.stop()
    return 0
