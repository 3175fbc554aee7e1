"""tf.keras.initializers: those of `state/variables/initializers.py`, under Keras' names and with Keras' defaults."""
from __future__ import annotations

import inspect
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import TABLES, export
from penstock._src.graph import context
from penstock._src.models.keras.backend.config import floatx
from penstock._src.models.keras.utils.generic_utils import deserialize_keras_object
from penstock._src.models.keras.utils.object_config import serialized
from penstock._src.state.variables import initializers as own


@export(v1=["keras.initializers.TruncatedNormal", "keras.initializers.truncated_normal"])
class TruncatedNormalV1(own.TruncatedNormal):
    """Normally distributed values, without those beyond two standard deviations."""

    def __init__(self, mean: Any = 0.0, stddev: Any = 0.05, seed: int | None = None, dtype: Any = dtypes.float32):
        super().__init__(mean, stddev, seed, dtype)


@export(v1=["keras.initializers.RandomUniform", "keras.initializers.uniform", "keras.initializers.random_uniform"])
class RandomUniformV1(own.RandomUniform):
    """Uniform values in [minval, maxval)."""

    def __init__(self, minval: Any = -0.05, maxval: Any = 0.05, seed: int | None = None, dtype: Any = dtypes.float32):
        super().__init__(minval, maxval, seed, dtype)


@export(v1=["keras.initializers.RandomNormal", "keras.initializers.normal", "keras.initializers.random_normal"])
class RandomNormalV1(own.RandomNormal):
    """Normally distributed values."""

    def __init__(self, mean: Any = 0.0, stddev: Any = 0.05, seed: int | None = None, dtype: Any = dtypes.float32):
        super().__init__(mean, stddev, seed, dtype)


class ConstantV2(own.ConstantV2):
    """A given value, which may be a tensor: one for all elements, or an array of the variable's size.

    Args:
        value: A number, or an array with as many elements as the variable.

    >>> tf.keras.initializers.Constant(3.0)([2]).numpy().tolist()
    [3.0, 3.0]
    """

    def __init__(self, value: Any = 0):             # without the check of tf.constant_initializer
        self.value = value

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:                # type: ignore[override]
        return super().__call__(shape, floatx() if dtype is None else dtype, **kwargs)


ConstantV2.__name__ = "Constant"
for _cls in (TruncatedNormalV1, RandomUniformV1, RandomNormalV1):
    _cls.__name__ = _cls.__name__.removesuffix("V1")            # as configurations call it

# Public names in Keras of what both APIs have elsewhere, per API.
_SAME = {"zeros": "Zeros", "ones": "Ones", "constant": "Constant", "orthogonal": "Orthogonal", "identity": "Identity"}
_V1 = {"Zeros": own.Zeros, "Ones": own.Ones, "Constant": own.Constant, "Orthogonal": own.Orthogonal, "Identity": own.Identity,
       "Initializer": own.Initializer, "VarianceScaling": own.VarianceScaling, "glorot_normal": own.GlorotNormal,
       "glorot_uniform": own.GlorotUniform}
_V1 |= {name: TABLES["v1"][f"initializers.{name}"] for name in ("he_normal", "he_uniform", "lecun_normal", "lecun_uniform")}
_V2 = {name: TABLES["v2"][f"initializers.{name}"] for name in (
    "Zeros", "Ones", "Orthogonal", "Identity", "VarianceScaling", "RandomNormal", "RandomUniform",
    "TruncatedNormal", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "LecunNormal", "LecunUniform", "glorot_normal",
    "glorot_uniform", "he_normal", "he_uniform", "lecun_normal", "lecun_uniform")}
_V2 |= {"Initializer": own.InitializerV2, "Constant": ConstantV2}
_V2 |= {"random_normal": _V2["RandomNormal"], "random_uniform": _V2["RandomUniform"],
        "truncated_normal": _V2["TruncatedNormal"], "variance_scaling": _V2["VarianceScaling"]}

for _table, _api in ((_V1, "v1"), (_V2, "v2")):
    _table.update({small: _table[large] for small, large in _SAME.items()})
    for _name, _object in _table.items():
        _names = [f"{_prefix}initializers.{_name}" for _prefix in (("keras.", "") if _api == "v2" else ("keras.",))]
        export.value(_object, **{_api: [n for n in _names if n not in TABLES[_api]]})

_V1 |= {"TruncatedNormal": TruncatedNormalV1, "truncated_normal": TruncatedNormalV1, "RandomUniform": RandomUniformV1,
        "uniform": RandomUniformV1, "random_uniform": RandomUniformV1, "RandomNormal": RandomNormalV1, "normal": RandomNormalV1,
        "random_normal": RandomNormalV1, "GlorotNormal": own.GlorotNormal, "GlorotUniform": own.GlorotUniform,
        "HeNormal": _V1["he_normal"], "HeUniform": _V1["he_uniform"], "LecunNormal": _V1["lecun_normal"],
        "LecunUniform": _V1["lecun_uniform"], "zero": own.Zeros, "one": own.Ones}
_V2 |= {"uniform": _V2["RandomUniform"], "normal": _V2["RandomNormal"], "zero": _V2["Zeros"], "one": _V2["Ones"]}


@export("keras.initializers.serialize", v2=["initializers.serialize"])
def serialize(initializer: Any, use_legacy_format: bool = False) -> Any:
    """The configuration of an initializer."""
    return serialized(initializer, use_legacy_format)


@export("keras.initializers.deserialize", v2=["initializers.deserialize"])
def deserialize(config: Any, custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
    """The initializer of a name or configuration."""
    names = _V2 if context.process.resource_variables else _V1
    if isinstance(config, dict) and isinstance(config.get("config"), dict) and names is _V2:
        config = {**config, "config": {k: v for k, v in config["config"].items() if k != "dtype"}}
    return deserialize_keras_object(config, names, custom_objects, "initializer")


@export("keras.initializers.get", v2=["initializers.get"])
def get(identifier: Any) -> Any:
    """An initializer: itself, or by its name or configuration.

    Args:
        identifier: An initializer, a class, a name, a configuration, a function, or None.

    Returns:
        An initializer, or None.

    Raises:
        ValueError: for an unknown name.

    >>> tf.keras.initializers.get("zeros")([2]).numpy().tolist()
    [0.0, 0.0]
    """
    if identifier is None or isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        found = deserialize(identifier)
        return found() if inspect.isfunction(found) and found in _V1.values() else found
    if inspect.isclass(identifier):
        return identifier()
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret initializer identifier: {identifier}")
