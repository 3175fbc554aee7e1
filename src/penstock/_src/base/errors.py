"""Errors of running operations.

Each class represents one of the status codes that gRPC and TensorFlow share, so that a failure keeps its
meaning across processes and languages. An error carries the operation that failed, where known; its text then
ends in the lines of the user's program that created it.

Errors in building a graph are Python's `ValueError` and `TypeError`; these classes are for errors at run time. Kernels write
`raise errors.invalid("...")`; the executor fills in the operation.
"""

import traceback
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from penstock._src.base.api import export


class InaccessibleTensorError(ValueError):
    """A tensor of a function's body was used outside of the function."""


@export("errors.OperatorNotAllowedInGraphError")
class OperatorNotAllowedInGraphError(TypeError):
    """A Python operator that needs a value was applied to a tensor that has none yet."""


@export("errors.OpError", v1=["OpError"])
class OpError(Exception):
    """The failure of an operation at run time, the base of all classes in `tf.errors`.

    Args:
      node_def: the `NodeDef` of the operation that failed, or None.
      op: the `Operation` that failed, or None.
      message: what went wrong.
      error_code: one of the codes in `tf.errors`.
    """

    def __init__(self, node_def: Any, op: Any, message: str, error_code: int | None) -> None:
        super().__init__()
        self._node_def = node_def
        self.op = op                # the `Operation` that failed, or None if it is not one of the user's graph
        self._message = message
        self._error_code: Any = error_code      # a number, unless the error is of an unknown class

    @property
    def message(self) -> str:
        """What went wrong."""
        return self._message

    def _add_context(self, text: str) -> None:
        """Adds a line to the message that says what the operation was run for, once."""
        if text not in self._message:
            self._message = f"{self._message}\n{text}"

    @property
    def node_def(self) -> Any:
        """The `NodeDef` of the operation that failed, or None."""
        return self._node_def

    @property
    def experimental_payloads(self) -> dict:
        """Details that a remote runtime attaches to an error: none here."""
        return {}

    @property
    def error_code(self) -> int:
        """The number of this kind of error."""
        return self._error_code

    def __str__(self) -> str:
        if self.op is None:
            return str(self._message)
        return "".join([str(self._message), *_origin(self.op)])

    def __reduce__(self) -> tuple:
        return _rebuild, (type(self), self._node_def, None, self._message, self._error_code)


def _origin(op: Any) -> list[str]:
    """The lines where `op`, and the ops it was derived from, were created."""
    lines, heading = [], f"\n\nOriginal stack trace for {op.name!r}:\n"
    while op is not None:
        lines.append(heading)
        lines.extend(traceback.format_list(getattr(op, "traceback", None) or []))
        op = getattr(op, "_original_op", None)
        if op is not None:
            heading = f"\n...which was originally created as op {op.name!r}, defined at:\n"
    return lines


def _rebuild(cls: type[OpError], node_def: Any, op: Any, message: str, error_code: int) -> OpError:
    """Unpickle: subclasses fix the code, and their own subclasses may take other arguments."""
    error = cls.__new__(cls)
    OpError.__init__(error, node_def, op, message, error_code)
    return error


_E = TypeVar("_E", bound=OpError)

_CLASS_OF: dict[int, Any] = {}
_CODE_OF: dict[type[OpError], int] = {}


def _code(number: int) -> Callable[[type[_E]], type[_E]]:
    """Register a class for a code."""

    def register(cls: type[_E]) -> type[_E]:
        _CLASS_OF[number] = cls
        _CODE_OF[cls] = number
        return export("errors." + cls.__name__)(cls)

    return register


OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
UNAVAILABLE = 14
DATA_LOSS = 15
UNAUTHENTICATED = 16

for _name in [name for name, value in list(globals().items()) if name.isupper() and type(value) is int]:
    export.value(globals()[_name], "errors." + _name)


@_code(CANCELLED)
class CancelledError(OpError):
    """The step, queue or session was cancelled or closed while the operation ran or waited.

    Args:
        node_def: NodeDef of the operation that failed, or None.
        op: Operation that failed, or None.
        message: Text of the error.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     queue = tf.compat.v1.FIFOQueue(1, tf.float32)
    ...     pending = queue.enqueue(1.)
    ...     sess.run(pending)
    ...     sess.run(queue.close(cancel_pending_enqueues=True))
    ...     try:
    ...         sess.run(pending)
    ...     except tf.errors.CancelledError:
    ...         print("the queue is closed")
    the queue is closed
    """

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, CANCELLED)


@_code(UNKNOWN)
class UnknownError(OpError):
    """An error of a kind that has no class, for example one from another address space."""

    def __init__(self, node_def: Any, op: Any, message: str, error_code: int | None = UNKNOWN) -> None:
        super().__init__(node_def, op, message, error_code)


@_code(INVALID_ARGUMENT)
class InvalidArgumentError(OpError):
    """An operation received a value or a shape that it cannot work with.

    Args:
        node_def: NodeDef of the operation that failed, or None.
        op: Operation that failed, or None.
        message: Text of the error.

    >>> try:
    ...     tf.reshape(tf.zeros([3]), [2])
    ... except tf.errors.InvalidArgumentError:
    ...     print("3 elements are not 2")
    3 elements are not 2
    """

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, INVALID_ARGUMENT)


@_code(DEADLINE_EXCEEDED)
class DeadlineExceededError(OpError):
    """The time allowed for the step ran out.

    Args:
        node_def: NodeDef of the operation that failed, or None.
        op: Operation that failed, or None.
        message: Text of the error.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     queue = tf.compat.v1.FIFOQueue(1, tf.float32)
    ...     try:
    ...         sess.run(queue.dequeue(), options=tf.compat.v1.RunOptions(timeout_in_ms=50))
    ...     except tf.errors.DeadlineExceededError:
    ...         print("nothing came")
    nothing came
    """

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, DEADLINE_EXCEEDED)


@_code(NOT_FOUND)
class NotFoundError(OpError):
    """A file, a resource or an entry that was requested does not exist.

    Args:
        node_def: NodeDef of the operation that failed, or None.
        op: Operation that failed, or None.
        message: Text of the error.

    >>> try:
    ...     tf.io.gfile.GFile("absent.txt").read()
    ... except tf.errors.NotFoundError:
    ...     print("no such file")
    no such file
    """

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, NOT_FOUND)


@_code(ALREADY_EXISTS)
class AlreadyExistsError(OpError):
    """The object to be created exists already."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, ALREADY_EXISTS)


@_code(PERMISSION_DENIED)
class PermissionDeniedError(OpError):
    """The caller lacks the permission for this operation."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, PERMISSION_DENIED)


@_code(UNAUTHENTICATED)
class UnauthenticatedError(OpError):
    """The caller is not authenticated."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, UNAUTHENTICATED)


@_code(RESOURCE_EXHAUSTED)
class ResourceExhaustedError(OpError):
    """Memory, disk or a quota ran out.

    Args:
        node_def: NodeDef of the operation that failed, or None.
        op: Operation that failed, or None.
        message: Text of the error.

    >>> try:
    ...     tf.zeros([10**9, 10**9])
    ... except tf.errors.ResourceExhaustedError:
    ...     print("too large")
    too large
    """

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, RESOURCE_EXHAUSTED)


@_code(FAILED_PRECONDITION)
class FailedPreconditionError(OpError):
    """The system is not in the state the operation needs: most often, a variable was not initialized.

    Args:
        node_def: NodeDef of the operation that failed, or None.
        op: Operation that failed, or None.
        message: Text of the error.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     w = tf.compat.v1.get_variable("w", [2])
    ...     try:
    ...         sess.run(w)
    ...     except tf.errors.FailedPreconditionError:
    ...         print("w has no value")
    w has no value
    """

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, FAILED_PRECONDITION)


@_code(ABORTED)
class AbortedError(OpError):
    """The operation was aborted by something that happened at the same time; trying again may succeed.

    Args:
        node_def: NodeDef of the operation that failed, or None.
        op: Operation that failed, or None.
        message: Text of the error.
    """

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, ABORTED)


@_code(OUT_OF_RANGE)
class OutOfRangeError(OpError):
    """An operation went past the end of its input: the signal of an exhausted queue or iterator.

    Args:
        node_def: NodeDef of the operation that failed, or None.
        op: Operation that failed, or None.
        message: Text of the error.

    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     x = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.range(1)).get_next()
    ...     try:
    ...         while True:
    ...             print(sess.run(x))
    ...     except tf.errors.OutOfRangeError:
    ...         print("no more elements")
    0
    no more elements
    """

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, OUT_OF_RANGE)


@_code(UNIMPLEMENTED)
class UnimplementedError(OpError):
    """The operation does not support these arguments."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, UNIMPLEMENTED)


@_code(INTERNAL)
class InternalError(OpError):
    """An internal invariant does not hold: a bug of the system."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, INTERNAL)


@_code(UNAVAILABLE)
class UnavailableError(OpError):
    """A task cannot be reached at the moment.

    Args:
        node_def: NodeDef of the operation that failed, or None.
        op: Operation that failed, or None.
        message: Text of the error.
    """

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, UNAVAILABLE)


@_code(DATA_LOSS)
class DataLossError(OpError):
    """Data is corrupt or cut short beyond repair."""

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(node_def, op, message, DATA_LOSS)


@export(v1=["errors.exception_type_from_error_code"])
def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """The class that represents `error_code`; KeyError if none does."""
    return _CLASS_OF[error_code]


@export(v1=["errors.error_code_from_exception_type"])
def error_code_from_exception_type(cls: type[OpError]) -> int | UnknownError:
    """The status code of the class `cls` (an `UnknownError`, and a warning, if it represents none)."""
    try:
        return _CODE_OF[cls]
    except KeyError:
        warnings.warn("Unknown class exception", stacklevel=2)
        return UnknownError(None, None, "Unknown class exception", None)


def make_error(node_def: Any, op: Any, message: str, error_code: int) -> OpError:
    """The error of the class that represents `error_code`."""
    cls = _CLASS_OF.get(error_code)
    if cls is None:
        warnings.warn(f"Unknown error code: {error_code}", stacklevel=2)
        return UnknownError(node_def, op, message, error_code)
    return cls(node_def, op, message)


def invalid(message: str) -> InvalidArgumentError:
    """The error for a kernel to raise when an argument is wrong; the executor adds the operation."""
    return InvalidArgumentError(None, None, message)


def expect(resource: Any, kind: type, what: str) -> Any:
    """A resource that an op needs; InvalidArgumentError if its handle is of another kind."""
    if not isinstance(resource, kind):
        raise invalid(f"Trying to access a resource of type {type(resource).__name__} as {what}.")
    return resource
