"""penstock from scratch: the ideas of the library in one file that runs.

    python docs/from_scratch.py

Read it from top to bottom. Each part is a small version of a part of `src/penstock`, which is named beside its heading.
Everything real is left out here: dtypes, several outputs, control flow, devices, other processes. What is left is the
way of a step:

    a program builds a graph  →  gradients add to it  →  a session prunes it  →  compiles it  →  runs it, many times

Numbers are computed by PyTorch's kernels, here as in the library. PyTorch's autograd is not used: gradients are ops.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

# ----------------------------------------------------------------------------------------------------------------------
# 1. The registry: an op is declared once                                                           ops/registry.py
# ----------------------------------------------------------------------------------------------------------------------
# An op has a name, and three rules: a kernel (values in, value out), a shape rule (shapes in, shape out; None is a size
# that is not known yet), and a gradient (which builds more ops). Everything below asks this table, and never compares names.

OPS: dict[str, Op] = {}
Shape = tuple[int | None, ...]


class Op:
    """The declaration of one op. Calling it adds a node to the graph."""

    def __init__(self, name: str, kernel: Callable, shape: Callable, gradient: Callable | None = None):
        self.name, self.kernel, self.shape, self.gradient = name, kernel, shape, gradient
        OPS[name] = self

    def __call__(self, *inputs: Any, **attrs: Any) -> Node:
        return GRAPH.add(self, [as_node(i) for i in inputs], attrs)


# ----------------------------------------------------------------------------------------------------------------------
# 2. The graph: what the program built                                       graph/graph.py, graph/node.py, graph/build.py
# ----------------------------------------------------------------------------------------------------------------------
# Nothing is computed here. A node knows its op, its inputs, its attributes, its static shape, and the line of the
# program that made it, because an error that shows up much later has to point there.

class Node:
    """One operation of a graph, and the tensor that it will give."""

    def __init__(self, op: Op, inputs: list[Node], attrs: dict[str, Any], name: str, shape: Shape, line: str):
        self.op, self.inputs, self.attrs, self.name, self.shape, self.line = op, inputs, attrs, name, shape, line

    def __add__(self, other: Any) -> Node:
        return add(self, other)

    def __sub__(self, other: Any) -> Node:
        return add(self, multiply(other, -1.0))

    def __mul__(self, other: Any) -> Node:
        return multiply(self, other)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.op.name} {self.shape}>"


class Graph:
    """Nodes in the order in which they were made: the inputs of a node always come before it."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, op: Op, inputs: list[Node], attrs: dict[str, Any]) -> Node:
        """A new node. Shapes that do not fit are found now, not when the graph runs."""
        name, line = f"{op.name}_{len(self.nodes)}", users_line()
        try:
            shape = op.shape(*(i.shape for i in inputs), **attrs)
        except ValueError as e:
            shapes = " and ".join(str(i.shape) for i in inputs)
            raise ValueError(f"{name}: {e}, with input shapes {shapes}") from None
        node = Node(op, inputs, attrs, name, shape, line)
        self.nodes.append(node)
        return node


GRAPH = Graph()


def users_line() -> str:
    """File and line of the nearest caller outside of the code above the line END_OF_LIBRARY."""
    frame: Any = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_lineno < END_OF_LIBRARY:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def as_node(value: Any) -> Node:
    """Numbers and lists become constants."""
    return value if isinstance(value, Node) else constant(value)


# ----------------------------------------------------------------------------------------------------------------------
# 3. Some ops: each one in one place                                                                    ops/*.py
# ----------------------------------------------------------------------------------------------------------------------
# A gradient gets the node and the gradient of its output, and returns one gradient (a node) per input.

def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of two operands together: sizes of 1 stretch."""
    width = max(len(a), len(b))
    out: list[int | None] = []
    for x, y in zip((1,) * (width - len(a)) + a, (1,) * (width - len(b)) + b, strict=True):
        if x != y and 1 not in (x, y) and None not in (x, y):
            raise ValueError(f"{a} and {b} do not broadcast")
        out.append(y if x == 1 else x if y in (1, x) else None)
    return tuple(out)


def matmul_shape(a: Shape, b: Shape) -> Shape:
    """[m, k] times [k, n]."""
    if len(a) != 2 or len(b) != 2 or (a[1] != b[0] and None not in (a[1], b[0])):
        raise ValueError("these are not matrices that can be multiplied")
    return a[0], b[1]


add = Op("Add", torch.add, broadcast,
         lambda node, grad: [sum_like(grad, node.inputs[0]), sum_like(grad, node.inputs[1])])
multiply = Op("Multiply", torch.mul, broadcast,
              lambda node, grad: [sum_like(grad * node.inputs[1], node.inputs[0]),
                                  sum_like(grad * node.inputs[0], node.inputs[1])])
matmul = Op("MatMul", torch.matmul, matmul_shape,
            lambda node, grad: [matmul(grad, transpose(node.inputs[1])), matmul(transpose(node.inputs[0]), grad)])
transpose = Op("Transpose", torch.t, lambda a: a[::-1], lambda node, grad: [transpose(grad)])
tanh = Op("Tanh", torch.tanh, lambda a: a, lambda node, grad: [grad * (as_node(1.0) - node * node)])
mean = Op("Mean", torch.mean, lambda a: (), lambda node, grad: [spread(grad, node.inputs[0])])

# Gradients need two more ops: to undo a broadcast, and to undo a mean.
sum_like = Op("SumLike", lambda x, like: x.sum_to_size(like.shape), lambda x, like: like)
spread = Op("Spread", lambda x, like: (x / like.numel()).expand(like.shape), lambda x, like: like)

# Ops with an attribute, and the three kinds of sources. State is outside of the graph: `Variable` names it.
constant_op = Op("Constant", lambda *, value: value, lambda *, value: tuple(value.shape))
placeholder_op = Op("Placeholder", None, lambda *, shape: shape)
variable_op = Op("Variable", lambda *, session, name: session.variables[name], lambda *, name, initial: tuple(initial.shape))
assign_sub_op = Op("AssignSub", lambda delta, *, session, name: session.subtract(name, delta), lambda delta, *, name: delta)


def constant(value: Any) -> Node:
    """A node with a value that is known now."""
    return constant_op(value=torch.as_tensor(value, dtype=torch.float32))


def placeholder(*shape: int | None) -> Node:
    """A node whose value every step is given."""
    return placeholder_op(shape=shape)


def variable(name: str, initial: Any) -> Node:
    """A node that reads a value which outlives the step."""
    return variable_op(name=name, initial=torch.as_tensor(initial, dtype=torch.float32))


def assign_sub(target: Node, delta: Any) -> Node:
    """A node that subtracts from a variable, and returns the new value."""
    return assign_sub_op(delta, name=target.attrs["name"])


# ----------------------------------------------------------------------------------------------------------------------
# 4. Gradients: the graph grows backwards                                                       graph/gradients.py
# ----------------------------------------------------------------------------------------------------------------------
# No numbers here either. The nodes are walked in reverse; each one turns the gradient of its output into those of its
# inputs, by adding nodes. Where a value was used twice, its gradients add up. What is built can be differentiated again.

def gradients(y: Node, xs: list[Node]) -> list[Node | None]:
    """Nodes for dy/dx of a scalar y; None where it does not depend on x."""
    reached: dict[Node, Node] = {y: constant(1.0)}
    for node in reversed(needed([y], set())):
        grad = reached.get(node)
        if grad is None or node.op.gradient is None:
            continue
        for source, part in zip(node.inputs, node.op.gradient(node, grad), strict=True):
            reached[source] = reached[source] + part if source in reached else part
    return [reached.get(x) for x in xs]


def minimize(loss: Node, variables: list[Node], rate: float) -> list[Node]:
    """Gradient descent is three lines on top of the rest."""
    return [assign_sub(v, g * rate) for v, g in zip(variables, gradients(loss, variables), strict=True) if g is not None]


# ----------------------------------------------------------------------------------------------------------------------
# 5. Prune: what a step asks for                                                                  graph/prune.py
# ----------------------------------------------------------------------------------------------------------------------
# From the fetches back. A node that is fed cuts the graph: what only it needs is not run.

def needed(fetches: list[Node], fed: set[Node]) -> list[Node]:
    """The nodes that a step has to run, each after its inputs."""
    order: list[Node] = []
    done = set(fed)
    stack = [(f, False) for f in reversed(fetches)]
    while stack:
        node, inputs_done = stack.pop()
        if inputs_done:
            order.append(node)
        elif node not in done:
            done.add(node)
            stack.append((node, True))
            stack.extend((i, False) for i in reversed(node.inputs))
    return order


# ----------------------------------------------------------------------------------------------------------------------
# 6. Compile: a step becomes a program                                                          step/compile/program.py
# ----------------------------------------------------------------------------------------------------------------------
# Interpreting a graph costs time per node, in every step. So the step is written out, once, as the Python that one would
# have written by hand: a line per node, and a `del` after the last use of each value, so that its memory is free for the
# next one. The number of the line that fails says which node it was, so running pays nothing for good errors.

class Program:
    """A compiled step: `run(*feeds)` returns the values of the fetches."""

    def __init__(self, fetches: list[Node], feeds: list[Node], session: Session):
        nodes = needed(fetches, set(feeds))
        names = {f: f"f{i}" for i, f in enumerate(feeds)}
        last_use = {i: n for n in nodes for i in n.inputs}
        scope: dict[str, Any] = {}
        lines = [f"def step({', '.join(names.values())}):"]
        self.made_by: dict[int, Node] = {}
        for i, node in enumerate(nodes):
            scope[f"k{i}"], names[node] = kernel_of(node, session), f"t{i}"
            lines.append(f"    t{i} = k{i}({', '.join(names[x] for x in node.inputs)})  # {node.name}")
            self.made_by[len(lines)] = node
            dead = {names[x] for x in node.inputs if last_use[x] is node and x not in fetches}
            if dead:
                lines.append(f"    del {', '.join(sorted(dead))}")
        lines.append(f"    return [{', '.join(names[f] for f in fetches)}]")
        self.source = "\n".join(lines)
        exec(compile(self.source, "<step>", "exec"), scope)
        self._step = scope["step"]

    def run(self, *feeds: Any) -> list[torch.Tensor]:
        """One step. A kernel's error is raised again with the node, and the line that made it."""
        try:
            return self._step(*feeds)
        except Exception as e:
            traceback = e.__traceback__
            while traceback is not None and traceback.tb_frame.f_code.co_filename != "<step>":
                traceback = traceback.tb_next
            node = self.made_by[traceback.tb_lineno] if traceback is not None else None
            raise RuntimeError(f"{e}\n  in {node}, made at {node.line if node else '?'}") from None


def kernel_of(node: Node, session: Session) -> Callable:
    """The kernel of a node with its attributes filled in: what a program calls."""
    kernel, attrs = node.op.kernel, dict(node.attrs)
    if kernel is None:
        def kernel(**_: Any) -> None:
            raise ValueError("a placeholder must be fed")
    if node.op in (variable_op, assign_sub_op):
        attrs.pop("initial", None)
        attrs["session"] = session
    return (lambda *args: kernel(*args, **attrs)) if attrs else kernel


# ----------------------------------------------------------------------------------------------------------------------
# 7. The session: state, and programs that are kept                                            session/session.py
# ----------------------------------------------------------------------------------------------------------------------

class Session:
    """Runs steps on a graph. It owns the values of variables, and the programs of the steps that were run before."""

    def __init__(self) -> None:
        self.variables = {n.attrs["name"]: n.attrs["initial"].clone() for n in GRAPH.nodes if n.op is variable_op}
        self.programs: dict[tuple, Program] = {}

    def subtract(self, name: str, delta: torch.Tensor) -> torch.Tensor:
        """The kernel of an update. The old value is not written over: a step may still hold it."""
        self.variables[name] = self.variables[name] - delta
        return self.variables[name]

    def run(self, fetches: list[Node], feeds: dict[Node, Any] | None = None) -> list[torch.Tensor]:
        """The values of `fetches`. The first call compiles; every other one looks up and runs."""
        feeds = feeds or {}
        program = self.program(fetches, list(feeds))
        return program.run(*(torch.as_tensor(v, dtype=torch.float32) for v in feeds.values()))

    def program(self, fetches: list[Node], feeds: list[Node]) -> Program:
        """The program of a step, compiled when it is first asked for."""
        key = (*fetches, None, *feeds)
        if key not in self.programs:
            self.programs[key] = Program(fetches, feeds, self)
        return self.programs[key]


END_OF_LIBRARY = sys._getframe().f_lineno


# ----------------------------------------------------------------------------------------------------------------------
# 8. A program that uses it all
# ----------------------------------------------------------------------------------------------------------------------

def main(steps: int = 400) -> float:
    """Learns exclusive or with one hidden layer; prints the program of a step, and the loss as it falls."""
    torch.manual_seed(1)
    x, wanted = placeholder(None, 2), placeholder(None, 1)
    w1, b1 = variable("w1", torch.randn(2, 8)), variable("b1", torch.zeros(8))
    w2, b2 = variable("w2", torch.randn(8, 1)), variable("b2", torch.zeros(1))
    error = matmul(tanh(matmul(x, w1) + b1), w2) + b2 - wanted
    loss = mean(error * error)
    train = minimize(loss, [w1, b1, w2, b2], rate=0.1)

    session = Session()
    data = {x: [[0, 0], [0, 1], [1, 0], [1, 1]], wanted: [[0], [1], [1], [0]]}
    print(session.program([loss], list(data)).source)
    for step in range(steps + 1):
        value = session.run([loss, *train], data)[0].item()
        if step % 100 == 0:
            print(f"step {step}: loss {value:.4f}")
    return value


if __name__ == "__main__":
    main()
