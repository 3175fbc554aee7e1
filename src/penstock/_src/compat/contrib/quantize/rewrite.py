"""Layers found in a graph, and fake quantizations put behind their weights and activations."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock._src.base.api import export
from penstock._src.compat.contrib.quantize import batch_norms, ranges
from penstock._src.compat.contrib.quantize.edges import ADDS, LAYERS, quantization_step, readers, reroute, scope_of
from penstock.compat import v1 as tf

_ACTIVATIONS = ("Relu", "Relu6", "Identity")
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp", "ReadVariableOp")
_FAKE = ("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVarsPerChannel")
_PASSED = ("Reshape", "Identity", "BatchToSpaceND", "SpaceToBatchND", "MaxPool", "Max")


class Layer(NamedTuple):
    """A layer, its weights, and the ops behind it that are quantized, as far as there are such."""
    op: Any
    weights: Any = None
    bias: Any = None
    bypass: Any = None                      # an addition of another branch before the activation
    activation: Any = None
    after: Any = None                       # and one behind it


class Options(NamedTuple):
    """How values are quantized."""
    is_training: bool
    weight_bits: int = 8
    activation_bits: int = 8
    symmetric: bool = False
    quant_delay: int | None = None
    scope: str | None = None


# -- finding ---------------------------------------------------------------------------------------------------------
def _weights(layer: Any) -> Any:
    """The input of a layer that is a variable, or a product with one; None if there is none."""
    for tensor in reversed(layer.inputs):
        op = tensor.op
        if op.type in ("ReadVariableOp", "Mul"):
            return tensor
        while op.type in ("Identity", "ConcatV2"):
            op = op.inputs[0].op
            if op.type in _VARIABLES:
                return tensor
    return None


def _first(ops: list[Any]) -> Any:
    return ops[0] if ops else None


def _biased(output: Any) -> Any:
    """The op that adds a bias to a layer's output: an addition, or the last one of a folded batch normalization."""
    for mul in readers(output, "Mul"):
        for correction in readers(mul.outputs[0], *ADDS):
            for add in readers(correction.outputs[0], *ADDS):
                return add
    return _first(readers(output, *ADDS, "BiasAdd"))


def _activation_of(op: Any) -> tuple[Any, Any]:
    """The activation that reads an op's output, and the addition between them, if any."""
    found = _first([a for a in readers(op.outputs[0], *_ACTIVATIONS) if not _before_norm(a)])
    if found is not None and found.type == "Identity":              # perhaps a name for the output of a normalization
        further = _activation_of(found)
        if further[0] is not None and further[0].type != "Identity":
            return further
    if found is not None:
        return found, None
    for add in readers(op.outputs[0], *ADDS):
        activation = _first(readers(add.outputs[0], *_ACTIVATIONS))
        if activation is not None:
            return activation, add
    return None, None


def _before_norm(op: Any) -> bool:
    return op.type == "Identity" and [r.type for r in op.outputs[0].consumers()] in (["FusedBatchNorm"], ["FusedBatchNormV3"])


def _layer(op: Any) -> Layer | None:
    weights = _weights(op)
    if weights is None:
        return None
    output = op.outputs[0]
    dilated = _first(readers(output, "BatchToSpaceND"))
    output = dilated.outputs[0] if dilated is not None else output
    bias = _biased(output)
    activation, bypass = _activation_of(bias if bias is not None else op)
    if activation is not None:
        after = _first(readers(activation.outputs[0], *ADDS))
        return Layer(op, weights, bias, bypass, activation, after)
    if bias is not None:
        return Layer(op, weights, activation=bias)
    return Layer(op, weights, activation=op) if readers(output, *LAYERS) else None


# -- rewriting -------------------------------------------------------------------------------------------------------
def _insert(options: Options, make: Callable, context: str, name: str, producer: Any, within: str, **more: Any) -> None:
    """Inserts a fake quantization after an op, and redirects its consumers."""
    inputs = producer.outputs[0]
    consumers = list(inputs.consumers())
    if options.scope and "producer" in within and not producer.name.startswith(options.scope):
        return
    if options.scope and "consumer" in within and not all(c.name.startswith(options.scope) for c in consumers):
        return
    if _quantized_already(inputs):
        return
    name = f"{context}/{name}" if context else name
    quantized = make(inputs, name, is_training=options.is_training, symmetric=options.symmetric, **more)
    if options.quant_delay and options.quant_delay > 0:
        active = tf.greater_equal(quantization_step(), options.quant_delay, name=f"{name}/activate_quant")
        quantized = tf.cond(active, lambda: tf.identity(quantized), lambda: tf.identity(inputs), name=f"{name}/delayed_quant")
    reroute(quantized, inputs, consumers)


def _quantized_already(tensor: Any) -> bool:
    waiting = list(tensor.consumers())
    while waiting:
        op = waiting.pop()
        if op.type in _FAKE:
            return True
        if op.type in ("Reshape", "Identity"):
            waiting.extend(c for o in op.outputs for c in o.consumers())
    return False


def _quantize(graph: Any, options: Options) -> None:
    layers = [found for op in graph.get_operations() if op.type in LAYERS for found in [_layer(op)] if found is not None]
    layers.sort(key=lambda found: (found.after is None, found.bias is None and found.activation is found.op))
    done: set[Any] = set()
    for found in layers:
        _quantize_layer(found, options, done)
    for op in graph.get_operations():
        if _sum_of_quantized(op, done):
            _insert(options, ranges.moving_average, op.name, f"activation_{op.type}_quant", op, "producer",
                    num_bits=options.activation_bits)


def _quantize_layer(found: Layer, options: Options, done: set[Any]) -> None:
    context = scope_of(found.op.name)
    outer = scope_of(context) if found.bypass is not None else context
    _insert(options, ranges.last_value, context, "weights_quant", found.weights.op, "consumer", narrow_range=True,
            num_bits=options.weight_bits)
    bits = {"num_bits": options.activation_bits}
    _insert(options, ranges.moving_average, outer, "act_quant", found.activation, "producer", init_min=0.0, **bits)
    done.add(found.activation)
    if found.bypass is not None:
        if found.bias is not None:
            _insert(options, ranges.moving_average, context, "conv_quant", found.bias, "producer consumer", **bits)
            done.add(found.bias)
        done.add(found.bypass)                              # an activation follows, which is quantized
    if found.after is not None and not readers(found.after.outputs[0], "Relu", "Relu6"):
        _insert(options, ranges.moving_average, scope_of(found.after.name), "post_activation_bypass_quant", found.after,
                "producer", **bits)
        done.add(found.after)


def _sum_of_quantized(op: Any, done: set[Any]) -> bool:
    """Whether an op adds or multiplies quantized values, and is not quantized yet, nor followed by an activation that is."""
    if op in done or op.type not in (*ADDS, "Mul"):
        return False
    consumers = op.outputs[0].consumers()
    if len(consumers) == 1 and consumers[0].type in ("Relu", "Relu6"):
        return False
    for tensor in op.inputs:
        source = tensor.op
        while source.type in _PASSED and source.inputs:
            source = source.inputs[0].op
        if source.type == "FakeQuantWithMinMaxVars" or "delayed_quant/Merge" in source.name:
            return True
        if source.type in (*ADDS, "Mul") and any(_sum_of_quantized(i.op, done) for i in source.inputs):
            return True
    return False


def _rewrite(graph: Any, options: Options, freeze_bn_delay: int | None = None) -> None:
    graph = graph or tf.get_default_graph()
    training = sorted({op.type for op in graph.get_operations() if op.opdef.name.startswith(
        ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"))})
    if training:
        raise ValueError(f"Training op found in graph, exiting {training}")
    if options.scope and not options.scope.endswith("/"):
        options = options._replace(scope=options.scope + "/")
    with graph.as_default():
        batch_norms.fold(graph, freeze_bn_delay)
        _quantize(graph, options)


@export(v1=["contrib.quantize.create_training_graph"])
def create_training_graph(input_graph: Any = None, quant_delay: int | None = 0) -> None:
    """Rewrites a graph for training, before gradients are added: from step `quant_delay` on, weights and activations are
    rounded to 8 bits. Ranges are tracked in variables.

    Args:
        input_graph: Graph; the default one if left out.
        quant_delay: Steps before rounding begins.

    Returns:
        None: the graph is changed.

    >>> with tf.Graph().as_default():
    ...     y = tf.layers.dense(tf.ones([2, 3]), 4, activation=tf.nn.relu)
    ...     loss = tf.reduce_mean(y)
    ...     tf.contrib.quantize.create_training_graph(quant_delay=2000)
    ...     train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    """
    _rewrite(input_graph, Options(True, quant_delay=quant_delay))


@export(v1=["contrib.quantize.create_eval_graph"])
def create_eval_graph(input_graph: Any = None) -> None:
    """Rewrites a graph for evaluation: ranges are those that training has left in the variables.

    Args:
        input_graph: Graph; the default one if left out.

    Returns:
        None: the graph is changed.

    >>> with tf.Graph().as_default() as graph:
    ...     y = tf.layers.dense(tf.ones([2, 3]), 4, activation=tf.nn.relu)
    ...     before = len(graph.get_operations())
    ...     tf.contrib.quantize.create_eval_graph()
    ...     print(len(graph.get_operations()) > before)
    True
    """
    _rewrite(input_graph, Options(False))


@export(v1=["contrib.quantize.experimental_create_training_graph"])
def experimental_create_training_graph(input_graph: Any = None, weight_bits: int = 8, activation_bits: int = 8,
                                       symmetric: bool = False, quant_delay: int | None = 0, freeze_bn_delay: int | None = None,
                                       scope: str | None = None) -> None:
    """`create_training_graph` with other numbers of bits, symmetric ranges, statistics of batches that are frozen at some step,
    or in one scope alone."""
    _rewrite(input_graph, Options(True, weight_bits, activation_bits, symmetric, quant_delay, scope), freeze_bn_delay)


@export(v1=["contrib.quantize.experimental_create_eval_graph"])
def experimental_create_eval_graph(input_graph: Any = None, weight_bits: int = 8, activation_bits: int = 8,
                                   symmetric: bool = False, quant_delay: int | None = None, scope: str | None = None) -> None:
    """`create_eval_graph` with the same choices."""
    _rewrite(input_graph, Options(False, weight_bits, activation_bits, symmetric, quant_delay, scope))
