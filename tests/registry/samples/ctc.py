"""Samples of CTC."""
import numpy as np

from tests.registry.sample import f, sample

_x, _lengths = f(7, 3, 5), np.array([7, 5, 6], np.int32)
_where = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1]], np.int64)
_labels = np.array([1, 1, 3, 2, 0, 2], np.int32)
for _attrs in ({}, {"ctc_merge_repeated": False}, {"preprocess_collapse_repeated": True},
               {"ignore_longer_outputs_than_inputs": True}):
    sample("CTCLoss", _x, _where, _labels, _lengths, **_attrs, grad=False)
for _merge in (False, True):
    sample("CTCGreedyDecoder", _x, _lengths, merge_repeated=_merge)
    sample("CTCBeamSearchDecoder", _x, _lengths, beam_width=8, top_paths=3, merge_repeated=_merge)
    sample("CTCBeamSearchDecoder", f(4, 2, 3, dtype=np.float64), np.array([4, 2], np.int32), beam_width=50, top_paths=2,
           merge_repeated=_merge)
