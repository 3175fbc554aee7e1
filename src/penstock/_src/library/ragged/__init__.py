"""Ragged tensors: rows of different lengths. See tensor.py for the class; the ops are beside it."""
from penstock._src.library.ragged import (  # noqa: F401
    array,
    conversion,
    crossing,
    dispatch,
    factory,
    functional,
    gather,
    getitem,
    math,
    operators,
    partition,
    segments,
    spec,
    tensor,
    value,
)
