"""Estimators of sequences: sequence columns, recurrent layers, and a head on the last step or on every step."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.canned import _check_features, _class_head, _optimizer
from penstock._src.models.estimator.estimator import Estimator
from penstock._src.models.estimator.sequential_head import SequentialHeadWrapper
from penstock._src.models.estimator.spec import ModeKeys
from penstock._src.models.feature_column.serialization import deserialize_feature_columns, serialize_feature_columns

USE_DEFAULT = object()
_LAYERS = {"simple_rnn": "SimpleRNN", "lstm": "LSTM", "gru": "GRU"}
_LEARNING_RATE, _CLIP_NORM = 0.05, 5.0              # of an optimizer that is given by name


def _cell(units: int, cell_type: Any) -> Any:
    made = getattr(tf.keras.layers, f"{_LAYERS[cell_type]}Cell") if cell_type in _LAYERS else cell_type
    if not callable(made):
        raise ValueError(f"`cell_type` should be a class producing a RNN cell, or a string specifying the cell type. "
                         f"Supported strings are: {list(_LAYERS)}.")
    cell = made(units=units)
    if not hasattr(cell, "call") or not hasattr(cell, "state_size"):
        raise ValueError("RNN cell should have a `call` and `state_size` method.")
    return cell


def _check_cells(rnn_cell_fn: Any, units: Any, cell_type: Any) -> None:
    if rnn_cell_fn and (units or cell_type is not USE_DEFAULT):
        raise ValueError("units and cell_type must not be specified when using rnn_cell_fn")


def _make_rnn_layer(rnn_cell_fn: Callable[[], Any] | None, units: Any, cell_type: Any, return_sequences: bool) -> Any:
    """The recurrent layer: a fused one for one size and a type by name, else one around cells."""
    _check_cells(rnn_cell_fn, units, cell_type)
    if isinstance(units, int) and cell_type in _LAYERS:
        return getattr(tf.keras.layers, _LAYERS[cell_type])(units=units, return_sequences=return_sequences)
    if rnn_cell_fn:
        cell = rnn_cell_fn()
    else:
        kind = "simple_rnn" if cell_type is USE_DEFAULT else cell_type
        cells = [_cell(n, kind) for n in units]
        cell = cells[0] if len(cells) == 1 else cells
    return tf.keras.layers.RNN(cell=cell, return_sequences=return_sequences)


class RNNModel(tf.keras.Model):
    """A Keras model from features to the logits of the last step, or of every step.

    Args:
        rnn_layer: Recurrent layer.
        units: Number of logits.
        sequence_feature_columns: Columns of sequences.
        context_feature_columns: Dense columns of a row, which every step receives.
        activation: Activation of the logits.
        return_sequences: Whether every step has logits; must be that of `rnn_layer`.
    """

    def __init__(self, rnn_layer: Any, units: int, sequence_feature_columns: Any, context_feature_columns: Any = None,
                 activation: Any = None, return_sequences: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(units, int):
            raise ValueError(f"units must be an int.  Given type: {type(units)}")
        self._return_sequences = return_sequences
        self._sequence_features_layer = tf.keras.experimental.SequenceFeatures(sequence_feature_columns)
        self._dense_features_layer = None
        if context_feature_columns:
            self._dense_features_layer = tf.keras.layers.DenseFeatures(context_feature_columns)
        self._rnn_layer = rnn_layer
        self._logits_layer = tf.keras.layers.Dense(units=units, activation=activation, name="logits")

    def call(self, inputs: dict[str, Any], training: Any = None) -> Any:
        """Logits [rows, units], or [rows, steps, units]."""
        _check_features(inputs)
        with tf.name_scope("sequence_input_layer"):
            sequence, lengths = self._sequence_features_layer(inputs)
            tf.summary.histogram("sequence_length", lengths)
            if self._dense_features_layer is not None:
                sequence = _with_context(sequence, self._dense_features_layer(inputs))
        mask = tf.sequence_mask(lengths)
        logits = self._logits_layer(self._rnn_layer(sequence, mask=mask, training=training))
        if self._return_sequences:
            logits._keras_mask = mask
        return logits

    def get_config(self) -> dict[str, Any]:
        """The layers and columns, as plain data."""
        context = self._dense_features_layer
        return {"name": self.name, "units": self._logits_layer.units, "return_sequences": self._return_sequences,
                "rnn_layer": tf.keras.layers.serialize(self._rnn_layer),
                "activation": tf.keras.activations.serialize(self._logits_layer.activation),
                "sequence_feature_columns": serialize_feature_columns(self._sequence_features_layer._feature_columns),
                "context_feature_columns": None if context is None else serialize_feature_columns(context._feature_columns)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """A model from its configuration."""
        made = {k: deserialize_feature_columns(config[k], custom_objects) for k in config
                if k.endswith("_feature_columns") and config[k]}
        layer = tf.keras.layers.deserialize(config["rnn_layer"], custom_objects=custom_objects)
        return cls(**{**config, **made, "rnn_layer": layer})


def _with_context(sequence: Any, context: Any) -> Any:
    """Steps with the numbers of their row behind their own."""
    steps = tf.shape(sequence)[1]
    return tf.concat([sequence, tf.tile(tf.expand_dims(context, 1), [1, steps, 1])], 2)


def _train_optimizer(given: Any) -> Any:
    """The optimizer; one given by name clips each gradient by its norm."""
    if isinstance(given, str):
        return getattr(tf.keras.optimizers, given)(learning_rate=_LEARNING_RATE, clipnorm=_CLIP_NORM)
    return _optimizer(given, _LEARNING_RATE)


@export(v2=["estimator.experimental.RNNEstimator"])
class RNNEstimator(Estimator):
    """An estimator of sequences with a custom head.

    Args:
        head: Head of the last step; a sequential head with `return_sequences`.
        sequence_feature_columns: Columns of sequences.
        context_feature_columns: Dense columns of a row, which every step receives.
        units: Sizes of the recurrent layers.
        cell_type: "simple_rnn", "lstm", "gru", or a class of cells.
        rnn_cell_fn: Function that returns a cell, instead of `units` and `cell_type`.
        return_sequences: Whether every step has logits.
        model_dir: Directory for checkpoints and events.
        optimizer: Optimizer, its name, or a function that returns one.
        config: `RunConfig`.

    >>> column = tf.feature_column.sequence_numeric_column("x")
    >>> tf.estimator.experimental.RNNEstimator(tf.estimator.RegressionHead(), [column], units=[4], cell_type="gru")
    """

    def __init__(self, head: Any, sequence_feature_columns: Any, context_feature_columns: Any = None, units: Any = None,
                 cell_type: Any = USE_DEFAULT, rnn_cell_fn: Any = None, return_sequences: bool = False, model_dir: Any = None,
                 optimizer: Any = "Adagrad", config: Any = None):
        if return_sequences and not isinstance(head, SequentialHeadWrapper):
            raise ValueError("Provided head must be a `_SequentialHead` object when `return_sequences` is set to True.")
        _check_cells(rnn_cell_fn, units, cell_type)

        def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            layer = _make_rnn_layer(rnn_cell_fn, units, cell_type, return_sequences)
            model = RNNModel(layer, head.logits_dimension, sequence_feature_columns, context_feature_columns,
                             return_sequences=return_sequences, name="rnn_model")
            logits = model(features, training=mode == ModeKeys.TRAIN)
            if return_sequences and head.input_sequence_mask_key not in features:
                features[head.input_sequence_mask_key] = logits._keras_mask
            return head.create_estimator_spec(
                features, mode, logits, labels, _train_optimizer(optimizer) if mode == ModeKeys.TRAIN else None,
                trainable_variables=model.trainable_variables, update_ops=model.updates)
        super().__init__(model_fn, model_dir, config)


@export(v2=["estimator.experimental.RNNClassifier"])
class RNNClassifier(RNNEstimator):
    """A classifier of sequences, or of each of their steps.

    >>> words = tf.feature_column.sequence_categorical_column_with_hash_bucket("words", 100)
    >>> embedded = tf.feature_column.embedding_column(words, 8)
    >>> tf.estimator.experimental.RNNClassifier([embedded], units=[16], cell_type="lstm", n_classes=3)
    """

    def __init__(self, sequence_feature_columns: Any, context_feature_columns: Any = None, units: Any = None,
                 cell_type: Any = USE_DEFAULT, rnn_cell_fn: Any = None, return_sequences: bool = False, model_dir: Any = None,
                 n_classes: int = 2, weight_column: Any = None, label_vocabulary: Any = None, optimizer: Any = "Adagrad",
                 loss_reduction: str = "sum_over_batch_size", sequence_mask: str = "sequence_mask", config: Any = None):
        head: Any = _class_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        if return_sequences:
            head = SequentialHeadWrapper(head, sequence_mask, weight_column)
        super().__init__(head, sequence_feature_columns, context_feature_columns, units, cell_type, rnn_cell_fn,
                         return_sequences, model_dir, optimizer, config)
