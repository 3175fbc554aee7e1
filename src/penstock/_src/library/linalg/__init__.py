"""Linear operators: structured matrices that multiply, solve and factor without a dense matrix.

Each file has one class, with the rules by which it combines with others (see `algebra`). `linear_operator` has the base class.
"""
from penstock._src.library.linalg import (  # noqa: F401
    conjugate_gradient,
    linear_operator,
    linear_operator_adjoint,
    linear_operator_block_diag,
    linear_operator_block_lower_triangular,
    linear_operator_circulant,
    linear_operator_composition,
    linear_operator_diag,
    linear_operator_full_matrix,
    linear_operator_householder,
    linear_operator_identity,
    linear_operator_inversion,
    linear_operator_kronecker,
    linear_operator_low_rank_update,
    linear_operator_lower_triangular,
    linear_operator_permutation,
    linear_operator_scaled_identity,
    linear_operator_toeplitz,
    linear_operator_tridiag,
    linear_operator_zeros,
)
