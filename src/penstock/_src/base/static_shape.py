"""Static shapes: what is known of a tensor's shape before it exists.

Two layers. Below, *dims*: a shape is `None` (nothing known) or a tuple whose items are an int or `None` (this
size is unknown). Shape rules of ops work on dims with the functions at the end of this module (`merge`,
`broadcast`, `rank_is`, ...), which are plain and quick. Above, what users see: `TensorShape`, a thin wrapper
of dims, and `Dimension`, the wrapper of one size that TensorFlow 1 programs expect when they index a shape.

Which of the two a program gets from `shape[0]` is a global switch (`enable_v2_tensorshape`): an int or `None`
by default, a `Dimension` after `disable_v2_tensorshape()`.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.base.modes import process

Dims = tuple[Any, ...] | Any         # sizes, of which some may be None; None if the rank is unknown

@export(v1=["enable_v2_tensorshape"])
def enable_v2_tensorshape() -> None:
    """Let indexing and iterating over a `TensorShape` return ints and `None` (the default)."""
    process.v2_tensorshape = True


@export(v1=["disable_v2_tensorshape"])
def disable_v2_tensorshape() -> None:
    """Let indexing and iterating over a `TensorShape` return `Dimension` objects, as TensorFlow 1 did."""
    process.v2_tensorshape = False


@export("compat.dimension_value", v1=["dimension_value"])
def dimension_value(dimension: "Dimension | int | None") -> int | None:
    """The int or `None` of the result of indexing a shape, whatever the setting of the switch.

    tf.compat.dimension_value(x.shape[0])
    """
    return dimension.value if isinstance(dimension, Dimension) else dimension


@export("compat.dimension_at_index", v1=["dimension_at_index"])
def dimension_at_index(shape: "TensorShape", index: int) -> "Dimension":
    """The `Dimension` at `index`, unknown if the rank is; the counterpart of `dimension_value`."""
    if not isinstance(shape, TensorShape):
        raise TypeError(f"dimension_at_index takes a TensorShape, not {type(shape).__name__}")
    return Dimension(None if shape.static_dims is None else shape.static_dims[index])


def _size(value: Any) -> int | None:
    """The size that `value` (an int, a numeral, a Dimension, None) represents."""
    if type(value) is int and value >= 0 or value is None:
        return value
    if isinstance(value, Dimension):
        return value._value
    if isinstance(value, (str, bytes)) and value.isdigit():
        size = int(value)
    elif isinstance(value, dtypes.DType):
        raise TypeError(f"Cannot convert {value} to Dimension")
    else:
        size = _integer(value)
    if size < 0:
        raise ValueError(f"Dimension {size} must be >= 0")
    return size


def _integer(value: Any) -> int:
    """An integer, or a number that equals one. Integer tensors are not compared: `==` of them may be an op of a graph."""
    try:
        return operator.index(value)
    except (TypeError, AttributeError):
        pass
    try:
        size = int(value)
    except (TypeError, ValueError):
        raise TypeError(f"Dimension value must be integer or None, got {value!r}") from None
    if size != value:
        raise ValueError(f"Ambiguous dimension: {value}")
    return size


def _arithmetic(function: Callable[[int, int], Any], reflected: bool = False) -> Callable[[Any, Any], Any]:
    """An operator on dimensions: unknown if either side is."""

    def method(self: "Dimension", other: Any) -> "Dimension":
        try:
            other = _size(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or other is None:
            return Dimension(None)
        return Dimension(function(other, self._value) if reflected else function(self._value, other))

    return method


def _comparison(function: Callable[[int, int], Any]) -> Callable[[Any, Any], Any]:
    """A comparison of dimensions: None (neither true nor false) if either side is unknown."""

    def method(self: "Dimension", other: Any) -> bool | None:
        try:
            other = _size(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self._value is None or other is None:
            return None
        return function(self._value, other)

    return method


def _no_division(left: str, right: str) -> TypeError:
    return TypeError(f"unsupported operand type(s) for /: '{left}' and '{right}', please use // instead")


@export(v1=["Dimension"])
class Dimension:
    """One size of a shape: an int, or unknown (`Dimension(None)`).

    Arithmetic with an unknown dimension yields an unknown one; comparisons with it yield `None`.
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = _size(value)

    @property
    def value(self) -> int | None:
        """The size, or None if it is unknown."""
        return self._value

    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)
    __hash__ = None  # type: ignore[assignment]

    __add__ = __radd__ = _arithmetic(operator.add)
    __sub__ = _arithmetic(operator.sub)
    __rsub__ = _arithmetic(operator.sub, reflected=True)
    __mul__ = __rmul__ = _arithmetic(operator.mul)
    __floordiv__ = _arithmetic(operator.floordiv)
    __rfloordiv__ = _arithmetic(operator.floordiv, reflected=True)
    __mod__ = _arithmetic(operator.mod)
    __rmod__ = _arithmetic(operator.mod, reflected=True)

    def __truediv__(self, other: object) -> NoReturn:
        raise _no_division("Dimension", type(other).__name__)

    def __rtruediv__(self, other: object) -> NoReturn:
        raise _no_division(type(other).__name__, "Dimension")

    def __int__(self) -> int:
        return self._value  # type: ignore[return-value]  # Python raises TypeError for None

    def __index__(self) -> int:
        return self._value  # type: ignore[return-value]  # Python raises TypeError for None

    def __bool__(self) -> bool:
        return bool(self._value)

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __reduce__(self) -> tuple[type["Dimension"], tuple[int | None]]:
        return Dimension, (self._value,)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether both can represent the same size."""
        other = _size(other)
        return self._value is None or other is None or self._value == other

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError unless both can represent the same size."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other: Any) -> "Dimension":
        """The merged size; ValueError if they contradict each other."""
        other = as_dimension(other)
        self.assert_is_compatible_with(other)
        return Dimension(other._value if self._value is None else self._value)


def as_dimension(value: Any) -> Dimension:
    """`value` as a `Dimension`."""
    return value if isinstance(value, Dimension) else Dimension(value)


@export("TensorShape")
class TensorShape:
    """A shape of which all, some or nothing is known.

        tf.TensorShape([16, 256])    # fully defined
        tf.TensorShape([None, 256])  # the first size is unknown
        tf.TensorShape(None)         # not even the rank is known

    Shapes are immutable and may be shared.

    Args:
        dims: Sizes, of which some may be None; None for an unknown rank.

    >>> tf.TensorShape([2, None]).is_compatible_with([2, 3])
    True
    >>> tf.TensorShape([2, None]).as_list()
    [2, None]
    """

    __slots__ = ("static_dims", "__weakref__")
    _dims = property(lambda self: self.static_dims)             # Keras 3 reads it

    def __init__(self, dims: Any) -> None:
        self.static_dims: Any = as_dims(dims)                   # callers know whether the rank is known

    @classmethod
    def of(cls, dims: Dims) -> "TensorShape":
        """Wrap dims without checking them, for dims that are known to be valid."""
        return _wrap(dims)

    @property
    def dims(self) -> list[Dimension] | None:
        """A list of `Dimension`, or None if the rank is unknown."""
        return None if self.static_dims is None else [Dimension(d) for d in self.static_dims]

    @property
    def _v2_behavior(self) -> bool:
        return process.v2_tensorshape

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None if it is unknown."""
        return None if self.static_dims is None else len(self.static_dims)

    @property
    def ndims(self) -> int | None:
        """The older name of `rank`."""
        return self.rank

    def __len__(self) -> int:
        if self.static_dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self.static_dims)

    def __bool__(self) -> bool:
        return self.static_dims is not None

    def __iter__(self) -> Iterator:
        if self.static_dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter(self.static_dims) if process.v2_tensorshape else map(Dimension, self.static_dims)

    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            return _wrap(_slice(self.static_dims, key))
        size = None if self.static_dims is None else self.static_dims[key]
        return size if process.v2_tensorshape else Dimension(size)

    def __str__(self) -> str:
        if process.v2_tensorshape and self.static_dims is not None:
            return str(self.static_dims)
        return show(self.static_dims)

    def __repr__(self) -> str:
        if self.static_dims is None:
            return "TensorShape(None)"
        return f"TensorShape({list(self.static_dims)!r})" if process.v2_tensorshape else f"TensorShape({self.dims!r})"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        try:
            other = as_dims(other)
        except (TypeError, ValueError):
            return NotImplemented
        return self.static_dims == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.static_dims)

    def __reduce__(self) -> tuple[type["TensorShape"], tuple[list[Dimension] | None]]:
        return TensorShape, (self.dims,)

    def __add__(self, other: Any) -> "TensorShape":
        return self.concatenate(other)

    def __radd__(self, other: Any) -> "TensorShape":
        return as_shape(other).concatenate(self)

    def __concat__(self, other: Any) -> "TensorShape":
        return self.concatenate(other)

    def num_elements(self) -> int | None:
        """The product of the sizes, or None if one is unknown."""
        return num_elements(self.static_dims)

    def as_list(self) -> list[int | None]:
        """The sizes as a list of ints and None."""
        if self.static_dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self.static_dims)

    def as_proto(self) -> Any:
        """This shape as a `TensorShapeProto`."""
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

        if self.static_dims is None:
            return TensorShapeProto(unknown_rank=True)
        return TensorShapeProto(dim=[TensorShapeProto.Dim(size=-1 if d is None else d) for d in self.static_dims])

    def merge_with(self, other: Any) -> "TensorShape":
        """The merged shape; ValueError if they contradict each other."""
        other = as_dims(other)
        if not compatible(self.static_dims, other):
            raise ValueError(f"Shapes {show(self.static_dims)} and {show(other)} are not compatible")
        return _wrap(merge(self.static_dims, other))

    def concatenate(self, other: Any) -> "TensorShape":
        """The sizes of this shape followed by those of `other`; unknown if either rank is."""
        return _wrap(concat(self.static_dims, as_dims(other)))

    def assert_same_rank(self, other: Any) -> None:
        """Raise ValueError if the ranks are known and differ."""
        other = as_shape(other)
        if self.static_dims is not None and other.static_dims is not None and len(self.static_dims) != len(other.static_dims):
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError if the rank is known and is not `rank`."""
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def with_rank(self, rank: int) -> "TensorShape":
        """This shape, known to have `rank` dimensions; ValueError if it has not."""
        self.assert_has_rank(rank)
        return _wrap((None,) * rank) if self.static_dims is None else self

    def with_rank_at_least(self, rank: int) -> "TensorShape":
        """This shape; ValueError if it has fewer than `rank` dimensions."""
        if self.static_dims is not None and len(self.static_dims) < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> "TensorShape":
        """This shape; ValueError if it has more than `rank` dimensions."""
        if self.static_dims is not None and len(self.static_dims) > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def is_compatible_with(self, other: Any) -> bool:
        """Whether there is a shape that both describe. An unknown shape is compatible with all."""
        return compatible(self.static_dims, as_dims(other))

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError unless there is a shape that both describe."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {as_shape(other)} are incompatible")

    def is_subtype_of(self, other: object) -> bool:
        """Whether `other` describes every shape that this one describes."""
        if other is None or not isinstance(other, TensorShape):
            return False
        if other.static_dims is None:
            return True
        if self.static_dims is None or len(self.static_dims) != len(other.static_dims):
            return False
        return all(b is None or a == b for a, b in zip(self.static_dims, other.static_dims, strict=True))

    def most_specific_compatible_shape(self, other: Any) -> "TensorShape":
        """The narrowest shape that describes both: sizes on which they differ become unknown."""
        return _wrap(common(self.static_dims, as_dims(other)))

    def most_specific_common_supertype(self, others: Sequence[Any]) -> "TensorShape | None":
        """The narrowest shape that describes this one and all of `others`."""
        if any(not isinstance(other, TensorShape) for other in others):
            return None
        return functools.reduce(TensorShape.most_specific_compatible_shape, others, self)

    def is_fully_defined(self) -> bool:
        """Whether the rank and every size are known."""
        return self.static_dims is not None and None not in self.static_dims

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError unless the rank and every size are known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")


@functools.lru_cache(maxsize=4096)
def _wrap(dims: Dims) -> TensorShape:
    shape = object.__new__(TensorShape)
    shape.static_dims = dims if dims is None or type(dims) is tuple else tuple(dims)
    return shape


def as_shape(shape: Any) -> TensorShape:
    """`shape` as a `TensorShape`."""
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def unknown_shape(rank: int | None = None, **kwargs: int | None) -> TensorShape:
    """A shape of which nothing is known, except perhaps the rank (`ndims` is an older name of `rank`)."""
    if rank is None and "ndims" in kwargs:
        rank = kwargs.pop("ndims")
    if kwargs:
        raise TypeError(f"Unknown argument: {kwargs}")
    return _wrap(None if rank is None else (None,) * rank)


def scalar() -> TensorShape:
    """The shape of a scalar."""
    return _wrap(())


def vector(length: int | None) -> TensorShape:
    """The shape of a vector."""
    return TensorShape([length])


def matrix(rows: int | None, cols: int | None) -> TensorShape:
    """The shape of a matrix."""
    return TensorShape([rows, cols])


# Dims: what shape rules work with.


def as_dims(x: Any) -> Dims:
    """Dims of anything that describes a shape: a TensorShape, a sequence, one size, a TensorShapeProto, None.

    Raises:
      TypeError: if `x` is not of a kind that describes a shape.
      ValueError: if a size is negative or not an integer.
    """
    if x is None:
        return None
    if type(x) is tuple or type(x) is list:
        return tuple([_size(d) for d in x])
    if isinstance(x, TensorShape):
        return x.static_dims
    if isinstance(x, (str, bytes)):
        raise TypeError(f"A string has ambiguous TensorShape, wrap it in a list or convert to an int: {x!r}")
    if hasattr(x, "unknown_rank") and hasattr(x, "dim"):
        if x.unknown_rank:
            return None
        return tuple(None if d.size == -1 else _size(d.size) for d in x.dim)
    try:
        sizes = iter(x)
    except TypeError:
        return (_size(x),)
    return tuple([_size(d) for d in sizes])


def show(dims: Dims) -> str:
    """Dims as they are written in messages: `(2, ?)`, `(7,)`, `<unknown>`."""
    if dims is None:
        return "<unknown>"
    text = ", ".join(["?" if d is None else str(d) for d in dims])
    return f"({text},)" if len(dims) == 1 else f"({text})"


def bracketed(dims: Dims) -> str:
    """Dims as run-time messages write them: `[2,?]`."""
    return "<unknown>" if dims is None else "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def num_elements(dims: Dims) -> int | None:
    """The product of the sizes, or None if the rank or a size is unknown."""
    if dims is None:
        return None
    product = 1
    for d in dims:
        if d is None:
            return None
        product *= d
    return product


def compatible(a: Dims, b: Dims) -> bool:
    """Whether there is a shape that both describe."""
    if a is None or b is None or a == b:
        return True
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        if x != y and x is not None and y is not None:
            return False
    return True


def merge(a: Dims, b: Dims) -> Dims:
    """The merged shape.

    Raises:
      ValueError: if they contradict each other.
    """
    if a is None or a == b:
        return b
    if b is None:
        return a
    if not compatible(a, b):
        raise ValueError(_contradiction(a, b))
    return tuple([y if x is None else x for x, y in zip(a, b, strict=True)])


def common(a: Dims, b: Dims) -> Dims:
    """The most specific shape that covers both."""
    if a == b:
        return a
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple([x if x == y else None for x, y in zip(a, b, strict=True)])


def _contradiction(a: tuple, b: tuple) -> str:
    """The message for two contradicting shapes, as TensorFlow's shape functions word it."""
    if len(a) != len(b):
        return f"Shapes must be equal rank, but are {len(a)} and {len(b)}. Shapes are {show(a)} and {show(b)}."
    i = next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if None not in (x, y) and x != y)
    return (f"Dimension {i} in both shapes must be equal, but are {a[i]} and {b[i]}. "
            f"Shapes are {show(a)} and {show(b)}.")


def concat(a: Dims, b: Dims) -> Dims:
    """The sizes of `a` followed by those of `b`; unknown if either rank is."""
    return None if a is None or b is None else a + b


def broadcast(a: Dims, b: Dims) -> Dims:
    """The shape to which `a` and `b` broadcast.

    An unknown size against a known one above 1 yields the known one (anything else would fail at run time); an
    unknown size against 1 or against another unknown size stays unknown.

    Raises:
      ValueError: if they cannot be broadcast, whatever the unknown sizes turn out to be.
    """
    if a is None or b is None:
        return None
    if a == b and None not in a:
        return a
    long, short = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(long) - len(short)
    out = list(long[:lead])
    for x, y in zip(long[lead:], short, strict=True):
        if x == 1:
            out.append(y)
        elif y == 1 or x == y:
            out.append(x)
        elif x is None or y is None:
            out.append(y if x is None else x)
        else:
            first, second = (x, y) if long is a else (y, x)
            raise ValueError(f"Dimensions must be equal, but are {first} and {second} "
                             f"(Incompatible shapes for broadcasting: {show(a)} and {show(b)})")
    return tuple(out)


def rank_is(dims: Dims, rank: int) -> tuple[int | None, ...]:
    """`dims`, known to have `rank` dimensions.

    Raises:
      ValueError: if they have another number of dimensions.
    """
    if dims is None:
        return (None,) * rank
    if len(dims) != rank:
        raise ValueError(f"Shape must be rank {rank} but is rank {len(dims)}")
    return dims


def rank_at_least(dims: Dims, rank: int) -> Dims:
    """`dims`, if they do not have fewer than `rank` dimensions.

    Raises:
      ValueError: if they have fewer.
    """
    if dims is not None and len(dims) < rank:
        raise ValueError(f"Shape must be at least rank {rank} but is rank {len(dims)}")
    return dims


def rank_at_most(dims: Dims, rank: int) -> Dims:
    """`dims`, if they do not have more than `rank` dimensions.

    Raises:
      ValueError: if they have more.
    """
    if dims is not None and len(dims) > rank:
        raise ValueError(f"Shape must be at most rank {rank} but is rank {len(dims)}")
    return dims


def _slice(dims: Dims, key: slice) -> Dims:
    """`dims[key]`, with as much of the rank as a slice of an unknown shape tells."""
    if dims is not None:
        return dims[key]
    if key.step is not None:
        raise ValueError("A shape of unknown rank cannot be sliced with a step")
    start = 0 if key.start is None else key.start
    if key.stop is None or start < 0 or key.stop < 0:
        return None
    return (None,) * max(key.stop - start, 0)
