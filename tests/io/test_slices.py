"""Parts of a stored tensor are put together, and parts that overlap are refused, in any number of dimensions."""
import numpy as np
import pytest

import penstock as tf
from penstock._src.base import dtypes, errors
from penstock._src.io import bundle_v1, slices


@pytest.mark.parametrize("rank", range(4))
def test_the_same_part_twice_overlaps(rank):
    shape = (3,) * rank
    assert len(slices.cover(slices.full(rank), [slices.full(rank)], shape)) == 1
    with pytest.raises(tf.errors.DataLossError, match="overlap"):
        slices.cover(slices.full(rank), [slices.full(rank)] * 2, shape)


def test_parts_side_by_side_are_the_whole():
    whole, out = np.arange(12).reshape(3, 4), np.zeros((3, 4), int)
    parts = [[(0, 3), (0, 1)], [(0, 1), (1, 3)], [(1, 2), (1, 3)]]
    held = [whole[tuple(slice(b, b + n) for b, n in part)] for part in parts]
    for i, source, target in slices.cover(slices.full(2), parts, (3, 4)):
        out[target] = held[i][source]
    assert (out == whole).all()
    assert slices.cover(slices.full(2), parts[:2], (3, 4)) is None


def test_parts_that_no_message_holds_are_refused(tmp_path):
    writer = bundle_v1.SliceWriter(str(tmp_path / "c"))
    large = np.broadcast_to(np.zeros(1, np.int8), (1 << 31,))
    with pytest.raises(errors.InvalidArgumentError, match="Tensor slice is too large to serialize"):
        writer.add("v", large.shape, slices.full(1), large, dtypes.int8)
