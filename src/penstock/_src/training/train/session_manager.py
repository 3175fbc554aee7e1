"""SessionManager: a session whose model is ready, by restoring, initializing, or waiting for another process to do so."""
from __future__ import annotations

import contextlib
import time
from typing import Any

import numpy as np

from penstock._src.base import errors, tf_logging
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.session.session import Session
from penstock._src.state.checkpoint.state import get_checkpoint_state

FIRST_WAIT = 0.25                   # seconds before a model is inspected again; then twice as many, up to recovery_wait_secs


@export(v1=["train.SessionManager"])
class SessionManager:
    """Makes sessions: `prepare_session` for the chief, `wait_for_session` for other workers.

    >>> sess = tf.train.SessionManager().prepare_session("", init_op=init, saver=saver, checkpoint_dir=folder)
    """

    def __init__(self, local_init_op: Any = None, ready_op: Any = None, ready_for_local_init_op: Any = None, graph: Any = None,
                 recovery_wait_secs: float = 30, local_init_run_options: Any = None, local_init_feed_dict: Any = None):
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError("If you pass a ready_for_local_init_op you must also pass a local_init_op , "
                             f"ready_for_local_init_op [{ready_for_local_init_op}]")
        self._graph = graph or context.current_graph()
        self._ready_op, self._ready_for_local_init_op = ready_op, ready_for_local_init_op
        self._local_init_op, self._local_init_run_options = local_init_op, local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict
        self._recovery_wait_secs = recovery_wait_secs
        self._target: str | None = None

    # -- three ways to a session ---------------------------------------------------------------------------------------
    def prepare_session(self, master: str, init_op: Any = None, saver: Any = None, checkpoint_dir: str | None = None,
                        checkpoint_filename_with_path: str | None = None, wait_for_checkpoint: bool = False,
                        max_wait_secs: float = 7200, config: Any = None, init_feed_dict: Any = None,
                        init_fn: Any = None) -> Any:
        """A session with the newest checkpoint or, if there is none, initialized by `init_op` and `init_fn`."""
        sess, loaded = self._restore(master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint,
                                     max_wait_secs, config)
        if not loaded:
            if init_op is None and not init_fn and self._local_init_op is None:
                raise RuntimeError("Model is not initialized and no init_op or init_fn or local_init_op was given")
            if init_op is not None:
                sess.run(init_op, feed_dict=init_feed_dict)
            if init_fn:
                init_fn(sess)
        named = "None" if init_op is None else getattr(init_op, "name", f"<no name for {type(init_op)}>")
        done, why = self._try_local_init(sess)
        if not done:
            raise RuntimeError(f"Init operations did not make model ready for local_init.  Init op: {named}, init fn: "
                               f"{init_fn}, error: {why}")
        ready, why = is_ready(self._ready_op, sess, "Model not ready")
        if not ready:
            raise RuntimeError(f"Init operations did not make model ready.  Init op: {named}, init fn: {init_fn}, "
                               f"local_init_op: {self._local_init_op}, error: {why}")
        return sess

    def recover_session(self, master: str, saver: Any = None, checkpoint_dir: str | None = None,
                        checkpoint_filename_with_path: str | None = None, wait_for_checkpoint: bool = False,
                        max_wait_secs: float = 7200, config: Any = None) -> tuple[Any, bool]:
        """A session, and whether a checkpoint made its model ready."""
        sess, loaded = self._restore(master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint,
                                     max_wait_secs, config)
        done, why = self._try_local_init(sess)
        if not loaded:
            return sess, False
        source = checkpoint_dir or checkpoint_filename_with_path
        if not done:
            tf_logging.info("Restoring model from %s did not make model ready for local init: %s", source, why)
            return sess, False
        ready, why = is_ready(self._ready_op, sess, "Model not ready")
        if not ready:
            tf_logging.info("Restoring model from %s did not make model ready: %s", source, why)
            return sess, False
        tf_logging.info("Restored model from %s", source)
        return sess, True

    def wait_for_session(self, master: str, config: Any = None, max_wait_secs: float | None = float("inf")) -> Any:
        """A session whose model another process initializes; DeadlineExceededError when that takes too long."""
        self._target = master
        limit = float("inf") if max_wait_secs is None else max_wait_secs
        deadline = time.monotonic() + limit
        pause = min(FIRST_WAIT, self._recovery_wait_secs)
        while True:
            sess = Session(master, graph=self._graph, config=config)
            done, why_local = self._try_local_init(sess)
            ready, why = is_ready(self._ready_op, sess, "Model not ready") if done else (False, None)
            if ready:
                return sess
            with contextlib.suppress(Exception):
                sess.close()
            if deadline - time.monotonic() < pause:
                raise errors.DeadlineExceededError(None, None, f"Session was not ready after waiting {int(limit)} secs. "
                                                   f"{why_local or why or ''}".rstrip())
            tf_logging.info("Waiting for model to be ready.  Ready_for_local_init_op:  %s, ready: %s", why_local, why)
            time.sleep(pause)
            pause = min(2 * pause, self._recovery_wait_secs)

    # -- steps of these ---------------------------------------------------------------------------------------------------
    def _restore(self, master: str, saver: Any, folder: str | None, path: str | None, wait: bool, max_wait: float,
                 config: Any) -> tuple[Any, bool]:
        """A session, and whether a checkpoint was restored into it."""
        self._target = master
        if folder and path:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        sess = Session(master, graph=self._graph, config=config)
        if not saver or not (folder or path):
            return sess, False
        if path:
            saver.restore(sess, path)
            return sess, True
        waited = 0.0
        while not (state := get_checkpoint_state(folder)) or not state.model_checkpoint_path:
            if not wait or waited >= max_wait:
                return sess, False
            tf_logging.info("Waiting for checkpoint to be available.")
            time.sleep(self._recovery_wait_secs)
            waited += self._recovery_wait_secs
        saver.restore(sess, state.model_checkpoint_path)
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        return sess, True

    def _try_local_init(self, sess: Any) -> tuple[bool, str | None]:
        if self._local_init_op is None:
            return True, None
        ready, why = is_ready(self._ready_for_local_init_op, sess, "Model not ready for local init")
        if not ready:
            return False, why
        tf_logging.info("Running local_init_op.")
        sess.run(self._local_init_op, feed_dict=self._local_init_feed_dict, options=self._local_init_run_options)
        tf_logging.info("Done running local_init_op.")
        return True, None


def is_ready(op: Any, sess: Any, what: str) -> tuple[bool, str | None]:
    """Whether a readiness op returns an empty list; if not, its message."""
    if op is None:
        return True, None
    try:
        missing = sess.run(op)
    except errors.FailedPreconditionError as e:
        if "uninitialized" not in str(e):
            tf_logging.warning("%s : error [%s]", what, str(e))
            raise
        return False, str(e)
    if missing is None or missing.dtype == np.int32 or missing.size == 0:
        return True, None
    return False, "Variables not initialized: " + ", ".join(name.decode() for name in missing.tolist())
