"""Special functions."""
import math

import numpy as np

from tests.registry.sample import f, sample

lgamma = np.vectorize(math.lgamma)
sample("Lgamma", f(2, 3, low=0.3, high=5), expect=lgamma)
sample("Digamma", f(2, 3, low=0.3, high=5))
sample("Polygamma", np.array([1, 2, 0], np.float32), f(3, low=0.5, high=3), grad=[1])
sample("Zeta", f(3, low=1.5, high=4), f(3, low=0.5, high=3), grad=[1])
sample("Zeta", np.float64(2), np.float64(1), grad=[1],
       expect=lambda x, q: np.float64(math.pi ** 2 / 6))
sample("Igamma", f(2, 3, low=0.5, high=4), f(3, low=0.5, high=6))
sample("Igamma", np.ones(3, np.float32), f(3, low=0.1, high=4), expect=lambda a, x: 1 - np.exp(-x))
sample("Igammac", f(2, 3, low=0.5, high=4), f(3, low=0.5, high=6))
sample("IgammaGradA", f(2, 3, low=0.5, high=4), f(3, low=0.5, high=6))
sample("Betainc", f(3, low=0.5, high=4), f(3, low=0.5, high=4), f(3, low=0.1, high=0.9), grad=[2])
sample("Betainc", np.float32(2), np.float32(1), f(3, low=0.1, high=0.9), expect=lambda a, b, x: x ** 2, grad=[2])
for kind in ("I0", "I0e", "I1", "I1e", "J0", "J1"):
    sample(f"Bessel{kind}", f(2, 3, low=-3, high=3))
for kind in ("Y0", "Y1", "K0", "K1", "K0e", "K1e"):
    sample(f"Bessel{kind}", f(2, 3, low=0.5, high=4))


def integral(function, start=0.0, before=0.0):
    """A numpy reference by the trapezoidal rule."""
    def compute(x):
        t = start + (x[..., None].astype(np.float64) - start) * np.linspace(0, 1, 4001)
        return (before + np.trapezoid(function(t), t, axis=-1)).astype(x.dtype)
    return compute


near = f(2, 3, low=0.2, high=1.8)
sample("Dawsn", near, expect=lambda x: np.exp(-x * x) * integral(lambda t: np.exp(t * t))(x))
sample("Expint", near, expect=integral(lambda t: np.exp(t) / t, 1.0, 1.8951178163559368))
sample("FresnelCos", near, expect=integral(lambda t: np.cos(np.pi / 2 * t * t)))
sample("FresnelSin", near, expect=integral(lambda t: np.sin(np.pi / 2 * t * t)))
sample("Spence", near, expect=integral(lambda t: np.log(t) / (1 - t), 1 + 1e-7))
