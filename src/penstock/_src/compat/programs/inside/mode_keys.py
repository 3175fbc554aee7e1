"""`saved_model.model_utils.mode_keys`: Keras' names for the modes of a model."""
from __future__ import annotations


class KerasModeKeys:
    """Training, evaluation and prediction, as Keras names them."""

    TRAIN, TEST, PREDICT = "train", "test", "predict"


class EstimatorModeKeys:
    """The same, as estimators name them."""

    TRAIN, EVAL, PREDICT = "train", "eval", "infer"
