"""The loops over batches: fit, evaluate, predict."""
from __future__ import annotations

from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import nest
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import LazyModule
from penstock._src.graph import context
from penstock._src.models.keras.engine import data_adapter
from penstock._src.models.keras.engine.data_adapter import Batch, Source
from penstock._src.models.keras.engine.replicas import check_batch_size

callbacks_module = LazyModule("penstock._src.models.keras.callbacks")


class Results(dict):
    """Results of metrics by name, read on access: most steps need not wait for them."""

    def __init__(self, model: Any, given: Any = None):
        super().__init__()
        self._model, self._given, self._ready = model, given, False

    def _read(self) -> Any:
        if not self._ready:
            self._ready = True
            self.update(_values(self._model, self._given))
        return self

    def __getitem__(self, key: str) -> Any:
        return dict.__getitem__(self._read(), key)

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self._read(), key)

    def __iter__(self) -> Any:
        return dict.__iter__(self._read())

    def __len__(self) -> int:
        return dict.__len__(self._read())

    def __bool__(self) -> bool:
        return True

    def get(self, key: str, default: Any = None) -> Any:
        """The result of a metric."""
        return dict.get(self._read(), key, default)

    def items(self) -> Any:
        """Names and results."""
        return dict.items(self._read())

    def keys(self) -> Any:
        """Names."""
        return dict.keys(self._read())

    def values(self) -> Any:
        """Results."""
        return dict.values(self._read())

    def copy(self) -> dict:
        """A plain dictionary."""
        return dict(self.items())

    def __repr__(self) -> str:
        return repr(dict(self.items()))


def _values(model: Any, given: Any) -> dict[str, Any]:
    """Numbers from the results of a step: results by name, a list of them in graphs, or nothing."""
    if given is None:
        given = model.get_metrics_result()
    if isinstance(given, list):
        return {n: _number(v) for n, v in zip(model.metrics_names, given)}
    if not isinstance(given, dict):
        return {"loss": _number(given)}
    return {k: _number(v) for k, v in given.items()}


def _number(v: Any) -> Any:
    if isinstance(v, dict):
        return {k: _number(x) for k, x in v.items()}
    v = v.numpy() if hasattr(v, "numpy") else v
    return v.item() if isinstance(v, (np.ndarray, np.generic)) and np.ndim(v) == 0 else v


def ready(batch: Batch) -> Batch:
    """A batch as steps take it: eager tensors in eager mode."""
    return data_adapter._eager_batch(batch) if context.executing_eagerly() else batch


def one_batch(model: Any, mode: str, x: Any, y: Any, weights: Any, class_weight: Any) -> dict[str, Any]:
    """Takes one step; returns results by name."""
    if data_adapter.is_dataset(x) or data_adapter.is_iterator(x):
        source = data_adapter.DatasetSource(model, x, 1, class_weight, True)
        batch = next(iter(source.epoch()))
    else:
        batch = data_adapter.make_batch(model, x, y, weights, class_weight)
        if any(data_adapter.is_symbolic(t) for t in batch.flat):
            batch = next(data_adapter.SymbolicSource(batch, 1, "steps").epoch())
    batch = ready(batch)
    step = model._step(mode, *batch)
    return Results(model, _finished(step, step(batch.flat))).copy()


def _finished(step: Any, out: Any) -> Any:
    """The results of a step; waits for steps that run elsewhere (scheduled.py)."""
    finish = getattr(step, "finish", None)
    return out if finish is None else finish()


def listed(model: Any, logs: dict[str, Any]) -> Any:
    """Results as a list in the order of `metrics_names`, then those that only the model's own step names; or the loss alone."""
    names = [n for n in model.metrics_names if n in logs]
    names += sorted(n for n in logs if n not in names) if context.eager_outside_functions() else ()
    found = [logs[n] for n in names] or list(logs.values())
    return found[0] if len(found) == 1 else found


def as_outputs(model: Any, flat: list) -> Any:
    """Arrays in the structure of a model's outputs."""
    structure = model.__dict__.get("_nested_outputs")
    if structure is not None and nest.is_nested(structure) and len(nest.flatten(structure)) == len(flat):
        return nest.pack_sequence_as(structure, flat)
    return flat[0] if len(flat) == 1 else flat


# -- callbacks -------------------------------------------------------------------------------------------------------
def _callback_list(model: Any, given: Any, verbose: Any, source: Source, epochs: int, history: bool = False,
                   **params: Any) -> Any:
    if isinstance(given, callbacks_module.CallbackList):
        return given
    if context.eager_outside_functions():
        params = {}                                             # 2.x tells callbacks less
    else:
        params.update(samples=source.samples, batch_size=source.batch_size)
    return callbacks_module.CallbackList(given, add_history=history, add_progbar=bool(verbose), model=model, verbose=verbose,
                                         epochs=epochs, steps=source.steps, **params)


def _verbose(verbose: Any) -> int:
    return 1 if verbose == "auto" else int(verbose)


class _Hooks:
    """Calls the batch hooks of callbacks; a no-op if no callback has any."""

    def __init__(self, callbacks: Any, mode: str):
        flag = getattr(callbacks, f"_should_call_{mode}_batch_hooks", True)
        self.begin = getattr(callbacks, f"on_{mode}_batch_begin") if flag else None
        self.end = getattr(callbacks, f"on_{mode}_batch_end") if flag else None


# -- fit -------------------------------------------------------------------------------------------------------------
def fit(model: Any, x: Any, y: Any, batch_size: Any, epochs: int, verbose: Any, callbacks: Any, validation_split: float,
        validation_data: Any, shuffle: Any, class_weight: Any, sample_weight: Any, initial_epoch: int, steps_per_epoch: Any,
        validation_steps: Any, validation_freq: Any, max_queue_size: int, workers: int, use_multiprocessing: bool,
        **kwargs: Any) -> Any:
    """Trains a model; returns the History."""
    if "nb_epoch" in kwargs:
        logging.warning("`nb_epoch` of `fit` is deprecated: use `epochs`.")
        epochs = kwargs.pop("nb_epoch")
    validation_batch_size = kwargs.pop("validation_batch_size", None) or batch_size
    if kwargs:
        if context.eager_outside_functions():
            raise TypeError(f"Model.fit() got an unexpected keyword argument '{next(iter(kwargs))}'")
        raise TypeError(f"Unrecognized keyword arguments: {kwargs}")
    model._assert_compile_was_called()
    model._check_call_args("fit")
    verbose = _verbose(verbose)
    if epochs < 1 and context.executing_eagerly():
        raise ValueError(f"Expected epochs to be positive. Received is {epochs}.")
    if validation_split and validation_data is None:
        if data_adapter.is_dataset(x) or data_adapter.is_generator(x) or data_adapter.is_sequence(x):
            if context.executing_eagerly():
                raise ValueError("`validation_split` is only supported for Tensors or NumPy arrays, found following types in "
                                 f"the input: {[type(x)]}")
            if data_adapter.is_dataset(x):
                raise ValueError("`validation_split` argument is not supported when input `x` is a dataset or a dataset "
                                 f"iterator. Received: x={x}, validation_split={validation_split}")
            raise ValueError("`validation_split` is only supported for Tensors or NumPy arrays, not for datasets, "
                             "generators or "
                             f"Sequences. Received: x={x}")
        arrays = data_adapter.arrays_of(x, y, sample_weight)
        (x, y, sample_weight), validation_data = data_adapter.split(arrays, validation_split)
    if not chooses_batches(x):
        check_batch_size(model, batch_size)
    options: dict[str, Any] = {"workers": workers, "use_multiprocessing": use_multiprocessing, "max_queue_size": max_queue_size}
    source = data_adapter.source(model, x, y, sample_weight, batch_size, steps_per_epoch, shuffle, class_weight,
                                 steps_name="steps_per_epoch", passes=max(1, epochs), **options)
    validation = None
    if validation_data is not None:
        vx, vy, vw = _validation_parts(validation_data)
        validation = data_adapter.source(model, vx, vy, vw, None if chooses_batches(vx) else validation_batch_size,
                                         validation_steps, steps_name="validation_steps", **options)
    callbacks = _callback_list(model, callbacks, verbose, source, epochs, history=True, do_validation=validation is not None,
                               metrics=[*model.metrics_names, *("val_" + n for n in model.metrics_names)]
                               if validation is not None else model.metrics_names)
    model.stop_training = False
    if verbose and not context.executing_eagerly():
        _announce(source, validation)
    callbacks.on_train_begin()
    logs: dict[str, Any] = {}
    for epoch in range(max(initial_epoch, getattr(model, "_first_epoch", 0)), epochs):     # BackupAndRestore may skip some
        model.reset_metrics()
        callbacks.on_epoch_begin(epoch)
        logs = _epoch(model, source, callbacks, "train")
        if validation is not None and _validates(validation_freq, epoch):
            found = run_evaluation(model, validation, callbacks)
            logs.update({"val_" + n: v for n, v in found.items()})
        callbacks.on_epoch_end(epoch, dict(logs))
        if model.stop_training or source.exhausted:
            break
        source.on_epoch_end()
    if getattr(model.optimizer, "use_ema", False) and epochs > 0:
        model.optimizer.finalize_variable_values(model.trainable_variables)
    callbacks.on_train_end(logs)
    return model.history


def _announce(source: Source, validation: Source | None) -> None:
    """Prints how much there is to train on, as graphs of 1.x do."""
    def size(s: Source) -> str:
        return f"{s.samples} samples" if s.samples is not None else f"{s.steps} steps"
    if source.samples is not None or source.steps is not None:
        print(f"Train on {size(source)}" + (f", validate on {size(validation)}" if validation is not None else ""))


def chooses_batches(x: Any) -> bool:
    """Whether the data is already batched."""
    return data_adapter.is_dataset(x) or data_adapter.is_iterator(x) or data_adapter.is_sequence(x) or \
        data_adapter.is_generator(x) or isinstance(x, data_adapter.DatasetCreator)


def _validation_parts(given: Any) -> tuple:
    if data_adapter.is_dataset(given) or data_adapter.is_generator(given) or data_adapter.is_sequence(given) or \
            data_adapter.is_iterator(given) or isinstance(given, data_adapter.DatasetCreator):
        return given, None, None
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        raise ValueError("When passing a `validation_data` argument, it must contain either 2 items (x_val, y_val), or 3 items "
                         "(x_val, y_val, val_sample_weights), or be a dataset or a dataset iterator. However we received "
                         f"`validation_data={given}`")
    return (*given, None)[:3]


def _validates(freq: Any, epoch: int) -> bool:
    number = epoch + 1
    if isinstance(freq, int):
        if freq < 1:
            raise ValueError("`validation_freq` can not be less than 1.")
        return number % freq == 0
    if not hasattr(freq, "__contains__"):
        raise ValueError(f"`validation_freq` must be an Integer or `collections.abc.Container` (e.g. list, tuple, etc.). Got "
                         f"{type(freq)}")
    return number in freq


def _epoch(model: Any, source: Source, callbacks: Any, mode: str) -> dict[str, Any]:
    """Runs one epoch, with training ("train") or without ("test"); returns the results."""
    hooks = _Hooks(callbacks, mode)
    step: Any = None
    layout: Any = None
    out: Any = None
    n = -1
    for n, batch in enumerate(source.epoch()):
        if hooks.begin is not None:
            hooks.begin(n)
        if batch.layout is not layout:
            layout, step = batch.layout, model._step(mode, *batch)
        out = step(batch.flat)
        if hooks.end is not None:
            hooks.end(n, Results(model, out))
        if mode == "train" and model.stop_training:
            break
    if n < 0 and source.exhausted:            # the epoch before used the last batch
        return Results(model).copy() if mode == "train" and context.executing_eagerly() else {}
    if n < 0:
        raise ValueError("Expected input data to be non-empty.")
    if source.steps is None:
        source.steps = n + 1
        if mode == "train":
            _tell_steps(callbacks, n + 1)
    return Results(model, _finished(step, out)).copy()


def _tell_steps(callbacks: Any, steps: int) -> None:
    for c in getattr(callbacks, "callbacks", ()):
        if isinstance(getattr(c, "params", None), dict):
            c.params["steps"] = steps


# -- evaluate --------------------------------------------------------------------------------------------------------
def evaluate(model: Any, x: Any, y: Any, batch_size: Any, verbose: Any, sample_weight: Any, steps: Any, callbacks: Any,
             max_queue_size: int, workers: int, use_multiprocessing: bool, return_dict: bool, **kwargs: Any) -> Any:
    """The loss and the metrics of a model on data."""
    if kwargs:
        raise TypeError(f"Invalid keyword arguments: {list(kwargs)}")
    model._assert_compile_was_called()
    verbose = _verbose(verbose)
    source = data_adapter.source(model, x, y, sample_weight, batch_size, steps, workers=workers,
                                 use_multiprocessing=use_multiprocessing, max_queue_size=max_queue_size)
    callbacks = _callback_list(model, callbacks, verbose, source, 1, metrics=model.metrics_names)
    logs = run_evaluation(model, source, callbacks)
    return logs if return_dict else listed(model, logs)


def run_evaluation(model: Any, source: Source, callbacks: Any) -> dict[str, Any]:
    """Runs one epoch without training; returns the results."""
    model.reset_metrics()
    source.restart()
    callbacks.on_test_begin()
    logs = _epoch(model, source, callbacks, "test")
    source.on_epoch_end()
    callbacks.on_test_end(logs)
    return logs


# -- predict ---------------------------------------------------------------------------------------------------------
def predict(model: Any, x: Any, batch_size: Any, verbose: Any, steps: Any, callbacks: Any, max_queue_size: int, workers: int,
            use_multiprocessing: bool) -> Any:
    """The outputs of a model for data."""
    source = data_adapter.source(model, x, None, None, batch_size, steps, training=False, workers=workers,
                                 use_multiprocessing=use_multiprocessing, max_queue_size=max_queue_size)
    if verbose == "auto" and not context.eager_outside_functions():
        verbose = 0                                             # 1.x shows the progress of predict on request only
    callbacks = _callback_list(model, callbacks, _verbose(verbose), source, 1)
    callbacks.on_predict_begin()
    hooks = _Hooks(callbacks, "predict")
    found: list[list] = []
    for n, batch in enumerate(source.epoch()):
        inputs = [i for i in nest.flatten(batch.layout.x) if i is not None]            # they come first
        batch = Batch(batch.layout._replace(y=None, weights=None), batch.flat[:len(inputs)])
        if hooks.begin is not None:
            hooks.begin(n)
        outputs = model._step("predict", *batch)(batch.flat)
        flat = [o.numpy() if hasattr(o, "_value") else o for o in nest.flatten(outputs)]
        found.append(flat)
        structure = outputs
        if hooks.end is not None:
            hooks.end(n, {"outputs": nest.pack_sequence_as(outputs, flat)})
    if not found:
        raise ValueError("Expect x to be a non-empty array or dataset.")
    source.on_epoch_end()
    callbacks.on_predict_end()
    joined = [_joined([batch[i] for batch in found]) for i in range(len(found[0]))]
    if context.executing_eagerly() and nest.is_nested(structure):
        return nest.pack_sequence_as(structure, joined)
    return as_outputs(model, joined)


def _joined(parts: list) -> Any:
    """The outputs of all batches as one array."""
    if hasattr(parts[0], "dense_shape") or hasattr(parts[0], "row_splits"):
        if len(parts) == 1:
            return parts[0]
        return tf.sparse.concat(0, parts) if hasattr(parts[0], "dense_shape") else tf.concat(parts, 0)
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=0)
