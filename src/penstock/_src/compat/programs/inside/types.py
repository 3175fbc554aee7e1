"""Of `types.core`: the types of tensors."""
from penstock._src.graph.node import SymbolicTensor as Symbol  # noqa: F401
from penstock._src.graph.node import TensorType as Tensor  # noqa: F401
from penstock._src.graph.trace_type import TensorLike  # noqa: F401
