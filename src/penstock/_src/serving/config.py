"""Options of a server, and its configuration files: text-format messages, as TensorFlow Serving reads them."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import text_format

from penstock._src.base import errors
from penstock._src.io import paths
from penstock._src.serving.messages import pb

LOCAL = ("127.0.0.1", "localhost", "::1")
PROMETHEUS_PATH = "/monitoring/prometheus/metrics"


@dataclass(frozen=True)
class Batching:
    """How requests of one model are combined. The defaults are TensorFlow Serving's."""
    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    allowed_batch_sizes: tuple[int, ...] = ()
    pad_variable_length_inputs: bool = False
    enable_large_batch_splitting: bool = False
    max_execution_batch_size: int = 0

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_enqueued_batches", "num_batch_threads"):
            if getattr(self, name) < 1:
                raise errors.invalid(f"{name} must be positive; was {getattr(self, name)}")
        if self.batch_timeout_micros < 0:
            raise errors.invalid(f"batch_timeout_micros must be non-negative; was {self.batch_timeout_micros}")
        sizes = self.allowed_batch_sizes
        if any(a >= b for a, b in zip((0, *sizes), sizes)):
            raise errors.invalid("allowed_batch_sizes entries must be monotonically increasing")
        if sizes and sizes[-1] != self.step_size:
            limit = "max_execution_batch_size" if self.enable_large_batch_splitting else "max_batch_size"
            raise errors.invalid(f"Last entry in allowed_batch_sizes must match {limit}; last entry was {sizes[-1]}; "
                                 f"expected {self.step_size}")

    @property
    def step_size(self) -> int:
        """The maximum number of rows of a step."""
        if self.enable_large_batch_splitting and self.max_execution_batch_size:
            return self.max_execution_batch_size
        return self.max_batch_size


@dataclass(frozen=True)
class Options:
    """The options of a server; the command's flags have the same names and meanings as tensorflow_model_server's."""
    models: tuple[Any, ...] = ()                     # ModelConfig messages
    model_config_file: str = ""
    model_config_file_poll_wait_seconds: float = 0
    host: str = "127.0.0.1"
    port: int | None = 8500                          # None: no gRPC; 0: any free port
    rest_api_port: int | None = None
    rest_api_timeout_in_ms: int = 30_000
    rest_api_enable_cors_support: bool = False
    rest_api_max_body_bytes: int = 1 << 30
    max_connections: int = 4096
    max_pending_requests: int = 1024
    session_threads: int = 0                         # concurrent steps without batching; 0: one for each core
    batching: Batching | None = None
    per_model_batching: bool = False
    file_system_poll_wait_seconds: float = 1.0
    max_num_load_retries: int = 5
    load_retry_interval_seconds: float = 60.0
    allow_version_labels_for_unavailable_models: bool = False
    saved_model_tags: tuple[str, ...] = ("serve",)
    restricted: bool = False
    enable_model_warmup: bool = True
    num_request_iterations_for_warmup: int = 1
    enable_signature_method_name_check: bool = False
    enable_serialization_as_tensor_content: bool = False
    prometheus_path: str = ""                        # empty: no metrics
    ssl: Any = None                                  # an SSLConfig message
    tokens: tuple[str, ...] = ()
    access_log: bool = False
    drain_seconds: float = 30.0

    @property
    def trusts_clients(self) -> bool:
        """Whether clients may change which models are served: they are on this machine, or authenticated."""
        return self.host in LOCAL or bool(self.tokens) or bool(self.ssl is not None and self.ssl.client_verify)


def parsed(text: str, message: Any, what: str) -> Any:
    """`text`, a message in text format, as `message`; InvalidArgumentError if it is not one."""
    try:
        return text_format.Parse(text, message)
    except text_format.ParseError as e:
        raise errors.invalid(f"Invalid {what}: {e}") from None


def read(path: str, message: Any) -> Any:
    """A file with a message in text format."""
    try:
        text = paths.read_bytes(path).decode()
    except UnicodeDecodeError as e:
        raise errors.invalid(f"Invalid protobuf file {path}: {e}") from None
    return parsed(text, message, f"protobuf file {path}")


def model_configs(config: Any) -> tuple[Any, ...]:
    """The ModelConfigs of a ModelServerConfig, checked."""
    if config.WhichOneof("kind") != "model_config_list":
        raise errors.invalid("Invalid ServerModelConfig: it has no model_config_list")
    seen: set[str] = set()
    for model in config.model_config_list.config:
        if model.name in seen:
            raise errors.invalid(f"Illegal to list model {model.name} multiple times in config list")
        if not model.name or not model.base_path:
            raise errors.invalid("A model in the config list has no name or no base_path")
        if model.model_platform not in ("", "tensorflow"):
            raise errors.invalid(f"Model {model.name} requests unsupported platform {model.model_platform}")
        seen.add(model.name)
    return tuple(config.model_config_list.config)


def read_models(path: str) -> tuple[Any, ...]:
    """The models of a configuration file."""
    return model_configs(read(path, pb.ModelServerConfig()))


def batching_of(message: Any) -> Batching:
    """BatchingParameters as Batching; fields that are not set keep their defaults."""
    given: dict[str, Any] = {name: getattr(message, name).value for name in (
        "max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads", "enable_large_batch_splitting",
        "max_execution_batch_size") if message.HasField(name)}
    return Batching(**given, allowed_batch_sizes=tuple(message.allowed_batch_sizes),
                    pad_variable_length_inputs=message.pad_variable_length_inputs)


def read_batching(path: str) -> Batching:
    """A file with BatchingParameters."""
    return batching_of(read(path, pb.BatchingParameters()))
