"""ProgbarLogger: the bar that `fit`, `evaluate` and `predict` draw."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.models.keras.callbacks.base import Callback
from penstock._src.models.keras.utils.progress_bar import Progbar


@export("keras.callbacks.ProgbarLogger")
class ProgbarLogger(Callback):
    """Draws a bar that counts samples or steps, with the metrics beside it.

    Args:
        count_mode: `"samples"` or `"steps"`.
        stateful_metrics: Names of metrics that are shown as they are; others are averaged.

    >>> bar = tf.keras.callbacks.ProgbarLogger("steps")
    """

    def __init__(self, count_mode: str = "samples", stateful_metrics: Any = None):
        super().__init__()
        if count_mode not in ("samples", "steps"):
            raise ValueError(f"Unknown `count_mode`: {count_mode}")
        self.use_steps = count_mode == "steps"
        self.stateful_metrics = set(stateful_metrics or [])
        self.progbar: Any = None
        self.target: int | None = None
        self.verbose: Any = 1
        self.epochs = 1
        self._training = False

    def set_params(self, params: dict[str, Any]) -> None:
        """Takes verbosity, epochs, and how much there is to do."""
        self.params = params
        self.verbose = params.get("verbose", 1)
        self.epochs = params.get("epochs", 1)
        if self.use_steps or not params.get("samples"):
            self.use_steps, self._total = True, params.get("steps")
        else:
            self._total = params.get("samples")

    def _start(self, total: Any = None) -> None:
        self.seen, self.target, self.progbar = 0, total, None

    def _bar(self) -> Progbar:
        if self.progbar is None:                               # after the first batch, which makes the metrics
            names = set(getattr(self.model, "metrics_names", ()))
            stateful = names | self.stateful_metrics | {"val_" + n for n in names}
            self.progbar = Progbar(target=self.target, verbose=self.verbose, stateful_metrics=stateful,
                                   unit_name="step" if self.use_steps else "sample")
        return self.progbar

    def _count(self, logs: Any) -> None:
        """Draws after a batch; the metrics are inspected only when it is time to draw."""
        if not self.verbose:
            return
        size = self.params.get("batch_size") or 1
        self.seen += 1 if self.use_steps else size
        if self.target is not None and not self.use_steps:
            self.seen = min(self.seen, self.target)
        bar = self._bar()
        if self.verbose == 1 and bar.due():
            bar.update(self.seen, self._shown(logs), finalize=False)

    def _end(self, logs: Any) -> None:
        if not self.verbose:
            return
        bar = self._bar()
        if self.target is None:
            bar.target = self.target = self.seen
        bar.update(self.target, self._shown(logs), finalize=True)

    @staticmethod
    def _shown(logs: Any) -> list[tuple]:
        return [(k, v) for k, v in (logs or {}).items() if k not in ("batch", "size", "num_steps", "outputs")]

    def on_train_begin(self, logs: Any = None) -> None:
        """Marks that a validation is part of an epoch's bar."""
        self._training = True

    def on_train_end(self, logs: Any = None) -> None:
        """Clears the mark."""
        self._training = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Writes which epoch begins."""
        self._start(self.params.get("steps") if self.use_steps else self._total)
        if self.verbose and self.epochs > 1:
            print(f"Epoch {epoch + 1}/{self.epochs}")
        if self.verbose:
            self._bar()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts a batch."""
        self._count(logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Ends the bar of an epoch."""
        self._end(logs)

    def on_test_begin(self, logs: Any = None) -> None:
        """Begins the bar of an evaluation."""
        if not self._training:
            self._start(self._total)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts a batch."""
        if not self._training:
            self._count(logs)

    def on_test_end(self, logs: Any = None) -> None:
        """Ends the bar of an evaluation."""
        if not self._training:
            self._end(logs)

    def on_predict_begin(self, logs: Any = None) -> None:
        """Begins the bar of a prediction."""
        self._start(self._total)

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts a batch."""
        self._count(None)

    def on_predict_end(self, logs: Any = None) -> None:
        """Ends the bar of a prediction."""
        self._end(None)
