"""`tools.optimize_for_inference_lib` and `tools.strip_unused_lib`: the part of a frozen graph that inference needs."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import penstock.compat.v1 as tf


def strip_unused(input_graph_def: Any, input_node_names: Sequence[str], output_node_names: Sequence[str],
                 placeholder_type_enum: Any) -> Any:
    """The nodes between inputs and outputs; the inputs become placeholders."""
    names = [n.partition(":")[0] for n in input_node_names]
    types = list(placeholder_type_enum) if isinstance(placeholder_type_enum, (list, tuple)) else \
        [placeholder_type_enum] * len(names)
    known = {n.name for n in input_graph_def.node}
    absent = [n for n in (*names, *output_node_names) if n not in known]
    if absent:
        raise KeyError(f"The following input or output nodes were not found: {set(absent)}")
    cut = tf.GraphDef()
    for node in input_graph_def.node:
        made = cut.node.add()
        if node.name not in names:
            made.CopyFrom(node)
            continue
        made.op, made.name = "Placeholder", node.name
        if node.op == "Placeholder":
            made.CopyFrom(node)
        elif "_output_shapes" in node.attr:
            made.attr["_output_shapes"].CopyFrom(node.attr["_output_shapes"])
        if "shape" in node.attr:
            made.attr["shape"].CopyFrom(node.attr["shape"])
        made.attr["dtype"].type = int(types[names.index(node.name)])
    kept = tf.graph_util.extract_sub_graph(cut, list(output_node_names))
    kept.library.CopyFrom(input_graph_def.library)
    kept.versions.CopyFrom(input_graph_def.versions)
    return kept


def optimize_for_inference(input_graph_def: Any, input_node_names: Sequence[str], output_node_names: Sequence[str],
                           placeholder_type_enum: Any, toco_compatible: bool = False) -> Any:
    """The graph without ops for training; sessions fuse and fold the rest when they run it."""
    stripped = strip_unused(input_graph_def, input_node_names, output_node_names, placeholder_type_enum)
    return tf.graph_util.remove_training_nodes(stripped, list(output_node_names))
