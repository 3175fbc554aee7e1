"""Datasets as graphs: the ops that created a stage, for rebuilding it elsewhere.

Every stage keeps its recipe: the op, its attributes and the values of its inputs. `rebuilt` adds the ops of a recipe, and of
the recipes that it is made of, to the current graph. SavedModels store datasets in this way, and DatasetToGraph returns them.
"""
from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import torch

from penstock._src.base import dtypes, errors
from penstock._src.data.pipelines.base import Stage
from penstock._src.data.pipelines.mapping import stage_of
from penstock._src.graph import context
from penstock._src.graph.build import build, group_inputs
from penstock._src.graph.convert import constant
from penstock._src.graph.func_graph import FuncGraph
from penstock._src.graph.functions import GraphFunction, as_function
from penstock._src.graph.graph import Graph
from penstock._src.kernels import hashing, strings
from penstock._src.kernels.bridge import to_numpy, to_torch
from penstock._src.ops.control.functional import add_calling_op
from penstock._src.ops.registry import get, op
from penstock._src.ops.strings.parse_sequence import messages
from penstock.compat import v1 as tf


class Recipe(NamedTuple):
    """The op that created a stage. An input is an eager tensor, or a run-time value."""
    opdef: Any
    attrs: dict[str, Any]
    inputs: tuple
    counts: tuple
    graph: Any                          # where functions are known that attributes only name


def recipe_of(node: Any, values: tuple) -> Recipe:
    """The recipe of what an op makes of some values, as its kernel got them."""
    eager = all(hasattr(t, "_value") for t in node.inputs)
    flat = node.inputs if eager else [v for given in values for v in (given if isinstance(given, list) else [given])]
    return Recipe(node.opdef, node.attrs, tuple(flat), node.counts, getattr(node, "graph", None))


def rebuilt(stage: Stage, stateful: bool = True, source: Any = None) -> Any:
    """The variant of a dataset like this one, made by ops of the current graph. `source`, a function of the variant and the
    attributes of a dataset that is made of no other, returns what is put in its place.

    FailedPreconditionError if it depends on values that graphs cannot hold, or on state if that is not allowed.
    """
    recipe = getattr(stage, "recipe", None)
    if recipe is None:
        raise errors.FailedPreconditionError(None, None, f"{type(stage).__name__} cannot be written as a graph")
    opdef, attrs = recipe.opdef, {n: recipe.attrs[n] for n in recipe.opdef.explicit_attrs if n in recipe.attrs}
    functions = {n: as_function(attrs[n], recipe.graph) for n in opdef.function_attrs if n in attrs}
    if not stateful and any(f.stateful for f in functions.values()):        # files and seeds are inputs: the graph holds them
        raise errors.FailedPreconditionError(None, None, f"{opdef.name} is stateful: it cannot be written as a graph")
    inputs = group_inputs(opdef, [_input(v, stateful, source) for v in recipe.inputs], recipe.counts)
    if functions:
        made = add_calling_op(opdef, tuple(inputs), {**attrs, **functions}, list(functions.values()), None).outputs[0]
    else:
        made = build(context.current_graph(), opdef, tuple(inputs), attrs, None).outputs[0]
    first = source is not None and not any(isinstance(_stage_in(v), Stage) for v in recipe.inputs)
    return source(made, recipe.attrs) if first else made


def _stage_in(given: Any) -> Any:
    """The stage in an input, or its value."""
    value = getattr(given, "_value", given)
    if isinstance(value, np.ndarray) and value.dtype == object and value.size == 1 and isinstance(value.reshape(-1)[0], Stage):
        return value.reshape(-1)[0]
    return value


def _input(given: Any, stateful: bool, source: Any) -> Any:
    value = _stage_in(given)
    if isinstance(value, Stage):
        return rebuilt(value, stateful, source)
    if isinstance(value, torch.Tensor):
        return constant(to_numpy(value))
    if isinstance(value, np.ndarray) and all(isinstance(v, bytes) for v in value.ravel()):
        return constant(value)
    if stateful and value is not given:
        return given                    # a variable, a table: the function that is traced captures its handle
    raise errors.FailedPreconditionError(None, None, f"A dataset that depends on {value!r} cannot be written as a graph")


_FAIL = 2                               # of external_state_policy; with others, the graph is still written
dataset_to_graph = op("DatasetToGraph", "input_dataset: variant -> graph: string", "stateful_whitelist: list(string) = [], "
                      "allow_stateful: bool = False, strip_device_assignment: bool = False", foldable=False).no_gradient()
dataset_to_graph_v2 = op("DatasetToGraphV2", "input_dataset: variant -> graph: string",
                         "external_state_policy: int = 0, strip_device_assignment: bool = False", foldable=False).no_gradient()
dataset_from_graph = op("DatasetFromGraph", "graph_def: string -> handle: variant", foldable=False).no_gradient()
fingerprint = op("DatasetFingerprint", "input_dataset: variant -> fingerprint: uint64", foldable=False).no_gradient()
for _op in (dataset_to_graph, dataset_to_graph_v2, fingerprint):
    _op.shape(lambda input_dataset: ())
dataset_from_graph.shape(lambda graph_def: ())


def _graph_def(stage: Stage, stateful: bool) -> Any:
    """The GraphDef of a dataset. It ends in `_Retval`, whose input is the dataset."""
    with Graph().as_default() as graph:
        build(graph, get("_Retval"), (rebuilt(stage, stateful),), {"index": 0}, "dataset")
        return graph.as_graph_def()


def _serialized(stage: Stage, stateful: bool) -> bytes:
    return _graph_def(stage, stateful).SerializeToString(deterministic=True)


def _number_functions(graph_def: Any) -> None:
    """Gives functions their numbers as names: those that they were traced with differ from trace to trace."""
    numbers = {f.signature.name: f"function_{i}" for i, f in enumerate(graph_def.library.function)}
    for node in itertools.chain(graph_def.node, *(f.node_def for f in graph_def.library.function)):
        node.op = numbers.get(node.op, node.op)
        for attr in node.attr.values():
            kind = attr.WhichOneof("value")
            for func in (attr.func,) if kind == "func" else attr.list.func if kind == "list" else ():
                func.name = numbers.get(func.name, func.name)
    for function in graph_def.library.function:
        function.signature.name = numbers[function.signature.name]


@dataset_to_graph.kernel(device="cpu")
def _dataset_to_graph_kernel(input_dataset, *, allow_stateful):
    return np.array(_serialized(stage_of(input_dataset), allow_stateful), dtype=object)


@dataset_to_graph_v2.kernel(device="cpu")
def _dataset_to_graph_v2_kernel(input_dataset, *, external_state_policy):
    return np.array(_serialized(stage_of(input_dataset), external_state_policy != _FAIL), dtype=object)


@fingerprint.kernel(device="cpu")
def _fingerprint_kernel(input_dataset):
    graph_def = _graph_def(stage_of(input_dataset), True)
    _number_functions(graph_def)
    found = hashing.fingerprint64([graph_def.SerializeToString(deterministic=True)])
    return to_torch(found.astype(np.uint64).reshape(()), dtypes.uint64)


@dataset_from_graph.kernel(device="cpu")
def _dataset_from_graph_kernel(graph_def, *, ctx):
    try:
        found = messages.GraphDef.FromString(strings.scalar(graph_def, "graph_def"))
    except messages.DecodeError as e:
        raise errors.invalid(f"graph_def is not a GraphDef: {e}") from None
    results = [node for node in found.node if node.op == "_Retval"]
    if len(results) != 1:
        raise errors.invalid(f"The graph of a dataset has one _Retval, this one has {len(results)}")
    source = results[0].input[0]
    found.node.remove(results[0])
    with FuncGraph("dataset").as_default() as graph:
        made, = tf.import_graph_def(found, return_elements=[source if ":" in source else source + ":0"], name="")
    return stage_of(GraphFunction(graph, None, [], [made]).run(ctx, ())[0])
