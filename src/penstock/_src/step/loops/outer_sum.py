"""Sums of matrix products, and of the rows of matrices, over the iterations of a loop, as few large ones.

The gradient of a weight matrix that a loop multiplies by is the sum of aᵀb over all iterations: each of these products is
small, and each writes a whole matrix. Summing them is one product of the stacked a and the stacked b. That of a bias is a sum
over all rows of all iterations. Rows are collected in a list until there are enough of them, so memory does not grow with the
number of iterations.
"""
from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from penstock._src.graph.frames import Frame
from penstock._src.kernels import products
from penstock._src.ops import rules
from penstock._src.ops.registry import get
from penstock._src.step.ir import Node, Value

_ROWS = 2048                 # collected before a product
_BYTES = 32 << 20            # the most bytes that they may take


class OuterSum:
    """A sum of products aᵀb."""

    __slots__ = ("_a", "_b", "_rows", "_bytes", "_sum", "_beside")

    def __init__(self) -> None:
        self._a: list[torch.Tensor] = []
        self._b: list[torch.Tensor] = []
        self._rows = self._bytes = 0
        self._sum: torch.Tensor | None = None
        self._beside: RowSum | None = None

    def rows(self) -> RowSum:
        """The sum over the rows of all b, which are concatenated once for both."""
        self._beside = RowSum(self.finish)
        return self._beside

    def add(self, a: torch.Tensor, b: torch.Tensor) -> None:
        """One more product."""
        if a.shape[0] != b.shape[0]:
            torch.mm(a.t(), b)                     # raises the kernel's error
        self._a.append(a)
        self._b.append(b)
        self._rows += a.shape[0]
        self._bytes += a.nbytes + b.nbytes
        if self._rows >= _ROWS or self._bytes >= _BYTES:
            self._multiply()

    def _multiply(self) -> None:
        a, b = (x[0] if len(x) == 1 else torch.cat(x) for x in (self._a, self._b))
        if self._sum is None:
            self._sum = products.product(a.t(), b)
        else:
            products.add_product(self._sum, a.t(), b)
        if self._beside is not None:
            self._beside.add(b)
        self._a, self._b, self._rows, self._bytes = [], [], 0, 0

    def total(self, start: torch.Tensor) -> torch.Tensor:
        """`start` and the sum."""
        self.finish()
        return start if self._sum is None else self._sum.add_(start)

    def finish(self) -> None:
        """Multiplies the collected rows."""
        if self._a:
            self._multiply()


class RowSum:
    """A sum over the rows of matrices; `before` is called before it is inspected."""

    __slots__ = ("_b", "_rows", "_bytes", "_sum", "_before")

    def __init__(self, before: Callable[[], None] | None = None) -> None:
        self._b: list[torch.Tensor] = []
        self._rows = self._bytes = 0
        self._sum: torch.Tensor | None = None
        self._before = before

    def add(self, b: torch.Tensor) -> None:
        """The rows of one more matrix."""
        self._b.append(b)
        self._rows += b.shape[0]
        self._bytes += b.nbytes
        if self._rows >= _ROWS or self._bytes >= _BYTES:
            self._add_up()

    def _add_up(self) -> None:
        more = (self._b[0] if len(self._b) == 1 else torch.cat(self._b)).sum(0)
        self._sum = more if self._sum is None else self._sum.add_(more)
        self._b, self._rows, self._bytes = [], 0, 0

    def total(self, start: torch.Tensor) -> torch.Tensor:
        """`start` and the sum."""
        if self._before is not None:
            self._before()
        if self._b:
            self._add_up()
        return start if self._sum is None else self._sum.add_(start)


class Found(NamedTuple):
    """A sum in a loop: its addition, the op whose results are added, and the ops on the way, which need not run."""

    addition: Node
    product: Node
    between: list[Node]

    @property
    def kind(self) -> type:
        """The class that computes the sum."""
        return OuterSum if self.product.opdef in rules.loops.outer else RowSum

    @property
    def terms(self) -> Sequence[Value]:
        """The tensors that it takes in each iteration."""
        return self.product.inputs[:2 if self.kind is OuterSum else 1]


def find(variable: list[Value], following: Value, uses: dict[int, int], passes_on: Callable[[Node], bool],
         inside: Iterable[Node]) -> Found | None:
    """The sum that a loop variable accumulates: `following` = variable + aᵀb, or + the sum of the rows of b, without other
    uses.

    `variable` are the tensors that represent it in the loop. `passes_on` tells whether an op forwards its first input.
    """
    add = following.op
    if uses.get(id(following)) != 1 or not following.dtype.is_floating:
        return None
    known = {id(t) for t in variable}
    ops = set(inside)

    def is_variable(t: Value) -> bool:
        alone = uses.get(id(t)) == 1
        while id(t) not in known and passes_on(t.op) and t.op in ops:
            alone = alone and uses.get(id(t)) == 1
            t = t.op.inputs[0]
        return alone and id(t) in known
    if len(add.inputs) == 3 and add.opdef in rules.loops.outer:             # one op for the product and the addition
        return Found(add, add, []) if rules.loops.outer[add.opdef](add.attrs) and is_variable(add.inputs[2]) else None
    if add.opdef not in rules.algebra.sums or len(add.inputs) != 2:
        return None
    for mine, other in (add.inputs, add.inputs[::-1]):
        path: list[Node] = []
        if not is_variable(mine):
            continue
        t = other
        while passes_on(t.op) and t.op in ops and uses.get(id(t)) == 1:
            path.append(t.op)
            t = t.op.inputs[0]
        product = t.op
        if product in ops and _adds_up(product) and \
                uses.get(id(t)) == 1 and t.static_dims == following.static_dims and \
                t.static_dims is not None and None not in t.static_dims:
            return Found(add, product, path)
    return None


def find_in_frame(frame: Frame, uses: dict[int, int], fed: Container[int]) -> Iterator[tuple[Node, Found]]:
    """The variables (Merges) of a dataflow loop that are sums, and their sums."""
    identity = get("Identity")

    def passes_on(op: Node) -> bool:
        return op.opdef is identity or op.opdef.control_flow in ("switch", "next")
    for variable in frame.ops:
        if variable.opdef.control_flow != "merge" or len(variable.inputs) != 2 or not variable.inputs[1].op.opdef.back_edge:
            continue
        t, back = variable.outputs[0], variable.inputs[1].op
        if uses.get(id(t)) == 1 and uses.get(id(back.outputs[0])) == 1 and id(back.inputs[0]) not in fed:
            found = find([t], back.inputs[0], uses, passes_on, frame.ops)
            if found is not None:
                yield variable, found


def _adds_up(op: Node) -> bool:
    """Whether summing the inputs of an op is cheaper than summing its results."""
    return op.opdef in rules.loops.outer and rules.loops.outer[op.opdef](op.attrs) or \
        op.opdef in rules.loops.sums_rows and rules.loops.sums_rows[op.opdef](op)


def count_uses(ops: Iterable[Node], results: Iterable[Value]) -> dict[int, int]:
    """How often each tensor is taken."""
    uses: dict[int, int] = {}
    for t in (*(t for op in ops for t in op.inputs), *results):
        uses[id(t)] = uses.get(id(t), 0) + 1
    return uses

