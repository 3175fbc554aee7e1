"""tf.get_embedding_variable: embedding variables by name, in variable scopes."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.graph.scopes import name_scope
from penstock._src.state.embeddings.options import EmbeddingVariableOption, config_of
from penstock._src.state.embeddings.variable import EmbeddingVariable, PartitionedEmbeddingVariable
from penstock._src.state.variables.initializers import TruncatedNormal
from penstock._src.state.variables.scope import get_variable_scope
from penstock._src.state.variables.store import current_store

_MANY = 1 << 20          # number of rows passed to partitioners: a table has no fixed size


@export(v1=["get_embedding_variable"])
def get_embedding_variable(name: str, embedding_dim: int, key_dtype: Any = dtypes.int64, value_dtype: Any = None,
                           initializer: Any = None, trainable: bool = True, collections: Any = None, partitioner: Any = None,
                           custom_getter: Any = None, ev_option: Any = None) -> Any:
    """The embedding variable of that name in the open variable scope: an existing one when reusing, else a new one.

    >>> table = tf.get_embedding_variable("users", embedding_dim=16)
    >>> tf.nn.embedding_lookup(table, ids)
    """
    def get(name: str, **_: Any) -> Any:
        scope = get_variable_scope()
        partition = partitioner if partitioner is not None else scope.partitioner
        full = f"{scope.name}/{name}" if scope.name else name
        return _get(full, embedding_dim, key_dtype, value_dtype, initializer, trainable, collections, partition, ev_option,
                    scope.reuse)
    return get(name) if custom_getter is None else custom_getter(get, name)


def _get(name: str, dim: int, key_dtype: Any, value_dtype: Any, initializer: Any, trainable: bool, collections: Any,
         partitioner: Any, option: Any, reuse: Any) -> Any:
    store = current_store()
    kept = not context.executing_eagerly() or store._store_eager_variables
    found = {**store._partitioned_vars, **store._vars}.get(name) if kept else None
    if found is not None and reuse:
        if not getattr(found, "_keyed", False) or found.dim != dim:
            raise ValueError(f"Trying to share variable {name}, but {found} is not an embedding variable with {dim} columns")
        return found
    if found is not None:
        raise ValueError(f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or "
                         "reuse=tf.AUTO_REUSE in VarScope?")
    if reuse is True:
        raise ValueError(f"Variable {name} does not exist, or was not created with tf.get_embedding_variable().")
    with name_scope(None):
        made = new_variable(name, dim, key_dtype, value_dtype, initializer, trainable, collections, _count(partitioner, dim),
                            option)
    if kept:
        (store._partitioned_vars if isinstance(made, PartitionedEmbeddingVariable) else store._vars)[name] = made
    return made


def _count(partitioner: Any, dim: int) -> int:
    """The number of parts that a partitioner returns; only keys can be partitioned."""
    if partitioner is None:
        return 1
    parts = partitioner(shape=TensorShape([_MANY, dim]), dtype=dtypes.float32)
    if any(p != 1 for p in parts[1:]):
        raise ValueError(f"An embedding variable can only be partitioned along its keys; partitioner returned {list(parts)}")
    return int(parts[0])


def new_variable(name: str, dim: int, key_dtype: Any = dtypes.int64, value_dtype: Any = None, initializer: Any = None,
                 trainable: bool = True, collections: Any = None, parts: int = 1, option: Any = None,
                 part: int | None = None) -> Any:
    """A new embedding variable: in several parts if there are more than one, or one of these."""
    option = option if option is not None else EmbeddingVariableOption()
    begins = initializer if initializer is not None else option.init_option.initializer if option.init_option else None
    begins = TruncatedNormal() if begins is None else begins() if isinstance(begins, type) else begins
    rows = option.init_option.default_value_dim if option.init_option else 1

    def make(own: str, part: int) -> EmbeddingVariable:
        config = config_of(name, dim, begins, option, part, parts)
        return EmbeddingVariable(own, config, key_dtype, value_dtype or dtypes.float32, begins, rows, trainable, collections)
    if parts == 1:
        return make(name, 0)
    if part is not None:
        return make(f"{name}/part_{part}", part)
    return PartitionedEmbeddingVariable(name, [make(f"{name}/part_{i}", i) for i in range(parts)])
