"""Warm-up: requests stored with a model run before it is available, so that its first client does not wait."""
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from penstock._src.base import errors
from penstock._src.io import paths
from penstock._src.io.record import RecordReader
from penstock._src.serving.inference import METHODS, Call, Settings
from penstock._src.serving.messages import pb
from penstock._src.serving.metrics import Metrics
from penstock._src.serving.request_log import FIELDS

FILE = "assets.extra/tf_serving_warmup_requests"
MAX_RECORDS = 1000
_KINDS = {field: method for method, field in FIELDS.items()}


def warm_up(version: Any, settings: Settings, iterations: int, run: Callable[[Call], Any], metrics: Metrics) -> int:
    """Replays the warm-up requests of a version; returns how many there were. An error refuses the version."""
    path = paths.join(version.path, FILE)
    if not paths.exists(path):
        return 0
    started, count, status = time.monotonic(), 0, "OK"
    try:
        for record in RecordReader(path):
            count += 1
            if count > MAX_RECORDS:
                raise errors.invalid(f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) at {path}")
            _replay(version, record, path, settings, max(1, iterations), run)
    except errors.OpError as e:
        status = type(e).__name__.removesuffix("Error")
        raise
    finally:
        metrics.warmup_records.add(version.path, status, by=count)
        metrics.warmup_latency.observe(version.path, status, value=(time.monotonic() - started) * 1e6)
    return count


def _replay(version: Any, record: bytes, path: str, settings: Settings, iterations: int, run: Callable[[Call], Any]) -> None:
    try:
        log = pb.PredictionLog.FromString(record)
    except DecodeError:
        raise errors.invalid(f"Failed to parse warmup record from {path}") from None
    kind = log.WhichOneof("kind")
    if kind not in _KINDS:
        raise errors.UnimplementedError(None, None, f"Unsupported log_type for warmup: {kind}")
    prepare = METHODS[_KINDS[kind]][2]
    for _ in range(iterations):
        call = prepare(version, getattr(log, kind).request, settings)
        call.finish(run(call))
