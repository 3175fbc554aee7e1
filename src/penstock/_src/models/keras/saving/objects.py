"""Objects from the data that `utils/object_config.py` makes of them."""
from __future__ import annotations

import inspect
import sys
import types
from typing import Any

import numpy as np

from penstock._src.base.api import TABLES, export, resolve
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph import context
from penstock._src.models.keras.layers.serialization import layer_classes
from penstock._src.models.keras.utils import generic_utils, type_config
from penstock._src.models.keras.utils.function_code import func_load, is_trusted, loading
from penstock.compat import v1 as tf

_COMPUTING = tuple(f"keras.{kind}" for kind in ("activations", "constraints", "initializers", "losses", "metrics", "ops",
                                                "regularizers"))      # modules whose functions only compute


@export(v2=["keras.saving.deserialize_keras_object", "keras.utils.deserialize_keras_object"])
def deserialize_keras_object(identifier: Any, module_objects: Any = None, custom_objects: Any = None,
                             printable_module_name: str = "object", safe_mode: bool = True) -> Any:
    """The object of data that `serialize_keras_object` made.

    Args:
        identifier: The data.
        module_objects: Dictionary of names to search first; a string is then the name of a class or function there.
        custom_objects: Dictionary from names to classes and functions that are not Keras's.
        printable_module_name: What messages call an object that is not known.
        safe_mode: Whether to refuse code, such as that of a `lambda`.

    Returns:
        The object.

    Raises:
        ValueError: if a class or function is not known, or there is code while `safe_mode` is True.

    >>> tf.keras.saving.deserialize_keras_object(tf.keras.saving.serialize_keras_object(tf.keras.layers.Dense(3)))
    """
    if isinstance(custom_objects, bool):                    # Keras 2.13 and later: (config, custom_objects, safe_mode)
        module_objects, custom_objects, safe_mode = None, module_objects, custom_objects
    if not context.eager_outside_functions() or module_objects is not None:
        try:
            return generic_utils.deserialize_keras_object(identifier, module_objects, custom_objects, printable_module_name)
        except ValueError as e:
            if not generic_utils.is_unknown(e) or not isinstance(identifier, dict) or not context.eager_outside_functions():
                raise
    with loading(safe_mode), generic_utils.custom_object_scope(module_objects or {}, custom_objects or {}):
        return _object(identifier)


def _object(data: Any) -> Any:
    if data is None or isinstance(data, (int, float, bool)):
        return data
    if isinstance(data, str):
        return generic_utils.get_custom_objects().get(data, data)
    if isinstance(data, (list, tuple)):
        return type(data)(map(_object, data))
    if not isinstance(data, dict):
        raise TypeError(f"Could not parse config: {data}")
    if "class_name" not in data or "config" not in data:
        return {k: _object(v) for k, v in data.items()}
    kind, config = data["class_name"], data["config"]
    if kind == type_config.TAG:
        return type_config.type_of(data)
    if isinstance(kind, str) and kind.startswith("__"):
        return _of_tag(kind, config)
    if kind == "function":
        return _function(data)
    return _instance(data, kind, config)


def _of_tag(tag: str, config: Any) -> Any:
    if tag == "__bytes__":
        return config["value"].encode("utf-8")
    if tag == "__tensor_shape__":
        return TensorShape(None)
    if tag == "__numpy__":
        return np.array(config["value"], dtype=config["dtype"])
    if tag == "__tensor__":
        return tf.constant(np.array(config["value"], dtype=config["dtype"]))
    if tag == "__tuple__":
        return tuple(map(_object, config))
    if tag == "__lambda__":
        return func_load(config["value"])
    raise ValueError(f"Unknown kind of data: {tag}")


def _function(data: dict[str, Any]) -> Any:
    """A function: registered, one that models compute with, of the program, or, if the data is trusted, of any module."""
    name, module = str(data["config"]), str(data.get("module") or "__main__")
    found = generic_utils.get_custom_objects().get(name)
    if found is None and module.startswith("keras."):
        found = resolve("v2", f"{module}.{name}") if is_trusted() or module.startswith(_COMPUTING) else None
    for kind in ("activations", "losses", "metrics") if found is None and module == "builtins" else ():
        found = found or TABLES["v2"].get(f"keras.{kind}.{name}")
    if found is None:
        found = vars(sys.modules.get(module, types)).get(name) if module != "builtins" else None
        found = found if isinstance(found, types.FunctionType) and (is_trusted() or found.__module__ == "__main__") else None
    if found is None:
        raise ValueError(f"Could not locate function '{name}'. Make sure custom functions are decorated with "
                         "`@keras.saving.register_keras_serializable()`, or pass them in `custom_objects`.")
    return found


def _instance(data: dict[str, Any], name: str, config: Any) -> Any:
    cls = _class(data, name)
    if cls is None:
        raise TypeError(f"Could not locate class '{name}'. Make sure custom classes are decorated with "
                        f"`@keras.saving.register_keras_serializable()`, or pass them in `custom_objects`. Full config: {data}")
    if not isinstance(config, dict) or not hasattr(cls, "from_config"):
        raise ValueError(f"Class '{name}' cannot be made of the config {config}.")
    made = cls.from_config(dict(config))
    shape = data.get("build_config")
    if shape and hasattr(made, "build_from_config"):
        made.build_from_config(_object(shape))
    if data.get("compile_config") and hasattr(made, "compile_from_config"):
        made.compile_from_config(data["compile_config"])
    return made


def _class(data: dict[str, Any], name: str) -> Any:
    """The class of the data: registered, of a Keras module, or a class with a config in a module that is loaded."""
    for known in (str(data.get("registered_name")), name):
        found = generic_utils.get_custom_objects().get(known)
        if found is not None:
            return found
    module = str(data.get("module") or "__main__")
    if module.startswith("keras"):
        found = TABLES["v2"].get(f"{module}.{name}")
        return found if isinstance(found, type) else layer_classes().get(name)
    found = vars(sys.modules[module]).get(name) if module in sys.modules else None
    if inspect.isclass(found) and hasattr(found, "get_config") and hasattr(found, "from_config"):
        return found
    return layer_classes().get(name) if "module" not in data else None
