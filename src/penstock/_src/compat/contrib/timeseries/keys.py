"""The names of features and results."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export


def public(cls: Any) -> Any:
    """Exports a class or function under `contrib.timeseries`."""
    return export(v1=[f"contrib.timeseries.{cls.__name__}"])(cls)


class State:
    """A model's state: as one tuple, or in parts, for signatures."""
    STATE_TUPLE = "start_tuple"
    STATE_PREFIX = "model_state"


class Times:
    """When."""
    TIMES = "times"


class Values:
    """What."""
    VALUES = "values"


@public
class TrainEvalFeatures(Times, Values):
    """What training and evaluation read."""


@public
class PredictionFeatures(Times, State):
    """What prediction reads."""


@public
class FilteringFeatures(Times, Values, State):
    """What filtering reads."""


@public
class PredictionResults(Times):
    """What prediction returns, beside `mean` and `covariance`."""


@public
class FilteringResults(Times, State):
    """What filtering returns."""


@public
class SavedModelLabels:
    """The signatures of an exported model."""
    PREDICT = "serving_default"
    FILTER = "filter"
    COLD_START_FILTER = "cold_start_filter"


def state_key(i: int) -> str:
    """The name of a part of a state."""
    return f"{State.STATE_PREFIX}_{i:02d}"
