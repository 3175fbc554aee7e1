"""The checkpoints of a directory: the state file that names them, finding the newest, removing old ones.

The state file ("checkpoint") is written last and atomically, so that it never names an incomplete checkpoint.
"""
from __future__ import annotations

import os
import re
from typing import Any

from google.protobuf import text_format

from penstock._src.base import errors
from penstock._src.base import tf_logging as logging
from penstock._src.base.api import export
from penstock._src.graph.messages import CheckpointState, SaverDef
from penstock._src.io import bundle, keyed_files, paths


def _is_absolute(path: str) -> bool:
    return os.path.isabs(path) or "://" in path


def nameable(path: str) -> str:
    """A path that state files can name: they are text. InvalidArgumentError before anything is written for another one."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise errors.InvalidArgumentError(
            None, None, f"The path {os.fsencode(path)!r} is not UTF-8, and the file that names a directory's checkpoints is "
            "text. Choose another directory, or use tf.train.Checkpoint.write and read, which take any path.") from None
    return path


def _state_file(folder: str, latest_filename: str | None) -> str:
    return paths.join(folder, latest_filename or "checkpoint") if folder else latest_filename or "checkpoint"


@export(v1=["train.generate_checkpoint_state_proto"])
def generate_checkpoint_state_proto(save_dir: Any, model_checkpoint_path: str, all_model_checkpoint_paths: Any = None,
                                    all_model_checkpoint_timestamps: Any = None,
                                    last_preserved_timestamp: float | None = None) -> Any:
    """The CheckpointState that names the newest checkpoint and those that are kept; relative if `save_dir` is."""
    save_dir = paths.as_text(save_dir)
    kept = list(all_model_checkpoint_paths or ())
    if not kept or kept[-1] != model_checkpoint_path:
        logging.info("%s is not in all_model_checkpoint_paths. Manually adding it.", model_checkpoint_path)
        kept.append(model_checkpoint_path)
    if all_model_checkpoint_timestamps and len(all_model_checkpoint_timestamps) != len(kept):
        raise ValueError("Checkpoint timestamps, if provided, must match checkpoint paths (got paths "
                         f"{kept} and timestamps {all_model_checkpoint_timestamps})")
    if not _is_absolute(save_dir):
        def relative(p: str) -> str:
            return p if _is_absolute(p) else os.path.relpath(p, save_dir)
        model_checkpoint_path, kept = relative(model_checkpoint_path), [relative(p) for p in kept]
    return CheckpointState(model_checkpoint_path=model_checkpoint_path, all_model_checkpoint_paths=kept,
                           all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
                           last_preserved_timestamp=last_preserved_timestamp)


@export("__internal__.train.update_checkpoint_state", v1=["train.update_checkpoint_state"])
def update_checkpoint_state(save_dir: Any, model_checkpoint_path: str, all_model_checkpoint_paths: Any = None,
                            latest_filename: str | None = None, all_model_checkpoint_timestamps: Any = None,
                            last_preserved_timestamp: float | None = None) -> None:
    """Writes the state file of a directory."""
    write_state(save_dir, model_checkpoint_path, all_model_checkpoint_paths, latest_filename, False,
                all_model_checkpoint_timestamps, last_preserved_timestamp)


def write_state(save_dir: Any, newest: str, kept: Any = None, latest_filename: str | None = None, relative: bool = False,
                timestamps: Any = None, last_preserved: float | None = None) -> None:
    """Writes the state file, with relative paths if requested."""
    save_dir = paths.as_text(save_dir)
    file = _state_file(save_dir, latest_filename)
    named, kept = newest, list(kept or ())
    if relative:
        def inside(p: str) -> str:
            return os.path.relpath(p, save_dir) if os.path.isabs(p) else p.removeprefix(save_dir.rstrip("/") + "/") \
                if "://" in p else p
        named, kept = inside(newest), [inside(p) for p in kept]
    state = generate_checkpoint_state_proto(save_dir, named, kept, timestamps, last_preserved)
    if file == state.model_checkpoint_path:
        raise RuntimeError(f"Save path '{newest}' conflicts with path used for checkpoint state.  Please use a different save "
                           "path.")
    paths.write_atomically(file, text_format.MessageToString(state).encode(), stored=True)


_PASSING = (errors.ResourceExhaustedError, errors.UnavailableError, errors.DeadlineExceededError, errors.AbortedError)


@export("train.get_checkpoint_state")
def get_checkpoint_state(checkpoint_dir: Any, latest_filename: str | None = None) -> Any:
    """The CheckpointState of a directory; None if there is none that can be read.

    Args:
        checkpoint_dir: Directory with a `checkpoint` file.
        latest_filename: Name of that file.

    Returns:
        A `CheckpointState` with `model_checkpoint_path` and `all_model_checkpoint_paths`, or None.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     v = tf.compat.v1.get_variable("v", initializer=1.)
    ...     sess.run(v.initializer)
    ...     path = tf.compat.v1.train.Saver().save(sess, "train/model", global_step=7)
    ...     state = tf.train.get_checkpoint_state("train")
    ...     print(state.model_checkpoint_path)
    train/model-7
    """
    folder = nameable(paths.as_text(checkpoint_dir))
    file = _state_file(folder, latest_filename)
    try:
        if not paths.exists(file):
            return None
        state = text_format.Parse(paths.read_stored(file), CheckpointState())
    except _PASSING:                                 # "no checkpoint" would let a training begin again, and replace it
        raise
    except (errors.OpError, text_format.ParseError, UnicodeDecodeError) as e:
        logging.warning("%s: %s", type(e).__name__, e)
        logging.warning("%s: Checkpoint ignored", file)
        return None
    if not state.model_checkpoint_path:
        raise ValueError("Invalid checkpoint state loaded from " + folder)
    if not _is_absolute(state.model_checkpoint_path):
        state.model_checkpoint_path = paths.join(folder, state.model_checkpoint_path)
    for i, p in enumerate(state.all_model_checkpoint_paths):
        if not _is_absolute(p):
            state.all_model_checkpoint_paths[i] = paths.join(folder, p)
    return state


@export("train.latest_checkpoint")
def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The newest checkpoint in a directory, or None.

    Args:
        checkpoint_dir: Directory with a `checkpoint` file.
        latest_filename: Name of that file.

    Returns:
        Prefix of the checkpoint's files, or None.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     v = tf.compat.v1.get_variable("v", initializer=1.)
    ...     sess.run(v.initializer)
    ...     path = tf.compat.v1.train.Saver().save(sess, "train/model", global_step=7)
    ...     print(tf.train.latest_checkpoint("train"))
    train/model-7
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    if checkpoint_exists(state.model_checkpoint_path):
        return state.model_checkpoint_path
    logging.error("Couldn't match files for checkpoint %s", state.model_checkpoint_path)
    return None


@export(v1=["train.checkpoint_exists"])
def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Whether a checkpoint, of either version, with that prefix exists.

    Args:
        checkpoint_prefix: Path without the suffix of a file.

    Returns:
        A boolean.

    >>> tf.train.checkpoint_exists("train/model-7")
    False
    """
    prefix = paths.as_text(checkpoint_prefix)
    return bool(_files(prefix))


def _files(prefix: Any) -> list[str]:
    """The index, or the files of version 1, of a checkpoint."""
    return paths.named(bundle.index_name(prefix)) or paths.named(prefix)


@export(v1=["train.get_checkpoint_mtimes"])
def get_checkpoint_mtimes(checkpoint_prefixes: Any) -> list[float]:
    """When the checkpoints that exist were written, in seconds."""
    times = []
    for prefix in checkpoint_prefixes:
        found = _files(prefix)
        if found:
            times.append(paths.stat(found[0]).mtime_nsec / 1e9)
    return times


@export(v1=["train.remove_checkpoint"])
def remove_checkpoint(checkpoint_prefix: Any, checkpoint_format_version: int = SaverDef.V2,
                      meta_graph_suffix: str = "meta") -> None:
    """Removes the files of a checkpoint."""
    prefix = paths.as_text(checkpoint_prefix)
    if checkpoint_format_version == SaverDef.V2:
        bundle.remove(prefix)
        keyed_files.remove(prefix)
    else:
        remove_matching(prefix)
    remove_matching(meta_graph_filename(prefix, meta_graph_suffix))


def remove_matching(pattern: str) -> None:
    """Removes the file of that name, or those that match the pattern."""
    for path in paths.named(pattern):
        paths.remove(path)


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """The file of the MetaGraphDef that belongs to a checkpoint."""
    return re.sub(r"-[\d\?]+-of-\d+$", "", checkpoint_filename) + "." + meta_graph_suffix
