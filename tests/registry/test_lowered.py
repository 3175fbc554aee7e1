"""Every sampled op on numbers in a function that is compiled as one graph: the graph computes what eager execution does.

Inductor is replaced by the graph itself, so no compiler is needed; the trace is the one of steps on GPUs.
"""
import numpy as np
import pytest

import penstock as tf
from penstock._src.ops import rules
from penstock._src.ops.registry import OPS
from penstock._src.step.ir import StepGraph
from penstock._src.step.tiers import inductor, lower
from tests.registry.load import all_samples, ids
from tests.registry.running import eager, flat, flat_arrays, is_variable

# Ops that end a trace, by what they need. The lists may only shrink.
SHAPES_DEPEND_ON_VALUES = frozenset((
    "CTCBeamSearchDecoder CTCGreedyDecoder CTCLoss ComputeAccidentalHits DenseCountSparseOutput DenseToDenseSetOperation "
    "DenseToSparseSetOperation EditDistance ListDiff RaggedBincount RaggedCountSparseOutput RaggedTensorToSparse "
    "RaggedTensorToTensor SetSize SparseAdd SparseAddGrad SparseBincount SparseConcat SparseCountSparseOutput SparseCross "
    "SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReduceMaxSparse SparseReduceSumSparse SparseSegmentMeanGradV2 "
    "SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2 SparseSlice SparseSliceGrad SparseSoftmax SparseSparseMaximum "
    "SparseSparseMinimum SparseSplit Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Where").split())
COMPUTED_ON_THE_HOST = frozenset((
    "BatchMatrixSolveLs CombinedNonMaxSuppression DrawBoundingBoxes DrawBoundingBoxesV2 FractionalAvgPool "
    "FractionalAvgPoolGrad FractionalMaxPool MatrixSolveLs NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 "
    "NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps QuantizeV2 QuantizedResizeBilinear "
    "ScaleAndTranslate ScaleAndTranslateGrad SerializeManySparse SerializeSparse StatelessMultinomial "
    "StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomPoisson StatelessRandomUniformInt "
    "StatelessRandomUniformIntV2 TensorSummary ToBool").split())
ROWS_DROPPED_ON_CPUS = frozenset("UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum".split())
NOT_LOWERED = SHAPES_DEPEND_ON_VALUES | COMPUTED_ON_THE_HOST | ROWS_DROPPED_ON_CPUS


def numeric(sample) -> bool:
    """Whether an op computes numbers from numbers, without variables."""
    opdef = OPS[sample.op]
    return opdef.kernel_for("gpu") is not None and not any(is_variable(a) for a in opdef.inputs) and not sample.random \
        and bool(sample.inputs) and all(a.dtype.kind in "fiubc" for a in flat_arrays(sample)) \
        and opdef not in rules.tiers.on_host and not opdef.stateful


FIRST = list({s.op: s for s in reversed(all_samples()) if numeric(s)}.values())[::-1]


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that Inductor would be given; they run as they are."""
    seen = []
    monkeypatch.setattr(inductor, "available", lambda device: True)
    monkeypatch.setattr(inductor, "compiled", lambda graph, example: seen.append(graph) or (lambda inputs: graph(*inputs)))
    monkeypatch.setattr(StepGraph, "on_host", lambda self, op: False)
    monkeypatch.setattr(lower, "_SMALL", 0)            # what kernels create is on the device, as it is on GPUs
    return seen


def function_of(sample):
    """A function of the inputs that are no shapes or axes, long enough to be worth compiling, and arguments for it."""
    opdef, arrays = OPS[sample.op], flat_arrays(sample)
    names = [a.name for a, v in zip(opdef.inputs, sample.inputs, strict=True) for _ in (v if isinstance(v, list) else [v])]
    free = [n not in opdef.host_inputs for n in names]

    def call(beside, *given):
        it = iter(given)
        values = iter([next(it) if f else tf.constant(a) for a, f in zip(arrays, free, strict=True)])
        inputs = [[next(values) for _ in v] if isinstance(v, list) else next(values) for v in sample.inputs]
        out = flat(opdef(*inputs, **sample.attrs))
        return out, tf.sin(tf.cos(beside) + tf.exp(beside)) * tf.tanh(beside @ beside)
    return call, [tf.eye(3), *[tf.constant(a) for a, f in zip(arrays, free, strict=True) if f]]


def _some(samples):
    """Every seventh sample; the others are slow tests."""
    return [pytest.param(s, id=i, marks=[pytest.mark.slow] if k % 7 else []) for k, (s, i) in
            enumerate(zip(samples, ids(samples), strict=True))]


@pytest.mark.parametrize("sample", _some(FIRST))
def test_a_graph_computes_what_eager_execution_does(sample, graphs):
    call, given = function_of(sample)
    compiled = tf.function(call, jit_compile=True, autograph=False)
    for _ in range(3):
        found, _ = compiled(*given)
    assert bool(graphs) == (sample.op not in NOT_LOWERED)
    for a, b in zip(found, eager(sample), strict=True):
        if a.dtype.is_floating or a.dtype.is_complex:
            np.testing.assert_allclose(a.numpy(), b, rtol=2e-4, atol=2e-5)
        elif a.dtype.name not in ("variant", "resource"):
            np.testing.assert_array_equal(a.numpy(), b)
