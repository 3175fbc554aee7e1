"""Collections: named lists that a graph carries, and their standard names."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.message_names import message_class


@export(v1=["GraphKeys"])
class GraphKeys:
    """Standard names of graph collections.

    >>> with tf.Graph().as_default():
    ...     w = tf.get_variable("w", [2])
    ...     print(tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES) == [w])
    True
    """

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    METRIC_VARIABLES = "metric_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    REGULARIZATION_LOSSES = "regularization_losses"
    CONCATENATED_VARIABLES = "concatenated_variables"
    SAVERS = "savers"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    UPDATE_OPS = "update_ops"
    LOSSES = "losses"
    SAVEABLE_OBJECTS = "saveable_objects"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    TRAINABLE_RESOURCE_VARIABLES = "trainable_resource_variables"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    TRAIN_OP = "train_op"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"
    _SUMMARY_COLLECTION = "_SUMMARY_V2"
    _VARIABLE_COLLECTIONS = [GLOBAL_VARIABLES, LOCAL_VARIABLES, METRIC_VARIABLES, MODEL_VARIABLES,
                             TRAINABLE_VARIABLES, MOVING_AVERAGE_VARIABLES, CONCATENATED_VARIABLES,
                             TRAINABLE_RESOURCE_VARIABLES]
    VARIABLES = GLOBAL_VARIABLES
    _STREAMING_MODEL_PORTS = "streaming_model_ports"


class Messages(NamedTuple):
    """How the items of a collection are written to messages and read from them. `kind` is the message class or its name."""
    kind: Any
    to_proto: Callable
    from_proto: Callable

    @property
    def type(self) -> Any:
        """The class of the messages."""
        if isinstance(self.kind, str):                    # loaded only now: protobuf is slow to load
            return message_class(self.kind)
        return self.kind


_messages: dict[str, Messages] = {}


def register_proto_function(collection_name: str, proto_type: Any = None, to_proto: Any = None,
                            from_proto: Any = None) -> None:
    """Registers how the items of a collection are exported with a graph: as messages of `proto_type`."""
    if to_proto is not None and not callable(to_proto):
        raise TypeError("to_proto must be callable.")
    if from_proto is not None and not callable(from_proto):
        raise TypeError("from_proto must be callable.")
    _messages[collection_name] = Messages(proto_type, to_proto, from_proto)


def messages_of(collection_name: Any) -> Messages | None:
    """How the items of a collection are exported; None: by name."""
    return _messages.get(collection_name)


@export(v1=["add_to_collection"])
def add_to_collection(name: str, value: Any) -> None:
    """Adds `value` to a collection of the default graph.

    Args:
        name: Name of the collection.
        value: Object to add.

    >>> with tf.Graph().as_default():
    ...     x = tf.constant(1.)
    ...     tf.add_to_collection("outputs", x)
    ...     print(tf.get_collection("outputs") == [x])
    True
    """
    context.current_graph().add_to_collection(name, value)


@export(v1=["add_to_collections"])
def add_to_collections(names: Any, value: Any) -> None:
    """Adds `value` to several collections of the default graph."""
    context.current_graph().add_to_collections(names, value)


@export(v1=["get_collection"])
def get_collection(key: str, scope: str | None = None) -> list:
    """A copy of a collection; with `scope`, only items whose name starts with that pattern.

    Args:
        key: Name of the collection, often one of `tf.GraphKeys`.
        scope: Pattern that the names of items must begin with; items without a name are left out.

    Returns:
        A list, empty if there is no such collection.

    >>> with tf.Graph().as_default():
    ...     with tf.variable_scope("model"):
    ...         w = tf.get_variable("w", [2])
    ...     found = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="model/")
    >>> [v.name for v in found]
    ['model/w:0']
    """
    return context.current_graph().get_collection(key, scope)


@export(v1=["get_collection_ref"])
def get_collection_ref(key: str) -> list:
    """The collection itself."""
    return context.current_graph().get_collection_ref(key)
