"""Variables made in scopes, and found again by scope, suffix or pattern."""
from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.framework.arguments import add_arg_scope
from penstock.compat import v1 as tf

_GLOBAL, _MODEL = tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES
_AUTO, _NONE = tf.VariableSynchronization.AUTO, tf.VariableAggregation.NONE


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.framework.{name}", f"contrib.slim.{name}"])


_export("get_global_step")(tf.train.get_global_step)
_export("create_global_step")(tf.train.create_global_step)
_export("get_or_create_global_step")(tf.train.get_or_create_global_step)
_export("assert_global_step")(tf.train.assert_global_step)


@_export("assert_or_get_global_step")
def assert_or_get_global_step(graph: Any = None, global_step_tensor: Any = None) -> Any:
    """The step that was given, checked, or else that of the graph."""
    if global_step_tensor is None:
        return tf.train.get_global_step(graph)
    tf.train.assert_global_step(global_step_tensor)
    return global_step_tensor


@_export("local_variable")
def local_variable(initial_value: Any, validate_shape: bool = True, name: str | None = None, use_resource: Any = None) -> Any:
    """A variable of this process, which is not saved."""
    return tf.Variable(initial_value, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES],
                       validate_shape=validate_shape, use_resource=use_resource, name=name)


@_export("global_variable")
def global_variable(initial_value: Any, validate_shape: bool = True, name: str | None = None, use_resource: Any = None) -> Any:
    """A variable that is not trained."""
    return tf.Variable(initial_value, trainable=False, collections=[_GLOBAL], validate_shape=validate_shape,
                       use_resource=use_resource, name=name)


@_export("variable")
@add_arg_scope
def variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
             trainable: bool = True, collections: Any = None, caching_device: Any = None, device: Any = None,
             partitioner: Any = None, custom_getter: Any = None, use_resource: Any = None, synchronization: Any = _AUTO,
             aggregation: Any = _NONE) -> Any:
    """An existing variable of the scope, or a new one, on `device`."""
    collections = list(dict.fromkeys([_GLOBAL] if collections is None else collections))
    getter: Callable = tf.get_variable
    if custom_getter is not None:
        getter = functools.partial(custom_getter, reuse=tf.get_variable_scope().reuse)
    with tf.device(device or ""):
        return getter(name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
                      collections=collections, caching_device=caching_device, partitioner=partitioner,
                      use_resource=use_resource, synchronization=synchronization, aggregation=aggregation)


@_export("model_variable")
@add_arg_scope
def model_variable(name: str, shape: Any = None, dtype: Any = tf.float32, initializer: Any = None, regularizer: Any = None,
                   trainable: bool = True, collections: Any = None, caching_device: Any = None, device: Any = None,
                   partitioner: Any = None, custom_getter: Any = None, use_resource: Any = None, synchronization: Any = _AUTO,
                   aggregation: Any = _NONE) -> Any:
    """As `variable`, and in the collection of the model's variables."""
    return variable(name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
                    collections=[*(collections or ()), _GLOBAL, _MODEL], caching_device=caching_device, device=device,
                    partitioner=partitioner, custom_getter=custom_getter, use_resource=use_resource,
                    synchronization=synchronization, aggregation=aggregation)


@_export("add_model_variable")
def add_model_variable(var: Any) -> None:
    """Puts a variable into the collection of the model's."""
    if all(var is not v for v in tf.get_collection(_MODEL)):
        tf.add_to_collection(_MODEL, var)


@_export("get_variables")
def get_variables(scope: Any = None, suffix: str | None = None, collection: str = _GLOBAL) -> list:
    """The variables whose names begin with a scope and end with a suffix.

    Args:
        scope: Regular expression that names have to begin with.
        suffix: End of the names of the variables.
        collection: Collection to look in; that of global variables by default.

    Returns:
        A list of variables.

    >>> slim = tf.contrib.slim
    >>> with tf.Graph().as_default():
    ...     y = slim.fully_connected(tf.ones([2, 3]), 4, scope="layer")
    ...     print([v.name for v in slim.get_variables(suffix="weights")])
    ['layer/weights:0']
    """
    scope = getattr(scope, "name", scope)
    if suffix is not None:
        suffix = suffix if ":" in suffix else suffix + ":"
        scope = (scope or "") + ".*" + suffix
    return tf.get_collection(collection, scope)


@_export("get_model_variables")
def get_model_variables(scope: Any = None, suffix: str | None = None) -> list:
    """Those of the model.

    Args:
        scope: Regular expression that names have to begin with.
        suffix: End of the names of the variables.

    Returns:
        A list of variables.

    >>> slim = tf.contrib.slim
    >>> with tf.Graph().as_default():
    ...     y = slim.fully_connected(tf.ones([2, 3]), 4, scope="layer")
    ...     print([v.name for v in slim.get_model_variables("layer")])
    ['layer/weights:0', 'layer/biases:0']
    """
    return get_variables(scope, suffix, _MODEL)


@_export("get_local_variables")
def get_local_variables(scope: Any = None, suffix: str | None = None) -> list:
    """Those that are local."""
    return get_variables(scope, suffix, tf.GraphKeys.LOCAL_VARIABLES)


@_export("get_trainable_variables")
def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list:
    """Those that are trained."""
    return get_variables(scope, suffix, tf.GraphKeys.TRAINABLE_VARIABLES)


@_export("get_variables_to_restore")
def get_variables_to_restore(include: Any = None, exclude: Any = None) -> list:
    """All variables, or those in the scopes of `include`, without those in the scopes of `exclude`.

    Args:
        include: Scopes; all by default.
        exclude: Scopes.

    Returns:
        A list of variables.

    >>> slim = tf.contrib.slim
    >>> with tf.Graph().as_default():
    ...     y = slim.fully_connected(slim.fully_connected(tf.ones([2, 3]), 4, scope="body"), 2, scope="head")
    ...     print([v.name for v in slim.get_variables_to_restore(exclude=["head"])])
    ['body/weights:0', 'body/biases:0']
    """
    for name, given in (("include", include), ("exclude", exclude)):
        if given is not None and not isinstance(given, (list, tuple)):
            raise TypeError(f"{name} is provided but is not a list or a tuple.")
    included = get_variables() if include is None else [v for scope in include for v in get_variables(scope)]
    excluded = {id(v) for scope in exclude or () for v in get_variables(scope)}
    return [v for v in included if id(v) not in excluded]


@_export("get_variables_by_suffix")
def get_variables_by_suffix(suffix: str, scope: Any = None) -> list:
    """The variables whose names end so."""
    return get_variables(scope=scope, suffix=suffix)


@_export("get_variables_by_name")
def get_variables_by_name(given_name: str, scope: Any = None) -> list:
    """The variables of that name, in any scope below."""
    return get_variables(scope=scope, suffix=f"/{given_name}:|^{given_name}:")


@_export("get_unique_variable")
def get_unique_variable(var_op_name: str) -> Any:
    """The one variable of that full name."""
    candidates = get_variables(scope=var_op_name)
    if not candidates:
        raise ValueError(f"Couldn't find variable {var_op_name}")
    for candidate in candidates:
        if candidate.op.name == var_op_name:
            return candidate
    raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable")


@_export("get_variable_full_name")
def get_variable_full_name(var: Any) -> str:
    """The name in checkpoints: that of the whole, for a part of a partitioned variable."""
    info = getattr(var, "_save_slice_info", None)
    return info.full_name if info else var.op.name


@_export("filter_variables")
def filter_variables(var_list: Any, include_patterns: Any = None, exclude_patterns: Any = None,
                     reg_search: bool = True) -> list:
    """The variables whose names match one of `include_patterns` and none of `exclude_patterns`."""
    matches = re.search if reg_search else re.match
    found = list(var_list)
    if include_patterns is not None:
        found = [v for v in found if any(matches(p, v.name) for p in include_patterns)]
    if exclude_patterns is not None:
        found = [v for v in found if not any(matches(p, v.name) for p in exclude_patterns)]
    return found


@_export("VariableDeviceChooser")
class VariableDeviceChooser:
    """A device function that assigns variables to the tasks of a job in turn."""

    def __init__(self, num_tasks: int = 0, job_name: str = "ps", device_type: str = "CPU", device_index: int = 0,
                 replica: int | None = None):
        self._num_tasks, self._job_name, self._next = num_tasks, job_name, 0
        self._where = {"replica": replica, "device_type": device_type, "device_index": device_index}

    def __call__(self, op: Any) -> str:
        where = dict(self._where)
        if self._num_tasks > 0:
            where.update(job=self._job_name, task=self._next)
            self._next = (self._next + 1) % self._num_tasks
        return tf.DeviceSpec(**where).to_string()
