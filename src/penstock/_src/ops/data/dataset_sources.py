"""Datasets from tensors, ranges, sparse tensors, lists and generators."""
from __future__ import annotations

from penstock._src.base import dtypes, errors
from penstock._src.data.pipelines import sources
from penstock._src.data.pipelines.batching import Elements
from penstock._src.ops.data.dataset_base import body, dataset, integer

_TYPED = "Toutput_types: list(type) >= 1, output_shapes: list(shape) >= 1"


@dataset("TensorDataset", inputs="components: Toutput_types", outputs=_TYPED)
def _tensor_dataset(components):
    return sources.Tensors(components)


@dataset("TensorSliceDataset", inputs="components: Toutput_types",
         outputs=_TYPED + ", is_files: bool = False, replicate_on_split: bool = False")
def _tensor_slice_dataset(components):
    return sources.Slices(components)


@dataset("RangeDataset", inputs="start: int64, stop: int64, step: int64")
def _range_dataset(start, stop, step):
    return sources.Range(integer(start, "start"), integer(stop, "stop"), integer(step, "step"))


@dataset("SparseTensorSliceDataset", inputs="indices: int64, values: Tvalues, dense_shape: int64", attrs="Tvalues: type",
         outputs="")
def _sparse_tensor_slice_dataset(indices, values, dense_shape, *, Tvalues):
    made = sources.SparseSlices(indices, values, dense_shape)
    made.types = (dtypes.int64, Tvalues, dtypes.int64)
    rank = len(dense_shape) - 1
    made.shapes = ((None, rank), (None,), (rank,))
    return made


@dataset("GeneratorDataset", stateful=True,
         inputs="init_func_other_args: Tinit_func_args, next_func_other_args: Tnext_func_args, "
                "finalize_func_other_args: Tfinalize_func_args",
         attrs="init_func: func, next_func: func, finalize_func: func, Tinit_func_args: list(type) >= 0, "
               "Tnext_func_args: list(type) >= 0, Tfinalize_func_args: list(type) >= 0")
def _generator_dataset(first, following, last, *, init_func, next_func, finalize_func, node):
    return sources.Generator(body(init_func, node, first), body(next_func, node, following), body(finalize_func, node, last))


@dataset("ListDataset", inputs="tensors: Tinput_types", attrs="Tinput_types: list(type) >= 1, metadata: string = ''",
         stateful=True)
@dataset("WindowOp", inputs="inputs: Tinputs", attrs="Tinputs: list(type) >= 1")
def _list_dataset(tensors, *, output_types, output_shapes):
    size = len(output_types)
    if len(tensors) % size:
        raise errors.invalid(f"The number of tensors, {len(tensors)}, is not a multiple of the number of components, {size}")
    return Elements([tuple(tensors[i:i + size]) for i in range(0, len(tensors), size)], tuple(output_types),
                    tuple(s.static_dims for s in output_shapes))
