"""Loading an untrusted SavedModel: `restricted=True` refuses models whose functions access the outside of the process.

A SavedModel is a program. Loading runs its `main_op` and its initializers, and calling a signature runs the rest. In restricted
mode, no op that can run may read or write files, call Python functions, print to files, end the process, or connect to other
tasks. The loader itself reads the variables from the model's folder: the op that restores them may read only the file
that the loader names.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from penstock._src.base import errors
from penstock._src.base.text import shown_text
from penstock._src.kernels.keyed import KeyedConfig
from penstock._src.ops.registry import OPS
from penstock._src.state.embeddings.variable import EmbeddingVariable, described_files
from penstock._src.state.saved_model import names

FILES = frozenset("""
    ReadFile WriteFile MatchingFiles Save SaveV2 SaveSlices Restore RestoreV2 RestoreSlice MergeV2Checkpoints
    WholeFileReader WholeFileReaderV2 TextLineReader TextLineReaderV2 FixedLengthRecordReader FixedLengthRecordReaderV2
    TFRecordReader TFRecordReaderV2 LMDBReader RecordInput Skipgram FixedUnigramCandidateSampler
    TextLineDataset TFRecordDataset TFRecordDatasetV2 CSVDatasetV2 FixedLengthRecordDataset FixedLengthRecordDatasetV2
    LMDBDataset ExperimentalLMDBDataset
    MatchingFilesDataset ExperimentalMatchingFilesDataset CacheDataset CacheDatasetV2 SqlDataset ExperimentalSqlDataset
    CSVDataset ExperimentalCSVDataset DatasetToTFRecord ExperimentalDatasetToTFRecord SnapshotDataset WriteDatasetShards
    CreateSummaryFileWriter GenerateVocabRemapping LoadAndRemapMatrix InitializeTableFromTextFile InitializeTableFromTextFileV2
    KvResourceRestore KvResourceReadFiles KvResourceWriteFiles
""".split())
OUTSIDE = frozenset("Abort RemoteCall DatasetFromGraph _Send _Recv _HostSend _HostRecv".split())
_FILES_BY_ATTRIBUTES: dict[str, Callable[[Any], bool]] = {
    "PrintV2": lambda attr: attr["output_stream"].s.startswith(b"file://"),
    "KvVarHandleOp": lambda attr: bool(KeyedConfig.from_json(shown_text(attr["config"].s)).storage)}
_RESTORES = {"RestoreV2", "Restore", "RestoreSlice"}


def check(meta_graph: Any) -> None:
    """Raises PermissionDeniedError if an op that loading or a signature can run accesses the outside of the process."""
    library = {f.signature.name: f for f in meta_graph.graph_def.library.function}
    nodes = {n.name: n for n in meta_graph.graph_def.node}
    if meta_graph.HasField("object_graph_def"):
        for node in meta_graph.object_graph_def.nodes:
            if node.user_object.identifier == EmbeddingVariable.SAVED_AS and described_files(node.user_object.metadata):
                raise errors.PermissionDeniedError(None, None, "The model has an embedding variable with rows in files")
        roots = set(meta_graph.object_graph_def.concrete_functions)
        _check_nodes((n for f in roots if f in library for n in library[f].node_def), library)
        return
    _check_nodes(_leading_to(_served(meta_graph), nodes), library)
    saver = meta_graph.saver_def
    given = _operation(saver.filename_tensor_name)
    restoring = [n for n in _leading_to([_operation(saver.restore_op_name)], nodes)
                 if not (n.op in _RESTORES and n.input and _operation(n.input[0]) == given)]
    _check_nodes(restoring, library)


def _served(meta_graph: Any) -> Iterator[str]:
    """The operations that signatures and initialization end in."""
    for signature in meta_graph.signature_def.values():
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            yield from _named_in(info)
    for key in (names.MAIN_OP_KEY, names.LEGACY_INIT_OP_KEY):
        if key in meta_graph.collection_def:
            yield from map(_operation, meta_graph.collection_def[key].node_list.value)


def _named_in(info: Any) -> Iterator[str]:
    """The operations of a TensorInfo, which may be of several tensors."""
    if info.name:
        yield _operation(info.name)
    for field in ("values_tensor_name", "indices_tensor_name", "dense_shape_tensor_name"):
        if getattr(info.coo_sparse, field):
            yield _operation(getattr(info.coo_sparse, field))
    for part in info.composite_tensor.components:
        yield from _named_in(part)


def _operation(name: str) -> str:
    return name.lstrip("^").partition(":")[0]


def _leading_to(roots: Iterable[str], nodes: dict[str, Any]) -> list[Any]:
    """The nodes that roots need, with themselves."""
    found: dict[str, Any] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name in nodes and name not in found:
            found[name] = nodes[name]
            todo += map(_operation, nodes[name].input)
    return list(found.values())


def _check_nodes(nodes: Iterable[Any], library: dict[str, Any]) -> None:
    """Checks nodes, and the bodies of all functions that they may call."""
    seen: set[str] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        _check_node(node)
        called = {node.op, *(f.name for a in node.attr.values() for f in (a.func, *a.list.func) if f.name)}
        for name in called - seen:
            seen.add(name)
            if name in library:
                todo += library[name].node_def


def _check_node(node: Any) -> None:
    opdef = OPS.get(node.op)
    if node.op in FILES:
        what = "uses files"
    elif opdef is not None and opdef.client_code:
        what = "calls a Python function"
    elif node.op in OUTSIDE or node.op.startswith("Collective"):
        what = "connects to other tasks, or ends the process"
    elif node.op in _FILES_BY_ATTRIBUTES and _FILES_BY_ATTRIBUTES[node.op](node.attr):
        what = "writes a file"
    else:
        return
    raise errors.PermissionDeniedError(
        None, None, f"The SavedModel's {node.name} ({node.op}) {what}, which restricted=True refuses. Load it without, if you "
        "trust its author.")
