"""Complex numbers."""
import numpy as np

import penstock.compat.v1 as tf
from tests.registry.sample import f, sample

Z = (f(2, 3) + 1j * f(2, 3)).astype(np.complex64)
for op, ref in {"Real": np.real, "Imag": np.imag, "Angle": np.angle, "ComplexAbs": np.abs}.items():
    sample(op, Z, expect=ref, Tout=tf.float32)
    sample(op, Z.astype(np.complex128), expect=ref, Tout=tf.float64)
sample("Conj", Z, expect=np.conj)
sample("Complex", f(2, 3), f(3), expect=lambda x, y: x + 1j * y, Tout=tf.complex64)
