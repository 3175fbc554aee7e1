"""Series from arrays and CSV files, whole or in random windows."""
from __future__ import annotations

import csv
from typing import Any

import numpy as np

from penstock._src.compat.contrib.timeseries.keys import State, TrainEvalFeatures, public
from penstock.compat import v1 as tf

_TIMES, _VALUES = TrainEvalFeatures.TIMES, TrainEvalFeatures.VALUES


def canonical(data: dict[str, Any], single: bool = True) -> dict[str, np.ndarray]:
    """Features with a batch dimension, times as int64, values with a dimension of features; `single`: one series."""
    data = {key: np.asarray(value) for key, value in data.items()}
    if _TIMES not in data or _VALUES not in data:
        raise ValueError(f"NumPy data must have {_TIMES!r} and {_VALUES!r}, got {sorted(data)}")
    batched = data[_TIMES].ndim == 2
    if not batched:
        data = {key: value[np.newaxis] for key, value in data.items()}
    if data[_VALUES].ndim == 2:
        data[_VALUES] = data[_VALUES][..., np.newaxis]
    size = data[_TIMES].shape
    if len(size) != 2 or any(value.shape[:2] != size for value in data.values()):
        raise ValueError(f"Features must have one number of times: { {key: v.shape for key, v in data.items()} }")
    if single and size[0] != 1:
        raise ValueError(f"One series was expected, got a batch of {size[0]}")
    data[_TIMES] = data[_TIMES].astype(np.int64)
    return data


class TimeSeriesReader:
    """Where a series comes from."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The whole series: features whose first dimension is the time."""
        raise NotImplementedError

    def check_dataset_size(self, minimum_dataset_size: int) -> None:
        """ValueError if the series is shorter."""
        size = len(self.arrays()[_TIMES])
        if size < minimum_dataset_size:
            raise ValueError(f"A TimeSeriesInputFn is configured to create windows of size {minimum_dataset_size}, but only "
                             f"{size} records were available in the dataset. Either decrease the window size or provide more "
                             "records.")

    def read_full(self) -> dict[str, Any]:
        """The whole series as tensors."""
        return {key: tf.constant(value) for key, value in self.arrays().items()}

    read = read_full


@public
class NumpyReader(TimeSeriesReader):
    """A series in arrays: `{"times": (n,), "values": (n,) or (n, features), ...}`."""

    def __init__(self, data: dict[str, Any], read_num_records_hint: int = 4096):
        self._data = {key: value[0] for key, value in canonical(data).items()}

    def arrays(self) -> dict[str, np.ndarray]:
        return self._data


@public
class CSVReader(TimeSeriesReader):
    """A series in CSV files. Columns called `values` may be several: they become features of one.

    >>> reader = tf.contrib.timeseries.CSVReader("series.csv", column_names=("times", "values", "values"))
    """

    def __init__(self, filenames: Any, column_names: Any = (_TIMES, _VALUES), column_dtypes: Any = None,
                 skip_header_lines: int | None = None, read_num_records_hint: int = 4096):
        for needed in (_TIMES, _VALUES):
            if needed not in column_names:
                raise ValueError(f"'{needed}' column name is missing in {column_names}")
        if column_dtypes is not None and len(column_dtypes) != len(column_names):
            raise ValueError(f"If specified, the length of column_dtypes must match the length of column_names (got "
                             f"column_dtypes={column_dtypes} and column_names={column_names}).")
        if sum(name == _TIMES for name in column_names) != 1:
            raise ValueError(f"Got more than one times column ('{_TIMES}'), but exactly one is required.")
        self._filenames = [filenames] if isinstance(filenames, (str, bytes)) else list(filenames)
        self._names = list(column_names)
        self._dtypes = [tf.as_dtype(t) for t in column_dtypes] if column_dtypes is not None else \
            [tf.int64 if name == _TIMES else tf.float32 for name in column_names]
        self._skip, self._read = skip_header_lines or 0, None

    def arrays(self) -> dict[str, np.ndarray]:
        if self._read is None:
            rows = []
            for name in self._filenames:
                with tf.gfile.Open(name) as file:
                    rows += [row for row in csv.reader(file.read().splitlines()) if row][self._skip:]
            wrong = next((row for row in rows if len(row) != len(self._names)), None)
            if wrong is not None:
                raise ValueError(f"Expect {len(self._names)} fields but have {len(wrong)} in record {wrong}")
            columns = [np.array(column).astype(dtype.as_numpy_dtype) for column, dtype in
                       zip(zip(*rows), self._dtypes, strict=True)]
            found = {n: [c for c, name in zip(columns, self._names) if name == n] for n in dict.fromkeys(self._names)}
            self._read = {n: np.stack(c, 1) if n == _VALUES or len(c) > 1 else c[0] if n == _TIMES else c[0][:, np.newaxis]
                          for n, c in found.items()}
        return self._read


class TimeSeriesInputFn:
    """An input function over a reader."""

    def __init__(self, time_series_reader: TimeSeriesReader):
        self._reader = time_series_reader

    def create_batch(self) -> tuple[dict[str, Any], None]:
        """Features, and no labels: values are among the features."""
        raise NotImplementedError

    def __call__(self) -> Any:
        return self.create_batch()


@public
class WholeDatasetInputFn(TimeSeriesInputFn):
    """The whole series in one batch, again and again: evaluate it for one step."""

    def create_batch(self) -> tuple[dict[str, Any], None]:
        return {key: tf.constant(value[np.newaxis]) for key, value in self._reader.arrays().items()}, None


@public
class RandomWindowInputFn(TimeSeriesInputFn):
    """Batches of windows that begin anywhere.

    >>> estimator.train(tf.contrib.timeseries.RandomWindowInputFn(reader, window_size=16, batch_size=16), steps=100)
    """

    def __init__(self, time_series_reader: TimeSeriesReader, window_size: int, batch_size: int,
                 queue_capacity_multiplier: int = 1000, shuffle_min_after_dequeue_multiplier: int = 2,
                 discard_out_of_order: bool = True, discard_consecutive_batches_limit: int = 1000, jitter: bool = True,
                 num_threads: int = 2, shuffle_seed: int | None = None):
        super().__init__(time_series_reader)
        if window_size < 1 or batch_size < 1:
            raise ValueError(f"window_size and batch_size must be positive: {window_size}, {batch_size}")
        self.window_size, self._batch_size, self._seed = window_size, batch_size, shuffle_seed

    def create_batch(self) -> tuple[dict[str, Any], None]:
        self._reader.check_dataset_size(self.window_size)
        arrays = self._reader.arrays()
        starts = tf.random_uniform([self._batch_size, 1], 0, len(arrays[_TIMES]) - self.window_size + 1, tf.int32, self._seed)
        rows = starts + tf.range(self.window_size)
        return {key: tf.gather(tf.constant(value), rows) for key, value in arrays.items()}, None


def following_times(steps: int | None, times: Any, output: dict[str, Any]) -> np.ndarray:
    """Times to predict: those given, or a number of steps after what was filtered."""
    if (steps is None) == (times is None):
        raise ValueError("Expected a specification of either `steps` or `times`, but not both.")
    last = np.asarray(output[_TIMES])[:, -1:]
    if times is None:
        return last + 1 + np.arange(steps, dtype=np.int64)[np.newaxis]
    times = np.asarray(times, np.int64)
    times = np.broadcast_to(times, (len(last), times.shape[-1])) if times.ndim < 2 else times
    if (times[:, :1] <= last).any() or (np.diff(times, axis=1) < 0).any():
        raise ValueError("Prediction times must be monotonically increasing, and must be greater than the last time in the "
                         "previous model output.")
    return times


@public
def predict_continuation_input_fn(evaluation: dict[str, Any], steps: int | None = None, times: Any = None,
                                  exogenous_features: dict[str, Any] | None = None) -> Any:
    """An input function that predicts from where an evaluation ended.

    >>> predictions, = estimator.predict(tf.contrib.timeseries.predict_continuation_input_fn(evaluation, steps=100))
    """
    features = {State.STATE_TUPLE: tuple(np.asarray(s) for s in evaluation[State.STATE_TUPLE]),
                _TIMES: following_times(steps, times, evaluation),
                **{key: np.asarray(value) for key, value in (exogenous_features or {}).items()}}
    return lambda: tf.data.Dataset.from_tensors(features)
