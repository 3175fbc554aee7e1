"""Scaled-dot-product attention, recognized by its structure in the graph of a step.

    out = bmm(dropout(softmax(bmm(q, kᵀ) · scale + mask)), v)

and, where the step has them, the ops of its gradient: four further products around the gradient of the softmax. Views between
them may be of any kind (views.py), so Keras's MultiHeadAttention, einsum and code with reshapes and transposes are the same.
A mask is a constant (causal or not), computed, or something that is added: padding, slopes, learned biases. All of it becomes
one call of a fused kernel, and one for the gradient, which do not store the matrix of scores. If any intermediate value has
another use, nothing is changed.

The kernels draw the numbers of dropout themselves, from the generator of the device. A dropout with a seed, whose numbers are
the same in every tier, is not fused.
"""
from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from penstock._src.step.tiers import valueless, views
from penstock._src.step.tiers.attention_kernels import kernel_for
from penstock._src.step.tiers.views import aten

_MINUS_INFINITY = -1e3               # masks add or select a number below this: its exponential is zero
_HIDDEN = -1e30                      # what is added to hidden scores: the score itself is lost in it
_LONG = 1024                         # columns: of fewer in single precision, separate ops with dropout are faster
_RANDOM = {aten.rand.generator, aten.rand.default}
_POINTWISE = {aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.where.self}


class _Scores(NamedTuple):
    """From a product to its softmax."""
    product: torch.fx.Node
    frame: views.Layout              # of the tensor whose softmax is taken, over the product
    steps: list                      # (kind, value) in order: "cast", "scale", "where", "hide", "times", "add"
    scale: float
    keep: torch.Tensor | None        # constant mask: where scores stay
    added: list                      # (kind, node) of what is added, and of masks that are computed


class _Dropout(NamedTuple):
    """Dropout of the probabilities."""
    result: torch.fx.Node            # the probabilities that are left, multiplied by 1 / (1 - rate)
    rate: float
    mask: torch.fx.Node | None
    steps: int                       # multiplications


class _NoMatch(Exception):
    """The structure is not attention."""


def use_kernels(graph: torch.fx.GraphModule) -> int:
    """Replaces attention written out in ops by fused kernels; returns the number of replacements."""
    found = 0
    for node in list(graph.graph.find_nodes(op="call_function", target=aten._softmax.default)):
        try:
            _Attention(graph, node).replace()
            found += 1
        except _NoMatch:
            continue
    if found:
        graph.graph.eliminate_dead_code()
        for node in [n for target in _RANDOM for n in graph.graph.find_nodes(op="call_function", target=target)]:
            if not node.users:                                                    # which counts as an effect there
                graph.graph.erase_node(node)
        graph.recompile()
    return found


def _require(condition: Any) -> None:
    if not condition:
        raise _NoMatch


def _constant(graph: torch.fx.GraphModule, value: Any) -> Any:
    """The number or tensor that an argument is; None if it is computed."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, torch.fx.Node) and value.op == "get_attr":
        found = getattr(graph, str(value.target))
        return found if found.numel() != 1 else found.item()
    if isinstance(value, torch.fx.Node) and value.target is aten.full.default:
        return value.args[1]
    return None


class _Attention:
    """One softmax with what is around it."""

    def __init__(self, graph: torch.fx.GraphModule, softmax: torch.fx.Node):
        self.graph, self.softmax = graph, softmax
        rank = len(views.shape_of(softmax))
        _require(rank >= 3 and softmax.args[1] % rank == rank - 1)                        # type: ignore[operator]
        self.scores = self._scores(softmax.args[0])
        self.batch = views.shape_of(softmax)[:-2]
        self.q, self.k = self._operands(self.scores.product, *self.scores.frame.dims[-2:])
        self.dropout = self._dropout()
        self._find_uses()

    # -- forward ----------------------------------------------------------------------------------------------------
    def _scores(self, node: Any) -> _Scores:
        steps: list = []
        while not views.is_view(node):
            _require(isinstance(node, torch.fx.Node) and node is not None)
            if views.is_cast(node):
                steps.append(("cast", None))
                node = node.args[0]
                continue
            _require(node.target in _POINTWISE and (len(node.users) == 1 or not steps) and node.kwargs in ({}, {"alpha": 1}))
            if node.target is aten.where.self:
                mask, first, second = node.args
                hides = isinstance(_constant(self.graph, first), (int, float))           # where(hidden, low, scores)
                node, low = (second, _constant(self.graph, first)) if hides else (first, _constant(self.graph, second))
                _require(isinstance(low, (int, float)) and low <= _MINUS_INFINITY)
                steps.append(("hide" if hides else "where", mask))
                continue
            kind, other, node = self._binary(node)
            steps.append((kind, other))
        frame = views.layout(node)
        _require(frame.base.target is aten.bmm.default)
        steps.reverse()
        found = _Scores(frame.base, frame, steps, *self._meaning(steps, views.shape_of(self.softmax)))
        _require(not any(_depends(value, frame.base) for _, value in found.added))
        return found

    def _binary(self, node: torch.fx.Node) -> tuple[str, Any, Any]:
        """What a pointwise op with two inputs does to the scores, which are the one that is not constant."""
        a, b = node.args
        scores, other = (a, b) if self._leads_to_product(a) else (b, a)
        number = _constant(self.graph, other)
        target = node.target
        if target is aten.div.Tensor:
            _require(scores is a and isinstance(number, float))
            return "scale", 1.0 / number, scores
        if target is aten.mul.Tensor:
            return ("scale", number, scores) if isinstance(number, (int, float)) else ("times", number, scores)
        _require(target is aten.add.Tensor or scores is a)
        size = math.prod(views.shape_of(self.softmax)[-2:])
        one_for_all = isinstance(number, torch.Tensor) and number.numel() == size        # the same for every batch and head
        return ("add" if target is aten.add.Tensor else "sub"), (number if one_for_all else other), scores

    def _leads_to_product(self, node: Any, depth: int = 0) -> bool:
        if not isinstance(node, torch.fx.Node) or depth > 8:
            return False
        if views.is_view(node):
            return views.layout(node).base.target is aten.bmm.default and \
                len(views.shape_of(node)) == len(views.shape_of(self.softmax))
        if node.target in _POINTWISE or views.is_cast(node):
            return any(self._leads_to_product(a, depth + 1) for a in node.args)
        return False

    def _meaning(self, steps: list, shape: tuple) -> tuple[float, torch.Tensor | None, list]:
        """Scale, constant mask and what is added, of the steps from the product to the softmax."""
        added: list[tuple[str, Any]] = []
        scale, keep = 1.0, None
        pending: torch.Tensor | None = None                            # factors 0 and 1, until something low is added there
        for kind, value in steps:
            if kind == "scale":
                _require(not added and keep is None and pending is None)
                scale *= value
            elif kind in ("where", "hide"):
                mask = _constant(self.graph, value)
                if mask is None:
                    added.append((kind, value))
                    continue
                _require(isinstance(mask, torch.Tensor) and keep is None and mask.numel() == shape[-1] * shape[-2] and
                         tuple(mask.shape[-2:]) == shape[-2:])
                keep = mask.reshape(shape[-2:]).bool() if kind == "where" else ~mask.reshape(shape[-2:]).bool()
            elif kind == "times":
                _require(isinstance(value, torch.Tensor) and keep is None and tuple(value.shape[-2:]) == shape[-2:] and
                         value.numel() == shape[-1] * shape[-2] and bool(((value == 0) | (value == 1)).all()))
                pending = value.reshape(shape[-2:]) == 1
            elif kind in ("add", "sub"):
                if isinstance(value, torch.Tensor):
                    _require(value.numel() == shape[-1] * shape[-2] and keep is None)
                    low = (-value if kind == "sub" else value).reshape(shape[-2:]).float()
                    keep = low == 0
                    _require(bool((low[~keep] <= _MINUS_INFINITY).all()) and (pending is None or bool((pending == keep).all())))
                    pending = None
                else:
                    _require(isinstance(value, torch.fx.Node))
                    added.append((kind, value))
        _require(pending is None and (keep is None or bool(keep.any(-1).all())))
        return scale, keep, added

    def _operands(self, product: torch.fx.Node, rows: Any, columns: Any) -> tuple[views.Layout, views.Layout]:
        """The operand with the rows of a product, and the one with its columns: (batch, rows or columns, contracted) each."""
        whole = [views.canonical(d) for d in views.whole(views.shape_of(product))]
        a, b = (views.layout(x, True) for x in product.args)                              # type: ignore[arg-type]
        first, second = views.Layout(a.base, a.dims), views.Layout(b.base, (b.dims[0], b.dims[2], b.dims[1]))
        if (rows, columns) == (whole[1], whole[2]):
            return first, second
        _require((rows, columns) == (whole[2], whole[1]))
        return second, first

    # -- dropout ----------------------------------------------------------------------------------------------------
    def _dropout(self) -> _Dropout:
        """The dropout between the probabilities and the product with the values."""
        begins = [u for u, through in _consumers(self.softmax) if self._drops(u, through)]
        if not begins:
            return _Dropout(self.softmax, 0.0, None, 0)
        _require(len(begins) == 1)
        node, through = begins[0], next(t for u, t in _consumers(self.softmax) if u is begins[0])
        mask, rate, factor, steps = None, 0.0, 1.0, 0
        while step := self._drops(node, through):
            steps += 1
            if isinstance(step, float):
                factor *= step
            else:
                _require(mask is None)
                mask, rate = step
            users = _consumers(node)
            if len(users) != 1 or not self._drops(*users[0]):
                break
            node, through = users[0]
        _require(mask is not None and math.isclose(factor * (1.0 - rate), 1.0, rel_tol=1e-2) and
                 views.shape_of(node) == views.shape_of(self.softmax) == views.shape_of(mask))
        return _Dropout(node, rate, mask, steps)

    def _drops(self, node: torch.fx.Node, value: torch.fx.Node) -> float | tuple[torch.fx.Node, float] | None:
        """The factor of a dropout op on `value`: a number, or a mask and its rate; None for other ops."""
        if node.target is aten.where.self and node.args[1] is value and _constant(self.graph, node.args[2]) == 0:
            mask = _bare(node.args[0])
            return None if (rate := self._rate(mask)) is None else (mask, rate)
        if node.target is aten.div.Tensor and node.args[0] is value:
            number = _constant(self.graph, node.args[1])
            return 1.0 / number if isinstance(number, float) and number else None
        if node.target is not aten.mul.Tensor or node.args[0] is node.args[1]:
            return None
        other = _other(node, value)
        number = _constant(self.graph, other)
        if isinstance(number, (int, float)):
            return float(number)
        mask = _bare(other)
        return None if (rate := self._rate(mask)) is None else (mask, rate)

    def _rate(self, mask: Any) -> float | None:
        """The probability that a random mask is zero; None if it is not one."""
        if not isinstance(mask, torch.fx.Node):
            return None
        if mask.target is aten.floor.default:                          # floor(u + keep)
            keep = self._shift(mask.args[0])
            return None if keep is None or not 0.0 < keep < 1.0 else 1.0 - keep
        kinds = {aten.ge.Tensor: 1, aten.gt.Tensor: 1, aten.lt.Tensor: -1, aten.le.Tensor: -1,
                 aten.ge.Scalar: 1, aten.gt.Scalar: 1, aten.lt.Scalar: -1, aten.le.Scalar: -1}
        if mask.target not in kinds or self._shift(mask.args[0]) != 0.0:
            return None
        edge = _constant(self.graph, mask.args[1])
        if not isinstance(edge, float) or not 0.0 < edge < 1.0:
            return None
        return edge if kinds[mask.target] == 1 else 1.0 - edge

    def _shift(self, node: Any) -> float | None:
        """The offset added to uniform numbers from [0, 1); None for other numbers."""
        shift = 0.0
        while isinstance(node, torch.fx.Node):
            node = _bare(node)
            if node.target in _RANDOM:
                return shift
            if node.target not in (aten.add.Tensor, aten.mul.Tensor):
                return None
            target, (a, b) = node.target, node.args[:2]
            number = _constant(self.graph, b)
            node, number = (a, number) if number is not None else (b, _constant(self.graph, a))
            if not isinstance(number, (int, float)) or target is aten.mul.Tensor and number != 1:
                return None
            if target is aten.mul.Tensor:
                continue
            shift += float(number)
        return None

    def _undropped(self, node: torch.fx.Node) -> torch.fx.Node:
        """From the gradient of the probabilities to that after dropout."""
        left = self.dropout.steps
        while left:
            if views.is_cast(node):
                node = node.args[0]                                    # type: ignore[assignment]
                continue
            _require(node.target in (aten.mul.Tensor, aten.div.Tensor, aten.where.self))
            given: Any = node.args
            value = next((a for a in given if isinstance(a, torch.fx.Node) and self._drops(node, a)), None)
            _require(value is not None)
            step = self._drops(node, value)                            # type: ignore[arg-type]
            _require(isinstance(step, float) or step[0] is self.dropout.mask)             # type: ignore[index]
            node = value                                               # type: ignore[assignment]
            left -= 1
            _require(left == 0 or len(node.users) == 1)
        return node

    # -- what the probabilities are used for ------------------------------------------------------------------------
    def _find_uses(self) -> None:
        self.out: Any = None
        self.back: Any = None
        left = self.dropout.result
        for user, through in _consumers(left):
            if user.target is aten.bmm.default:
                over, other, transposed = self._role(user, through, left)
                if over == "columns":
                    _require(self.out is None)
                    self.out, self.v, self.out_transposed = user, other, transposed
                else:
                    _require(self.back is None)
                    self.back = user, other, transposed
            else:
                _require(left is self.softmax)
        muls = [u for u, through in _consumers(self.softmax) if u.target is not aten.bmm.default and
                not (self.dropout.steps and self._drops(u, through))]
        _require(self.out is not None)
        self.gradient = self._gradient(muls) if muls else None
        _require((self.gradient is None) == (self.back is None))

    def _role(self, product: torch.fx.Node, argument: torch.fx.Node, of: torch.fx.Node) -> tuple[str, views.Layout, bool]:
        """What a product with probabilities, or with the gradient of scores, contracts; its other operand as
        (batch, contracted, other); and whether the result is transposed."""
        _require((product.args[0] is argument) != (product.args[1] is argument))
        left = product.args[0] is argument
        mine = views.layout(argument, True)
        _require(mine.base is of)
        whole = [views.canonical(d) for d in views.whole(views.shape_of(of))]
        batch = views.canonical([a for d in whole[:-2] for a in d])
        own = mine.dims if left else (mine.dims[0], mine.dims[2], mine.dims[1])           # batch, kept, contracted
        _require(_joined(mine.dims[0]) == _joined(batch))
        theirs = views.layout(product.args[1 if left else 0], True)                      # type: ignore[arg-type]
        other = theirs.dims if left else (theirs.dims[0], theirs.dims[2], theirs.dims[1])
        if own[1:] == (whole[-2], whole[-1]):
            return "columns", views.Layout(theirs.base, other), not left
        _require(own[1:] == (whole[-1], whole[-2]))
        return "rows", views.Layout(theirs.base, other), not left

    # -- backward ---------------------------------------------------------------------------------------------------
    def _gradient(self, users: list) -> dict[str, Any]:
        """The products of the gradient, from the two multiplications with the probabilities that it has."""
        _require(len(users) == 2 and all(u.target is aten.mul.Tensor for u in users))
        last: Any = next((u for u in users if _other(u, self.softmax).target is aten.sub.Tensor), None)
        _require(last is not None)
        first = users[0] if users[1] is last else users[1]
        of_p, total = _other(last, self.softmax).args
        rank = len(views.shape_of(self.softmax))
        _require(_other(first, self.softmax) is of_p and total.target is aten.sum.dim_IntList and total.args[0] is first and
                 [d % rank for d in total.args[1]] == [rank - 1] and len(total.args) > 2 and total.args[2] and
                 len(first.users) == 1 and len(total.users) == 1)
        product = views.layout(self._undropped(of_p), True)
        _require(product.base.target is aten.bmm.default and set(of_p.users) == {first, _other(last, self.softmax)})
        same = product.dims[-2:]
        out_gradient, values = self._operands(product.base, *same)
        _require(values == self.v)                                     # (batch, columns, depth) in both
        _, given, _ = self.back
        _require(given == out_gradient)
        found: dict[str, Any] = {"out": out_gradient}
        scores = self._undo(last)
        for user, through in _consumers(scores):
            if user.target is not aten.bmm.default:
                _require(scores is self.of_bias)
                continue
            over, other, transposed = self._role(user, through, self.of_scores)
            wanted = self.k if over == "columns" else self.q
            _require(other == wanted and over not in found)
            found[over] = (user, transposed)
        _require({"rows", "columns"} <= set(found))
        return found

    def _undo(self, node: torch.fx.Node) -> torch.fx.Node:
        """The gradient of the product, behind the gradients of what was done to it, in reverse order.

        The gradient of a sum with a bias is also that of the bias, whose own reduction starts from it.
        """
        self.of_bias: torch.fx.Node | None = None
        self.bias_users: list[torch.fx.Node] = []
        steps = list(reversed(self.scores.steps))
        for i, (kind, value) in enumerate(steps):
            if kind in ("add", "sub"):
                more = [s for s in steps[i:] if s[0] not in ("add", "sub", "cast")]
                others = [u for u in node.users if not (self._undoes(u, *more[0]) if more else _only_in_products(u))]
                if others:
                    _require(kind == "add" and self.of_bias is None and len(self.scores.added) == 1)
                    self.of_bias, self.bias_users = node, others
                continue
            users = [u for u in node.users if self._undoes(u, kind, value)]
            _require(len(users) == 1 and (len(node.users) == 1 or node is self.of_bias))
            node = users[0]
        self.of_scores = node
        return node

    def _undoes(self, node: torch.fx.Node, kind: str, value: Any) -> bool:
        """Whether a node is the gradient of one op on the scores."""
        if kind == "cast":
            return views.is_cast(node)
        if kind in ("where", "hide"):
            if node.target is not aten.where.self or _constant(self.graph, node.args[2 if kind == "where" else 1]) != 0:
                return False
            mask: Any = _constant(self.graph, node.args[0])
            if mask is None:
                return node.args[0] is value
            kept = mask.bool() if kind == "where" else ~mask.bool()
            return self.scores.keep is not None and torch.equal(*torch.broadcast_tensors(kept, self.scores.keep))
        if kind == "times":
            factor = next((c for a in node.args if isinstance(c := _constant(self.graph, a), torch.Tensor)), None)
            return node.target is aten.mul.Tensor and factor is not None and factor.numel() == value.numel() and \
                bool((factor.reshape(value.shape) == value).all())
        number = next((c for a in node.args if isinstance(c := _constant(self.graph, a), float)), None)
        return number is not None and (node.target is aten.mul.Tensor and math.isclose(number, value, rel_tol=1e-6) or
                                       node.target is aten.div.Tensor and math.isclose(number, 1 / value, rel_tol=1e-6))

    # -- the kernels ------------------------------------------------------------------------------------------------
    def replace(self) -> None:
        """Inserts calls of the kernels into the graph."""
        g = self.graph.graph
        sizes = [views.shape_of(self.softmax)[i] for i in (-2, -1)]
        depth = math.prod(a.size for a in self.q.dims[2])
        value_depth = math.prod(a.size for a in self.v.dims[2])
        example = self.q.base.meta["val"]
        dtype = self.out.meta["val"].dtype
        causal = self.scores.keep is not None and sizes[0] == sizes[1] and \
            bool((self.scores.keep.cpu() == torch.ones(sizes, dtype=torch.bool).tril()).all())
        biased = bool(self.scores.added) or self.scores.keep is not None and not causal
        causal = causal and not biased
        learned = self.gradient is not None and self.of_bias is not None
        kernel = kernel_for(example.device.type, dtype, depth, value_depth, biased, learned, sizes)
        _require(kernel is not None)
        _require(not self.dropout.rate or dtype is not torch.float32 or sizes[1] >= _LONG)
        _require(kernel.drops or not self.dropout.rate)
        _require(kernel.derives_bias or not learned)
        outer = self._outer()
        with g.inserting_before(self.out):
            q, k, v = (self._four(x, dtype, outer) for x in (self.q, self.k, self.v))
            bias = self._bias(dtype, outer, sizes) if biased else None
            kept = kernel.forward(g, q, k, v, bias, causal, self.scores.scale, self.dropout.rate)
        self._substitute(self.out, kept[0], (*outer, sizes[0], value_depth), self.out_transposed)
        if self.gradient is None:
            return
        self._replace_gradient(kernel, kept, (q, k, v), bias, causal, outer, sizes, depth, value_depth, dtype)

    def _replace_gradient(self, kernel: Any, kept: list, given: tuple, bias: Any, causal: bool, outer: tuple, sizes: list,
                          depth: int, value_depth: int, dtype: torch.dtype) -> None:
        g = self.graph.graph
        products = [self.back[0], self.gradient["rows"][0], self.gradient["columns"][0]]  # type: ignore[index]
        order = {n: i for i, n in enumerate(g.nodes)}
        latest = max((self.gradient["out"].base, self.out), key=order.__getitem__)        # type: ignore[index]
        first = min([*products, *self.bias_users], key=order.__getitem__)
        _require(order[latest] < order[first])
        with g.inserting_before(first):
            of_out = self._four(self.gradient["out"], dtype, outer)             # type: ignore[index]
            dq, dk, dv, *rest = kernel.backward(g, of_out, given, kept, bias, causal, self.scores.scale, self.dropout.rate,
                                                self.of_bias is not None)
        self._substitute(self.back[0], dv, (*outer, sizes[1], value_depth), self.back[2])
        self._substitute(self.gradient["columns"][0], dq, (*outer, sizes[0], depth), self.gradient["columns"][1])  # type: ignore
        self._substitute(self.gradient["rows"][0], dk, (*outer, sizes[1], depth), self.gradient["rows"][1])  # type: ignore
        if self.of_bias is not None:
            self._substitute_bias(rest[0], first)

    def _substitute_bias(self, made: torch.fx.Node, before: torch.fx.Node) -> None:
        """Replaces the gradient of the scores by the kernel's gradient of the bias, which has the same size."""
        g, old = self.graph.graph, self.of_bias
        assert old is not None
        with g.inserting_before(before):
            if views.shape_of(made) != views.shape_of(old):
                made = views.call(g, aten.reshape.default, (made, list(views.shape_of(old))))
            if made.meta["val"].dtype is not old.meta["val"].dtype:
                made = views.call(g, aten._to_copy.default, (made,), {"dtype": old.meta["val"].dtype})
        old.replace_all_uses_with(made, delete_user_cb=self.bias_users.__contains__)

    def _outer(self) -> tuple[int, int]:
        """Batch and heads."""
        return (math.prod(self.batch[:-1]), self.batch[-1]) if len(self.batch) > 1 else (self.batch[0], 1)

    def _four(self, x: views.Layout, dtype: torch.dtype, outer: tuple[int, int]) -> torch.fx.Node:
        """An operand as [batch, heads, rows, depth]."""
        batch = views.regrouped(x.dims[0], outer)
        _require(batch is not None)
        g = self.graph.graph
        node = views.built(g, x.base, views.shape_of(x.base), [*batch, *x.dims[1:]])      # type: ignore[misc]
        if x.base.meta["val"].dtype is not dtype:
            node = views.call(g, aten._to_copy.default, (node,), {"dtype": dtype})
        return node

    def _bias(self, dtype: torch.dtype, outer: tuple[int, int], sizes: list) -> torch.fx.Node:
        """What is added to the scores, as [batch, heads, rows, columns]."""
        g = self.graph.graph
        parts = [self._added(kind, value, dtype) for kind, value in self.scores.added]
        if self.scores.keep is not None:
            parts.append(self._constant_mask(self.scores.keep))
        node = parts[0]
        for part in parts[1:]:
            node = views.call(g, aten.add.Tensor, (node, part))
        if node.meta["val"].dtype is not dtype:
            node = views.call(g, aten._to_copy.default, (node,), {"dtype": dtype})
        node = views.call(g, aten.expand.default, (node, list(views.shape_of(self.softmax))))
        return views.call(g, aten.reshape.default, (node, [*outer, *sizes])) if len(self.batch) != 2 else node

    def _added(self, kind: str, value: torch.fx.Node, dtype: torch.dtype) -> torch.fx.Node:
        g = self.graph.graph
        if kind == "add":
            return value
        if kind == "sub":
            return views.call(g, aten.neg.default, (value,))
        example = self.softmax.meta["val"]
        _require(torch.float16 not in (dtype, example.dtype))          # has no number that low
        zero, low = (views.call(g, aten.full.default, ([], number), {"dtype": example.dtype, "device": example.device})
                     for number in (0.0, _HIDDEN))
        return views.call(g, aten.where.self, (value, *((zero, low) if kind == "where" else (low, zero))))

    def _constant_mask(self, keep: torch.Tensor) -> torch.fx.Node:
        dtype = self.softmax.meta["val"].dtype
        name = f"_mask_of_{self.softmax.name}"
        low = torch.zeros(keep.shape, dtype=dtype, device=keep.device).masked_fill_(~keep, -math.inf)
        self.graph.register_buffer(name, low)
        node = self.graph.graph.get_attr(name)
        example = self.softmax.meta["val"]
        node.meta["val"] = valueless.like(low) if isinstance(example, valueless.StandIn) else example.fake_mode.from_tensor(low)
        return node

    def _substitute(self, product: torch.fx.Node, made: Any, shape: tuple, transposed: bool) -> None:
        """Replaces a product, and the views of it, by the result of a kernel."""
        g = self.graph.graph
        for user in _leaves(product):
            dims = [_localized(d, shape, transposed) for d in views.layout(user).dims]
            with g.inserting_before(user.next if user is not product else product.next):
                new = views.built(g, made, shape, dims)
                if views.shape_of(user) != tuple(math.prod(a.size for a in d) for d in dims):
                    new = views.call(g, aten.reshape.default, (new, list(views.shape_of(user))))
                if user.meta["val"].dtype is not product.meta["val"].dtype:
                    new = views.call(g, aten._to_copy.default, (new,), {"dtype": user.meta["val"].dtype})
            user.replace_all_uses_with(
                new, delete_user_cb=lambda n: not views.is_view(n) or views.layout(n).base is not product)


def _bare(node: Any) -> Any:
    """A value without the casts of it."""
    while views.is_cast(node):
        node = node.args[0]
    return node


def _only_in_products(node: torch.fx.Node) -> bool:
    """Whether a node is a product, or its value is used in products alone."""
    return node.target is aten.bmm.default or (views.is_view(node) or views.is_cast(node)) and all(
        map(_only_in_products, node.users))


def _depends(node: torch.fx.Node, on: torch.fx.Node) -> bool:
    """Whether a value is computed from another one."""
    left, seen = [node], {node}
    while left:
        for source in left.pop().all_input_nodes:
            if source is on:
                return True
            if source not in seen and on < source:
                seen.add(source)
                left.append(source)
    return node is on


def _other(node: torch.fx.Node, than: torch.fx.Node) -> Any:
    return node.args[1] if node.args[0] is than else node.args[0]


def _joined(atoms: Any) -> int:
    return math.prod(a.size for a in atoms)


def _consumers(node: torch.fx.Node, argument: torch.fx.Node | None = None) -> list[tuple[torch.fx.Node, torch.fx.Node]]:
    """(op, its argument) for all ops that use a value, through views and casts."""
    out = []
    for user in node.users:
        if views.is_view(user) or views.is_cast(user):
            out += _consumers(user)
        else:
            out.append((user, node))
    return out


def _leaves(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The views of a value that other ops use, and the value itself if some do."""
    out = [node] if any(not views.is_view(u) for u in node.users) else []
    for user in node.users:
        if views.is_view(user):
            out += _leaves(user)
    return out


def _localized(atoms: Any, shape: tuple, transposed: bool) -> list:
    """Atoms of a product [batch · heads, m, n] as those of a kernel's result [batch, heads, rows, depth]."""
    out = []
    for a in atoms:
        if a.of:
            out.append(views.Atom((a.of == 1) == transposed and 3 or 2, a.stride, a.size))
            continue
        heads = shape[1]
        if a.stride >= heads:
            out.append(views.Atom(0, a.stride // heads, a.size))
        elif a.stride * a.size <= heads:
            out.append(views.Atom(1, a.stride, a.size))
        else:
            inside = heads // a.stride
            out += [views.Atom(0, 1, a.size // inside), views.Atom(1, a.stride, inside)]
    return out
