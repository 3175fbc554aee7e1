"""SavedModels of 1.x loaded as objects: the graph becomes one function, and each signature a part of it."""
from __future__ import annotations

from typing import Any

from penstock._src.base import nest
from penstock._src.eager.wrap_function import wrap_function
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.graph.convert import constant
from penstock._src.graph.scopes import init_scope
from penstock._src.graph.sparse_tensor import SparseTensor
from penstock._src.io import paths
from penstock._src.io.bundle import BundleReader
from penstock._src.ops.registry import get
from penstock._src.state.auto_trackable import AutoTrackable
from penstock._src.state.checkpoint.saver import import_meta_graph_with_return_elements
from penstock._src.state.embeddings.variable import empty_table
from penstock._src.state.saved_model import names
from penstock._src.state.saved_model.model_builder import asset_path
from penstock._src.state.saved_model.model_loader import _init_op, asset_files
from penstock._src.state.saved_model.object_loading import SignatureMap, empty_variable
from penstock._src.state.saved_model.tensor_info import get_tensor_from_tensor_info
from penstock._src.state.variables.resource import BaseResourceVariable


def load_v1_in_v2(loader: Any, tags: Any) -> Any:
    """An object with `signatures`, `variables` and `graph` from a SavedModel of a graph."""
    available = [set(m.meta_info_def.tags) for m in loader.saved_model.meta_graphs]
    if tags is None:
        if len(available) != 1:
            raise ValueError("Importing a SavedModel with tf.saved_model.load requires a `tags=` argument if there is more "
                             f"than one MetaGraph. Got `tags=None`, but there are {len(available)} MetaGraphs in the "
                             f"SavedModel with tag sets: {available}. Pass a `tags=` argument to load this SavedModel.")
        tags = available[0]
    meta_graph = loader.get_meta_graph_def_from_tags(tags)

    def build(*asset_paths: Any) -> Any:
        graph = context.current_graph()
        saver, _ = import_meta_graph_with_return_elements(meta_graph)
        made.append(saver)
        made.append(_lifted(graph))
        for a, placeholder in zip(asset_files(meta_graph), asset_paths, strict=True):
            tensor = graph.get_tensor_by_name(a.tensor_info.name)
            for op in list(tensor.consumers()):
                for i, t in enumerate(op.inputs):
                    if t is tensor:
                        op._update_input(i, placeholder)
        return ()
    root, made = AutoTrackable(), []        # type: Any, list[Any]
    with_assets = [asset_path(loader.export_dir, a.filename) for a in asset_files(meta_graph)]
    wrapped = wrap_function(lambda: build(*[constant(p) for p in with_assets]), [])
    saver, lifted = made
    if saver is not None and paths.exists(loader.variables_path + ".index"):
        filename = wrapped.graph.get_tensor_by_name(saver.saver_def.filename_tensor_name)


        def restore(path: Any) -> Any:
            """Restores the variables from a checkpoint that a Saver has written; in graphs, returns what does so."""
            return _run(wrapped, saver.saver_def.restore_op_name, filename, path)
        object.__setattr__(root, "restore", restore)
        restored = restore(loader.variables_path)
        if not context.executing_eagerly():
            _initialize_by(restored, lifted, wrapped, loader.variables_path)
    with wrapped.graph.as_default():
        init = _init_op(meta_graph, None)
    if init is not None:
        done = _run(wrapped, init.name)
        if not context.executing_eagerly():
            context.current_graph().add_to_collection(GraphKeys.TABLE_INITIALIZERS, done.op)
    object.__setattr__(root, "graph", wrapped.graph)
    object.__setattr__(root, "prune", wrapped.prune)
    root.variables = [new for new, _ in lifted]
    object.__setattr__(root, "signatures", _signatures(wrapped, meta_graph))
    return root


def _run(wrapped: Any, name: str, feed: Any = None, value: str = "") -> Any:
    """Runs an op of the wrapped graph (in a graph: adds an op that runs it); returns a tensor that is available when it is
    done."""
    with wrapped.graph.as_default(), wrapped.graph.control_dependencies([wrapped.graph.get_operation_by_name(name)]):
        done = get("Identity")(constant(True))
    return wrapped.prune([], done)() if feed is None else wrapped.prune([feed], done)(constant(value))


def _initialize_by(restored: Any, lifted: list[tuple[Any, Any]], wrapped: Any, path: str) -> None:
    """In graphs: variables in the checkpoint are initialized by restoring it, others by their initializers.

    Reference variables are not initialized with those of the program, but with its tables.
    """
    with BundleReader(path) as reader:
        for new, old in lifted:
            kept = reader.has(old._shared_name)
            new._initializer_op = restored.op if kept else _run(wrapped, old._initializer_op.name).op
    graph = context.current_graph()
    graph.add_to_collection("saved_model_initializers", restored.op)
    if len(lifted) < len(_variables(wrapped.graph)):
        graph.add_to_collection(GraphKeys.TABLE_INITIALIZERS, restored.op)


def _variables(graph: Any) -> list:
    """The variables of an imported graph."""
    return list({id(v): v for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES)
                 for v in graph.get_collection(key)}.values())


def _lifted(graph: Any) -> list[tuple[Any, Any]]:
    """New Variables for the resource variables of an imported graph: ops on the old handles capture the new ones.

    Reference variables stay in the graph, and are found by their names while the process runs.
    """
    out = []
    for v in _variables(graph):
        if not isinstance(v, BaseResourceVariable):
            continue
        with init_scope():
            new = empty_table(v.handle, v._shared_name, v.trainable)
            if new is None:
                new = empty_variable(v.dtype, v.shape, v.trainable, v._shared_name)
        inner = graph.capture(new.handle)
        for op in list(v.handle.consumers()):
            for i, t in enumerate(op.inputs):
                if t is v.handle:
                    op._update_input(i, inner)
        graph.watched_variables[id(new)] = new
        out.append((new, v))
    return out


def _parts(name: str, tensor: Any) -> list[tuple[str, Any]]:
    """The tensors of an input by argument name; a composite input has one argument per component."""
    if isinstance(tensor, SparseTensor):
        return [(f"{name}_{part}", getattr(tensor, part)) for part in ("indices", "values", "dense_shape")]
    parts = nest.flatten(tensor, expand_composites=True)
    return [(name, tensor)] if parts[0] is tensor else [(f"{name}_component_{i}", t) for i, t in enumerate(parts)]


def _signatures(wrapped: Any, meta_graph: Any) -> Any:
    out = SignatureMap()
    for key, signature in meta_graph.signature_def.items():
        if key == names.INIT_OP_SIGNATURE_KEY or key == names.TRAIN_OP_SIGNATURE_KEY:
            continue
        with wrapped.graph.as_default():
            inputs = {n: get_tensor_from_tensor_info(i) for n, i in sorted(signature.inputs.items())}
            outputs = {n: get_tensor_from_tensor_info(i) for n, i in signature.outputs.items()}
        flat = dict(part for name, tensor in inputs.items() for part in _parts(name, tensor))
        made = wrapped.prune(list(flat.values()), outputs)
        made._arg_names = list(flat)
        made.graph.structured_input_signature = ((), flat)
        out._signatures[key] = made
    return out


