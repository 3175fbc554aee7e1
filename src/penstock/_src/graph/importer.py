"""GraphDef to graph.

The nodes of a GraphDef come in any order, under names that may be taken, from a producer of another version, and
from untrusted files. `import_graph_def` therefore works in steps: check what was given, read all
names and edges (`_read`), add the nodes in an order in which every input exists (`_order`, `_add_node`), then close
the back edges of loops and assign colocated devices. If a step fails, the graph is as it was before.
"""
from __future__ import annotations

import heapq
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.base.static_shape import as_dims, compatible, merge, show
from penstock._src.base.version import __version__
from penstock._src.graph import build, context
from penstock._src.graph.convert import convert
from penstock._src.graph.functions import as_function
from penstock._src.graph.graph import PRODUCER_VERSION
from penstock._src.graph.graphdef import attr_from_message, attr_to_message, func_message, opdef_from_message
from penstock._src.graph.node import Operation, Tensor
from penstock._src.graph.scopes import VALID_OP_NAME, device_text
from penstock._src.ops.registry import OPS, OpDef, unknown_op
from penstock._src.ops.signature import REQUIRED

if TYPE_CHECKING:
    from tensorboard.compat.proto.function_pb2 import FunctionDef
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.node_def_pb2 import NodeDef

_MIN_PRODUCER = 0
_EXTRA_KINDS = {"_output_shapes": "list(shape)", "_class": "list(string)"}
_INPUT = re.compile(r"(\^?)(.*?)(?::(\d+))?", re.S)

# Attributes that later versions of TensorFlow added to ops, with the value for the earlier behaviour.
# If an op does not declare one, the attribute is dropped when it has this value (or False, 0, "", []).
_LATER = {"exponential_avg_factor": 1.0, "incompatible_shape_error": True, "use_default_device": True,
          "axis": -1, "blank_index": -1, "Treal": dtypes.float32, "Tcomplex": dtypes.complex64,
          "Tsegmentids": dtypes.int32, "Tk": dtypes.int32, "index_type": dtypes.int32, "shape_type": dtypes.int32,
          "Tshape": dtypes.int32, "dtype": dtypes.float32}
# Attributes of later versions that do not change results: names for debuggers and datasets, checks, which input of a product is
# a gradient, what a runtime may use.
_CHANGES_NOTHING = ("debug_name", "validate_shape", "metadata", "grad_a", "grad_b", "grad_x", "grad_y", "allowed_devices",
                    "ram_budget", "use_unbounded_threadpool", "mixed_priority_policy", "low_priority_max_batch_size",
                    "low_priority_batch_timeout_micros", "low_priority_allowed_batch_sizes",
                    "low_priority_max_enqueued_batches")


class ImportedFunction:
    """A function of a graph's library that came in as a message."""

    def __init__(self, definition: FunctionDef, gradient: str | None = None):
        self._definition, self.grad_func_name = definition, gradient

    @property
    def name(self) -> str:
        """The name under which nodes call it."""
        return self._definition.signature.name

    @property
    def definition(self) -> FunctionDef:
        """The FunctionDef message."""
        return self._definition


class _Edge(NamedTuple):
    """One input of a node: an output of the node `source`, or a control edge (output None)."""
    source: str
    output: int | None
    text: str


# -- the public function --------------------------------------------------------------------------------------
@export("graph_util.import_graph_def", "import_graph_def")
def import_graph_def(graph_def: GraphDef, input_map: Any = None, return_elements: Any = None,
                     name: str | None = None, op_dict: Any = None, producer_op_list: Any = None,
                     validate_colocation_constraints: bool = True) -> list | None:
    """Adds the nodes of a GraphDef to the default graph, under the prefix `name`.

    `input_map` replaces tensors of the GraphDef, by name, with tensors of the graph. The result has the operations
    ("a") and tensors ("a:0") that `return_elements` names.

    Args:
        graph_def: `GraphDef`.
        input_map: Dictionary from names in `graph_def` to tensors that take their place.
        return_elements: Names of operations and tensors to return.
        name: Prefix of the names, `"import"` by default; `""` for none.
        op_dict: Unused.
        producer_op_list: Ops of the producer of the graph; attributes with their defaults are removed.
        validate_colocation_constraints: Whether a colocation with a missing op is an error.

    Returns:
        The elements named by `return_elements`, or None.

    Raises:
        ValueError: if a name is absent, or types do not fit.

    >>> graph = tf.Graph()
    >>> with graph.as_default():
    ...     x = tf.compat.v1.placeholder(tf.float32, name="x")
    ...     y = tf.multiply(x, 2., name="y")
    >>> with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...     y, = tf.import_graph_def(graph.as_graph_def(), input_map={"x:0": tf.constant(21.)}, return_elements=["y:0"])
    ...     print(sess.run(y))
    42.0

    Raises:
      TypeError: if an argument is not of the right kind.
      ValueError: if the GraphDef is not well-formed, or a name is not in it.
    """
    graph_def = _checked(graph_def)
    if return_elements is not None:
        if not all(isinstance(e, (str, bytes)) for e in return_elements):
            raise TypeError("Argument `return_elements` must be a list of strings.")
        return_elements = [_text(e) for e in return_elements]
    if not isinstance(input_map or {}, dict) or not all(isinstance(k, (str, bytes)) for k in input_map or ()):
        raise TypeError(f"Argument `input_map` must be a dictionary. Obtained {type(input_map).__name__}")
    mapped = {_text(k): v for k, v in (input_map or {}).items()}
    _check_versions(graph_def.versions)
    graph = context.current_graph()
    with graph.as_default(), graph.name_scope("import" if name is None else name) as scope:
        mapped = _tensors(graph, mapped, name)
    work = _Import(graph, graph_def, scope, mapped, producer_op_list, validate_colocation_constraints)
    with graph._lock:
        try:
            results = work.run(return_elements)
        except BaseException:
            work.undo()
            raise
    return results


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _checked(graph_def: Any) -> GraphDef:
    """The argument as our GraphDef; the same message of another library is read from its bytes."""
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    if isinstance(graph_def, GraphDef):
        return graph_def
    if getattr(getattr(graph_def, "DESCRIPTOR", None), "name", None) != "GraphDef":
        raise TypeError("Argument `graph_def` must be a GraphDef proto.")
    return GraphDef.FromString(graph_def.SerializeToString())


def _check_versions(versions: Any) -> None:
    if versions.producer < _MIN_PRODUCER:
        raise ValueError(f"GraphDef producer version {versions.producer} below min producer {_MIN_PRODUCER} "
                         f"supported by TensorFlow {__version__}.  Please regenerate your graph.")
    if versions.min_consumer > PRODUCER_VERSION:
        raise ValueError(f"GraphDef min consumer version {versions.min_consumer} above current version "
                         f"{PRODUCER_VERSION} for TensorFlow {__version__}.  Please upgrade TensorFlow.")
    if PRODUCER_VERSION in versions.bad_consumers:
        raise ValueError(f"GraphDef disallows consumer version {PRODUCER_VERSION}.  Please upgrade TensorFlow: "
                         "this version is likely buggy.")


def _tensors(graph: Any, mapped: dict[str, Any], name: str | None) -> dict[str, Any]:
    """The values of the input map as tensors (operations, for control edges) of `graph`."""
    if all(isinstance(v, (Tensor, Operation)) for v in mapped.values()):
        return mapped
    if name == "":
        raise ValueError("tf.import_graph_def() requires a non-empty `name` if `input_map` contains non-Tensor "
                         "values. Try calling tf.convert_to_tensor() on `input_map` values before calling "
                         "tf.import_graph_def().")
    with graph.name_scope("_inputs"):
        return {k: v if isinstance(v, (Tensor, Operation)) else convert(v) for k, v in mapped.items()}


def _parse_requested(name: str) -> tuple[str, int]:
    parts = name.split(":")
    if len(parts) > 2 or len(parts) == 2 and not parts[1].isdigit():
        raise ValueError(f"Cannot convert {name!r} to a tensor name.")
    return parts[0], int(parts[1]) if len(parts) == 2 else 0


# -- one import -----------------------------------------------------------------------------------------------
class _Import:
    """The state of one import: what was read, and what has been added so far."""

    def __init__(self, graph: Any, graph_def: GraphDef, scope: str, input_map: dict[str, Any],
                 producer_op_list: Any, validate_colocation: bool):
        self.graph, self.graph_def, self.scope = graph, graph_def, scope
        self.validate_colocation = validate_colocation
        self.control_map = {k[1:]: v for k, v in input_map.items() if k.startswith("^")}
        self.input_map = {_parse_requested(k): v for k, v in input_map.items() if not k.startswith("^")}
        self.used: set = set()
        self.producer_ops = {o.name: o for o in producer_op_list.op} if producer_op_list is not None else {}
        self.nodes: dict[str, NodeDef] = {}
        self.edges: dict[str, list[_Edge]] = {}
        self.names: dict[str, str] = {}
        self.added: dict[str, Operation] = {}
        self.back_edges: list[tuple[NodeDef, int, _Edge]] = []
        self.colocated: list[tuple[Operation, list[str]]] = []
        self.function_opdefs: dict[str, OpDef] = {}
        self.before = len(graph._ops), graph._producer, graph._min_consumer, dict(graph._functions)

    def run(self, return_elements: list[str] | None) -> list | None:
        """Adds everything, and returns the requested elements."""
        for e in return_elements or ():
            _parse_requested(e)
        self._set_versions()
        self._add_functions()
        self._read()
        for name in self._order():
            self._add_node(self.nodes[name])
        self._close_loops()
        self._colocate()
        self._check_input_map()
        found = None if return_elements is None else [self._element(e) for e in return_elements]
        for op in self.added.values():
            self.graph._names.setdefault(op.name.lower(), 1)
        return found

    def undo(self) -> None:
        """Removes everything that was added."""
        graph = self.graph
        count, graph._producer, graph._min_consumer, graph._functions = self.before
        for op in reversed(graph._ops[count:]):
            build.discard(op)
        graph._version_changed()

    def _set_versions(self) -> None:
        graph, versions = self.graph, self.graph_def.versions
        if not graph._ops:
            graph._producer, graph._min_consumer = versions.producer, versions.min_consumer
        else:
            graph._producer = min(graph._producer, versions.producer)
            graph._min_consumer = max(graph._min_consumer, versions.min_consumer)

    def _add_functions(self) -> None:
        library = self.graph_def.library
        gradients = {g.function_name: g.gradient_func for g in library.gradient}
        for f in library.function:
            known = self.graph._get_function(f.signature.name)
            if known is None:
                self.graph._add_function(ImportedFunction(f, gradients.get(f.signature.name)))
            elif known.definition != f:
                raise ValueError(f"Cannot add function '{f.signature.name}' because a different function with the "
                                 "same name already exists.")

    # -- names and edges -------------------------------------------------------------------------------------
    def _read(self) -> None:
        """Reads the names and the edges of all nodes; nothing is added yet."""
        for node in self.graph_def.node:
            if node.name in self.nodes:
                raise ValueError(f"Node '{node.name}' is not unique")
            if not VALID_OP_NAME.match(node.name):
                raise ValueError(f"Node '{node.name}': Node name contains invalid characters")
            self.nodes[node.name] = node
        self._choose_names()
        for node in self.graph_def.node:
            self.edges[node.name] = [self._edge(node, text) for text in node.input]
            self._check_edges(node)

    def _choose_names(self) -> None:
        """Final names: the prefix, and a number where the name is taken by an op or by a scope with ops in it."""
        taken, reserved = self.graph._by_name, self.graph._names
        wanted = {self.scope + n for n in self.nodes}
        prefixes: set[str] | None = None
        for n in self.nodes:
            name, count = self.scope + n, 0
            while True:
                if name not in taken and name.lower() in reserved and prefixes is None:
                    prefixes = _prefixes(taken)
                if name in taken or prefixes and name in prefixes or count and name in wanted:
                    count += 1
                    name = f"{self.scope}{n}_{count}"
                else:
                    break
            self.names[n] = name
            if count:
                wanted.add(name)

    def _edge(self, node: NodeDef, text: str) -> _Edge:
        control, source, index = _INPUT.fullmatch(text).groups()  # type: ignore[union-attr]
        if control:
            edge = _Edge(text[1:], None, text)
            known = edge.source in self.nodes or edge.source in self.control_map
        else:
            edge = _Edge(source, int(index or 0), text)
            known = source in self.nodes or (source, edge.output) in self.input_map
        if not known:
            raise ValueError(f"Node '{node.name}': Unknown input node '{text}'")
        return edge

    def _check_edges(self, node: NodeDef) -> None:
        control = False
        for edge in self.edges[node.name]:
            if control and edge.output is not None:
                raise ValueError(f"Node '{node.name}': Control dependencies must come after regular dependencies")
            control = edge.output is None

    # -- order -----------------------------------------------------------------------------------------------
    def _order(self) -> list[str]:
        """The names in an order in which inputs come first, as near to the given one as can be.

        The back edges of loops do not count: the merge of a loop is ready when its other inputs are.
        """
        order = list(self.nodes)
        place = {n: i for i, n in enumerate(order)}
        waiting, consumers = {}, {n: [] for n in order}     # type: dict[str, int], dict[str, list[str]]
        for n in order:
            sources = [e.source for e in self.edges[n] if self._replacement(e) is None and not self._is_back(n, e)]
            waiting[n] = len(sources)
            for s in sources:
                consumers[s].append(n)
        ready = [place[n] for n in order if not waiting[n]]
        heapq.heapify(ready)
        out = []
        while ready:
            n = order[heapq.heappop(ready)]
            out.append(n)
            for c in consumers[n]:
                waiting[c] -= 1
                if waiting[c] == 0:
                    heapq.heappush(ready, place[c])
        if len(out) < len(order):
            left = [n for n in order if waiting[n] > 0]
            raise ValueError(f"Graph is invalid, contains a cycle with {len(left)} nodes, including: "
                             f"{', '.join(left[:8])}")
        return out

    def _is_back(self, name: str, edge: _Edge) -> bool:
        """Whether an edge into node `name` goes back to the beginning of a loop: from NextIteration to Merge."""
        source, target = OPS.get(self.nodes[edge.source].op), OPS.get(self.nodes[name].op)
        return source is not None and source.back_edge and edge.output is not None and \
            target is not None and target.control_flow and not target.plain

    def _replacement(self, edge: _Edge) -> Any:
        """The replacement of this edge's source in the input map, or None."""
        if edge.output is None:
            return self.control_map.get(edge.source)
        return self.input_map.get((edge.source, edge.output))

    # -- nodes -----------------------------------------------------------------------------------------------
    def _add_node(self, node: NodeDef) -> None:
        opdef = self._opdef(node)
        attrs, extra = self._attrs(node, opdef)
        inputs, controls, missing = self._inputs(node)
        expected = build.input_types(opdef, attrs)
        self._check_types(node, inputs, expected)
        graph, name = self.graph, self.names[node.name]
        counts = () if opdef.plain else tuple(build.arg_count(a, attrs) for a in opdef.inputs)
        op = graph.add(opdef, name, inputs, attrs, build.output_types(opdef, attrs), counts,
                       device_and_scopes=False)
        self.added[node.name] = op
        shapes = extra.pop("_output_shapes", None)
        op._extra.update(extra)
        colocated = self._apply_scopes(op, node, controls)
        if missing:
            self.back_edges.extend((node, i, edge) for i, edge in missing)
        else:
            build.infer_shapes(op)
        if shapes:
            _use_shapes(node, op, shapes)
        if graph._stacks.devices and not colocated:
            graph._apply_devices(graph._stacks, op)

    def _opdef(self, node: NodeDef) -> OpDef:
        if node.op in OPS:
            return OPS[node.op]
        found = self.function_opdefs.get(node.op)
        if found is None:
            function = self.graph._get_function(node.op)
            if function is None:
                raise errors.NotFoundError(None, None, f"Node '{node.name}': {unknown_op(node.op)}")
            found = self.function_opdefs[node.op] = opdef_from_message(function.definition.signature)
            found.kernel(_call)
        return found

    def _attrs(self, node: NodeDef, opdef: OpDef) -> tuple[dict[str, Any], dict[str, Any]]:
        """The declared attributes, complete, and the others, whose names begin with "_"."""
        attrs: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, message in node.attr.items():
            declared = opdef.attrs.get(name)
            try:
                if message.WhichOneof("value") == "placeholder":
                    raise ValueError("AttrValue is a placeholder, which is valid only in functions")
                if declared is not None:
                    value = attr_from_message(message, declared.kind, self.graph)
                    if value is not None:
                        attrs[name] = build.normalize(opdef, declared, value)
                elif name.startswith("_"):
                    extra[name] = attr_from_message(message, _EXTRA_KINDS.get(name), self.graph)
                elif not self._is_default(node.op, name, message):
                    raise ValueError(
                        f"NodeDef mentions attr '{name}' not in {_signature(opdef)}. (Check whether your "
                        "GraphDef-interpreting binary is up to date with your GraphDef-generating binary.)")
            except (TypeError, ValueError) as e:
                raise ValueError(f"Node '{node.name}' ({node.op}), attr '{name}': {e}") from None
        for name, a in opdef.attrs.items():
            if name not in attrs:
                if a.default is REQUIRED:
                    raise ValueError(f"NodeDef missing attr '{name}' from {_signature(opdef)}; NodeDef: "
                                     f"{node.name} = {node.op}")
                given = a.default is not None or a.kind == "shape"
                attrs[name] = build.normalize(opdef, a, a.default) if given else None
        self._check_tensor_attrs(node, opdef)
        if "_class" in extra:
            extra["_class"] = self._classes(node, extra["_class"])
        return attrs, extra

    @staticmethod
    def _check_tensor_attrs(node: NodeDef, opdef: OpDef) -> None:
        """A tensor in an attribute is of the type that the attribute "dtype" says."""
        from tensorboard.compat.proto.types_pb2 import DataType
        for name, a in opdef.attrs.items():
            if a.kind == "tensor" and "dtype" in node.attr and name in node.attr and \
                    node.attr[name].tensor.dtype != node.attr["dtype"].type:
                raise ValueError(f"Node '{node.name}': attr '{name}' is a tensor of type "
                                 f"{DataType.Name(node.attr[name].tensor.dtype)}, where attr 'dtype' says "
                                 f"{DataType.Name(node.attr['dtype'].type)}")

    def _is_default(self, op_type: str, name: str, message: Any) -> bool:
        """Whether an undeclared attribute has the value of the op's behaviour here."""
        if name in _CHANGES_NOTHING:
            return True
        producer = self.producer_ops.get(op_type)
        for a in producer.attr if producer is not None else ():
            if a.name == name and a.HasField("default_value") and a.default_value == message:
                return True
        value = attr_from_message(message, None, self.graph)
        return value in (False, 0, "", None) or value == [] or name in _LATER and value == _LATER[name]

    def _classes(self, node: NodeDef, classes: list) -> list:
        """Colocation constraints under the new names."""
        out = []
        for c in classes:
            if isinstance(c, str) and c.startswith("loc:@"):
                other = c[5:]
                if self.validate_colocation and other not in self.nodes:
                    raise ValueError(f"Node '{node.name}' expects to be colocated with unknown node '{other}'")
                c = "loc:@" + self.names.get(other, self.scope + other)
            out.append(c)
        return out

    def _inputs(self, node: NodeDef) -> tuple[list[Tensor], list[Operation], list[tuple[int, _Edge]]]:
        """The data inputs, the control inputs, and the inputs that back edges add later."""
        inputs: list = []
        controls: list[Operation] = []
        missing = []
        for i, edge in enumerate(self.edges[node.name]):
            source = self._source(node, edge)
            if edge.output is None:
                controls.append(source.op if isinstance(source, Tensor) else source)
            else:
                inputs.append(source)
                if source is None:
                    missing.append((i, edge))
        if missing:
            stand_in = next((t for t in inputs if t is not None), None)
            if stand_in is None:
                raise ValueError(f"Node '{node.name}': the loop has no entry, only back edges")
            inputs = [stand_in if t is None else t for t in inputs]
        return inputs, controls, missing

    def _source(self, node: NodeDef, edge: _Edge) -> Any:
        """The tensor (the operation, for a control edge) at the beginning of an edge; None if not added yet."""
        found = self._replacement(edge)
        if found is not None:
            self.used.add(edge[:2])
            if isinstance(found, Tensor) and found.graph is not self.graph:
                return self.graph.capture(found)
            return found
        op = self.added.get(edge.source)
        if op is None or edge.output is None:
            return op
        if edge.output >= len(op.outputs):
            raise ValueError(f"Node '{node.name}': Connecting to invalid output {edge.output} of source node "
                             f"{edge.source} which has {len(op.outputs)} outputs")
        return op.outputs[edge.output]

    def _check_types(self, node: NodeDef, inputs: list[Tensor], expected: list) -> None:
        if len(inputs) != len(expected):
            names = ", ".join(dtypes.runtime_name(t) for t in expected)
            raise ValueError(f"NodeDef expected inputs '{names}' do not match {len(inputs)} inputs specified; "
                             f"NodeDef: {node.name} = {node.op}")
        for i, (t, wanted) in enumerate(zip(inputs, expected, strict=True)):
            if t.dtype is not wanted and (wanted._is_ref_dtype or t.dtype.base_dtype is not wanted):
                raise ValueError(f"Input {i} of node {self.names[node.name]} was passed "
                                 f"{dtypes.runtime_name(t.dtype)} from {t.name} incompatible with expected "
                                 f"{dtypes.runtime_name(wanted)}.")

    def _apply_scopes(self, op: Operation, node: NodeDef, controls: list[Operation]) -> bool:
        """Applies the open scopes to an imported op. Returns whether it is colocated with others, which decides its device."""
        others = [c[5:] for c in op._extra.get("_class", ()) if isinstance(c, str) and c.startswith("loc:@")]
        others = [o for o in others if o != op.name]
        if others:
            self.colocated.append((op, others))
        elif node.device:
            op.device = device_text(node.device)
        self.graph._apply_scopes(op, controls)
        return bool(others)

    # -- afterwards ------------------------------------------------------------------------------------------
    def _close_loops(self) -> None:
        for node, i, edge in self.back_edges:
            op = self.added[node.name]
            inputs = list(op.inputs)
            inputs[i] = self._source(node, edge)
            self._check_types(node, inputs, op._input_types)
            op._update_input(i, inputs[i])

    def _colocate(self) -> None:
        """Copies devices along colocation constraints."""
        for op, others in self.colocated:
            for name in others:
                other = self.graph._by_name.get(name)
                if other is not None and other.device:
                    op.device = other.device
                    break

    def _check_input_map(self) -> None:
        """Raises ValueError for names in the input map that the GraphDef lacks."""
        missing = [f"^{n}" for n in self.control_map if n not in self.nodes and (n, None) not in self.used]
        for source, index in self.input_map:
            op = self.added.get(source)
            if (source, index) not in self.used and (op is None or index >= len(op.outputs)):
                missing.append(f"{source}:{index}")
        if missing:
            raise ValueError("Attempted to map inputs that were not found in graph_def: "
                             f"[{', '.join(missing)}]")

    def _element(self, requested: str) -> Any:
        if ":" not in requested:
            if requested not in self.added:
                raise ValueError(f"Requested return node '{requested}' not found in graph def")
            return self.added[requested]
        name, index = _parse_requested(requested)
        if (name, index) in self.input_map:
            return self.input_map[name, index]
        if name not in self.added:
            raise ValueError(f"Requested return tensor '{requested}' not found in graph def")
        outputs = self.added[name].outputs
        if index >= len(outputs):
            raise ValueError(f"Invalid return output {index} of node '{name}', which has {len(outputs)} output(s)")
        return outputs[index]


def _call(*inputs: Any, ctx: Any, node: Operation) -> Any:
    """The kernel of a node that names a function as its op."""
    message = func_message(node.type)
    for name, value in node.attrs.items():
        message.attr[name].CopyFrom(attr_to_message(value, node.opdef.attrs[name].kind))
    flat = [v for i in inputs for v in (i if isinstance(i, list) else [i])]
    out = as_function(message, node.graph).run(ctx, flat)
    return out[0] if len(node.opdef.outputs) == 1 and not node.opdef.list_output else out


def _prefixes(names: Any) -> set[str]:
    """All scopes that ops of these names are in."""
    out: set[str] = set()
    for name in names:
        end = name.rfind("/")
        while end > 0 and name[:end] not in out:
            out.add(name[:end])
            end = name.rfind("/", 0, end)
    return out


def _signature(opdef: OpDef) -> str:
    return f"Op<name={opdef.name}; attrs={', '.join(opdef.attrs)}>"


def _use_shapes(node: NodeDef, op: Operation, shapes: list) -> None:
    """Merges the shapes that the producer wrote down. References (in old graphs also handles) are not checked."""
    if len(shapes) != len(op.outputs):
        raise ValueError(f"Node '{node.name}' has {len(op.outputs)} outputs but the _output_shapes attribute "
                         f"specifies shapes for {len(shapes)} outputs")
    for i, (t, shape) in enumerate(zip(op.outputs, shapes, strict=True)):
        dims = as_dims(shape)
        if compatible(t.static_dims, dims):
            t.static_dims = merge(t.static_dims, dims)
        elif not t.dtype._is_ref_dtype:
            raise ValueError(f"Node '{node.name}' has an _output_shapes attribute inconsistent with the GraphDef "
                             f"for output #{i}: Shapes {show(t.static_dims)} and {show(dims)} are not compatible")
