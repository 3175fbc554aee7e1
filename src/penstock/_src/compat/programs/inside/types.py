"""Of `types.core`: what counts as a tensor."""
from penstock._src.graph.node import SymbolicTensor as Symbol  # noqa: F401
from penstock._src.graph.node import TensorType as Tensor  # noqa: F401
