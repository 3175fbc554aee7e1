"""Objects as configurations (dictionaries that can be written as JSON), and names of custom objects.

A configuration is `{"class_name": …, "config": {…}}`, or a name alone for a function. It is turned back into an object by
looking its name up: among the custom objects of the call, those of the open scopes, then the library's own.
"""
from __future__ import annotations

import contextlib
import contextvars
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import nest
from penstock._src.base.api import export
from penstock._src.base.near_names import near_names
from penstock._src.graph import context

_CUSTOM: dict[str, Any] = {}
_earlier = contextvars.ContextVar("earlier_configs", default=False)


@export("keras.utils.CustomObjectScope", v2=["keras.saving.CustomObjectScope"])
class CustomObjectScope:
    """Names of custom objects for a block.

    >>> with tf.keras.utils.custom_object_scope({"MyLayer": MyLayer}):
    ...     model = tf.keras.models.model_from_json(text)
    """

    def __init__(self, *args: Any):
        self.custom_objects = args
        self.backup: dict[str, Any] = {}

    def __enter__(self) -> CustomObjectScope:
        self.backup = dict(_CUSTOM)
        for objects in self.custom_objects:
            _CUSTOM.update(objects or {})
        return self

    def __exit__(self, *args: Any) -> None:
        _CUSTOM.clear()
        _CUSTOM.update(self.backup)


@export("keras.utils.custom_object_scope", v2=["keras.saving.custom_object_scope"])
def custom_object_scope(*args: Any) -> CustomObjectScope:
    """Names of custom objects for a block (see `CustomObjectScope`).

    Args:
        *args: Dictionaries from names to classes and functions.

    Returns:
        A context manager.

    >>> with tf.keras.utils.custom_object_scope({"twice": lambda x: x * 2.0}):
    ...     layer = tf.keras.layers.Activation("twice")
    >>> print(layer(3.0).numpy())
    6.0
    """
    return CustomObjectScope(*args)


@export("keras.utils.get_custom_objects", v2=["keras.saving.get_custom_objects"])
def get_custom_objects() -> dict[str, Any]:
    """The names of custom objects that are known everywhere.

    Returns:
        A dictionary from names to classes and functions; may be changed.

    >>> tf.keras.utils.get_custom_objects()["twice"] = lambda x: x * 2.0
    >>> print(tf.keras.layers.Activation("twice")(3.0).numpy())
    6.0
    >>> del tf.keras.utils.get_custom_objects()["twice"]
    """
    return _CUSTOM


@export(v2=["keras.utils.register_keras_serializable", "keras.saving.register_keras_serializable"])
def register_keras_serializable(package: str = "Custom", name: str | None = None) -> Callable:
    """A decorator: configurations may name this class or function, as `package>name`.

    Args:
        package: The first part of the name.
        name: The second part; by default the name of the class or function.

    Returns:
        A decorator, which returns what it decorates. A name that is taken means the newest class, as when the cell of a
        notebook is run again.

    Raises:
        ValueError: if a class has no `get_config`.

    >>> @tf.keras.utils.register_keras_serializable("examples")
    ... class Doubled(tf.keras.layers.Layer):
    ...     def call(self, x):
    ...         return x * 2.0
    >>> tf.keras.utils.get_registered_name(Doubled)
    'examples>Doubled'
    """
    def register(obj: Any) -> Any:
        full = f"{package}>{name if name is not None else obj.__name__}"
        if inspect.isclass(obj) and not hasattr(obj, "get_config"):
            raise ValueError(f"Cannot register a class that does not have a get_config() method: {obj}.")
        obj._keras_registered_name = full
        _CUSTOM[full] = obj
        return obj
    return register


@export(v2=["keras.utils.get_registered_name", "keras.saving.get_registered_name"])
def get_registered_name(obj: Any) -> str:
    """The name of a class or function in configurations."""
    return obj.__dict__.get("_keras_registered_name", obj.__name__) if hasattr(obj, "__dict__") else obj.__name__


@export(v2=["keras.utils.get_registered_object", "keras.saving.get_registered_object"])
def get_registered_object(name: str, custom_objects: Any = None, module_objects: Any = None) -> Any:
    """The class or function of a name, or None."""
    for table in (custom_objects, _CUSTOM, module_objects):
        if table and name in table:
            return table[name]
    return None


@contextlib.contextmanager
def earlier_configs() -> Iterator[None]:
    """Configurations without modules and registered names, for files that other versions of Keras read."""
    token = _earlier.set(True)
    try:
        yield
    finally:
        _earlier.reset(token)


def uses_earlier_configs() -> bool:
    """Whether configurations have neither modules nor registered names: in 1.x, and inside `earlier_configs`."""
    return _earlier.get() or not context.eager_outside_functions()


def serialize_keras_class_and_config(cls_name: str, cls_config: Any) -> dict[str, Any]:
    """A configuration."""
    return {"class_name": cls_name, "config": cls_config}


@export("keras.utils.legacy.serialize_keras_object", v1=["keras.utils.serialize_keras_object"])
def serialize_keras_object(instance: Any) -> Any:
    """The configuration of an object: a dictionary, or a name for a function."""
    if instance is None:
        return None
    if hasattr(instance, "get_config") and not inspect.isclass(instance):
        return serialize_keras_class_and_config(get_registered_name(type(instance)), instance.get_config())
    if hasattr(instance, "__name__"):
        return get_registered_name(instance)
    raise ValueError(f"Cannot serialize {instance}")


def class_and_config_for_serialized_keras_object(config: Any, module_objects: Any = None, custom_objects: Any = None,
                                                 printable_module_name: str = "object") -> tuple:
    """The class that a configuration names, and the rest of it."""
    if not isinstance(config, dict) or "class_name" not in config or "config" not in config:
        raise ValueError(f"Improper config format: {config}")
    name = config["class_name"]
    found = get_registered_object(config.get("registered_name") or name, custom_objects)
    if found is None:
        found = get_registered_object(name, custom_objects, module_objects)
    if found is None:
        raise _unknown(f"Unknown {printable_module_name}: '{name}'{_near(name, module_objects, custom_objects)}. If it is "
                       "one of your own, pass it in `custom_objects`, or use a `tf.keras.utils.custom_object_scope`.")
    return found, config["config"]


def _unknown(text: str) -> ValueError:
    """The error for a name that is neither Keras's nor that of a custom object."""
    error = ValueError(text)
    error.__dict__["unknown_object"] = True
    return error


def is_unknown(error: ValueError) -> bool:
    """Whether an error says that the name of a class or function is not known."""
    return "unknown_object" in error.__dict__


def _near(name: Any, *tables: dict[str, Any] | None) -> str:
    """A hint at the known names that are similar to one that is not known."""
    known = {k for table in (*tables, _CUSTOM) for k in table or () if isinstance(k, str)}
    found = near_names(str(name), sorted(known), 2)
    return f" (did you mean {' or '.join(map(repr, found))}?)" if found else ""


@export("keras.utils.legacy.deserialize_keras_object", v1=["keras.utils.deserialize_keras_object"])
def deserialize_keras_object(identifier: Any, module_objects: Any = None, custom_objects: Any = None,
                             printable_module_name: str = "object") -> Any:
    """The object of a configuration, or of a name: classes are called without arguments, functions are returned."""
    if identifier is None:
        return None
    if isinstance(identifier, dict) and identifier.get("class_name") == "function":
        identifier = identifier["config"]
    if isinstance(identifier, dict):
        cls, config = class_and_config_for_serialized_keras_object(identifier, module_objects, custom_objects,
                                                                   printable_module_name)
        if not hasattr(cls, "from_config"):
            if isinstance(config, str):                         # a function, as Keras 3 writes it
                return cls
            with custom_object_scope(custom_objects):
                return cls(**config)
        if "custom_objects" in inspect.signature(cls.from_config).parameters:
            return cls.from_config(config, custom_objects={**_CUSTOM, **(custom_objects or {})})
        with custom_object_scope(custom_objects):
            return cls.from_config(config)
    if isinstance(identifier, str):
        found = get_registered_object(identifier, custom_objects, module_objects)
        if found is None:
            raise _unknown(f"Unknown {printable_module_name}: {identifier!r}"
                           f"{_near(identifier, module_objects, custom_objects)}")
        return found() if inspect.isclass(found) else found
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret serialized {printable_module_name}: {identifier}")


def has_arg(fn: Callable, name: str, accept_all: bool = False) -> bool:
    """Whether a function takes an argument of this name (or any, where `accept_all`)."""
    with contextlib.suppress(TypeError, ValueError):
        parameters = inspect.signature(fn).parameters.values()
        if accept_all and any(p.kind is p.VAR_KEYWORD for p in parameters):
            return True
        return any(p.name == name and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
    return False


def to_snake_case(name: str) -> str:
    """`MyLayer` as `my_layer`; names that begin with an underscore get `private` before it. `ConvLSTM2D` is `conv_lst_m2d` in
    1.x, and `conv_lstm2d` in 2.x."""
    spread = re.sub(r"(.)([A-Z][a-z]+)" if context.eager_outside_functions() else r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    lower = re.sub(r"([a-z])([A-Z])", r"\1_\2", spread).lower()
    return "private" + lower if lower[0] == "_" else lower


def to_list(x: Any) -> list:
    """A list: `x` itself if it is one, else with `x` as its element."""
    return x if isinstance(x, list) else [x]


def object_list_uid(objects: Any) -> str:
    """A name for a list of objects, by their identities."""
    return ", ".join(str(abs(id(o))) for o in nest.flatten(objects))
