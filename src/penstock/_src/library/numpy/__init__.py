"""tf.experimental.numpy: NumPy's functions on tensors, with NumPy's type promotion. Loaded when first requested."""
from penstock._src.library.numpy import (  # noqa: F401
    behavior,
    creation,
    elementwise,
    indexing,
    joining,
    products,
    random,
    reductions,
    shaping,
    types,
)
