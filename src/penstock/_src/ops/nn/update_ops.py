"""The declaration of update ops: the ops of TensorFlow around the rule of an optimizer.

`family` declares Apply*, ResourceApply*, and where TensorFlow has them SparseApply* and ResourceSparseApply*, which run the
rule on the rows that the indices name, repeated ones in turn; their shapes, and what the compiler may do with them. The rules
are in ops/nn/training.py, the kernels that run them in ops/nn/update_kernels.py.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.static_shape import Dims, compatible, show
from penstock._src.graph.handles import handle_dims
from penstock._src.kernels import updates
from penstock._src.ops import rules
from penstock._src.ops.nn.update_kernels import GRADIENTS, kernel, kernel_of_several, preparing, preparing_rows, wanting
from penstock._src.ops.registry import get, internal, keyword_names, op
from penstock._src.ops.state.state_scatter import rows_of_variable


def family(name: str, states: str, inputs: str, attrs: str = "", sparse: bool = False, ref: bool = True,
           rows: Callable | None = None, compiled: Callable | None = None, constant: Callable | None = None,
           hidden: bool = False, all_rows: bool = False) -> Callable:
    """Declares the ops of a rule: `states` and `inputs` are their argument names in order. TensorFlow has no ops for `hidden`
    rules: the names of their ops begin with an underscore.

    `compiled`: (numbers, attributes) -> the rule of kernels/updates.py that does the same, and its numbers; or None.
    `constant`: the kernel of the dense op where all `numbers` are constants, which checks shapes itself.

    `all_rows`: sparse updates move all rows, as in Keras: gradients of repeated rows are added up, and rows without a gradient
    have one of 0. TensorFlow has no such ops, so they are hidden.
    """
    def declare(rule: Callable) -> Callable:
        for is_sparse in (False, True) if sparse else (False,):
            names = inputs.split()
            if is_sparse:
                names = ["grad" if n == "delta" else n for n in names]
                names.insert(names.index("grad") + 1, "indices")
            for is_ref in (True, False) if ref else (False,):
                _declare(name, states.split(), names, attrs, rule, is_ref, is_sparse, rows, compiled, constant,
                         hidden or all_rows, all_rows)
        return rule
    return declare


def _declare(name: str, states: list[str], inputs: list[str], attrs: str, rule: Callable, is_ref: bool,
             is_sparse: bool, rows: Callable | None, compiled: Callable | None, constant: Callable | None,
             hidden: bool, all_rows: bool) -> None:
    kinds = {"indices": "Tindices", "global_step": "int64"}
    args = [f"{s}: {'Ref(T)' if is_ref else 'resource'}" for s in states]
    args += [f"{n}: {kinds.get(n, 'T')}" for n in inputs]
    types = "T: type in {numeric quantized}" + (", Tindices: type in {index}" if is_sparse else "")
    made = (internal if hidden else op)(
        f"{'_' if hidden else ''}{'' if is_ref else 'Resource'}{'Sparse' if is_sparse else ''}Apply{name}",
        f"{', '.join(args)} -> {'out: Ref(T)' if is_ref else ''}",
        f"{types}, use_locking: bool = False{', ' + attrs if attrs else ''}",
        stateful=not is_ref, foldable=False).no_gradient()
    made.kernel(kernel(states, inputs, rule, is_ref, rows=rows, compiled=compiled, all_rows=all_rows))
    rules.updates.alone.add(made)
    if compiled is not None:
        rules.updates.compiled.add(made)
        rules.updates.chosen[made] = compiled
    if not is_sparse:
        at = len(states) + next(i for i, n in enumerate(inputs) if n in GRADIENTS)
        rules.fusion.absorb[made] = functools.partial(_take_short_gradient, at)
    if not is_sparse:
        rules.program.prepare[made] = preparing(states, inputs, rule, is_ref, compiled, constant)
        rules.updates.several[made] = _declare_several(made.name, states, inputs, attrs, rule, is_ref, compiled)
    else:
        rules.program.prepare[made] = preparing_rows(states, inputs, rule, is_ref, rows, compiled, all_rows)
        if not all_rows:
            rules.rows.skips[made] = rules.Skipping(len(states) + inputs.index("indices"), rows_of_variable)
        if compiled is not None and not all_rows:
            rules.fusion.fuse[made] = _summing(made, states, inputs, rule, is_ref, compiled)
    made.shape(_shape_rule(states, inputs, is_ref))


def _declare_several(name: str, states: list[str], inputs: list[str], attrs: str, rule: Callable,
                     is_ref: bool, compiled: Callable | None) -> tuple[str, frozenset[int]]:
    """The op that updates several variables by one rule (step/optimize/updates.py), and which inputs are lists."""
    args = [f"{s}: {'Ref(N * T)' if is_ref else 'N * resource'}" for s in states]
    args += [f"{n}: N * T" if n in GRADIENTS else f"{n}: {'int64' if n == 'global_step' else 'T'}" for n in inputs]
    made = internal(f"_{name.lstrip('_')}ToAll", f"{', '.join(args)} ->", "N: int >= 1, T: type in {numeric quantized}, "
                    f"use_locking: bool = False{', ' + attrs if attrs else ''}", stateful=not is_ref, foldable=False)
    made.kernel(kernel_of_several(made.name, states, inputs, rule, compiled))
    if compiled is not None:
        rules.updates.compiled.add(made)
    return made.name, frozenset(i for i, n in enumerate([*states, *inputs]) if n in states or n in GRADIENTS)


def _summing(made: Any, states: list[str], inputs: list[str], rule: Callable, is_ref: bool, compiled: Callable) -> Callable:
    """Lets the compiled kernel sum the rows of repeated indices, instead of ops before the update."""
    args = [f"{a.name}: {'Ref(T)' if a.is_ref else a.type_attr if a.type is None else a.type.name}" for a in made.inputs]
    attrs = ["T: type in {float32 float64}, Tindices: type in {index}, use_locking: bool = False",
             *[f"{n}: bool = False" for n in keyword_names(rule)]]
    fused = internal(f"_{made.name}Summed", f"{', '.join(args)} -> {'out: Ref(T)' if is_ref else ''}", ", ".join(attrs),
                     stateful=not is_ref, foldable=False)
    fused.kernel(kernel(states, inputs, rule, is_ref, compiled=compiled, summed=True))
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
    """On GPUs, a gradient in half precision is taken as it is: writing it in single precision first would cost more."""
    cast = f.only(op.inputs[at], op)
    if cast is not None and not f.on_host(op) and cast.opdef is get("Cast") and \
            cast.attrs["SrcT"] in (dtypes.bfloat16, dtypes.float16) and op.attrs["T"] == dtypes.float32:
        op.set_input(at, cast.inputs[0])


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
            if n not in (*GRADIENTS, "indices") and s:
                raise ValueError(f"Shape must be rank 0 but is rank {len(s)}: {n} is {show(s)}")
        return (dims if dims is not None else grad if "indices" not in given else None) if is_ref else []
    return wanting(rule, "c")


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
