"""Values for variables, from arrays and from checkpoints."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.compat.contrib.framework.variables import get_variable_full_name, get_variables
from penstock.compat import v1 as tf

for _name in ("load_checkpoint", "load_variable", "list_variables", "init_from_checkpoint"):
    export.later(lambda _name=_name: getattr(tf.train, _name), v1=[f"contrib.framework.{_name}"])


def _export(name: str) -> Callable:
    return export(v1=[f"contrib.framework.{name}", f"contrib.slim.{name}"])


def _assigning(pairs: list[tuple[Any, np.ndarray]]) -> tuple[Any, dict]:
    """An op that assigns fed values, and the feeds."""
    assigns, feeds = [], {}
    for var, value in pairs:
        fed = tf.placeholder(var.dtype.base_dtype, shape=var.shape, name="placeholder/" + var.op.name)
        assigns.append(var.assign(fed))
        feeds[fed] = value
    return tf.group(*assigns), feeds


@_export("assign_from_values")
def assign_from_values(var_names_to_values: dict[str, np.ndarray]) -> tuple[Any, dict]:
    """An op that assigns the values to the variables of these names, and the feeds that it needs."""
    pairs = []
    for name, value in var_names_to_values.items():
        found = get_variables(name)
        if not found:
            raise ValueError(f"Variable {name} wasn't found")
        if len(found) > 1:
            found = [v for v in found if v.op.name == name]
            if not found:
                raise ValueError(f"{name} is the name of several variables")
        pairs.append((found[0], value.reshape(found[0].shape.as_list())))
    return _assigning(pairs)


@_export("assign_from_values_fn")
def assign_from_values_fn(var_names_to_values: dict[str, np.ndarray]) -> Callable[[Any], Any]:
    """The same as a function of a session."""
    assign, feeds = assign_from_values(var_names_to_values)
    return lambda session: session.run(assign, feeds)


def _by_name(var_list: Any) -> dict[str, list]:
    grouped: dict[str, list] = {}
    if isinstance(var_list, dict):
        return {name: list(v) if isinstance(v, (tuple, list)) else [v] for name, v in var_list.items()}
    for var in var_list:
        grouped.setdefault(get_variable_full_name(var), []).append(var)
    return grouped


@_export("assign_from_checkpoint")
def assign_from_checkpoint(model_path: str, var_list: Any, ignore_missing_vars: bool = False) -> tuple[Any, dict]:
    """An op that assigns the values of a checkpoint to variables (a list, or a table by names in the checkpoint), and feeds."""
    reader = tf.train.load_checkpoint(model_path)
    pairs = []
    for name, variables in _by_name(var_list).items():
        if not reader.has_tensor(name):
            if not ignore_missing_vars:
                raise ValueError(f"Checkpoint is missing variable [{name}]")
            logging.warning("Checkpoint is missing variable [%s]", name)
            continue
        value = np.asarray(reader.get_tensor(name))
        for var in variables:
            info = getattr(var, "_save_slice_info", None)
            if info:
                part = tuple(slice(start, start + size) for start, size in zip(info.var_offset, info.var_shape, strict=True))
                pairs.append((var, value[part].reshape(info.var_shape)))
                continue
            if var.shape.as_list() != list(value.shape):
                raise ValueError(f"Total size of new array must be unchanged for {name} lh_shape: [{value.shape}], rh_shape: "
                                 f"[{var.shape}]")
            pairs.append((var, value))
    return _assigning(pairs)


@_export("assign_from_checkpoint_fn")
def assign_from_checkpoint_fn(model_path: str, var_list: Any, ignore_missing_vars: bool = False,
                              reshape_variables: bool = False) -> Callable[[Any], None] | None:
    """A function of a session that restores the variables; None if the checkpoint has none of them.

    Args:
        model_path: Checkpoint.
        var_list: Variables, or a dictionary of them by their names in the checkpoint.
        ignore_missing_vars: Whether variables that the checkpoint lacks are left alone, instead of an error.
        reshape_variables: Whether a variable of another shape with as many elements is restored.

    Returns:
        A function of a session, or None.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     sess.run(w.initializer)
    ...     path = tf.train.Saver().save(sess, "./model.ckpt")
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", [2])
    ...     restore = tf.contrib.slim.assign_from_checkpoint_fn("./model.ckpt", [w])
    ...     restore(sess)
    ...     print(sess.run(w))
    [1. 2.]
    """
    if not var_list:
        raise ValueError("var_list cannot be empty")
    if ignore_missing_vars:
        reader = tf.train.load_checkpoint(model_path)
        wanted = var_list if isinstance(var_list, dict) else {v.op.name: v for v in var_list}
        var_list = {name: v for name, v in wanted.items() if reader.has_tensor(name)}
        for name in wanted:
            if name not in var_list:
                logging.warning("Variable %s missing in checkpoint %s", name, model_path)
    if not var_list:
        logging.warning("No Variables to restore")
        return None
    saver = tf.train.Saver(var_list, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)
