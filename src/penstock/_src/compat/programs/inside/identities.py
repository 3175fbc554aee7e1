"""Of `util.object_identity`: sets and dictionaries of objects that have no hash, or whose `==` is no bool, such as tensors."""
from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSet
from typing import Any

from penstock._src.graph.node import TensorRef as Reference


class _Weak(Reference):
    """A key that does not keep its object alive; `gone` is called with the key when the object dies."""

    def __init__(self, wrapped: Any, gone: Callable):
        self._tensor = None
        self._held, self._hash = weakref.ref(wrapped, lambda _: gone(self)), hash(Reference(wrapped))

    def deref(self) -> Any:
        """The object, or None."""
        return self._held()

    def __eq__(self, other: Any) -> Any:
        if self is other:
            return True
        return isinstance(other, Reference) and self.deref() is not None and self.deref() is other.deref()

    def __hash__(self) -> int:
        return self._hash


class ObjectIdentityDictionary(MutableMapping):
    """A dictionary with objects as keys, compared by identity."""

    def __init__(self, *args: Any, **kwargs: Any):
        self._storage: dict[Any, Any] = {}
        self.update(dict(*args, **kwargs))

    def _stored(self, key: Any) -> Reference:
        return Reference(key)

    def __getitem__(self, key: Any) -> Any:
        return self._storage[Reference(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._storage[self._stored(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self._storage[Reference(key)]

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator:
        return (key.deref() for key in list(self._storage))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._storage!r})"


class ObjectIdentityWeakKeyDictionary(ObjectIdentityDictionary):
    """One whose entries end with their keys."""

    def _stored(self, key: Any) -> Reference:
        return _Weak(key, lambda reference: self._storage.pop(reference, None))


class ObjectIdentitySet(MutableSet):
    """A set of objects, compared by identity."""

    def __init__(self, *args: Iterable):
        self._storage = {self._stored(item) for item in (args[0] if args else ())}

    def _stored(self, item: Any) -> Reference:
        return Reference(item)

    @classmethod
    def _from_iterable(cls, it: Iterable) -> ObjectIdentitySet:
        return cls(it)

    def __contains__(self, key: Any) -> bool:
        return Reference(key) in self._storage

    def add(self, value: Any) -> None:
        """Adds an object."""
        self._storage.add(self._stored(value))

    def discard(self, value: Any) -> None:
        """Removes an object, if it is here."""
        self._storage.discard(Reference(value))

    def update(self, items: Iterable) -> None:
        """Adds several objects."""
        for item in items:
            self.add(item)

    def intersection(self, items: Iterable) -> set:
        """The references to objects that are also in `items`."""
        return self._storage.intersection({Reference(item) for item in items})

    def difference(self, items: Iterable) -> ObjectIdentitySet:
        """The objects that are not in `items`."""
        without = type(self)(items)
        return type(self)(item for item in self if item not in without)

    def clear(self) -> None:
        """Removes all objects."""
        self._storage.clear()

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator:
        return (item.deref() for item in list(self._storage))


class ObjectIdentityWeakSet(ObjectIdentitySet):
    """One that keeps no object alive."""

    def _stored(self, item: Any) -> Reference:
        return _Weak(item, lambda reference: self._storage.discard(reference))

    def __iter__(self) -> Iterator:
        return (item for item in super().__iter__() if item is not None)
