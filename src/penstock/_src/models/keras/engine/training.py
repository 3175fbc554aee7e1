"""Model: a network that can be trained. `compile` configures how; `fit`, `evaluate` and `predict` go over data in batches.

The loops are in `epochs.py`, batches in `data_adapter.py`, compiled steps in `steps.py`, and the arguments of compile in
`compiled.py`. In eager mode a step is `train_step`, which users may replace; in graphs it is built from the
model's tensors.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import nest
from penstock._src.base.api import LazyModule, export
from penstock._src.eager.function import _Settings, function
from penstock._src.eager.tape import GradientTape
from penstock._src.graph import context
from penstock._src.graph.strategies import active_strategy
from penstock._src.graph.trackable import Trackable, no_automatic_dependency_tracking
from penstock._src.models.distribute.contexts import default_frame
from penstock._src.models.keras.engine import epochs as epoch_loops
from penstock._src.models.keras.engine.compiled import Compiled, LossContainer, MetricsContainer
from penstock._src.models.keras.engine.data_adapter import (
    Layout,
    coordinated,
    is_generator,
    make_batch,
    unpack_x_y_sample_weight,
)
from penstock._src.models.keras.engine.layer_weights import unique
from penstock._src.models.keras.engine.network import Network, is_functional
from penstock._src.models.keras.engine.replicas import ReplicaGraphStep, ReplicaStep, check_strategy
from penstock._src.models.keras.engine.steps import FunctionStep, GraphStep
from penstock._src.models.keras.saving.model_files import Saved

backend = LazyModule("penstock._src.models.keras.backend")
optimizers = LazyModule("penstock._src.models.keras.optimizers")


@export("keras.Model", "keras.models.Model")
class Model(Saved, Network):
    """Layers with inputs and outputs, or a class with its own `call`, that can be trained.

    >>> x = tf.keras.Input((4,)); model = tf.keras.Model(x, tf.keras.layers.Dense(1)(x))
    >>> model.compile("sgd", "mse"); model.fit(np.ones((8, 4)), np.ones((8, 1)), verbose=0)
    """

    _call_fn_args: Any
    _distribution_strategy: Any
    _nested_inputs: Any
    inputs: Any
    outputs: Any

    _TF_MODULE_IGNORED_PROPERTIES = frozenset((
        "_steps", "_compiled", "_graph_parts", "compiled_loss", "compiled_metrics", *Network._TF_MODULE_IGNORED_PROPERTIES))

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance; with symbolic inputs and outputs, `Model` itself makes a Functional."""
        return super().__new__(Functional if cls is Model and is_functional(args, kwargs) else cls, *args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any):
        self._forget_compiled()
        super().__init__(*args, **kwargs)

    def _forget_compiled(self) -> None:
        own = self.__dict__
        own.setdefault("_is_compiled", False)
        own.setdefault("optimizer", None)
        own.setdefault("_compiled", Compiled())
        own.setdefault("_run_eagerly", None)
        own.setdefault("stop_training", False)
        own.setdefault("_distribution_strategy", active_strategy())
        own.update(_steps={}, _graph_parts={})

    @no_automatic_dependency_tracking
    def _init_graph_network(self, inputs: Any, outputs: Any, name: str | None = None, **kwargs: Any) -> None:
        self._forget_compiled()
        super()._init_graph_network(inputs, outputs, name=name, **kwargs)
        if self._is_compiled:
            self._compiled = self._new_compiled()
            self._build_compiled()

    # -- compile -----------------------------------------------------------------------------------------------------
    @no_automatic_dependency_tracking
    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None, loss_weights: Any = None,
                sample_weight_mode: Any = None, weighted_metrics: Any = None, target_tensors: Any = None,
                distribute: Any = None, **kwargs: Any) -> None:
        """Configures training.

        >>> model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        """
        if self._distribution_strategy is not None and active_strategy() is None:
            with self._distribution_strategy.scope():
                self.compile(optimizer, loss, metrics, loss_weights, sample_weight_mode, weighted_metrics, target_tensors,
                             distribute, **kwargs)
            return
        check_strategy(self)
        self._run_eagerly = kwargs.pop("run_eagerly", None)
        self._step_options = {k: kwargs.pop(k, None) for k in ("steps_per_execution", "jit_compile")}
        for k in ("experimental_run_tf_function", "experimental_steps_per_execution", "auto_scale_loss", "cloning",
                  "pss_evaluation_shards"):
            kwargs.pop(k, None)
        session_options = ("feed_dict", "fetches", "options", "run_metadata")
        for k in kwargs:
            if context.eager_outside_functions() or k not in session_options:
                raise TypeError(f"Invalid keyword argument(s) in `compile`: {{'{k}'}}")
        self.optimizer: Any = self._optimizer_of(optimizer) if not isinstance(optimizer, (list, tuple)) else \
            [self._optimizer_of(o) for o in optimizer]
        if isinstance(self.optimizer, Trackable):
            self._track_trackable(self.optimizer, name="optimizer", overwrite=True)
        self.loss = loss if loss is not None else {} if not context.process.eager else None
        self.loss_weights, self.sample_weight_mode = loss_weights, sample_weight_mode
        self._compile_metrics, self._compile_weighted_metrics = metrics or [], weighted_metrics
        if self.run_eagerly and target_tensors is not None:
            raise ValueError("target_tensors argument is not supported when running a model eagerly.")
        self._target_tensors = target_tensors
        self._is_compiled = True
        self._steps: dict[Any, Any] = {}
        self._graph_parts: dict[Any, Any] = {}
        self._compiled = self._new_compiled()
        self.compiled_loss, self.compiled_metrics = LossContainer(self), MetricsContainer(self)
        self._clear_losses()
        self._build_compiled()
        self.__dict__["_compiled_trainable"] = [(layer, layer.trainable) for layer in self._flatten_layers()]

    @contextlib.contextmanager
    def _as_compiled(self) -> Iterator[None]:
        """Trains the layers that were trainable when `compile` was called, whatever their attributes are now."""
        now = [(layer, layer._trainable) for layer, then in self.__dict__.get("_compiled_trainable", ())
               if layer._trainable != then]
        for layer, trainable in now:
            layer._trainable = not trainable
        try:
            yield
        finally:
            for layer, trainable in now:
                layer._trainable = trainable

    def _optimizer_of(self, given: Any) -> Any:
        """The optimizer that compile was given, wrapped in a LossScaleOptimizer if the model's policy requires it."""
        optimizer, scale = optimizers.get(given), self._policy.loss_scale
        return optimizer if scale is None else optimizers.loss_scale.with_scale(optimizer, scale)

    def _new_compiled(self) -> Compiled:
        return Compiled(self.loss, self.loss_weights, self._compile_metrics, self._compile_weighted_metrics)

    def _build_compiled(self) -> None:
        """Creates losses and metrics, if the outputs are known."""
        if self.built and self.inputs and self.outputs:
            with backend.get_graph().as_default():
                self._compiled.build(list(self.output_names), list(self.outputs), self._listed_targets(), self._output_keys())
            modes = getattr(self, "sample_weight_mode", None)
            if isinstance(modes, (list, tuple)) and len(modes) != len(self.outputs):
                raise ValueError("When passing a list as sample_weight_mode, it should have one entry per model output. The "
                                 f"model has {len(self.outputs)} outputs, but you passed {len(modes)} sample_weight_modes.")
            self.loss_functions = self._compiled.losses

    def _output_keys(self) -> list[str] | None:
        """The keys of a functional model's outputs, in their order, if it was given a dictionary of them."""
        outputs = self.__dict__.get("_nested_outputs")
        if not isinstance(outputs, Mapping) or any(isinstance(v, (Mapping, list, tuple)) for v in outputs.values()):
            return None
        return sorted(outputs)

    def _listed_targets(self) -> list | None:
        """The tensors that compile was given as targets, in the order of the outputs."""
        given = getattr(self, "_target_tensors", None)
        if given is None:
            return None
        if isinstance(given, Mapping):
            unknown = set(given) - set(self.output_names)
            if unknown:
                raise ValueError(f"Unknown entry in `target_tensors` dictionary: \"{sorted(unknown)[0]}\". Only expected the "
                                 f"following keys: {self.output_names}")
            return [given.get(n) for n in self.output_names]
        if not isinstance(given, (list, tuple)):
            return [given]
        if len(given) != len(self.outputs):
            raise ValueError("When passing a list as `target_tensors`, it should have one entry per model output. The "
                             "model has "
                             f"{len(self.outputs)} outputs, but you passed target_tensors={given}")
        return list(given)

    def _check_call_args(self, method: str) -> None:
        """ValueError if `call` needs more than the inputs: batches have no other arguments."""
        if self._is_graph_network:
            return
        import inspect
        needed = [p.name for p in list(inspect.signature(self.call).parameters.values())[1:]
                  if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "training"]
        if needed:
            raise ValueError(f"Models passed to `{method}` can only have `training` and the first argument in `call` as "
                             f"positional arguments, found: {needed}.")

    def _assert_compile_was_called(self) -> None:
        if not self._is_compiled:
            raise RuntimeError("You must compile your model before training/testing. Use `model.compile(optimizer, loss)`.")

    @property
    def run_eagerly(self) -> bool:
        """Whether steps run op by op instead of being compiled."""
        if self._run_eagerly is True and not context.executing_eagerly():
            raise ValueError("You can only set `run_eagerly=True` if eager execution is enabled.")
        if not self.dynamic:
            return _Settings.eagerly if self._run_eagerly is None else self._run_eagerly
        what = "Your model contains layers that can only be successfully run in eager execution (layers constructed with " \
               "`dynamic=True`). "
        if not context.executing_eagerly():
            raise ValueError(what + "You must enable eager execution with `tf.enable_eager_execution()`.")
        if self._run_eagerly is False:
            raise ValueError(what + "You cannot set `run_eagerly=False`.")
        return True

    @run_eagerly.setter
    def run_eagerly(self, value: bool | None) -> None:
        self._run_eagerly = value

    # -- metrics -----------------------------------------------------------------------------------------------------
    def _layer_metrics(self) -> list:
        return unique(m for layer in self._flatten_layers() for m in getattr(layer, "_metrics", ()))

    @property
    def metrics(self) -> list:
        """The metrics that compile was given and that layers added; in the v2 API those of the losses, too."""
        losses = self._loss_metrics() if context.process.eager else []
        return unique([*losses, *self._requested_metrics(), *self._layer_metrics()])

    def _all_metrics(self) -> list:
        """All reported metrics, in the order of `metrics_names`."""
        return unique([*self._loss_metrics(), *self._requested_metrics(), *self._layer_metrics()])

    def _loss_metrics(self) -> list:
        """The metrics of the losses; none in a model whose own step computes losses without those of `compile`. In 2.x they
        exist from the first batch on."""
        return self._compiled.loss_metrics if self._compiled.loss_used or not context.eager_outside_functions() else []

    def _requested_metrics(self) -> list:
        """The metrics that `compile` was given, likewise."""
        used = self._compiled.loss_used or self._compiled.metrics_used or not context.eager_outside_functions()
        return self._compiled.metrics if used else []

    @property
    def metrics_names(self) -> list[str]:
        """The names of the results of `evaluate` and `train_on_batch`."""
        names = [m.name for m in self._all_metrics()]
        return names if names and names[0] == "loss" or context.process.eager else ["loss", *names]

    def reset_metrics(self) -> None:
        """Resets the collected values, also of the metrics that a model's own `metrics` names."""
        for m in unique([*self._all_metrics(), *(self.metrics if context.process.eager else ())]):
            m.reset_states()

    def get_metrics_result(self) -> dict[str, Any]:
        """The results of the metrics so far."""
        found: dict[str, Any] = {}
        for m in self._all_metrics():
            result = m.result()
            found.update(result if isinstance(result, dict) else {m.name: result})
        return found

    # -- one step, in eager mode -------------------------------------------------------------------------------------
    def train_step(self, data: Any) -> dict[str, Any]:
        """Trains on a batch; a subclass may override it. Returns results by name."""
        self._quiet_step("train", data)
        return self.get_metrics_result()

    def test_step(self, data: Any) -> dict[str, Any]:
        """Tests on a batch."""
        self._quiet_step("test", data)
        return self.get_metrics_result()

    def predict_step(self, data: Any) -> Any:
        """Outputs for a batch."""
        x, _, _ = unpack_x_y_sample_weight(data)
        return self(x, training=False)

    def _quiet_step(self, mode: str, data: Any) -> None:
        """A step that leaves its results in the metrics."""
        x, y, weights = unpack_x_y_sample_weight(data)
        if mode == "test":
            y_pred = self(x, training=False)
            self.compute_loss(x, y, y_pred, weights)
        else:
            with GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compute_loss(x, y, y_pred, weights)
            variables = self.trainable_variables
            if variables:
                self.optimizer.minimize(loss, variables, tape=tape)
        self._update_metrics(y, y_pred, weights)

    def _is_default_step(self, mode: str) -> bool:
        return all(getattr(type(self), n) is getattr(Model, n) for n in (f"{mode}_step", "compute_loss", "compute_metrics")
                   if hasattr(Model, n))

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None,
                     training: bool = True) -> Any:
        """The loss of a batch, with that of the layers."""
        ys, preds, weights = self._aligned(y, y_pred, sample_weight)
        return self._compiled.loss(ys, preds, weights, self.losses)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Updates the metrics; returns their results."""
        self._update_metrics(y, y_pred, sample_weight)
        return self.get_metrics_result()

    def _update_metrics(self, y: Any, y_pred: Any, sample_weight: Any) -> None:
        ys, preds, weights = self._aligned(y, y_pred, sample_weight)
        self._compiled.update(ys, preds, weights)

    def _aligned(self, y: Any, y_pred: Any, weights: Any) -> tuple[list, list, list]:
        """Targets, outputs and weights as lists, in the order of the outputs; builds what waits for the outputs."""
        preds = nest.flatten(y_pred)
        if not self._compiled.built:
            names = list(self.output_names) if self.output_names and len(self.output_names) == len(preds) else \
                sorted(y_pred) if isinstance(y_pred, Mapping) else [f"output_{i + 1}" for i in range(len(preds))]
            if not self.output_names:
                self.__dict__["output_names"] = names
            keys = self._output_keys() or names
            targets = nest.flatten(y) if not isinstance(y, Mapping) else [y.get(k) for k in keys]
            self._compiled.build(names, preds, targets, keys)
        keys = self._compiled.keys
        ys = self._y_list(y, (keys, None, self._compiled.losses)) if y is not None else [None] * len(preds)
        listed = self._y_list(weights, (keys, None, self._compiled.losses)) if weights is not None else [None] * len(preds)
        if len(listed) == 1 and len(preds) > 1:
            listed *= len(preds)
        return [_ranked(t, p) for t, p in zip(ys, preds)], preds, listed

    def _y_list(self, y: Any, outputs: Any) -> list:
        """Targets in the order of the outputs; None where an output has none."""
        if outputs is None:
            return nest.flatten(y)
        names, _, functions = outputs
        if isinstance(y, Mapping):
            return [y.get(n) for n in names]
        flat = list(y) if isinstance(y, (list, tuple)) else nest.flatten(y)
        wanted = [i for i, f in enumerate(functions) if f is not None]
        if len(flat) == len(wanted) != len(names):
            found: list = [None] * len(names)
            for i, v in zip(wanted, flat):
                found[i] = v
            return found
        return flat

    # -- what data has to look like ----------------------------------------------------------------------------------
    def _has_own_steps(self) -> bool:
        """Whether a step is the user's, who gets the data as they were given."""
        return context.eager_outside_functions() and any(
            getattr(type(self), n) is not getattr(Model, n) for n in ("train_step", "test_step", "predict_step"))

    def _input_info(self) -> Any:
        if not self._is_graph_network or self._has_own_steps():
            return None
        shapes = [tuple(t.shape.as_list()) if t.shape.rank is not None else None for t in self._fed_inputs()]
        nested = self._nested_inputs
        if isinstance(nested, Mapping) and len(nested) == len(shapes):          # a dictionary of inputs: its keys name them
            return sorted(nested), shapes
        return [t._keras_history.layer.name for t in self._fed_inputs()], shapes

    def _fed_inputs(self) -> list:
        return [t for t in self.inputs if getattr(t._keras_history.layer, "is_placeholder", True)]

    def _has_fixed_inputs(self) -> bool:
        return bool(self._is_graph_network) and not self._fed_inputs()

    def _has_losses(self) -> bool:
        return any(f is not None for f in self._compiled.losses)

    def _output_info(self, y: Any) -> Any:
        compiled = self._compiled
        if self._has_own_steps():
            return None
        if not compiled.built or not self.outputs:
            return (compiled.keys, [None] * len(compiled.losses), compiled.losses) if compiled.built else None
        shapes = [tuple(t.shape.as_list()) if t.shape.rank is not None else None for t in self.outputs]
        return compiled.keys, shapes, compiled.losses

    def _weight_modes(self, names: list[str]) -> list:
        mode = getattr(self, "sample_weight_mode", None)
        if isinstance(mode, Mapping):
            return [mode.get(n) for n in names]
        return list(mode) if isinstance(mode, (list, tuple)) else [mode] * len(names)

    # -- steps -------------------------------------------------------------------------------------------------------
    def _step(self, mode: str, layout: Layout, flat: list) -> Any:
        """The compiled step for a kind of batch."""
        eager = context.executing_eagerly()
        key = mode, layout.key, None if eager else id(context.current_graph()), eager and self.run_eagerly
        found = self._steps.get(key)
        if found is None:
            check_strategy(self)
            found = self._steps[key] = self._eager_step(mode, layout) if eager else self._graph_step(mode, layout, flat)
        return found

    def _eager_step(self, mode: str, layout: Layout) -> Any:
        """A step of eager mode: on this process, on all replicas, or on some worker."""
        strategy, eagerly = self._distribution_strategy, bool(self.run_eagerly)
        if strategy is None:
            return FunctionStep(self, mode, layout, eagerly)
        if not coordinated(strategy):
            return ReplicaStep(self, mode, layout, eagerly)
        from penstock._src.models.keras.engine import scheduled  # with the coordinator of a cluster, which few programs need
        if isinstance(layout, scheduled.OnWorkers):
            return scheduled.WorkerStep(self, mode, eagerly)
        return scheduled.ScheduledStep(self, mode, layout, eagerly)

    def _graph_step(self, mode: str, layout: Layout, flat: list) -> Any:
        """A step of this graph; a worker that has its own graph of a cluster builds it under the strategy."""
        strategy = self._distribution_strategy
        if strategy is None:
            return GraphStep(self, mode, layout, flat)
        if not getattr(strategy.extended, "experimental_between_graph", False):
            with strategy.scope():                   # a model without an input shape makes its variables now
                return ReplicaGraphStep(self, mode, layout, flat)
        return strategy.run(lambda: GraphStep(self, mode, layout, flat))

    @property
    def distribute_strategy(self) -> Any:
        """The strategy that the model was created under; the default one, if it was created under none."""
        return self._distribution_strategy or default_frame().strategy

    def make_train_function(self, force: bool = False) -> Any:
        """The function of an iterator that takes one training step, as custom loops use it."""
        return self._iterator_function("train")

    def make_test_function(self, force: bool = False) -> Any:
        """The function of an iterator that takes one test step."""
        return self._iterator_function("test")

    def make_predict_function(self, force: bool = False) -> Any:
        """The function of an iterator that returns the outputs for one batch."""
        return self._iterator_function("predict")

    def _iterator_function(self, mode: str) -> Any:
        method = getattr(self, f"{mode}_step")
        step = method if self.run_eagerly else function(method)
        return lambda iterator: step(next(iterator))

    # -- one step, in graphs -----------------------------------------------------------------------------------------
    def _graph_inputs(self, layout: Layout, flat: list) -> tuple[list, Any]:
        """The tensors that are fed for a flat batch, and the outputs of the model for them."""
        x_key = "x", repr(layout.x), id(context.current_graph())
        holes: list = [None] * len(flat)
        places = [i for i in nest.flatten(layout.x) if i is not None]
        if self.inputs:
            fed = self._fed_inputs() if self._is_graph_network else self.inputs
            named = isinstance(layout.x, Mapping) and self._is_graph_network and not isinstance(self._nested_inputs, Mapping)
            order = [layout.x[t._keras_history.layer.name] for t in fed] if named else places
            for i, t in zip(order, fed, strict=True):
                holes[i] = t
        else:
            for i in places:
                holes[i] = _hole(flat[i], f"input_{i + 1}")
            x = nest.map_structure(lambda i: holes[i], layout.x)
            training = {"training": backend.learning_phase()} if self._expects_training_arg and \
                "training" in self._call_fn_args else {}
            self(x, **training)
            if not self.outputs:
                raise ValueError(f"The outputs of model {self.name} are not known: it was called, but returned no tensors.")
        self._graph_parts.setdefault(x_key, holes)
        if not self._compiled.built and self._is_compiled:
            self._compiled.build(list(self.output_names), list(self.outputs), None, self._output_keys())
        for part, prefix in ((layout.y, "target"), (layout.weights, "sample_weight")):
            for number, i in enumerate(nest.flatten(part)):
                if i is not None:
                    holes[i] = self._target_hole(part, prefix, number, i, flat[i])
        return holes, self.outputs

    def _target_hole(self, part: Any, prefix: str, number: int, place: int, value: Any) -> Any:
        shape = tuple(getattr(value, "shape", ()))
        key = prefix, repr(part), place, id(context.current_graph()), len(shape), tuple(shape[1:])
        found = self._graph_parts.get(key)
        if found is None:
            names = self._compiled.names or []
            name = names[number] if number < len(names) else f"output_{number + 1}"
            loss = self._compiled.losses[number] if number < len(self._compiled.losses) else None
            dtype = _target_dtype(value, loss) if prefix == "target" else backend.floatx()
            found = self._graph_parts[key] = backend.placeholder(shape=(None, *(d if isinstance(d, int) else None
                                                                               for d in shape[1:])) if shape else (),
                                                                 dtype=dtype, name=f"{name}_{prefix}")
        return found

    def _graph_loss(self, layout: Layout, holes: list) -> tuple[Any, list]:
        """The loss of a batch, and the results to report, as tensors."""
        key = "loss", layout.key, tuple(map(id, holes))
        found = self._graph_parts.get(key)
        if found is None:
            _, y, weights = layout.pack(holes)
            if y is None:
                y = self._listed_targets()
            ys, preds, listed = self._aligned(y, self.outputs, weights)
            extra = unique([*self.get_losses_for(None), *self.get_losses_for(self.inputs)])
            loss = self._compiled.loss(ys, preds, listed, extra)
            self._compiled.update(ys, preds, listed)
            results = [self._compiled.graph_result(m) for m in (*self._compiled.loss_metrics, *self._compiled.metrics)]
            known = {id(m) for m in (*self._compiled.loss_metrics, *self._compiled.metrics)}
            results += [m.__dict__.get("_call_result") if m.__dict__.get("_call_result") is not None else m.result()
                        for m in self._layer_metrics() if id(m) not in known]
            found = self._graph_parts[key] = loss, results
            self.__dict__["total_loss"] = loss
        return found

    # -- over batches ------------------------------------------------------------------------------------------------
    def fit(self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: Any = 1,
            callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None, shuffle: Any = True,
            class_weight: Any = None, sample_weight: Any = None, initial_epoch: int = 0, steps_per_epoch: int | None = None,
            validation_steps: int | None = None, validation_freq: Any = 1, max_queue_size: int = 10, workers: int = 1,
            use_multiprocessing: bool = False, **kwargs: Any) -> Any:
        """Trains on data for a number of epochs; returns the history of losses and metrics.

        >>> history = model.fit(x, y, batch_size=32, epochs=5, validation_split=0.1)
        """
        with self._as_compiled():
            return epoch_loops.fit(
                self, x=x, y=y, batch_size=batch_size, epochs=epochs, verbose=verbose, callbacks=callbacks,
                validation_split=validation_split, validation_data=validation_data, shuffle=shuffle, class_weight=class_weight,
                sample_weight=sample_weight, initial_epoch=initial_epoch, steps_per_epoch=steps_per_epoch,
                validation_steps=validation_steps, validation_freq=validation_freq, max_queue_size=max_queue_size,
                workers=workers, use_multiprocessing=use_multiprocessing, **kwargs)

    def evaluate(self, x: Any = None, y: Any = None, batch_size: int | None = None, verbose: Any = 1, sample_weight: Any = None,
                 steps: int | None = None, callbacks: Any = None, max_queue_size: int = 10, workers: int = 1,
                 use_multiprocessing: bool = False, return_dict: bool = False, **kwargs: Any) -> Any:
        """The loss and the metrics on data."""
        return epoch_loops.evaluate(self, x=x, y=y, batch_size=batch_size, verbose=verbose, sample_weight=sample_weight,
                                    steps=steps, callbacks=callbacks, max_queue_size=max_queue_size, workers=workers,
                              use_multiprocessing=use_multiprocessing, return_dict=return_dict, **kwargs)

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto", steps: int | None = None,
                callbacks: Any = None, max_queue_size: int = 10, workers: int = 1, use_multiprocessing: bool = False) -> Any:
        """The outputs for data, as arrays."""
        return epoch_loops.predict(self, x=x, batch_size=batch_size, verbose=verbose, steps=steps, callbacks=callbacks,
                             max_queue_size=max_queue_size, workers=workers, use_multiprocessing=use_multiprocessing)

    def fit_generator(self, generator: Any, steps_per_epoch: int | None = None, epochs: int = 1, verbose: Any = 1,
                      callbacks: Any = None, validation_data: Any = None, validation_steps: int | None = None,
                      validation_freq: Any = 1, class_weight: Any = None, max_queue_size: int = 10, workers: int = 1,
                      use_multiprocessing: bool = False, shuffle: Any = True, initial_epoch: int = 0) -> Any:
        """`fit` on a generator."""
        _need_steps(generator, steps_per_epoch, "steps_per_epoch")
        _need_steps(validation_data, validation_steps, "validation_steps")
        return self.fit(generator, steps_per_epoch=steps_per_epoch, epochs=epochs, verbose=verbose, callbacks=callbacks,
                        validation_data=validation_data, validation_steps=validation_steps, validation_freq=validation_freq,
                        class_weight=class_weight, max_queue_size=max_queue_size, workers=workers,
                        use_multiprocessing=use_multiprocessing, shuffle=shuffle, initial_epoch=initial_epoch)

    def evaluate_generator(self, generator: Any, steps: int | None = None, callbacks: Any = None, max_queue_size: int = 10,
                           workers: int = 1, use_multiprocessing: bool = False, verbose: Any = 0) -> Any:
        """`evaluate` on a generator."""
        _need_steps(generator, steps, "steps")
        return self.evaluate(generator, steps=steps, callbacks=callbacks, max_queue_size=max_queue_size, workers=workers,
                             use_multiprocessing=use_multiprocessing, verbose=verbose)

    def predict_generator(self, generator: Any, steps: int | None = None, callbacks: Any = None, max_queue_size: int = 10,
                          workers: int = 1, use_multiprocessing: bool = False, verbose: Any = 0) -> Any:
        """`predict` on a generator."""
        _need_steps(generator, steps, "steps")
        return self.predict(generator, steps=steps, callbacks=callbacks, max_queue_size=max_queue_size, workers=workers,
                            use_multiprocessing=use_multiprocessing, verbose=verbose)

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None,
                       reset_metrics: bool = True, return_dict: bool = False) -> Any:
        """Takes one training step; returns the loss and the metrics."""
        with self._as_compiled():
            return self._on_batch("train", x, y, sample_weight, class_weight, reset_metrics, return_dict)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, reset_metrics: bool = True,
                      return_dict: bool = False) -> Any:
        """The loss and the metrics of one batch."""
        return self._on_batch("test", x, y, sample_weight, None, reset_metrics, return_dict)

    def _on_batch(self, mode: str, x: Any, y: Any, weights: Any, class_weight: Any, reset: bool, as_dict: bool) -> Any:
        self._assert_compile_was_called()
        if reset and self._compiled.built:
            self.reset_metrics()
        logs = epoch_loops.one_batch(self, mode, x, y, weights, class_weight)
        return logs if as_dict else epoch_loops.listed(self, logs)

    def predict_on_batch(self, x: Any) -> Any:
        """The outputs for one batch."""
        batch = epoch_loops.ready(make_batch(self, x, None, None, training=False))
        outputs = self._step("predict", *batch)(batch.flat)
        outputs = outputs if isinstance(outputs, list) and not context.executing_eagerly() else nest.flatten(outputs)
        found = [np.asarray(o.numpy() if hasattr(o, "_value") else o) for o in outputs]
        return epoch_loops.as_outputs(self, found)

    _object_identifier = property(lambda self: "_tf_keras_model")


class Functional(Model):
    """A model of symbolic inputs and outputs: what `Model(inputs, outputs)` returns."""

    def _automatic_name(self) -> str:
        return "Model" if type(self) is Functional else super()._automatic_name()


def _need_steps(data: Any, steps: int | None, name: str) -> None:
    """Generators of 1.x continue forever: only a number of steps ends them."""
    if steps is None and is_generator(data):
        raise ValueError(f"`{name}=None` is only valid for a generator based on the `keras.utils.Sequence` class. Please "
                         f"specify `{name}` or use the `keras.utils.Sequence` class.")


def _ranked(y: Any, y_pred: Any) -> Any:
    """Targets of one number per row as a column, where the predictions have rows."""
    ranks = [getattr(getattr(v, "shape", None), "rank", None) for v in (y, y_pred)]
    return tf.expand_dims(y, -1) if ranks == [1, 2] else y


def _hole(value: Any, name: str) -> Any:
    """A placeholder for values like this one, for any number of examples."""
    array = value.numpy() if hasattr(value, "_value") else value
    if hasattr(array, "_type_spec") or hasattr(array, "dense_shape") or hasattr(array, "tocoo"):
        return backend.placeholder(ndim=2, dtype=backend.floatx(), sparse=True, name=name)
    array = np.asarray(array)
    dtype = backend.floatx() if array.dtype.kind == "f" else "string" if array.dtype.kind in "OSU" else array.dtype.name
    return backend.placeholder(shape=(None, *array.shape[1:]), dtype=dtype, name=name)


def _target_dtype(value: Any, loss: Any) -> str:
    kind = np.asarray(value).dtype
    if kind.kind in "OSU":
        return "string"
    name = getattr(loss, "name", "") or ""
    return "int64" if kind.kind in "iu" and "sparse" in name else backend.floatx()
