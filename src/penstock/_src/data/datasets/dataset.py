"""tf.data.Dataset, as both APIs have it: DatasetV2 here, the additions of 1.x in `dataset_v1`.

A dataset object is a variant tensor (the output of a dataset op) and the type of its elements. Methods add one op each; nothing
is computed until an iterator runs, in `data.pipelines`. The methods are in the modules of the base classes, one per kind of
transformation.
"""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.data.datasets.batching import Batching
from penstock._src.data.datasets.buffering import Buffering
from penstock._src.data.datasets.dataset_spec import Classes
from penstock._src.data.datasets.selecting import Selecting
from penstock._src.data.datasets.sources import Sources


@export(v2=["data.Dataset"])
class DatasetV2(Sources, Batching, Selecting, Buffering):
    """A sequence of elements, and how they are produced.

    >>> ds = tf.data.Dataset.range(10).map(lambda x: x * x).shuffle(5).batch(4)
    >>> for batch in ds: print(batch)
    """

    @classmethod
    def _made(cls, variant: Any, spec: Any, inputs: Any = (), functions: Any = ()) -> DatasetV2:
        return VariantDataset(variant, spec, inputs, functions)


class VariantDataset(DatasetV2):
    """A dataset from a variant tensor and the type of its elements."""

    def __init__(self, variant_tensor: Any, element_spec: Any, inputs: Any = (), functions: Any = ()):
        self._spec, self._from, self._called = element_spec, list(inputs), list(functions)
        super().__init__(variant_tensor)

    def _inputs(self) -> list:
        return list(self._from)

    def _functions(self) -> list:
        return list(self._called)

    element_spec = property(lambda self: self._spec, doc="The type of the elements.")


Classes.public, Classes.made = DatasetV2, VariantDataset
