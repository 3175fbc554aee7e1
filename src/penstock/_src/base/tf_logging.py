"""tf.logging: the log of a TensorFlow program, over Python's logging.

The logger is called "tensorflow", as programs that configure it by name expect. It writes to stderr unless the program
has configured logging itself, and shows warnings and errors unless `set_verbosity` says otherwise.
"""
from __future__ import annotations

import logging as _logging
import sys
import threading
from logging import DEBUG, ERROR, FATAL, INFO, WARN
from typing import Any

from penstock._src.base import switches
from penstock._src.base.api import export

for _name, _level in (("DEBUG", DEBUG), ("INFO", INFO), ("WARN", WARN), ("ERROR", ERROR), ("FATAL", FATAL)):
    export.value(_level, v1=[f"logging.{_name}"])

_lock = threading.Lock()
_logger: _logging.Logger | None = None
_counts: dict[tuple[str, int], int] = {}       # calls per place in the program, of log_every_n and log_first_n


@export("get_logger")
def get_logger() -> _logging.Logger:
    """The logger that tf.logging writes to.

    >>> tf.get_logger().setLevel("ERROR")
    """
    global _logger
    with _lock:
        if _logger is None:
            _logger = _logging.getLogger("tensorflow")
            if not _logging.getLogger().handlers:
                interactive = hasattr(sys, "ps1") or sys.flags.interactive
                if interactive:
                    _logger.setLevel(INFO)
                handler = _logging.StreamHandler(sys.stdout if interactive else sys.stderr)
                handler.setFormatter(_logging.Formatter(_logging.BASIC_FORMAT))
                if switches.LOG_LINES.value():
                    _logger.setLevel(INFO)
                    handler.setFormatter(_logging.Formatter("%(levelname)s %(asctime)s %(message)s", "%H:%M:%S"))
                    _logging.getLogger("penstock").addHandler(handler)
                _logger.addHandler(handler)
        return _logger


@export(v1=["logging.log"])
def log(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at a level."""
    kwargs.setdefault("stacklevel", 2)
    get_logger().log(level, msg, *args, **kwargs)


@export(v1=["logging.debug"])
def debug(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs at level DEBUG.

    Args:
        msg: Text, with % for the arguments.
        *args: Values for the text.
        **kwargs: As for `logging.Logger.log`.

    Returns:
        None.

    >>> tf.logging.debug("batch %d", 7)
    """
    log(DEBUG, msg, *args, **{"stacklevel": 3, **kwargs})


@export(v1=["logging.info"])
def info(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs at level INFO.

    Args:
        msg: Text, with % for the arguments.
        *args: Values for the text.
        **kwargs: As for `logging.Logger.info`.

    >>> tf.logging.info("step %d: loss = %g", 10, 0.5)
    """
    log(INFO, msg, *args, **{"stacklevel": 3, **kwargs})


@export(v1=["logging.warning"])
def warning(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs at level WARN.

    Args:
        msg: Text, with % for the arguments.
        *args: Values for the text.
        **kwargs: As for `logging.Logger.log`.

    Returns:
        None.

    >>> tf.logging.warning("%d records were skipped", 3)
    """
    log(WARN, msg, *args, **{"stacklevel": 3, **kwargs})


@export(v1=["logging.warn"])
def warn(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs at level WARN.

    Args:
        msg: Text, with % for the arguments.
        *args: Values for the text.
        **kwargs: As for `logging.Logger.log`.

    Returns:
        None.

    >>> tf.logging.warning("%d records were skipped", 3)
    """
    log(WARN, msg, *args, **{"stacklevel": 3, **kwargs})


@export(v1=["logging.error"])
def error(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs at level ERROR.

    Args:
        msg: Text, with % for the arguments.
        *args: Values for the text.
        **kwargs: As for `logging.Logger.log`.

    Returns:
        None.

    >>> tf.logging.error("no such file: %s", "data.csv")
    """
    log(ERROR, msg, *args, **{"stacklevel": 3, **kwargs})


@export(v1=["logging.fatal"])
def fatal(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs at level FATAL; the program continues.

    Args:
        msg: Text, with % for the arguments.
        *args: Values for the text.
        **kwargs: As for `logging.Logger.log`.

    Returns:
        None.

    >>> tf.logging.fatal("no data in %s", "/data/train")
    """
    log(FATAL, msg, *args, **{"stacklevel": 3, **kwargs})


@export(v1=["logging.vlog"])
def vlog(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Logs at a level."""
    log(level, msg, *args, **{"stacklevel": 3, **kwargs})


@export(v1=["logging.TaskLevelStatusMessage"])
def task_level_status_message(msg: Any) -> None:
    """Logs at level ERROR."""
    log(ERROR, msg, stacklevel=3)


def _count(frame: Any) -> int:
    """How often this line of the program was counted before."""
    place = frame.f_code.co_filename, frame.f_lineno
    with _lock:
        _counts[place] = _counts.get(place, -1) + 1
        return _counts[place]


@export(v1=["logging.log_every_n"])
def log_every_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Logs the first of every `n` calls from the same place."""
    if _count(sys._getframe(1)) % n == 0:
        log(level, msg, *args, stacklevel=3)


@export(v1=["logging.log_first_n"])
def log_first_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Logs the first `n` calls from the same place."""
    if _count(sys._getframe(1)) < n:
        log(level, msg, *args, stacklevel=3)


@export(v1=["logging.log_if"])
def log_if(level: int, msg: Any, condition: Any, *args: Any) -> None:
    """Logs if `condition` holds."""
    if condition:
        log(level, msg, *args, stacklevel=3)


@export(v1=["logging.flush"])
def flush() -> None:
    """Flushes the buffers."""
    for handler in get_logger().handlers:
        handler.flush()


@export(v1=["logging.get_verbosity"])
def get_verbosity() -> int:
    """The lowest level that is shown."""
    return get_logger().getEffectiveLevel()


@export(v1=["logging.set_verbosity"])
def set_verbosity(v: Any) -> None:
    """Shows messages of level `v` and above.

    Args:
        v: One of `tf.logging.DEBUG`, `INFO`, `WARN`, `ERROR`, `FATAL`.

    >>> tf.logging.set_verbosity(tf.logging.ERROR)
    >>> tf.logging.get_verbosity() == tf.logging.ERROR
    True
    """
    get_logger().setLevel(v)
