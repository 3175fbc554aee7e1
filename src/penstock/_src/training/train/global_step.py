"""The global step: an integer variable that counts training steps."""
from __future__ import annotations

import logging
from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import control_dependencies
from penstock._src.state.variables.functions import assign_add
from penstock._src.state.variables.initializers import Zeros
from penstock._src.state.variables.policy import VariableAggregation
from penstock._src.state.variables.scope import get_variable
from penstock._src.state.variables.variable import Variable

GLOBAL_STEP_READ_KEY = "global_step_read_op_cache"


@export(v1=["train.global_step"])
def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The value of the global step in a session."""
    if context.executing_eagerly():
        return int(global_step_tensor.numpy())
    return int(sess.run(global_step_tensor))


@export(v1=["train.assert_global_step"])
def assert_global_step(global_step_tensor: Any) -> None:
    """TypeError unless it is a scalar integer variable or tensor."""
    if not isinstance(global_step_tensor, (Variable, Tensor)):
        raise TypeError(f'Existing "global_step" must be a Variable or Tensor: {global_step_tensor}.')
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: {global_step_tensor.dtype}')
    shape = global_step_tensor.get_shape()
    if shape.is_fully_defined() and shape.rank != 0:
        raise TypeError(f'Existing "global_step" is not scalar: {shape}')


@export(v1=["train.get_global_step"])
def get_global_step(graph: Any = None) -> Any:
    """The global step of a graph, or None.

    Args:
        graph: Graph to use, by default the current one.

    Returns:
        The variable `global_step`, or None.

    >>> with tf.Graph().as_default():
    ...     step = tf.train.create_global_step()
    ...     print(tf.train.get_global_step() is step)
    True
    """
    graph = graph or context.current_graph()
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        logging.getLogger("penstock").error("Multiple tensors in global_step collection.")
        return None
    if found:
        step = found[0]
    else:
        try:
            step = graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
    assert_global_step(step)
    return step


@export(v1=["train.create_global_step"])
def create_global_step(graph: Any = None) -> Any:
    """Makes the global step of a graph; ValueError if it has one.

    Args:
        graph: Graph; the default one if left out.

    Returns:
        The variable.

    Raises:
        ValueError: if the graph has a global step.

    >>> with tf.Graph().as_default():
    ...     step = tf.train.create_global_step()
    >>> step.name, step.dtype.base_dtype
    ('global_step:0', tf.int64)
    """
    graph = graph or context.current_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')

    def make() -> Any:
        return get_variable(GraphKeys.GLOBAL_STEP, shape=[], dtype=dtypes.int64, initializer=Zeros(), trainable=False,
                            aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
                            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP])
    if context.executing_eagerly():
        return make()
    with graph.as_default(), graph.name_scope(None):
        return make()


@export(v1=["train.get_or_create_global_step"])
def get_or_create_global_step(graph: Any = None) -> Any:
    """The global step of a graph, made when there is none.

    Args:
        graph: Graph to use, by default the current one.

    Returns:
        The variable `global_step`, an int64 scalar.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=1.)
    ...     step = tf.train.get_or_create_global_step()
    ...     train = tf.train.GradientDescentOptimizer(0.1).minimize(w * w, global_step=step)
    ...     sess.run(tf.global_variables_initializer())
    ...     sess.run(train)
    ...     print(sess.run(step))
    1
    """
    graph = graph or context.current_graph()
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def global_step_read(graph: Any = None) -> Any:
    """The value of the global step before this step's increment; made once per graph, None without a global step."""
    graph = graph or context.current_graph()
    found = graph.get_collection(GLOBAL_STEP_READ_KEY)
    if len(found) > 1:
        raise RuntimeError(f"There are multiple items in collection {GLOBAL_STEP_READ_KEY}. There should be only one.")
    if found:
        return found[0]
    step = get_global_step(graph)
    if step is None:
        return None
    with graph.as_default(), graph.name_scope(None), graph.name_scope(step.op.name + "/"):
        read = (step.initialized_value() if isinstance(step, Variable) else step) + 0
        graph.add_to_collection(GLOBAL_STEP_READ_KEY, read)
    return read


def increment_global_step(increment: int, graph: Any = None) -> Any:
    """An op that adds to the global step, after its value was read."""
    graph = graph or context.current_graph()
    step = get_global_step(graph)
    if step is None:
        raise ValueError("Global step tensor should be created by tf.train.get_or_create_global_step before calling "
                         "increment.")
    read = global_step_read(graph)
    with graph.as_default(), graph.name_scope(None), graph.name_scope(step.op.name + "/"), \
            control_dependencies([read]):
        return assign_add(step, increment)
