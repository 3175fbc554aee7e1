"""The functions behind methods of RaggedTensor, which are written in terms of the class.

They import the class, so `tensor.py` looks them up here when a method is called.
"""
from penstock._src.library.ragged.conversion import (
    from_sparse,
    from_tensor,
    from_variant,
    to_sparse,
    to_tensor,
    to_variant,
)
from penstock._src.library.ragged.dispatch import dispatch
from penstock._src.library.ragged.getitem import ragged_getitem
from penstock._src.library.ragged.merging import merge_dims
from penstock._src.library.ragged.spec import RaggedTensorSpec
from penstock._src.library.ragged.strings import ragged_text

__all__ = ["RaggedTensorSpec", "dispatch", "from_sparse", "from_tensor", "from_variant", "merge_dims", "ragged_getitem",
           "ragged_text", "to_sparse", "to_tensor", "to_variant"]
