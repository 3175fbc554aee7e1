"""Of `data.ops.*_op`: datasets by the source of their elements, as types for `isinstance`."""
from __future__ import annotations

from typing import Any

from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.data.pipelines import sources


class _Made(type):
    """The type of datasets whose elements come from stages of one class."""

    stages: tuple[type, ...]
    ops: tuple[str, ...]

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, DatasetV2):
            return False
        variant = instance._variant_tensor
        stage = getattr(variant, "_value", None)
        return isinstance(stage, cls.stages) if stage is not None else variant.op.type in cls.ops


class _TensorDataset(metaclass=_Made):
    """Datasets of `from_tensors`."""

    stages, ops = (sources.Tensors,), ("TensorDataset",)


class _TensorSliceDataset(metaclass=_Made):
    """Datasets of `from_tensor_slices`."""

    stages, ops = (sources.Slices,), ("TensorSliceDataset",)


class _RangeDataset(metaclass=_Made):
    """Datasets of `range`."""

    stages, ops = (sources.Range,), ("RangeDataset",)


class _GeneratorDataset(metaclass=_Made):
    """Datasets of one generator, inside of `from_generator`, whose own datasets are not of this type."""

    stages, ops = (), ("GeneratorDataset",)


class _SparseTensorSliceDataset(metaclass=_Made):
    """Datasets of rows of a sparse tensor."""

    stages, ops = (), ("SparseTensorSliceDataset",)
