"""Lists of variables, and ops over them: initialize, is it initialized, which are not."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export, with_sections
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys, register_proto_function
from penstock._src.graph.convert import constant
from penstock._src.graph.node import Tensor
from penstock._src.graph.scopes import colocate_with, device, name_scope
from penstock._src.ops.core import group, no_op_def
from penstock._src.ops.registry import get
from penstock._src.state.variables.variable import Variable

for _key in (*GraphKeys._VARIABLE_COLLECTIONS, GraphKeys.GLOBAL_STEP):
    register_proto_function(_key, "VariableDef", lambda v, export_scope: v.to_proto(export_scope), Variable.from_proto)


def _listing(key: str, doc: str, *names: str) -> Any:
    def listing(scope: str | None = None) -> list:
        return context.current_graph().get_collection(key, scope)
    listing.__name__ = names[0]
    listing.__doc__ = with_sections(doc, "Args:\n    scope: Regular expression that names have to begin with.\n\n"
                                         "Returns:\n    A list of variables in the order of their creation.")
    export.value(listing, v1=names)
    return listing


global_variables = _listing(GraphKeys.GLOBAL_VARIABLES, """The global variables, or those under `scope`.

    >>> with tf.Graph().as_default():
    ...     w, step = tf.Variable(1., name="w"), tf.Variable(0, name="step", trainable=False)
    ...     print([v.name for v in tf.global_variables()])
    ['w:0', 'step:0']
    """,
                            "global_variables")
local_variables = _listing(GraphKeys.LOCAL_VARIABLES, """The local variables, or those under `scope`.

    >>> with tf.Graph().as_default():
    ...     count = tf.Variable(0, name="count", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    ...     print([v.name for v in tf.local_variables()])
    ['count:0']
    """, "local_variables")
model_variables = _listing(GraphKeys.MODEL_VARIABLES, """The model variables, or those under `scope`.

    >>> with tf.Graph().as_default():
    ...     w = tf.contrib.framework.model_variable("w", shape=[2])
    ...     print([v.name for v in tf.model_variables()])
    ['w:0']
    """, "model_variables")
trainable_variables = _listing(GraphKeys.TRAINABLE_VARIABLES, """The trainable variables, or those under `scope`.

    >>> with tf.Graph().as_default():
    ...     w, step = tf.Variable(1., name="w"), tf.Variable(0, name="step", trainable=False)
    ...     print([v.name for v in tf.trainable_variables()])
    ['w:0']
    """,
                               "trainable_variables")
moving_average_variables = _listing(GraphKeys.MOVING_AVERAGE_VARIABLES,
                                    """The variables that have moving averages, or those under `scope`.

    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(1., name="w")
    ...     update = tf.train.ExponentialMovingAverage(0.9).apply([w])
    ...     print([v.name for v in tf.moving_average_variables()])
    ['w:0']
    """,
                                    "moving_average_variables")


@export(v1=["all_variables"])
def all_variables() -> list:
    """Old name of global_variables."""
    return global_variables()


# -- initialization ---------------------------------------------------------------------------------------------------
@export(v1=["initializers.variables", "variables_initializer", "initialize_variables"])
def variables_initializer(var_list: Any, name: str = "init") -> Any:
    """An op that initializes the variables of a list.

    Args:
        var_list: List of variables.
        name: Name of the operation.

    Returns:
        An op.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     a, b = tf.Variable(1), tf.Variable(2)
    ...     sess.run(tf.variables_initializer([a]))
    ...     print(sess.run(a))
    1
    """
    if var_list and not context.executing_eagerly():
        return group(*[v.initializer for v in var_list], name=name)
    return None if context.executing_eagerly() else no_op_def(name=name)


@export(v1=["initializers.global_variables", "global_variables_initializer", "initialize_all_variables"])
def global_variables_initializer() -> Any:
    """An op that initializes the global variables.

    Returns:
        An op. In eager execution, variables have values when they are made, and the op does nothing.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     sess.run(tf.global_variables_initializer())
    ...     print(sess.run(w))
    [1. 2.]
    """
    return variables_initializer([] if context.executing_eagerly() else global_variables())


@export(v1=["initializers.local_variables", "local_variables_initializer", "initialize_local_variables"])
def local_variables_initializer() -> Any:
    """An op that initializes the local variables.

    Returns:
        An op. Local variables are those of metrics and of input pipelines, which checkpoints leave out.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     count = tf.Variable(3, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    ...     sess.run(tf.local_variables_initializer())
    ...     print(sess.run(count))
    3
    """
    return variables_initializer([] if context.executing_eagerly() else local_variables())


# -- is it initialized ------------------------------------------------------------------------------------------------
@export(v1=["is_variable_initialized"])
def is_variable_initialized(variable: Any) -> Any:
    """Whether a variable has a value, as a tensor."""
    if not isinstance(variable, Tensor) and hasattr(variable, "handle"):
        return variable.is_initialized()
    ref = variable if isinstance(variable, Tensor) else variable._ref()
    return get("IsVariableInitialized")(ref)


def _default_list() -> list:
    """All variables; without any in the collections, the references that the graph holds."""
    found = global_variables() + local_variables()
    return found or [op.outputs[0] for op in context.current_graph().get_operations()
                     if op.type in ("Variable", "VariableV2")]


@export(v1=["assert_variables_initialized"])
def assert_variables_initialized(var_list: Any = None) -> Any:
    """An op that fails with FailedPreconditionError if one of the variables has no value."""
    var_list = _default_list() if var_list is None else var_list
    if not var_list:
        return None
    ranks = []
    for v in var_list:
        with colocate_with(v.op):
            ranks.append(get("Rank")(v))
    return ranks[0] if len(ranks) == 1 else get("Pack")(ranks)


@export(v1=["report_uninitialized_variables"])
def report_uninitialized_variables(var_list: Any = None, name: str = "report_uninitialized_variables") -> Any:
    """The names of the variables that have no value, as a string vector.

    Args:
        var_list: Variables to check; by default the global and local ones.
        name: Name of the operation.

    Returns:
        A vector of names.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=1.)
    ...     print(sess.run(tf.report_uninitialized_variables()))
    [b'w']
    """
    var_list = _default_list() if var_list is None else var_list
    with name_scope(name):
        if not var_list:
            return constant([], dtypes.string)
        known = get("Pack")([is_variable_initialized(v) for v in var_list])
        with device("/cpu:0"):
            names = constant([v.op.name for v in var_list])
            missing = get("Reshape")(get("Where")(get("LogicalNot")(known)), [-1])
            return get("GatherV2")(names, missing, 0)
