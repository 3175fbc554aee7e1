"""The interface of all kinds of variables: the methods, their arguments and meaning.

`Variable` inherits from it; reference variables, resource variables and others implement it.
"""
from __future__ import annotations

from typing import Any


class VariableInterface:
    """The methods and properties of a variable. A method that a kind of variable does not implement raises
    NotImplementedError."""

    # -- parts --------------------------------------------------------------------------------------------------------
    @property
    def dtype(self) -> Any:
        """The DType of the elements."""
        raise NotImplementedError

    @property
    def shape(self) -> Any:
        """The static shape."""
        raise NotImplementedError

    @property
    def device(self) -> Any:
        """The device of the variable."""
        raise NotImplementedError

    @property
    def graph(self) -> Any:
        """The graph of the variable."""
        raise NotImplementedError

    @property
    def op(self) -> Any:
        """The operation that creates the variable."""
        raise NotImplementedError

    @property
    def initializer(self) -> Any:
        """The operation that initializes the variable."""
        raise NotImplementedError

    @property
    def initial_value(self) -> Any:
        """The tensor that the variable is initialized from."""
        raise NotImplementedError

    def set_shape(self, shape: Any) -> None:
        """Merges what is known about the shape."""
        raise NotImplementedError

    # -- reading ------------------------------------------------------------------------------------------------------
    def value(self) -> Any:
        """The value, which may have been read earlier."""
        raise NotImplementedError

    def read_value(self) -> Any:
        """The value, read at this point: after the open control dependencies."""
        raise NotImplementedError

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """The rows that `indices` name."""
        raise NotImplementedError

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """The slices that `indices` name, as in tf.gather_nd."""
        raise NotImplementedError

    # -- writing ------------------------------------------------------------------------------------------------------
    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Replaces the value. With `read_value`, returns the new value, else the operation."""
        raise NotImplementedError

    def assign_add(self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Adds to the value."""
        raise NotImplementedError

    def assign_sub(self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Subtracts from the value."""
        raise NotImplementedError

    def scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Replaces the rows that IndexedSlices name."""
        raise NotImplementedError

    def scatter_add(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Adds IndexedSlices to the rows that they name."""
        raise NotImplementedError

    def scatter_sub(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Subtracts IndexedSlices from the rows that they name."""
        raise NotImplementedError

    def scatter_mul(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Multiplies the rows that IndexedSlices name by them."""
        raise NotImplementedError

    def scatter_div(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Divides the rows that IndexedSlices name by them."""
        raise NotImplementedError

    def scatter_min(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """The minimum of the rows that IndexedSlices name and these."""
        raise NotImplementedError

    def scatter_max(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """The maximum of the rows that IndexedSlices name and these."""
        raise NotImplementedError

    def batch_scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """scatter_update, for a batch of variables with a batch of slices each."""
        raise NotImplementedError

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Replaces the slices that `indices` name."""
        raise NotImplementedError

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Adds to the slices that `indices` name."""
        raise NotImplementedError

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Subtracts from the slices that `indices` name."""
        raise NotImplementedError

    def count_up_to(self, limit: int) -> Any:
        """Increments until `limit` is reached, and returns the previous value; then raises OutOfRangeError."""
        raise NotImplementedError
