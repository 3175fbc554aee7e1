"""Feature columns as plain values, for the configuration of the Keras layers that are made of them, and back.

A column is a named tuple, so its configuration is its fields: columns among them become their own configurations, dtypes
their names, functions and initializers what Keras makes of them.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.feature_column.base import FeatureColumn
from penstock._src.models.feature_column.combined import SharedTable
from penstock._src.models.keras.utils import generic_utils

_SEQUENCES = ("shape", "boundaries", "vocabulary_list", "keys", "default_value")      # lists in JSON, tuples in columns


@export("__internal__.feature_column.serialize_feature_column")
def serialize_feature_column(column: Any) -> dict[str, Any]:
    """The configuration of a column: {"class_name": …, "config": …}."""
    if not isinstance(column, FeatureColumn):
        raise ValueError(f"Instance: {column} is not a FeatureColumn")
    return {"class_name": type(column).__name__, "config": config_of(column)}


def serialize_feature_columns(columns: Any) -> list[dict[str, Any]]:
    """The configurations of several columns."""
    return [serialize_feature_column(c) for c in columns]


def deserialize_feature_columns(configs: Any, custom_objects: Any = None) -> list:
    """Columns of configurations; equal columns share the same base object."""
    known: dict[Any, Any] = {}
    return [deserialize_feature_column(c, custom_objects, known) for c in configs]


@export("__internal__.feature_column.deserialize_feature_column")
def deserialize_feature_column(config: Any, custom_objects: Any = None, known: dict[Any, Any] | None = None) -> Any:
    """The column of a configuration; `known` has those that were created already."""
    if isinstance(config, str):
        return config                                       # the key of a raw feature
    known = {} if known is None else known
    if not isinstance(config, dict) or not {"class_name", "config"} <= set(config):
        raise ValueError(f"Improper config format: {config}")
    name = config["class_name"]
    kind = {c.__name__: c for c in _kinds(FeatureColumn)}.get(name)
    if kind is None:
        raise ValueError(f"Unknown feature_column_v2: {name}")
    made = column_of(kind, config["config"], custom_objects, known)
    return known.setdefault(made, made)


def _kinds(base: Any) -> Iterator[type]:
    for kind in base.__subclasses__():
        yield from _kinds(kind)
        if hasattr(kind, "_fields"):
            yield kind


def config_of(column: Any) -> dict[str, Any]:
    """The fields of a column as plain values."""
    return {field: _plain(value) for field, value in zip(column._fields, column, strict=True)}


def _plain(value: Any) -> Any:
    if isinstance(value, FeatureColumn):
        return serialize_feature_column(value)
    if isinstance(value, tf.DType):
        return value.name
    if isinstance(value, SharedTable):
        return {"shared": value.name, "initializer": generic_utils.serialize_keras_object(value.initializer)}
    if isinstance(value, tuple) and any(isinstance(v, FeatureColumn) for v in value):
        return tuple(_plain(v) for v in value)
    return generic_utils.serialize_keras_object(value) if callable(value) else value


def column_of(kind: Any, config: dict[str, Any], custom_objects: Any = None, known: dict[Any, Any] | None = None) -> Any:
    """A column of its fields as plain values."""
    if set(config) != set(kind._fields):
        raise ValueError(f"Invalid config: {config}, expected keys: {kind._fields}")
    known = {} if known is None else known
    return kind(**{field: _field(field, value, custom_objects, known) for field, value in config.items()})


def _field(field: str, value: Any, custom_objects: Any, known: dict[Any, Any]) -> Any:
    if field == "dtype":
        return tf.as_dtype(value)
    if field in ("source_column", "categorical_column"):
        return deserialize_feature_column(value, custom_objects, known)
    if field == "keys":
        return tuple(deserialize_feature_column(v, custom_objects, known) for v in value)
    if field == "initializer":
        return _initializer(value, custom_objects, known)
    if field == "normalizer_fn":
        return generic_utils.deserialize_keras_object(value, {}, custom_objects, "normalizer_fn")
    return _tuples(value) if field in _SEQUENCES else value


def _initializer(value: Any, custom_objects: Any, known: dict[Any, Any]) -> Any:
    if isinstance(value, dict) and "shared" in value:
        name = value["shared"]
        if name not in known:
            known[name] = SharedTable(name, _initializer(value["initializer"], custom_objects, known))
        return known[name]
    return tf.keras.initializers.deserialize(value, custom_objects)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
