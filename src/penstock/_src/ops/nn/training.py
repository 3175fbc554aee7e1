"""The updates of optimizers: one rule each, on rows or on whole variables, in place.

A rule is written once, over tensors that it may change (the variable and its slots), numbers (learning rates and the
like) and the gradient. Where a number is on a GPU it stays a tensor, so that no step
waits for it. `_family` declares TensorFlow's ops around it: Apply*, ResourceApply*, and where TensorFlow has
them SparseApply* and ResourceSparseApply*, which run the rule on the rows that the indices name, repeated ones in turn.
A rule that only adds may have a second form, `rows=`, that adds to distinct rows where they lie.
"""
from __future__ import annotations

import cmath
import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors, tracing
from penstock._src.base.static_shape import Dims, compatible, show
from penstock._src.graph.handles import handle_dims
from penstock._src.kernels import arrays, indexing, triton_updates, updates
from penstock._src.kernels.many import Many
from penstock._src.ops import rules
from penstock._src.ops.registry import get, internal, keyword_names, op
from penstock._src.ops.state.state import VariableResource
from penstock._src.ops.state.state_scatter import rounds, rows_of_variable

_GRADIENTS = ("grad", "delta")
_LARGE = 1 << 20             # elements of a variable that is updated separately
_TINY = 1 << 16              # elements of one that no compiler needs to see


def _family(name: str, states: str, inputs: str, attrs: str = "", sparse: bool = False, ref: bool = True,
            rows: Callable | None = None, compiled: Callable | None = None, hidden: bool = False) -> Callable:
    """Declares the ops of a rule: `states` and `inputs` are their argument names in order. TensorFlow has no ops for rules that
    are `hidden`: the names of theirs begin with an underscore.

    `compiled`: (numbers, attributes) -> the rule of kernels/updates.py that does the same, and its numbers; or None.

    A rule that takes `squares` of gradients is one of Keras 3, whose sparse updates move all rows: rows without a gradient have
    one of 0, gradients of repeated rows are added up, and so are their squares. Its ops are internal: TensorFlow has none.
    """
    def declare(rule: Callable) -> Callable:
        for is_sparse in (False, True) if sparse else (False,):
            names = inputs.split()
            if is_sparse:
                names = ["grad" if n == "delta" else n for n in names]
                names.insert(names.index("grad") + 1, "indices")
            for is_ref in (True, False) if ref else (False,):
                _declare(name, states.split(), names, attrs, rule, is_ref, is_sparse, rows, compiled, hidden)
        return rule
    return declare


def _declare(name: str, states: list[str], inputs: list[str], attrs: str, rule: Callable, is_ref: bool,
             is_sparse: bool, rows: Callable | None, compiled: Callable | None, hidden: bool) -> None:
    kinds = {"indices": "Tindices", "global_step": "int64"}
    args = [f"{s}: {'Ref(T)' if is_ref else 'resource'}" for s in states]
    args += [f"{n}: {kinds.get(n, 'T')}" for n in inputs]
    types = "T: type in {numeric quantized}" + (", Tindices: type in {index}" if is_sparse else "")
    all_rows = "squares" in keyword_names(rule)
    hidden = hidden or all_rows
    made = (internal if hidden else op)(
        f"{'_' if hidden else ''}{'' if is_ref else 'Resource'}{'Sparse' if is_sparse else ''}Apply{name}",
        f"{', '.join(args)} -> {'out: Ref(T)' if is_ref else ''}",
        f"{types}, use_locking: bool = False{', ' + attrs if attrs else ''}",
        stateful=not is_ref, foldable=False).no_gradient()
    made.kernel(_kernel(states, inputs, rule, is_ref, rows=rows, compiled=compiled))
    rules.updates.alone.add(made)
    if compiled is not None:
        rules.updates.compiled.add(made)
        rules.updates.chosen[made] = compiled
    if not is_sparse and len(states) < 3:
        at = len(states) + next(i for i, n in enumerate(inputs) if n in _GRADIENTS)
        rules.fusion.absorb[made] = functools.partial(_take_short_gradient, at)
    if not is_sparse:
        rules.program.prepare[made] = _preparing(states, inputs, rule, is_ref, compiled)
        rules.updates.several[made] = _declare_several(made.name, states, inputs, attrs, rule, is_ref, compiled)
    else:
        rules.program.prepare[made] = _preparing_rows(states, inputs, rule, is_ref, rows, compiled)
        if not all_rows:
            rules.rows.skips[made] = rules.Skipping(len(states) + inputs.index("indices"), rows_of_variable)
        if compiled is not None and not all_rows:
            rules.fusion.fuse[made] = _summing(made, states, inputs, rule, is_ref, compiled)
    made.shape(_shape_rule(states, inputs, is_ref))


def _declare_several(name: str, states: list[str], inputs: list[str], attrs: str, rule: Callable,
                     is_ref: bool, compiled: Callable | None) -> tuple[str, frozenset[int]]:
    """The op that updates several variables by one rule (step/optimize/updates.py), and which inputs are lists."""
    args = [f"{s}: {'Ref(N * T)' if is_ref else 'N * resource'}" for s in states]
    args += [f"{n}: N * T" if n in _GRADIENTS else f"{n}: {'int64' if n == 'global_step' else 'T'}" for n in inputs]
    made = internal(f"_{name.lstrip('_')}ToAll", f"{', '.join(args)} ->", "N: int >= 1, T: type in {numeric quantized}, "
                    f"use_locking: bool = False{', ' + attrs if attrs else ''}", stateful=not is_ref, foldable=False)
    made.kernel(_kernel_of_several(states, inputs, rule, compiled))
    if compiled is not None:
        rules.updates.compiled.add(made)
    return made.name, frozenset(i for i, n in enumerate([*states, *inputs]) if n in states or n in _GRADIENTS)


def _summing(made: Any, states: list[str], inputs: list[str], rule: Callable, is_ref: bool, compiled: Callable) -> Callable:
    """The rule by which the compiled kernel adds up rows of repeated indices, instead of ops in front of the update."""
    args = [f"{a.name}: {'Ref(T)' if a.is_ref else a.type_attr if a.type is None else a.type.name}" for a in made.inputs]
    attrs = ["T: type in {float32 float64}, Tindices: type in {index}, use_locking: bool = False",
             *[f"{n}: bool = False" for n in keyword_names(rule)]]
    fused = internal(f"_{made.name}Summed", f"{', '.join(args)} -> {'out: Ref(T)' if is_ref else ''}", ", ".join(attrs),
                     stateful=not is_ref, foldable=False)
    fused.kernel(_kernel(states, inputs, rule, is_ref, compiled=compiled, summed=True))
    rules.updates.compiled.add(fused)
    at = len(states) + inputs.index("grad")

    def fuse(op: Any, f: Any) -> Any:
        total, unique = f.only(op.inputs[at], op), f.maker(op.inputs[at + 1], op)
        if total is None or unique is None or total.opdef is not get("UnsortedSegmentSum") or not f.on_host(op) or \
                unique.opdef is not get("Unique") or op.attrs["T"] != dtypes.float32 or not updates.available():
            return None
        rows, places, _ = total.inputs
        if f.maker(places, op) is not unique or [f.source(op.inputs[at + 1]), f.source(places)] != unique.outputs:
            return None
        given = [*op.inputs[:at], rows, unique.inputs[0], *op.inputs[at + 2:]]
        return f.make(fused.name, given, {n: op.attrs[n] for n in fused.attrs}, op)
    return fuse


def _take_short_gradient(at: int, op: Any, f: Any) -> None:
    """On GPUs, a gradient in half precision is added as it is: writing it in single precision first would cost more."""
    cast = f.only(op.inputs[at], op)
    if cast is not None and not f.on_host(op) and cast.opdef is get("Cast") and \
            cast.attrs["SrcT"] in (dtypes.bfloat16, dtypes.float16) and op.attrs["T"] == dtypes.float32:
        op.set_input(at, cast.inputs[0])


def _wanting(fn: Callable, *keywords: str) -> Callable:
    """A function of any arguments, with the keywords it takes in `wants`."""
    fn.wants = keywords  # type: ignore[attr-defined]
    return fn


# -- running a rule ---------------------------------------------------------------------------------------------------
def _kernel(states: list[str], inputs: list[str], rule: Callable, is_ref: bool,
            distinct: bool = False, rows: Callable | None = None, compiled: Callable | None = None,
            summed: bool = False) -> Callable:
    options = keyword_names(rule)
    rule, all_rows = _with_squares(rule)
    options = [o for o in options if o != "squares"]
    grad_at = next(i for i, n in enumerate(inputs) if n in _GRADIENTS)
    sparse = "indices" in inputs
    how = "ALL" if all_rows else "SUMMED" if summed else "IN_TURN"

    def run(*args: Any, **chosen: Any) -> Any:
        held, given = list(args[:len(states)]), list(args[len(states):])
        indices = given.pop(grad_at + 1) if sparse else None
        names = [n for n in inputs if n != "indices"]
        for i, n in enumerate(names):
            if i != grad_at:
                given[i] = _number(given[i], n)
        fast = _chosen(compiled, given, grad_at, chosen)
        # the host waits for no GPU here
        unread = (all_rows or distinct) and sparse and (tracing.lowering() or held[0].read().is_cuda)
        if fast is None or not _fit(held, given[grad_at], indices):
            _check(states, held, given[grad_at], indices, bounds=fast is None and not unread)
        with held[0].lock:
            tensors = [h.writable() for h in held]
            if indices is None:
                given[grad_at] = _laid_out_as(tensors[0], given[grad_at])
                if fast is None or not updates.dense(fast, [[t] for t in tensors], [given[grad_at]]):
                    _by_rule(rule, tensors, given, grad_at, chosen)
            elif unread and not all_rows:
                _on_distinct_rows(rule, tensors, given, grad_at, indices, chosen)
            elif unread:
                indices, given[grad_at] = indexing.added(indexing.beside(indices.long(), tensors[0]), len(tensors[0]),
                                                         given[grad_at])
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
    return _wanting(run, *options)


def _by_rule(rule: Callable, tensors: list, given: list, grad_at: int, chosen: dict) -> None:
    """The rule on one variable."""
    if not triton_updates.update(rule, [[t] for t in tensors], given, grad_at, [given[grad_at]], chosen):
        rule(*tensors, *given, **chosen)


def _with_squares(rule: Callable) -> tuple[Callable, bool]:
    """The rule, with the square of the gradient where it is not given its squares; and whether it takes any."""
    if "squares" not in keyword_names(rule):
        return rule, False
    at = rule.__code__.co_varnames.index("grad")

    def run(*args: Any, **chosen: Any) -> None:
        rule(*args, **{"squares": args[at] * args[at], **chosen})
    return run, True


def _added_up(indices: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Distinct indices, and the sums of their rows."""
    distinct, where = torch.unique(indices, return_inverse=True)
    return distinct, torch.zeros((len(distinct), *rows.shape[1:]), dtype=rows.dtype).index_add_(0, where, rows)


def _on_all_rows(rule: Callable, tensors: list, given: list, grad_at: int, indices: torch.Tensor, chosen: dict) -> None:
    """The rule on the whole variable, by sums of the gradients and of the squared gradients of each row."""
    var, rows = tensors[0], given[grad_at]
    at = indexing.beside(indices.long(), var)
    total, squares = (torch.zeros_like(var).index_add_(0, at, r.to(var.dtype)) for r in (rows, rows * rows))
    rule(*tensors, *given[:grad_at], total, *given[grad_at + 1:], squares=squares, **chosen)


def _chosen(compiled: Callable | None, given: list, grad_at: int, attrs: dict) -> updates.Chosen | None:
    """The compiled rule for these numbers, if any: none where a number is a tensor, or complex."""
    if compiled is None:
        return None
    numbers = given[:grad_at] + given[grad_at + 1:]
    return compiled(*numbers, **attrs) if all(type(n) in (float, int) for n in numbers) else None


def _kernel_of_several(states: list[str], inputs: list[str], rule: Callable, compiled: Callable | None) -> Callable:
    options = [o for o in keyword_names(rule) if o != "squares"]
    grad_at = next(i for i, n in enumerate(inputs) if n in _GRADIENTS)
    single = _kernel(states, inputs, rule, is_ref=False)
    rule, _ = _with_squares(rule)

    def run(*args: Any, **chosen: Any) -> None:
        held, given = args[:len(states)], list(args[len(states):])
        if tracing.lowering():
            _lower_updates(run, single, held, given, grad_at, chosen)
            return
        given = [v if i == grad_at else _number(v, inputs[i]) for i, v in enumerate(given)]
        for variables, grad in zip(zip(*held, strict=True), given[grad_at], strict=True):
            shape = grad.shape
            if any(type(h) is not VariableResource or h.value is None or h.value.shape != shape for h in variables):
                _check(states, list(variables), grad, None)
        locks = {id(h.lock): h.lock for h in held[0]}
        with contextlib.ExitStack() as stack:
            for _, lock in sorted(locks.items(), key=lambda item: item[0]):     # in one order, so that no two steps block
                stack.enter_context(lock)
            fast = _chosen(compiled, given, grad_at, chosen)
            if fast is not None and len(locks) == len(held[0]) and _updated_at_once(fast, held, given[grad_at]):
                return
            for part in _parts(held[0]):
                tensors = [[several[i].writable() for i in part] for several in held]
                grads = [_laid_out_as(t, given[grad_at][i]) for t, i in zip(tensors[0], part, strict=True)]
                if len(part) == 1 and triton_updates.update(rule, tensors, given, grad_at, grads, chosen):
                    continue
                rule(*map(Many, tensors), *[Many(grads) if i == grad_at else v for i, v in enumerate(given)], **chosen)
    return _wanting(run, *options)


def _updated_at_once(fast: updates.Chosen, held: tuple, grads: list) -> bool:
    """Updates all variables with the compiled rule, if it takes them."""
    tensors = [[h.writable() for h in several] for several in held]
    return updates.dense(fast, tensors, [_laid_out_as(t, g) for t, g in zip(tensors[0], grads, strict=True)])


def _lower_updates(several: Callable, single: Callable, held: tuple, given: list, grad_at: int, chosen: dict) -> None:
    """Updates in a step that becomes a graph. Tiny ones run behind it, all together: compiling each takes longer than it saves.
    """
    later, tiny = tracing.later(), []
    if later is not None and len({id(v) for v in held[0]}) == len(held[0]):
        tiny = [i for i, v in enumerate(held[0]) if v.value.numel() <= _TINY]
    for i, variables in enumerate(zip(*held, strict=True)):
        if i not in tiny:
            single(*variables, *given[:grad_at], given[grad_at][i], *given[grad_at + 1:], **chosen)
    if later is not None and tiny:
        grads = [given[grad_at][i] for i in tiny]
        later.append((several, [*[[s[i] for i in tiny] for s in held], *given[:grad_at], grads, *given[grad_at + 1:]], chosen))
        for v in (s[i] for s in held for i in tiny):
            v.value = None                             # what reads it now cannot be part of the graph


def _parts(variables: Any) -> list[list[int]]:
    """Which variables are updated together: small ones, each once. One that is large has kernels that fill a GPU."""
    once = len({id(v) for v in variables}) == len(variables)
    small = [i for i, v in enumerate(variables) if v.value.numel() <= _LARGE] if once else []
    rest = [[i] for i in range(len(variables)) if i not in set(small)]
    return [small, *rest] if small else rest


def _preparing_rows(states: list[str], inputs: list[str], rule: Callable, is_ref: bool,
                    rows: Callable | None, compiled: Callable | None) -> Callable:
    """The rule by which rows that surely are distinct are not compared."""
    run = _kernel(states, inputs, rule, is_ref, distinct=True, rows=rows, compiled=compiled)
    options, at = run.wants, len(states) + inputs.index("indices")  # type: ignore[attr-defined]

    def prepare(known: Any) -> Callable | None:
        return functools.partial(run, **{n: known.attrs[n] for n in options}) if known.distinct(at) else None
    return prepare


def _preparing(states: list[str], inputs: list[str], rule: Callable, is_ref: bool, compiled: Callable | None) -> Callable:
    """The rule by which numbers that are constants are read once, and shapes that are known are not checked again."""
    options = [o for o in keyword_names(rule) if o != "squares"]
    written, (rule, _) = rule, _with_squares(rule)
    count = len(states)
    grad_at = next(i for i, n in enumerate(inputs) if n in _GRADIENTS)

    def prepare(known: Any) -> Callable | None:
        values = [known.const(count + i) if i != grad_at else None for i in range(len(inputs))]
        if any(v is not None and v.ndim for v in values):
            return None
        fixed: list[Any] = [None if v is None else v.item() for v in values]
        later = [i for i, v in enumerate(values) if v is None and i != grad_at]
        chosen = {n: known.attrs[n] for n in options}
        if written is _descend and not later:
            return functools.partial(_descended, rate=fixed[0], is_ref=is_ref)

        def run(*args: Any) -> Any:
            held, grad = args[:count], args[count + grad_at]
            given = fixed.copy()
            for i in later:
                given[i] = _number(args[count + i], inputs[i])
            given[grad_at] = grad
            first = held[0]
            shape = grad.shape
            for h in held:
                if type(h) is not VariableResource or h.value is None or h.value.shape != shape:
                    _check(states, list(held), grad, None)
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


def _number(value: torch.Tensor, name: str) -> Any:
    """A number for a rule; one on a GPU, or in a run that is recorded, stays a tensor."""
    if value.ndim:
        raise errors.invalid(f"{name} is not a scalar: {arrays.show(value.shape)}")
    return value if not value.is_cpu or type(value) is not torch.Tensor else value.item()


def _laid_out_as(var: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """The gradient in the variable's order in memory: a rule reads it several times, and one copy is cheaper than strides."""
    if not isinstance(grad, torch.Tensor) or grad.stride() == var.stride() or grad.dtype is not var.dtype:
        return grad
    return torch.empty_like(var).copy_(grad)


def _check(names: list[str], held: list[Any], grad: Any, indices: torch.Tensor | None, bounds: bool = True) -> None:
    """Types, initialization and shapes of everything that a rule takes; with `bounds`, whether indices are rows, too."""
    for h in held:
        if not isinstance(h, VariableResource):
            raise errors.invalid(f"Trying to access a resource of type {type(h).__name__} as a variable.")
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
    """Whether shapes are right, as they nearly always are; if not, `_check` says what is wrong."""
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
    """The rule on some rows: taken out, changed, and put back; or in place, if it has a form for that."""
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


# -- shapes -----------------------------------------------------------------------------------------------------------
def _shape_rule(states: list[str], inputs: list[str], is_ref: bool) -> Callable:
    def rule(*shapes: Dims, c: Any) -> Any:
        held = [s if is_ref else handle_dims(c.input(n)) for n, s in zip(states, shapes, strict=False)]
        given = dict(zip(inputs, shapes[len(states):], strict=True))
        dims = held[0]
        for n, s in zip(states, held, strict=True):
            _same(dims, s, n)
            dims = s if dims is None else dims
        grad = given.get("grad", given.get("delta"))
        if "indices" in given:
            _check_rows(dims, given["indices"], grad)
        else:
            _same(dims, grad, "grad")
        for n, s in given.items():
            if n not in (*_GRADIENTS, "indices") and s:
                raise ValueError(f"Shape must be rank 0 but is rank {len(s)}: {n} is {show(s)}")
        return (dims if dims is not None else grad if "indices" not in given else None) if is_ref else []
    return _wanting(rule, "c")


def _same(dims: Dims, found: Dims, name: str) -> None:
    if dims is not None and found is not None and len(dims) != len(found):
        raise ValueError(f"Shapes must be equal rank, but are {len(dims)} and {len(found)}: var is {show(dims)}, {name} "
                         f"is {show(found)}")
    if not compatible(dims, found):
        raise ValueError(f"Shapes must be equal: var is {show(dims)}, {name} is {show(found)}")


def _check_rows(dims: Dims, indices: Dims, grad: Dims) -> None:
    if indices is not None and len(indices) != 1:
        raise ValueError(f"Shape must be rank 1 but is rank {len(indices)}: indices is {show(indices)}")
    if dims is None or grad is None:
        return
    if len(dims) != len(grad):
        raise ValueError(f"Shapes must be equal rank, but are {len(dims)} and {len(grad)}: var is {show(dims)}, grad is "
                         f"{show(grad)}")
    lead = (None,) if indices is None else indices
    if not compatible(lead + dims[1:], grad):
        raise ValueError(f"Shapes must be equal: var is {show(dims)}, grad is {show(grad)}, indices is {show(indices)}")


# -- the rules --------------------------------------------------------------------------------------------------------
def _towards(average: torch.Tensor, value: torch.Tensor, decay: Any) -> None:
    """average = decay * average + (1 - decay) * value."""
    if isinstance(decay, torch.Tensor):
        average.mul_(decay).addcmul_(value, 1 - decay)
    elif average.is_complex():
        average.add_(value - average, alpha=1 - decay)
    else:
        average.lerp_(value, 1 - decay)


def _less(x: torch.Tensor, y: torch.Tensor, rate: Any) -> torch.Tensor:
    """x -= rate * y."""
    return x.addcmul_(y, rate, value=-1) if isinstance(rate, torch.Tensor) else x.sub_(y, alpha=rate)


def _squares(average: torch.Tensor, grad: torch.Tensor, decay: Any) -> None:
    """average = decay * average + (1 - decay) * grad ** 2."""
    if isinstance(decay, torch.Tensor):
        average.mul_(decay).addcmul_(grad * (1 - decay), grad)
    else:
        average.mul_(decay).addcmul_(grad, grad, value=1 - decay)


def _less_ratio(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, rate: Any) -> torch.Tensor:
    """x -= rate * a / b."""
    return x.addcmul_(a / b, rate, value=-1) if isinstance(rate, torch.Tensor) else x.addcdiv_(a, b, value=-rate)


def _used(number: Any) -> bool:
    """Whether a number may be other than zero; one on a GPU is not inspected."""
    return isinstance(number, torch.Tensor) or number != 0


def _shrink(x: torch.Tensor, by: Any) -> torch.Tensor:
    """Elements moved towards zero by `by`, and no further."""
    return x.sign() * (x.abs() - by).clamp_(min=0)


def _chosen_by(option: str, yes: str, no: str) -> Callable:
    """Two compiled rules, one of which an attribute chooses, with the numbers of the op."""
    return lambda *numbers, **attrs: (yes if attrs[option] else no, numbers)


@_family("GradientDescent", "var", "alpha delta")
def _descend(var, alpha, grad):
    _less(var, grad, alpha)


def _descended(var, _, grad, *, rate, is_ref):
    """The same with a rate that is a constant."""
    if type(var) is not VariableResource or var.value is None or var.value.shape != grad.shape:
        _check(["var"], [var], grad, None)
    var.add(grad, -rate)
    return var if is_ref else None


def _add_product_fusion() -> None:
    """A gradient that is a product of matrices, and used for nothing else, goes into the variable without being stored."""
    for name, state, out, flags in (("ApplyGradientDescent", "Ref(T)", "out: Ref(T)", {"foldable": False}),
                                    ("ResourceApplyGradientDescent", "resource", "", {"stateful": True})):
        fused = internal(f"_{name}Product", f"var: {state}, alpha: T, a: T, b: T -> {out}",
                         "T: type in {float32 float64}, transpose_a: bool = False, transpose_b: bool = False", **flags)
        fused.kernel(functools.partial(_descend_along_product, is_ref=bool(out)))
        rules.fusion.fuse[get(name)] = functools.partial(_fuse_product, into=fused.name)


def _descend_along_product(var, alpha, a, b, *, transpose_a, transpose_b, is_ref):
    a, b = a.t() if transpose_a else a, b.t() if transpose_b else b
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise errors.invalid(f"Matrix size-incompatible: In[0]: {list(a.shape)}, In[1]: {list(b.shape)}")
    _check(["var"], [var], _OfShape((a.shape[0], b.shape[1])), None)
    rate = _number(alpha, "alpha")
    if isinstance(rate, torch.Tensor):      # on a GPU, and never waited for
        with var.lock:
            var.writable().sub_(torch.mm(a, b).mul_(rate))
    else:
        var.add_product(a, b, -rate)
    return var if is_ref else None


class _OfShape:
    """A gradient of which only the shape is inspected."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple):
        self.shape = shape


def _fuse_product(op: Any, f: Any, *, into: str) -> Any:
    var, alpha, grad = op.inputs
    product = f.only(grad, op)
    if product is None or product.opdef is not get("MatMul") or product.attrs["T"] not in (dtypes.float32, dtypes.float64):
        return None
    attrs = {"T": product.attrs["T"], "transpose_a": product.attrs["transpose_a"], "transpose_b": product.attrs["transpose_b"]}
    return f.make(into, [var, alpha, *product.inputs], attrs, op)


_add_product_fusion()
rules.updates.chosen[get("ResourceApplyGradientDescent")] = lambda alpha: ("DESCEND", (alpha,))


@_family("ProximalGradientDescent", "var", "alpha l1 l2 delta", sparse=True,
         compiled=lambda alpha, l1, l2: ("PROXIMAL_DESCEND", (alpha, alpha * l1, 1 + l2 * alpha)))
def _proximal_gradient_descent_update(var, alpha, l1, l2, grad):
    moved = _less(var.clone(), grad, alpha)
    if _used(l1):
        moved = _shrink(moved, alpha * l1)
    var.copy_(moved.div_(1 + l2 * alpha))


@_family("Momentum", "var accum", "lr grad momentum", "use_nesterov: bool = False", sparse=True,
         compiled=_chosen_by("use_nesterov", "MOMENTUM_NESTEROV", "MOMENTUM"))
def _momentum_update(var, accum, lr, grad, momentum, *, use_nesterov):
    accum.mul_(momentum).add_(grad)
    if use_nesterov:
        _less(_less(var, grad, lr), accum, momentum * lr)
    else:
        _less(var, accum, lr)


@_family("KerasMomentum", "var accum", "lr grad momentum", "use_nesterov: bool = False", sparse=True, ref=False,
         compiled=_chosen_by("use_nesterov", "KERAS_MOMENTUM_NESTEROV", "KERAS_MOMENTUM"))
def _keras_momentum_update(var, accum, lr, grad, momentum, *, use_nesterov):
    _less(accum.mul_(momentum), grad, lr)
    if use_nesterov:
        _less(_less(var, accum, -momentum), grad, lr)
    else:
        var.add_(accum)


_MANY_STEPS = torch.tensor(1e9)


def _in_memory_order(*tensors: torch.Tensor) -> list[torch.Tensor] | None:
    """Views of tensors as ATen's fused updates take them: whole, in one order, on the CPU, in single or double precision."""
    first = tensors[0]
    if tracing.lowering() or first.dtype not in (torch.float32, torch.float64) or not first.is_cpu or \
            any(t.stride() != first.stride() or t.dtype is not first.dtype for t in tensors):
        return None
    if first.is_contiguous():
        return list(tensors)
    order = sorted(range(first.ndim), key=first.stride().__getitem__, reverse=True)
    views = [t.permute(order) for t in tensors]
    return views if views[0].is_contiguous() else None


def _adam_rate(lr: Any, beta1_power: Any, beta2_power: Any) -> Any:
    """The step size with both averages' bias from their zero start taken out."""
    if any(isinstance(n, torch.Tensor) for n in (lr, beta1_power, beta2_power)):
        return lr * (1 - beta2_power) ** 0.5 / (1 - beta1_power)
    root = cmath.sqrt(1 - beta2_power)
    if not isinstance(beta2_power, complex):
        root = root.real if beta2_power <= 1 else math.nan
    return _ratio(lr * root, 1 - beta1_power)


def _ratio(a: Any, b: Any) -> Any:
    """a / b; infinite or not a number where b is zero, as for tensors."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor) or b:
        return a / b
    with np.errstate(all="ignore"):
        return np.divide(a, b).item()


def _adam_numbers(beta1_power, beta2_power, lr, beta1, beta2, epsilon, *, use_nesterov=False, rule="ADAM"):
    rate = _adam_rate(lr, beta1_power, beta2_power)
    return "ADAM_NESTEROV" if use_nesterov else rule, (rate, 1 - beta1, beta2, 1 - beta2, epsilon)


@_family("Adam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad", "use_nesterov: bool = False",
         compiled=_adam_numbers)
def _adam_update(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, *, use_nesterov):
    rate = _adam_rate(lr, beta1_power, beta2_power)
    whole = None if use_nesterov or isinstance(rate, torch.Tensor) and not rate.is_cpu else _in_memory_order(var, grad, m, v)
    if whole is not None:
        # ATen's kernel takes the bias out by the number of steps; after so many there is none, and the rate has it already
        variables, grads, means, squares = ([t] for t in whole)
        torch._fused_adam_(variables, grads, means, squares, [], [_MANY_STEPS], lr=rate, beta1=beta1, beta2=beta2,
                           weight_decay=0.0, eps=epsilon, amsgrad=False, maximize=False)
        return
    _towards(m, grad, beta1)
    _squares(v, grad, beta2)
    step = m.mul(beta1).add_(grad * (1 - beta1)) if use_nesterov else m
    _less_ratio(var, step, v.sqrt().add_(epsilon), rate)


@_family("AdamWithAmsgrad", "var m v vhat", "beta1_power beta2_power lr beta1 beta2 epsilon grad", ref=False,
         compiled=functools.partial(_adam_numbers, rule="ADAM_AMSGRAD"))
def _adam_with_amsgrad_update(var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad):
    _towards(m, grad, beta1)
    _squares(v, grad, beta2)
    torch.maximum(vhat, v, out=vhat)
    _less_ratio(var, m, vhat.sqrt().add_(epsilon), _adam_rate(lr, beta1_power, beta2_power))


def _adamax_numbers(beta1_power, lr, beta1, beta2, epsilon):
    return "ADAMAX", (_ratio(lr, 1 - beta1_power), 1 - beta1, beta2, 0.0, epsilon)


@_family("AdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad", compiled=_adamax_numbers)
def _ada_max_update(var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad):
    _towards(m, grad, beta1)
    torch.maximum(v.mul_(beta2), grad.abs(), out=v)
    _less_ratio(var, m, v + epsilon, _ratio(lr, 1 - beta1_power))


def _adagrad_rows(var, accum, at, lr, grad, *, update_slots):
    if update_slots:
        accum.index_add_(0, at, grad * grad)
    var.index_add_(0, at, accum.index_select(0, at).rsqrt_().mul_(grad).mul_(-lr))


@_family("Adagrad", "var accum", "lr grad", "update_slots: bool = True", sparse=True, rows=_adagrad_rows,
         compiled=_chosen_by("update_slots", "ADAGRAD", "ADAGRAD_KEPT"))
def _adagrad_update(var, accum, lr, grad, *, update_slots):
    if update_slots:
        accum.addcmul_(grad, grad)
    _less(var, accum.rsqrt().mul_(grad), lr)


@_family("AdagradV2", "var accum", "lr epsilon grad", "update_slots: bool = True", sparse=True,
         compiled=_chosen_by("update_slots", "ADAGRAD_V2", "ADAGRAD_V2_KEPT"))
def _adagrad_v2_update(var, accum, lr, epsilon, grad, *, update_slots):
    if update_slots:
        accum.addcmul_(grad, grad)
    _less_ratio(var, grad, accum.sqrt().add_(epsilon), lr)


@_family("ProximalAdagrad", "var accum", "lr l1 l2 grad", sparse=True,
         compiled=lambda *numbers: ("PROXIMAL_ADAGRAD", numbers))
def _proximal_adagrad_update(var, accum, lr, l1, l2, grad):
    accum.addcmul_(grad, grad)
    rate = accum.rsqrt().mul_(lr)
    moved = var.addcmul(grad, rate, value=-1)
    if _used(l1):
        moved = _shrink(moved, rate * l1)
    var.copy_(moved.div_(rate.mul_(l2).add_(1)))


@_family("AdagradDA", "var gradient_accumulator gradient_squared_accumulator", "grad lr l1 l2 global_step", sparse=True,
         compiled=lambda lr, l1, l2, step: ("ADAGRAD_DA", (lr, l1 * step, l2 * step * lr)))
def _adagrad_da_update(var, total, squares, grad, lr, l1, l2, global_step):
    total.add_(grad)
    squares.addcmul_(grad, grad)
    kept = _shrink(total, l1 * global_step) if _used(l1) else total
    var.copy_((kept * -lr).div_(squares.sqrt().add_(l2 * global_step * lr)))


@_family("Adadelta", "var accum accum_update", "lr rho epsilon grad", sparse=True,
         compiled=lambda *numbers: ("ADADELTA", numbers))
def _adadelta_update(var, accum, accum_update, lr, rho, epsilon, grad):
    _squares(accum, grad, rho)
    step = (accum_update + epsilon).sqrt_().mul_((accum + epsilon).rsqrt_()).mul_(grad)
    _less(var, step, lr)
    _squares(accum_update, step, rho)


@_family("RMSProp", "var ms mom", "lr rho momentum epsilon grad", sparse=True, compiled=lambda *numbers: ("RMSPROP", numbers))
def _rms_prop_update(var, ms, mom, lr, rho, momentum, epsilon, grad):
    _squares(ms, grad, rho)
    _less_ratio(mom.mul_(momentum), grad, (ms + epsilon).sqrt_(), -lr)
    var.sub_(mom)


@_family("CenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad", sparse=True,
         compiled=lambda *numbers: ("CENTERED_RMSPROP", numbers))
def _centered_rms_prop_update(var, mg, ms, mom, lr, rho, momentum, epsilon, grad):
    _squares(ms, grad, rho)
    _towards(mg, grad, rho)
    spread = ms.addcmul(mg, mg, value=-1).add_(epsilon)
    _less_ratio(mom.mul_(momentum), grad, spread.sqrt_(), -lr)
    var.sub_(mom)


def _ftrl_numbers(lr, l1, l2, *more):
    shrinkage, lr_power = (0.0, *more) if len(more) == 1 else more
    return "FTRL" if lr_power == -0.5 else "FTRL_POWER", (lr, l1, l2, shrinkage, -lr_power)


def _ftrl(var, accum, linear, grad, lr, l1, l2, l2_shrinkage, lr_power):
    """Follow the regularized leader: `linear` sums what the gradients request, l1 keeps small weights at zero."""
    new = accum.addcmul(grad, grad)
    half = not isinstance(lr_power, torch.Tensor) and lr_power == -0.5
    root, old_root = (new.sqrt(), accum.sqrt()) if half else (new.pow(-lr_power), accum.pow(-lr_power))
    asked = grad.add(var * (2 * l2_shrinkage)) if _used(l2_shrinkage) else grad
    linear.add_(asked).sub_((root - old_root).div_(lr).mul_(var))
    steps = (linear.sign() * l1 - linear).div_(root.div_(lr).add_(2 * l2))
    var.copy_(torch.where(linear.abs() > l1, steps, torch.zeros_like(steps)))
    accum.copy_(new)


@_family("Ftrl", "var accum linear", "grad lr l1 l2 lr_power", sparse=True, compiled=_ftrl_numbers)
def _ftrl_update(var, accum, linear, grad, lr, l1, l2, lr_power):
    _ftrl(var, accum, linear, grad, lr, l1, l2, 0, lr_power)


_family("FtrlV2", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power", sparse=True, compiled=_ftrl_numbers)(_ftrl)


@_family("AddSign", "var m", "lr alpha sign_decay beta grad",
         compiled=lambda lr, alpha, decay, beta: ("ADD_SIGN", (lr, alpha, decay, 1 - beta)))
def _add_sign_update(var, m, lr, alpha, sign_decay, beta, grad):
    _towards(m, grad, beta)
    agreement = grad.sign() * m.sign()
    _less(var, agreement.mul_(sign_decay).add_(alpha).mul_(grad), lr)


@_family("PowerSign", "var m", "lr logbase sign_decay beta grad",
         compiled=lambda lr, logbase, decay, beta: ("POWER_SIGN", (lr, logbase * decay, 1 - beta)))
def _power_sign_update(var, m, lr, logbase, sign_decay, beta, grad):
    _towards(m, grad, beta)
    agreement = grad.sign() * m.sign()
    _less(var, agreement.mul_(logbase * sign_decay).exp_().mul_(grad), lr)


# -- the rules of DeepRec ---------------------------------------------------------------------------------------------
@_family("LazyAdam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad", sparse=True, hidden=True,
         compiled=_adam_numbers)
def _lazy_adam_update(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad):
    """Adam; of sparse gradients, on their rows only."""
    _towards(m, grad, beta1)
    _squares(v, grad, beta2)
    _less_ratio(var, m, v.sqrt().add_(epsilon), _adam_rate(lr, beta1_power, beta2_power))


@_family("AdagradDecay", "var accum accum_decay_power", "lr periods decay_rate baseline grad", sparse=True, hidden=True,
         compiled=lambda *numbers: ("ADAGRAD_DECAY", numbers))
def _adagrad_decay_update(var, accum, accum_decay_power, lr, periods, decay_rate, baseline, grad):
    """Adagrad whose sums decay once in a period; `accum_decay_power` counts how often they have."""
    due = accum_decay_power < periods
    accum.copy_(torch.where(due, (accum * decay_rate).clamp_(min=baseline), accum))
    accum_decay_power.add_(due)
    accum.addcmul_(grad, grad)
    _less(var, accum.rsqrt().mul_(grad), lr)


# -- the rules of Keras 3 ---------------------------------------------------------------------------------------------
@_family("KerasRowsMomentum", "var accum", "lr grad momentum", "use_nesterov: bool = False", sparse=True,
         compiled=_chosen_by("use_nesterov", "KERAS_MOMENTUM_NESTEROV", "KERAS_MOMENTUM"))
def _keras_rows_momentum(var, accum, lr, grad, momentum, *, use_nesterov, squares):
    _keras_momentum_update(var, accum, lr, grad, momentum, use_nesterov=use_nesterov)


@_family("KerasAdam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad", sparse=True, compiled=_adam_numbers)
def _keras_adam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, *, squares):
    _towards(m, grad, beta1)
    _towards(v, squares, beta2)
    _less_ratio(var, m, v.sqrt().add_(epsilon), _adam_rate(lr, beta1_power, beta2_power))


@_family("KerasAdamWithAmsgrad", "var m v vhat", "beta1_power beta2_power lr beta1 beta2 epsilon grad", sparse=True,
         compiled=functools.partial(_adam_numbers, rule="ADAM_AMSGRAD"))
def _keras_adam_with_amsgrad(var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, *, squares):
    _towards(m, grad, beta1)
    _towards(v, squares, beta2)
    vhat.copy_(torch.maximum(vhat, v))
    _less_ratio(var, m, vhat.sqrt().add_(epsilon), _adam_rate(lr, beta1_power, beta2_power))


@_family("KerasAdamax", "var m v", "beta1_power lr beta1 beta2 epsilon grad", sparse=True,
         compiled=_adamax_numbers)
def _keras_adamax(var, m, v, beta1_power, lr, beta1, beta2, epsilon, grad, *, squares):
    _towards(m, grad, beta1)
    v.copy_(torch.maximum(v * beta2, grad.abs()))
    _less_ratio(var, m, v + epsilon, _ratio(lr, 1 - beta1_power))


def _nadam_numbers(lr, beta1, beta2, beta2_power, epsilon, now, then, product, next_product):
    return "NADAM", (lr, 1 - beta1, beta2, 1 - beta2, epsilon, _ratio(1 - now, 1 - product), _ratio(then, 1 - next_product),
                     _ratio(1.0, 1 - beta2_power))


@_family("KerasNadam", "var m v", "lr beta1 beta2 beta2_power epsilon now then product next_product grad", sparse=True,
         compiled=_nadam_numbers)
def _keras_nadam(var, m, v, lr, beta1, beta2, beta2_power, epsilon, now, then, product, next_product, grad, *, squares):
    """Momentum as it will be in the next step; `product` is that of all momenta so far."""
    _towards(m, grad, beta1)
    _towards(v, squares, beta2)
    ahead = grad * _ratio(1 - now, 1 - product) + m * _ratio(then, 1 - next_product)
    _less_ratio(var, ahead, (v * _ratio(1.0, 1 - beta2_power)).sqrt_().add_(epsilon), lr)


@_family("KerasAdagrad", "var accum", "lr epsilon grad", sparse=True, compiled=lambda *numbers: ("KERAS_ADAGRAD", numbers))
def _keras_adagrad(var, accum, lr, epsilon, grad, *, squares):
    accum.add_(squares)
    _less_ratio(var, grad, (accum + epsilon).sqrt_(), lr)


@_family("KerasAdadelta", "var accum accum_update", "lr rho epsilon grad", sparse=True,
         compiled=lambda *numbers: ("ADADELTA", numbers))
def _keras_adadelta(var, accum, accum_update, lr, rho, epsilon, grad, *, squares):
    _towards(accum, squares, rho)
    ratio = ((accum_update + epsilon) / (accum + epsilon)).sqrt_()
    _less(var, ratio * grad, lr)
    _towards(accum_update, ratio * ratio * squares, rho)


@_family("KerasRMSprop", "var ms", "lr rho momentum epsilon grad", sparse=True,
         compiled=lambda *numbers: ("KERAS_RMSPROP", numbers))
def _keras_rmsprop(var, ms, lr, rho, momentum, epsilon, grad, *, squares):
    _towards(ms, squares, rho)
    _less_ratio(var, grad, (ms + epsilon).sqrt_(), lr)


@_family("KerasCenteredRMSprop", "var mg ms", "lr rho momentum epsilon grad", sparse=True,
         compiled=lambda *numbers: ("KERAS_CENTERED_RMSPROP", numbers))
def _keras_centered_rmsprop(var, mg, ms, lr, rho, momentum, epsilon, grad, *, squares):
    _towards(mg, grad, rho)
    _towards(ms, squares, rho)
    _less_ratio(var, grad, (ms - mg * mg + epsilon).sqrt_(), lr)


@_family("KerasMomentumRMSprop", "var ms mom", "lr rho momentum epsilon grad", sparse=True,
         compiled=lambda *numbers: ("RMSPROP", numbers))
def _keras_momentum_rmsprop(var, ms, mom, lr, rho, momentum, epsilon, grad, *, squares):
    _towards(ms, squares, rho)
    var.sub_(_less_ratio(mom.mul_(momentum), grad, (ms + epsilon).sqrt_(), -lr))


@_family("KerasCenteredMomentumRMSprop", "var mg ms mom", "lr rho momentum epsilon grad", sparse=True,
         compiled=lambda *numbers: ("CENTERED_RMSPROP", numbers))
def _keras_centered_momentum_rmsprop(var, mg, ms, mom, lr, rho, momentum, epsilon, grad, *, squares):
    _towards(mg, grad, rho)
    _towards(ms, squares, rho)
    var.sub_(_less_ratio(mom.mul_(momentum), grad, (ms - mg * mg + epsilon).sqrt_(), -lr))


@_family("KerasFtrl", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power", sparse=True, compiled=_ftrl_numbers)
def _keras_ftrl(var, accum, linear, grad, lr, l1, l2, l2_shrinkage, lr_power, *, squares):
    new = accum + squares
    root, old_root = new.pow(-lr_power), accum.pow(-lr_power)
    linear.add_(grad).add_(var * (2 * l2_shrinkage)).sub_((root - old_root).div_(lr).mul_(var))
    steps = (linear.sign() * l1 - linear).div_(root.div_(lr).add_(2 * l2))
    var.copy_(torch.where(linear.abs() > l1, steps, torch.zeros_like(steps)))
    accum.copy_(new)


@_family("KerasLion", "var momentum", "lr beta_1 beta_2 grad", sparse=True, compiled=lambda *numbers: ("LION", numbers))
def _keras_lion(var, momentum, lr, beta_1, beta_2, grad, *, squares):
    _less(var, (momentum * beta_1 + grad * (1 - beta_1)).sign_(), lr)
    _towards(momentum, grad, beta_2)
