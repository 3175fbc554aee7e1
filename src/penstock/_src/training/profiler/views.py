"""Trees of counts: by name scope, by inputs, by kind of op, by line of the program; and as text."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from penstock._src.base.static_shape import TensorShape
from penstock._src.training.profiler.counts import float_operations, parameters

ROOT = "_TFProfRoot"
COLUMNS = {       # of `select`: the heading, and the field of a node
    "params": ("# parameters", "parameters"), "float_ops": ("# float_ops", "float_ops"),
    "bytes": ("requested bytes", "requested_bytes"), "peak_bytes": ("peak bytes", "peak_bytes"),
    "residual_bytes": ("residual bytes", "residual_bytes"), "output_bytes": ("output bytes", "output_bytes"),
    "micros": ("total execution time", "exec_micros"), "accelerator_micros": ("accelerator execution time",
                                                                             "accelerator_exec_micros"),
    "cpu_micros": ("cpu execution time", "cpu_exec_micros"), "occurrence": ("op occurrence", "definition_count"),
}
FIELDS = ("parameters", "float_ops", "requested_bytes", "peak_bytes", "residual_bytes", "output_bytes", "exec_micros",
          "accelerator_exec_micros", "cpu_exec_micros", "run_count")
LIMITS = {"min_params": "parameters", "min_float_ops": "float_ops", "min_bytes": "requested_bytes",
          "min_peak_bytes": "peak_bytes", "min_residual_bytes": "residual_bytes", "min_output_bytes": "output_bytes",
          "min_micros": "exec_micros", "min_accelerator_micros": "accelerator_exec_micros", "min_cpu_micros": "cpu_exec_micros"}


class Node:
    """A name in a tree, with its own counts and the sums over its children."""

    def __init__(self, name: str, own: dict[str, int] | None = None, device: str = "", ops: Iterable[Any] = ()):
        self.name, self.device, self.ops = name, device, list(ops)
        self.own = {f: 0 for f in FIELDS} | {"definition_count": len(self.ops)} | (own or {})
        self.children: list[Node] = []
        self.total = dict(self.own)

    def add_up(self) -> dict[str, int]:
        """Sums up the totals from the leaves on."""
        self.total = dict(self.own)
        for child in self.children:
            for field, value in child.add_up().items():
                self.total[field] += value
        return self.total

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """The nodes below, each before its children, with their depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def accounted(op: Any, trainable: set[str], patterns: list[str]) -> bool:
    """Whether an op counts: its type, device or role matches one of the patterns."""
    kinds = [op.type, op.device, *(["_trainable_variables"] if op.name in trainable else [])]
    return any(re.fullmatch(p, k) for p in patterns for k in kinds)


def count(op: Any, times: dict[str, dict[str, int]]) -> dict[str, int]:
    """The counts of one op."""
    return {"parameters": parameters(op), "float_ops": float_operations(op), **times.get(op.name, {})}


def by_scope(ops: list[Any], counts: dict[str, dict[str, int]]) -> Node:
    """Ops under their name scopes."""
    root = Node(ROOT)
    places = {"": root}
    for op in sorted(ops, key=lambda op: op.name):
        parent, words = root, op.name.split("/")
        for n in range(1, len(words) + 1):
            path = "/".join(words[:n])
            if path not in places:
                places[path] = Node(path)
                parent.children.append(places[path])
            parent = places[path]
        parent.ops, parent.device = [op], op.device
        parent.own |= counts[op.name] | {"definition_count": 1}
    return root


def by_inputs(ops: list[Any], counts: dict[str, dict[str, int]]) -> Node:
    """Ops under those that use their outputs; each is listed where it is reached first."""
    root, known, placed = Node(ROOT), {op.name: op for op in ops}, set()
    used = {t.op.name for op in ops for t in op.inputs}
    waiting = [(root, op) for op in ops if op.name not in used]
    while waiting:
        parent, op = waiting.pop()
        if op.name in placed:
            continue
        placed.add(op.name)
        node = Node(op.name, counts[op.name], op.device, [op])
        parent.children.append(node)
        waiting += [(node, known[t.op.name]) for t in op.inputs if t.op.name in known]
    return root


def by_group(ops: list[Any], counts: dict[str, dict[str, int]], group: Any) -> Node:
    """Ops grouped by `group(op)`."""
    root = Node(ROOT)
    groups: dict[str, Node] = {}
    for op in ops:
        name = group(op)
        if name not in groups:
            groups[name] = Node(name)
            root.children.append(groups[name])
        node = groups[name]
        node.ops.append(op)
        for field, value in counts[op.name].items():
            node.own[field] += value
        node.own["definition_count"] += 1
    return root


def line_of(op: Any) -> str:
    """The line of the program that made an op."""
    frames = op.traceback
    if not frames:
        return "<unknown>"
    last = frames[-1]
    return f"{last[0]}:{last[1]}:{last[2]}"


def prune(node: Node, options: dict[str, Any], depth: int = 0) -> bool:
    """Removes hidden nodes from a tree; returns whether the node itself stays."""
    if any(re.fullmatch(p, node.name) for p in options["trim_name_regexes"]):
        node.children = []
    node.children = [c for c in node.children if prune(c, options, depth + 1)]
    key = options["order_by"]
    field = {"name": None, "depth": None, "occurrence": "definition_count"}.get(key, COLUMNS.get(key, (None, None))[1])
    if field:
        node.children.sort(key=lambda c: -c.total[field])
    if depth == 0:
        return True
    enough = all(node.total[f] >= options[k] for k, f in LIMITS.items()) and \
        node.total["definition_count"] >= options["min_occurrence"]
    shown = any(re.fullmatch(p, node.name) for p in options["show_name_regexes"]) and \
        not any(re.fullmatch(p, node.name) for p in options["hide_name_regexes"])
    return depth <= options["max_depth"] and ((enough and shown) or bool(node.children))


def start(root: Node, patterns: list[str]) -> Node:
    """The tree from the nodes on whose names match."""
    if patterns in ([".*"], []):
        return root
    made = Node(ROOT)
    inside: set[int] = set()
    for _, node in root.walk():
        if id(node) not in inside and node is not root and any(re.fullmatch(p, node.name) for p in patterns):
            made.children.append(node)
            inside.update(id(n) for _, n in node.walk())
    return made


def shown(value: int, field: str) -> str:
    """A readable count: 1.23k params, 4.56ms."""
    if "micros" in field:
        return f"{value / 1e6:.2f}sec" if value >= 1e6 else f"{value / 1e3:.2f}ms" if value >= 1e3 else f"{value}us"
    unit = "B" if "bytes" in field else " params" if field == "parameters" else " flops" if field == "float_ops" else ""
    for size, letter in zip((1e9, 1e6, 1e3), "GMK" if unit == "B" else "bmk"):
        if value >= size:
            return f"{value / size:.2f}{letter}{unit}"
    return f"{value}{unit}"


def _shape(node: Node) -> list[str]:
    """The shape of a variable: 3x3x1x4."""
    if len(node.ops) != 1 or not node.own["parameters"]:
        return []
    op = node.ops[0]
    dims = TensorShape(op.get_attr("shape")).as_list() if op.type == "VarHandleOp" else op.outputs[0].shape.as_list()
    return ["x".join(map(str, dims))] if dims else []


def text(root: Node, options: dict[str, Any]) -> str:
    """The tree as lines, with the selected columns as own/total."""
    columns = [COLUMNS[s] for s in options["select"] if s in COLUMNS]
    lines = ["node name | " + " | ".join(heading for heading, _ in columns)]
    for depth, node in root.walk():
        values = [f"{shown(node.own[f], f).removesuffix(' params') if node.ops else '--'}/{shown(node.total[f], f)}"
                  for _, f in columns]
        lines.append(f"{'  ' * depth}{node.name} ({', '.join([*_shape(node), *values])})")
    return "\n".join(lines) + "\n"
