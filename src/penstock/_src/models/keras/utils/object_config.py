"""Any object as plain data: layers and losses, and also arrays, functions, bytes, and lists and dictionaries of them.

The data of an object name its public module, its class and, for a class of the user, the name that it is registered under:
`{"module": "keras.layers", "class_name": "Dense", "config": {…}, "registered_name": None}`. The form before Keras 2.12,
`{"class_name": "Dense", "config": {…}}`, is that of 1.x programs and of the files that other versions have to read;
`generic_utils.earlier_configs` selects it for a block. `saving/objects.py` turns data into objects.
"""
from __future__ import annotations

import inspect
import types
import warnings
from typing import Any

import numpy as np

from penstock._src.base.api import TABLES, Later, export
from penstock._src.base.dtypes import DType
from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.convert import is_tensor
from penstock._src.graph.type_spec import TypeSpec
from penstock._src.models.keras.utils import generic_utils, type_config
from penstock._src.models.keras.utils.function_code import func_dump

_PLAIN = (str, int, float, bool)
_FUNCTIONAL = ("keras.src.engine.functional", "Functional")        # has no public name


@export(v2=["keras.saving.serialize_keras_object", "keras.utils.serialize_keras_object"])
def serialize_keras_object(instance: Any) -> Any:
    """An object as data that JSON can hold.

    Args:
        instance: A layer, model, loss, metric, optimizer, function, array, tensor, or a list or dictionary of them.

    Returns:
        A dictionary for `deserialize_keras_object`; numbers and texts are returned unchanged.

    Raises:
        TypeError: if the class of the object has no `get_config`.

    >>> tf.keras.saving.serialize_keras_object({"a": tf.keras.layers.Dense(3), "b": (1, 2)})
    """
    if generic_utils.uses_earlier_configs():
        return generic_utils.serialize_keras_object(instance)
    if instance is None or isinstance(instance, _PLAIN):
        return instance
    if isinstance(instance, (list, tuple)):
        return type(instance)(map(serialize_keras_object, instance)) if type(instance) in (list, tuple) else \
            [serialize_keras_object(v) for v in instance]
    if isinstance(instance, dict):
        return {k: serialize_keras_object(v) for k, v in instance.items()}
    special = _special(instance)
    return _described(instance) if special is None else special


def _special(obj: Any) -> Any:
    """The data of values that are neither plain nor objects with a config; None for others."""
    if isinstance(obj, bytes):
        return _tagged("__bytes__", {"value": obj.decode("utf-8")})
    if isinstance(obj, TensorShape):
        return obj.as_list() if obj.rank is not None else _tagged("__tensor_shape__", {})
    if isinstance(obj, np.ndarray) and obj.ndim:
        return _tagged("__numpy__", {"value": obj.tolist(), "dtype": obj.dtype.name})
    if isinstance(obj, (np.ndarray, np.generic)):
        return obj.item()
    if isinstance(obj, DType):
        return obj.name
    if isinstance(obj, TypeSpec):
        return type_config.describe(obj)
    if is_tensor(obj) and hasattr(obj, "numpy") and not hasattr(obj, "get_config"):
        value = np.asarray(obj.numpy())
        return _tagged("__tensor__", {"value": value.tolist(), "dtype": value.dtype.name})
    if isinstance(obj, types.FunctionType) and obj.__name__ == "<lambda>":
        warnings.warn("A `lambda` is written as code. To load it, `safe_mode=False` must be passed, which allows arbitrary "
                      "code execution; a named function that is registered needs no code.", stacklevel=3)
        return _tagged("__lambda__", {"value": func_dump(obj)})
    return None


def _tagged(tag: str, config: Any) -> dict[str, Any]:
    return {"class_name": tag, "config": config}


def _described(obj: Any) -> dict[str, Any]:
    """The data of an object with a config, or of a function."""
    function = hasattr(obj, "__name__") and not hasattr(obj, "get_config")
    if not function and not hasattr(obj, "get_config"):
        raise TypeError(f"Cannot serialize object {obj} of type {type(obj)}. To be serializable, a class must implement the "
                        "`get_config()` method.")
    named = obj if function or inspect.isclass(obj) else type(obj)
    registered = generic_utils.get_registered_name(named)
    module, name = _public_name(named) or (named.__module__, named.__name__)
    if function or inspect.isclass(obj):
        return {"module": "builtins", "class_name": "function", "config": registered, "registered_name": "function"}
    config = obj.get_config()
    if not isinstance(config, dict):
        raise TypeError(f"The `get_config()` method of {obj} should return a dict. It returned: {config}")
    found = {"module": None if module == "__main__" else module, "class_name": name, "config": serialize_keras_object(config),
             "registered_name": None if module.startswith("keras") and module != _FUNCTIONAL[0] else registered}
    build = obj.get_build_config() if getattr(obj, "built", False) and hasattr(obj, "get_build_config") else None
    if build:
        found["build_config"] = serialize_keras_object(build)
    if getattr(obj, "optimizer", None) is not None and hasattr(obj, "get_compile_config"):
        found["compile_config"] = obj.get_compile_config()
    return found


def serialized(instance: Any, use_legacy_format: bool = False) -> Any:
    """The data of a layer, loss, initializer …, in the current form or, if requested, in that before Keras 2.12."""
    return (generic_utils.serialize_keras_object if use_legacy_format else serialize_keras_object)(instance)


_names: dict[Any, tuple[str, str]] = {}


def _public_name(cls: Any) -> tuple[str, str] | None:
    """The public module and name of a class or function of Keras: of several, the class's own name, in the shortest module."""
    if not cls.__module__.startswith("penstock."):
        return None
    if cls not in _names:
        names = [full.rpartition(".") for full, value in TABLES["v2"].items()
                 if value is cls and full.startswith("keras.") and not isinstance(value, Later)]
        if names:
            module, _, name = min(names, key=lambda n: (n[2] != cls.__name__, "experimental" in n[0], len(n[0])))
            _names[cls] = (module, name)
    found = _names.get(cls)
    return _FUNCTIONAL if found is None and cls.__name__ == "Functional" else found
