"""Decoders: from a serialized tf.Example to items such as images, labels and boxes."""
from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf


@export(v1=["contrib.slim.data_decoder.DataDecoder"])
class DataDecoder(metaclass=abc.ABCMeta):
    """Gives items of a record."""

    @abc.abstractmethod
    def decode(self, data: Any, items: Any) -> list:
        """The items of one record."""

    @abc.abstractmethod
    def list_items(self) -> list:
        """The names of all items."""


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.slim.tfexample_decoder.{name}"])


def _dense(x: Any, default: Any = None) -> Any:
    if not isinstance(x, tf.SparseTensor):
        return x
    return tf.sparse_tensor_to_dense(x) if default is None else tf.sparse_tensor_to_dense(x, default)


@_export("ItemHandler")
class ItemHandler(metaclass=abc.ABCMeta):
    """Makes an item from the features under its keys."""

    def __init__(self, keys: Any):
        self._keys = list(keys) if isinstance(keys, (tuple, list)) else [keys]

    keys = property(lambda self: self._keys)

    @abc.abstractmethod
    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item."""


@_export("ItemHandlerCallback")
class ItemHandlerCallback(ItemHandler):
    """What a function makes of the features."""

    def __init__(self, keys: Any, func: Callable):
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item."""
        return self._func(keys_to_tensors)


@_export("BoundingBox")
class BoundingBox(ItemHandler):
    """Boxes, [n, 4], from four features."""

    def __init__(self, keys: Any = None, prefix: str = ""):
        keys = ["ymin", "xmin", "ymax", "xmax"] if keys is None else keys
        if len(keys) != 4:
            raise ValueError(f"BoundingBox expects 4 keys but got {len(keys)}")
        super().__init__([prefix + k for k in keys])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item."""
        sides = [keys_to_tensors[k] for k in self._keys]
        return tf.transpose(tf.stack([s.values if isinstance(s, tf.SparseTensor) else s for s in sides]))


@_export("Tensor")
class Tensor(ItemHandler):
    """A dense tensor, in a shape that is given or read from other features."""

    def __init__(self, tensor_key: str, shape_keys: Any = None, shape: Any = None, default_value: Any = 0):
        if shape_keys and shape is not None:
            raise ValueError("Cannot specify both shape_keys and shape parameters.")
        self._shape_keys = [shape_keys] if shape_keys and not isinstance(shape_keys, list) else shape_keys
        self._tensor_key, self._shape, self._default_value = tensor_key, shape, default_value
        super().__init__([tensor_key, *(self._shape_keys or ())])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item."""
        tensor, shape = keys_to_tensors[self._tensor_key], self._shape
        if self._shape_keys:
            shape = tf.reshape(tf.stack([_dense(keys_to_tensors[k]) for k in self._shape_keys]), [-1])
        if isinstance(tensor, tf.SparseTensor):
            return _dense(tensor if shape is None else tf.sparse_reshape(tensor, shape), self._default_value)
        return tensor if shape is None else tf.reshape(tensor, shape)


@_export("LookupTensor")
class LookupTensor(Tensor):
    """A tensor whose elements are looked up in a table."""

    def __init__(self, tensor_key: str, table: Any, shape_keys: Any = None, shape: Any = None, default_value: Any = ""):
        super().__init__(tensor_key, shape_keys, shape, default_value)
        self._table = table

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item."""
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


@_export("BackupHandler")
class BackupHandler(ItemHandler):
    """What another handler returns, when the first returns nothing."""

    def __init__(self, handler: ItemHandler, backup: ItemHandler):
        for name, each in (("Primary", handler), ("Backup", backup)):
            if not isinstance(each, ItemHandler):
                raise ValueError(f"{name} handler is of type {type(each)} instead of ItemHandler")
        super().__init__(handler.keys + backup.keys)
        self._handler, self._backup = handler, backup

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item."""
        item = self._handler.tensors_to_item(keys_to_tensors)
        return tf.cond(tf.equal(tf.reduce_prod(tf.shape(item)), 0), lambda: self._backup.tensors_to_item(keys_to_tensors),
                       lambda: item)


@_export("SparseTensor")
class SparseTensor(ItemHandler):
    """A sparse tensor from indices and values."""

    def __init__(self, indices_key: str | None = None, values_key: str | None = None, shape_key: str | None = None,
                 shape: Any = None, densify: bool = False, default_value: Any = 0):
        self._indices_key, self._values_key = indices_key or "indices", values_key or "values"
        self._shape_key, self._shape, self._densify, self._default_value = shape_key, shape, densify, default_value
        super().__init__([self._indices_key, self._values_key, *([shape_key] if shape_key else [])])

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item."""
        indices, values = keys_to_tensors[self._indices_key], keys_to_tensors[self._values_key]
        shape = _dense(keys_to_tensors[self._shape_key]) if self._shape_key else self._shape or indices.dense_shape
        kept = tf.slice(indices.indices, [0, 0], tf.stack([-1, tf.shape(indices.indices)[1] - 1]))
        where = tf.concat([kept, tf.reshape(tf.cast(indices.values, tf.int64), [-1, 1])], 1)
        made = tf.SparseTensor(where, values.values, shape)
        return _dense(made, self._default_value) if self._densify else made


@_export("Image")
class Image(ItemHandler):
    """An image from its encoded bytes."""

    def __init__(self, image_key: str | None = None, format_key: str | None = None, shape: Any = None, channels: int = 3,
                 dtype: Any = tf.uint8, repeated: bool = False, dct_method: str = ""):
        self._image_key, self._format_key = image_key or "image/encoded", format_key or "image/format"
        super().__init__([self._image_key, self._format_key])
        self._shape, self._channels, self._dtype, self._repeated = shape, channels, dtype, repeated
        self._dct_method = dct_method

    def tensors_to_item(self, keys_to_tensors: dict[str, Any]) -> Any:
        """The item."""
        data, kind = keys_to_tensors[self._image_key], keys_to_tensors[self._format_key]
        if self._repeated:
            return tf.map_fn(lambda x: self._decode(x, kind), data, dtype=self._dtype)
        return self._decode(data, kind)

    def _decode(self, data: Any, kind: Any) -> Any:
        raw = tf.logical_or(tf.equal(kind, "raw"), tf.equal(kind, "RAW"))
        image = tf.cond(raw, lambda: tf.decode_raw(data, out_type=self._dtype),
                        lambda: tf.cast(tf.image.decode_image(data, channels=self._channels), self._dtype))
        if self._shape is not None:
            return tf.reshape(image, self._shape)
        image.set_shape([None, None, self._channels])
        return image


@_export("TFExampleDecoder")
class TFExampleDecoder(DataDecoder):
    """Parses a tf.Example and passes its features to the handlers of items.

    >>> slim.tfexample_decoder.TFExampleDecoder({"x": tf.FixedLenFeature([], tf.int64)},
                                                {"x": slim.tfexample_decoder.Tensor("x")})
    """

    def __init__(self, keys_to_features: dict[str, Any], items_to_handlers: dict[str, ItemHandler]):
        self._keys_to_features, self._items_to_handlers = keys_to_features, items_to_handlers

    def list_items(self) -> list:
        """The names of all items."""
        return list(self._items_to_handlers)

    def decode(self, data: Any, items: Any = None) -> list:
        """The items of one record."""
        example = tf.parse_single_example(data, self._keys_to_features)
        for key, feature in sorted(self._keys_to_features.items()):
            if isinstance(feature, tf.FixedLenFeature):
                example[key] = tf.reshape(example[key], feature.shape)
        handlers = [self._items_to_handlers[item] for item in items or self._items_to_handlers]
        return [h.tensors_to_item({key: example[key] for key in h.keys}) for h in handlers]
