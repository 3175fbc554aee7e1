"""Passes over a GraphDef, for converters that need calls inlined and constants folded.

Only passes that produce TensorFlow's ops run: fused or joined ops have no form in a GraphDef.
"""
from __future__ import annotations

from typing import Any

from penstock._src.graph.graph import Graph
from penstock._src.graph.graphdef import nodes_def, strip_default_attrs
from penstock._src.graph.importer import import_graph_def
from penstock._src.graph.node import Tensor
from penstock._src.graph.prune import needed
from penstock._src.step.ir import StepGraph
from penstock._src.step.optimize.common import merge_common
from penstock._src.step.optimize.dependencies import simplify_dependencies
from penstock._src.step.optimize.folding import fold_constants
from penstock._src.step.optimize.inlining import inline_calls
from penstock._src.step.optimize.options import options_of

# By name in RewriterConfig.optimizers: the switch, and the pass, in the order in which they run.
_PASSES = {
    "function": ("function_optimization", inline_calls),
    "dependency": ("dependency_optimization", simplify_dependencies),
    "constfold": ("constant_folding", fold_constants),
    "common_subgraph_elimination": ("common_subexpressions", merge_common),
}


def optimize_graph(config_proto: Any, metagraph: Any, verbose: bool = True, graph_id: bytes = b"graph_to_optimize",
                   cluster: Any = None, strip_default_attributes: bool = False) -> Any:
    """The GraphDef of a MetaGraphDef after the passes that `config_proto` requests.

    The collection `train_op` names the fetches: those nodes keep their names and their ops, and dead nodes are removed.
    `verbose`, `graph_id` and `cluster` are accepted and change nothing: no pass here depends on them.
    """
    graph = Graph()
    with graph.as_default():
        import_graph_def(metagraph.graph_def, name="")
    names = metagraph.collection_def["train_op"].node_list.value if "train_op" in metagraph.collection_def else ()
    if not names:
        raise ValueError("The collection `train_op` must name what is fetched: it is missing, or empty.")
    elements = [graph.as_graph_element(n) for n in names]
    fetches = [e for e in elements if isinstance(e, Tensor)]
    targets = [e for e in elements if not isinstance(e, Tensor)]
    step = StepGraph(needed(fetches, targets, set()), fetches, targets, [])
    options = options_of(config_proto)
    requested = set(config_proto.graph_options.rewrite_options.optimizers)
    for name, (switch, run) in _PASSES.items():
        if getattr(options, switch) and (name in requested or not requested):
            run(step)
    _name_apart(step)
    out = nodes_def(step.ops, graph)
    _drop_unused_functions(out)
    if strip_default_attributes:
        strip_default_attrs(out)
    return out


def _drop_unused_functions(graph_def: Any) -> None:
    """Removes the functions that no node calls any more. Converters read all of the library, and read a function once."""
    by_name = {f.signature.name: f for f in graph_def.library.function}
    gradients = {g.function_name: g.gradient_func for g in graph_def.library.gradient}
    found, todo = set[str](), _called(graph_def.node)
    while todo:
        name = todo.pop()
        if name in by_name and name not in found:
            found.add(name)
            todo += [*_called(by_name[name].node_def), gradients.get(name, "")]
    graph_def.library.CopyFrom(type(graph_def.library)(
        function=[f for n, f in by_name.items() if n in found],
        gradient=[g for g in graph_def.library.gradient if g.function_name in found]))


def _called(nodes: Any) -> list[str]:
    """The names of functions in the nodes' attributes, and of the nodes' ops, which may be functions too."""
    values = [v for n in nodes for v in n.attr.values()]
    return [f.name for v in values for f in (*([v.func] if v.HasField("func") else ()), *v.list.func)] + [n.op for n in nodes]


def _name_apart(step: StepGraph) -> None:
    """Makes node names unique. Fetched nodes keep theirs first, then nodes of the graph, then nodes that passes have added."""
    kept, taken, counts, renamed = step.kept(), set(), dict[str, int](), {}
    for op in sorted(step.ops, key=lambda op: (op not in kept, op.origin is None or op.origin.opdef is not op.opdef)):
        name = op.name
        while name in taken:
            counts[op.name] = counts.get(op.name, 0) + 1
            name = f"{op.name}_{counts[op.name]}"
        taken.add(name)
        renamed[op] = name
    for op, name in renamed.items():
        op.name = name


OptimizeGraph = optimize_graph         # the name in `grappler.tf_optimizer`
