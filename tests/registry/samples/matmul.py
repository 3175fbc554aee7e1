"""Products of matrices."""
import numpy as np

from tests.registry.sample import f, i, sample


def turned(x, t):
    return np.swapaxes(x, -1, -2) if t else x


for t_a in (False, True):
    for t_b in (False, True):
        a, b = f(*((3, 2) if t_a else (2, 3))), f(*((4, 3) if t_b else (3, 4)))
        sample("MatMul", a, b, transpose_a=t_a, transpose_b=t_b,
               expect=lambda a, b, t_a=t_a, t_b=t_b: turned(a, t_a) @ turned(b, t_b))
        sample("SparseMatMul", a, b, transpose_a=t_a, transpose_b=t_b, a_is_sparse=True,
               expect=lambda a, b, t_a=t_a, t_b=t_b: turned(a, t_a) @ turned(b, t_b))
        x, y = f(5, *a.shape), f(5, *b.shape)
        sample("BatchMatMul", x, y, adj_x=t_a, adj_y=t_b,
               expect=lambda x, y, t_a=t_a, t_b=t_b: turned(x, t_a) @ turned(y, t_b))
        sample("BatchMatMulV2", x[:1], f(2, 1, *b.shape), adj_x=t_a, adj_y=t_b,
               expect=lambda x, y, t_a=t_a, t_b=t_b: turned(x, t_a) @ turned(y, t_b))
sample("MatMul", i(2, 3), i(3, 2), expect=np.matmul)
sample("MatMul", f(0, 3), f(3, 2), expect=np.matmul)
Z = (f(2, 3) + 1j * f(2, 3)).astype(np.complex64)
sample("MatMul", Z, Z.T.copy(), expect=np.matmul)
sample("BatchMatMulV2", Z[None], Z[None], adj_y=True, expect=lambda x, y: x @ np.conj(np.swapaxes(y, -1, -2)))
sample("BatchMatMulV2", f(2, 3), f(4, 3, 2), expect=np.matmul)
sample("Cross", f(4, 3), f(4, 3), expect=np.cross)
