"""Functions of one operand."""
import math

import numpy as np

from tests.registry.sample import f, i, sample

erf = np.vectorize(math.erf)


def complexes(*shape):
    """Random complex numbers near (0.6, 0.4)."""
    return (f(*shape, low=0.3, high=0.9) + 1j * f(*shape, low=0.2, high=0.6)).astype(np.complex64)


EVERYWHERE = {"Neg": np.negative, "Square": np.square, "Exp": np.exp, "Expm1": np.expm1, "Sin": np.sin, "Cos": np.cos,
              "Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh, "Atan": np.arctan, "Asinh": np.arcsinh,
              "Sigmoid": lambda x: 1 / (1 + np.exp(-x))}
for op, ref in EVERYWHERE.items():
    sample(op, f(2, 3), expect=ref)
    sample(op, f(4, dtype=np.float16), expect=ref, rtol=3e-3, atol=3e-3, grad=False)
    sample(op, complexes(3), expect=ref, rtol=1e-4)
POSITIVE = {"Sqrt": np.sqrt, "Log": np.log, "Log1p": np.log1p, "Rsqrt": lambda x: 1 / np.sqrt(x),
            "Reciprocal": lambda x: 1 / x, "Inv": lambda x: 1 / x}
for op, ref in POSITIVE.items():
    sample(op, f(2, 3, low=0.3, high=3), expect=ref)
    sample(op, complexes(3), expect=ref, rtol=1e-4)
for op, ref in {"Asin": np.arcsin, "Acos": np.arccos, "Atanh": np.arctanh, "Tan": np.tan}.items():
    sample(op, f(2, 3, low=-0.8, high=0.8), expect=ref)
sample("Acosh", f(2, 3, low=1.3, high=4), expect=np.arccosh)
sample("Abs", f(2, 3), expect=np.abs)
sample("Abs", i(2, 3), expect=np.abs)
sample("Sign", np.array([-2.5, 0, 3], np.float32), expect=np.sign, grad=False)
sample("Sign", i(5), expect=np.sign)
sample("Sign", np.array([3 + 4j, 0], np.complex64), expect=lambda x: np.array([0.6 + 0.8j, 0], np.complex64), grad=False)
sample("Square", i(2, 3), expect=np.square)
sample("Neg", i(2, 3), expect=np.negative)
sample("Erf", f(2, 3), expect=erf)
sample("Erfc", f(2, 3), expect=lambda x: 1 - erf(x))
sample("Erfinv", f(2, 3, low=-0.8, high=0.8))
sample("Ndtri", f(2, 3, low=0.1, high=0.9))
HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.2], np.float32)
for op, ref in {"Floor": np.floor, "Ceil": np.ceil, "Round": np.round, "Rint": np.rint}.items():
    sample(op, HALVES, expect=ref, grad=False)
sample("Round", i(3), expect=lambda x: x)
ODD = np.array([1, np.nan, np.inf, -np.inf], np.float32)
for op, ref in {"IsNan": np.isnan, "IsInf": np.isinf, "IsFinite": np.isfinite}.items():
    sample(op, ODD, expect=ref)

GRADS = {"TanhGrad": lambda y, dy: dy * (1 - y * y), "SigmoidGrad": lambda y, dy: dy * y * (1 - y),
         "InvGrad": lambda y, dy: -dy * y * y, "ReciprocalGrad": lambda y, dy: -dy * y * y,
         "SqrtGrad": lambda y, dy: dy * 0.5 / y, "RsqrtGrad": lambda y, dy: dy * -0.5 * y ** 3}
for op, ref in GRADS.items():
    sample(op, f(2, 3, low=0.3, high=0.9), f(2, 3), expect=ref)
