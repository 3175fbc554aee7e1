"""From the flags of `penstock serve` to Options."""
from __future__ import annotations

import argparse
from typing import Any

from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.io import paths
from penstock._src.serving import config
from penstock._src.serving.messages import pb

_SAME = ("model_config_file", "model_config_file_poll_wait_seconds", "file_system_poll_wait_seconds", "max_num_load_retries",
         "host", "rest_api_timeout_in_ms", "rest_api_max_body_bytes", "rest_api_enable_cors_support", "max_pending_requests",
         "allow_version_labels_for_unavailable_models", "restricted", "enable_model_warmup",
         "num_request_iterations_for_warmup", "enable_signature_method_name_check", "enable_serialization_as_tensor_content",
         "access_log", "drain_seconds")


def options_of(args: argparse.Namespace) -> config.Options:
    """The options that flags request; InvalidArgumentError if they contradict each other."""
    if not args.model_config_file and not args.model_base_path:
        raise errors.invalid("There are no models to serve: pass --model_base_path or --model_config_file.")
    if not args.port and not args.rest_api_port:
        raise errors.invalid("Both --port and --rest_api_port are 0: nothing could reach the server.")
    if args.batching_parameters_file and not args.enable_batching:
        raise errors.invalid("--batching_parameters_file supplied without --enable_batching")
    tokens = _tokens(args.token_file)
    if not tokens and args.host not in config.LOCAL:
        logging.warning("Anyone who can reach %s can use the models. Pass --token_file to require a token.", args.host)
    models: tuple[Any, ...] = ()
    if not args.model_config_file:
        models = (pb.ModelConfig(name=args.model_name, base_path=args.model_base_path),)
    return config.Options(
        models=models, port=args.port or None, rest_api_port=args.rest_api_port or None, tokens=tokens,
        load_retry_interval_seconds=args.load_retry_interval_micros / 1e6, session_threads=args.tensorflow_session_parallelism,
        batching=_batching(args), per_model_batching=args.enable_per_model_batching_parameters,
        saved_model_tags=tuple(args.saved_model_tags.split(",")), prometheus_path=_prometheus_path(args.monitoring_config_file),
        ssl=config.read(args.ssl_config_file, pb.SSLConfig()) if args.ssl_config_file else None,
        **{name: getattr(args, name) for name in _SAME})


def _batching(args: argparse.Namespace) -> config.Batching | None:
    if not args.enable_batching:
        return None
    return config.read_batching(args.batching_parameters_file) if args.batching_parameters_file else config.Batching()


def _prometheus_path(path: str) -> str:
    """Where metrics are; empty if a configuration file turns them off."""
    if not path:
        return config.PROMETHEUS_PATH
    found = config.read(path, pb.MonitoringConfig()).prometheus_config
    return (found.path or config.PROMETHEUS_PATH) if found.enable else ""


def _tokens(path: str) -> tuple[str, ...]:
    if not path:
        return ()
    found = tuple(line.strip() for line in paths.read_bytes(path).decode().splitlines() if line.strip())
    if not found:
        raise errors.invalid(f"{path} has no tokens.")
    return found
