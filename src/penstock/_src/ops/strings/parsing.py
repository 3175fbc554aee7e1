"""Parsing tf.Example messages: the descriptions of features (`FixedLenFeature` …) and the parsing functions.

    tf.parse_example(serialized, {"label": tf.FixedLenFeature([], tf.int64), "words": tf.VarLenFeature(tf.string)})

A dictionary of features becomes the arguments of the ops in `parse_example` and `parse_sequence` (`FeatureLists`), and
their outputs become a dictionary of tensors again.
"""
from __future__ import annotations

import collections
import re
from collections.abc import Sequence
from typing import Any

from penstock._src.base import dtypes, tf_logging
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.ops.composite import dispatched
from penstock._src.ops.strings import parse_example as ops
from penstock._src.ops.strings import parse_sequence as sequence_ops
from penstock._src.ops.strings.ragged_features import RaggedFeature, assembled, assembled_steps, keys_of
from penstock.compat import v1 as tf


@export("io.VarLenFeature", v1=["VarLenFeature"])
class VarLenFeature(collections.namedtuple("VarLenFeature", ["dtype"])):
    """A feature with any number of values; it becomes a SparseTensor.

    Args:
        dtype: `tf.int64`, `tf.float32` or `tf.string`.

    >>> feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"]))
    >>> example = tf.train.Example(features=tf.train.Features(feature={"words": feature}))
    >>> parsed = tf.compat.v1.parse_single_example(example.SerializeToString(), {"words": tf.io.VarLenFeature(tf.string)})
    >>> parsed["words"].values.numpy()
    array([b'a', b'b'], dtype=object)
    """


@export("io.SparseFeature", v1=["SparseFeature"])
class SparseFeature(collections.namedtuple("SparseFeature", ["index_key", "value_key", "dtype", "size", "already_sorted"])):
    """A sparse tensor whose indices and values are two features.

    >>> tf.io.SparseFeature(index_key="ix", value_key="val", dtype=tf.float32, size=100)
    """

    def __new__(cls, index_key: Any, value_key: Any, dtype: Any, size: Any, already_sorted: bool = False) -> SparseFeature:
        return super().__new__(cls, index_key, value_key, dtype, size, already_sorted)


@export("io.FixedLenFeature", v1=["FixedLenFeature"])
class FixedLenFeature(collections.namedtuple("FixedLenFeature", ["shape", "dtype", "default_value"])):
    """A feature with the same number of values in every example. Without a default it is required.

    Args:
        shape: Shape of the values.
        dtype: `tf.int64`, `tf.float32` or `tf.string`.
        default_value: Value for examples without the feature.

    >>> feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
    >>> example = tf.train.Example(features=tf.train.Features(feature={"label": feature}))
    >>> parsed = tf.compat.v1.parse_single_example(example.SerializeToString(), {"label": tf.io.FixedLenFeature([], tf.int64)})
    >>> parsed["label"].numpy()
    np.int64(7)
    """

    def __new__(cls, shape: Any, dtype: Any, default_value: Any = None) -> FixedLenFeature:
        return super().__new__(cls, shape, dtype, default_value)


@export("io.FixedLenSequenceFeature", v1=["FixedLenSequenceFeature"])
class FixedLenSequenceFeature(
        collections.namedtuple("FixedLenSequenceFeature", ["shape", "dtype", "allow_missing", "default_value"])):
    """A feature with a varying number of entries of fixed shape; shorter ones are padded with the default."""

    def __new__(cls, shape: Any, dtype: Any, allow_missing: bool = False,
                default_value: Any = None) -> FixedLenSequenceFeature:
        return super().__new__(cls, shape, dtype, allow_missing, default_value)


# -- from features to arguments ---------------------------------------------------------------------------------------
class FeatureLists:
    """The features of a dictionary, sorted by key: lists (sparse) and dense ones, as ops take them."""

    def __init__(self, features: Any, kinds: tuple):
        self.sparse: dict[str, Any] = {}                       # key -> dtype
        self.dense: dict[str, tuple] = {}                      # key -> dtype, shape, default
        self.assumed_empty: list[str] = []
        for key in sorted(features or ()):
            feature = features[key]
            if not isinstance(feature, kinds):
                known = (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature, RaggedFeature)
                raise ValueError(f"Unsupported {type(feature).__name__} {feature}." if isinstance(feature, known) else
                                 f"Invalid feature {key}:{feature}.")
            if isinstance(feature, SparseFeature):
                self._add_parts(key, feature)
            elif isinstance(feature, RaggedFeature):
                self._add_lists(keys_of(key, feature))
            elif isinstance(feature, VarLenFeature):
                self.sparse[key] = _dtype(key, feature)
            else:
                self._add_dense(key, feature)
        both = set(self.sparse) & set(self.dense)
        if both:
            raise ValueError(f"Keys are both dense and sparse: {both}")

    def _add_parts(self, key: str, feature: SparseFeature) -> None:
        if not feature.index_key:
            raise ValueError(f"Missing index_key for SparseFeature {feature}.")
        if not feature.value_key:
            raise ValueError(f"Missing value_key for SparseFeature {feature}.")
        dtype = _dtype(key, feature)
        keys = [feature.index_key] if isinstance(feature.index_key, str) else sorted(feature.index_key)
        if len(keys) > 1:
            tf_logging.warning("SparseFeature is a complicated feature config and should only be used after careful "
                               "consideration of VarLenFeature.")
        self._add_lists([*((k, dtypes.int64) for k in keys), (feature.value_key, dtype)])

    def _add_lists(self, keys: list[tuple[str, Any]]) -> None:
        for part, wanted in keys:
            if self.sparse.setdefault(part, wanted) != wanted:
                raise ValueError(f"Conflicting type {self.sparse[part]} vs {wanted.name if wanted == dtypes.int64 else wanted} "
                                 f"for feature {part}.")

    def _add_dense(self, key: str, feature: Any) -> None:
        dtype = _dtype(key, feature)
        if feature.shape is None:
            raise ValueError(f"Missing shape for feature {key}.")
        shape = TensorShape(feature.shape)
        if isinstance(feature, FixedLenFeature):
            if shape.rank and shape.as_list()[0] is None:
                raise ValueError(f"First dimension of shape for feature {key} unknown. Consider using "
                                 "FixedLenSequenceFeature.")
            if not shape.is_fully_defined():
                raise ValueError(f"All dimensions of shape for feature {key} need to be known but received {feature.shape}.")
        elif feature.allow_missing:
            self.assumed_empty.append(key)
        self.dense[key] = (dtype, shape, feature.default_value)

    def __bool__(self) -> bool:
        return bool(self.sparse or self.dense)

    def defaults(self) -> list[Tensor]:
        """The defaults of the dense features; an empty vector where there is none."""
        return [_default(key, *given) for key, given in self.dense.items()]

    def collect(self, indices: Sequence, values: Sequence, sizes: Sequence, dense: Sequence) -> dict[str, Any]:
        """The outputs of an op by key."""
        lists = [SparseTensor(i, v, s) for i, v, s in zip(indices, values, sizes, strict=True)]
        return dict(zip([*self.sparse, *self.dense], [*lists, *dense], strict=True))

    @property
    def dense_shapes(self) -> list[TensorShape]:
        """The shapes of the dense features."""
        return [shape for _, shape, _ in self.dense.values()]

    @property
    def dense_types(self) -> list:
        """The types of the dense features."""
        return [dtype for dtype, _, _ in self.dense.values()]


def _dtype(key: str, feature: Any) -> Any:
    if not feature.dtype:
        raise ValueError(f"Missing type for feature {key}.")
    return dtypes.as_dtype(feature.dtype)


def _plain(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.\-/]", "_", key)


def _default(key: str, dtype: Any, shape: TensorShape, value: Any) -> Tensor:
    if shape.rank and shape.as_list()[0] is None:              # entries are filled up with it
        if value is None:
            return convert("" if dtype == dtypes.string else 0, dtype)
        return tf.reshape(convert(value, dtype, f"padding_{_plain(key)}"), [])
    if value is None:
        return tf.constant([], dtype)
    return value if isinstance(value, Tensor) else tf.reshape(convert(value, dtype, f"key_{_plain(key)}"), shape)


def _with_varying_dimension(features: Any) -> dict:
    """Entries of FixedLenSequenceFeature are the first dimension."""
    out = dict(features)
    for key, feature in out.items():
        if isinstance(feature, FixedLenSequenceFeature):
            if not feature.allow_missing:
                raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
            out[key] = feature._replace(shape=[None, *feature.shape])
    return out


def _merged(features: Any, found: dict[str, Any], single: bool = False, rows: int | None = None) -> dict[str, Any]:
    """Assembles sparse features from their indices and values, ragged ones from their values and partitions. In the result are
    first the lists, then the dense features, then the ragged ones, then those with parts of other names, each by key."""
    def place(key: str) -> tuple:
        feature = features[key]
        if isinstance(feature, RaggedFeature):
            return 2 if feature.value_key in (None, key) else 3, key
        return 3 if isinstance(feature, SparseFeature) else int(not isinstance(feature, VarLenFeature)), key

    out = {}
    for key in sorted(features, key=place):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            ids = found[feature.index_key] if isinstance(feature.index_key, str) else [found[k] for k in feature.index_key]
            out[key] = tf.sparse_merge(ids, found[feature.value_key], feature.size, already_sorted=feature.already_sorted)
        elif isinstance(feature, RaggedFeature):
            out[key] = assembled(key, feature, found, single, rows)
        else:
            out[key] = found[key]
    return out


_ALL = (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature, RaggedFeature)


# -- examples ---------------------------------------------------------------------------------------------------------
@export(v1=["io.parse_example", "parse_example"])
@dispatched
def parse_example(serialized: Any, features: Any, name: str | None = None, example_names: Any = None) -> dict[str, Any]:
    """The features of a vector of serialized tf.Example messages, as tensors by key.

    >>> tf.parse_example(serialized, {"x": tf.FixedLenFeature([3], tf.float32), "words": tf.VarLenFeature(tf.string)})
    """
    return parse_example_v2(serialized, features, example_names, name)


@export(v2=["io.parse_example"])
@dispatched
def parse_example_v2(serialized: Any, features: Any, example_names: Any = None, name: str | None = None) -> dict[str, Any]:
    """The features of serialized tf.Example messages (a vector, or one), as tensors by key."""
    if not features:
        raise ValueError(f"Missing: features was {features}.")
    lists = FeatureLists(_with_varying_dimension(features), _ALL)
    with tf.name_scope(name, "ParseExample", [serialized, example_names]):
        serialized = convert(serialized, dtypes.string, "serialized")
        names = convert([] if example_names is None else example_names, dtypes.string, "names")
        if serialized.shape.rank == 1:
            made = ops.parse_example(serialized, names, list(lists.sparse), list(lists.dense), lists.defaults(),
                                     sparse_types=list(lists.sparse.values()), dense_shapes=lists.dense_shapes, name=name)
        else:
            made = ops.parse_example_v2(serialized, names, tf.constant(list(lists.sparse), tf.string),
                                        tf.constant(list(lists.dense), tf.string), tf.constant([], tf.string),
                                        lists.defaults(), num_sparse=len(lists.sparse), ragged_value_types=[],
                                        ragged_split_types=[], sparse_types=list(lists.sparse.values()),
                                        dense_shapes=lists.dense_shapes, name=name)[:4]
        dims = serialized.shape.static_dims
        return _merged(features, lists.collect(*made), single=dims == (), rows=dims[0] if dims else None)


@export(v1=["io.parse_single_example", "parse_single_example"])
@dispatched
def parse_single_example(serialized: Any, features: Any, name: str | None = None,
                         example_names: Any = None) -> dict[str, Any]:
    """The features of one serialized tf.Example message, as tensors by key.

    Args:
        serialized: Scalar string: a serialized `tf.train.Example`.
        features: Dictionary from keys to `FixedLenFeature`, `VarLenFeature` and the like.
        name: Name of the operation.
        example_names: Name of the example for error messages.

    Returns:
        A dictionary of tensors.

    Raises:
        ValueError: if a feature's description is not valid.
        InvalidArgumentError: if the message does not fit the descriptions.

    >>> feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
    >>> example = tf.train.Example(features=tf.train.Features(feature={"label": feature}))
    >>> parsed = tf.parse_single_example(example.SerializeToString(), {"label": tf.FixedLenFeature([], tf.int64)})
    >>> parsed["label"].numpy()
    np.int64(7)
    """
    return parse_single_example_v2(serialized, features, example_names, name)


@export(v2=["io.parse_single_example"])
@dispatched
def parse_single_example_v2(serialized: Any, features: Any, example_names: Any = None,
                            name: str | None = None) -> dict[str, Any]:
    """The features of one serialized tf.Example message, as tensors by key."""
    if not features:
        raise ValueError("Missing features.")
    lists = FeatureLists(_with_varying_dimension(features), _ALL)
    with tf.name_scope(name, "ParseSingleExample", [serialized, example_names]):
        serialized = convert(serialized, dtypes.string, "serialized")
        if example_names is not None:
            return _named_single(serialized, features, example_names, lists, name)
        made = ops.parse_single(serialized, lists.defaults(), num_sparse=len(lists.sparse), sparse_keys=list(lists.sparse),
                                dense_keys=list(lists.dense), sparse_types=list(lists.sparse.values()),
                                dense_shapes=lists.dense_shapes, name=name)
        return _merged(features, lists.collect(*made), single=True)


def _named_single(serialized: Tensor, features: Any, names: Any, lists: FeatureLists, name: str | None) -> dict[str, Any]:
    """One example with a name for messages: a batch of one."""
    names = convert(names, dtypes.string)
    for what, t in (("serialized", serialized), ("names", names)):
        if t.shape.rank not in (None, 0):
            raise ValueError(f"Input {what} must be a scalar")
    made = ops.parse_example(tf.expand_dims(serialized, 0), tf.expand_dims(names, 0), list(lists.sparse), list(lists.dense),
                             lists.defaults(), sparse_types=list(lists.sparse.values()), dense_shapes=lists.dense_shapes,
                             name=name)
    found = lists.collect(*made)
    for key in lists.dense:
        found[key] = tf.squeeze(found[key], [0], name=f"Squeeze_{_plain(key)}")
    for key in lists.sparse:
        found[key] = SparseTensor(found[key].indices[:, 1:], found[key].values, found[key].dense_shape[1:])
    return _merged(features, found, single=True)


# -- sequence examples --------------------------------------------------------------------------------------------------
def _sequence_lists(context_features: Any, sequence_features: Any) -> tuple[FeatureLists, FeatureLists, dict]:
    """The features of the context, those of the steps, and the ragged ones among the latter, which another op parses."""
    if not (context_features or sequence_features):
        raise ValueError("Missing features.")
    context = FeatureLists(context_features, (VarLenFeature, FixedLenFeature, RaggedFeature))
    ragged = {k: f for k, f in (sequence_features or {}).items() if isinstance(f, RaggedFeature)}
    lists = FeatureLists({k: f for k, f in (sequence_features or {}).items() if k not in ragged},
                         (VarLenFeature, FixedLenSequenceFeature))
    for key, (_, _, default) in lists.dense.items():
        if default is not None:
            raise ValueError(f"Value feature_list_dense_defaults[{key}] must be None")
    return context, lists, ragged


_nothing: list = [()] * 9          # the outputs of an op that parses no features


def _ragged_sequences(serialized: Tensor, names: Any, features: dict[str, RaggedFeature]) -> dict[str, Any]:
    """The ragged features of the steps of sequences."""
    if not features:
        return {}
    wanted = FeatureLists(features, (RaggedFeature,)).sparse
    none = tf.constant([], tf.string)
    values, outer, inner = sequence_ops.parse_sequence_v2(
        serialized, names, none, none, none, none, none, tf.constant(list(wanted), tf.string), tf.constant([], tf.bool), [],
        feature_list_ragged_value_types=list(wanted.values()),
        feature_list_ragged_split_types=[dtypes.int64] * len(wanted))[-3:]
    found = dict(zip(wanted, zip(values, outer, inner, strict=True), strict=True))
    return {k: assembled_steps(k, f, found, serialized.shape.rank == 0) for k, f in features.items()}


@export("io.parse_sequence_example")
@dispatched
def parse_sequence_example(serialized: Any, context_features: Any = None, sequence_features: Any = None,
                           example_names: Any = None, name: str | None = None) -> tuple[dict, dict, dict]:
    """The features of a vector of serialized tf.SequenceExample messages: of contexts, of sequences, and lengths.

    >>> context, sequences, lengths = tf.io.parse_sequence_example(
    ...     serialized, {"id": tf.FixedLenFeature([], tf.int64)}, {"x": tf.FixedLenSequenceFeature([2], tf.float32)})
    """
    context, lists, ragged = _sequence_lists(context_features, sequence_features)
    with tf.name_scope(name, "ParseSequenceExample", [serialized]):
        serialized = convert(serialized, dtypes.string)
        names = convert([] if example_names is None else example_names, dtypes.string)
        made = _nothing if not (context or lists) else sequence_ops.parse_sequence(
            serialized, names, context.defaults(), feature_list_dense_missing_assumed_empty=lists.assumed_empty, name=name,
            context_sparse_keys=list(context.sparse), context_dense_keys=list(context.dense),
            feature_list_sparse_keys=list(lists.sparse), feature_list_dense_keys=list(lists.dense),
            Ncontext_sparse=len(context.sparse), Ncontext_dense=len(context.dense), Nfeature_list_sparse=len(lists.sparse),
            Nfeature_list_dense=len(lists.dense), context_sparse_types=list(context.sparse.values()),
            feature_list_dense_types=lists.dense_types, context_dense_shapes=context.dense_shapes,
            feature_list_sparse_types=list(lists.sparse.values()), feature_list_dense_shapes=lists.dense_shapes)
        dims = serialized.shape.static_dims
        return (_merged(context_features or {}, context.collect(*made[:4]), rows=dims[0] if dims else None),
                lists.collect(*made[4:8]) | _ragged_sequences(serialized, names, ragged),
                dict(zip(lists.dense, made[8], strict=True)))


@export("io.parse_single_sequence_example", v1=["parse_single_sequence_example"])
@dispatched
def parse_single_sequence_example(serialized: Any, context_features: Any = None, sequence_features: Any = None,
                                  example_name: Any = None, name: str | None = None) -> tuple[dict, dict]:
    """The features of one serialized tf.SequenceExample message: of its context, and of its sequences.

    >>> context, sequences = tf.parse_single_sequence_example(serialized, {}, {"words": tf.VarLenFeature(tf.string)})
    """
    context, lists, ragged = _sequence_lists(context_features, sequence_features)
    with tf.name_scope(name, "ParseSingleSequenceExample", [serialized]):
        serialized = convert(serialized, dtypes.string)
        example_name = convert("" if example_name is None else example_name, dtypes.string)
        made = _nothing if not (context or lists) else sequence_ops.parse_single_sequence(
            serialized, tf.constant(lists.assumed_empty, tf.string), list(context.sparse),
            list(context.dense), list(lists.sparse), list(lists.dense), context.defaults(),
            example_name, context_sparse_types=list(context.sparse.values()),
            feature_list_dense_types=lists.dense_types, context_dense_shapes=context.dense_shapes,
            feature_list_sparse_types=list(lists.sparse.values()), feature_list_dense_shapes=lists.dense_shapes, name=name)
        return (_merged(context_features or {}, context.collect(*made[:4]), single=True),
                lists.collect(*made[4:8]) | _ragged_sequences(serialized, example_name, ragged))
