"""Request logs: a sample of requests and responses, as PredictionLog records in TFRecord files.

The files can be used for warming up (`assets.extra/tf_serving_warmup_requests`), and be read with tf.data. One thread writes;
if it cannot keep up, records are dropped and counted, and requests do not wait.
"""
from __future__ import annotations

import queue
import random
import threading
import time
from typing import Any

from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.base.waits import joined
from penstock._src.io.record import TFRecordWriter
from penstock._src.serving.messages import pb
from penstock._src.serving.metrics import Metrics

FIELDS = {"Predict": "predict_log", "Classify": "classify_log", "Regress": "regress_log",
          "MultiInference": "multi_inference_log"}    # of a PredictionLog, by method
_WAITING = 1000                                      # records in memory


class RequestLog:
    """The log of one model."""

    def __init__(self, model: str, config: Any, metrics: Metrics):
        self.rate = config.sampling_config.sampling_rate
        self._model, self._metrics = model, metrics
        stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{random.getrandbits(32):08x}"
        self._path = f"{config.log_collector_config.filename_prefix}-{stamp}"
        self._records: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._write, name=f"request-log-{model}", daemon=True)
        self._thread.start()

    def add(self, api: str, request: Any, response: Any, tags: tuple[str, ...]) -> None:
        """Logs a request, if it is in the sample."""
        if random.random() >= self.rate:
            return
        record = pb.PredictionLog()
        entry = getattr(record, FIELDS[api])
        entry.request.CopyFrom(request)
        entry.response.CopyFrom(response)
        record.log_metadata.timestamp_secs = int(time.time())
        record.log_metadata.saved_model_tags.extend(tags)
        record.log_metadata.sampling_config.sampling_rate = self.rate
        record.log_metadata.model_spec.CopyFrom(response.model_spec if api != "MultiInference" else
                                                response.results[0].model_spec)
        try:
            self._records.put_nowait(record.SerializeToString())
            self._metrics.logged.add(self._model, "OK")
        except queue.Full:
            self._metrics.logged.add(self._model, "RESOURCE_EXHAUSTED")

    def _write(self) -> None:
        with TFRecordWriter(self._path + ".tfrecord") as writer:
            while (record := self._records.get()) is not None:
                try:
                    writer.write(record)
                    if self._records.empty():
                        writer.flush()
                except (OSError, errors.OpError) as e:
                    logging.error("The request log of %s cannot be written: %s", self._model, e)

    def close(self) -> None:
        """Writes the queued records."""
        self._records.put(None)
        joined(self._thread, lambda: f"the request log of {self._model}, to be written")


def wanted(config: Any) -> bool:
    """Whether a LoggingConfig requests a log; InvalidArgumentError if its kind is unknown."""
    if not config.log_collector_config.filename_prefix:
        return False
    if config.log_collector_config.type not in ("", "tfrecord"):
        raise errors.invalid(f"Unknown log collector {config.log_collector_config.type!r}; there is: tfrecord")
    return True
