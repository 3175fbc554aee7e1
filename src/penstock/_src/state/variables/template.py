"""Templates: functions that create their variables on the first call and reuse them on every later one."""
from __future__ import annotations

import functools
import logging
import traceback
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.scopes import variable_creator_scope
from penstock._src.graph.trackable import Trackable
from penstock._src.state.variables.scope import close_subscopes, pure_variable_scope, unique_name, variable_scope
from penstock._src.state.variables.store import AUTO_REUSE, EagerVariableStore, current_store

_FRAMES = 6        # frames of the place where a template was created that an error shows


@export(v1=["make_template"])
def make_template(name_: str, func_: Callable, create_scope_now_: bool = False, unique_name_: str | None = None,
                  custom_getter_: Any = None, **kwargs: Any) -> Any:
    """A function around `func_` that shares the variables which `func_` gets with tf.get_variable.

    >>> scale = tf.make_template("scale", lambda x: x * tf.get_variable("s", [], initializer=tf.ones_initializer()))
    >>> y, z = scale(a), scale(b)      # one variable, scale/s
    """
    if kwargs:
        func_ = functools.partial(func_, **kwargs)
    if context.executing_eagerly():
        if unique_name_ is not None:
            raise ValueError("unique_name_ cannot be used when eager execution is enabled.")
        return EagerTemplate(name_, func_, create_scope_now_, None, custom_getter_)
    return Template(name_, func_, create_scope_now_, unique_name_, custom_getter_)


class Template(Trackable):
    """A function with its own variables, in a variable scope that the first call (or the constructor) opens."""

    def __init__(self, name: str, func: Callable, create_scope_now: bool = False, unique_name: str | None = None,
                 custom_getter: Any = None):
        if name is None:
            raise ValueError("name cannot be None.")
        self._func, self._name, self._unique_name, self._custom_getter = func, name, unique_name, custom_getter
        self._made_at = traceback.extract_stack()[:-2][-_FRAMES:]
        self._variable_scope: Any = None
        self._variables_created, self._first_call = False, True
        if create_scope_now:
            self._variable_scope = self._open_pure()

    def _open_pure(self) -> Any:
        with pure_variable_scope(self._unique_name or unique_name(self._name),
                                 custom_getter=self._custom_getter) as scope:
            return scope

    name = property(lambda self: self._name, doc="The name given to the template.")
    func = property(lambda self: self._func, doc="The function of the template.")
    variable_scope = property(lambda self: self._variable_scope, doc="The variable scope, once it is open.")
    var_scope = variable_scope

    @property
    def variable_scope_name(self) -> str | None:
        """The name of the variable scope with a "/" at the end."""
        if self._variable_scope is None:
            return None
        name = self._variable_scope.name
        return name if not name or name[-1] == "/" else name + "/"

    # -- calling ------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._variable_scope is not None:
            with variable_scope(self._variable_scope, reuse=not self._first_call):
                return self._guarded(args, kwargs)
        with variable_scope(self._unique_name, self._name, custom_getter=self._custom_getter) as scope:
            self._variable_scope = scope
            return self._guarded(args, kwargs)

    def _guarded(self, args: tuple, kwargs: dict) -> Any:
        """Calls the function; adds the place where the template was created to errors."""
        try:
            return self._call_func(args, kwargs)
        except Exception as e:
            first = e.args[0] if e.args else ""
            where = "".join(traceback.format_list(self._made_at))
            e.args = (f"{first}\n\noriginally defined at:\n{where}", *e.args[1:])
            raise

    def _call_func(self, args: tuple, kwargs: dict) -> Any:
        if self._variables_created:
            before = self._counted()
            result = self._func(*args, **kwargs)
            self._check_nothing_new(before)
            return result
        if not self._first_call:                       # another thread is in its first call
            with variable_creator_scope(self._track):
                return self._func(*args, **kwargs)
        self._first_call = False
        try:
            with variable_creator_scope(self._track):
                result = self._func(*args, **kwargs)
        except BaseException:
            self._first_call = True
            raise
        self._variables_created = True
        return result

    def _track(self, next_creator: Callable, name: str | None = None, initial_value: Any = None, trackable_parent: Any = None,
               **kwargs: Any) -> Any:
        """Adds a variable of this template as a dependency; for a variable of a nested template, adds that template."""
        prefix = self._variable_scope.name
        if name is None or not name.startswith(prefix):
            return next_creator(name=name, initial_value=initial_value, trackable_parent=trackable_parent, **kwargs)
        if trackable_parent is not None:
            inner, inner_prefix = trackable_parent
            self._track_trackable(inner, name=inner_prefix[len(prefix) + 1:], overwrite=True)
            return next_creator(name=name, initial_value=initial_value, trackable_parent=(self, prefix), **kwargs)

        def getter(initializer: Any, name: str, shape: Any, dtype: Any, **inner: Any) -> Any:
            return next_creator(initial_value=initializer, name=full_name, dtype=dtype, **inner)
        full_name = name
        kwargs.pop("shape", None)
        return self._add_variable_with_custom_getter(initializer=initial_value, name=name[len(prefix) + 1:], getter=getter,
                                                     overwrite=True, trackable_parent=(self, prefix), **kwargs)

    def _counted(self) -> tuple[list, list]:
        graph = context.current_graph()
        return (list(graph.get_collection_ref(GraphKeys.TRAINABLE_VARIABLES)),
                list(graph.get_collection_ref(GraphKeys.GLOBAL_VARIABLES)))

    def _check_nothing_new(self, before: tuple[list, list]) -> None:
        trainable, everything = ([v for v in now if all(v is not o for o in old)]
                                 for now, old in zip(self._counted(), before, strict=True))
        text = ("%s created when calling a template after the first time, perhaps you used tf.Variable when you meant "
                "tf.get_variable: %s")
        if trainable:
            raise ValueError(text % ("Trainable variable", trainable))
        if everything:
            logging.getLogger("penstock").info(text, "New variables", everything)

    # -- variables ----------------------------------------------------------------------------------------------------
    def _collected(self, key: str) -> list:
        if not self._variables_created:
            return []
        return context.current_graph().get_collection(key, self.variable_scope_name)

    @property
    def global_variables(self) -> list:
        """The global variables made by the template."""
        return self._collected(GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self) -> list:
        """The local variables made by the template."""
        return self._collected(GraphKeys.LOCAL_VARIABLES)

    @property
    def trainable_variables(self) -> list:
        """The trainable variables made by the template."""
        return self._collected(GraphKeys.TRAINABLE_VARIABLES)

    @property
    def non_trainable_variables(self) -> list:
        """The other global variables made by the template."""
        trainable = {id(v) for v in self.trainable_variables}
        return [v for v in self.global_variables if id(v) not in trainable]

    variables = property(lambda self: self.global_variables + self.local_variables, doc="All of its variables.")
    weights = property(lambda self: self.variables, doc="All of its variables.")
    trainable_weights = property(lambda self: self.trainable_variables, doc="Its trainable variables.")
    non_trainable_weights = property(lambda self: self.non_trainable_variables, doc="Its other variables.")


class EagerTemplate(Template):
    """A template in eager mode: it keeps its variables in a store, that of the template around it if any."""

    def __init__(self, *args: Any):
        if not context.executing_eagerly():
            raise RuntimeError(f"{type(self)} objects can only be used when eager execution is enabled, use tf.Template "
                               "for graph construction")
        super().__init__(*args)
        default = current_store()
        self._store = EagerVariableStore(default if default._store_eager_variables else None)
        self._reopened: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._variable_scope is None:
            with variable_scope(self._unique_name, self._name, custom_getter=self._custom_getter) as scope:
                self._variable_scope = scope
                return self._in_store(args, kwargs)
        if self._reopened is None:
            self._reopened = variable_scope(self._variable_scope, reuse=AUTO_REUSE)
        with self._reopened:
            return self._in_store(args, kwargs)

    def _in_store(self, args: tuple, kwargs: dict) -> Any:
        try:
            with self._store.as_default():
                return self._guarded(args, kwargs)
        finally:
            close_subscopes(self._variable_scope.name)

    def _own(self, variables: list) -> list:
        return [v for v in variables if self._variable_scope is not None
                and v.name.startswith(self._variable_scope.name + "/")]

    def _counted(self) -> tuple[list, list]:
        return self._own(self._store.trainable_variables()), self._own(self._store.variables())

    @property
    def global_variables(self) -> list:
        """The variables made by the template."""
        return self._own(self._store.variables()) if self._variables_created else []

    @property
    def local_variables(self) -> list:
        """Always empty: eager variables are in no collection."""
        return []

    @property
    def trainable_variables(self) -> list:
        """The trainable variables made by the template."""
        return self._own(self._store.trainable_variables()) if self._variables_created else []
