"""Positions of iterators in checkpoints, and datasets into record files."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.data.datasets.input_position import CheckpointInputPipelineHook
from penstock._src.data.datasets.options import ExternalStatePolicy
from penstock._src.data.datasets.positions import saveable
from penstock._src.graph.convert import convert
from penstock._src.graph.type_spec import TensorSpec
from penstock._src.io.record import TFRecordOptions
from penstock._src.ops.registry import get


@export("data.experimental.make_saveable_from_iterator")
def make_saveable_from_iterator(iterator: Any, external_state_policy: Any = None) -> Any:
    """A SaveableObject with the position of an iterator, for tf.train.Saver.

    Where functions of its dataset depend on other state (variables, random numbers), saving it fails, unless
    `external_state_policy` is "ignore" or "warn".

    >>> tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, tf.data.experimental.make_saveable_from_iterator(it))
    """
    resource = iterator._iterator_resource
    name = "iterator" if hasattr(resource, "_value") else resource.name
    if external_state_policy is None:
        external_state_policy = ExternalStatePolicy.FAIL
    elif not isinstance(external_state_policy, ExternalStatePolicy):
        if str(external_state_policy).upper() not in ExternalStatePolicy.__members__:
            raise ValueError(f'external_state_policy must be one of "warn", "ignore" or "fail", not {external_state_policy!r}.')
        external_state_policy = ExternalStatePolicy[external_state_policy.upper()]
    return saveable(resource, name, getattr(iterator, "_initializer", None), external_state_policy)


def _checkpoint_input_pipeline_hook() -> Any:
    return CheckpointInputPipelineHook


export.later(_checkpoint_input_pipeline_hook, "data.experimental.CheckpointInputPipelineHook")


@export("data.experimental.TFRecordWriter")
class TFRecordWriter:
    """Writes the elements of a dataset of strings to a record file.

    >>> tf.data.experimental.TFRecordWriter("a.tfrecord").write(ds)
    """

    def __init__(self, filename: Any, compression_type: Any = None):
        self._filename = convert(filename, dtypes.string, "filename")
        self._kind = convert(TFRecordOptions.get_compression_type_string(compression_type), dtypes.string, "compression_type")

    def write(self, dataset: Any) -> Any:
        """The op that writes all elements; in eager execution, they are written now."""
        if not isinstance(dataset, DatasetV2):
            raise TypeError(f"`dataset` must be a `tf.data.Dataset` object, got {type(dataset)}.")
        spec = dataset.element_spec
        if not isinstance(spec, TensorSpec) or spec.dtype != dtypes.string or not spec.shape.is_compatible_with([]):
            raise TypeError(f"`dataset` must produce scalar `DT_STRING` tensors whereas it produces {spec}.")
        return get("DatasetToTFRecord")(dataset._variant_tensor, self._filename, self._kind)
