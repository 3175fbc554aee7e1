"""Ops that return properties of datasets, single elements, and compressed elements."""
from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.data.pipelines import batching, codec, ordering, values
from penstock._src.data.pipelines.background import Prefetch
from penstock._src.data.pipelines.base import INFINITE
from penstock._src.data.pipelines.values import check_types
from penstock._src.ops.data.dataset_base import OUTPUTS, body, dataset, integer, on_host, stage_of
from penstock._src.ops.registry import op
from penstock._src.ops.state.lookup import initializable

_IN = "input_dataset: variant"


# -- facts ------------------------------------------------------------------------------------------------------------------
compute_batch_size = op("ComputeBatchSize", f"{_IN} -> batch_size: int64", foldable=False).no_gradient()
compute_batch_size.shape(lambda input_dataset: ())

# Stages whose elements have the batch size of their input.
_KEEPING = (ordering.Take, ordering.Skip, ordering.Shard, ordering.Repeat, ordering.Shuffle, Prefetch)


def _batch_size(stage: Any) -> int:
    """The number of rows of the elements, -1 if that is not known. The last batch may have fewer."""
    while isinstance(stage, _KEEPING):
        stage = stage.inputs[0]
    if isinstance(stage, (batching.Batch, batching.PaddedBatch)):
        return stage.size
    rows = {dims[0] if dims else None for dims in stage.shapes}
    size = rows.pop() if len(rows) == 1 else None
    return -1 if size is None else size


compute_batch_size.kernel(lambda input_dataset: torch.tensor(_batch_size(stage_of(input_dataset)), dtype=torch.int64),
                          device="cpu")

get_options = op("GetOptions", f"{_IN} -> serialized_options: string", foldable=False).no_gradient()
get_options.shape(lambda input_dataset: ())


@get_options.kernel(device="cpu")
def _get_options_kernel(input_dataset):
    """The options of the last dataset in the pipeline that sets any."""
    stage = stage_of(input_dataset)
    found: Any = b""
    while not found:
        if stage.recipe is not None and stage.recipe.opdef.name == "OptionsDataset":
            found = stage.recipe.attrs["serialized_options"]
        if len(stage.inputs) != 1:
            break
        stage = stage.inputs[0]
    return np.array(found.encode() if isinstance(found, str) else found, dtype=object)


# -- elements -----------------------------------------------------------------------------------------------------------------
element_at = op("GetElementAtIndex", "dataset: variant, index: int64 -> components: output_types", OUTPUTS,
                foldable=False).no_gradient()
element_at.shape(lambda dataset, index, *, output_shapes: [s.static_dims for s in output_shapes])


@element_at.kernel(device="cpu")
def _element_at_kernel(dataset, index, *, output_types, output_shapes, ctx):
    ctx, at = ctx.within(ctx.streams), integer(index, "index")
    ctx.random_access = True
    stage = stage_of(dataset)
    check_types(tuple(output_types), tuple(s.static_dims for s in output_shapes), stage.types, stage.shapes)
    size = stage.cardinality()
    if size == INFINITE:
        raise errors.FailedPreconditionError(None, None, "A dataset of infinite cardinality does not support random access")
    element = None
    if at >= 0 and (size < 0 or at < size):
        cursor = ordering.Skip(stage, at).iterate(ctx)
        try:
            element = cursor.next(ctx)
        finally:
            cursor.close()
    if element is None:
        raise errors.OutOfRangeError(None, None, f"Index out of range [0, {size if size >= 0 else 'end'}):{at}")
    return list(element)


class Compressed:
    """The components of an element as one string of bytes, deflated."""

    def __init__(self, components: list):
        data = codec.encode(list(components))
        self.size, self.data = len(data), zlib.compress(data, 1)

    def components(self) -> list:
        """The components."""
        inflate = zlib.decompressobj()
        data = inflate.decompress(self.data, self.size)
        if len(data) != self.size or inflate.unconsumed_tail:
            raise errors.DataLossError(None, None, "The compressed element is damaged")
        return codec.decode(data)


compress = op("CompressElement", "components: input_types -> compressed: variant", "input_types: list(type) >= 1",
              foldable=False).no_gradient()
compress.shape(lambda components: ())
compress.kernel(lambda components: Compressed(on_host(components)), device="cpu")

uncompress = op("UncompressElement", "compressed: variant -> components: output_types", OUTPUTS, foldable=False).no_gradient()
uncompress.shape(lambda compressed, *, output_shapes: [s.static_dims for s in output_shapes])


@uncompress.kernel(device="cpu")
def _uncompress_kernel(compressed, *, output_types):
    if isinstance(compressed, np.ndarray) and compressed.size == 1:
        compressed = compressed.reshape(-1)[0]
    if not isinstance(compressed, Compressed):
        raise errors.invalid("Tensor does not contain a compressed element")
    found = compressed.components()
    if len(found) != len(output_types):
        raise errors.FailedPreconditionError(None, None, f"Number of outputs does not match: expected {len(output_types)} but "
                                                         f"the element has {len(found)} components")
    return found


# -- functions ----------------------------------------------------------------------------------------------------------------
map_defun = op("MapDefun", "arguments: Targuments, captured_inputs: Tcaptured -> output: output_types",
               f"Targuments: list(type) >= 1, Tcaptured: list(type) >= 0 = [], {OUTPUTS}, f: func, "
               "max_intra_op_parallelism: int = 1", foldable=False).no_gradient()
map_defun.shape(lambda arguments, captured_inputs, *, output_shapes:
                [None if s.static_dims is None else ((arguments[0] or (None,))[0], *s.static_dims) for s in output_shapes])


@map_defun.kernel(device="cpu")
def _map_defun_kernel(arguments, captured_inputs, *, f, output_types, output_shapes, node, ctx):
    """A function of every row, the results stacked."""
    arguments = on_host(arguments)
    if any(not values.shape_of(a) for a in arguments):
        raise errors.invalid("All inputs must have rank at least 1.")
    if len({len(a) for a in arguments}) > 1:
        raise errors.invalid("All inputs must have the same dimension 0.")
    ctx = ctx.within(ctx.streams)
    run = body(f, node, captured_inputs).runner(ctx)
    rows = [run(ctx, element) for element in values.elements(tuple(arguments))]
    if rows:
        return list(values.batch(rows))
    out = []
    for dtype, shape in zip(output_types, output_shapes, strict=True):
        dims = shape.static_dims
        if dims is None or None in dims:
            raise errors.invalid("The shape of the result of no rows is not known")
        dims = (0, *dims)
        out.append(np.empty(dims, dtype=object) if dtype.torch is None else torch.empty(dims, dtype=dtype.torch))
    return out


@dataset("FinalizeDataset", inputs=_IN, attrs="has_captured_ref: bool = False")
def _finalize_dataset(input_dataset):
    return stage_of(input_dataset)


initialize_table = op("InitializeTableFromDataset", "table_handle: resource, dataset: variant ->", stateful=True).no_gradient()
initialize_table.shape(lambda table_handle, dataset: [])


@initialize_table.kernel(device="cpu")
def _initialize_table_kernel(table_handle, dataset, *, ctx):
    """Fills a table with the pairs of a dataset."""
    table, stage = initializable(table_handle), stage_of(dataset)
    if len(stage.types) != 2:
        raise errors.invalid("Dataset should have two output types only")
    table.check_types(*stage.types)
    ctx = ctx.within(ctx.streams)
    cursor = stage.iterate(ctx)
    pairs: list = []
    try:
        while (element := cursor.next(ctx)) is not None:
            pairs.append(element)
            ctx.remaining()                       # ends with the step's cancellation or deadline
    finally:
        cursor.close()
    if pairs and not table.initialized:
        table.initialize(*values.batch(pairs))
