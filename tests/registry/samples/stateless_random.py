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

# what the seed [3, 4] becomes
KEYED = (np.array([5186321457711525117], np.uint64), np.array([0, 2956673722964415482], np.uint64), np.int32(1))
sample("StatelessRandomGetKeyCounter", np.array([3, 4]), expect=lambda seed: KEYED[:2])
sample("StatelessRandomGetKeyCounterAlg", np.array([3, 4]), expect=lambda seed: KEYED)
sample("StatelessRandomGetAlg", expect=lambda: np.int32(1))
for name, values, more in (
        ("UniformV2", np.float32([0.24328744, 0.9835063, 0.22041726]), ()),
        ("NormalV2", np.float32([-0.17393383, 1.6723547, 0.34817016]), ()),
        ("UniformFullIntV2", np.array([15563846067247064075, 4520458231610095266, 15018079513829641671], np.uint64), ()),
        ("UniformIntV2", np.array([98, 32, 7], np.int32), (np.int32(-5), np.int32(100))),
        ("GammaV3", np.float32([1.7028308, 1.1621073, 2.6529496]), (np.float32(2),))):
    sample(f"StatelessRandom{name}", np.array([3], np.int32), *KEYED, *more, grad=False,
           expect=lambda *_, values=values: values)
sample("StatelessTruncatedNormalV2", np.array([3], np.int32), *KEYED, grad=False,
       expect=lambda *_: np.float32([-0.17393383, 1.6723547, 0.34817016]))
