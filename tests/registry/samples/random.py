"""Random numbers with state: their values are checked in tests/ops/random/test_random.py."""
import numpy as np

from tests.registry.sample import f, i, sample

SHAPE = np.int32([3, 4])
for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    sample(op, SHAPE, dtype="float32", random=True)
    sample(op, SHAPE, dtype="half", seed=1, seed2=2, random=True)
sample("RandomUniformInt", SHAPE, np.int32(-3), np.int32(9), random=True)
sample("RandomUniformInt", SHAPE, np.int64(-3), np.int64(9), seed=1, random=True)
sample("ParameterizedTruncatedNormal", SHAPE, f(3), f(3, low=0.5, high=1), np.float32(-3), np.float32(3), random=True)
sample("ParameterizedTruncatedNormal", SHAPE, np.float32(0), np.float32(1), np.float32(5), np.float32(6), seed=1,
       random=True)
sample("RandomGamma", SHAPE, f(2, low=0.3, high=4), random=True)
sample("RandomGamma", SHAPE, f(2, low=0.3, high=4), seed=1, random=True)
sample("RandomGammaGrad", f(2, 3, low=0.5, high=4), f(2, 3, low=0.5, high=4))
sample("RandomPoisson", SHAPE, f(2, low=0.3, high=20), seed=1, random=True)
sample("RandomPoissonV2", SHAPE, f(2, low=0.3, high=20), random=True)
sample("RandomPoissonV2", SHAPE, f(2, low=0.3, high=20), seed=1, dtype="float32", random=True)
sample("RandomShuffle", f(5, 2), random=True)
sample("RandomShuffle", i(5), seed=1, random=True)
sample("Multinomial", f(2, 3), np.int32(4), random=True)
sample("Multinomial", f(2, 3), np.int32(4), seed=1, output_dtype="int32", random=True)
sample("RandomCrop", f(5, 6, 2), np.array([2, 3], np.int64), seed=1, random=True)
sample("RandomCrop", f(5, 6, 2), np.array([5, 6], np.int64), expect=lambda image, size: image)
_TRIALS = np.array([4.0, 10.0, 30.0], np.float32)
sample("StatelessRandomBinomial", np.array([3], np.int32), np.array([1, 2], np.int32), _TRIALS, np.float32(0.3), dtype="int32",
       random=True)
