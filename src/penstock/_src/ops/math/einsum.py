"""Sums of products over named axes.

The op takes one or two tensors; the function takes any number and contracts them two at a time, in an order that keeps
the products in between small. The gradient of an Einsum is again an Einsum.
"""
from __future__ import annotations

import math
import re
import string
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.convert import convert
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import name_scope
from penstock._src.kernels import products
from penstock._src.ops import rules
from penstock._src.ops.composite import dispatched
from penstock._src.ops.math.math import conj
from penstock._src.ops.registry import get, op

einsum_op = op("Einsum", "inputs: N * T -> output: T", "equation: string, N: int >= 1, T: type in {numeric}")


@rules.batching.rule(einsum_op)
def _einsum_batching(op, rows, *inputs):
    left, arrow, right = op.attrs["equation"].replace(" ", "").partition("->")
    new = next(c for c in string.ascii_letters if c not in left + right)
    terms = [new + labels if v.stacked else labels for labels, v in zip(left.split(","), inputs, strict=True)]
    if not arrow:
        return None
    return rows.again(op, [v.tensor for v in inputs], equation=f"{','.join(terms)}->{new}{right}")



def _parts(equation: str, error: Any = ValueError) -> tuple[list[str], str]:
    """The labels of the inputs and of the output, with "..." for an ellipsis."""
    if "->" not in equation:
        raise error(f"Expecting exactly one '->' in einsum equation: {equation}")
    left, _, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    for labels in (*inputs, right):
        if not re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", labels):
            raise error(f"Invalid labels '{labels}' in einsum equation: {equation}")
    unknown = set(right.replace("...", "")) - set(left)
    if unknown:
        raise error(f"Unknown subscripts '{''.join(sorted(unknown))}' in the output of einsum equation: {equation}")
    return inputs, right


# -- shapes and kernel ------------------------------------------------------------------------------------------------
def _sizes(labels: str, dims: tuple) -> tuple[dict[str, int | None], tuple | None]:
    """The size of each label, and the sizes under the ellipsis."""
    before, dots, after = labels.partition("...")
    spare = len(dims) - len(before) - len(after)
    if spare < 0 or (spare and not dots):
        raise ValueError(f"Expected a tensor of rank {len(before) + len(after)} for '{labels}', got shape "
                         f"{shapes.show(dims)}")
    named: dict[str, int | None] = {}
    for name, size in zip(before + after, dims[:len(before)] + dims[len(before) + spare:], strict=True):
        if named.get(name) is not None and size is not None and named[name] != size:
            raise ValueError(f"Expected dimension {named[name]} for label '{name}', got {size}")
        named[name] = size if size is not None else named.get(name)
    return named, dims[len(before):len(before) + spare] if dots else None


def _hidden(equation: str, rank: int) -> str:
    return (f"Shape must be at most rank 0 but is rank {rank} for einsum equation '{equation}' without ellipsis (...) in the "
            "output subscripts where input(s) have non-empty broadcasting shape")


@einsum_op.shape
def _einsum_shape(inputs, *, equation):
    labels, out = _parts(equation)
    if len(labels) != len(inputs):
        raise ValueError(f"Got {len(inputs)} inputs for equation \"{equation}\", which has {len(labels)}")
    named: dict[str, int | None] = {}
    ellipsis: Any = ()
    for text, dims in zip(labels, inputs, strict=True):
        if dims is None:
            ellipsis = None if "..." in text else ellipsis
            continue
        sizes, under = _sizes(text, dims)
        for name, size in sizes.items():
            if named.get(name) is not None and size is not None and named[name] != size:
                raise ValueError(f"Expected dimension {named[name]} for label '{name}', got {size}")
            named[name] = size if size is not None else named.get(name)
        if under is not None and ellipsis is not None:
            ellipsis = shapes.broadcast(ellipsis, under)
    before, dots, after = out.partition("...")
    if not dots and ellipsis:
        raise ValueError(_hidden(equation, len(ellipsis)))
    if dots and ellipsis is None:
        return None
    return (*(named.get(n) for n in before), *(ellipsis if dots else ()), *(named.get(n) for n in after))


@einsum_op.kernel
def _einsum_kernel(inputs, *, equation):
    labels, out = _parts(equation, errors.invalid)
    if len(labels) != len(inputs):
        raise errors.invalid(f"Got {len(inputs)} inputs for equation \"{equation}\", which has {len(labels)}")
    named: dict[str, int | None] = {}
    for text, x in zip(labels, inputs, strict=True):
        try:
            sizes, under = _sizes(text, tuple(x.shape))
        except ValueError as e:
            raise errors.invalid(str(e)) from None
        for name, size in sizes.items():                                # torch would broadcast a dimension of 1
            if named.setdefault(name, size) != size:
                raise errors.invalid(f"Expected dimension {named[name]} for label '{name}', got {size}")
        if under and "..." not in out:
            raise errors.invalid(_hidden(equation, len(under)))
    single = "".join(dict.fromkeys(out.replace("...", "\0"))).replace("\0", "...")
    dtype = inputs[0].dtype
    if not (dtype.is_floating_point or dtype.is_complex):              # sums of integers are 64 bits wide in torch
        inputs = [x.to(torch.int64) for x in inputs]
    result = torch.einsum(f"{','.join(labels)}->{single}", *inputs).to(dtype)
    return result if single == out else _on_diagonals(result, single, out)


def _contraction(equation: str, dims_of: Callable) -> tuple[list[str], str, str, str, str, str, dict[str, int]] | None:
    """The labels of two arrays of known shapes and of their result; of these, those that stay and are of both, those that are
    summed, and those of the first and of the second alone; with sizes. None if it is not a product of matrices."""
    labels, out = _parts(equation, errors.invalid)
    dims = [dims_of(i) for i in range(len(labels))]
    if len(labels) != 2 or "..." in equation or \
            any(d is None or len(d) != len(t) or len(set(t)) != len(t) for d, t in zip(dims, (*labels,), strict=True)):
        return None
    a, b = labels
    sizes = dict(zip(a, dims[0], strict=True))
    if any(sizes.setdefault(c, n) != n for c, n in zip(b, dims[1], strict=True)) or None in sizes.values():
        return None
    batch, inner = ("".join(c for c in a if c in b and (c in out) is kept) for kept in (True, False))
    left, right = ("".join(c for c in t if c not in batch + inner) for t in labels)
    return (labels, out, batch, inner, left, right, sizes) if sorted(out) == sorted(batch + left + right) else None


@rules.regions.lower(einsum_op)
def _einsum_in_region(op, r):
    found = _contraction(op.attrs["equation"], lambda i: op.inputs[i].static_dims)
    if found is None:
        raise r.Unfit("no product")
    (a, b), out, batch, inner, left, right, sizes = found

    def matrices(t: Any, text: str, rows: str, columns: str) -> Any:
        view = r.permuted(r.view(t), [text.index(c) for c in batch + rows + columns])
        return r.reshaped(view, [math.prod(sizes[c] for c in part) for part in (batch, rows, columns)])
    made = r.product(matrices(op.inputs[0], a, left, inner), matrices(op.inputs[1], b, inner, right))
    order = batch + left + right
    return [r.permuted(r.reshaped(made, [sizes[c] for c in order]), [order.index(c) for c in out])]


@rules.program.prepare(einsum_op)
def _einsum_prepare(known):
    """A contraction of two arrays of known shapes is a product of matrices, or of batches of them. They are views of the arrays
    where the axes are in order; copies keep the order of the last axes, because transposing them in memory is slow."""
    found = _contraction(known.attrs["equation"], known.dims) if known.floating() else None
    if found is None or not all(found[3:6]):
        return None
    (a, b), out, batch, inner, left, right, sizes = found
    turned = out[-1] in left                              # the product of the transposed matrices is in the result's order
    first = _as_matrices(a, batch, left, inner, sizes, turned)
    second = _as_matrices(b, batch, inner, right, sizes, turned)
    order = batch + (right + left if turned else left + right)
    shape, permutation = [sizes[c] for c in order], [order.index(c) for c in out]
    multiply = products.batched if batch else products.product

    def product(inputs):
        x, y = first(inputs[0]), second(inputs[1])
        made = (multiply(y, x) if turned else multiply(x, y)).view(shape)
        return made if order == out else made.permute(permutation)
    return product


def _as_matrices(text: str, batch: str, rows: str, columns: str, sizes: dict[str, int], turned: bool) -> Callable:
    """A function that returns an array with axes `text` as a matrix, or as a batch of them; as transposed ones if `turned`."""
    across = text[-1] in rows                             # whether the rows are the columns of the matrix in memory
    order = batch + (columns + rows if across else rows + columns)
    shape = [math.prod(sizes[c] for c in part) for part in ((columns, rows) if across else (rows, columns))]
    if batch:
        shape.insert(0, math.prod(sizes[c] for c in batch))
    permutation = None if order == text else [text.index(c) for c in order]

    def matrices(x):
        x = (x if permutation is None else x.permute(permutation)).reshape(shape)
        return x.mT if across is not turned else x
    return matrices


def _on_diagonals(x: torch.Tensor, single: str, out: str) -> torch.Tensor:
    """Expands each axis whose label is repeated in the output to a diagonal."""
    rank = x.ndim - len(single.replace("...", ""))
    hidden = "".join(map(chr, range(rank)))                   # labels for what is under the ellipsis
    given, wanted = single.replace("...", hidden), out.replace("...", hidden)
    result = x.new_zeros([x.shape[given.index(c)] for c in wanted])
    view, order = result, wanted
    for name in dict.fromkeys(wanted):
        while order.count(name) > 1:
            first = order.index(name)
            second = order.index(name, first + 1)
            view = view.diagonal(dim1=first, dim2=second)
            order = order[:first] + order[first + 1:second] + order[second + 1:] + name
    view.copy_(x.permute([given.index(c) for c in order]))
    return result


# -- gradient ---------------------------------------------------------------------------------------------------------
@einsum_op.gradient
def _einsum_gradient(op, grad):
    labels, out = _parts(op.attrs["equation"])
    xs = op.inputs
    if len(xs) == 1:
        return _input_gradient(grad, xs[0], labels[0], None, "", out)
    if len(xs) > 2:
        raise LookupError("the gradient of an Einsum of more than two inputs is that of the products in between")
    a = _input_gradient(grad, xs[0], labels[0], xs[1], labels[1], out)
    b = _input_gradient(grad, xs[1], labels[1], xs[0], labels[0], out)
    return a, b


def _input_gradient(grad: Tensor, x: Tensor, text: str, other: Any, other_text: str, out: str) -> Tensor:
    """Contracts the gradient with the other input, then repeats it over axes that were summed alone."""
    unique = "".join(dict.fromkeys(text.replace("...", "\0"))).replace("\0", "...")
    known = set(out + other_text)
    there = "".join(c for c in unique.replace("...", "\0") if c == "\0" or c in known).replace("\0", "...")
    if "..." in there and "..." not in out + other_text:
        there = there.replace("...", "")
    sources, tensors = [out], [grad]
    if other is not None:
        sources.append(other_text)
        tensors.append(conj(other))
    if sources == [there]:
        partial = grad
    else:
        partial = _summed(tensors, sources, there)
    if there != unique:
        partial = _repeated(partial, there, unique, x, text)
    if unique != text:
        partial = einsum_op([partial], equation=f"{unique}->{text}")
    if "..." in text and other is not None:
        partial = _unbroadcast_ellipsis(partial, x, text, other, other_text)
    return partial


def _summed(tensors: list[Tensor], sources: list[str], there: str) -> Tensor:
    """The Einsum of tensors; what is under an ellipsis that `there` lacks is the same in all of them, and summed."""
    equation = ",".join(sources)
    if "..." in there or "..." not in equation:
        return einsum_op(tensors, equation=f"{equation}->{there}")
    ranks = [len(t.static_dims) - len(s) + 3 for t, s in zip(tensors, sources, strict=True)
             if "..." in s and t.static_dims is not None]
    if ranks:
        free = [c for c in string.ascii_letters if c not in equation][:ranks[0]]
        return einsum_op(tensors, equation=f"{equation.replace('...', ''.join(free))}->{there}")
    kept = einsum_op(tensors, equation=f"{equation}->...{there}")
    return get("Sum")(kept, get("Range")(0, get("Rank")(kept) - len(there), 1))


def _repeated(partial: Tensor, there: str, unique: str, x: Tensor, text: str) -> Tensor:
    """`partial` broadcast over the labels of `unique` that it does not have, and over what the ellipsis of `x` covers if it
    has none."""
    shape, partial_shape = get("Shape")(x), get("Shape")(partial)
    full, kept = [], []
    for c in unique.replace("...", "\0"):
        if c in there.replace("...", "\0"):
            piece = _part_under(partial_shape, there, c)
            full.append(piece)
            kept.append(piece)
        else:
            full.append(_part_under(shape, text, c))
            kept.append(get("OnesLike")(full[-1]))
    zero = convert(0, dtypes.int32)
    if len(full) == 1:
        return get("BroadcastTo")(get("Reshape")(partial, kept[0]), full[0])
    return get("BroadcastTo")(get("Reshape")(partial, get("ConcatV2")(kept, zero)), get("ConcatV2")(full, zero))


def _part_under(shape: Tensor, text: str, label: str) -> Tensor:
    """The part of a shape that belongs to a label (to the ellipsis: "\0")."""
    front, dots, behind = text.partition("...")
    if label == "\0":
        return shape[len(front):-len(behind) if behind else None]
    if label in front or not dots:
        return shape[text.index(label):text.index(label) + 1]
    at = len(behind) - behind.index(label)
    return shape[-at:-at + 1 if at > 1 else None]


def _unbroadcast_ellipsis(partial: Tensor, x: Tensor, text: str, other: Tensor, other_text: str) -> Tensor:
    """Sums the axes under the ellipsis over which `x` was broadcast."""
    if "..." not in other_text:
        return partial
    if x.static_dims is not None and x.static_dims == partial.static_dims and None not in x.static_dims:
        return partial
    front, back = (t.partition("...")[0] for t in (text, other_text))
    behind, other_behind = (t.partition("...")[2] for t in (text, other_text))
    shape, other_shape = get("Shape")(x), get("Shape")(other)
    under = shape[len(front):len(behind) and -len(behind) or None]
    other_under = other_shape[len(back):len(other_behind) and -len(other_behind) or None]
    axes, _ = get("BroadcastGradientArgs")(under, other_under)
    total = get("Sum")(partial, axes + convert(len(front), axes.dtype.base_dtype))
    return get("Reshape")(total, shape)


# -- the public function ----------------------------------------------------------------------------------------------
@export("einsum", "linalg.einsum")
@dispatched
def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """Sums of products over the labels that are not in the output.

    Args:
        equation: A letter per axis of each input, and after `->` those of the result, as in `"ij,jk->ik"`; `...` is any
            axes.
        *inputs: The tensors.
        **kwargs: `optimize`, how the order of products is found, and `name`.

    Returns:
        The sums of products.

    Raises:
        ValueError: if the letters do not fit the ranks or sizes.

    >>> tf.einsum("ij,jk->ik", [[1., 2.]], [[3.], [4.]]).numpy().tolist()
    [[11.0]]
    """
    name = kwargs.pop("name", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(f"invalid keyword arguments for this function: {', '.join(sorted(kwargs))}")
    if not inputs:
        raise ValueError("At least one input tensor must be provided")
    with name_scope(name, "einsum", [equation, *inputs]) as scope:
        tensors = _tensors(inputs)
        labels, out = _resolved(equation, tensors)
        return _contracted(labels, out, tensors, scope)


def _tensors(inputs: tuple) -> list[Tensor]:
    """The operands; Python values, and arrays in eager execution, have the type of the first tensor."""
    wanted = next((x.dtype.base_dtype for x in inputs if isinstance(x, Tensor)), None)
    follows = np.ndarray if context.executing_eagerly() else ()
    return [x if isinstance(x, Tensor)
            else convert(x, wanted if isinstance(x, follows) or not hasattr(x, "dtype") else None) for x in inputs]


def _resolved(equation: str, tensors: list[Tensor]) -> tuple[list[str], str]:
    """The labels of the inputs and of the output, which may be left out."""
    text = equation.replace(" ", "")
    if text.count("->") > 1 or not re.fullmatch(r"[A-Za-z,.]*(->[A-Za-z.]*)?", text):
        raise ValueError(f"Indices have incorrect format. Received: {equation}.")
    left, arrow, out = text.partition("->")
    labels = left.split(",")
    if len(labels) != len(tensors):
        raise ValueError(f"Got {len(tensors)} inputs for equation \"{equation}\", expecting {len(labels)}")
    if not arrow:
        once = sorted(c for c in set(left) - set(",.") if left.count(c) == 1)
        out = ("..." if "..." in left else "") + "".join(once)
    _parts(f"{left}->{out}")
    if any(out.count(c) > 1 for c in set(out) - {"."}):
        raise ValueError(f"A label may occur once in the output of an einsum equation: {equation}")
    under = 0
    for name, t in zip(labels, tensors, strict=True):
        if t.static_dims is not None:
            under = max(under, len(_sizes(name, t.static_dims)[1] or ()))
    if len(set(left) - set(",.")) + under > 52:
        raise ValueError(f"Too many axes in einsum equation {equation}: there are only 52 letters")
    return labels, out


def _contracted(labels: list[str], out: str, tensors: list[Tensor], name: str | None) -> Tensor:
    """One op for one or two inputs; for more, contracts the best pair repeatedly."""
    labels, tensors = list(labels), list(tensors)
    while len(tensors) > 2:
        i, j = _best_pair(labels, out, tensors)
        rest = [labels[k] for k in range(len(labels)) if k not in (i, j)]
        kept = _kept(labels[i], labels[j], rest, out)
        product = einsum_op([tensors[i], tensors[j]], equation=f"{labels[i]},{labels[j]}->{kept}")
        labels = rest + [kept]
        tensors = [tensors[k] for k in range(len(tensors)) if k not in (i, j)] + [product]
    return einsum_op(tensors, equation=f"{','.join(labels)}->{out}", name=name)


def _kept(a: str, b: str, rest: list[str], out: str) -> str:
    """The labels of the product of a and b that something else still needs."""
    needed = set("".join(rest) + out)
    names = [c for c in dict.fromkeys((a + b).replace("...", "")) if c in needed]
    return ("..." if "..." in a + b else "") + "".join(names)


def _best_pair(labels: list[str], out: str, tensors: list[Tensor]) -> tuple[int, int]:
    """The pair whose product is smallest relative to its inputs; unknown sizes count as 8."""
    sizes: dict[Any, Any] = {}
    for text, t in zip(labels, tensors, strict=True):
        if t.static_dims is not None:
            for name, size in _sizes(text, t.static_dims)[0].items():
                sizes[name] = size or sizes.get(name) or 8

    def elements(text: str) -> float:
        return float(np.prod([sizes.get(c, 8) for c in text.replace("...", "")], dtype=np.float64))

    def gain(pair: tuple[int, int]) -> tuple:
        i, j = pair
        rest = [labels[k] for k in range(len(labels)) if k not in pair]
        kept = _kept(labels[i], labels[j], rest, out)
        return elements(kept) - elements(labels[i]) - elements(labels[j]), pair
    pairs = [(i, j) for i in range(len(labels)) for j in range(i + 1, len(labels))]
    return min(pairs, key=gain)
