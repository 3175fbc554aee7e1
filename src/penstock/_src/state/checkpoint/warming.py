"""tf.train.warm_start: initializes variables from an older run, also when the vocabulary has changed."""
from __future__ import annotations

from typing import Any, NamedTuple

from penstock._src.base import dtypes, errors
from penstock._src.base.api import export
from penstock._src.graph import context
from penstock._src.graph.collections import GraphKeys
from penstock._src.ops.registry import get
from penstock._src.state.checkpoint.initialize import init_from_checkpoint
from penstock._src.state.checkpoint.reader import checkpoint_filename
from penstock._src.state.checkpoint.saveable import op_list_to_dict
from penstock._src.state.checkpoint.saver import names_to_keys
from penstock._src.state.variables.partitioned import PartitionedVariable
from penstock._src.state.variables.variable import Variable


class _VocabInfo(NamedTuple):
    new_vocab: Any
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: Any
    old_vocab_size: int = -1
    backup_initializer: Any = None
    axis: int = 0


@export("train.VocabInfo", "estimator.VocabInfo")
class VocabInfo(_VocabInfo):
    """How the vocabulary of a variable has changed: the old and new files, and the axis that it indexes."""

    __slots__ = ()

    def __new__(cls, new_vocab: Any, new_vocab_size: int, num_oov_buckets: int, old_vocab: Any, old_vocab_size: int = -1,
                backup_initializer: Any = None, axis: int = 0) -> VocabInfo:
        if axis not in (0, 1):
            raise ValueError(f"The only supported values for the axis argument are 0 and 1.  Provided axis: {axis}")
        return super().__new__(cls, new_vocab, new_vocab_size, num_oov_buckets, old_vocab, old_vocab_size, backup_initializer,
                               axis)


@export(v1=["train.warm_start"])
def warm_start(ckpt_to_initialize_from: Any, vars_to_warm_start: Any = ".*", var_name_to_vocab_info: Any = None,
               var_name_to_prev_var_name: Any = None) -> None:
    """Makes the initializers of variables read from a checkpoint: those whose names match, or those that are given.

    >>> tf.train.warm_start("/tmp/old", vars_to_warm_start=".*embedding.*")
    """
    groups = _grouped(vars_to_warm_start)
    infos = var_name_to_vocab_info or {}
    before = var_name_to_prev_var_name or _renames(ckpt_to_initialize_from, groups)
    plain: list[dict[str, Any]] = [{}]              # two variables may come from one: each is in its own dictionary
    for name, variables in groups.items():
        if name in infos:
            _remap(variables, infos[name], ckpt_to_initialize_from, before.get(name) or name)
        elif vars_to_warm_start:
            source = before.get(name) or name
            if all(source in p for p in plain):
                plain.append({})
            next(p for p in plain if source not in p)[source] = variables[0] if len(variables) == 1 else variables
    for some in plain:
        init_from_checkpoint(ckpt_to_initialize_from, some)
    for given, what in ((before, "var_name_to_prev_var_name"), (infos, "var_name_to_vocab_info")):
        unused = set(given) - set(groups)
        if unused:
            raise ValueError(f"You provided the following variables in {what} that were not used: {unused}.  Perhaps you "
                             f"misspelled them?  Here is the list of viable variable names: {list(groups)}")


def _grouped(wanted: Any) -> dict[str, list]:
    """The variables by the name that they have in a checkpoint; the parts of one together."""
    graph = context.current_graph()
    if wanted is None or isinstance(wanted, str):
        found = graph.get_collection(GraphKeys.TRAINABLE_VARIABLES, scope=wanted)
    elif not isinstance(wanted, list):
        raise ValueError(f"`vars_to_warm_start` must be a list or a string, not {type(wanted)}")
    elif all(isinstance(v, str) for v in wanted):
        found = [v for name in wanted for v in graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope=name)]
    elif all(isinstance(v, (Variable, PartitionedVariable)) for v in wanted):
        found = wanted
    else:
        raise ValueError("If `vars_to_warm_start` is a list, it must be all `Variable` or all `str`.  Given types are "
                         f"{[type(v) for v in wanted]}")
    groups: dict[str, list] = {}
    for v in found:
        name, = op_list_to_dict([v])
        groups.setdefault(name, []).extend(list(v) if isinstance(v, PartitionedVariable) else [v])
    return groups


def _renames(ckpt: Any, groups: dict[str, list]) -> dict[str, str]:
    """The keys of variables in an object-based checkpoint; empty for a name-based one."""
    path = checkpoint_filename(ckpt)
    try:
        keys = names_to_keys(path)      # type: ignore[arg-type]
    except errors.NotFoundError:
        return {}
    missing = set(groups) - set(keys)
    if missing:
        raise ValueError("Attempting to warm-start from an object-based checkpoint, but found that the checkpoint did not "
                         f"contain values for all variables. The following variables were missing: {missing}")
    return {name: keys[name] for name in groups}


def _remap(variables: list, info: VocabInfo, ckpt: Any, tensor_name: str) -> None:
    """Sets initializers that read the rows (or columns) of the old words from the checkpoint."""
    path = checkpoint_filename(ckpt)
    for v in variables:
        rows, columns = v.get_shape().as_list()
        part = v._get_save_slice_info()
        first = part.var_offset[0] if part is not None else 0
        if info.axis == 0:
            words = max(0, min(first + rows, info.new_vocab_size) - first)
            row_map = _with_unknown(_remapping(info, first, words), rows - words)
            column_map = get("Range")(0, columns, 1)
        else:
            row_map = get("Range")(first, first + rows, 1)
            column_map = _with_unknown(_remapping(info, 0, info.new_vocab_size), columns - info.new_vocab_size)
        value = _loaded(path, tensor_name, row_map, column_map, rows, columns, info.backup_initializer)
        v._initializer_op = v.assign(value).op


def _remapping(info: VocabInfo, first: int, count: int) -> Any:
    return get("GenerateVocabRemapping")(info.new_vocab, info.old_vocab, new_vocab_offset=first, num_new_vocab=count,
                                         old_vocab_size=info.old_vocab_size)[0]


def _with_unknown(remapping: Any, count: int) -> Any:
    minus = get("Fill")([max(count, 0)], get("Cast")(-1, DstT=dtypes.int64))
    return get("ConcatV2")([remapping, minus], 0)


def _loaded(path: Any, name: str, row_map: Any, column_map: Any, rows: int, columns: int, initializer: Any) -> Any:
    row_map, column_map = (get("Cast")(m, DstT=dtypes.int64) for m in (row_map, column_map))
    zero = get("Cast")(0, DstT=dtypes.int64)
    known = get("LogicalAnd")(get("ExpandDims")(get("GreaterEqual")(row_map, zero), 1),
                              get("ExpandDims")(get("GreaterEqual")(column_map, zero), 0))
    missing = get("Sum")(get("Cast")(get("LogicalNot")(known), DstT=dtypes.int32), [0, 1])
    values = get("Fill")(get("Reshape")(missing, [1]), 0.0)
    matrix = get("LoadAndRemapMatrix")(path, name, row_map, column_map, values, num_rows=rows, num_cols=columns)
    if initializer is None:
        return matrix
    return get("SelectV2")(known, matrix, initializer([rows, columns], dtype=dtypes.float32))
