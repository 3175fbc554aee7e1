"""Variable scopes: where get_variable gets names and defaults from.

`VariableScope` carries the settings; `variable_scope` opens one (with a name scope), `pure_variable_scope` one without.
Which scope is open is kept per graph and thread.
"""
from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import convert
from penstock._src.graph.scopes import graph_from, name_scope
from penstock._src.state.variables.policy import VariableAggregation, VariableSynchronization
from penstock._src.state.variables.store import AUTO_REUSE, current_store, owner_graph

_SETTINGS = ("initializer", "regularizer", "caching_device", "partitioner", "custom_getter", "dtype", "use_resource")


@export(v1=["no_regularizer"])
def no_regularizer(_: Any) -> None:
    """A regularizer that adds nothing: hides the one of the scope."""
    return None


@export(v1=["VariableScope"])
class VariableScope:
    """Name prefix and defaults for get_variable."""

    def __init__(self, reuse: Any, name: str = "", initializer: Any = None, regularizer: Any = None,
                 caching_device: Any = None, partitioner: Any = None, custom_getter: Any = None, name_scope: str = "",
                 dtype: Any = dtypes.float32, use_resource: Any = None, constraint: Any = None):
        self._name, self._reuse, self._name_scope = name, reuse, name_scope
        self._initializer, self._regularizer, self._constraint = initializer, regularizer, constraint
        self._caching_device, self._partitioner = caching_device, partitioner
        self._custom_getter, self._dtype, self._use_resource = custom_getter, dtype, use_resource
        if context.executing_eagerly():
            if caching_device is not None:
                raise NotImplementedError("Caching devices is not yet supported when eager execution is enabled.")
            self._reuse, self._use_resource = AUTO_REUSE, True

    name = property(lambda self: self._name, doc="The prefix of variable names.")
    original_name_scope = property(lambda self: self._name_scope, doc="The name scope opened with it.")
    reuse = property(lambda self: self._reuse, doc="Whether existing variables are returned instead of new ones.")
    initializer = property(lambda self: self._initializer, doc="The default initializer.")
    regularizer = property(lambda self: self._regularizer, doc="The default regularizer.")
    caching_device = property(lambda self: self._caching_device, doc="The default caching device.")
    partitioner = property(lambda self: self._partitioner, doc="The default partitioner.")
    custom_getter = property(lambda self: self._custom_getter, doc="The default custom getter.")
    dtype = property(lambda self: self._dtype, doc="The default dtype.")
    use_resource = property(lambda self: self._use_resource, doc="Whether to create resource variables.")
    constraint = property(lambda self: self._constraint, doc="The default constraint.")

    def reuse_variables(self) -> None:
        """Returns existing variables from now on."""
        self._reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Sets the default initializer."""
        self._initializer = initializer

    def set_dtype(self, dtype: Any) -> None:
        """Sets the default dtype."""
        self._dtype = dtype

    def set_use_resource(self, use_resource: bool) -> None:
        """Sets whether to create resource variables."""
        if context.executing_eagerly() and not use_resource:
            raise ValueError("When eager execution is enabled, use_resource cannot be set to false.")
        self._use_resource = use_resource

    def set_regularizer(self, regularizer: Any) -> None:
        """Sets the default regularizer."""
        self._regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        """Sets the default caching device."""
        if context.executing_eagerly():
            raise NotImplementedError("Caching devices are not yet supported when eager execution is enabled.")
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        """Sets the default partitioner."""
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter: Any) -> None:
        """Sets the default custom getter."""
        self._custom_getter = custom_getter

    def get_collection(self, name: str) -> list:
        """The items of a collection whose names are under this scope."""
        return context.current_graph().get_collection(name, self._name + "/" if self._name else "")

    def trainable_variables(self) -> list:
        """The trainable variables under this scope."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list:
        """The global variables under this scope."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list:
        """The local variables under this scope."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def _defaults(self, given: dict[str, Any]) -> dict[str, Any]:
        """Settings with this scope's filled in for those that are None."""
        return {k: getattr(self, "_" + k) if v is None and hasattr(self, "_" + k) else v for k, v in given.items()}

    def get_variable(self, var_store: Any, name: str, shape: Any = None, dtype: Any = None, initializer: Any = None,
                     regularizer: Any = None, reuse: Any = None, trainable: Any = None, collections: Any = None,
                     caching_device: Any = None, partitioner: Any = None, validate_shape: bool = True,
                     use_resource: Any = None, custom_getter: Any = None, constraint: Any = None,
                     synchronization: Any = VariableSynchronization.AUTO,
                     aggregation: Any = VariableAggregation.NONE) -> Any:
        """The variable `name` under this scope, from `var_store`, made when it does not exist."""
        given = dict(locals())
        for k in ("self", "var_store", "name"):
            del given[k]
        if context.executing_eagerly():
            given["reuse"], given["use_resource"] = False, True
        with name_scope(None):
            if dtype is not None and initializer is not None and not callable(initializer):
                found = convert(initializer).dtype.base_dtype
                if found != dtype:
                    raise ValueError(f"Initializer type '{found}' and explicit dtype '{dtype}' don't match.")
            return var_store.get(f"{self.name}/{name}" if self.name else name, **self._defaults(given))

    def _get_partitioned_variable(self, var_store: Any, name: str | None, **given: Any) -> Any:
        if self._custom_getter is not None:
            raise ValueError("Private access to _get_partitioned_variable is not allowed when a custom getter is set.  "
                             f"Current custom getter: {self._custom_getter}.  It is likely that you're using "
                             "create_partitioned_variables.  If so, consider instead using get_variable with a "
                             "non-empty partitioner parameter instead.")
        every = {"shape": None, "dtype": None, "initializer": None, "regularizer": None, "trainable": None,
                 "collections": None, "caching_device": None, "partitioner": None, "validate_shape": True,
                 "use_resource": None, "constraint": None, "synchronization": VariableSynchronization.AUTO,
                 "aggregation": VariableAggregation.NONE, **given}
        if every["partitioner"] is None and self._partitioner is None:
            raise ValueError("No partitioner was specified")
        with name_scope(None):
            return var_store.get_partitioned("/".join(n for n in (self.name, name) if n), reuse=self.reuse,
                                             **self._defaults(every))


# -- which scope is open ----------------------------------------------------------------------------------------------
class _Open(threading.local):
    """The open scope of a thread, and how often each name was opened."""

    def __init__(self) -> None:
        self.scope = VariableScope(False)
        self.counts: dict[str, int] = {}


def _open() -> _Open:
    return owner_graph().caches.setdefault("variable_scope", None) or _new_open()


def _new_open() -> _Open:
    made = owner_graph().caches["variable_scope"] = _Open()
    return made


@export(v1=["get_variable_scope"])
def get_variable_scope() -> VariableScope:
    """The variable scope that is open.

    Returns:
        The `VariableScope` of the innermost `tf.variable_scope` block, or that of the graph.

    >>> with tf.Graph().as_default(), tf.variable_scope("layer"):
    ...     print(tf.get_variable_scope().name)
    layer
    """
    return _open().scope


def _wrapped(custom_getter: Any, outer: Any) -> Any:
    """A custom getter inside another: the inner one calls the outer one as its getter."""
    if outer is None:
        return custom_getter
    return lambda getter, *args, **kwargs: custom_getter(functools.partial(outer, getter), *args, **kwargs)


class pure_variable_scope:
    """A context manager that opens a variable scope without a name scope."""

    def __init__(self, name_or_scope: Any, reuse: Any = None, old_name_scope: str | None = None, constraint: Any = None,
                 **settings: Any):
        self._name_or_scope, self._reuse, self._old_name_scope = name_or_scope, reuse, old_name_scope
        self._settings, self._constraint = settings, constraint
        self._state = _open()
        self._made = self._derive(name_or_scope) if isinstance(name_or_scope, VariableScope) else None

    def _derive(self, base: VariableScope) -> VariableScope:
        """A scope like `base` with the settings given here."""
        own = isinstance(self._name_or_scope, VariableScope)
        name = base.name if own else f"{base.name}/{self._name_or_scope}" if base.name else self._name_or_scope
        scope = base.original_name_scope if own else \
            self._name_or_scope if self._old_name_scope is None else self._old_name_scope
        made = VariableScope(self._reuse or base.reuse, name, name_scope=scope, constraint=self._constraint,
                             **{k: getattr(base, k) for k in _SETTINGS})
        for k, v in self._settings.items():
            if v is not None:
                getattr(made, "set_" + k)(_wrapped(v, base.custom_getter) if k == "custom_getter" else v)
        return made

    def __enter__(self) -> VariableScope:
        state = self._state
        self._outer = state.scope
        own = self._made
        scope = own if own is not None else self._derive(state.scope)
        state.counts[scope.name] = state.counts.get(scope.name, 0) + 1
        self._counts = dict(state.counts) if own is not None else None
        state.scope = self._last = scope
        return scope

    def check_innermost(self) -> None:
        """RuntimeError if another scope was opened inside and is still open."""
        if self._state.scope is not self._last:
            raise RuntimeError("Improper nesting of variable_scope.")

    def __exit__(self, *exc: Any) -> None:
        self.check_innermost()
        state = self._state
        if self._counts is not None:
            state.counts = self._counts
        else:
            close_subscopes(self._last.name, state)
        state.scope = self._outer


def close_subscopes(name: str, state: _Open | None = None) -> None:
    """Resets the counts of scopes below `name`, so that their names can be reused."""
    counts = (state or _open()).counts
    for k in counts:
        if k.startswith(name + "/"):
            counts[k] = 0


def unique_name(prefix: str) -> str:
    """`prefix`, with _1, _2 … appended when a scope of that name was opened before."""
    state = _open()
    lead = state.scope.name + "/" if state.scope.name else ""
    if not state.counts.get(lead + prefix):
        return prefix
    i = 1
    while state.counts.get(f"{lead}{prefix}_{i}"):
        i += 1
    return f"{prefix}_{i}"


@export(v1=["variable_scope"])
class variable_scope:
    """A context manager that opens a variable scope and a name scope.

    Args:
        name_or_scope: Name of the scope, or a scope to enter again.
        default_name: Name, made unique, if `name_or_scope` is None.
        values: Tensors that must belong to the same graph.
        initializer: Initializer for variables in the scope that are given none.
        regularizer: Regularizer for variables in the scope that are given none.
        caching_device: Device that keeps a copy for readers.
        partitioner: Function of shape and dtype that divides the variable into parts.
        custom_getter: Function called instead of the getter, with the getter as first argument.
        reuse: True: variables must exist. `tf.AUTO_REUSE`: they are created when they do not exist. None: as in the scope
            around.
        dtype: Type of variables for which none is given.
        use_resource: True for a resource variable, False for a reference variable, None for the default of the scope.
        constraint: Function applied to the variable after each update.
        auxiliary_name_scope: Whether to open a name scope as well.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
    ...         w = tf.get_variable("w", [3, 4])
    ...         same = tf.get_variable("w", [3, 4])
    ...     print(w.name, same is w)
    layer/w:0 True
    """

    def __init__(self, name_or_scope: Any, default_name: str | None = None, values: Any = None, initializer: Any = None,
                 regularizer: Any = None, caching_device: Any = None, partitioner: Any = None,
                 custom_getter: Any = None, reuse: Any = None, dtype: Any = None, use_resource: Any = None,
                 constraint: Any = None, auxiliary_name_scope: bool = True):
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if not (reuse in (True, False, None) or reuse is AUTO_REUSE):
            raise ValueError("The reuse parameter must be True or False or None.")
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError(f"The auxiliary_name_scope must be `True` or `False`, while get {auxiliary_name_scope}")
        self._name_or_scope, self._default_name = name_or_scope, default_name
        self._reuse, self._auxiliary = reuse or None, auxiliary_name_scope
        self._settings = {"initializer": initializer, "regularizer": regularizer, "caching_device": caching_device,
                          "partitioner": partitioner, "custom_getter": custom_getter, "dtype": dtype,
                          "use_resource": use_resource, "constraint": constraint}
        self._graph = None if context.executing_eagerly() else graph_from(values or [])
        self._pure: pure_variable_scope | None = None
        self._name_scope: Any = None
        self._stacks: list[contextlib.ExitStack] = []

    def __enter__(self) -> VariableScope:
        with contextlib.ExitStack() as stack:
            if self._graph is not None and not context.current_graph().building_function:
                stack.enter_context(self._graph.as_default())
            if self._pure is None:
                scope = self._first(stack)
            else:
                if self._name_scope is not None:
                    stack.enter_context(self._name_scope)
                scope = stack.enter_context(self._pure)
            self._stacks.append(stack.pop_all())
        return scope

    def _first(self, stack: contextlib.ExitStack) -> VariableScope:
        """Enters for the first time: computes the names, and stores them for later."""
        wanted = self._name_or_scope
        if wanted is not None and not isinstance(wanted, (VariableScope, str)):
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        if wanted is None and self._reuse:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        own = self._default_name if wanted is None else wanted if isinstance(wanted, str) else \
            wanted.name.split("/")[-1]
        assert own is not None                        # one of the two names is given
        opened = None
        if not self._auxiliary:
            self._name_scope = name_scope(_current_name_scope())
        elif own:
            self._name_scope = name_scope(own)
        if self._name_scope is not None:
            opened = stack.enter_context(self._name_scope)
        if isinstance(wanted, VariableScope):
            opened = wanted.original_name_scope
        self._pure = pure_variable_scope(unique_name(own) if wanted is None else wanted, reuse=self._reuse,
                                         old_name_scope=opened, **self._settings)
        return stack.enter_context(self._pure)

    def __exit__(self, *exc: Any) -> None:
        self._pure.check_innermost()  # type: ignore[union-attr]
        self._stacks.pop().__exit__(*exc)


def _current_name_scope() -> str:
    if context.executing_eagerly():
        return context.state.scope_name
    scope = context.current_graph().get_name_scope()
    return scope + "/" if scope else ""


@export(v1=["variable_op_scope"])
@contextlib.contextmanager
def variable_op_scope(values: Any, name_or_scope: Any, default_name: str | None = None, initializer: Any = None,
                      regularizer: Any = None, caching_device: Any = None, partitioner: Any = None,
                      custom_getter: Any = None, reuse: Any = None, dtype: Any = None, use_resource: Any = None,
                      constraint: Any = None) -> Iterator[VariableScope]:
    """Deprecated form of variable_scope: variable_scope(name_or_scope, default_name, values)."""
    with variable_scope(name_or_scope, default_name, values, initializer, regularizer, caching_device, partitioner,
                        custom_getter, reuse, dtype, use_resource, constraint) as scope:
        yield scope


# -- getting variables ------------------------------------------------------------------------------------------------
@export(v1=["get_variable"])
def get_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
                 trainable: Any = None, collections: Any = None, caching_device: Any = None, partitioner: Any = None,
                 validate_shape: bool = True, use_resource: Any = None, custom_getter: Any = None,
                 constraint: Any = None, synchronization: Any = VariableSynchronization.AUTO,
                 aggregation: Any = VariableAggregation.NONE) -> Any:
    """The variable of that name in the open variable scope: an existing one when reusing, else a new one.

    Args:
        name: Name, to which the open variable scopes are prefixed.
        shape: Static shape; not needed when the initializer is a value.
        dtype: Element type, float32 by default.
        initializer: Initializer, or a value. By default the scope's, else Glorot's uniform one (zeros for integers).
        regularizer: Function of the variable whose result is added to the regularization losses.
        trainable: Whether the variables are added to the collection of trainable variables.
        collections: Collections to add the variable to, instead of the global variables.
        caching_device: Device that keeps a copy for readers.
        partitioner: Function of shape and dtype that divides the variable into parts.
        validate_shape: If False, the variable may have a shape that is not known.
        use_resource: True for a resource variable, False for a reference variable, None for the default of the scope.
        custom_getter: Function called instead of the getter, with the getter as first argument.
        constraint: Function applied to the variable after each update.
        synchronization: When replicas synchronize the variable, under `tf.distribute`.
        aggregation: How replicas combine their updates, under `tf.distribute`.

    Returns:
        The variable. In scopes with `reuse`, the same one for the same name.

    Raises:
        ValueError: if the variable exists and `reuse` is False, or does not exist and `reuse` is True.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", [2, 3], initializer=tf.zeros_initializer())
    ...     sess.run(w.initializer)
    ...     print(w.name, sess.run(w))
    w:0 [[0. 0. 0.]
     [0. 0. 0.]]
    """
    return get_variable_scope().get_variable(
        current_store(), name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer,
        trainable=trainable, collections=collections, caching_device=caching_device, partitioner=partitioner,
        validate_shape=validate_shape, use_resource=use_resource, custom_getter=custom_getter, constraint=constraint,
        synchronization=synchronization, aggregation=aggregation)


@export(v1=["get_local_variable"])
def get_local_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None,
                       regularizer: Any = None, trainable: Any = False, collections: Any = None,
                       caching_device: Any = None, partitioner: Any = None, validate_shape: bool = True,
                       use_resource: Any = None, custom_getter: Any = None, constraint: Any = None,
                       synchronization: Any = VariableSynchronization.AUTO,
                       aggregation: Any = VariableAggregation.NONE) -> Any:
    """get_variable for local variables: in the local collection, and not trainable."""
    local = [*collections, GraphKeys.LOCAL_VARIABLES] if collections else [GraphKeys.LOCAL_VARIABLES]
    return get_variable(name, shape, dtype, initializer, regularizer, False, local, caching_device, partitioner,
                        validate_shape, use_resource, custom_getter, constraint, synchronization, aggregation)
