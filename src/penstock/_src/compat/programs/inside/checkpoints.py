"""Of `tools.inspect_checkpoint`: what is in a checkpoint, printed."""
from __future__ import annotations

import penstock.compat.v1 as tf


def print_tensors_in_checkpoint_file(file_name: str, tensor_name: str | None, all_tensors: bool, all_tensor_names: bool = False,
                                     count_exclude_pattern: str = "") -> None:
    """Prints names and, if requested, values of the tensors in a checkpoint."""
    reader = tf.train.NewCheckpointReader(file_name)
    if all_tensors or all_tensor_names:
        for key in sorted(reader.get_variable_to_shape_map()):
            print("tensor_name: ", key)
            if all_tensors:
                print(reader.get_tensor(key))
    elif not tensor_name:
        print(reader.debug_string().decode("utf-8"))
    else:
        print("tensor_name: ", tensor_name)
        print(reader.get_tensor(tensor_name))
