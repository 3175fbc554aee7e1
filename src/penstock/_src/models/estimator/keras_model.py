"""model_to_estimator: a compiled Keras model as an Estimator.

The model function makes a copy of the model in the estimator's graph, on the tensors of the input function, with its losses,
metrics and optimizer. The weights go to `model_dir/keras/keras_model.ckpt` first; a session that finds no newer checkpoint
begins with them.
"""
from __future__ import annotations

import os
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.estimator import Estimator, _with_model_dir
from penstock._src.models.estimator.export_outputs import PredictOutput
from penstock._src.models.estimator.spec import EstimatorSpec, ModeKeys

_WEIGHTS = os.path.join("keras", "keras_model.ckpt")


@export(v1=["keras.estimator.model_to_estimator"])
def model_to_estimator(keras_model: Any = None, keras_model_path: Any = None, custom_objects: Any = None,
                       model_dir: Any = None, config: Any = None, checkpoint_format: str = "saver") -> Estimator:
    """An estimator that trains a compiled Keras model, from the weights that it has.

    Args:
        keras_model: Compiled model.
        keras_model_path: File of a saved model, instead of a model.
        custom_objects: Classes and functions of the saved model by name.
        model_dir: Folder of checkpoints and summaries; a temporary one by default.
        config: `RunConfig`.
        checkpoint_format: `"saver"` or `"checkpoint"`.

    Returns:
        An Estimator.

    Raises:
        ValueError: if there is no model, both are given, or it is not compiled.

    >>> import numpy as np
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    >>> model.compile("sgd", "mse")
    >>> estimator = tf.keras.estimator.model_to_estimator(model, model_dir="model")
    >>> def input_fn():
    ...     data = np.ones([4, 2], "float32"), np.zeros([4, 1], "float32")
    ...     return tf.data.Dataset.from_tensor_slices(data).repeat().batch(2)
    >>> estimator.train(input_fn, steps=2).evaluate(input_fn, steps=1)["global_step"]
    np.int64(2)
    """
    return _estimator_of(keras_model, keras_model_path, custom_objects, model_dir, config, checkpoint_format)


@export(v2=["keras.estimator.model_to_estimator"])
def model_to_estimator_v2(keras_model: Any = None, keras_model_path: Any = None, custom_objects: Any = None,
                          model_dir: Any = None, config: Any = None, checkpoint_format: str = "checkpoint") -> Estimator:
    """An estimator that trains a compiled Keras model, from the weights that it has.

    >>> estimator = tf.keras.estimator.model_to_estimator(model)
    >>> estimator.train(lambda: tf.data.Dataset.from_tensor_slices((x, y)).batch(32), steps=100)
    """
    return _estimator_of(keras_model, keras_model_path, custom_objects, model_dir, config, checkpoint_format)


def _estimator_of(model: Any, path: Any, custom_objects: Any, model_dir: Any, config: Any, checkpoint_format: str) -> Estimator:
    if checkpoint_format not in (None, "saver", "checkpoint"):
        raise ValueError(f'checkpoint_format must be "saver" or "checkpoint", not {checkpoint_format!r}.')
    if model is None and path is None:
        raise ValueError("Either `keras_model` or `keras_model_path` needs to be provided.")
    if model is not None and path is not None:
        raise ValueError("Please specify either `keras_model` or `keras_model_path`, but not both.")
    if path is not None:
        model = tf.keras.models.load_model(path, custom_objects)
    if not getattr(model, "_is_compiled", False) or not model.optimizer:
        raise ValueError("The given keras model has not been compiled yet. Please compile the model with `model.compile()` "
                         "before calling `model_to_estimator()`.")
    if not isinstance(model, tf.keras.Sequential) and not model._is_graph_network:
        raise ValueError(f"model_to_estimator copies functional and Sequential models; {model.name} is a subclass "
                         f"({type(model).__name__}) whose layers it cannot see. Write a model_fn that calls it instead.")
    config = _with_model_dir(config, model_dir)
    estimator = Estimator(_model_fn(model, custom_objects, str(config.model_dir)), config=config)
    if config.is_chief and model.built and not estimator.latest_checkpoint():
        _save_weights(model, custom_objects, str(config.model_dir))
    return estimator


def _model_fn(model: Any, custom_objects: Any, folder: str) -> Any:
    new_optimizer = _optimizer_maker(model.optimizer)

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        features, weights = _without_weights(features)
        with tf.keras.backend.learning_phase_scope(int(mode == ModeKeys.TRAIN)):
            copy = _copy(model, custom_objects, _inputs(model, features))
            outputs = list(tf.nest.flatten(copy.outputs))
            predictions = dict(zip(copy.output_names, outputs, strict=True))
            scaffold = _scaffold(copy, folder)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions, scaffold=scaffold, export_outputs={
                    tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: PredictOutput(predictions)})
            _compile(copy, model, new_optimizer())
            loss = _loss(copy, labels, weights)
            train_op = _train_op(copy, loss) if mode == ModeKeys.TRAIN else None
            if mode == ModeKeys.EVAL:                # Keras returns a replica's share of the sum; the mean is reported
                loss *= tf.distribute.get_strategy().num_replicas_in_sync
            measured = _measured(copy, model) if mode == ModeKeys.EVAL else None
        return EstimatorSpec(mode, predictions, loss, train_op, measured, scaffold=scaffold)
    return model_fn


# -- the copy ----------------------------------------------------------------------------------------------------------
def _without_weights(features: Any) -> tuple[Any, Any]:
    """Features, and the weights of examples that may come with them."""
    if isinstance(features, dict) and set(features) == {"features", "sample_weights"}:
        return features["features"], features["sample_weights"]
    return features, None


def _inputs(model: Any, features: Any) -> list:
    """The tensors of the input function, in the order of the model's inputs."""
    if isinstance(features, dict):
        names = model.input_names if model.inputs else list(features)
        unknown, missing = sorted(set(features) - set(names)), sorted(set(names) - set(features))
        if unknown or missing:
            raise KeyError(f"The features do not match the inputs of model {model.name}, {names}: missing are {missing}, "
                           f"unknown are {unknown}.")
        found = [features[name] for name in names]
    else:
        found = list(features) if isinstance(features, (list, tuple)) else [features]
    if not model.inputs:
        return found
    if len(found) != len(model.inputs):
        raise ValueError(f"Model {model.name} has {len(model.inputs)} inputs, but got {len(found)} features.")
    return [_fitted(tf.convert_to_tensor(t), like) for t, like in zip(found, model.inputs, strict=True)]


def _fitted(value: Any, like: Any) -> Any:
    if value.shape.rank == 1 and like.shape.rank == 2:
        value = tf.expand_dims(value, -1)
    return value if value.dtype == like.dtype else tf.cast(value, like.dtype)


def _copy(model: Any, custom_objects: Any, inputs: list | None) -> Any:
    with tf.keras.utils.custom_object_scope(custom_objects or {}):
        return tf.keras.models.clone_model(model, inputs)


def _optimizer_maker(optimizer: Any) -> Any:
    """A function that makes an optimizer like this one for a graph; it counts the steps in the global step."""
    if not hasattr(optimizer, "_hyper"):
        return lambda: getattr(optimizer, "optimizer", optimizer)
    kind, config = type(optimizer), optimizer.get_config()

    def make() -> Any:
        made = kind.from_config(dict(config))
        made.iterations = tf.train.get_global_step()
        return made
    return make


def _compile(copy: Any, model: Any, optimizer: Any) -> None:
    """Compiles a copy as the model was."""
    copy.compile(optimizer, model.loss, _fresh(model._compile_metrics), model.loss_weights,
                 weighted_metrics=_fresh(model._compile_weighted_metrics))


def _fresh(given: Any) -> Any:
    """The metrics of compile; metric objects are recreated with new variables."""
    return tf.nest.map_structure(lambda m: type(m).from_config(m.get_config()) if isinstance(m, tf.keras.metrics.Metric) else m,
                                 given)


def _loss(copy: Any, labels: Any, weights: Any) -> Any:
    """The loss of the batch; the metrics have their updates after this."""
    ys, outputs, listed = copy._aligned(labels, copy.outputs, weights)
    added = [*copy.get_losses_for(None), *copy.get_losses_for(copy.inputs)]
    loss = copy._compiled.loss(ys, outputs, listed, list({id(x): x for x in added}.values()), follow=False)
    copy._compiled.update(ys, outputs, listed)
    return loss


def _train_op(copy: Any, loss: Any) -> Any:
    weights = copy._unique_trainable_weights
    updates = copy.optimizer.get_updates(loss=loss, params=weights) if weights else \
        [tf.assign_add(tf.train.get_global_step(), 1)]
    return tf.group(*updates, *copy.get_updates_for(None), *copy.get_updates_for(copy.inputs))


def _measured(copy: Any, model: Any) -> dict[str, Any]:
    """The metrics of a copy, under the names that they have in the model."""
    made, known = copy._compiled.metrics, model._compiled.metrics
    names = [m.name for m in (known if len(known) == len(made) else made)]
    return {name: _metric(copy, m) for name, m in zip(names, made, strict=True)}


def _metric(copy: Any, metric: Any) -> tuple[Any, Any]:
    """The value of a metric, and the op that updates it. Its variables start again with each session."""
    known = {id(v) for v in (*tf.global_variables(), *tf.local_variables())}
    for variable in metric.variables:
        if id(variable) not in known:
            tf.add_to_collection(tf.GraphKeys.LOCAL_VARIABLES, variable)
    return metric.result(), copy._compiled.graph_result(metric)


# -- the first weights -------------------------------------------------------------------------------------------------
def _scaffold(copy: Any, folder: str) -> Any:
    """The initialization of a session without a checkpoint: the model's weights."""
    path = os.path.join(folder, _WEIGHTS)
    if not copy.weights or not tf.train.checkpoint_exists(path):
        return tf.train.Scaffold()
    saver = tf.train.Saver(copy.weights)
    return tf.train.Scaffold(init_fn=lambda scaffold, session: saver.restore(session, path))


def _save_weights(model: Any, custom_objects: Any, folder: str) -> None:
    """Writes the weights of a model under the names that they have in an estimator's graph."""
    values = model.get_weights()
    if not values:
        return
    tf.gfile.MakeDirs(os.path.join(folder, os.path.dirname(_WEIGHTS)))
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.create_global_step()
        inputs = [tf.placeholder(t.dtype, t.shape) for t in model.inputs]
        copy = _copy(model, custom_objects, inputs)
        session.run(step.initializer)
        for variable, value in zip(copy.weights, values, strict=True):
            variable.load(value, session)
        tf.train.Saver([*copy.weights, step]).save(session, os.path.join(folder, _WEIGHTS), write_meta_graph=False)
