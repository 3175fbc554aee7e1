"""Samples of diagonals and bands."""
import numpy as np

from tests.registry.sample import f, i, sample

BAND = np.array([-1, 2], np.int32)
ZERO = np.float32(0)
NONE = np.int32(-1)

sample("Diag", f(2, 3))
sample("DiagPart", f(2, 3, 2, 3))
for _name in ("MatrixDiag", "BatchMatrixDiag"):
    sample(_name, f(2, 3), expect=lambda d: np.stack([np.diag(r) for r in d]))
for _name in ("MatrixDiagPart", "BatchMatrixDiagPart"):
    sample(_name, f(2, 3, 4), expect=lambda x: np.diagonal(x, 0, 1, 2))
    sample(_name, f(3, 3), expect=np.diagonal)
for _name in ("MatrixSetDiag", "BatchMatrixSetDiag"):
    sample(_name, f(2, 3, 4), f(2, 3))
for _name in ("MatrixDiagV2", "MatrixDiagV3"):
    sample(_name, f(2, 4, 3), BAND, np.int32(3), np.int32(4), np.float32(9), grad=[0])
    sample(_name, f(2, 3), np.int32(1), NONE, NONE, ZERO, grad=[0])
for _name in ("MatrixDiagPartV2", "MatrixDiagPartV3"):
    sample(_name, f(2, 3, 4), BAND, np.float32(9), grad=[0])
    sample(_name, f(3, 4), np.int32(-1), ZERO, grad=[0])
for _name in ("MatrixSetDiagV2", "MatrixSetDiagV3"):
    sample(_name, f(2, 3, 4), f(2, 4, 3), BAND)
    sample(_name, f(3, 4), f(2), np.int32(-1))
sample("MatrixDiagPartV3", i(3, 4), BAND, np.int32(7), align="LEFT_RIGHT")
sample("MatrixBandPart", f(2, 3, 4), np.int64(1), np.int64(-1), expect=lambda x, a, b: np.triu(x, -1))
sample("MatrixBandPart", f(3, 4), np.int32(0), np.int32(2), expect=lambda x, a, b: np.tril(np.triu(x), 2))
sample("BatchMatrixBandPart", f(2, 3, 4), np.int64(-1), np.int64(1))
