"""tf.tpu.experimental.embedding: tables and lookups on devices that are not TPUs."""
from __future__ import annotations

import functools
from typing import Any, NoReturn

import penstock as tf
from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import init_scope
from penstock._src.models.distribute.tpu_tables import FeatureConfig, Optimizer, TableConfig
from penstock._src.state.auto_trackable import AutoTrackable


class _Tables(AutoTrackable):
    """The variables of all tables that features use; they are made on first use."""

    def __init__(self, feature_config: Any, optimizer: Any = None):
        self._feature_config = feature_config
        self._table_config = list({id(f.table): f.table for f in nest.flatten(feature_config)}.values())
        for i, table in enumerate(self._table_config):
            table.optimizer = optimizer if table.optimizer is None else table.optimizer
            if table.optimizer is not None and not isinstance(table.optimizer, Optimizer):
                raise ValueError(f"Tables take optimizers of tpu.experimental.embedding, not {type(table.optimizer).__name__}.")
            table.name = f"table_{i}" if table.name is None else table.name
            if any(table.name == t.name for t in self._table_config[:i]):
                raise ValueError(f"Two tables are named {table.name!r}.")
        self._built = False

    def _variables_of(self, table: TableConfig) -> dict[str, Any]:
        size = (table.vocabulary_size, table.dim)

        def getter(name: str, shape: Any, dtype: Any, initializer: Any, trainable: bool) -> Any:
            initial = functools.partial(initializer, size, dtype=dtype) if callable(initializer) else initializer
            return tf.Variable(initial, name=name, shape=size, dtype=dtype, trainable=trainable)

        def variable(name: str, initializer: Any, trainable: bool = False) -> Any:
            return self._add_variable_with_custom_getter(name, size, table.dtype, initializer, getter, trainable=trainable)

        rows = variable(table.name, table.initializer, trainable=True)       # type: ignore[arg-type]
        slots = table.optimizer._create_slots(rows, lambda slot, initial: variable(f"{table.name}/{slot}", initial)) \
            if table.optimizer is not None else {}
        return {**slots, "parameters": rows}

    def build(self, *args: Any, **kwargs: Any) -> None:
        """Creates the variables."""
        if not self._built:
            with init_scope():
                self._variables = {t.name: self._variables_of(t) for t in self._table_config}
            self._built = True

    @property
    def variables(self) -> dict:
        """By the name of a table its variables: `parameters` and those of its optimizer."""
        self.build()
        return self._variables

    @property
    def embedding_tables(self) -> dict[TableConfig, Any]:
        """The variable of each table."""
        return {t: self.variables[t.name]["parameters"] for t in self._table_config}


@export("tpu.experimental.embedding.TPUEmbeddingForServing")
class TPUEmbeddingForServing(_Tables):
    """Tables, trained or to be trained, whose rows are looked up on the host.

    Args:
        feature_config: FeatureConfigs, in any nested structure.
        optimizer: What tables without an optimizer have; None: they have no variables but their rows.
        experimental_sparsecore_restore_info: Of checkpoints of TPUs; unused.

    >>> table = tf.tpu.experimental.embedding.TableConfig(vocabulary_size=8, dim=2)
    >>> tables = tf.tpu.experimental.embedding.TPUEmbeddingForServing(tf.tpu.experimental.embedding.FeatureConfig(table), None)
    >>> tables(tf.constant([1, 3]))
    """

    def __init__(self, feature_config: Any, optimizer: Any, experimental_sparsecore_restore_info: Any = None):
        super().__init__(feature_config, optimizer)

    def embedding_lookup(self, features: Any, weights: Any = None) -> Any:
        """The rows of features, in their structure."""
        return serving_embedding_lookup(features, weights, self.embedding_tables, self._feature_config)

    def __call__(self, features: Any, weights: Any = None) -> Any:
        return self.embedding_lookup(features, weights)


@export("tpu.experimental.embedding.TPUEmbedding")
class TPUEmbedding(_Tables):
    """Tables for TPUs. Without one there are the variables, to be saved and restored; what needs a TPU raises RuntimeError."""

    def __init__(self, feature_config: Any, optimizer: Any, pipeline_execution_with_tensor_core: bool = False):
        super().__init__(feature_config, optimizer)

    def _refused(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("There are no TPUs here: look rows up with tf.tpu.experimental.embedding.serving_embedding_lookup.")

    enqueue = dequeue = apply_gradients = embedding_lookup = __call__ = _refused


@export("tpu.experimental.embedding.serving_embedding_lookup")
def serving_embedding_lookup(inputs: Any, weights: Any, tables: dict[TableConfig, Any], feature_config: Any) -> Any:
    """The rows of features.

    Args:
        inputs: Tensors, SparseTensors or RaggedTensors of row numbers, in any nested structure.
        weights: As `inputs`, with a weight for each row number; or None.
        tables: The variable of each table.
        feature_config: FeatureConfigs in the structure of `inputs`; there may be more.

    Returns:
        Tensors in the structure of `inputs`.
    """
    paths = nest.flatten_with_joined_string_paths(inputs)
    features = dict(nest.flatten_with_joined_string_paths(feature_config))
    if weights is not None:
        nest.assert_same_structure(inputs, weights)
    missing = {path for path, _ in paths} - features.keys()
    if missing:
        raise ValueError(f"Inputs without a feature in feature_config: {{{', '.join(p for p, _ in paths)}}} were passed, "
                         f"{list(features)} are configured.")
    given = nest.flatten(weights) if weights is not None else [None] * len(paths)
    found = [_lookup(path, value, weight, features[path], tables[features[path].table])
             for (path, value), weight in zip(paths, given, strict=True)]
    return nest.pack_sequence_as(inputs, found)


def _lookup(path: str, value: Any, weight: Any, feature: FeatureConfig, table: Any) -> Any:
    if weight is not None:
        if isinstance(value, Tensor):
            raise ValueError(f"The dense input {path} takes no weights.")
        if type(weight) is not type(value):
            raise ValueError(f"The weights of {path} are a {type(weight).__name__}, its ids a {type(value).__name__}.")
        if feature.max_sequence_length > 0:
            raise ValueError(f"The sequence {path} takes no weights.")
    if isinstance(value, tf.SparseTensor):
        return _sparse_lookup(value, weight, feature, table)
    if isinstance(value, tf.RaggedTensor):
        return _ragged_lookup(value, weight, feature, table)
    if not isinstance(value, Tensor):
        raise ValueError(f"{path} is a {type(value).__name__}; pass a dense, sparse or ragged tensor.")
    if feature.max_sequence_length > 0:
        raise ValueError(f"{path} is a sequence: pass a sparse or ragged tensor, not a dense one.")
    return tf.nn.embedding_lookup(table, value)


def _sparse_lookup(ids: Any, weights: Any, feature: FeatureConfig, table: Any) -> Any:
    rank, length = ids.shape.rank, feature.max_sequence_length
    if length > 0 and not feature.output_shape and rank in (None, 2):
        examples = tf.shape(ids, out_type=tf.int64)[0]
        kept = tf.sparse.slice(ids, [0, 0], tf.stack([examples, length]))      # sequences that are too long are cut
        return tf.scatter_nd(kept.indices, tf.gather(table, kept.values), tf.stack([examples, length, feature.table.dim]))
    if not feature.validate_weights_and_indices and rank is not None and rank <= 2:
        return tf.nn.embedding_lookup_sparse(table, ids, weights, combiner=feature.table.combiner)
    return tf.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner=feature.table.combiner)


def _ragged_lookup(ids: Any, weights: Any, feature: FeatureConfig, table: Any) -> Any:
    if ids.shape.rank != 2:
        raise ValueError(f"Ragged ids have rank 2, got rank {ids.shape.rank}.")
    examples, dim = ids.shape[0], feature.table.dim
    if not feature.output_shape:
        if feature.max_sequence_length > 0:
            return tf.nn.embedding_lookup(table, ids).to_tensor(shape=[examples, feature.max_sequence_length, dim])
        return _joined_rows(ids, weights, feature.table.combiner, table)
    shape, size = [*feature.output_shape, dim], feature.output_shape.num_elements()
    if size == examples:
        return tf.reshape(_joined_rows(ids, weights, feature.table.combiner, table), shape)
    if examples is None or size is None or size % examples:
        raise ValueError(f"A batch of {examples} examples cannot take the output_shape {feature.output_shape} of its feature.")
    rows = tf.nn.embedding_lookup(table, ids).to_tensor(shape=[examples, size // examples, dim])
    return tf.reshape(rows, shape)


def _joined_rows(ids: Any, weights: Any, combiner: str, table: Any) -> Any:
    weights = tf.ones_like(ids, dtype=table.dtype) if weights is None else weights
    weights = tf.expand_dims(weights, 2)
    total = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) * weights, 1)
    if combiner == "sum":
        return total
    return tf.math.divide_no_nan(total, tf.reduce_sum(weights, 1) if combiner == "mean" else
                                 tf.sqrt(tf.reduce_sum(weights * weights, 1)))
