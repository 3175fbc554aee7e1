"""Known differences from TensorFlow, one line each; the table of docs/oracle.md quotes them."""

_BANDS = "TensorFlow 2.21 differentiates the left-aligned bands of version 2 as if they were those of version 3"

_VECTORS = "vectors are determined up to their signs; where none are asked for, TensorFlow leaves their output unset"

EXPLAINED: dict[str, str] = {
    "SelfAdjointEigV2": _VECTORS,
    "Svd": _VECTORS,
    "Round": "TensorFlow's kernel for integers gives zeros; the public function never calls it for them",
    "DecodeJSONExample": "the bytes differ, the message is the same: TensorFlow writes repeated numbers unpacked here",
    "MatrixDiagV2": _BANDS,
    "MatrixDiagPartV2": _BANDS,
    "MatrixSetDiagV2": _BANDS,
}
