"""Random numbers that a seed fixes: real TensorFlow returns the same."""
import numpy as np

from tests.registry.sample import f, sample

SHAPE, SEED = np.int32([3, 5]), np.int64([123, -456])
for op in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"):
    for dtype in ("half", "bfloat16", "float32", "float64"):
        sample(op, SHAPE, SEED, dtype=dtype)
for dtype in ("int32", "int64", "uint32", "uint64"):
    sample("StatelessRandomUniformFullInt", SHAPE, SEED, dtype=dtype)
sample("StatelessRandomUniformInt", SHAPE, SEED, np.int32(-3), np.int32(1000))
sample("StatelessRandomUniformInt", SHAPE, np.int32([7, 8]), np.int64(-2**62), np.int64(2**62 + 5))
sample("StatelessMultinomial", f(2, 3), np.int32(7), SEED)
sample("StatelessRandomGammaV2", np.int32([4, 3]), SEED, np.float32([0.4, 1, 5]), grad=False)
sample("StatelessRandomPoisson", np.int32([4, 3]), SEED, np.float32([0.4, 9, 50]), dtype="int32")
