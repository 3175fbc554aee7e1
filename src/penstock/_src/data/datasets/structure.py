"""The structure of dataset elements: nested tuples and dicts of tensors and composite values.

Unlike in `penstock.nest`, a list is a value here: it becomes a tensor. The type of an element is the same structure of
TypeSpecs; in ops, an element is a flat list of tensors, in which a composite value is one variant.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock._src.base import dtypes, nest
from penstock._src.base.static_shape import TensorShape
from penstock._src.data.datasets.none_spec import NoneTensorSpec  # noqa: F401  (the type of None)
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.sparse_tensor import SparseTensor, SparseTensorSpec, SparseTensorValue
from penstock._src.graph.type_spec import TensorSpec, TypeSpec, type_spec_from_value
from penstock._src.library.ragged.tensor import convert_to_tensor_or_ragged_tensor
from penstock._src.library.ragged.value import RaggedTensorValue
from penstock._src.ops.state.tensor_array import TensorArraySpec


# -- nests in which lists are leaves --------------------------------------------------------------------------------------
def is_nested(x: Any) -> bool:
    """Whether `x` is a tuple, a dict, an attrs object or one that flattens itself."""
    if isinstance(x, tuple):
        return not isinstance(x, (SparseTensorValue, RaggedTensorValue))
    return isinstance(x, Mapping) or hasattr(type(x), "__attrs_attrs__") or nest.flattens_itself(type(x))


def _children(x: Any) -> list:
    if nest.flattens_itself(type(x)):
        return list(x.__tf_flatten__()[1])
    if isinstance(x, Mapping):
        try:
            return [x[k] for k in sorted(x)]
        except TypeError:
            raise TypeError("nest only supports dicts with sortable keys.") from None
    if hasattr(type(x), "__attrs_attrs__"):
        return [getattr(x, a.name) for a in type(x).__attrs_attrs__]
    return list(x)


def _like(x: Any, children: list) -> Any:
    if nest.flattens_itself(type(x)):
        return nest.sequence_like(x, children)
    if isinstance(x, Mapping):
        new = dict(zip(sorted(x), children, strict=True))
        pairs = [(k, new[k]) for k in x]
        return type(x)(x.default_factory, pairs) if hasattr(x, "default_factory") else type(x)(pairs)  # type: ignore[call-arg]
    if hasattr(type(x), "__attrs_attrs__") or hasattr(x, "_fields"):
        return type(x)(*children)
    return type(x)(children)


def flatten(x: Any) -> list:
    """The leaves."""
    return [leaf for child in _children(x) for leaf in flatten(child)] if is_nested(x) else [x]


def pack(like: Any, leaves: list) -> Any:
    """A structure like `like` with other leaves."""
    it = iter(leaves)

    def build(x: Any) -> Any:
        return _like(x, [build(c) for c in _children(x)]) if is_nested(x) else next(it)
    return build(like)


def assert_same(a: Any, b: Any, check_types: bool = True) -> None:
    """Raises ValueError or TypeError unless both have the same structure."""
    if is_nested(a) != is_nested(b):
        raise ValueError(f"The two structures don't have the same nested structure: {a}, {b}.")
    if not is_nested(a):
        return
    if check_types and type(a) is not type(b) and not (isinstance(a, Mapping) and isinstance(b, Mapping)):
        raise TypeError(f"The two structures don't have the same sequence type: {type(a).__name__}, {type(b).__name__}.")
    if isinstance(a, Mapping) and set(a) != set(b):
        raise ValueError(f"The two dictionaries don't have the same set of keys: {sorted(a)}, {sorted(b)}.")
    x, y = _children(a), _children(b)
    if len(x) != len(y):
        raise ValueError(f"The two structures don't have the same number of elements: {a}, {b}.")
    for i, j in zip(x, y, strict=True):
        assert_same(i, j, check_types)


def map_structure(f: Callable, *structures: Any) -> Any:
    """The structure of f(x, y, ...) over corresponding leaves."""
    for s in structures[1:]:
        assert_same(structures[0], s)
    return pack(structures[0], [f(*leaves) for leaves in zip(*map(flatten, structures), strict=True)])


def flatten_up_to(shallow: Any, deep: Any) -> list:
    """The parts of `deep` at the places of the leaves of `shallow`."""
    if not is_nested(shallow):
        return [deep]
    if not is_nested(deep):
        raise TypeError(f"If shallow structure is a sequence, input must also be a sequence. Input has type: {type(deep)}.")
    if isinstance(shallow, Mapping) != isinstance(deep, Mapping):
        raise TypeError(f"The two structures don't have the same sequence type: {type(deep)}, {type(shallow)}.")
    x, y = _children(shallow), _children(deep)
    if len(x) != len(y):
        raise ValueError(f"The two structures don't have the same sequence length. Input structure has length {len(y)}, while "
                         f"shallow structure has length {len(x)}.")
    return [v for s, d in zip(x, y, strict=True) for v in flatten_up_to(s, d)]


# -- values and their types -------------------------------------------------------------------------------------------------
def _is_composite(x: Any) -> bool:
    return hasattr(type(x), "_type_spec") and not isinstance(x, Tensor) or getattr(x, "_is_tensor_array", False)


def _is_dataset(x: Any) -> bool:
    return hasattr(x, "_variant_tensor") and hasattr(x, "element_spec")


def normalize(element: Any) -> Any:
    """The element with everything that is not composite as a tensor."""
    def leaf(x: Any) -> Any:
        if isinstance(x, SparseTensorValue):
            return SparseTensor.from_value(x)
        if isinstance(x, RaggedTensorValue):
            return convert_to_tensor_or_ragged_tensor(x)
        if isinstance(x, list) and x and all(_is_dataset(d) for d in x):
            return x[0]._stacked(x)
        return x if x is None or _is_composite(x) else convert(x)
    return pack(element, [leaf(x) for x in flatten(element)])


def spec_of(element: Any) -> Any:
    """The type of an element: a structure of TypeSpecs."""
    def leaf(x: Any) -> Any:
        spec = type_spec_from_value(x)
        return TensorSpec(spec.shape, spec.dtype) if type(spec) is TensorSpec and spec.name else spec
    return pack(element, [leaf(x) for x in flatten(element)])


def flat_specs(spec: Any) -> list:
    """The TensorSpecs of the flat tensors of an element."""
    return [t for s in flatten(spec) for t in s._flat_tensor_specs]


def flat_types(spec: Any) -> list:
    """Their dtypes."""
    return [s.dtype for s in flat_specs(spec)]


def flat_shapes(spec: Any) -> list:
    """Their static shapes."""
    return [s.shape for s in flat_specs(spec)]


def outputs(spec: Any) -> dict[str, Any]:
    """The attributes of dataset ops that have the type of their elements."""
    return {"output_types": flat_types(spec), "output_shapes": flat_shapes(spec)}


def to_tensors(spec: Any, element: Any) -> list:
    """An element as flat tensors."""
    assert_same(spec, element)
    return [t for s, x in zip(flatten(spec), flatten(element), strict=True) for t in s._to_tensor_list(x)]


def to_batched_tensors(spec: Any, element: Any) -> list:
    """An element that is a batch as flat tensors whose slices are the elements."""
    return [t for s, x in zip(flatten(spec), flatten(element), strict=True) for t in s._to_batched_tensor_list(x)]


def from_tensors(spec: Any, tensors: list) -> Any:
    """An element from flat tensors."""
    out, i = [], 0
    for s in flatten(spec):
        n = len(s._flat_tensor_specs)
        out.append(s._from_compatible_tensor_list(list(tensors[i:i + n])))
        i += n
    return pack(spec, out)


def compatible(a: Any, b: Any) -> bool:
    """Whether elements of type `b` may be of type `a`."""
    try:
        assert_same(a, b)
    except (TypeError, ValueError):
        return False
    return all(x.is_compatible_with(y) for x, y in zip(flatten(a), flatten(b), strict=True))


def batched(spec: Any, size: Any) -> Any:
    """The type of batches."""
    return map_structure(lambda s: s._batch(size), spec)


def unbatched(spec: Any) -> Any:
    """The type of the rows of batches."""
    return map_structure(lambda s: s._unbatch(), spec)


# -- types as 1.x says them -------------------------------------------------------------------------------------------------
def legacy(spec: Any, what: str) -> Any:
    """The types, shapes or classes of an element."""
    return map_structure(lambda s: getattr(s, f"_to_legacy_output_{what}")(), spec)


def from_legacy(types: Any, shapes: Any = None, classes: Any = None) -> Any:
    """The structure of TypeSpecs for structures of types, shapes and classes."""
    flat = flatten(types)
    flat_classes = [Tensor] * len(flat) if classes is None else flatten_up_to(types, classes)
    flat_dims = [None] * len(flat) if shapes is None else flatten_up_to(types, shapes)
    return pack(types, [_legacy_leaf(t, s, c) for t, s, c in zip(flat, flat_dims, flat_classes, strict=True)])


def _legacy_leaf(dtype: Any, shape: Any, kind: Any) -> TypeSpec:
    if isinstance(dtype, TypeSpec):
        return dtype
    if isinstance(kind, TypeSpec):
        return kind
    if kind is SparseTensor:
        return SparseTensorSpec(shape, dtype)
    if kind is Tensor or kind is None:
        return TensorSpec(shape, dtype)
    if getattr(kind, "__name__", "") == "TensorArray":
        return TensorArraySpec(TensorShape(shape)[2:], dtype)
    raise TypeError(f"Could not build a structure for output class {kind!r}")


def is_variant(spec: Any) -> bool:
    """Whether some component is represented by a variant."""
    return any(t == dtypes.variant for t in flat_types(spec))
