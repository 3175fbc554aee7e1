"""Differences of calls that stay, each with its reason."""

from __future__ import annotations

import re

_NO_KERNEL = r"NotFoundError.*: Could not find device|No OpKernel was registered|NotFoundError there"
_INSIDE = r"has no attribute 'astype'|has no len\(\)|'NoneType' and 'int'"
_VECTORS = r".*\b(svd|eigh?|eigvals|self_adjoint\w*|[Bb]atch\w*Eig\w*|Svd|Eig|SelfAdjointEigV2)\b"
_ROWS = r"keras.layers.(Discretization|StringLookup|IntegerLookup|Hashing)"
_LATER = r"InvalidArgumentError here, ValueError there|in user code|Cast string"
# (kind of the difference, name [kind of call], what differs, why it stays)
KNOWN = [
    (r".*", _VECTORS, r"tensor", "vectors have no sign, eigenvalues no order"),
    (r"raises there|exception", r".*", _NO_KERNEL, "TensorFlow has no kernel for the dtype"),
    (r"raises there", r".*", _INSIDE, "an error inside of TensorFlow"),
    (r"static shape", r".*", r"\d.* here, .*None.* there", "more is known here"),
    (r"text", r"keras.layers.EinsumDense", r"None", "the sizes of the output are known here"),
    (r".*", _ROWS, r"Exception encountered|^\[", "rows of inputs with several axes"),
    (r".*", r"keras.metrics.(F1Score|FBetaScore|R2Score)", r"ValueError|requested", "labels of another dtype, or of one axis"),
    (r"value", r"keras.layers.Dense \[layer\]", r"0.000", "sums of float16"),
    (r"exception|raises", r"data.Dataset", _LATER, "errors of a run instead of a trace"),
    (r"raises here", r"data.Dataset", r"dense_to_sparse_batch", "sparse batches of sparse elements"),
    (r"exception", r"data.Dataset", r"UniqueDataset|the row shape", "found before the op runs"),
    (r"value", r"nn\.(silu|swish) \[gradients", r"shape", "TensorFlow sums the gradient of a beta of several numbers"),
    (r"value", r".*(cumprod|prod|sqrtm) \[grad", r"tensor", "TensorFlow does not conjugate these gradients"),
    (r"value", r"signal\.frame \[vec", r"tensor", "TensorFlow pads rows with zeros there, whatever the value"),
    (r"value", r"strings\.format \[vec", r"tensor", "TensorFlow formats all rows as one tensor"),
    (r"value", r".*bessel_i1 \[grad", r"tensor", "TensorFlow gives 1 for the derivative at 0, which is 0.5"),
    (r"exception", r".*assert.* \[vec", r"AssertionError there", "an error inside of TensorFlow"),
    (r"value", r"random\.stateless_(binomial|param)", r"tensor", "other numbers of the same distribution"),
    (r"value", r".*linalg.expm", r"tensor", "more exact here"),
]


def reason(what: str, case: dict, why: str) -> str:
    """Why a difference stays; empty if it is not known."""
    name = f"{case['name']} [{case['kind']}]"
    found = [because for kind, names, text, because in KNOWN
             if re.match(kind, what) and re.match(names, name) and re.search(text, why)]
    return found[0] if found else ""
