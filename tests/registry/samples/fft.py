"""Fourier transforms."""
import numpy as np

from tests.registry.sample import f, sample


def complexes(*shape):
    """Random complex numbers."""
    return (f(*shape) + 1j * f(*shape)).astype(np.complex64)


def over(rank, function):
    """numpy's transform over the last dimensions."""
    return lambda x: function(x, axes=range(-rank, 0)).astype(np.complex64)


for rank, suffix in {1: "", 2: "2D", 3: "3D"}.items():
    for prefix in ("", "Batch"):
        sample(f"{prefix}FFT{suffix}", complexes(2, 3, 4, 5), expect=over(rank, np.fft.fftn), rtol=1e-4, atol=1e-4)
        sample(f"{prefix}IFFT{suffix}", complexes(2, 3, 4, 5), expect=over(rank, np.fft.ifftn), rtol=1e-4, atol=1e-4)
    for lengths in ([2, 3, 4][-rank:], [2, 4, 5][-rank:]):
        sample(f"RFFT{suffix}", f(2, 2, 4, 5), np.int32(lengths), rtol=1e-4, atol=1e-4,
               expect=lambda x, s: np.fft.rfftn(x, s=s, axes=range(-len(s), 0)).astype(np.complex64))
        sample(f"IRFFT{suffix}", complexes(2, 2, 4, 5), np.int32(lengths), rtol=1e-4, atol=1e-4,
               expect=lambda x, s: np.fft.irfftn(x, s=s, axes=range(-len(s), 0)).astype(np.float32))
