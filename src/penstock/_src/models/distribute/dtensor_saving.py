"""Checkpoints of DTensors: whole values, by name or by object. Each variable keeps its layout when it is restored."""
from __future__ import annotations

from typing import Any, NoReturn

import penstock as tf
from penstock._src.base.api import export
from penstock._src.models.distribute.dtensor import DTensor, DVariable, fetch_layout, relayout
from penstock._src.models.distribute.dtensor_layout import Layout, Mesh
from penstock._src.models.distribute.tpu import refused
from penstock._src.state.checkpoint.checkpoint import Checkpoint
from penstock._src.state.checkpoint.saveable import SaveableObject, SaveSpec


@export(v2=["experimental.dtensor.DTensorCheckpoint"])
class DTensorCheckpoint(Checkpoint):
    """tf.train.Checkpoint of DVariables on a mesh.

    >>> checkpoint = tf.experimental.dtensor.DTensorCheckpoint(mesh=mesh, v=variable)
    >>> checkpoint.restore(checkpoint.save("/tmp/model/ckpt"))
    """

    def __init__(self, mesh: Mesh, root: Any = None, **kwargs: Any):
        if not isinstance(mesh, Mesh):
            raise ValueError(f"A DTensorCheckpoint needs a Mesh, got {mesh!r}.")
        super().__init__(root=root, **kwargs)


def _whole(tensor: Any) -> Any:
    """The value of a DTensor or DVariable as an ordinary tensor."""
    value = tensor.read_value() if isinstance(tensor, DVariable) else tf.convert_to_tensor(tensor)
    if isinstance(value, DTensor):
        value = relayout(value, Layout.replicated(value._layout.mesh, len(value.shape)))
        return tf.convert_to_tensor(value.numpy())
    return value


@export(v2=["experimental.dtensor.sharded_save"])
def sharded_save(mesh: Mesh, file_prefix: Any, tensor_names: Any, shape_and_slices: Any, tensors: list) -> None:
    """Writes tensors, or parts of larger ones, into a checkpoint."""
    tf.raw_ops.SaveV2(prefix=file_prefix, tensor_names=tensor_names, shape_and_slices=shape_and_slices,
                      tensors=[_whole(t) for t in tensors])


@export(v2=["experimental.dtensor.name_based_save"])
def name_based_save(mesh: Mesh, checkpoint_prefix: Any, name_tensor_dict: dict[str, Any]) -> None:
    """Writes tensors into a checkpoint by their names.

    >>> tf.experimental.dtensor.name_based_save(mesh, "/tmp/model/ckpt", {"w": variable})
    """
    if not tf.executing_eagerly():
        raise ValueError("name_based_save runs eagerly only.")
    sharded_save(mesh, checkpoint_prefix, list(name_tensor_dict), [""] * len(name_tensor_dict), list(name_tensor_dict.values()))


@export(v2=["experimental.dtensor.name_based_restore"])
def name_based_restore(mesh: Mesh, checkpoint_prefix: str, name_tensor_dict: dict[str, Any]) -> dict[str, Any]:
    """The values in a checkpoint with the dtypes and layouts of the given tensors, by name.

    >>> found = tf.experimental.dtensor.name_based_restore(mesh, "/tmp/model/ckpt", {"w": variable})
    """
    if not tf.executing_eagerly():
        raise ValueError("name_based_restore runs eagerly only.")
    restored = tf.raw_ops.RestoreV2(prefix=checkpoint_prefix, tensor_names=list(name_tensor_dict),
                                    shape_and_slices=[""] * len(name_tensor_dict),
                                    dtypes=[t.dtype for t in name_tensor_dict.values()])
    return {n: relayout(value, fetch_layout(t)) for (n, t), value in zip(name_tensor_dict.items(), restored, strict=True)}


class _AsBfloat16(SaveableObject):
    """A float32 variable that is written as bfloat16."""

    def __init__(self, variable: Any, name: str):
        super().__init__(variable, [SaveSpec(lambda: tf.cast(_whole(variable), tf.bfloat16), "", name, dtype=tf.bfloat16,
                                             device="/cpu:0")], name)

    def restore(self, restored_tensors: list, restored_shapes: Any) -> Any:
        """Assigns the value, as float32."""
        return self.op.assign(relayout(tf.cast(restored_tensors[0], tf.float32), self.op.layout))


@export(v2=["experimental.dtensor.enable_save_as_bf16"])
def enable_save_as_bf16(variables: list) -> None:
    """Has checkpoints of objects store float32 DVariables as bfloat16."""
    for v in variables:
        if isinstance(v, DVariable) and v.dtype == tf.float32:
            v.saved_by = _AsBfloat16


@export(v2=["experimental.dtensor.create_tpu_mesh"])
def create_tpu_mesh(mesh_dim_names: Any, mesh_shape: Any, mesh_name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises UnimplementedError: there are no TPUs. `create_mesh` makes meshes of CPUs and GPUs."""
    refused()


@export(v2=["experimental.dtensor.initialize_tpu_system"])
def initialize_tpu_system(device_type: Any = None, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises UnimplementedError: there are no TPUs."""
    refused()


@export(v2=["experimental.dtensor.shutdown_tpu_system"])
def shutdown_tpu_system() -> NoReturn:
    """Raises UnimplementedError: there are no TPUs."""
    refused()
