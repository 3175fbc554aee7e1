"""Exported models of series in a session: filter and predict with arrays."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.compat.contrib.timeseries.input import canonical, following_times
from penstock._src.compat.contrib.timeseries.keys import SavedModelLabels, State, TrainEvalFeatures, state_key

_TIMES = TrainEvalFeatures.TIMES


def _export(function: Callable) -> Callable:
    return export(v1=[f"contrib.timeseries.saved_model_utils.{function.__name__}"])(function)


def _run(label: str, signatures: Any, session: Any, features: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    signature = signatures.signature_def[label]
    feeds = {signature.inputs[key].name: value for key, value in {**features, **state}.items()}
    found = session.run({key: info.name for key, info in signature.outputs.items()}, feeds)
    return {**found, _TIMES: features[_TIMES]}


def _state_of(found: dict[str, Any]) -> dict[str, Any]:
    """The parts of the state in what evaluation or filtering gave."""
    if State.STATE_TUPLE in found:
        return {state_key(i): np.asarray(part) for i, part in enumerate(found[State.STATE_TUPLE])}
    return {key: value for key, value in found.items() if key.startswith(State.STATE_PREFIX)}


@_export
def predict_continuation(continue_from: dict[str, Any], signatures: Any, session: Any, steps: int | None = None,
                         times: Any = None, exogenous_features: dict[str, Any] | None = None) -> dict[str, Any]:
    """Predicts from where an evaluation or a filter ended.

    >>> signatures = tf.saved_model.loader.load(session, ["serve"], folder)
    >>> tf.contrib.timeseries.saved_model_utils.predict_continuation(evaluation, signatures, session, steps=10)
    """
    features = {_TIMES: following_times(steps, times, continue_from), **(exogenous_features or {})}
    return _run(SavedModelLabels.PREDICT, signatures, session, features, _state_of(continue_from))


@_export
def cold_start_filter(signatures: Any, session: Any, features: dict[str, Any]) -> dict[str, Any]:
    """Filters observations from the start."""
    return _run(SavedModelLabels.COLD_START_FILTER, signatures, session, canonical(features, single=False), {})


@_export
def filter_continuation(continue_from: dict[str, Any], signatures: Any, session: Any,
                        features: dict[str, Any]) -> dict[str, Any]:
    """Filters further observations."""
    return _run(SavedModelLabels.FILTER, signatures, session, canonical(features, single=False), _state_of(continue_from))
