"""From columns to tensors: input_layer, linear_model, and the features of columns for parse_example."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.feature_column.base import Batch, CategoricalColumn, DenseColumn, FeatureColumn
from penstock._src.models.feature_column.categorical import KeySpace
from penstock._src.models.feature_column.combined import dense_of


def sorted_columns(columns: Any, kind: Any, mark: str = "") -> list:
    """Columns by name, checked; `mark` is what an error puts before the names of their kinds."""
    if isinstance(columns, FeatureColumn):
        columns = [columns]
    if isinstance(columns, dict):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    columns = list(columns)
    for c in columns:
        if not isinstance(c, kind):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            wanted = ("either a " if len(kinds) > 1 else "a ") + " or ".join(mark + k.__name__ for k in kinds)
            raise ValueError(f"Items of feature_columns must be {wanted}. You can wrap a categorical column with an "
                             f"embedding_column or indicator_column. Given: {c}")
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    names = [c.name for c in columns]
    for n in names:
        if names.count(n) > 1:
            raise ValueError(f"Duplicate feature column name found for columns: {n}")
    return sorted(columns, key=lambda c: c.name)


def _check_features(features: Any) -> None:
    if not hasattr(features, "items"):
        raise ValueError(f"We expected a dictionary here. Instead we got: {features}")


def _weights(collections: Any, trainable: bool, kept: list | None = None) -> Any:
    """How columns make variables in the variable scope that they are in."""
    def make(name: str, shape: Any, dtype: Any, initializer: Any, column_trainable: bool) -> Any:
        if isinstance(shape[0], KeySpace):
            variable = shape[0].variable(name, shape[1], initializer, trainable and column_trainable, collections)
        else:
            variable = tf.get_variable(name, shape, dtype, initializer, trainable=trainable and column_trainable,
                                       collections=collections)
        if kept is not None:
            kept.extend(variable if hasattr(variable, "_get_variable_list") else [variable])
        return variable
    return make


def _collections(given: Any) -> Any:
    if given is None:
        return None
    return list({*given, tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES})


@export(v1=["feature_column.input_layer"])
def input_layer(features: dict[str, Any], feature_columns: Any, weight_collections: Any = None, trainable: bool = True,
                cols_to_vars: Any = None, cols_to_output_tensors: Any = None) -> Any:
    """All dense columns side by side, sorted by name: [rows, numbers].

    Args:
        features: Features by name.
        feature_columns: Dense columns.
        weight_collections: Collections that variables are added to.
        trainable: Whether the variables are trained.
        cols_to_vars: Dictionary that gets the variables of each column.
        cols_to_output_tensors: Dictionary that gets the output of each column.

    Returns:
        A matrix [examples, numbers].

    >>> price = tf.feature_column.numeric_column("price")
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     print(sess.run(tf.feature_column.input_layer({"price": [[1.], [2.]]}, [price])))
    [[1.]
     [2.]]
    """
    columns = sorted_columns(feature_columns, DenseColumn, "_")
    _check_features(features)
    batch = Batch(features)
    with tf.variable_scope(None, default_name="input_layer", values=list(features.values())):
        variables: dict[Any, list] = {column: [] for column in columns}

        @contextlib.contextmanager
        def within(column: Any) -> Iterator[Any]:
            with _scope_of(column):
                yield _weights(_collections(weight_collections), trainable, variables[column])
        outputs = [tf.reshape(made, [tf.shape(made)[0], column.variable_shape.num_elements()])
                   for column, made in zip(columns, dense_of(columns, batch, within), strict=True)]
        if cols_to_vars is not None:
            cols_to_vars.update(variables)
        if cols_to_output_tensors is not None:
            cols_to_output_tensors.update(zip(columns, outputs, strict=True))
        check_rows(columns, outputs)
        return tf.concat(outputs, 1)


def check_rows(columns: list, outputs: list) -> None:
    """ValueError if two columns are known to have different numbers of rows."""
    known = [(c.name, t.shape[0]) for c, t in zip(columns, outputs, strict=True) if tf.Dimension(t.shape[0]).value is not None]
    for name, rows in known[1:]:
        if rows != known[0][1]:
            raise ValueError("Batch size (first dimension) of each feature must be same. Batch size of columns "
                             f"({known[0][0]}, {name}): ({known[0][1]}, {rows})")


def _scope_of(column: Any) -> Any:
    """A scope for each column; one for all columns that share a table."""
    if column._var_scope_name == column.name:
        return tf.variable_scope(None, default_name=column._var_scope_name)
    return tf.variable_scope(column._var_scope_name, reuse=tf.AUTO_REUSE)


@export(v1=["feature_column.linear_model"])
def linear_model(features: dict[str, Any], feature_columns: Any, units: int = 1, sparse_combiner: str = "sum",
                 weight_collections: Any = None, trainable: bool = True, cols_to_vars: Any = None,
                 do_fusion: Any = None) -> Any:
    """A weighted sum of all columns, dense or categorical, and a bias: [rows, units].

    >>> tf.feature_column.linear_model({"price": p, "word": w}, [price, words])
    """
    columns = sorted_columns(feature_columns, (DenseColumn, CategoricalColumn), "_")
    _check_features(features)
    batch, sums = Batch(features), []
    collections = _collections(weight_collections)
    with tf.variable_scope(None, default_name="linear_model", values=list(features.values())):
        for column in columns:
            variables: list = []
            weights = _weights(collections, trainable, variables)
            with tf.variable_scope(None, default_name=column._var_scope_name):
                sums.append(_weighted_sum(column, batch, weights, units, sparse_combiner))
            if cols_to_vars is not None:
                cols_to_vars[column] = variables
        kept: list = []
        bias = _weights(collections, trainable, kept)("bias_weights", [units], tf.float32, tf.zeros_initializer(), True)
        if cols_to_vars is not None:
            cols_to_vars["bias"] = kept
        return tf.nn.bias_add(tf.add_n(sums) if len(sums) > 1 else sums[0], bias, name="weighted_sum")


def _weighted_sum(column: Any, batch: Batch, weights: Any, units: int, combiner: str) -> Any:
    if isinstance(column, CategoricalColumn):
        ids, strengths = column.sparse(batch)
        flat = tf.sparse_reshape(ids, [ids.dense_shape[0], -1])
        strengths = None if strengths is None else tf.sparse_reshape(strengths, [strengths.dense_shape[0], -1])
        table = weights("weights", [column.num_buckets, units], tf.float32, tf.zeros_initializer(), True)
        return tf.nn.safe_embedding_lookup_sparse(table, flat, strengths, combiner=combiner, name="weighted_sum")
    size = column.variable_shape.num_elements()
    kernel = weights("weights", [size, units], tf.float32, tf.zeros_initializer(), True)       # before the column's own
    made = column.dense(batch, weights)
    return tf.matmul(tf.reshape(made, [-1, size]), kernel, name="weighted_sum")


@export("feature_column.make_parse_example_spec")
def make_parse_example_spec(feature_columns: Any) -> dict[str, Any]:
    """The features of columns for tf.io.parse_example.

    >>> tf.io.parse_example(serialized, tf.feature_column.make_parse_example_spec(columns))
    """
    out: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(f"All feature_columns must be FeatureColumn instances. Given: {column}")
        for key, value in column.parse_example_spec.items():
            if key in out and out[key] != value:
                raise ValueError(f"feature_columns contain different parse_spec for key {key}. Given {value} and {out[key]}")
            out[key] = value
    return out
