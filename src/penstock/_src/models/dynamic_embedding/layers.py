"""Keras layers over dynamic_embedding variables."""
from __future__ import annotations

from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.models.dynamic_embedding.lookups import embedding_lookup, embedding_lookup_unique
from penstock._src.models.dynamic_embedding.variable import Variable
from penstock._src.models.keras.engine.base_layer import Layer
from penstock._src.models.keras.utils.generic_utils import register_keras_serializable

_COMBINERS = {"sum": tf.reduce_sum, "mean": tf.reduce_mean, "min": tf.reduce_min, "max": tf.reduce_max, "prod": tf.reduce_prod,
              "std": tf.math.reduce_std}


@export("dynamic_embedding.keras.layers.Embedding", "dynamic_embedding.keras.layers.BasicEmbedding")
@register_keras_serializable("TFRA")
class Embedding(Layer):
    """Keys of any value as vectors: a table that grows with new keys.

    Args:
        embedding_size: Size of each vector.
        key_dtype: Type of the keys: `int64` or `string`.
        value_dtype: Type of the vectors.
        combiner: How `SquashedEmbedding` combines the vectors of a row.
        initializer: How vectors begin; by default small random numbers.
        devices: Devices that share the keys.
        name: Name of the layer.
        with_unique: Whether equal keys of a batch are looked up once.
        **kwargs: `kv_creator` makes the table, `restrict_policy` chooses what `params.restrict` removes, the others are passed
            to the base class.

    >>> tf.dynamic_embedding.keras.layers.Embedding(8)(tf.constant([[15, 2], [4, 92]], tf.int64)).shape
    TensorShape([2, 2, 8])
    """

    def __init__(self, embedding_size: int, key_dtype: Any = tf.int64, value_dtype: Any = tf.float32, combiner: Any = "sum",
                 initializer: Any = None, devices: Any = None, name: str | None = "DynamicEmbeddingLayer",
                 with_unique: bool = True, short_file_name: bool = False, **kwargs: Any):
        self._kv_creator, self._restrict_policy = kwargs.pop("kv_creator", None), kwargs.pop("restrict_policy", None)
        kwargs.pop("bp_v2", None)                 # how TFRA writes updates back: here each optimizer does
        kwargs["autocast"] = False
        super().__init__(name=name, **kwargs)
        self.embedding_size, self.combiner, self.with_unique = int(embedding_size), combiner, with_unique
        self.key_dtype, self.value_dtype = tf.as_dtype(key_dtype), tf.as_dtype(value_dtype)
        self.initializer = tf.keras.initializers.get("random_normal" if initializer is None else initializer)
        self.devices = devices
        if isinstance(combiner, str) and combiner not in _COMBINERS:
            raise ValueError(f"combiner must be a function or one of {sorted(_COMBINERS)}, got {combiner}")

    def build(self, input_shape: Any = None) -> None:
        """Creates the table."""
        self.params = Variable(self.key_dtype, self.value_dtype, self.embedding_size, self.devices,
                               name=f"{self.name}-parameter", initializer=self.initializer, trainable=self.trainable,
                               kv_creator=self._kv_creator, restrict_policy=self._restrict_policy)
        self._trainable_weights.extend(self.params.tables)
        super().build(input_shape)

    def call(self, ids: Any) -> Any:
        """The vectors of keys."""
        ids = tf.cast(ids, self.key_dtype) if self.key_dtype != tf.string else ids
        return (embedding_lookup_unique if self.with_unique else embedding_lookup)(self.params, ids)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the keys, and the size of the vectors."""
        return tf.TensorShape([*input_shape, self.embedding_size])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "embedding_size": self.embedding_size, "key_dtype": self.key_dtype.name,
                "value_dtype": self.value_dtype.name, "combiner": self.combiner, "with_unique": self.with_unique,
                "initializer": tf.keras.initializers.serialize(self.initializer), "devices": self.devices}


@export("dynamic_embedding.keras.layers.SquashedEmbedding")
@register_keras_serializable("TFRA")
class SquashedEmbedding(Embedding):
    """The vectors of the keys of each example, combined into one."""

    def call(self, ids: Any) -> Any:
        """The combined vectors."""
        rows = super().call(ids)
        combine = _COMBINERS[self.combiner] if isinstance(self.combiner, str) else self.combiner
        first = 0 if rows.shape.rank == 2 else 1
        return combine(rows, axis=list(range(first, rows.shape.rank - 1)))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """One vector per example."""
        return tf.TensorShape([*([input_shape[0]] if len(input_shape) > 1 else []), self.embedding_size])


@export("dynamic_embedding.keras.layers.FieldwiseEmbedding", "dynamic_embedding.keras.layers.FieldWiseEmbedding")
@register_keras_serializable("TFRA")
class FieldWiseEmbedding(Embedding):
    """The vectors of the keys of each example, combined for each of several fields: [batch, fields, size].

    Args:
        embedding_size: Size of each vector.
        nslots: Number of fields.
        slot_map_fn: Function that returns the fields of keys, as integers below `nslots`.
        combiner: "sum" or "mean".
        **kwargs: As for `Embedding`.

    >>> layer = tf.dynamic_embedding.keras.layers.FieldWiseEmbedding(8, 3, lambda keys: keys % 3)
    """

    def __init__(self, embedding_size: int, nslots: int, slot_map_fn: Any = None, combiner: str = "sum", **kwargs: Any):
        if slot_map_fn is None or combiner not in ("sum", "mean"):
            raise ValueError(f"slot_map_fn must be a function and combiner 'sum' or 'mean', got {slot_map_fn} and {combiner}")
        super().__init__(embedding_size, combiner=combiner, **kwargs)
        self.nslots, self.slot_map_fn = int(nslots), slot_map_fn

    def call(self, ids: Any) -> Any:
        """The combined vectors of each field; zeros for fields without keys."""
        ids = tf.convert_to_tensor(ids)
        ids = tf.reshape(ids, [-1, 1]) if ids.shape.rank == 1 else ids
        field = tf.one_hot(tf.cast(self.slot_map_fn(ids), tf.int32), self.nslots, dtype=self.value_dtype)
        rows = tf.einsum("bne,bnf->bfe", super().call(ids), field)
        if self.combiner == "sum":
            return rows
        return tf.math.divide_no_nan(rows, tf.reduce_sum(field, 1)[:, :, tf.newaxis])

    def compute_output_shape(self, input_shape: Any) -> Any:
        """A vector per example and field."""
        return tf.TensorShape([input_shape[0], self.nslots, self.embedding_size])

    def get_config(self) -> dict[str, Any]:
        """The arguments that recreate the layer."""
        return {**super().get_config(), "nslots": self.nslots, "slot_map_fn": self.slot_map_fn}
