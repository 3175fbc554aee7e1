"""Of `ops.list_ops`: lists of tensors, with arguments that may be missing where those of the ops may not."""
from __future__ import annotations

from typing import Any

from penstock._src.base.static_shape import TensorShape
from penstock._src.graph.convert import convert
from penstock._src.ops.registry import get


def _shape(shape: Any) -> Any:
    """A shape as the tensor that the ops take: -1 for unknown dimensions, a scalar -1 for an unknown rank."""
    if shape is None or isinstance(shape, TensorShape) and shape.rank is None:
        return -1
    if isinstance(shape, TensorShape):
        shape = shape.as_list()
    if isinstance(shape, (list, tuple)):
        shape = [-1 if d is None else d for d in shape]
    return convert(shape, None if hasattr(shape, "dtype") else "int32")


def empty_tensor_list(element_shape: Any, element_dtype: Any, max_num_elements: Any = None, name: str | None = None) -> Any:
    """An empty list."""
    most = -1 if max_num_elements is None else max_num_elements
    return get("EmptyTensorList")(_shape(element_shape), most, element_dtype=element_dtype, name=name)


def tensor_list_reserve(element_shape: Any, num_elements: Any, element_dtype: Any, name: str | None = None) -> Any:
    """A list of `num_elements` tensors that are not set."""
    return get("TensorListReserve")(_shape(element_shape), num_elements, element_dtype=element_dtype, name=name)


def tensor_list_from_tensor(tensor: Any, element_shape: Any, name: str | None = None) -> Any:
    """The rows of a tensor as a list."""
    return get("TensorListFromTensor")(tensor, _shape(element_shape), name=name)


def tensor_list_get_item(input_handle: Any, index: Any, element_dtype: Any, element_shape: Any = None,
                         name: str | None = None) -> Any:
    """One element."""
    return get("TensorListGetItem")(input_handle, index, _shape(element_shape), element_dtype=element_dtype, name=name)


def tensor_list_pop_back(input_handle: Any, element_dtype: Any, name: str | None = None) -> Any:
    """The list without its last element, and that element."""
    return get("TensorListPopBack")(input_handle, -1, element_dtype=element_dtype, name=name)


def tensor_list_gather(input_handle: Any, indices: Any, element_dtype: Any, element_shape: Any = None,
                       name: str | None = None) -> Any:
    """Some elements, stacked."""
    return get("TensorListGather")(input_handle, indices, _shape(element_shape), element_dtype=element_dtype, name=name)


def tensor_list_scatter(tensor: Any, indices: Any, element_shape: Any = None, input_handle: Any = None,
                        name: str | None = None) -> Any:
    """A list with rows of a tensor at `indices`; the list `input_handle` changed there, if given."""
    if input_handle is not None:
        return get("TensorListScatterIntoExistingList")(input_handle, tensor, indices, name=name)
    return get("TensorListScatterV2")(tensor, indices, _shape(element_shape), -1, name=name)


def tensor_list_stack(input_handle: Any, element_dtype: Any, num_elements: int = -1, element_shape: Any = None,
                      name: str | None = None) -> Any:
    """All elements, stacked."""
    return get("TensorListStack")(input_handle, _shape(element_shape), element_dtype=element_dtype, num_elements=num_elements,
                                  name=name)


def tensor_list_concat(input_handle: Any, element_dtype: Any, element_shape: Any = None, name: str | None = None) -> Any:
    """All elements, joined along their first dimension."""
    return get("TensorListConcatV2")(input_handle, _shape(element_shape), convert([], "int64"), element_dtype=element_dtype,
                                     name=name)[0]


def tensor_list_split(tensor: Any, element_shape: Any, lengths: Any, name: str | None = None) -> Any:
    """A list of parts of a tensor, of `lengths` rows."""
    return get("TensorListSplit")(tensor, _shape(element_shape), lengths, name=name)


def tensor_list_set_item(input_handle: Any, index: Any, item: Any, resize_if_index_out_of_bounds: bool = False,
                         name: str | None = None) -> Any:
    """The list with another element at `index`."""
    return get("TensorListSetItem")(input_handle, index, item, resize_if_index_out_of_bounds=resize_if_index_out_of_bounds,
                                    name=name)
