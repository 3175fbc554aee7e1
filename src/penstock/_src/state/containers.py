"""Tracking wrappers of lists, dictionaries and tuples that are set as attributes.

An attribute `model.layers = [a, b]` becomes a `ListWrapper`: still a list, and a Trackable with dependencies "0" and "1".
A checkpoint needs stable names, so a list that was changed other than by appending cannot be saved.
"""
from __future__ import annotations

import collections
import copy
import operator
import sys
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, Sequence
from collections.abc import Mapping as AbstractMapping
from typing import Any, SupportsIndex

from penstock._src.base.api import export
from penstock._src.eager.function import ConcreteFunction, Function
from penstock._src.graph.trackable import Trackable, delete_tracking
from penstock._src.state.variables.variable import Variable


@export("__internal__.tracking.NoDependency")
class NoDependency:
    """A value to set as an attribute without tracking it."""

    _graph_view: Any
    restore: Any
    save: Any
    save_to: Any

    def __init__(self, value: Any):
        self.value = value


@export("__internal__.tracking.wrap")
def wrap(value: Any) -> Any:
    """Wraps lists, dictionaries and tuples for tracking, and unwraps NoDependency; returns other values unchanged."""
    if isinstance(value, NoDependency):
        return value.value
    if isinstance(value, Trackable):
        return value
    if type(value) in (dict, collections.OrderedDict):      # exact type only: a subclass may treat its items differently
        return DictWrapper(value)
    if type(value) is list:
        return ListWrapper(value)
    if isinstance(value, tuple) and _worth_tracking(value):
        return _wrapped_tuple(value)
    return value


wrap_or_unwrap = wrap              # the name that libraries import


def _worth_tracking(value: tuple) -> bool:
    return any(isinstance(v, (Trackable, list, dict)) or isinstance(v, tuple) and _worth_tracking(v) for v in value)


@export("__internal__.tracking.sticky_attribute_assignment")
def sticky_attribute_assignment(trackable: Any, name: str, value: Any) -> Any:
    """The value to set as an attribute; adds a dependency, or removes that of the former value."""
    untracked = isinstance(value, NoDependency)
    value = wrap(value)
    if not untracked and isinstance(value, Trackable):
        trackable._track_trackable(value, name=name, overwrite=True)
    elif hasattr(trackable, "_self_unconditional_dependency_names"):
        delete_tracking(trackable, name)
    return value


def _is_function(value: Any) -> bool:
    return isinstance(value, (Function, ConcreteFunction))


@export("__internal__.tracking.TrackableDataStructure")
class TrackableDataStructure(Trackable):
    """The base of the containers: their variables and layers."""

    _self_trainable = True

    @property
    def trainable(self) -> bool:
        """Whether the variables inside count as trainable."""
        return self._self_trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._self_trainable = value

    def _track_value(self, value: Any, name: str) -> Any:
        """The value in its tracking form; ValueError if it cannot be tracked."""
        value = sticky_attribute_assignment(self, name, value)
        if not isinstance(value, Trackable):
            raise ValueError("Only trackable objects (such as Layers or Optimizers) may be stored in a List object. Got "
                             f"{value}, which does not inherit from Trackable.")
        return value

    @property
    def _values(self) -> list:
        raise NotImplementedError("Abstract method")

    @property
    def _layers(self) -> list:
        return [v for v in self._values if isinstance(v, TrackableDataStructure) or hasattr(type(v), "trainable_weights")]

    @property
    def layers(self) -> list:
        """The layers inside, those in inner containers too, each once."""
        found: list = []
        for v in self._layers:
            for layer in v.layers if isinstance(v, TrackableDataStructure) else [v]:
                if not any(layer is f for f in found):
                    found.append(layer)
        return found

    def _own_variables(self) -> list:
        return [v for v in self._values if isinstance(v, Variable)]

    @property
    def trainable_weights(self) -> list:
        """The trainable variables inside."""
        if not self.trainable:
            return []
        own = [v for v in self._own_variables() if v.trainable]
        return _unique([*own, *(w for v in self._layers for w in v.trainable_weights)])

    @property
    def non_trainable_weights(self) -> list:
        """The other variables inside."""
        own = self._own_variables()
        inner = [w for v in self._layers for w in v.non_trainable_weights]
        if not self.trainable:
            return _unique([*own, *(w for v in self._layers for w in v.trainable_weights), *inner])
        return _unique([*(v for v in own if not v.trainable), *inner])

    weights = property(lambda self: self.trainable_weights + self.non_trainable_weights, doc="All variables inside.")
    trainable_variables = property(lambda self: self.trainable_weights, doc="The trainable variables inside.")
    non_trainable_variables = property(lambda self: self.non_trainable_weights, doc="The other variables inside.")
    variables = property(lambda self: self.weights, doc="All variables inside.")
    updates = property(lambda self: [u for v in self.layers for u in getattr(v, "updates", ())], doc="Updates of the layers.")
    losses = property(lambda self: [x for v in self.layers for x in getattr(v, "losses", ())], doc="Losses of the layers.")

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: Any) -> bool:
        return self is other


def _unique(items: list) -> list:
    return list({id(v): v for v in items}.values())


# -- lists -----------------------------------------------------------------------------------------------------------
class List(TrackableDataStructure, Sequence):
    """A list that can only grow, of trackable objects.

    >>> layers = List([a]); layers.append(b)
    """

    def __init__(self, *args: Any, **kwargs: Any):
        self._storage = self._make_storage(*args, **kwargs)
        for i, value in enumerate(self._storage):
            self._storage[i] = self._track_value(value, name=str(i))

    def _make_storage(self, *args: Any, **kwargs: Any) -> list:
        return list(*args, **kwargs)

    _values = property(lambda self: list(self._storage))

    def copy(self) -> Any:
        """A shallow copy."""
        return type(self)(copy.copy(self._storage))

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: dict) -> Any:
        return type(self)(copy.deepcopy(self._storage, memo))

    def append(self, value: Any) -> None:
        """Adds and tracks a value."""
        self._storage.append(self._track_value(value, str(len(self._storage))))

    def extend(self, values: Any) -> None:
        """Adds and tracks several values."""
        for value in values:
            self.append(value)

    def __iadd__(self, values: Any) -> Any:
        self.extend(values)
        return self

    def __add__(self, other: Any) -> Any:
        return type(self)(self._storage + getattr(other, "_storage", other))

    def __radd__(self, other: Any) -> Any:
        return type(self)(other) + self

    def __imul__(self, n: int) -> Any:
        if n <= 0:
            raise ValueError(f"List only supports append, multiplying in place by {n} removes elements.")
        for value in self._storage * (n - 1):
            self.append(value)
        return self

    def __mul__(self, n: int) -> Any:
        return type(self)(self._storage * n)

    __rmul__ = __mul__

    def __getitem__(self, key: Any) -> Any:
        return self._storage[key]

    def __len__(self) -> int:
        return len(self._storage)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._storage!r})"

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sys.getsizeof(self._storage)


class _MutableList(List, MutableSequence):
    """A tracked list with the methods of MutableSequence, which precede those of list."""


class ListWrapper(_MutableList, list):                # type: ignore[misc]
    """A list that was set as an attribute. It supports all changes, but can be saved only if it was only appended to."""

    _storage: Any
    _track_trackable: Any

    def __init__(self, wrapped_list: Any = ()):
        self._non_append_mutation = self._external_modification = False
        super().__init__(wrapped_list if isinstance(wrapped_list, list) else list(wrapped_list))
        self._snapshot = list(self._storage)

    def _make_storage(self, wrapped_list: list) -> list:
        return wrapped_list

    def _track_value(self, value: Any, name: str) -> Any:
        try:
            return super()._track_value(value, name)
        except ValueError:
            return wrap(value)

    def _look(self) -> None:
        """Detects changes of the wrapped list."""
        if not self._external_modification and not self._non_append_mutation and not _same(self._storage, self._snapshot):
            self._external_modification = True

    def _update(self) -> None:
        if not self._external_modification and not self._non_append_mutation:
            self._snapshot = list(self._storage)

    @property
    def _checkpoint_dependencies(self) -> list:
        self._look()
        if self._non_append_mutation:
            raise ValueError(f"Unable to save the object {self} (a list wrapper constructed to track trackable TensorFlow "
                             "objects). A list element was replaced (__setitem__, __setslice__), deleted (__delitem__, "
                             "__delslice__), or moved (sort). In order to support restoration on object creation, tracking is "
                             "exclusively for append-only data structures.\n\nIf you don't need this list checkpointed, wrap "
                             "it in a non-trackable object; it will be subsequently ignored.")
        if self._external_modification:
            raise ValueError(f"Unable to save the object {self} (a list wrapper constructed to track trackable TensorFlow "
                             f"objects). The wrapped list was modified outside the wrapper (its final value was "
                             f"{self._storage}, its value when a checkpoint dependency was added was {self._snapshot}), which "
                             "breaks restoration on object creation.\n\nIf you don't need this list checkpointed, wrap it in a "
                             "non-trackable object; it will be subsequently ignored.")
        return super()._checkpoint_dependencies

    def __copy__(self) -> Any:
        return self._marked(type(self)(copy.copy(self._storage)))

    def copy(self) -> Any:
        """A shallow copy."""
        return self.__copy__()

    def __deepcopy__(self, memo: dict) -> Any:
        return self._marked(type(self)(copy.deepcopy(self._storage, memo)))

    def _marked(self, copied: Any) -> Any:
        copied._non_append_mutation = self._non_append_mutation
        copied._external_modification = self._external_modification
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self._storage,)

    def __delitem__(self, key: Any) -> None:
        self._move(self._storage)
        del self._storage[key]
        self._update()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._look()
        before = list(self._storage)
        if isinstance(key, slice):
            self._move(before)
            self._storage[key] = value
        else:
            self._storage[key] = value
            key = slice(0, None)
        for i in range(max(len(before), len(self._storage))):
            old, new = before[i] if i < len(before) else None, self._storage[i] if i < len(self._storage) else None
            if old is new:
                continue
            if isinstance(old, Trackable):
                self._non_append_mutation = True
            if i < len(self._storage):
                self._storage[i] = self._track_value(new, str(i))
        self._update()

    def append(self, value: Any) -> None:
        """Adds and tracks a value."""
        self._look()
        super().append(value)
        self._update()

    def extend(self, values: Any) -> None:
        """Adds and tracks several values."""
        self._look()
        for value in values:
            super().append(value)
        self._update()

    def __imul__(self, n: SupportsIndex) -> Any:
        n = operator.index(n)
        if n <= 0:
            self._move(self._storage)
            self._storage *= n
            self._update()
            return self
        return super().__imul__(n)

    def _move(self, values: list) -> None:
        """Notes that values of the list get other places: those that are tracked can no longer be saved."""
        self._look()
        if any(isinstance(v, Trackable) for v in values):
            self._non_append_mutation = True

    def insert(self, index: SupportsIndex, obj: Any) -> None:
        """Inserts a value: a list that tracks any can no longer be saved."""
        self._move(self._storage)
        self._storage.insert(index, obj)
        self._update()

    def reverse(self) -> None:
        """Reverses the list: one that tracks values can no longer be saved."""
        self._move(self._storage)
        self._storage.reverse()
        self._update()

    def sort(self, **kwargs: Any) -> None:
        """Sorts the list: one that tracks values can no longer be saved."""
        self._move(self._storage)
        self._storage.sort(**kwargs)
        self._update()

    def __iter__(self) -> Any:
        return iter(self._storage)

    def __contains__(self, value: Any) -> bool:
        return value in self._storage

    def __eq__(self, other: Any) -> bool:
        return self._storage == getattr(other, "_storage", other)

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._storage < getattr(other, "_storage", other)

    def __le__(self, other: Any) -> bool:
        return self._storage <= getattr(other, "_storage", other)

    def __gt__(self, other: Any) -> bool:
        return self._storage > getattr(other, "_storage", other)

    def __ge__(self, other: Any) -> bool:
        return self._storage >= getattr(other, "_storage", other)

    def __hash__(self) -> int:                            # type: ignore[override]
        raise TypeError("unhashable type: 'ListWrapper'")

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return {str(i): v for i, v in enumerate(self) if _is_function(v)}


def _same(a: list, b: list) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b))


# -- dictionaries ----------------------------------------------------------------------------------------------------
class Mapping(TrackableDataStructure, AbstractMapping):
    """A dictionary from text to trackable objects in which nothing is replaced.

    >>> parts = Mapping(a=layer); parts["b"] = other
    """

    def __init__(self, *args: Any, **kwargs: Any):
        self._storage: dict[str, Any] = {}
        self.update(*args, **kwargs)

    _values = property(lambda self: [self._storage[k] for k in sorted(self._storage)])

    def __copy__(self) -> Any:
        return type(self)(copy.copy(self._storage))

    def __deepcopy__(self, memo: dict) -> Any:
        return type(self)(copy.deepcopy(self._storage, memo))

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"Mapping accepts only string keys, but got a key {key!r}.")
        value = self._track_value(value, key)
        if self._storage.setdefault(key, value) is not value:
            raise ValueError(f"Mappings are an append-only data structure. Tried to overwrite the key '{key}' with value "
                             f"{value}, but it already contains {self._storage[key]}")

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds several values."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __getitem__(self, key: str) -> Any:
        return self._storage[key]

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Any:
        return iter(self._storage)

    def __repr__(self) -> str:
        return f"Mapping({self._storage!r})"


class DictWrapper(TrackableDataStructure):
    """A proxy of a dictionary that was set as an attribute: an instance of its class.

    The dictionary itself is kept, so that its changes are visible. Changes other than setting and deleting items through the
    proxy cannot be tracked, and then it cannot be saved.
    """

    _self_non_string_key = False
    _self_changed = False

    def __init__(self, wrapped_dict: Any = None):
        self._self_wrapped = {} if wrapped_dict is None else wrapped_dict
        for key, value in list(self._self_wrapped.items()):
            self._self_wrapped[key] = self._tracked(key, value)
        self._update()

    __class__ = property(lambda self: type(self._self_wrapped))
    _values = property(lambda self: [self._self_wrapped[k] for k in sorted(self._self_wrapped, key=str)])

    def _tracked(self, key: Any, value: Any) -> Any:
        self._maybe_initialize_trackable()
        if isinstance(key, str):
            return sticky_attribute_assignment(self, key, value)
        untracked = isinstance(value, NoDependency)
        value = wrap(value)
        if isinstance(value, Trackable) and not untracked:
            self._self_non_string_key = True
        return value

    def _look(self) -> None:
        """Detects changes of the dictionary outside of the proxy."""
        now, then = self._self_wrapped, self._self_snapshot
        if len(now) != len(then) or any(k not in now or now[k] is not v for k, v in then.items()):
            self._self_changed = True

    def _update(self) -> None:
        if not self._self_changed:
            self._self_snapshot = dict(self._self_wrapped)

    @property
    def _checkpoint_dependencies(self) -> list:
        self._look()
        what = f"Unable to save the object {self} (a dictionary wrapper constructed automatically on attribute assignment). "
        hint = "\n\nIf you don't need this dictionary checkpointed, wrap it in a non-trackable object; it will be " \
               "subsequently ignored."
        if self._self_non_string_key:
            raise ValueError(what + "The wrapped dictionary contains a non-string key which maps to a trackable object or "
                             "mutable data structure." + hint)
        if self._self_changed:
            raise ValueError(what + f"The wrapped dictionary was modified outside the wrapper (its final value was {self}, its "
                             f"value when a checkpoint dependency was added was {self._self_snapshot}), which breaks "
                             "restoration on object creation." + hint)
        return super()._checkpoint_dependencies

    def __setitem__(self, key: Any, value: Any) -> None:
        self._look()
        self._self_wrapped[key] = self._tracked(key, value)
        self._update()

    def __delitem__(self, key: Any) -> None:
        self._look()
        del self._self_wrapped[key]
        if isinstance(key, str):
            delete_tracking(self, key)
        self._update()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Sets several values."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_self_"):
            raise AttributeError(name)
        return getattr(self._self_wrapped, name)

    def __getitem__(self, key: Any) -> Any:
        return self._self_wrapped[key]

    def __iter__(self) -> Any:
        return iter(self._self_wrapped)

    def __reversed__(self) -> Any:
        return reversed(self._self_wrapped)

    def __len__(self) -> int:
        return len(self._self_wrapped)

    def __contains__(self, key: Any) -> bool:
        return key in self._self_wrapped

    def __or__(self, other: Any) -> Any:
        return self._self_wrapped | other

    def __eq__(self, other: Any) -> bool:
        return self._self_wrapped == getattr(other, "_self_wrapped", other)

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'DictWrapper'")

    def __repr__(self) -> str:
        return f"DictWrapper({self._self_wrapped!r})"

    def copy(self) -> Any:
        """A shallow copy."""
        return self.__copy__()

    def __copy__(self) -> Any:
        return self._marked(DictWrapper(copy.copy(self._self_wrapped)))

    def __deepcopy__(self, memo: dict) -> Any:
        return self._marked(DictWrapper(copy.deepcopy(self._self_wrapped, memo)))

    def _marked(self, copied: Any) -> Any:
        copied._self_changed, copied._self_non_string_key = self._self_changed, self._self_non_string_key
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        return DictWrapper, (self._self_wrapped,)

    def _list_functions_for_serialization(self, serialization_cache: Any) -> dict[str, Any]:
        return {k: v for k, v in self._self_wrapped.items() if _is_function(v)}


MutableMapping.register(DictWrapper)
_DictWrapper = DictWrapper                                # its name in TensorFlow


# -- tuples ----------------------------------------------------------------------------------------------------------
class _Tuple(TrackableDataStructure):
    """A trackable proxy of a tuple."""

    _values = property(lambda self: list(self))
    __iter__: Callable[[], Iterator[Any]]                 # the tuple's
    __hash__ = None                                       # type: ignore[assignment]

    def _track_elements(self) -> Any:
        fields = getattr(self, "_fields", ())
        for i, value in enumerate(self):
            if isinstance(value, Trackable):
                self._track_trackable(value, str(i))
                if i < len(fields):
                    self._track_trackable(value, fields[i])
        return self


_tuple_types: dict[type, type] = {}


def _wrapped_tuple(value: tuple) -> Any:
    """A tuple of the same type (a named one, too) that is trackable, with its elements in their tracking form."""
    kind = _tuple_types.get(type(value))
    if kind is None:
        base = type(value)
        kind = _tuple_types[base] = type(base.__name__, (_Tuple, base), {
            "_tracked_type": base,
            "__eq__": base.__eq__, "__ne__": base.__ne__, "__hash__": base.__hash__, "__repr__": base.__repr__})
    items = [wrap(v) for v in value]
    made: Any = tuple.__new__(kind, items)
    return made._track_elements()
