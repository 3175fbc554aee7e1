"""tf.get_multihash_variable: embeddings of many ids composed of the rows of two small tables."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.convert import convert
from penstock._src.ops.registry import get
from penstock._src.state.variables.initializers import TruncatedNormal
from penstock._src.state.variables.scope import get_variable

_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: get("AddV2")(a, b), "mul": lambda a, b: get("Mul")(a, b),
    "concat": lambda a, b: get("ConcatV2")([a, b], -1)}


class MultiHashVariable:
    """Two variables. The row of an id is composed of the one at its quotient and the one at its remainder, so that no two of
    the first `rows of one * rows of the other` ids have the same pair if both tables have the same number of rows."""

    def __init__(self, name: str, parts: list, operation: str):
        self.name, self.parts, self.operation = name, parts, operation

    dtype = property(lambda self: self.parts[0].dtype, doc="The type of the values.")

    def composed(self, ids: Any, lookup: Callable[[Any, Any], Any]) -> Any:
        """The embeddings of ids; `lookup` returns rows of a table."""
        ids = get("Cast")(convert(ids), DstT=dtypes.int64)
        sizes = [convert(p.shape[0], dtypes.int64) for p in self.parts]
        return _JOINS[self.operation](lookup(self.parts[0], get("FloorDiv")(ids, sizes[0])),
                                      lookup(self.parts[1], get("FloorMod")(ids, sizes[1])))


@export(v1=["get_multihash_variable"])
def get_multihash_variable(name: str, dims: Any, complementary_strategy: str = "Q-R", operation: str = "add",
                           dtype: Any = float, initializer: Any = None, regularizer: Any = None,
                           trainable: bool | None = None, collections: Any = None, caching_device: Any = None,
                           partitioner: Any = None, validate_shape: bool = True, use_resource: bool | None = None,
                           custom_getter: Any = None, constraint: Any = None, synchronization: Any = None,
                           aggregation: Any = None) -> MultiHashVariable:
    """Embeddings of `rows * rows` ids in two tables of `rows` rows, for `tf.nn.embedding_lookup`.

    Args:
        name: Name of the scope of the variables, `multhash_Q` and `multhash_R`.
        dims: The shapes of the two tables.
        complementary_strategy: "Q-R": rows are found by the quotient and by the remainder of an id.
        operation: How two rows are composed: "add", "mul" or "concat".
        dtype: Type of the values.
        initializer: Initializer of both variables.

    The other arguments are those of `tf.get_variable`.

    >>> table = tf.get_multihash_variable("items", [[1000, 16], [1000, 16]], operation="mul")
    >>> tf.nn.embedding_lookup(table, ids)
    """
    if complementary_strategy != "Q-R":
        raise ValueError(f"complementary_strategy must be 'Q-R', got {complementary_strategy!r}")
    if operation not in _JOINS:
        raise ValueError(f"operation must be one of {', '.join(map(repr, _JOINS))}, got {operation!r}")
    shapes = [list(d) for d in dims]
    if len(shapes) != 2 or any(len(s) != 2 for s in shapes):
        raise ValueError(f"dims must be the shapes of two matrices, got {dims}")
    if operation != "concat" and shapes[0][1] != shapes[1][1]:
        raise ValueError(f"The tables of operation {operation!r} must have the same number of columns, got {dims}")
    given = {n: v for n, v in (("synchronization", synchronization), ("aggregation", aggregation)) if v is not None}
    parts = [get_variable(f"{name}/multhash_{which}", shape, dtypes.as_dtype(dtypes.float32 if dtype is float else dtype),
                          TruncatedNormal() if initializer is None else initializer, regularizer, trainable, collections,
                          caching_device, partitioner, validate_shape, use_resource, custom_getter, constraint, **given)
             for which, shape in zip("QR", shapes, strict=True)]
    return MultiHashVariable(name, parts, operation)
