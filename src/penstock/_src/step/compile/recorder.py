"""Records one run of a program as a list of ATen calls.

A program is Python that calls kernels, which call ATen. Everything that Python decides between two calls follows from shapes
and constants, unless it reads values of a tensor. So the recorded run uses tensors whose values cannot be read (`Traced`) and
stand-ins for the variables (ops/state/stand_in.py), whose memory is not touched. If the run completes, the same calls are
correct for all feeds of the same shapes. A kernel that reads a value is called directly between the other calls, or the
recording fails. Kernels that draw random numbers are called directly too; while a run is recorded and tested, they return
zeros, so that random streams do not advance.

How a recording is used: step/compile/recorded.py.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from penstock._src.base import tracing


class Refused(Exception):
    """A run cannot be recorded; the message has the reason."""


class Changes(Exception):
    """The run changes a variable that was treated as a constant; `name` is its name in the program."""

    def __init__(self, name: str):
        super().__init__(name)
        self.name = name


class Call(NamedTuple):
    """A call of ATen. Tensors in its arguments and results are `Traced`, or plain where they are constants."""
    function: Any
    args: tuple                     # one for each argument of the schema, defaults included
    results: list                   # flat, with an empty tensor for each that is None


class Event(NamedTuple):
    """A method call on a variable, or a direct call of a kernel."""
    kind: str                       # "lock", "unlock", a method, "kernel" (in context), or "update": it changes variables
    variable: str                   # the name of the variable or the kernel in the program
    args: tuple = ()                # of the method or the kernel
    value: Any = None               # what the method returns; of a kernel, a list


class Held(NamedTuple):
    """A variable among the arguments of a kernel, by its name in the program."""
    name: str


class Traced(torch.Tensor):
    """A tensor of a recorded run. It has a shape, and its values cannot be read."""

    carried: torch.Tensor

    @staticmethod
    def __new__(cls, real: torch.Tensor) -> Traced:
        made = torch.Tensor._make_wrapper_subclass(
            cls, real.size(), strides=real.stride(), storage_offset=real.storage_offset(), dtype=real.dtype, device=real.device)
        made.carried = real
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl     # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise Refused("a tensor is used after its recording")

    def _closed(self, *args: Any, **kwargs: Any) -> Any:
        raise Refused("a kernel reads values on the host")

    numpy = tolist = data_ptr = untyped_storage = storage = __array__ = _closed
    __reduce_ex__ = __deepcopy__ = _closed


_RANDOM = "nondeterministic_seeded"
_LOOKS_AT_VALUES = {"dynamic_output_shape", "data_dependent_output"}


class Recorder(TorchDispatchMode):
    """Writes down the calls made while it is entered."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Always false, so that torch._dynamo is not imported."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.items: list[Call | Event] = []
        self.drawn: dict[str, Callable] = {}         # kernels that return zeros for random numbers

    def __enter__(self) -> Recorder:
        self._before = tracing.set_recording(True)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        tracing.set_recording(self._before)
        super().__exit__(*error)

    def happened(self, kind: str, variable: str, args: tuple = (), value: torch.Tensor | None = None,
                 fixed: bool = False) -> Any:
        """Records a method call on a variable; returns a stand-in for its result. A `fixed` variable is only read."""
        if fixed:
            raise Changes(variable)
        made = None if value is None else Traced(value)
        self.items.append(Event(kind, variable, args, made))
        return made

    changes = Changes

    def opaque(self, name: str, kernel: Callable, kind: Any) -> Callable:
        """The replacement of a kernel (of a kind in step/compile/program.py) while a run is recorded."""
        return {"updates": self._update, "draws": self._draw, "calls": self._call, "computes": self._compute}[kind.kind](
            name, kernel, kind)

    def _compute(self, name: str, kernel: Callable, kind: Any) -> Callable:
        """A kernel that is recorded by its ATen calls or, if that fails, as one direct call."""
        def call(*args: Any) -> Any:
            before = len(self.items)
            try:
                return kernel(*args)
            except Refused:
                del self.items[before:]
                return self._called(name, kernel, args, {})
        return call

    def _call(self, name: str, kernel: Callable, kind: Any) -> Callable:
        """A kernel that calls functions."""
        return lambda *args, **context: self._called(name, kernel, args, context)

    def _draw(self, name: str, kernel: Callable, kind: Any) -> Callable:
        """A kernel that draws random numbers."""
        several = len(kind.results) > 1

        def call(*args: Any, **context: Any) -> Any:
            with _disable_current_modes():
                zeros = [torch.zeros(dims, dtype=dtype) for dims, dtype in kind.results]
            self.drawn[name] = lambda *args, **context: zeros if several else zeros[0]
            made: Any = [Traced(t) for t in zeros] if several else Traced(zeros[0])
            self.items.append(Event("kernel in context" if context else "kernel", name, args, made))
            return made
        return call

    def _called(self, name: str, kernel: Callable, args: tuple, context: dict) -> Any:
        before = tracing.set_recording(False)
        try:
            with _disable_current_modes():
                result = kernel(*inner(args), **context)
        finally:
            tracing.set_recording(before)
        several = isinstance(result, (list, tuple))
        if not several and not isinstance(result, torch.Tensor) or \
                several and not (any(isinstance(t, torch.Tensor) for t in result)
                                 and all(t is None or isinstance(t, torch.Tensor) for t in result)):
            raise Refused("a kernel reads values on the host, and returns something other than tensors")
        made: Any = [None if t is None else Traced(t) for t in result] if several else Traced(result)
        self.items.append(Event("kernel in context" if context else "kernel", name, args, _complete(made) if several else made))
        return made

    def _update(self, name: str, kernel: Callable, kind: Any) -> Callable:
        """A kernel that changes variables and returns nothing: it is called directly."""
        def call(*args: Any) -> None:
            before = tracing.set_recording(False)
            copies: dict[int, tuple[Any, Any]] = {}
            try:
                with _disable_current_modes():
                    kernel(*inner(_replaced(args, lambda stand_in: stand_in.copy_in(copies))))
            finally:
                tracing.set_recording(before)
            for stand_in, copy in copies.values():
                stand_in.becomes(copy.value)
            self.items.append(Event("update", name, _replaced(args, lambda stand_in: Held(stand_in.at))))
        return call

    @staticmethod
    def inner(value: Any) -> Any:
        """The tensors behind those of a recorded run."""
        return inner(value)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = _in_order(func._schema.arguments, args, kwargs or {})
        taken = list(tensors(given))
        changed = [value for argument, value in zip(func._schema.arguments, given, strict=True)
                   if argument.alias_info is not None and argument.alias_info.is_write]
        tags = {tag.name for tag in func.tags}
        if _RANDOM in tags:
            raise Refused(f"{func} draws random numbers")
        if taken and not changed and not any(isinstance(t, Traced) for t in taken):
            return func(*args, **(kwargs or {}))                    # of constants: a constant
        if tags & _LOOKS_AT_VALUES:
            raise Refused(f"{func} reads values on the host")
        if any(not isinstance(t, Traced) for t in tensors(changed)):
            raise Refused(f"{func} changes a constant")
        result = func(*inner(args), **{k: inner(v) for k, v in (kwargs or {}).items()})
        same = {id(t.carried): t for t in tensors(changed) if isinstance(t, Traced)}
        wrapped = _wrapped(result, same)
        self.items.append(Call(func, tuple(given), list(tensors(_complete(wrapped)))))
        return wrapped


def _complete(results: Any) -> Any:
    """Results of a call with an empty tensor for each that is None: it has a name in the recording, and no consumer."""
    return [Traced(torch.empty(0)) if t is None else t for t in results] if isinstance(results, (list, tuple)) else results


def _replaced(value: Any, by: Callable) -> Any:
    """Nested lists with the variables' stand-ins replaced."""
    if isinstance(value, (list, tuple)):
        return type(value)([_replaced(v, by) for v in value])
    return by(value) if hasattr(value, "copy_in") else value


def held_by(event: Event) -> set[str]:
    """The variables that a kernel is given."""
    found: set[str] = set()

    def look(value: Any) -> None:
        if isinstance(value, Held):
            found.add(value.name)
        elif isinstance(value, (list, tuple)):
            for v in value:
                look(v)
    look(event.args)
    return found


def _in_order(arguments: Any, args: tuple, kwargs: dict) -> list:
    """What each argument of a schema is given, defaults included."""
    return [args[i] if i < len(args) else kwargs.get(a.name, a.default_value) for i, a in enumerate(arguments)]


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested lists."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors(v)


def inner(value: Any) -> Any:
    """The tensors behind those of a recorded run."""
    if isinstance(value, Traced):
        return value.carried
    return type(value)(map(inner, value)) if type(value) in (list, tuple) else value


def _wrapped(value: Any, same: dict[int, Traced]) -> Any:
    if isinstance(value, torch.Tensor):
        return same[id(value)] if id(value) in same else Traced(value)
    if isinstance(value, (list, tuple)):
        return [_wrapped(v, same) for v in value] if isinstance(value, list) else tuple(_wrapped(v, same) for v in value)
    if value is not None:
        raise Refused("a call returns a number")
    return value


def changed_by(call: Call) -> list[torch.Tensor]:
    """The tensors that a call writes into."""
    return [t for a, value in zip(call.function._schema.arguments, call.args, strict=True)
            if a.alias_info is not None and a.alias_info.is_write for t in tensors(value)]


def memory(t: torch.Tensor) -> int:
    """The address of the storage of a recorded tensor, which views share."""
    return inner(t).untyped_storage().data_ptr()
