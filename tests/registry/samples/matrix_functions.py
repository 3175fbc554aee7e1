"""Functions of matrices."""
import numpy as np

from tests.registry.sample import sample
from tests.registry.samples.linalg import complexes, definite


def by_eigenvalues(function):
    """A function of symmetric matrices."""
    def apply(a):
        e, v = np.linalg.eigh(a.real.astype(np.float64))
        return (v * function(e)[..., None, :]) @ np.swapaxes(v, -1, -2)
    return apply


sample("MatrixSquareRoot", definite(2, 3, 3), expect=by_eigenvalues(np.sqrt), rtol=1e-4)
sample("MatrixSquareRoot", complexes(3, 3))
sample("MatrixSquareRoot", np.float64([[1, 1], [0, 1]]), expect=lambda a: np.float64([[1, 0.5], [0, 1]]))
sample("MatrixLogarithm", definite(2, 3, 3).astype(np.complex64), expect=by_eigenvalues(np.log), rtol=1e-4)
sample("MatrixLogarithm", complexes(3, 3))
sample("MatrixExponential", np.stack([np.zeros((3, 3)), np.diag([1, 2, 3])]).astype(np.float32),
       expect=lambda a: np.stack([np.eye(3), np.diag(np.exp([1, 2, 3]))]), rtol=1e-4)
sample("MatrixExponential", complexes(3, 3))
