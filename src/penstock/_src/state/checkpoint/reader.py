"""Reading checkpoints without a graph: readers, lists of variables, single values."""
from __future__ import annotations

from typing import Any

from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.io import paths
from penstock._src.io.bundle_v1 import SliceReader
from penstock._src.kernels import bridge
from penstock._src.ops.io.save_restore import open_reader
from penstock._src.state.checkpoint.state import latest_checkpoint


class CheckpointReader:
    """The contents of a checkpoint: names, shapes, types and values."""

    def __init__(self, filename: str):
        self._reader = open_reader(filename)
        self._tensors = self._reader.tensors()

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """The shape of each tensor."""
        return {name: list(shape) for name, (_, shape) in self._tensors.items()}

    def get_variable_to_dtype_map(self) -> dict[str, Any]:
        """The dtype of each tensor."""
        return {name: dtype for name, (dtype, _) in self._tensors.items()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether a tensor of that name exists."""
        return tensor_str in self._tensors

    def get_tensor(self, tensor_str: str) -> Any:
        """The value of a tensor, as a numpy array."""
        name = tensor_str.decode() if isinstance(tensor_str, bytes) else tensor_str
        if isinstance(self._reader, SliceReader) and not self._reader.has(name):
            raise errors.NotFoundError(None, None, f"{name} not found in checkpoint file")
        dtype = self._reader.describe(name)[0]
        value = bridge.to_numpy(self._reader.read(name), dtype)
        return value if value.ndim or value.dtype != object else value[()]

    def debug_string(self) -> bytes:
        """A table of names, types and shapes, as text."""
        return "".join(f"{name} (DT_{'FLOAT' if dtype.name == 'float32' else dtype.name.upper()}) "
                       f"[{','.join(map(str, shape))}]\n" for name, (dtype, shape) in sorted(self._tensors.items())).encode()

    def __del__(self) -> None:
        if hasattr(self, "_reader"):
            self._reader.close()


@export(v1=["train.NewCheckpointReader"])
def new_checkpoint_reader(filepattern: Any) -> CheckpointReader:
    """A reader of the checkpoint with that prefix.

    Args:
        filepattern: Prefix of the checkpoint's files.

    Returns:
        A reader with `get_tensor`, `has_tensor` and `get_variable_to_shape_map`.

    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     w = tf.get_variable("w", initializer=[1., 2.])
    ...     sess.run(w.initializer)
    ...     path = tf.train.Saver().save(sess, "./model.ckpt")
    >>> reader = tf.train.NewCheckpointReader("./model.ckpt")
    >>> reader.get_variable_to_shape_map(), reader.get_tensor("w")
    ({'w': [2]}, array([1., 2.], dtype=float32))
    """
    return CheckpointReader(paths.as_text(filepattern))


@export("train.load_checkpoint")
def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """A reader of a checkpoint, or of the newest one in a directory."""
    path = checkpoint_filename(ckpt_dir_or_file)
    if path is None:
        raise ValueError(f"There is no checkpoint in the folder {ckpt_dir_or_file}")
    return CheckpointReader(path)


def checkpoint_filename(ckpt_dir_or_file: Any) -> str | None:
    """A checkpoint, or the newest one if a directory is given."""
    path = paths.as_text(ckpt_dir_or_file)
    return latest_checkpoint(path) if paths.isdir(path) else path


@export("train.load_variable")
def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """The value of a variable in a checkpoint.

    Args:
        ckpt_dir_or_file: The checkpoint, or a directory, whose newest checkpoint is read.
        name: The name, as `list_variables` returns it.

    Returns:
        A NumPy array.

    >>> path = tf.train.Checkpoint(w=tf.Variable([1.0, 2.0])).write("saved")
    >>> tf.train.load_variable(path, "w/.ATTRIBUTES/VARIABLE_VALUE")
    array([1., 2.], dtype=float32)
    """
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


@export("train.list_variables")
def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """Name and shape of the variables in a checkpoint, in order.

    Args:
        ckpt_dir_or_file: The checkpoint, or a directory, whose newest checkpoint is read.

    Returns:
        A list of pairs: the name, and the shape as a list.

    Raises:
        ValueError: if there is no checkpoint.

    >>> path = tf.train.Checkpoint(w=tf.Variable([1.0, 2.0])).write("saved")
    >>> [shape for name, shape in tf.train.list_variables(path) if name.startswith("w/")]
    [[2]]
    """
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def object_graph_of(path: str) -> Any:
    """The TrackableObjectGraph in a checkpoint; NotFoundError if it has none."""
    from tensorboard.compat.proto.trackable_object_graph_pb2 import TrackableObjectGraph
    with open_reader(path) as reader:
        data = reader.read("_CHECKPOINTABLE_OBJECT_GRAPH")
    try:
        return TrackableObjectGraph.FromString(data.item())
    except Exception as e:
        raise errors.DataLossError(None, None, f"The object graph in {path} cannot be read: {e}") from None
