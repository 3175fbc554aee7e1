"""Samples of patches."""
from tests.registry.sample import f, sample

sample("ExtractImagePatches", f(2, 5, 6, 3), ksizes=[1, 3, 2, 1], strides=[1, 2, 1, 1], rates=[1, 1, 2, 1],
       padding="VALID")
sample("ExtractImagePatches", f(1, 4, 4, 1), ksizes=[1, 3, 3, 1], strides=[1, 2, 2, 1], rates=[1, 1, 1, 1],
       padding="SAME")
sample("ExtractVolumePatches", f(1, 3, 4, 3, 2), ksizes=[1, 2, 2, 2, 1], strides=[1, 1, 2, 1, 1], padding="SAME")
sample("ExtractVolumePatches", f(1, 3, 4, 3, 2), ksizes=[1, 2, 3, 2, 1], strides=[1, 1, 1, 1, 1], padding="VALID")
