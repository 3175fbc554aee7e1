"""Nested structures: lists, tuples, dicts and similar containers, seen as trees whose leaves are everything else.

Fetches, loop variables, dataset elements and layer states all come as such trees. Here they are flattened
into lists, rebuilt, compared and mapped over. A type is a branch if it has a `_Kind`, which lists its children in a fixed order
and builds another one like it from new children. Everything else is built on that.

Branches are sequences (strings excepted), named tuples, mappings (children in order of their sorted keys, so
that a dict and an OrderedDict flatten alike), mapping views, attrs classes, and objects whose class defines
`__tf_flatten__` and `__tf_unflatten__`. Arrays and tensors are leaves.
With `expand_composites`, composite tensors (such as a SparseTensor) are branches too, whose one child is the
structure of their components; so are their type specs.
"""

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, Sequence
from typing import Any, NamedTuple

from penstock._src.base.api import export


class _Kind(NamedTuple):
    """How to take branches of one kind apart, and to build them."""

    items: Callable[[Any], Iterable[tuple[Any, Any]]]  # (key, child) pairs in a fixed order
    build: Callable[[Any, list], Any]  # one like the first argument, with these children


def _mapping_items(x: Mapping) -> list[tuple[Any, Any]]:
    try:
        keys = sorted(x)
    except TypeError:
        raise TypeError("nest only supports dicts with sortable keys.") from None
    return [(key, x[key]) for key in keys]


def _build_mapping(like: Mapping, children: list) -> Mapping:
    new = dict(zip(sorted(like), children, strict=True))
    pairs = [(key, new[key]) for key in like]
    kind: Any = like.__class__                         # the class of the dictionary inside, where a wrapper represents one
    made = kind(like.default_factory, pairs) if isinstance(like, collections.defaultdict) else kind(pairs)
    outer: Any = type(like)
    return made if kind is outer else outer(made)


def _attribute_items(x: Any) -> list[tuple[str, Any]]:
    return [(a.name, getattr(x, a.name)) for a in type(x).__attrs_attrs__]


def _field_items(x: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(x, name)) for name in x._fields]


def _component_items(x: Any) -> list[tuple[str, Any]]:
    return [(type(x).__name__, x._type_spec._to_components(x))]


def _component_spec_items(spec: Any) -> list[tuple[str, Any]]:
    return [(spec.value_type.__name__, spec._component_specs)]


def flattens_itself(cls: type) -> bool:
    """Whether a class (such as a dataclass) names the parts of its objects that are leaves, and the rest as metadata."""
    return hasattr(cls, "__tf_flatten__") and hasattr(cls, "__tf_unflatten__")


def _part_items(x: Any) -> Iterable[tuple[int, Any]]:
    return enumerate(x.__tf_flatten__()[1])


def _build_from_parts(like: Any, children: list) -> Any:
    return like.__tf_unflatten__(like.__tf_flatten__()[0], tuple(children))


_OBJECT = _Kind(_part_items, _build_from_parts)
_MAPPING = _Kind(_mapping_items, _build_mapping)
_VIEW = _Kind(enumerate, lambda like, children: list(children))
_SEQUENCE = _Kind(enumerate, lambda like, children: type(like)(children))
_ATTRS = _Kind(_attribute_items, lambda like, children: type(like)(*children))
_NAMED = _Kind(_field_items, lambda like, children: type(like)(*children))
_COMPOSITE = _Kind(_component_items, lambda like, children: like._type_spec._from_components(children[0]))
_SPEC = _Kind(_component_spec_items, lambda like, children: like._from_components(children[0]))


def _find_kind(cls: type, expand: bool) -> _Kind | None:
    """The kind of branch that objects of `cls` are, or None if they are leaves."""
    if flattens_itself(cls):
        return _OBJECT
    if issubclass(cls, Mapping):
        return _MAPPING
    if issubclass(cls, (MappingView, range)):
        return _VIEW
    if hasattr(cls, "__attrs_attrs__"):
        return _ATTRS
    if issubclass(cls, tuple) and _is_named(cls):
        return _NAMED
    if expand and hasattr(cls, "_type_spec"):
        return _COMPOSITE
    if expand and hasattr(cls, "_component_specs") and not getattr(cls, "_is_leaf_spec", False):
        return _SPEC
    if issubclass(cls, Sequence) and not issubclass(cls, (str, bytes, bytearray)):
        return _SEQUENCE
    return None


_kind: Callable[[type, bool], _Kind | None] = functools.lru_cache(maxsize=2048)(_find_kind)


def _branch(value: Any, expand: bool) -> _Kind:
    """The kind of a value that is a branch."""
    found = _kind(type(value), expand)
    if found is None:
        raise TypeError(f"{value!r} is not a nested structure")
    return found


@export("__internal__.nest.is_mapping")
def is_mapping(x: Any) -> bool:
    """Whether `x` is a dictionary or another mapping."""
    return isinstance(x, Mapping)


@export("__internal__.nest.is_attrs")
def is_attrs(x: Any) -> bool:
    """Whether `x` is an object of an attrs class."""
    return hasattr(type(x), "__attrs_attrs__")


@export("__internal__.nest.sequence_like")
def sequence_like(instance: Any, args: Any) -> Any:
    """A branch like `instance`, with the children `args`.

    sequence_like({"a": 1, "b": 2}, [3, 4])  # {"a": 3, "b": 4}
    """
    return _branch(instance, True).build(instance, list(args))


@export("__internal__.nest.list_to_tuple")
def list_to_tuple(structure: Any) -> Any:
    """The structure with each list replaced by a tuple."""
    if isinstance(structure, list):
        return tuple(list_to_tuple(x) for x in structure)
    kind = _kind(type(structure), False)
    if kind is None:
        return structure
    return kind.build(structure, [list_to_tuple(child) for _, child in kind.items(structure)])


def _is_named(cls: type) -> bool:
    fields = getattr(cls, "_fields", None)
    return isinstance(fields, tuple) and all(isinstance(name, str) for name in fields)


def _untracked(kind: type) -> type:
    """The type of a tuple that a trackable object has wrapped."""
    return getattr(kind, "_tracked_type", kind)


def _same_named(a: Any, b: Any) -> bool:
    """Whether two named tuple types are equivalent: one name, and the same fields."""
    return _is_named(a) and _is_named(b) and a.__name__ == b.__name__ and a._fields == b._fields


@export("nest.is_nested", v1=["nest.is_sequence"])
def is_nested(seq: Any) -> bool:
    """Whether `seq` is a branch: a list, tuple, dict or another container, not a string or a tensor.

    tf.nest.is_nested([1, 2]), tf.nest.is_nested("ab")  # (True, False)
    """
    return _kind(type(seq), False) is not None


is_sequence = is_nested


@export(v1=["nest.is_sequence_or_composite"])
def is_nested_or_composite(seq: Any) -> bool:
    """Whether `seq` is a branch when composite tensors are expanded."""
    return _kind(type(seq), True) is not None


@export("nest.flatten")
def flatten(structure: Any, expand_composites: bool = False) -> list:
    """The leaves of a structure as a list; of a leaf, the list of it alone.

    tf.nest.flatten({"b": [2, 3], "a": 1})  # [1, 2, 3]

    Raises:
      TypeError: if a dict's keys cannot be sorted.
    """
    leaves: list = []
    _collect(structure, expand_composites, leaves)
    return leaves


def _collect(node: Any, expand: bool, leaves: list) -> None:
    kind = _kind(type(node), expand)
    if kind is None:
        leaves.append(node)
        return
    for _, child in kind.items(node):
        _collect(child, expand, leaves)


@export("nest.pack_sequence_as")
def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """A structure like `structure`, with the items of `flat_sequence` as its leaves: undoes `flatten`.

    tf.nest.pack_sequence_as({"b": [0, 0], "a": 0}, [1, 2, 3])  # {"b": [2, 3], "a": 1}

    Raises:
      ValueError: if there are more or fewer items than leaves.
    """
    if _kind(type(flat_sequence), expand_composites) is None:
        raise TypeError("flat_sequence must be a sequence")
    items = list(flat_sequence)
    if _kind(type(structure), expand_composites) is None:
        if len(items) != 1:
            raise ValueError(
                f"The target structure is of type `{type(structure)}`\n  {structure}\nHowever the input is a sequence "
                f"({type(flat_sequence)}) of length {len(items)}.\n  {flat_sequence}\nIt is not safe to map one to the other.")
        return items[0]
    count = len(flatten(structure, expand_composites))
    if count != len(items):
        raise ValueError(
            f"Could not pack sequence. Structure had {count} atoms, but flat_sequence had "
            f"{len(items)} items.  Structure: {structure}, flat_sequence: {flat_sequence}."
        )
    return _pack(structure, iter(items), expand_composites)


def _pack(like: Any, leaves: Iterator, expand: bool) -> Any:
    kind = _kind(type(like), expand)
    if kind is None:
        return next(leaves)
    return kind.build(like, [_pack(child, leaves, expand) for _, child in kind.items(like)])


@export("nest.map_structure")
def map_structure(func: Callable, *structure: Any, **kwargs: Any) -> Any:
    """A structure of `func(x, y, ...)` over corresponding leaves of structures that are nested alike.

    tf.nest.map_structure(lambda x, y: x + y, {"a": [1, 2]}, {"a": [10, 20]})  # {"a": [11, 22]}

    Args:
      func: takes as many leaves as there are structures.
      *structure: one or more structures.
      **kwargs: `check_types` (default True) and `expand_composites` (default False), as in
        `assert_same_structure`.
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    check_types = kwargs.pop("check_types", True)
    expand = kwargs.pop("expand_composites", False)
    if kwargs:
        raise ValueError(
            "Only valid keyword arguments are `check_types` and `expand_composites`, "
            f"not: `{'`, `'.join(kwargs)}`"
        )
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types, expand)
    leaves = [func(*xs) for xs in zip(*[flatten(s, expand) for s in structure], strict=True)]
    return pack_sequence_as(structure[0], leaves, expand)


# Comparing structures.


@export("nest.assert_same_structure")
def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raise unless two structures are nested in the same way.

    Named tuple types of one name and the same fields count as the same type; so do all mappings, and all
    lists.

    Args:
      nest1: a structure.
      nest2: a structure.
      check_types: whether branches must be of the same type, and mappings have the same keys.
      expand_composites: whether composite tensors are branches.

    Raises:
      ValueError: if the structures differ in shape.
      TypeError: if they differ in the types of their branches.

    >>> tf.nest.assert_same_structure({"a": 1, "b": [2, 3]}, {"a": 4, "b": [5, 6]})
    """
    fault = _difference(nest1, nest2, check_types, expand_composites)
    if fault is not None:
        error, text = fault
        raise error(
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: {_show(nest1)}\n\nSecond structure: {_show(nest2)}\n\n"
            f"More specifically: {text}\n"
            f"Entire first structure:\n{map_structure(lambda _: _DOT, nest1)}\n"
            f"Entire second structure:\n{map_structure(lambda _: _DOT, nest2)}"
        )


class _Dot:
    """Prints as a dot: a leaf in an outline of a structure."""

    def __repr__(self) -> str:
        return "."


_DOT = _Dot()

_Fault = tuple[type[Exception], str]


def _show(x: Any) -> str:
    return f"type={type(x).__name__} str={x}"


def _difference(a: Any, b: Any, check_types: bool, expand: bool) -> _Fault | None:
    """The first place where two structures differ: a class of error and a text, or None if they do not."""
    kind_a, kind_b = _kind(type(a), expand), _kind(type(b), expand)
    if kind_a is None and kind_b is None:
        return None
    if kind_a is None or kind_b is None:
        branch, leaf = (b, a) if kind_a is None else (a, b)
        text = f'Substructure "{_show(branch)}" is a sequence, while substructure "{_show(leaf)}" is not'
        return ValueError, text
    fault = _type_difference(a, b) if check_types else None
    if fault is None and _COMPOSITE in (kind_a, kind_b):
        fault = _spec_difference(a, b)
    if fault is not None:
        return fault
    children_a = [child for _, child in kind_a.items(a)]
    children_b = [child for _, child in kind_b.items(b)]
    for x, y in zip(children_a, children_b, strict=False):
        fault = _difference(x, y, check_types, expand)
        if fault is not None:
            return fault
    if len(children_a) != len(children_b):
        return ValueError, (
            "The two structures don't have the same number of elements. "
            f"First structure: {_show(a)}. Second structure: {_show(b)}"
        )
    return None


def _type_difference(a: Any, b: Any) -> _Fault | None:
    """How the types of two branches, or the keys of two mappings, differ."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if len(a) == len(b) and all(key in b for key in a):
            return None
        return ValueError, (
            "The two dictionaries don't have the same set of keys. "
            f"First structure has keys {list(a)}, while second structure has keys {list(b)}"
        )
    if type(a) is type(b) or isinstance(a, list) and isinstance(b, list) or _same_named(type(a), type(b)):
        return None
    if isinstance(a, tuple) and isinstance(b, tuple) and _untracked(type(a)) is _untracked(type(b)):
        return None
    if (_is_composite(a) or _is_spec(a)) and (_is_composite(b) or _is_spec(b)):
        return None                                                           # their specs are compared
    return TypeError, (
        f"The two structures don't have the same sequence type. First structure {_show(a)} has type "
        f"{type(a).__name__}, while second structure {_show(b)} has type {type(b).__name__}"
    )


def _is_composite(x: Any) -> bool:
    return _kind(type(x), True) is _COMPOSITE


def _is_spec(x: Any) -> bool:
    return _kind(type(x), True) is _SPEC


def _spec_difference(a: Any, b: Any) -> _Fault | None:
    """How composite tensors (or their specs) differ so far that no spec describes both."""
    spec_a = a._type_spec if _is_composite(a) else a
    spec_b = b._type_spec if _is_composite(b) else b
    try:
        spec_a.most_specific_compatible_type(spec_b)
    except (AttributeError, TypeError, ValueError) as e:
        return ValueError, f"Incompatible CompositeTensor TypeSpecs: {spec_a} vs. {spec_b} -- {e}"
    return None


@export(v1=["nest.assert_shallow_structure"])
def assert_shallow_structure(
    shallow_tree: Any,
    input_tree: Any,
    check_types: bool = True,
    expand_composites: bool = False,
    check_subtrees_length: bool = True,
) -> None:
    """Raise unless `input_tree` is `shallow_tree` with structures instead of some of its leaves.

    Args:
      shallow_tree: the upper part of a structure.
      input_tree: the structure.
      check_types: whether branches must be of the same type.
      expand_composites: whether composite tensors are branches.
      check_subtrees_length: whether branches must have the same number of children. If not, `input_tree` may
        have more, which are left out.

    Raises:
      ValueError: if the structures differ in shape.
      TypeError: if they differ in the types of their branches.
    """
    kind = _kind(type(shallow_tree), expand_composites)
    if kind is None:
        return
    if _kind(type(input_tree), expand_composites) is None:
        raise TypeError(
            "If shallow structure is a sequence, input must also be a sequence. "
            f"Input has type: {type(input_tree)}."
        )
    if check_types:
        _check_shallow_type(shallow_tree, input_tree)
    if kind in (_COMPOSITE, _SPEC):
        fault = _spec_difference(shallow_tree, input_tree)
        if fault is not None:
            raise fault[0](fault[1])
    else:
        _check_shallow_length(_count(shallow_tree), _count(input_tree), check_subtrees_length)
    for _, shallow, deep in _pairs(shallow_tree, input_tree, expand_composites):
        assert_shallow_structure(shallow, deep, check_types, expand_composites, check_subtrees_length)


def _check_shallow_type(shallow: Any, deep: Any) -> None:
    alike = (
        isinstance(deep, type(shallow))
        or isinstance(deep, Mapping) and isinstance(shallow, Mapping)
        or isinstance(deep, list) and isinstance(shallow, list)           # the lists of modules and models, too
        or _same_named(type(shallow), type(deep))
        or {_kind(type(shallow), True), _kind(type(deep), True)} <= {_COMPOSITE, _SPEC}
    )
    if not alike:
        raise TypeError(
            "The two structures don't have the same sequence type. Input structure has type "
            f"{type(deep)}, while shallow structure has type {type(shallow)}."
        )


def _count(branch: Any) -> int:
    """The number of children of a branch."""
    return len(list(_branch(branch, True).items(branch)))


def _check_shallow_length(shallow: int, deep: int, exact: bool) -> None:
    if exact and deep != shallow:
        raise ValueError(
            "The two structures don't have the same sequence length. Input structure has length "
            f"{deep}, while shallow structure has length {shallow}."
        )
    if deep < shallow:
        raise ValueError(
            "The input_tree has fewer elements than the shallow_tree. Input structure has length "
            f"{deep}, while shallow structure has length {shallow}."
        )


def _pairs(shallow: Any, deep: Any, expand: bool) -> list[tuple[Any, Any, Any]]:
    """(key, child of shallow, child of deep): by key if the shallow one is a mapping, else by position."""
    items = list(_branch(shallow, expand).items(shallow))
    others = list(_branch(deep, expand).items(deep))
    if not isinstance(shallow, Mapping):
        return [(key, child, other) for (key, child), (_, other) in zip(items, others, strict=False)]
    by_key = dict(others)
    absent = [key for key, _ in items if key not in by_key]
    if absent:
        raise ValueError(
            f"The keys of shallow_tree must be a subset of those of input_tree. Not in input_tree: {absent}."
        )
    return [(key, child, by_key[key]) for key, child in items]


# Partial structures and paths.


def _walk(shallow: Any, deep: Any, expand: bool, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """(path, part of deep) for every leaf of shallow."""
    if _kind(type(shallow), expand) is None:
        yield path, deep
        return
    for key, child, part in _pairs(shallow, deep, expand):
        yield from _walk(child, part, expand, (*path, key))


@export(v1=["nest.flatten_with_tuple_paths_up_to"])
def flatten_with_tuple_paths_up_to(
    shallow_tree: Any,
    input_tree: Any,
    check_types: bool = True,
    expand_composites: bool = False,
    check_subtrees_length: bool = True,
) -> list[tuple[tuple, Any]]:
    """`flatten_up_to`, with the path (a tuple of keys and indices) of each part: `[(path, part), ...]`."""
    assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites, check_subtrees_length)
    return list(_walk(shallow_tree, input_tree, expand_composites))


@export("__internal__.nest.flatten_up_to", v1=["nest.flatten_up_to"])
def flatten_up_to(
    shallow_tree: Any,
    input_tree: Any,
    check_types: bool = True,
    expand_composites: bool = False,
    check_subtrees_length: bool = True,
) -> list:
    """The parts of `input_tree` at the leaves of `shallow_tree`.

    flatten_up_to([0, 0], [[1, 2], [3, 4]])  # [[1, 2], [3, 4]]

    Takes the arguments, and raises the errors, of `assert_shallow_structure`.
    """
    pairs = flatten_with_tuple_paths_up_to(
        shallow_tree, input_tree, check_types, expand_composites, check_subtrees_length
    )
    return [part for _, part in pairs]


@export(v1=["nest.map_structure_with_tuple_paths_up_to"])
def map_structure_with_tuple_paths_up_to(shallow_tree: Any, func: Callable, *inputs: Any, **kwargs: Any) -> Any:
    """A structure like `shallow_tree` of `func(path, x, y, ...)` over corresponding parts of the inputs.

    Args:
      shallow_tree: the upper part that the inputs have in common.
      func: takes a path and as many parts as there are inputs.
      *inputs: one or more structures.
      **kwargs: `check_types`, `expand_composites`, `check_subtrees_length`, as in `assert_shallow_structure`;
        anything else is passed on to `func`.
    """
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    check_types = kwargs.pop("check_types", True)
    expand = kwargs.pop("expand_composites", False)
    check_length = kwargs.pop("check_subtrees_length", True)
    options = (check_types, expand, check_length)
    walks = [flatten_with_tuple_paths_up_to(shallow_tree, tree, *options) for tree in inputs]
    leaves = []
    for step in zip(*walks, strict=True):
        path = step[0][0]
        leaves.append(func(path, *[part for _, part in step], **kwargs))
    return pack_sequence_as(shallow_tree, leaves, expand)


@export("__internal__.nest.map_structure_up_to", v1=["nest.map_structure_up_to"])
def map_structure_up_to(shallow_tree: Any, func: Callable, *inputs: Any, **kwargs: Any) -> Any:
    """A structure like `shallow_tree` of `func(x, y, ...)` over corresponding parts of the inputs.

    map_structure_up_to([0, 0], len, [[1, 2], [3]])  # [2, 1]

    Takes the keyword arguments of `map_structure_with_tuple_paths_up_to`.
    """
    without_path = lambda _, *parts, **options: func(*parts, **options)
    return map_structure_with_tuple_paths_up_to(shallow_tree, without_path, *inputs, **kwargs)


@export(v1=["nest.map_structure_with_tuple_paths"])
def map_structure_with_tuple_paths(func: Callable, *structure: Any, **kwargs: Any) -> Any:
    """`map_structure`, where `func` gets the path of the leaves, a tuple of keys and indices, first."""
    if not structure:
        raise ValueError("Must provide at least one structure")
    return map_structure_with_tuple_paths_up_to(structure[0], func, *structure, **kwargs)


@export(v1=["nest.map_structure_with_paths"])
def map_structure_with_paths(func: Callable, *structure: Any, **kwargs: Any) -> Any:
    """`map_structure`, where `func` gets the path of the leaves, as `"a/0/b"`, first."""
    with_text = lambda path, *leaves, **options: func("/".join(map(str, path)), *leaves, **options)
    return map_structure_with_tuple_paths(with_text, *structure, **kwargs)


@export("__internal__.nest.yield_flat_paths", v1=["nest.yield_flat_paths"])
def yield_flat_paths(nest: Any, expand_composites: bool = False) -> Iterator[tuple]:
    """The paths of the leaves, tuples of keys and indices, in the order of `flatten`."""
    for path, _ in _walk(nest, nest, expand_composites):
        yield path


@export(v1=["nest.flatten_with_tuple_paths"])
def flatten_with_tuple_paths(structure: Any, expand_composites: bool = False) -> list[tuple[tuple, Any]]:
    """`[(path, leaf), ...]`, each path a tuple of keys and indices."""
    return list(_walk(structure, structure, expand_composites))


@export("__internal__.nest.flatten_with_joined_string_paths", v1=["nest.flatten_with_joined_string_paths"])
def flatten_with_joined_string_paths(
    structure: Any, separator: str = "/", expand_composites: bool = False
) -> list[tuple[str, Any]]:
    """`[(path, leaf), ...]`, each path a text such as `"a/0/b"`."""
    pairs = _walk(structure, structure, expand_composites)
    return [(separator.join(map(str, path)), leaf) for path, leaf in pairs]


@export(v1=["nest.flatten_dict_items"])
def flatten_dict_items(dictionary: Mapping) -> dict:
    """A dict in which keys that are structures are replaced by their leaves, paired with those of the value.

    flatten_dict_items({(4, (5, 6)): ("a", ("b", "c"))})  # {4: "a", 5: "b", 6: "c"}

    Raises:
      ValueError: if a key and its value differ in size, or a key comes twice.
    """
    if not isinstance(dictionary, Mapping):
        raise TypeError("input must be a dictionary")
    flat: dict = {}
    for key, value in dictionary.items():
        keys, values = (flatten(key), flatten(value)) if is_nested(key) else ([key], [value])
        if len(keys) != len(values):
            raise ValueError(
                f"Could not flatten dictionary. Key had {len(keys)} elements, but value had {len(values)} "
                f"elements. Key: {keys}, value: {values}."
            )
        for k, v in zip(keys, values, strict=True):
            if k in flat:
                raise ValueError(f"Could not flatten dictionary: key {k} is not unique.")
            flat[k] = v
    return flat


@export("__internal__.nest.get_traverse_shallow_structure", v1=["nest.get_traverse_shallow_structure"])
def get_traverse_shallow_structure(traverse_fn: Callable, structure: Any, expand_composites: bool = False) -> Any:
    """A shallow structure of bools, True where `traverse_fn` requests a deeper traversal.

    Args:
      traverse_fn: takes any part of `structure`; returns a bool, or a branch like it of one bool per child.
      structure: the structure.
      expand_composites: whether composite tensors are branches.

    Raises:
      TypeError: if `traverse_fn` returns anything else.
    """
    answer = traverse_fn(structure)
    kind = _kind(type(structure), expand_composites)
    if kind is None:
        if not isinstance(answer, bool):
            raise TypeError(f"traverse_fn returned structure: {answer} for non-structure: {structure}")
        return answer
    if answer is False:
        return False
    children = [child for _, child in kind.items(structure)]
    if answer is True:
        answers = [True] * len(children)
    elif _kind(type(answer), expand_composites) is None:
        raise TypeError(f"traverse_fn returned a non-bool scalar: {answer} for input: {structure}")
    else:
        assert_shallow_structure(answer, structure, expand_composites=expand_composites)
        answers = [a for _, a, _ in _pairs(answer, structure, expand_composites)]
    if not all(isinstance(a, bool) for a in answers):
        text = f"saw: {answer} for structure: {structure}"
        raise TypeError(f"traverse_fn didn't return a depth=1 structure of bools.  {text}")
    deeper = [
        get_traverse_shallow_structure(traverse_fn, child, expand_composites) if go else False
        for go, child in zip(answers, children, strict=True)
    ]
    return kind.build(structure, deeper)
