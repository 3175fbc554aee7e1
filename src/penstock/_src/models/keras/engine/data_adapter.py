"""Batches for training: from arrays, tensors, generators, Sequences, datasets and iterators.

A batch is a flat list of arrays or tensors. A `Layout` describes which of them are inputs, targets and sample weights, in the
user's structure. Layouts can be compared: a step is compiled once per layout.
"""
from __future__ import annotations

import collections
import inspect
import itertools
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import penstock as tf
from penstock._src.base import dtypes, errors, nest
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import LazyModule, export
from penstock._src.base.waits import result_of
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.graph import context
from penstock._src.graph.eager_tensor import EagerTensor, over_array
from penstock._src.graph.node import Tensor
from penstock._src.models.distribute.input_context import InputContext
from penstock._src.models.keras.engine import standardize
from penstock._src.models.keras.engine.call_context import is_symbolic
from penstock._src.models.keras.utils.dataset_creator import DatasetCreator
from penstock._src.ops.random.random import permutations
from penstock.compat import v1

backend = LazyModule("penstock._src.models.keras.backend")
_AHEAD = 4 << 20               # bytes of shuffled rows that are gathered at once
_END = object()                # of a dataset


class Layout(NamedTuple):
    """Structures of inputs, targets and weights, with places in a flat list as leaves; None: not there."""
    x: Any
    y: Any
    weights: Any

    def pack(self, flat: list) -> tuple:
        """Inputs, targets and weights of a flat batch."""
        def filled(structure: Any) -> Any:
            return None if structure is None else nest.map_structure(lambda i: None if i is None else flat[i], structure)
        return filled(self.x), filled(self.y), filled(self.weights)

    @property
    def key(self) -> str:
        """The same for layouts that are the same."""
        return repr(tuple(self))


@export("keras.utils.unpack_x_y_sample_weight")
def unpack_x_y_sample_weight(data: Any) -> tuple:
    """The inputs, targets and weights in the argument of a `train_step`; None for missing ones."""
    if isinstance(data, list):
        data = tuple(data)
    if not isinstance(data, tuple):
        return data, None, None
    if len(data) > 3:
        raise ValueError("Output of generator should be a tuple of 1 or 2 or 3 elements: (input,) or (input, target) or "
                         f"(input, target, sample_weights). Found: {type(data)} of {len(data)}")
    return (*data, None, None)[:3]


@export("keras.utils.pack_x_y_sample_weight")
def pack_x_y_sample_weight(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """The argument of a `train_step`: a single input is not wrapped in a tuple."""
    if y is None:
        return (x,) if isinstance(x, (list, tuple)) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


class Batch(NamedTuple):
    """A layout and the values for it."""
    layout: Layout
    flat: list


def _is_leaf_list(x: Any) -> bool:
    """Whether a list is one array written as a list."""
    return isinstance(x, (list, tuple)) and bool(x) and not any(
        hasattr(v, "shape") or hasattr(v, "to_numpy") or isinstance(v, Mapping) or v is None or
        isinstance(v, (list, tuple)) and v and hasattr(v[0], "shape") for v in x)


def _arrays(data: Any) -> Any:
    """The structure that a user gave, with arrays as leaves."""
    if data is None:
        return None
    if isinstance(data, Mapping):
        return {k: _arrays(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)) and not _is_leaf_list(data):
        return type(data)(*(_arrays(v) for v in data)) if hasattr(data, "_fields") else [_arrays(v) for v in data]
    return standardize.as_array(data)


def make_batch(model: Any, x: Any, y: Any, weights: Any, class_weight: Any = None, check: bool = True,
               training: bool = True) -> Batch:
    """A batch (or all the data) for a model: arrays in their layout, checked against inputs and outputs. Eager steps get the
    data as they are given: the model and its losses check them."""
    if context.executing_eagerly():
        return _batch_as_given(x, y, weights, class_weight, check)
    x, y = _conformed(x, model._input_info(), "input", check), y
    outputs = model._output_info(y)
    if y is not None:
        y = _targets(model, y, outputs, check and training)
    flat_y = model._y_list(y, outputs) if y is not None else []
    weights = _weights(model, flat_y, weights, class_weight, outputs)
    if check:
        standardize.check_lengths(nest.flatten(x), flat_y, nest.flatten(weights) if weights is not None else [])
    return _laid_out(x, y, weights)


def _laid_out(x: Any, y: Any, weights: Any) -> Batch:
    """A batch of structures of arrays."""
    flat: list = []

    def place(v: Any) -> Any:
        if v is None:
            return None
        flat.append(v)
        return len(flat) - 1
    return Batch(Layout(*(None if s is None else nest.map_structure(place, s) for s in (x, y, weights))), flat)


def _batch_as_given(x: Any, y: Any, weights: Any, class_weight: Any, check: bool) -> Batch:
    """A batch of data in the structures that the user gave."""
    x, y, weights = _arrays(x), _arrays(y), _arrays(weights)
    if class_weight is not None and y is not None:
        if nest.is_nested(y):
            raise ValueError("`class_weight` is only supported for Models with a single output.")
        standardize.check_classes(class_weight)
        weights = standardize.combined_weights(y, weights, class_weight, None)
    if check:
        standardize.check_lengths(*([] if part is None else nest.flatten(part) for part in (x, y, weights)))
    return _laid_out(x, y, weights)


def _as_given(data: Any) -> Any:
    """Data of which the model says nothing: in 2.x vectors stay vectors, in 1.x they are columns."""
    arrays = _arrays(data)
    return arrays if context.eager_outside_functions() else nest.map_structure(standardize.column, arrays)


def _conformed(x: Any, info: Any, what: str, check: bool) -> Any:
    if info is None:
        return _as_given(x)
    names, shapes = info
    found = standardize.data_list(x, names, shapes, what, check)
    if isinstance(x, Mapping):
        return dict(zip(names, found, strict=True))
    return list(found) if isinstance(x, (list, tuple)) and len(names) > 1 else found[0] if len(found) == 1 else list(found)


def _targets(model: Any, y: Any, outputs: Any, check: bool) -> Any:
    if outputs is None:
        return _as_given(y)
    names, shapes, functions = outputs
    wanted = [(n, s, f) for n, s, f in zip(names, shapes, functions) if f is not None or not model._has_losses()]
    if not wanted:
        wanted = list(zip(names, shapes, functions))
    known = [n for n, _, _ in wanted]
    given = standardize.data_list(y, known, None, "target", check, columns=False)
    found = [standardize.column(v) for v in given]
    if check:
        standardize.check_targets(found, [f for _, _, f in wanted], [s for _, s, _ in wanted])
    if context.eager_outside_functions():
        found = given
    if isinstance(y, Mapping):
        return dict(zip(known, found, strict=True))
    return found[0] if len(names) == 1 else list(found) if len(found) > 1 or isinstance(y, (list, tuple)) else found[0]


def _weights(model: Any, y: list, given: Any, class_weight: Any, outputs: Any) -> Any:
    if given is None and class_weight is None:
        return None
    names = outputs[0] if outputs is not None else [f"output_{i + 1}" for i in range(max(1, len(y)))]
    samples = standardize.weights_by_output(given, names, "sample_weight")
    classes = standardize.weights_by_output(class_weight, names, "class_weight")
    modes = model._weight_modes(names)
    y = [*y, *[None] * (len(names) - len(y))]
    found = [standardize.combined_weights(*one) for one in zip(y, samples, classes, modes)]
    return found[0] if len(found) == 1 else found


# -- kinds of data ---------------------------------------------------------------------------------------------------
class Source:
    """Batches, epoch by epoch."""

    steps: int | None = None           # per epoch; None: as many as there are
    samples: int | None = None
    batch_size: int | None = None
    exhausted = False                  # whether an epoch found fewer batches than it should have: training ends after it

    def epoch(self) -> Iterator[Batch]:
        """The batches of one epoch."""
        raise NotImplementedError

    def on_epoch_end(self) -> None:
        """Called after each epoch."""

    def restart(self) -> None:
        """Restarts at the first batch, as each validation does."""

    def _ran_out(self) -> None:
        """Notes that there are too few batches, and warns."""
        self.exhausted = True
        logging.warning("Your input ran out of data; interrupting training. Make sure that your dataset or generator can "
                        "generate at least `steps_per_epoch * epochs` batches (here %s per epoch). You may need to use the "
                        "repeat() function when building your dataset.", self.steps)


class ArraySource(Source):
    """Slices of arrays and tensors."""

    steps: int
    samples: int
    batch_size: int

    def __init__(self, batch: Batch, batch_size: int | None, steps: int | None, shuffle: Any, eager: bool, passes: int = 1):
        self.layout = batch.layout
        n = _length(batch.flat)
        if batch_size is None:
            batch_size = 32 if steps is None else max(1, -(-n // steps))
        self.samples, self.batch_size, self._shuffle = n, batch_size, shuffle
        self._arrays = [_eager_value(a) for a in batch.flat] if eager else [_host_value(a) for a in batch.flat]
        self._eager, self._passes = eager, passes
        self._orders = permutations(n)
        self._stream: Iterator[Batch] | None = None
        self.steps = -(-n // batch_size) if steps is None else steps

    def _order(self) -> np.ndarray | None:
        if not self._shuffle:
            return None
        order = np.arange(self.samples)
        if self._shuffle == "batch":
            whole = len(order) // self.batch_size * self.batch_size
            blocks = order[:whole].reshape(-1, self.batch_size)
            np.random.shuffle(blocks)
            order[:whole] = blocks.reshape(-1)
        elif self._eager:
            return next(self._orders).numpy()
        else:
            np.random.shuffle(order)
        return order

    def epoch(self) -> Iterator[Batch]:
        """The batches of one epoch. Eagerly, an epoch continues where the one before stopped, until all passes over the data
        are done."""
        if not self._eager:
            yield from itertools.islice(self._one_pass(), self.steps)
            return
        if self._stream is None:
            self._stream = itertools.chain.from_iterable(self._one_pass() for _ in range(self._passes))
        n = 0
        for n, batch in enumerate(itertools.islice(self._stream, self.steps), 1):       # noqa: B007
            yield batch
        if n < self.steps:
            self._ran_out()

    def restart(self) -> None:
        """Restarts at the first batch."""
        self._stream = None

    def _one_pass(self) -> Iterator[Batch]:
        """The batches of all rows."""
        cut = _cutter(self._arrays, self._order(), self._eager)
        for start in range(0, self.samples, self.batch_size):
            yield Batch(self.layout, cut(start, min(start + self.batch_size, self.samples)))


def _cutter(arrays: list, order: Any, eager: bool) -> Any:
    """A function that returns rows from start to stop of all arrays."""
    if not eager:
        if order is None:
            return lambda a, b: [v[a:b] for v in arrays]
        return lambda a, b: [v[order[a:b]] for v in arrays]
    import torch

    values = [(v._value, v.dtype) for v in arrays]
    if order is None:
        return lambda a, b: [EagerTensor(v[a:b], t) for v, t in values]
    index = torch.from_numpy(order)
    rows = max(1, _AHEAD // max(1, sum(v[:1].nbytes for v, _ in values)))
    first, last, gathered = 0, 0, []         # rows that were gathered ahead: from, to, and the values

    def cut(a: int, b: int) -> list:
        nonlocal first, last, gathered
        if b > last or a < first:
            end = max(b, a + rows)
            gathered = [v[index[a:end]] if isinstance(v, torch.Tensor) else v[order[a:end]] for v, _ in values]
            first, last = a, min(end, len(order))
        return [EagerTensor(v[a - first:b - first], t) for v, (_, t) in zip(gathered, values)]
    return cut


def _length(flat: list) -> int:
    for a in flat:
        if hasattr(a, "shape") and len(a.shape):
            return int(a.shape[0])
    raise ValueError("The data has no examples: pass arrays whose first dimension is the number of examples.")


def _host_value(a: Any) -> Any:
    if hasattr(a, "_value"):
        return a.numpy()
    return a.tocsr() if hasattr(a, "tocsr") else a


def _eager_value(a: Any) -> Any:
    """An array as an eager tensor, with its memory; floating ones in the float type of Keras."""
    if hasattr(a, "_value"):
        return a
    if hasattr(a, "toarray"):
        a = a.toarray()
    a = np.asarray(a)
    if a.dtype.kind == "f":
        a = a.astype(backend.floatx(), copy=False)
    return over_array(a, dtypes.as_dtype(a.dtype)) if a.dtype.kind in "fiub" else tf.convert_to_tensor(a)


class RowsSource(Source):
    """Data with sparse or ragged tensors: batches of rows, cut by a dataset."""

    def __init__(self, batch: Batch, batch_size: int | None, steps: int | None, shuffle: Any):
        n = _length(batch.flat)
        if batch_size is None:
            batch_size = 32 if steps is None else max(1, -(-n // steps))
        self.layout, self.samples, self.batch_size = batch.layout, n, batch_size
        self.steps = -(-n // batch_size) if steps is None else steps
        rows = DatasetV2.from_tensor_slices(tuple(_eager_batch(batch).flat))
        self._batches = (rows.shuffle(n) if shuffle else rows).batch(batch_size)

    def epoch(self) -> Iterator[Batch]:
        """The batches of one epoch."""
        for flat in itertools.islice(self._batches, self.steps):
            yield Batch(self.layout, list(flat))


class SymbolicSource(Source):
    """Tensors of a graph: each run returns another batch."""

    def __init__(self, batch: Batch, steps: int | None, name: str):
        if steps is None:
            raise ValueError("When using data tensors as input to a model, you should specify the "
                             f"`{name}` argument.")
        self._batch, self.steps = batch, steps

    def epoch(self) -> Iterator[Batch]:
        """The batches of one epoch."""
        layout, flat = self._batch
        session = backend.get_session(flat)
        wanted = [i for i, t in enumerate(flat) if is_symbolic(t)]
        run = session.make_callable([flat[i] for i in wanted])
        for _ in range(self.steps or 0):
            values = list(flat)
            for i, v in zip(wanted, run()):
                values[i] = v
            yield Batch(layout, values)


class PythonSource(Source):
    """A generator or a Sequence."""

    def __init__(self, model: Any, data: Any, steps: int | None, class_weight: Any, shuffle: bool, training: bool,
                 workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10):
        self._model, self._data, self._class_weight, self._shuffle = model, data, class_weight, shuffle
        self._training, self._workers, self._queue = training, workers, max_queue_size
        self._processes = use_multiprocessing
        self.indexed = is_sequence(data)
        self.steps = steps if steps is not None or not self.indexed else len(data)
        self._endless: Any = None
        self._checked = False
        if not self.indexed:
            self._iterator = iter(data)
            first = next(self._iterator, None)
            if first is not None:
                self._iterator = itertools.chain([first], self._iterator)

    def _made(self, item: Any) -> Batch:
        if not isinstance(item, (tuple, list)) and not isinstance(item, Mapping) and not hasattr(item, "shape"):
            raise ValueError(f"Output of generator should be a tuple `(x, y, sample_weight)` or `(x, y)`. Found: {item}")
        x, y, w = unpack_x_y_sample_weight(item if isinstance(item, tuple) else (item,) if self._training is False or
                                           not isinstance(item, list) else tuple(item))
        check = not self._checked and not context.executing_eagerly()
        batch = make_batch(self._model, x, y, w, self._class_weight, check=check, training=self._training)
        self._checked = True
        return _eager_batch(batch) if context.executing_eagerly() else batch

    def epoch(self) -> Iterator[Batch]:
        """The batches of one epoch."""
        if not self.indexed:
            n = 0
            for n, item in enumerate(itertools.islice(self._iterator, self.steps), 1):      # noqa: B007
                yield self._made(item)
            if self.steps is not None and n < self.steps:
                self._ran_out()
            return
        n = len(self._data)
        if n == 0:
            return
        order: Any = list(range(n))
        if self._shuffle:
            random.shuffle(order)
        if self.steps is not None and self.steps > n:
            order = itertools.islice(itertools.cycle(order), self.steps)
        else:
            order = itertools.islice(order, self.steps)
        yield from map(self._made, self._items(order))

    def _items(self, order: Any) -> Iterator[Any]:
        if self._workers <= 1 or self._processes:
            yield from (self._data[int(i)] for i in order)
            return
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(self._workers, thread_name_prefix="keras_sequence")
        try:
            waiting: collections.deque = collections.deque()
            for i in order:
                waiting.append(pool.submit(self._data.__getitem__, int(i)))
                if len(waiting) >= max(1, self._queue):
                    yield self._result(waiting.popleft())
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _result(self, made: Any) -> Any:
        return result_of(made, lambda: f"a batch, which {type(self._data).__name__}.__getitem__ should return")

    def on_epoch_end(self) -> None:
        """Calls `on_epoch_end` of the Sequence."""
        if self.indexed and hasattr(self._data, "on_epoch_end"):
            self._data.on_epoch_end()


def _is_composite(value: Any) -> bool:
    """Whether a value is a sparse or ragged tensor."""
    return hasattr(value, "_type_spec") and not isinstance(value, (np.ndarray, Tensor)) and not hasattr(value, "handle")


def _eager_batch(batch: Batch) -> Batch:
    return Batch(batch.layout, [v if hasattr(v, "_type_spec") and not isinstance(v, np.ndarray) else _eager_value(v)
                                for v in batch.flat])


class DatasetSource(Source):
    """A dataset, or an iterator over one."""

    def __init__(self, model: Any, data: Any, steps: int | None, class_weight: Any, training: bool,
                 steps_name: str = "steps"):
        self._model, self._data, self.steps = model, data, steps
        self._class_weight, self._training, self._checked = class_weight, training, False
        self._running: Any = None
        self._begun = False
        if steps is None:
            if is_iterator(data) and not context.executing_eagerly():
                raise ValueError("When using a Dataset iterator as input to a model, you should specify the "
                                 f"`{steps_name}` argument.")
            if not is_iterator(data):
                size = _cardinality(data)
                if size == -1 and context.executing_eagerly():
                    raise ValueError("When providing an infinite dataset, you must specify the number of steps to run (if you "
                                     "did not intend to create an infinite dataset, make sure to not call `repeat()` on the "
                                     "dataset).")
                if size == -1:
                    raise ValueError("When passing an infinitely repeating dataset, you must specify the number of steps to "
                                     f"run: please specify the `{steps_name}` argument.")
                self.steps = size if size is not None and size >= 0 else None
        self._given_steps = steps
        self._whole = steps is None or not is_iterator(data) and _cardinality(data) == steps    # an epoch is all of the data

    def _made(self, item: Any) -> Batch:
        x, y, w = unpack_x_y_sample_weight(item)
        check = not self._checked and not context.executing_eagerly()
        batch = make_batch(self._model, x, y, w, self._class_weight, check=check, training=False)
        self._checked = True
        return batch

    def epoch(self) -> Iterator[Batch]:
        """The batches of one epoch. With a number of steps, the next epoch continues where this one stopped, unless that was
        the end of the dataset."""
        if self._running is None or self._whole:
            if not self._begun and self._whole and context.executing_eagerly():
                self._elements()                                # tf_keras begins twice: shuffles of the data draw another order
            self._begun = True
            self._running = self._elements()
        for i in itertools.count():
            if self.steps is not None and i >= self.steps and (self._given_steps is not None or i > self.steps):
                return
            item = next(self._running, _END)
            if item is _END:
                if self._given_steps is not None and i < self._given_steps:
                    self._ran_out()
                return
            yield self._made(item)

    def restart(self) -> None:
        """Begins the dataset again; an iterator continues."""
        if not is_iterator(self._data):
            self._running, self._begun = None, False

    def _elements(self) -> Iterator[Any]:
        if context.executing_eagerly():
            return iter(self._data)
        return _session_elements(self._data)


def _session_elements(data: Any) -> Iterator[Any]:
    """The elements of a dataset or an iterator, fetched in Keras's session."""
    iterator = data if is_iterator(data) else v1.data.make_initializable_iterator(data)
    element = iterator.get_next()
    flat = nest.flatten(element, expand_composites=True)
    session = backend.get_session(flat)
    if not is_iterator(data):
        session.run(iterator.initializer)
    elif getattr(iterator, "initializer_was_run", None) is None and hasattr(iterator, "_initializer"):
        _initialize_once(session, iterator)
    run = session.make_callable(flat)
    while True:
        try:
            values = run()
        except errors.OutOfRangeError:
            return
        yield nest.pack_sequence_as(element, values, expand_composites=True)


def _initialize_once(session: Any, iterator: Any) -> None:
    if getattr(iterator, "_keras_initialized", None) is not session:
        op = getattr(iterator, "_initializer", None)
        if op is not None:
            session.run(op)
        iterator._keras_initialized = session


def _cardinality(data: Any) -> int | None:
    """The number of batches; -1: endless, None: not known."""
    try:
        size = v1.data.experimental.cardinality(data)
        value = int(size.numpy()) if hasattr(size, "_value") else int(backend.get_session().run(size))
    except (TypeError, ValueError, errors.OpError):
        return None
    return None if value == -2 else value


# -- choosing --------------------------------------------------------------------------------------------------------
def is_sequence(data: Any) -> bool:
    """Whether data is a Sequence: batches by number."""
    return hasattr(data, "__getitem__") and hasattr(data, "__len__") and hasattr(data, "on_epoch_end")


def is_dataset(data: Any) -> bool:
    """Whether data is a tf.data dataset."""
    return hasattr(data, "_variant_tensor") and hasattr(data, "element_spec")


def is_iterator(data: Any) -> bool:
    """Whether data is an iterator over a dataset."""
    return hasattr(data, "get_next") and not is_dataset(data)


def is_generator(data: Any) -> bool:
    """Whether data is a Python generator or iterator."""
    return inspect.isgenerator(data) or hasattr(data, "__next__") and not is_iterator(data)


def coordinated(strategy: Any) -> bool:
    """Whether the steps of a strategy are run by a coordinator (`scheduled.py`)."""
    return strategy is not None and hasattr(strategy.extended, "connection")


def source(model: Any, x: Any, y: Any = None, weights: Any = None, batch_size: int | None = None, steps: int | None = None,
           shuffle: Any = False, class_weight: Any = None, training: bool = True, steps_name: str = "steps",
           workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10, passes: int = 1) -> Source:
    """The batches of any kind of data. `passes` is how many times training may use each row of an array."""
    if steps is not None and context.executing_eagerly():
        if steps != -1 and steps <= 0:
            raise ValueError(f"{steps_name} must be positive, None or -1. Received {steps}. See `Model.fit`.")
        steps = None if steps == -1 else steps
    if isinstance(steps, float):
        steps = math.ceil(steps)                # of a program that divides the rows by the batch size
    if context.executing_eagerly() and (is_dataset(x) or is_iterator(x) or is_sequence(x) or is_generator(x)):
        _refuse_in_2(x, y, weights)
    if is_dataset(x) or is_iterator(x) or isinstance(x, DatasetCreator):
        _refuse_others(x, y, weights, batch_size)
        on_workers = isinstance(x, DatasetCreator) or steps is not None and is_dataset(x)
        if training and context.executing_eagerly() and on_workers and coordinated(model._distribution_strategy):
            from penstock._src.models.keras.engine import scheduled  # which imports this module
            return scheduled.WorkerSource(model, x, steps, class_weight, steps_name)
        if isinstance(x, DatasetCreator):
            x = x(_input_context())
        return DatasetSource(model, x, steps, class_weight, training, steps_name)
    if is_sequence(x) or is_generator(x):
        if y is not None:
            raise ValueError("`y` argument is not supported when data is a generator or Sequence instance. Instead pass "
                             "targets "
                             "as the second element of the generator.")
        if weights is not None:
            raise ValueError("`sample_weight` argument is not supported when data is a generator or Sequence instance. Instead "
                             "pass sample weights as the third element of the generator.")
        if batch_size is not None and not context.process.eager:
            raise ValueError("The `batch_size` argument must not be specified for the given input type. Received input: "
                             f"{x}, batch_size: {batch_size}")
        return PythonSource(model, x, steps, class_weight, shuffle is True, training, workers, use_multiprocessing,
                            max_queue_size)
    if x is None and not model._has_fixed_inputs():
        raise ValueError("You should pass data to the model: `x` is None.")
    if batch_size is not None and not hasattr(batch_size, "__index__"):
        raise TypeError(f"`batch_size` must be an integer, got {batch_size!r}.")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"Expected batch_size to be positive. Received is {batch_size}.")
    batch = make_batch(model, x, y, weights, class_weight, training=training)
    if any(is_symbolic(t) for t in batch.flat):
        return SymbolicSource(batch, steps, steps_name)
    if context.executing_eagerly() and any(_is_composite(t) for t in batch.flat):
        return RowsSource(batch, batch_size, steps, shuffle)
    return ArraySource(batch, batch_size, steps, shuffle, context.executing_eagerly(), passes)


def _input_context() -> Any:
    return InputContext()


def _refuse_in_2(x: Any, y: Any, weights: Any) -> None:
    """ValueError for targets or weights beside data that have their own, as 2.x words it."""
    kind = "dataset" if is_dataset(x) or is_iterator(x) else "`keras.utils.Sequence`" if is_sequence(x) else "python generator"
    for name, value in (("y", y), ("sample_weight", weights)):
        if value is not None:
            raise ValueError(f"`{name}` argument is not supported when using {kind} as input.")


def _refuse_others(x: Any, y: Any, weights: Any, batch_size: Any) -> None:
    if y is not None:
        raise ValueError(f"You passed a dataset or dataset iterator ({x}) as input `x` to your model. In that case, you "
                         "should not "
                         "specify a target (`y`) argument, since the dataset or dataset iterator generates both input data and "
                         f"target data. Received: {y}")
    if weights is not None:
        raise ValueError("`sample_weight` argument is not supported when input `x` is a dataset or a dataset iterator. "
                         "Instead, "
                         "you can provide sample_weight as the third element  of your dataset, i.e. (inputs, targets, "
                         f"sample_weight). Received: x={x}, sample_weight={weights}")
    if batch_size is not None and not context.process.eager:         # 2.x ignores it
        raise ValueError("The `batch_size` argument must not be specified for the given input type. Received input: "
                         f"{x}, batch_size: {batch_size}")


def split(batch_arrays: Any, fraction: float) -> tuple[Any, Any]:
    """The first and the last part of arrays: for training, and for validation."""
    flat = [a for a in nest.flatten(batch_arrays) if a is not None]
    if not flat or any(is_symbolic(a) for a in flat):
        raise ValueError("`validation_split` is only supported for Tensors or NumPy arrays, found following types in the "
                         "input: "
                         f"{[type(a) for a in flat]}")
    n = int(flat[0].shape[0])
    at = int(n * (1.0 - fraction))
    if at == 0 or at == n:
        raise ValueError(f"Training data contains {n} samples, which is not sufficient to split it into a validation and "
                         "training "
                         f"set as specified by `validation_split={fraction}`. Either provide more data, or a different "
                         "value for "
                         "the `validation_split` argument.")
    first = nest.map_structure(lambda a: None if a is None else a[:at], batch_arrays)
    return first, nest.map_structure(lambda a: None if a is None else a[at:], batch_arrays)


def arrays_of(*data: Any) -> Any:
    """Data as structures of arrays, for splitting."""
    return tuple(_arrays(d) for d in data)


@export("keras.experimental.terminate_keras_multiprocessing_pools")
def terminate_keras_multiprocessing_pools(grace_period: float = 0.1, use_sigkill: bool = False) -> set:
    """Does nothing: process pools that read data end with the loop that started them."""
    return set()
