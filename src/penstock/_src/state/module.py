"""tf.Module: the base of objects with variables, other modules and functions as attributes."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.graph.scopes import name_scope, name_scope_v2
from penstock._src.state.auto_trackable import AutoTrackable
from penstock._src.state.variables.variable import Variable

_NAME = re.compile(r"^[A-Za-z_]\w*$")


def camel_to_snake(name: str) -> str:
    """"MyModule" as "my_module"."""
    return re.sub(r"((?<=[a-z0-9])[A-Z]|(?!^)(?<!_)[A-Z](?=[a-z]))", r"_\1", name).lower()


@export("Module")
class Module(AutoTrackable):
    """The base of objects with variables.

    >>> class Dense(tf.Module):
    ...     def __init__(self, n, m):
    ...         super().__init__()
    ...         self.w = tf.Variable(tf.zeros([n, m]))
    ...     def __call__(self, x): return x @ self.w
    >>> Dense(2, 3).trainable_variables
    """

    _TF_MODULE_IGNORED_PROPERTIES = frozenset((
        "_self_unconditional_checkpoint_dependencies", "_self_unconditional_dependency_names",
        "_self_unconditional_deferred_dependencies", "_self_name_based_restores"))

    _name_scope: Any           # a context; subclasses may have a method

    def __init__(self, name: str | None = None):
        if name is None:
            name = camel_to_snake(type(self).__name__)
        elif not _NAME.match(name):
            raise ValueError(f"{name!r} is not a valid module name. Module names must be valid Python identifiers (e.g. a "
                             "valid class name).")
        self._name = name
        with name_scope(name) as scope:
            self._name_scope = name_scope_v2(scope)

    name = property(lambda self: self._name, doc="The name: as given, or derived from the class.")

    @property
    def name_scope(self) -> Any:
        """A name scope for the ops and variables of the module."""
        return self._name_scope

    @property
    def variables(self) -> tuple:
        """The variables of this module and its submodules, in the order of attribute names."""
        return tuple(self._flatten(predicate=_is_variable, expand_composites=True))

    @property
    def trainable_variables(self) -> tuple:
        """The trainable ones of the variables."""
        return tuple(self._flatten(predicate=lambda v: _is_variable(v) and v.trainable, expand_composites=True))

    @property
    def non_trainable_variables(self) -> tuple:
        """The other variables."""
        return tuple(self._flatten(predicate=lambda v: _is_variable(v) and not v.trainable, expand_composites=True))

    @property
    def submodules(self) -> tuple:
        """The modules inside, breadth first."""
        return tuple(self._flatten(predicate=lambda v: isinstance(v, Module)))

    def _flatten(self, recursive: bool = True, predicate: Callable | None = None, attribute_traversal_key: Any = None,
                 with_path: bool = False, expand_composites: bool = False) -> Iterator:
        """The attributes of this module and its submodules for which `predicate` holds; with their paths if requested."""
        return _walk(self, recursive, predicate or (lambda _: True), attribute_traversal_key, with_path, expand_composites)

    @classmethod
    def with_name_scope(cls, method: Callable) -> Callable:
        """A method that runs inside the module's name scope."""
        import functools

        @functools.wraps(method)
        def scoped(self: Any, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)
        return scoped


def _is_variable(value: Any) -> bool:
    return isinstance(value, Variable)


def _parts(path: tuple, leaf: Any, expand: bool) -> list:
    """A leaf, or the components of a composite tensor. One that is a module has its own attributes."""
    if not expand or isinstance(leaf, Module):
        return [(path, leaf)]
    return [((*path, *inner), part) for inner, part in nest.flatten_with_tuple_paths(leaf, expand_composites=True)]


def _walk(module: Any, recursive: bool, predicate: Callable, order: Any, with_path: bool, expand: bool, path: tuple = (),
          seen: set | None = None, above: tuple = ()) -> Iterator:
    """What a module has itself, then each of its submodules whole. With paths, each thing once per path, and no cycle twice."""
    seen = {id(module)} if seen is None else seen
    recursive = recursive and id(module) not in above
    submodules = []
    for key, attribute in sorted(vars(module).items(), key=(lambda kv: order(kv[0])) if order else lambda kv: kv[0]):
        if key in module._TF_MODULE_IGNORED_PROPERTIES or key == "_self_unconditional_checkpoint_dependencies":
            continue
        try:
            leaves = [found for path_in, leaf in nest.flatten_with_tuple_paths(attribute)
                      for found in _parts(path_in, leaf, expand)]
        except Exception as e:
            raise ValueError(f"Error processing property {key!r} of {module!r}") from e
        for inner, leaf in leaves:
            if not with_path and id(leaf) in seen:
                continue
            here = (*path, key, *inner)
            if predicate(leaf):
                seen.add(id(leaf))
                yield (here, leaf) if with_path else leaf
            if recursive and isinstance(leaf, Module):
                seen.add(id(leaf))
                submodules.append((here, leaf))
    for here, submodule in submodules:
        yield from _walk(submodule, recursive, predicate, order, with_path, expand, here, seen, (*above, id(module)))
