"""Initializing variables from the checkpoint of another run, and waiting for new checkpoints."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph.scopes import control_dependencies, device
from penstock._src.ops.registry import get
from penstock._src.state.checkpoint import state
from penstock._src.state.checkpoint.reader import checkpoint_filename, load_checkpoint
from penstock._src.state.checkpoint.saveable import op_list_to_dict, saveable_objects_for_op
from penstock._src.state.variables.partitioned import PartitionedVariable
from penstock._src.state.variables.store import current_store
from penstock._src.state.variables.variable import Variable


@export(v1=["train.init_from_checkpoint"])
def init_from_checkpoint(ckpt_dir_or_file: Any, assignment_map: dict) -> None:
    """Makes the initializers of variables read their values from a checkpoint.

    The map goes from names (or scopes, "a/") in the checkpoint to variables, lists of parts, names or scopes here.

    Args:
        ckpt_dir_or_file: Directory with a checkpoint, or its prefix.
        assignment_map: From names or scopes in the checkpoint to variables, their names or scopes.

    Raises:
        ValueError: if a name is missing or shapes differ.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("encoder/w", initializer=[1., 2.])
    ...     sess.run(w.initializer)
    ...     path = tf.train.Saver().save(sess, "./old")
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("model/encoder/w", [2])
    ...     tf.train.init_from_checkpoint("./old", {"encoder/": "model/encoder/"})
    ...     sess.run(tf.global_variables_initializer())
    ...     print(sess.run(w))
    [1. 2.]
    """
    path = checkpoint_filename(ckpt_dir_or_file)
    shapes = load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map()
    known = _known()
    pairs = assignment_map.items() if hasattr(assignment_map, "items") else assignment_map
    for there, here in sorted(pairs, key=lambda item: str(item[0])):
        variable = _found(here, known)
        if variable is None:
            _init_scope(path, ckpt_dir_or_file, there, here, shapes, known)
            continue
        if not _is_in(shapes, variable, there):
            raise ValueError(f"Tensor {there} is not found in {ckpt_dir_or_file} checkpoint {shapes}")
        if there in shapes and isinstance(variable, Variable) and not variable.get_shape().is_compatible_with(shapes[there]):
            raise ValueError(f"Shape of variable {variable.name} ({variable.get_shape()}) doesn't match with shape of tensor "
                             f"{there} ({shapes[there]}) from checkpoint reader.")
        _set(variable, path, there)


def _known() -> dict[str, Any]:
    """The variables by name: those in parts by the names of their parts, unless they restore their parts themselves."""
    store = current_store()
    return {**{n: v for n, v in store._partitioned_vars.items() if _restoring(v, n)}, **store._vars}


def _restoring(variable: Any, name: str) -> list[Any]:
    """What restores a variable that is not one tensor in a checkpoint."""
    gather = getattr(variable, "_gather_saveables_for_checkpoint", None)
    made = [f(name) for f in gather().values() if callable(f)] if gather is not None else []
    return [saveable for saveable in made if hasattr(saveable, "restore_from")]


def _is_in(shapes: dict, variable: Any, name: str) -> bool:
    found = _restoring(variable, name)
    return all(saveable.is_in(shapes) for saveable in found) if found else name in shapes


def _found(here: Any, known: dict[str, Any]) -> Any:
    """A variable, or the list of its parts, from what the map names; None if it names a scope."""
    if isinstance(here, PartitionedVariable):
        return list(here)
    if not isinstance(here, (str, list)) and _restoring(here, ""):
        return here
    if isinstance(here, Variable) or isinstance(here, list) and all(isinstance(v, Variable) for v in here):
        return here
    if here in known:
        return known[here]
    parts: list[Any] = []
    while f"{here}/part_{len(parts)}" in known:
        parts.append(known[f"{here}/part_{len(parts)}"])
    return parts or None


def _init_scope(path: Any, given: Any, there: str, here: str, shapes: dict, known: dict[str, Any]) -> None:
    scope = here.rpartition("/")[0]
    if not there.endswith("/"):
        raise ValueError(f"Assignment map with scope only name {scope} should map to scope only {there}. Should be 'scope/': "
                         "'other_scope/'.")
    names = {n.partition("/part_")[0] for n in known if not scope or n.startswith(scope + "/")}
    for name in sorted(names):
        own = name[len(scope):] if here == "/" else name[len(scope) + 1:] if scope else name
        full = (own if there == "/" else there + own).rstrip("/")
        variable = _found(name, known)
        if not _is_in(shapes, variable, full):
            raise ValueError(f"Tensor {full} ({name[len(scope) + 1:]} in {there}) is not found in {given} checkpoint")
        _set(variable, path, full)


def _set(variable: Any, path: Any, tensor_name: str) -> None:
    found = _restoring(variable, tensor_name)
    for saveable in found:
        with control_dependencies([v._initializer_op for v in saveable.variables]):
            restored = saveable.restore_from(path)
        for v in saveable.variables:
            v._initializer_op = restored
    if found:
        return
    if not isinstance(variable, (list, tuple)):
        _set_initializer(variable, path, tensor_name, "")
        return
    whole = None
    for part in variable:
        info = part._save_slice_info
        if whole is not None and whole != info.full_name:
            raise ValueError(f"Slices must all be from the same tensor: {whole} != {info.full_name}")
        whole = info.full_name
        _set_initializer(part, path, tensor_name, info.spec)


def _set_initializer(variable: Any, path: Any, tensor_name: str, slice_spec: str) -> None:
    with device(variable.device), device("/cpu:0"):
        restored, = get("RestoreV2")(path, [tensor_name], [slice_spec], [variable.dtype.base_dtype],
                                     name="checkpoint_initializer")
        saveable, = (s for name, op in op_list_to_dict([variable]).items() for s in saveable_objects_for_op(op, name))
    variable._initializer_op = saveable.restore([restored], None)
    if not hasattr(restored, "_value"):
        restored.set_shape(variable.shape)
        variable._initial_value = restored


# -- waiting for new ones --------------------------------------------------------------------------------------------
def wait_for_new_checkpoint(checkpoint_dir: Any, last_checkpoint: str | None = None, seconds_to_sleep: float = 1,
                            timeout: float | None = None) -> str | None:
    """Waits until the newest checkpoint of a directory differs from `last_checkpoint`, and returns it; None after `timeout`
    seconds."""
    stop = None if timeout is None else time.monotonic() + timeout
    while True:
        found = state.latest_checkpoint(checkpoint_dir)
        if found is not None and found != last_checkpoint:
            return found
        if stop is not None and time.monotonic() + seconds_to_sleep > stop:
            return None
        time.sleep(seconds_to_sleep)


@export("train.checkpoints_iterator")
def checkpoints_iterator(checkpoint_dir: Any, min_interval_secs: float = 0, timeout: float | None = None,
                         timeout_fn: Callable | None = None) -> Iterator[str]:
    """The checkpoints of a directory as they appear. After `timeout` seconds without a new one it ends (if `timeout_fn`,
    when there is one, returns True).

    >>> for path in tf.train.checkpoints_iterator("/tmp/train", timeout=600): evaluate(path)
    """
    path = None
    while True:
        found = wait_for_new_checkpoint(checkpoint_dir, path, timeout=timeout)
        if found is None:
            if timeout_fn is None or timeout_fn():
                logging.info("Timed-out waiting for a checkpoint.")
                return
            continue
        start, path = time.monotonic(), found
        yield path
        left = start + min_interval_secs - time.monotonic()
        if left > 0:
            time.sleep(left)
