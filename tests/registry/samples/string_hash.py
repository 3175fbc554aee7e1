"""Samples of hashes of strings: short, long, and at the borders between the lengths that are treated differently."""
import numpy as np

from tests.registry.sample import i, s, sample

LENGTHS = s(*(bytes(j * 7 % 256 for j in range(n)) for n in (0, 1, 3, 4, 7, 8, 16, 17, 32, 33, 64, 65, 128, 129, 300)))

sample("StringToHashBucketFast", LENGTHS, num_buckets=2 ** 62)
sample("StringToHashBucketFast", s("Hello", "TensorFlow", "2.x"), num_buckets=3, expect=lambda x: np.array([0, 2, 2]))
sample("StringToHashBucketStrong", LENGTHS, num_buckets=2 ** 62, key=[123456789, 987654321])
sample("StringToHashBucket", LENGTHS, num_buckets=2 ** 62)
sample("Fingerprint", LENGTHS, s("farmhash64").reshape(()))
sample("Fingerprint", i(3, 5), s("farmhash64").reshape(()))
sample("Fingerprint", LENGTHS[:14].reshape(7, 2), s("farmhash64").reshape(()))
sample("StringToHashBucketStrong", LENGTHS.reshape(-1, 1), num_buckets=7, key=[0, 1])
sample("StringToHashBucket", LENGTHS.reshape(1, -1), num_buckets=10)
