"""Samples of candidate samplers: with seeds they draw what TensorFlow draws."""
import numpy as np

from tests.registry.sample import sample

_true = np.array([[1, 2], [0, 4], [3, 3]], np.int64)
_NUM = {"num_true": 2, "num_sampled": 4}
_SEEDS = {"seed": 5, "seed2": 9}
for _name in ("Uniform", "LogUniform", "LearnedUnigram", "ThreadUnsafeUnigram"):
    for _unique in (False, True):
        for _range in (7, 8):
            sample(f"{_name}CandidateSampler", _true, **_NUM, **_SEEDS, unique=_unique, range_max=_range, random=True)
for _unique in (False, True):
    sample("FixedUnigramCandidateSampler", _true, **_NUM, **_SEEDS, unique=_unique, range_max=7, num_reserved_ids=1,
           unigrams=[1.0, 4.0, 2.0, 3.0, 1.0, 5.0], distortion=0.75, random=True)
sample("AllCandidateSampler", _true, num_true=2, num_sampled=5, unique=True,
       expect=lambda t: [np.arange(5), np.ones((3, 2), np.float32), np.ones(5, np.float32)])
sample("ComputeAccidentalHits", _true, np.array([4, 3, 9, 1, 3], np.int64), num_true=2,
       expect=lambda t, s: [np.array([0, 1, 2, 2], np.int32), np.array([3, 0, 4, 4]),
                            np.full(4, np.finfo(np.float32).min)])
