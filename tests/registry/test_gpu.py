"""Every sampled op with CUDA tensors against the same kernel on the CPU, where there is a GPU."""
import collections
import traceback

import numpy as np
import pytest
import torch

from penstock._src.base import dtypes
from penstock._src.graph.build import group_inputs
from penstock._src.kernels.bridge import to_numpy, to_torch
from penstock._src.kernels.devices import cuda
from penstock._src.ops.registry import OPS
from penstock._src.step.compile.adapt import loosely
from tests.registry.load import all_samples, ids
from tests.registry.running import Built

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


def numeric(sample):
    """Whether an op computes on numbers alone: strings and resources stay on the host."""
    opdef = OPS[sample.op]
    kernel = opdef.kernel_for("gpu")
    state = opdef.has_refs or any(a.type == dtypes.resource for a in opdef.inputs)
    return kernel is not None and not kernel.wants_ctx and not sample.random and not state and all(
        np.asarray(a).dtype != object for v in sample.inputs for a in (v if isinstance(v, list) else [v]))


ALL = [s for s in all_samples() if numeric(s)]


def outputs(op, values):
    out = op.opdef.kernel_for("gpu").bind(op.attrs, op)(*group_inputs(op.opdef, values, op.counts))
    flat = []

    def add(v):
        if isinstance(v, (list, tuple)):
            [add(x) for x in v]
        elif v is not None:
            flat.append(v)
    add(out)
    return flat


@pytest.fixture(autouse=True)
def _full_precision():
    allowed = cuda.tf32_allowed()
    cuda.allow_tf32(False)
    yield
    cuda.allow_tf32(allowed)


@pytest.mark.parametrize("sample", ALL, ids=ids(ALL))
def test_cuda_agrees_with_cpu(sample):
    built = Built(sample)
    if not built.outputs:
        pytest.skip("no outputs")
    op = built.outputs[0].op
    arrays = [built.feeds[t] if t in built.feeds else t.op.attrs["value"] for t in op.inputs]
    values = [to_torch(np.array(a), t.dtype.base_dtype) for a, t in zip(arrays, op.inputs, strict=True)]
    here = outputs(op, values)
    try:
        there = outputs(op, [v.cuda() for v in values])
    except NotImplementedError as e:
        if any(v.dtype.is_floating_point for v in values):
            raise
        pytest.skip(f"integers have no kernel on the GPU, as in TensorFlow: {e}")
    assert len(here) == len(there)
    for a, b in zip(here, there, strict=True):
        if isinstance(a, torch.Tensor):
            a, b = to_numpy(a), to_numpy(b)
            assert a.shape == b.shape and a.dtype == b.dtype
            if "Svd" in sample.op or "SelfAdjointEig" in sample.op:
                a, b = np.abs(a), np.abs(b)               # vectors are unique up to their sign
            if a.dtype.kind in "fc":
                np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)
            else:
                np.testing.assert_array_equal(a, b)


# Ops that inspect values on the host: the shapes of their results depend on them, or they must be checked there.
WAITING = frozenset((
    "BatchCholesky BatchMatrixInverse BatchMatrixSolve BatchMatrixSolveLs BatchMatrixTriangularSolve BatchSelfAdjointEig "
    "BatchSelfAdjointEigV2 BatchSvd Betainc Bincount CTCBeamSearchDecoder CTCGreedyDecoder CTCLoss CheckNumerics "
    "CheckNumericsV2 Cholesky CombinedNonMaxSuppression CompareAndBitpack ComputeAccidentalHits CropAndResize "
    "CropAndResizeGradBoxes CropAndResizeGradImage DataFormatDimMap DenseBincount DenseCountSparseOutput "
    "DenseToDenseSetOperation DenseToSparseSetOperation Dequantize DrawBoundingBoxes DrawBoundingBoxesV2 DynamicPartition "
    "DynamicStitch EditDistance Eig FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient FractionalAvgPool "
    "FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad HistogramFixedWidth IgammaGradA "
    "ImageProjectiveTransformV3 InplaceAdd InplaceSub InplaceUpdate LinSpace ListDiff Lu MatrixExponential MatrixInverse "
    "MatrixLogarithm MatrixSolve MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve MaxPoolGradGradWithArgmax "
    "MaxPoolGradWithArgmax Mfcc NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 "
    "NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps NthElement ParallelDynamicStitch "
    "QuantizeDownAndShrinkRange QuantizeV2 QuantizedAdd QuantizedAvgPool "
    "QuantizedBatchNormWithGlobalNormalization QuantizedBiasAdd QuantizedConcat QuantizedConv2D QuantizedInstanceNorm "
    "QuantizedMatMul QuantizedMaxPool QuantizedMul QuantizedRelu QuantizedRelu6 QuantizedReluX QuantizedResizeBilinear "
    "RaggedBincount RaggedCountSparseOutput RaggedTensorToSparse RaggedTensorToTensor RequantizationRange Requantize "
    "Reverse ScaleAndTranslate ScaleAndTranslateGrad SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum "
    "SelfAdjointEig SelfAdjointEigV2 SerializeManySparse SerializeSparse SetSize SparseAdd SparseAddGrad SparseBincount "
    "SparseConcat SparseCountSparseOutput SparseCross SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul "
    "SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReduceMax SparseReduceMaxSparse SparseReduceSum "
    "SparseReduceSumSparse SparseReorder SparseReshape SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanGradV2 "
    "SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNGrad SparseSegmentSqrtNGradV2 "
    "SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumGradV2 "
    "SparseSegmentSumWithNumSegments SparseSlice SparseSliceGrad SparseSoftmax SparseSparseMaximum SparseSparseMinimum "
    "SparseSplit SparseTensorDenseAdd SparseTensorDenseMatMul SparseToDense StatelessMultinomial StatelessRandomGammaV2 "
    "StatelessRandomGammaV3 StatelessRandomPoisson StatelessRandomUniformInt Svd TensorScatterMax TensorScatterMin "
    "TensorScatterUpdate TensorSummary ToBool Unique Where").split())


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_kernels_run_as_steps_call_them_and_do_not_make_the_host_wait():
    """Numbers of the sampled ops are on the GPU, but for what kernels read on the host; each runs once before it is watched."""
    waiting, failing, tried = {}, [], collections.Counter()
    for sample in ALL:
        tried[sample.op] += 1
        if tried[sample.op] > 2 or sample.op in waiting:
            continue
        built = Built(sample)
        if not built.outputs:
            continue
        op = built.outputs[0].op
        try:
            kernel, values = as_called(op, built)
            kernel(*values)
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
            kernel(*values)
        except NotImplementedError:
            pass                                            # integers, on a GPU
        except Exception as e:
            at = [f for f in traceback.extract_tb(e.__traceback__) if "penstock" in f.filename][-1]
            line = f"{sample.op}: {at.filename.rsplit('penstock/', 1)[-1]}:{at.lineno} {at.line}"
            if "synchronizing" in str(e):
                waiting[sample.op] = line
            else:
                failing.append(f"{line}: {e}")
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert not failing, "\n".join(failing)
    new = [line for name, line in sorted(waiting.items()) if name not in WAITING]
    assert not new, "\n".join(new)


def as_called(op, built):
    """The kernel of an op as programs call it, and its values where they would be."""
    names = [a.name for a, n in zip(op.opdef.inputs, op.counts or (None,) * len(op.opdef.inputs), strict=True)
             for _ in range(1 if n is None else n)]
    values = []
    for t, name in zip(op.inputs, names, strict=True):
        value = to_torch(np.array(built.feeds[t] if t in built.feeds else t.op.attrs["value"]), t.dtype.base_dtype)
        stays = t.dtype.base_dtype == dtypes.int32 or name in op.opdef.host_inputs and t.dtype.is_integer
        values.append(value if stays else value.cuda())
    kernel = loosely(op.opdef.kernel_for("gpu").bind(op.attrs, op), op.opdef, cuda.Cuda(0), [t.dtype for t in op.inputs],
                     op.counts, [t.dtype for t in op.outputs])
    return kernel, group_inputs(op.opdef, values, op.counts)
