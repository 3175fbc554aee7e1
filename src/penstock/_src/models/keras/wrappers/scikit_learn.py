"""Keras models with scikit-learn's interface: `fit`, `predict`, `score`, and parameters that searches may change."""
from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras.losses import is_categorical_crossentropy
from penstock._src.models.keras.models import Sequential
from penstock._src.models.keras.utils.generic_utils import has_arg
from penstock._src.models.keras.utils.np_utils import to_categorical


class BaseWrapper:
    """A function that builds a compiled model, and arguments for it and for the model's methods."""

    __call__: Callable                            # where no function is given, subclasses have this method

    def __init__(self, build_fn: Callable | None = None, **sk_params: Any):
        self.build_fn: Any = build_fn
        self.sk_params = sk_params
        self.check_params(sk_params)

    def _builder(self) -> Any:
        if self.build_fn is None:
            return self.__call__
        plain = inspect.isfunction(self.build_fn) or inspect.ismethod(self.build_fn)
        return self.build_fn if plain else self.build_fn.__call__

    def check_params(self, params: dict[str, Any]) -> None:
        """Raises ValueError for arguments that neither the builder nor a method of the model has."""
        methods = [Sequential.fit, Sequential.predict, Sequential.evaluate, self._builder()]
        for name in params:
            if name != "nb_epoch" and not any(has_arg(m, name) for m in methods):
                raise ValueError(f"{name} is not a legal parameter")

    def get_params(self, **params: Any) -> dict[str, Any]:
        """The parameters, as scikit-learn requests them."""
        return {**copy.deepcopy(self.sk_params), "build_fn": self.build_fn}

    def set_params(self, **params: Any) -> Any:
        """Changes parameters."""
        self.check_params(params)
        self.sk_params.update(params)
        return self

    def filter_sk_params(self, fn: Callable, override: dict[str, Any] | None = None) -> dict[str, Any]:
        """Those of the parameters that a function takes."""
        return {**{k: v for k, v in self.sk_params.items() if has_arg(fn, k)}, **(override or {})}

    def fit(self, x: Any, y: Any, **kwargs: Any) -> Any:
        """Builds a model and trains it; returns the History."""
        self.model = self._builder()(**self.filter_sk_params(self._builder()))
        loss = self.model.loss[0] if isinstance(self.model.loss, list) else self.model.loss
        if is_categorical_crossentropy(loss) and len(np.shape(y)) != 2:
            y = to_categorical(y)
        return self.model.fit(x, y, **{**self.filter_sk_params(Sequential.fit), **kwargs})


@export("keras.wrappers.scikit_learn.KerasClassifier")
class KerasClassifier(BaseWrapper):
    """A classifier for scikit-learn.

    >>> clf = tf.keras.wrappers.scikit_learn.KerasClassifier(build, epochs=5, verbose=0)
    >>> clf.fit(x, y)
    """

    def fit(self, x: Any, y: Any, **kwargs: Any) -> Any:
        """Trains a new model; labels may be anything that can be sorted."""
        y = np.array(y)
        if y.ndim == 2 and y.shape[1] > 1:
            self.classes_ = np.arange(y.shape[1])
        elif y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1):
            self.classes_ = np.unique(y)
            y = np.searchsorted(self.classes_, y)
        else:
            raise ValueError(f"Invalid shape for y: {y.shape}")
        self.n_classes_ = len(self.classes_)
        return super().fit(x, y, **kwargs)

    def _scores(self, x: Any, kwargs: dict[str, Any]) -> np.ndarray:
        return self.model.predict(x, **self.filter_sk_params(Sequential.predict, kwargs))

    def predict(self, x: Any, **kwargs: Any) -> np.ndarray:
        """The classes of samples."""
        found = self._scores(x, kwargs)
        return self.classes_[found.argmax(axis=-1) if found.shape[-1] > 1 else (found > 0.5).astype("int32")]

    def predict_proba(self, x: Any, **kwargs: Any) -> np.ndarray:
        """The probabilities of all classes."""
        found = self._scores(x, kwargs)
        return np.hstack([1 - found, found]) if found.shape[1] == 1 else found

    def score(self, x: Any, y: Any, **kwargs: Any) -> float:
        """The accuracy; ValueError if the model was compiled without it."""
        y = np.searchsorted(self.classes_, y)
        loss = self.model.loss[0] if isinstance(self.model.loss, list) else self.model.loss
        if is_categorical_crossentropy(loss) and len(y.shape) != 2:
            y = to_categorical(y)
        found = self.model.evaluate(x, y, **self.filter_sk_params(Sequential.evaluate, kwargs))
        for name, value in zip(self.model.metrics_names, found if isinstance(found, list) else [found], strict=False):
            if name in ("accuracy", "acc"):
                return value
        raise ValueError("The model is not configured to compute accuracy. You should pass `metrics=[\"accuracy\"]` to the "
                         "`model.compile()` method.")


@export("keras.wrappers.scikit_learn.KerasRegressor")
class KerasRegressor(BaseWrapper):
    """A regressor for scikit-learn."""

    def predict(self, x: Any, **kwargs: Any) -> np.ndarray:
        """The predictions of samples."""
        return np.squeeze(self.model.predict(x, **self.filter_sk_params(Sequential.predict, kwargs)))

    def score(self, x: Any, y: Any, **kwargs: Any) -> float:
        """Minus the loss."""
        found = self.model.evaluate(x, y, **self.filter_sk_params(Sequential.evaluate, kwargs))
        return -(found[0] if isinstance(found, list) else found)
