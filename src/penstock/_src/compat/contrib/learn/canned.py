"""The ready-made models of contrib.learn: linear, deep and combined, for classes and for numbers."""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.compat.contrib.estimator import clip_gradients_by_norm
from penstock._src.compat.contrib.learn.estimators import BaseEstimator, each
from penstock.compat import v1 as tf

_KEY = "features"      # of an input that is one tensor; its column has the name ""


@export(v1=["contrib.learn.infer_real_valued_columns_from_input_fn"])
def infer_real_valued_columns_from_input_fn(input_fn: Any) -> list:
    """A column of numbers for each feature that an input function returns."""
    with tf.Graph().as_default():
        features = input_fn()
    features = features[0] if isinstance(features, tuple) else features
    named = features if isinstance(features, dict) else {_KEY: features}
    for name, value in named.items():
        if not (value.dtype.is_floating or value.dtype.is_integer):
            raise ValueError(f"on feature {name!r}: a column of numbers cannot hold {value.dtype.name}")
    return [tf.feature_column.numeric_column(n, int(np.prod(v.shape.as_list()[1:]))) for n, v in sorted(named.items())]


@export(v1=["contrib.learn.infer_real_valued_columns_from_input"])
def infer_real_valued_columns_from_input(x: Any) -> list:
    """A column of numbers for an array, or for each of a dictionary of arrays.

    >>> tf.contrib.learn.infer_real_valued_columns_from_input(np.zeros([10, 4]))
    """
    arrays = {k: np.asarray(v) for k, v in x.items()} if isinstance(x, dict) else np.asarray(x)
    return infer_real_valued_columns_from_input_fn(
        lambda: {k: tf.constant(v[:1]) for k, v in arrays.items()} if isinstance(arrays, dict) else tf.constant(arrays[:1]))


def _columns(columns: Any) -> list | None:
    """The columns; one with the name "", which represented an input without names, by the name it has here."""
    if columns is None:
        return None
    return [c._replace(key=_KEY) if getattr(c, "key", None) == "" else c for c in columns]


class _Ready(BaseEstimator):
    """A ready-made model: its features are a dictionary."""

    def _input(self, input_fn: Any) -> Any:
        def named() -> Any:
            made = input_fn()
            features, rest = (made[0], made[1:]) if isinstance(made, tuple) else (made, ())
            features = features if isinstance(features, dict) else {_KEY: features}
            features = {_KEY if name == "" else name: value for name, value in features.items()}
            return (features, *rest) if rest else features
        return named


class _Classifier(_Ready):
    """Predictions of classes."""

    def predict(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,
                as_iterable: bool = True, iterate_batches: bool = False) -> Any:
        """The class of each row; with `outputs`, a table of what is requested."""
        if outputs:
            return super().predict(x, input_fn, batch_size, outputs, as_iterable, iterate_batches)
        return self.predict_classes(x, input_fn, batch_size, as_iterable)

    def predict_classes(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None,
                        as_iterable: bool = True) -> Any:
        """The class of each row."""
        return self._each("class_ids", x, input_fn, batch_size, as_iterable, True)

    def predict_proba(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None,
                      as_iterable: bool = True) -> Any:
        """The probability of each class, for each row."""
        return self._each("probabilities", x, input_fn, batch_size, as_iterable, False)

    def _each(self, key: str, x: Any, input_fn: Any, batch_size: int | None, as_iterable: bool, flat: bool) -> Any:
        found: Iterator[Any] = each(BaseEstimator.predict(self, x, input_fn, batch_size, [key]), key, flat)
        return found if as_iterable else np.asarray(list(found))


class _Regressor(_Ready):
    """Predictions of numbers."""

    def predict(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None, outputs: Any = None,
                as_iterable: bool = True, iterate_batches: bool = False) -> Any:
        """The number of each row; with `outputs`, a table of what is requested."""
        if outputs:
            return super().predict(x, input_fn, batch_size, outputs, as_iterable, iterate_batches)
        return self.predict_scores(x, input_fn, batch_size, as_iterable)

    def predict_scores(self, x: Any = None, input_fn: Any = None, batch_size: int | None = None,
                       as_iterable: bool = True) -> Any:
        """The number of each row."""
        found = each(BaseEstimator.predict(self, x, input_fn, batch_size, ["predictions"]), "predictions", True)
        return found if as_iterable else np.asarray(list(found))


def _optimizer(given: Any, default: str, clip: float | None, most: float, columns: Any = ()) -> Any:
    """The optimizer, or its name; if gradients are clipped, a function that makes it (in the graph of the model)."""
    given = given or default
    if clip is None:
        return given

    def make() -> Any:
        if isinstance(given, str):
            kind = "GradientDescent" if given == "SGD" else given
            rate = min(most, 1 / math.sqrt(len(columns or ()) or 1))
            return clip_gradients_by_norm(getattr(tf.train, f"{kind}Optimizer")(rate), clip)
        return clip_gradients_by_norm(given() if callable(given) else given, clip)
    return make


def _ready(name: str, kind: type, sizes: str, deep: bool, wide: bool) -> None:
    """Makes and exports a model: `sizes` is the argument that says how many outputs it has."""
    default = 2 if sizes == "n_classes" else 1

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.update(zip(order, args, strict=False))
        unknown = set(kwargs) - set(order)
        if unknown:
            raise TypeError(f"{name} has no arguments {sorted(unknown)}. It has: {order}")
        take = kwargs.get
        clip = take("gradient_clip_norm")
        given = {"model_dir": take("model_dir"), "config": take("config"), "weight_column": take("weight_column_name"),
                 sizes: take(sizes, default)}
        if deep and wide:
            given |= {"linear_feature_columns": _columns(take("linear_feature_columns")),
                      "dnn_hidden_units": take("dnn_hidden_units"),
                      "dnn_feature_columns": _columns(take("dnn_feature_columns")),
                      "dnn_dropout": take("dnn_dropout"), "dnn_activation_fn": take("dnn_activation_fn") or tf.nn.relu,
                      "linear_optimizer": _optimizer(take("linear_optimizer"), "Ftrl", clip, 0.005,
                                                     take("linear_feature_columns")),
                      "dnn_optimizer": _optimizer(take("dnn_optimizer"), "Adagrad", clip, 0.05)}
        else:
            given |= {"feature_columns": _columns(take("feature_columns")),
                      "optimizer": _optimizer(take("optimizer"), "Adagrad", clip, 0.05) if deep else
                      _optimizer(take("optimizer"), "Ftrl", clip, 0.2, take("feature_columns"))}
            if deep:
                given |= {"hidden_units": take("hidden_units"), "dropout": take("dropout"),
                          "activation_fn": take("activation_fn") or tf.nn.relu}
        BaseEstimator.__init__(self, getattr(tf.estimator, name)(**given))

    first, last = ([sizes], []) if sizes == "n_classes" else ([], [sizes])      # the places they had
    if deep and wide:
        order = ["model_dir", *first, "weight_column_name", "linear_feature_columns", "linear_optimizer"]
        order += ["dnn_feature_columns", "dnn_optimizer", "dnn_hidden_units", "dnn_activation_fn", "dnn_dropout"]
    else:
        order = ["hidden_units"] * deep + ["feature_columns", "model_dir", *first, "weight_column_name", "optimizer"]
        order += ["activation_fn", "dropout"] * deep
    order += ["gradient_clip_norm", *last, "config"]
    made = type(name, (kind,), {"__init__": __init__, "__module__": __name__, "__doc__":
                                f"tf.estimator.{name} with fit, evaluate and predict. Arguments: {', '.join(order)}."})
    export.value(made, v1=[f"contrib.learn.{name}"])


for _kind, _suffix, _sizes in ((_Classifier, "Classifier", "n_classes"), (_Regressor, "Regressor", "label_dimension")):
    _ready(f"Linear{_suffix}", _kind, _sizes, False, True)
    _ready(f"DNN{_suffix}", _kind, _sizes, True, False)
    _ready(f"DNNLinearCombined{_suffix}", _kind, _sizes, True, True)
