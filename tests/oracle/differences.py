"""Known differences from TensorFlow, one line each; the table of docs/oracle.md quotes them."""
from __future__ import annotations

from typing import Any

_BANDS = "TensorFlow 2.21 differentiates the left-aligned bands of version 2 as if they were those of version 3"

_VECTORS = "vectors are determined up to their signs (of complex vectors: phases); Eigen and LAPACK choose differently"

EXPLAINED: dict[str, str] = {
    "BlockLSTMV2": "TensorFlow differentiates it by BlockLSTMGrad, which takes the gates in the order of version 1",
    "SelfAdjointEigV2": _VECTORS,
    "Svd": _VECTORS,
    "BatchSelfAdjointEigV2": _VECTORS,
    "BatchSvd": _VECTORS,
    "SelfAdjointEig": _VECTORS,
    "BatchSelfAdjointEig": _VECTORS,
    "Eig": "the eigenvalues of a general matrix come in no order",
    "ClipByValue": "TensorFlow 2.21 clips real and imaginary parts of complex numbers; 1.15 has no kernel for them",
    "Dilation2DBackpropFilter": "of unsigned zeros at a padded border, TensorFlow credits an element outside of the input",
    "FusedPadConv2D": "of a batch, TensorFlow pads the second image with rows of the first",
    "ParameterizedTruncatedNormal": "the same distribution, drawn by its inverse here and by rejection there",
    "Round": "TensorFlow's kernel for integers gives zeros; the public function never calls it for them",
    "DecodeJSONExample": "the bytes differ, the message is the same: TensorFlow writes repeated numbers unpacked here",
    "MatrixDiagV2": _BANDS,
    "MatrixDiagPartV2": _BANDS,
    "MatrixSetDiagV2": _BANDS,
    "SoftmaxCrossEntropyWithLogits": "TensorFlow leaves out what flows from the second output, backprop, to the labels",
    "CTCBeamSearchDecoder": "TensorFlow drops the extensions of a prefix that left a full beam in the same step; equal for a "
                            "wide beam",
    "RGBToHSV": "TensorFlow's gradient in half precision overflows to NaN where two channels are close",
    "DecodeJpeg": "TensorFlow's default is the fast DCT; here it is the accurate one (equal for INTEGER_ACCURATE)",
    "DecodeAndCropJpeg": "TensorFlow upsamples the colours within the crop only, so the pixels at its border differ",
    "ResizeBilinearGrad": "has a gradient here (the resize itself); TensorFlow declares it not differentiable",
}

_CALLS_BACK = "calls a Python function of this process, which TensorFlow's process does not have"
_FED = "has no value; it is fed in every case of the other ops"

WITHOUT_EVIDENCE: dict[str, str] = {
    **dict.fromkeys(("GetSessionHandle", "GetSessionHandleV2", "GetSessionTensor", "DeleteSessionTensor"),
                    "works across the steps of one session, and a case is one step"),
    **dict.fromkeys(("AnonymousIterator", "AnonymousIteratorV2", "DeleteIterator", "SerializeIterator", "DeserializeIterator"),
                    "iterators of eager execution, and positions in a format of ours; tested with tf.data"),
    **dict.fromkeys(("IteratorPosition", "SetIteratorPosition", "AssertCardinalityDataset", "OptionsDataset",
                     "WriteDatasetShards"),
                    "not an op of TensorFlow 1.15"),
    **dict.fromkeys(("SummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter", "WriteSummary",
                     "WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteAudioSummary",
                     "WriteGraphSummary", "WriteRawProtoSummary", "ImportEvent"),
                    "gives no value: it writes an event file; tested with summaries"),
    "CacheDatasetV2": "takes a cache that only eager execution has",
    "CopyToDeviceDataset": "not an op of TensorFlow: it stands for functions that run on the other device",
    "GeneratorDataset": "calls a Python function of this process, which TensorFlow's process does not have",
    "RecordInput": "gives records in random order, from threads",
    "Abort": "ends the process",
    "EagerPyFunc": _CALLS_BACK,
    "PyFunc": _CALLS_BACK,
    "PyFuncStateless": _CALLS_BACK,
    "FakeParam": "stands for a value that is never read",
    "FakeQueue": "turns a handle into a reference for queue runners of old graphs; TensorFlow has no public function for it",
    "Placeholder": _FED,
    "PlaceholderV2": _FED,
}


def unset(sample: Any, dtype: str) -> tuple[int, ...]:
    """The outputs of a case that TensorFlow leaves as uninitialized memory; `dtype` is that of the first input.

    They are placeholders that no gradient reads: of vectors that were not requested, and of what only a GPU keeps.
    """
    op, attrs = sample.op.removeprefix("Batch"), sample.attrs
    if op in ("Eig", "SelfAdjointEigV2") and not attrs.get("compute_v", True):
        return (1,)
    if op == "Svd" and not attrs.get("compute_uv", True):
        return (1, 2)
    if op.startswith("FusedBatchNormGrad"):
        return (3, 4)
    if op in ("FusedBatchNormV2", "FusedBatchNormV3") and dtype == "float16":
        return (5,) if attrs.get("is_training", True) else (3, 4, 5)
    return ()
