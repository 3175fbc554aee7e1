"""`tensorflow.tools.graph_transforms`: rewrites of a GraphDef, named by texts such as `fold_constants(ignore_errors=true)`."""
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.compat.programs.inside.inference import strip_unused
from penstock._src.ops.registry import OPS

_ONE = re.compile(r"(\w+)\s*(?:\(((?:[^()\"]|\"[^\"]*\")*)\))?")
_ARGUMENT = re.compile(r"(\w+)\s*=\s*(\"[^\"]*\"|[^,\s]+)")
_PRODUCTS = frozenset(("Conv2D", "MatMul", "DepthwiseConv2dNative"))
_NEVER = frozenset(("Placeholder", "PlaceholderWithDefault", "PlaceholderV2"))      # their values are fed
_TYPES = {"float": "float32", "double": "float64", "half": "float16"}
Arguments = dict[str, list[str]]


class _Rewriter:
    """A graph between inputs and outputs, and the transforms as methods."""

    def __init__(self, graph_def: Any, inputs: Sequence[str], outputs: Sequence[str]):
        self.graph_def = tf.GraphDef()
        self.graph_def.CopyFrom(graph_def)
        self.inputs, self.outputs = [_node(n) for n in inputs], [_node(n) for n in outputs]

    def _nodes(self) -> dict[str, Any]:
        return {node.name: node for node in self.graph_def.node}

    def _keep(self, nodes: Sequence[Any]) -> None:
        """Replaces the nodes; the library and the versions stay."""
        kept = [type(n).FromString(n.SerializeToString()) for n in nodes]
        del self.graph_def.node[:]
        self.graph_def.node.extend(kept)

    def _prune(self) -> None:
        inputs = [n for n in self.inputs if n in self._nodes()]
        self._keep(tf.graph_util.extract_sub_graph(self.graph_def, [*self.outputs, *inputs]).node)

    def _redirect(self, names: dict[str, str]) -> None:
        """Makes users of some nodes use others, at the same outputs."""
        for node in self.graph_def.node:
            for k, text in enumerate(node.input):
                name = _node(text)
                while name in names and names[name] != name:
                    found = names[name]
                    text = "^" + _node(found) if text.startswith("^") else found + ("" if ":" in found else _output(text))
                    name = _node(text)
                node.input[k] = text

    def strip_unused_nodes(self, given: Arguments) -> None:
        """Keeps what outputs need; inputs become placeholders."""
        types = given.get("type", given.get("type_for_name", ["float"]))
        kind = tf.as_dtype(_TYPES.get(types[0], types[0])).as_datatype_enum
        self.graph_def = strip_unused(self.graph_def, self.inputs, self.outputs, kind)
        for node in self.graph_def.node:
            if node.name in self.inputs and given.get("shape"):
                sizes = [int(s) for s in given["shape"][0].split(",") if s]
                node.attr["shape"].shape.CopyFrom(tf.TensorShape([None if s < 0 else s for s in sizes]).as_proto())

    def remove_nodes(self, given: Arguments) -> None:
        """Removes ops that pass their first input on."""
        gone = {n.name: n.input[0] for n in self.graph_def.node
                if n.op in given.get("op", []) and n.name not in self.outputs and len([i for i in n.input if i[0] != "^"]) == 1}
        self._keep([n for n in self.graph_def.node if n.name not in gone])
        self._redirect(gone)

    def fold_constants(self, given: Arguments) -> None:
        """Replaces what depends on constants alone by its value."""
        self._prune()
        nodes, constant = self._nodes(), set()
        for name in _ordered(nodes):
            node = nodes[name]
            if node.op == "Const" or (node.input and name not in self.inputs and node.op in OPS and not OPS[node.op].stateful
                                      and node.op not in _NEVER and all(_node(i) in constant for i in node.input)):
                constant.add(name)
        used = {_node(i) for n in self.graph_def.node if n.name not in constant for i in n.input} | set(self.outputs)
        wanted = [n for n in self.graph_def.node if n.name in constant & used and n.op != "Const"]
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(self.graph_def, name="")
            wanted = [n for n in wanted if len(graph.get_operation_by_name(n.name).outputs) == 1]
            with tf.Session(graph=graph) as session:
                values = session.run([f"{n.name}:0" for n in wanted])
        for node, value in zip(wanted, values, strict=True):
            _make_constant(node, np.asarray(value))
        self._prune()

    def fold_batch_norms(self, given: Arguments) -> None:
        """Multiplies the weights of a product by the constant that its result is multiplied by."""
        nodes, uses = self._nodes(), self._uses()
        for node in list(self.graph_def.node):
            if node.op != "Mul":
                continue
            pair = [nodes[_node(i)] for i in node.input[:2]]
            product, factor = pair if pair[1].op == "Const" else pair[::-1]
            if factor.op == "Const" and product.op in _PRODUCTS and uses[product.name] == 1 and \
                    self._scale(product, tf.make_ndarray(factor.attr["value"].tensor)):
                name = node.name
                node.CopyFrom(product)
                node.name = name
        self._prune()

    def fold_old_batch_norms(self, given: Arguments) -> None:
        """Makes weights and a bias of a batch normalization with constant moments that follows a product."""
        nodes, uses = self._nodes(), self._uses()
        for node in list(self.graph_def.node):
            if not node.op.startswith("FusedBatchNorm") or node.attr["is_training"].b:
                continue
            product, *rest = [nodes[_node(i)] for i in node.input]
            if product.op not in _PRODUCTS or uses[product.name] > 1 or any(r.op != "Const" for r in rest):
                continue
            scale, offset, mean, variance = (tf.make_ndarray(r.attr["value"].tensor) for r in rest)
            factor = scale / np.sqrt(variance + node.attr["epsilon"].f)
            if self._scale(product, factor):
                bias = self.graph_def.node.add(name=f"{node.name}_bias", op="Const")
                _make_constant(bias, (offset - mean * factor).astype(scale.dtype))
                name = node.name
                node.Clear()
                node.name, node.op = name, "BiasAdd"
                node.input.extend([product.name, bias.name])
                node.attr["T"].CopyFrom(product.attr["T"])
        self._prune()

    def _scale(self, product: Any, factor: np.ndarray) -> bool:
        """Multiplies the constant weights of a product, one factor for each output; False if that is not possible."""
        held = self._nodes()[_node(product.input[1])]
        if held.op != "Const" or product.attr["transpose_b"].b:
            return False
        weights = tf.make_ndarray(held.attr["value"].tensor)
        outputs = weights.shape[-2:] if product.op == "DepthwiseConv2dNative" else weights.shape[-1:]
        if factor.size != 1 and factor.shape != (int(np.prod(outputs)),):
            return False
        made = self.graph_def.node.add(name=f"{product.name}_folded_weights", op="Const")
        _make_constant(made, (weights * (factor if factor.size == 1 else factor.reshape(outputs))).astype(weights.dtype))
        product.input[1] = made.name
        return True

    def remove_attribute(self, given: Arguments) -> None:
        """Removes an attribute of all nodes, or of those of one op."""
        for node in self.graph_def.node:
            if given.get("op_name", ["*"])[0] in ("*", node.op):
                for name in given["attribute_name"]:
                    node.attr.pop(name, None)

    def remove_control_dependencies(self, given: Arguments) -> None:
        """Removes inputs that only order nodes."""
        for node in self.graph_def.node:
            data = [i for i in node.input if not i.startswith("^")]
            del node.input[:]
            node.input.extend(data)

    def remove_device(self, given: Arguments) -> None:
        """Removes devices."""
        self.set_device({"device": [""]})

    def set_device(self, given: Arguments) -> None:
        """Places nodes, or those that have no place yet."""
        for node in self.graph_def.node:
            if not node.device or given.get("if_default", ["false"])[0] != "true":
                node.device = given.get("device", [""])[0]

    def rename_op(self, given: Arguments) -> None:
        """Replaces the name of an op."""
        for node in self.graph_def.node:
            if node.op == given["old_op_name"][0]:
                node.op = given["new_op_name"][0]

    def rename_attribute(self, given: Arguments) -> None:
        """Replaces the name of an attribute."""
        old, new = given["old_attribute_name"][0], given["new_attribute_name"][0]
        for node in self.graph_def.node:
            if given.get("op_name", ["*"])[0] in ("*", node.op) and old in node.attr:
                node.attr[new].CopyFrom(node.attr[old])
                del node.attr[old]

    def merge_duplicate_nodes(self, given: Arguments) -> None:
        """Keeps one of several nodes that are equal but for their names."""
        while True:
            seen: dict[bytes, str] = {}
            same: dict[str, str] = {}
            for node in self.graph_def.node:
                if node.op not in OPS or OPS[node.op].stateful or node.op in _NEVER or node.name in self.outputs:
                    continue
                plain = type(node).FromString(node.SerializeToString())
                plain.name = ""
                first = seen.setdefault(plain.SerializeToString(deterministic=True), node.name)
                if first != node.name:
                    same[node.name] = first
            if not same:
                return
            self._keep([n for n in self.graph_def.node if n.name not in same])
            self._redirect(same)

    def round_weights(self, given: Arguments) -> None:
        """Rounds large constants to a number of steps, so that files compress well."""
        steps = int(given.get("num_steps", ["256"])[0])
        for node, value in self._weights(int(given.get("minimum_size", ["1024"])[0])):
            low, high = value.min(), value.max()
            width = (high - low) / max(steps - 1, 1) or 1.0
            _make_constant(node, (low + np.round((value - low) / width) * width).astype(value.dtype))

    def quantize_weights(self, given: Arguments) -> None:
        """Stores large constants as bytes, which a Dequantize op expands."""
        for node, value in self._weights(int(given.get("minimum_size", ["1024"])[0])):
            low, high = min(float(value.min()), 0.0), max(float(value.max()), 0.0)
            high = high if high > low else low + 1.0
            levels = np.clip(np.round((value - low) * (255 / (high - low))), 0, 255).astype(np.uint8)
            parts = []
            for suffix, array in (("const", levels), ("min", np.float32(low)), ("max", np.float32(high))):
                made = self.graph_def.node.add(name=f"{node.name}_quantized_{suffix}", op="Const")
                _make_constant(made, np.asarray(array))
                parts.append(made)
            kind = tf.quint8.as_datatype_enum
            parts[0].attr["dtype"].type = parts[0].attr["value"].tensor.dtype = kind
            name = node.name
            node.Clear()
            node.name, node.op = name, "Dequantize"
            node.input.extend(p.name for p in parts)
            node.attr["T"].type, node.attr["mode"].s = kind, b"MIN_FIRST"

    def sort_by_execution_order(self, given: Arguments) -> None:
        """Puts nodes behind their inputs."""
        nodes = self._nodes()
        self._keep([nodes[name] for name in _ordered(nodes)])

    def _weights(self, least: int) -> list[tuple[Any, np.ndarray]]:
        """Constants of floats with at least so many elements."""
        found = [(n, tf.make_ndarray(n.attr["value"].tensor)) for n in self.graph_def.node
                 if n.op == "Const" and n.attr["dtype"].type == tf.float32.as_datatype_enum]
        return [(n, v) for n, v in found if v.size >= least]

    def _uses(self) -> dict[str, int]:
        found = dict.fromkeys(self._nodes(), 0)
        for text in [i for n in self.graph_def.node for i in n.input] + self.outputs:
            found[_node(text)] = found.get(_node(text), 0) + 1
        return found


def _node(text: str) -> str:
    """The node of a tensor or of a control input."""
    return text.lstrip("^").partition(":")[0]


def _output(text: str) -> str:
    """The part of a tensor's name that says which output it is."""
    return "".join(text.partition(":")[1:])


def _make_constant(node: Any, value: np.ndarray) -> None:
    name = node.name
    node.Clear()
    node.name, node.op = name, "Const"
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    node.attr["dtype"].type = node.attr["value"].tensor.dtype


def _ordered(nodes: dict[str, Any]) -> list[str]:
    """The names of nodes, inputs first; an input that closes a loop may come later."""
    done: dict[str, None] = {}
    for first in nodes:
        waiting, opened = [first], set()
        while waiting:
            name = waiting[-1]
            missing = [] if name in opened else [_node(i) for i in nodes[name].input if _node(i) not in done]
            opened.add(name)
            waiting += [m for m in missing if m not in opened and m in nodes]
            if waiting[-1] == name:
                done[waiting.pop()] = None
    return list(done)


def _parsed(text: str) -> list[tuple[str, Arguments]]:
    found: list[tuple[str, Arguments]] = []
    for match in _ONE.finditer(text):
        given: Arguments = {}
        for name, value in _ARGUMENT.findall(match.group(2) or ""):
            given.setdefault(name, []).append(value.strip('"'))
        found.append((match.group(1), given))
    return found


def TransformGraph(input_graph_def: Any, inputs: Sequence[str], outputs: Sequence[str], transforms: Sequence[str]) -> Any:
    """The graph after transforms, in their order.

    >>> TransformGraph(graph_def, ["x"], ["y"], ["strip_unused_nodes", "fold_constants(ignore_errors=true)"])
    """
    rewriter = _Rewriter(input_graph_def, inputs, outputs)
    for name, given in (one for text in transforms for one in _parsed(text)):
        transform: Callable | None = None if name.startswith("_") else getattr(rewriter, name, None)
        if not callable(transform):
            known = sorted(n for n in vars(_Rewriter) if not n.startswith("_"))
            raise ValueError(f"Transform '{name}' not recognized: there are {known}")
        transform(given)
    return rewriter.graph_def
