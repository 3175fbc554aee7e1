"""How the update ops of optimizers run their rules: kernels for one variable, for some of its rows, and for several variables.

A rule (ops/nn/training.py) changes its tensors in place. The kernels here hold the lock of the variable, check shapes,
and choose between the compiled rule of kernels/updates.py, a kernel generated from the rule, and the rule itself.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from penstock._src.base import errors, tracing
from penstock._src.base.waits import Locks
from penstock._src.kernels import arrays, device_rows, device_updates, indexing, updates
from penstock._src.kernels.many import Many
from penstock._src.ops.registry import keyword_names
from penstock._src.ops.state.state import VariableResource
from penstock._src.ops.state.state_scatter import rounds

GRADIENTS = ("grad", "delta")        # the input of an update op that is the gradient
_LARGE = 1 << 20                     # elements of a variable that is updated separately
_TINY = 1 << 16                      # elements of one that no compiler needs to see


def wanting(fn: Callable, *keywords: str) -> Callable:
    """A function of any arguments, with the keywords it takes in `wants`."""
    fn.wants = keywords  # type: ignore[attr-defined]
    return fn


def kernel(states: list[str], inputs: list[str], rule: Callable, is_ref: bool,
            distinct: bool = False, rows: Callable | None = None, compiled: Callable | None = None,
            summed: bool = False, all_rows: bool = False) -> Callable:
    options = keyword_names(rule)
    grad_at = next(i for i, n in enumerate(inputs) if n in GRADIENTS)
    sparse = "indices" in inputs
    how = "ALL" if all_rows else "SUMMED" if summed else "IN_TURN"

    def run(*args: Any, **chosen: Any) -> Any:
        held, given = list(args[:len(states)]), list(args[len(states):])
        indices = given.pop(grad_at + 1) if sparse else None
        names = [n for n in inputs if n != "indices"]
        for i, n in enumerate(names):
            if i != grad_at:
                given[i] = number(given[i], n)
        fast = _chosen(compiled, given, grad_at, chosen)
        # without waiting for a GPU
        unread = (all_rows or distinct) and sparse and (tracing.lowering() or held[0].read().is_cuda)
        if fast is None or not _fit(held, given[grad_at], indices):
            check(states, held, given[grad_at], indices, bounds=fast is None and not unread)
        with held[0].lock:
            tensors = [h.writable() for h in held]
            if indices is None:
                given[grad_at] = _laid_out_as(tensors[0], given[grad_at])
                if fast is None or not updates.dense(fast, [[t] for t in tensors], [given[grad_at]]):
                    _by_rule(rule, tensors, given, grad_at, chosen)
            elif unread and not all_rows:
                _on_distinct_rows(rule, tensors, given, grad_at, indices, chosen)
            elif unread:
                indices = indexing.beside(indices.long(), tensors[0])
                total = device_rows.sums(given[grad_at].to(tensors[0].dtype), indices, len(tensors[0]))
                if total is not None:
                    given[grad_at] = total
                    _by_rule(rule, tensors, given, grad_at, chosen)
                else:
                    indices, given[grad_at] = indexing.added(indices, len(tensors[0]), given[grad_at])
                    _on_all_rows(rule, tensors, given, grad_at, indices, chosen)
            elif fast is None or not updates.rows(fast, tensors, given[grad_at], indices, how):
                indexing.check(indices, tensors[0].shape[0])
                if summed:
                    indices, given[grad_at] = _added_up(indices, given[grad_at])
                if all_rows:
                    _on_all_rows(rule, tensors, given, grad_at, indices, chosen)
                else:
                    _on_rows(rule, tensors, given, grad_at, indices, chosen, distinct, rows)
        return held[0] if is_ref else None
    return wanting(run, *options)


def _by_rule(rule: Callable, tensors: list, given: list, grad_at: int, chosen: dict) -> None:
    """The rule on one variable."""
    if not device_updates.update(rule, [[t] for t in tensors], given, grad_at, [given[grad_at]], chosen):
        rule(*tensors, *given[:grad_at], given[grad_at].to(tensors[0].dtype), *given[grad_at + 1:], **chosen)


def _added_up(indices: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Distinct indices, and the sums of their rows."""
    distinct, where = torch.unique(indices, return_inverse=True)
    return distinct, torch.zeros((len(distinct), *rows.shape[1:]), dtype=rows.dtype).index_add_(0, where, rows)


def _on_all_rows(rule: Callable, tensors: list, given: list, grad_at: int, indices: torch.Tensor, chosen: dict) -> None:
    """The rule on the whole variable, by the sum of the gradients of each row."""
    var = tensors[0]
    total = torch.zeros_like(var).index_add_(0, indexing.beside(indices.long(), var), given[grad_at].to(var.dtype))
    rule(*tensors, *given[:grad_at], total, *given[grad_at + 1:], **chosen)


def _chosen(compiled: Callable | None, given: list, grad_at: int, attrs: dict) -> updates.Chosen | None:
    """The compiled rule for these numbers, if any: none where a number is a tensor, or complex."""
    if compiled is None:
        return None
    numbers = given[:grad_at] + given[grad_at + 1:]
    return compiled(*numbers, **attrs) if all(type(n) in (float, int) for n in numbers) else None


def kernel_of_several(name: str, states: list[str], inputs: list[str], rule: Callable, compiled: Callable | None) -> Callable:
    options = keyword_names(rule)
    grad_at = next(i for i, n in enumerate(inputs) if n in GRADIENTS)
    single = kernel(states, inputs, rule, is_ref=False)

    def run(*args: Any, **chosen: Any) -> None:
        held, given = args[:len(states)], list(args[len(states):])
        if tracing.lowering():
            _lower_updates(run, single, held, given, grad_at, chosen)
            return
        given = [v if i == grad_at else number(v, inputs[i]) for i, v in enumerate(given)]
        for variables, grad in zip(zip(*held, strict=True), given[grad_at], strict=True):
            shape = grad.shape
            if any(type(h) is not VariableResource or h.value is None or h.value.shape != shape for h in variables):
                check(states, list(variables), grad, None)
        with Locks(held[0]):
            fast = _chosen(compiled, given, grad_at, chosen)
            distinct = len({id(h) for h in held[0]}) == len(held[0])
            if fast is not None and distinct and _updated_at_once(fast, held, given[grad_at]):
                return
            every = range(len(held[0]))
            for part in [every] if distinct else [[i] for i in every]:
                tensors = [[several[i].writable() for i in part] for several in held]
                grads = [_laid_out_as(t, given[grad_at][i]) for t, i in zip(tensors[0], part, strict=True)]
                if not device_updates.update(rule, tensors, given, grad_at, grads, chosen):
                    _by_rule_together(rule, tensors, given, grad_at, grads, chosen)
    tracing.behind[name] = run
    return wanting(run, *options)


def _updated_at_once(fast: updates.Chosen, held: tuple, grads: list) -> bool:
    """Updates all variables with the compiled rule, if it supports them."""
    tensors = [[h.writable() for h in several] for several in held]
    return updates.dense(fast, tensors, [_laid_out_as(t, g) for t, g in zip(tensors[0], grads, strict=True)])


def _lower_updates(several: Callable, single: Callable, held: tuple, given: list, grad_at: int, chosen: dict) -> None:
    """Updates in a step that becomes a graph. Tiny ones run behind it, all together: compiling each takes longer than it saves.

    A variable that the graph has changed before is updated in the graph: behind it, the update would find the first value.
    """
    later, tiny = tracing.later(), []
    if later is not None and len({id(v) for v in held[0]}) == len(held[0]):
        tiny = [i for i, v in enumerate(held[0]) if v.value.numel() <= _TINY and all(s[i].value is s[i].first for s in held)]
    for i, variables in enumerate(zip(*held, strict=True)):
        if i not in tiny:
            grad = given[grad_at][i].to(variables[0].value.dtype)
            single(*variables, *given[:grad_at], grad, *given[grad_at + 1:], **chosen)
    if later is not None and tiny:
        grads = [given[grad_at][i] for i in tiny]
        later.append((several, [*[[s[i] for i in tiny] for s in held], *given[:grad_at], grads, *given[grad_at + 1:]], chosen))
        for v in (s[i] for s in held for i in tiny):
            v.value = None                             # what reads it now cannot be part of the graph


def _by_rule_together(rule: Callable, tensors: list, given: list, grad_at: int, grads: list, chosen: dict) -> None:
    """The rule on several variables: small ones together; one that is large has kernels that fill a GPU."""
    small = [i for i, t in enumerate(tensors[0]) if t.numel() <= _LARGE]
    for part in [small, *([i] for i, t in enumerate(tensors[0]) if t.numel() > _LARGE)]:
        if part:
            some = [[s[i] for i in part] for s in tensors]
            theirs = [grads[i].to(t.dtype) for i, t in zip(part, some[0], strict=True)]
            rule(*map(Many, some), *[Many(theirs) if i == grad_at else v for i, v in enumerate(given)], **chosen)


def preparing_rows(states: list[str], inputs: list[str], rule: Callable, is_ref: bool,
                    rows: Callable | None, compiled: Callable | None, all_rows: bool) -> Callable:
    """Specializes the kernel for rows that are known to be distinct, which need no comparison."""
    run = kernel(states, inputs, rule, is_ref, distinct=True, rows=rows, compiled=compiled, all_rows=all_rows)
    options, at = run.wants, len(states) + inputs.index("indices")  # type: ignore[attr-defined]

    def prepare(known: Any) -> Callable | None:
        return functools.partial(run, **{n: known.attrs[n] for n in options}) if known.distinct(at) else None
    return prepare


def preparing(states: list[str], inputs: list[str], rule: Callable, is_ref: bool, compiled: Callable | None,
              constant: Callable | None) -> Callable:
    """Specializes the kernel for constant numbers, which are read once, and known shapes, which are not checked again."""
    options = keyword_names(rule)
    count = len(states)
    grad_at = next(i for i, n in enumerate(inputs) if n in GRADIENTS)

    def prepare(known: Any) -> Callable | None:
        values = [known.const(count + i) if i != grad_at else None for i in range(len(inputs))]
        if any(v is not None and v.ndim for v in values):
            return None
        fixed: list[Any] = [None if v is None else v.item() for v in values]
        later = [i for i, v in enumerate(values) if v is None and i != grad_at]
        chosen = {n: known.attrs[n] for n in options}
        if constant is not None and not later:
            numbers = [v for i, v in enumerate(fixed) if i != grad_at]
            return functools.partial(constant, numbers=numbers, is_ref=is_ref)

        def run(*args: Any) -> Any:
            held, grad = args[:count], args[count + grad_at]
            given = fixed.copy()
            for i in later:
                given[i] = number(args[count + i], inputs[i])
            given[grad_at] = grad
            first = held[0]
            shape = grad.shape
            for h in held:
                if type(h) is not VariableResource or h.value is None or h.value.shape != shape:
                    check(states, list(held), grad, None)
                    break
            with first.lock:
                tensors = [h.writable() for h in held]
                if count > 1:
                    given[grad_at] = _laid_out_as(tensors[0], grad)
                fast = _chosen(compiled, given, grad_at, chosen)
                if fast is None or not updates.dense(fast, [[t] for t in tensors], [given[grad_at]]):
                    _by_rule(rule, tensors, given, grad_at, chosen)
            return first if is_ref else None
        return run
    return prepare


def number(value: torch.Tensor, name: str) -> Any:
    """A number for a rule; one on a GPU, or in a run that is recorded, stays a tensor."""
    if value.ndim:
        raise errors.invalid(f"{name} is not a scalar: {arrays.show(value.shape)}")
    return value if not value.is_cpu or type(value) is not torch.Tensor else value.item()


def _laid_out_as(var: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """The gradient in the variable's order in memory: a rule reads it several times, and one copy is cheaper than strides."""
    if not isinstance(grad, torch.Tensor) or grad.stride() == var.stride() or grad.dtype is not var.dtype:
        return grad
    return torch.empty_like(var).copy_(grad)


def check(names: list[str], held: list[Any], grad: Any, indices: torch.Tensor | None, bounds: bool = True) -> None:
    """Checks types, initialization and shapes of a rule's arguments; with `bounds`, also the range of indices."""
    for h in held:
        errors.expect(h, VariableResource, "a variable")
    dims = arrays.dims_of(held[0].read())
    for n, h in zip(names[1:], held[1:], strict=True):
        if arrays.dims_of(h.read()) != dims:
            raise errors.invalid(f"var and {n} do not have the same shape: {arrays.show(dims)} and "
                                 f"{arrays.show(arrays.dims_of(h.read()))}")
    found = arrays.dims_of(grad)
    if indices is None:
        if found != dims:
            raise errors.invalid(f"var and grad do not have the same shape: {arrays.show(dims)} and {arrays.show(found)}")
        return
    if not dims:
        raise errors.invalid("var must be at least 1 dimensional")
    if indices.ndim != 1:
        raise errors.invalid("indices must be one-dimensional")
    if found[:1] != tuple(indices.shape):
        raise errors.invalid("grad must be the same size as indices in the first dimension.")
    if found[1:] != dims[1:]:
        raise errors.invalid(f"var and grad must match in dimension 1 and above: {arrays.show(dims)} and "
                             f"{arrays.show(found)}")
    if bounds:
        indexing.check(indices, dims[0])


def _fit(held: list[Any], grad: torch.Tensor, indices: torch.Tensor | None) -> bool:
    """A fast check of shapes; if it fails, `check` raises the error."""
    shape, first = grad.shape, held[0]
    if type(first) is not VariableResource or not isinstance(first.value, torch.Tensor):
        return False
    dims = first.value.shape
    if indices is None:
        right = shape == dims
    else:
        right = len(dims) > 0 and indices.ndim == 1 and shape[:1] == indices.shape and shape[1:] == dims[1:]
    return right and all(type(h) is VariableResource and h.value is not None and h.value.shape == dims for h in held[1:])


def _on_rows(rule: Callable, tensors: list, given: list, grad_at: int, indices: torch.Tensor, chosen: dict,
             distinct: bool, in_place: Callable | None) -> None:
    """The rule on some rows: gathered, changed, and scattered back; or in place, if it has a form for that."""
    if not indices.numel():
        return
    flat, grad = indices.long(), given[grad_at]
    for group in (slice(None),) if distinct else rounds(flat):
        whole = isinstance(group, slice)
        at = indexing.beside(flat if whole else flat[group], tensors[0])
        if not isinstance(group, slice):
            group = indexing.beside(group, tensors[0])
        if in_place is not None and tensors[0].is_cpu and tensors[0].dtype in (torch.float32, torch.float64):
            given[grad_at] = grad if whole else grad[group]
            in_place(*tensors, at, *given, **chosen)
            continue
        rows = [t.index_select(0, at) for t in tensors]
        given[grad_at] = grad if whole else grad[group]
        rule(*rows, *given, **chosen)
        for t, r in zip(tensors, rows, strict=True):
            t.index_copy_(0, at, r)


def _on_distinct_rows(rule: Callable, tensors: list, given: list, grad_at: int, indices: torch.Tensor, chosen: dict) -> None:
    """Applies the rule to rows on a GPU without reading indices on the host: they are distinct, and invalid ones are skipped.

    A skipped entry repeats the update of the first valid row, from its old value and with the same gradient.
    """
    size, grad = len(tensors[0]), given[grad_at]
    if not indices.numel() or not size:
        return
    at = indexing.beside(indices.long(), tensors[0])
    good = (at >= 0) & (at < size)
    place = torch.where(good, torch.arange(len(at), out=torch.empty_like(at)), good.to(torch.uint8).argmax())
    at, given[grad_at] = at[place].clamp(0, size - 1), grad[place]
    rows = [t.index_select(0, at) for t in tensors]
    old = [r.clone() for r in rows]
    rule(*rows, *given, **chosen)
    some = good.any()
    for t, new, before in zip(tensors, rows, old, strict=True):
        t.index_copy_(0, at, torch.where(some, new, before))
