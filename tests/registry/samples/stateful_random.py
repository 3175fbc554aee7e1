"""Random numbers whose state is a variable: real TensorFlow returns the same, and leaves the same state."""
import numpy as np

from tests.registry.sample import sample

STATE, PHILOX, SHAPE = np.int64([1, -2, 3]), np.int64(1), np.int64([3, 5])
for op in ("StatefulUniform", "StatefulStandardNormalV2", "StatefulTruncatedNormal"):
    sample(op, STATE, PHILOX, SHAPE, dtype="float32")
    sample(op, STATE, PHILOX, np.int32([3]), dtype="float64")
sample("StatefulUniformFullInt", STATE, PHILOX, SHAPE, dtype="uint64")
sample("StatefulUniformFullInt", STATE, PHILOX, SHAPE, dtype="int32")
sample("StatefulUniformInt", STATE, PHILOX, SHAPE, np.int64(-3), np.int64(1000))
sample("RngSkip", STATE, PHILOX, np.int64(7))
sample("RngReadAndSkip", STATE, np.int32(1), np.uint64(7))
sample("NonDeterministicInts", SHAPE, random=True)
OLD_STATE = np.int64([1, 5, -2, 3])
sample("StatefulStandardNormal", OLD_STATE, SHAPE, dtype="float32")
sample("StatefulStandardNormal", OLD_STATE, np.int32([4]), dtype="float64")
sample("StatefulRandomBinomial", STATE, PHILOX, np.int32([3]), np.array([4.0, 10.0, 30.0], np.float32), np.float32(0.3),
       dtype="int32", random=True)
