"""The ops of embedding variables: tables of rows by key (`kernels/keyed.py`). The variables are in `state/embeddings`.

The names of the ops for making, initializing and gathering are DeepRec's. The gradient of a gather is IndexedSlices whose
indices are keys. An optimizer applies it in one of two ways: by the name of its rule, which the table runs in one pass
(`KvResourceSparseApply`); or on a copy of the rows, which replaces a variable (`KvResourceRows`) and is written back
(`KvResourcePutRows`), so that every optimizer works on keyed rows.
"""
from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from penstock._src.base import errors
from penstock._src.base import static_shape as shapes
from penstock._src.base.api import LazyModule
from penstock._src.base.text import shown_text
from penstock._src.graph.handles import VARIABLE_HANDLES, handle_dims
from penstock._src.graph.indexed_slices import IndexedSlices
from penstock._src.io import confine, paths
from penstock._src.kernels import strings
from penstock._src.kernels.devices.cpu import to_host
from penstock._src.kernels.keyed import ADMIT_ALL, KeyedConfig, KeyedTable, key_parts
from penstock._src.ops import rules
from penstock._src.ops.io import save_restore
from penstock._src.ops.registry import get, internal
from penstock._src.ops.state.state import VariableResource

keyed_store = LazyModule("penstock._src.io.keyed_store")      # only tables with rows outside host memory need it

_KEYS = "Tkeys: type in {int32 int64 string}"
_TYPES = f"dtype: type in {{floating}}, {_KEYS}"


def by_number(attrs: dict[str, Any]) -> bool:
    """Whether keys are integers: only then rows are on GPUs."""
    return "Tkeys" not in attrs or attrs["Tkeys"].name != "string"


def _has_device_rows(attrs: dict[str, Any]) -> bool:
    return by_number(attrs) and KeyedConfig.from_json(shown_text(attrs["config"])).device_rows > 0


kv_var_handle = internal("KvVarHandleOp", "-> resource: resource",
                         f"container: string = '', shared_name: string = '', {_TYPES}, shape: shape, config: string",
                         stateful=True, per_session=True, gpu=_has_device_rows).no_gradient()
kv_var_handle.shape(lambda: ())
VARIABLE_HANDLES.add(kv_var_handle)


def make_table(name: str, dtype: Any, key_dtype: Any, config: str, device: Any = None) -> KeyedTable:
    """A table as an op's attributes describe it; `device` has a tier of its rows, if it is a GPU."""
    made = KeyedConfig.from_json(config)
    made, near = dataclasses.replace(made, storage=paths.as_text(made.storage)), device if made.device_rows else None
    if made.storage:
        confine.check(made.storage)
    core = functools.partial(keyed_store.core_in_tiers, device=near) if near or "://" in made.storage else None
    return KeyedTable(name, made, key_dtype.name == "string", dtype, core, near)


def _device(node: Any, ctx: Any) -> Any:
    """The device of an op that makes a handle; None on the host."""
    place = getattr(node, "place", None) or (ctx.devices.find(node.device) if node.device else None)
    return None if place is None or place.host else place


@kv_var_handle.kernel
def _kv_var_handle_kernel(*, container, shared_name, dtype, Tkeys, config, ctx, node):
    name = shared_name or node.name

    def make() -> KeyedTable:
        return make_table(name, dtype, Tkeys, config, _device(node, ctx))
    if node.graph is None and not shared_name:
        return make()
    return ctx.resources.get_or_create(container, name, KeyedTable, make)


def table_of(resource: Any) -> KeyedTable:
    """The table behind a handle."""
    return errors.expect(resource, KeyedTable, "an embedding variable")


def keyed_op(name: str, inputs: str, outputs: str, attrs: str = "") -> Any:
    """An op on a table. It runs on the table's device, and finds keys on the host."""
    made = internal(name, f"resource: resource{inputs} -> {outputs}", attrs, stateful=True, gpu=by_number,
                    host="indices keys global_step versions freqs gone")
    rules.tiers.on_host.add(made)
    return made


def _dim(c: Any) -> int | None:
    dims = handle_dims(c.input("resource"))
    return None if dims is None else dims[1]


initialize_kv_variable = keyed_op("InitializeKvVariableOp", ", value: dtype", "", "dtype: type").no_gradient()
initialize_kv_variable.shape(lambda resource, value: [])


@initialize_kv_variable.kernel
def _initialize_kv_variable_kernel(resource, value):
    table_of(resource).initialize(value)


kv_var_is_initialized = keyed_op("KvVarIsInitializedOp", "", "is_initialized: bool").no_gradient()
kv_var_is_initialized.shape(lambda resource: ())
kv_var_is_initialized.kernel(lambda resource: torch.tensor(table_of(resource).core is not None))


# -- keys -------------------------------------------------------------------------------------------------------------
kv_gather = keyed_op("KvResourceGather", ", indices: Tkeys", "output: dtype", f"{_TYPES}, insert: bool = True")
MAKE_ROWS = {kv_gather.name}        # the ops that make rows for new keys, unless their attribute `insert` is False


@kv_gather.shape
def _kv_gather_shape(resource, indices, *, c):
    return None if indices is None else (*indices, _dim(c))


@kv_gather.kernel
def _kv_gather_kernel(resource, indices, *, insert):
    return table_of(resource).lookup(indices, insert=insert)


def without_inserts(graph_def: Any) -> None:
    """Makes the lookups of an exported graph create no rows, so that a served model does not grow."""
    for node in (n for nodes in (graph_def.node, *(f.node_def for f in graph_def.library.function)) for n in nodes):
        if node.op in MAKE_ROWS:
            node.attr["insert"].b = False


@kv_gather.gradient
def _kv_gather_gradient(op, grad):
    handle, keys = op.inputs
    dims = handle_dims(handle)
    width = -1 if dims is None else dims[1]
    rows = get("Reshape")(grad, [-1, width])
    return IndexedSlices(rows, get("Reshape")(keys, [-1])), None


kv_apply = keyed_op("KvResourceSparseApply", ", grad: T, indices: Tkeys, global_step: int64, numbers: N * T", "",
                  f"T: type in {{floating}}, {_KEYS}, N: int >= 0, rule: string, slots: list(string), initial: list(float), "
                  "option: bool = False").no_gradient()
kv_apply.shape(lambda resource, grad, indices, global_step, numbers: [])


@kv_apply.kernel
def _kv_apply_kernel(resource, grad, indices, global_step, numbers, *, rule, slots, initial, option, ctx):
    table = table_of(resource)
    columns = [table.add_slot(shown_text(s), x) for s, x in zip(slots, initial, strict=True)]
    update, step = training_op(rule), int(global_step)
    attrs = {n: option for n, a in update.attrs.items() if a.kind == "bool" and n != "use_locking"}
    choose = rules.updates.chosen.get(update) if table.ready().has_rules else None
    chosen = choose(*(float(n) for n in numbers), **attrs) if choose is not None else None
    if chosen is None or not table.apply(chosen, indices, grad, columns, step):
        _apply_to_rows(table, update, indices, grad, [shown_text(s) for s in slots], numbers, attrs, step, ctx)


def training_op(rule: str) -> Any:
    """The op of an optimizer's rule on whole variables. A rule for which TensorFlow has no op begins with an underscore."""
    return get(f"_ResourceApply{rule[1:]}" if rule[0] == "_" else f"ResourceApply{rule}")


def _apply_to_rows(table: KeyedTable, update: Any, keys: Any, grad: Any, slots: list[str], numbers: list, attrs: dict,
                   step: int, ctx: Any) -> None:
    """Runs the rule of a training op on a copy of the rows, if the table does not implement the rule."""
    distinct, sums = summed(table, keys, table.placed(grad))
    attrs = {n: attrs.get(n, a.default) for n, a in update.attrs.items() if n != "T"}
    kernel, given = update.kernel_for(table.kernel_type), iter([table.placed(n) for n in numbers])
    with table.lock:
        rows = [_row_copy(table, distinct, s) for s in (None, *slots)]
        args = [sums if a.name in ("grad", "delta") else next(given) for a in update.inputs[len(rows):]]
        run = kernel.bind({**attrs, "T": table.dtype})
        run(*rows, *args, ctx=ctx) if kernel.wants_ctx else run(*rows, *args)
        _put_back(table, distinct, rows, slots, step)


def summed(table: KeyedTable, keys: Any, grad: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """The distinct keys, and the sums of their gradients."""
    if isinstance(keys, np.ndarray):
        places: dict[bytes, int] = {}
        where = torch.tensor([places.setdefault(k, len(places)) for k in keys.reshape(-1).tolist()], dtype=torch.int64)
        distinct: Any = strings.pack(list(places))
    else:
        distinct, where = torch.unique(table.placed(keys.reshape(-1)), return_inverse=True)     # sorted by the device
        distinct = to_host(distinct)
    return distinct, grad.new_zeros(len(distinct), grad.shape[1]).index_add_(0, table.placed(where), grad)


def _row_copy(table: KeyedTable, keys: Any, slot: str | None) -> VariableResource:
    rows, _ = table.read(keys, slot)
    return VariableResource(table.name if slot is None else f"{table.name}/{slot}", table.dtype, tuple(rows.shape), rows)


def _put_back(table: KeyedTable, keys: Any, rows: list, slots: list[str], step: int) -> None:
    versions = torch.full((len(keys),), step) if step >= 0 else None
    table.step = max(table.step, step)
    for held, slot in zip(rows, (None, *slots), strict=True):
        table.write(keys, held.read(), slot, slot is None and table.config.admission == ADMIT_ALL, versions)


kv_rows = keyed_op("KvResourceRows", ", keys: Tkeys", "rows: N * resource",
                 f"{_KEYS}, N: int >= 1, slots: list(string), initial: list(float)").no_gradient()
kv_rows.shape(lambda resource, keys, *, N: [()] * N)


@kv_rows.kernel
def _kv_rows_kernel(resource, keys, *, slots, initial):
    table = table_of(resource)
    for s, x in zip(slots, initial, strict=True):
        table.add_slot(shown_text(s), x)
    return [_row_copy(table, keys, s) for s in (None, *map(shown_text, slots))]


kv_put_rows = keyed_op("KvResourcePutRows", ", keys: Tkeys, rows: N * resource, global_step: int64", "",
                     f"{_KEYS}, N: int >= 1, slots: list(string)").no_gradient()
kv_put_rows.shape(lambda resource, keys, rows, global_step: [])
kv_put_rows.kernel(lambda resource, keys, rows, global_step, *, slots: _put_back(
    table_of(resource), keys, rows, list(map(shown_text, slots)), int(global_step)))

kv_insert = keyed_op("KvResourceInsert", ", keys: Tkeys, values: dtype", "", _TYPES).no_gradient()
kv_insert.shape(lambda resource, keys, values: [])


@kv_insert.kernel
def _kv_insert_kernel(resource, keys, values):
    table = table_of(resource)
    table.write(keys, values.reshape(-1, table.config.dim))


kv_exists = keyed_op("KvResourceExists", ", keys: Tkeys", "exists: bool", _KEYS).no_gradient()
kv_exists.shape(lambda resource, keys: keys)
kv_exists.kernel(lambda resource, keys: table_of(resource).read(keys)[1].reshape(keys.shape))

kv_remove = keyed_op("KvResourceRemove", ", keys: Tkeys", "", _KEYS).no_gradient()
kv_remove.shape(lambda resource, keys: [])


@kv_remove.kernel
def _kv_remove_kernel(resource, keys):
    table_of(resource).remove(keys)


kv_prefetch = keyed_op("KvResourcePrefetch", ", keys: Tkeys", "", _KEYS).no_gradient()
kv_prefetch.shape(lambda resource, keys: [])
kv_prefetch.kernel(lambda resource, keys: table_of(resource).prefetch(keys))

kv_statistics = keyed_op("KvResourceStatistics", ", keys: Tkeys", "versions: int64, frequencies: int64", _KEYS).no_gradient()
kv_statistics.shape(lambda resource, keys: [keys, keys])


@kv_statistics.kernel
def _kv_statistics_kernel(resource, keys):
    return tuple(t.reshape(keys.shape) for t in table_of(resource).statistics(keys))


# -- all rows -----------------------------------------------------------------------------------------------------------
kv_size = keyed_op("KvResourceSize", "", "size: int64").no_gradient()
kv_size.shape(lambda resource: ())
kv_size.kernel(lambda resource: torch.tensor(table_of(resource).size(), dtype=torch.int64))

kv_evict = keyed_op("KvResourceEvict", ", global_step: int64", "evicted: int64").no_gradient()
kv_evict.shape(lambda resource, global_step: ())
kv_evict.kernel(lambda resource, global_step: torch.tensor(table_of(resource).evict(int(global_step)), dtype=torch.int64))

kv_clear = keyed_op("KvResourceClear", "", "").no_gradient()
kv_clear.shape(lambda resource: [])
kv_clear.kernel(lambda resource: table_of(resource).clear())

SNAPSHOT_PARTS = ("keys", "values", "versions", "freqs", "slots", "slot_names", "gone")
_SNAPSHOT = "keys: Tkeys, values: dtype, versions: int64, freqs: int64, slots: dtype, slot_names: string, gone: Tkeys"
kv_export = keyed_op("KvResourceExport", "", _SNAPSHOT, f"{_TYPES}, incremental: bool = False").no_gradient()


@kv_export.shape
def _kv_export_shape(resource, *, c):
    return [(None,), (None, _dim(c)), (None,), (None,), (None, None), (None,), (None,)]


@kv_export.kernel
def _kv_export_kernel(resource, *, Tkeys, incremental):
    table = table_of(resource)
    keys, values, versions, freqs, slots, names, gone = exported(table, incremental)
    keys, gone = (k if Tkeys.torch in (None, torch.int64) else k.to(Tkeys.torch) for k in (keys, gone))
    return keys, table.placed(values), versions, freqs, table.placed(slots), names, gone


def exported(table: KeyedTable, incremental: bool) -> tuple:
    """The rows to save, as `SNAPSHOT_PARTS` has them."""
    found = table.begin_save(incremental)
    names = [json.dumps([s, c.initial]).encode() for s, c in table.slots.items()]
    n = len(found.versions)
    slots = torch.cat([found.columns[s] for s in table.slots], 1) if names else torch.empty(n, 0, dtype=table.dtype.torch)
    return (found.keys, found.columns[""].contiguous(), found.versions, found.frequencies, slots, strings.pack(names),
            found.gone)


kv_saved = keyed_op("KvResourceSaved", "", "").no_gradient()
kv_saved.shape(lambda resource: [])
kv_saved.kernel(lambda resource: table_of(resource).end_save())

kv_import = keyed_op("KvResourceImport", f", {_SNAPSHOT}", "", f"{_TYPES}, clear: bool = True").no_gradient()
kv_import.shape(lambda *_: [])


@kv_import.kernel
def _kv_import_kernel(resource, keys, values, versions, freqs, slots, slot_names, gone, *, clear):
    table = table_of(resource)
    if table.core is None:
        table.initialize(None)
    if clear:
        table.clear()
    import_rows(table, keys, values, versions, freqs, slots, slot_names, gone)


kv_restore = keyed_op("KvResourceRestore", ", prefix: string", "", "tensor_name: string").no_gradient()
kv_restore.shape(lambda resource, prefix: [])


@kv_restore.kernel
def _kv_restore_kernel(resource, prefix, *, tensor_name):
    table, path = table_of(resource), os.fsdecode(strings.scalar(prefix, "prefix"))
    with save_restore.open_reader(path) as reader:
        restore_rows(table, reader, shown_text(tensor_name))


def saved_parts(name: str, names: Iterable[str]) -> list[tuple[str, bool]]:
    """What the tensors of a table begin with in a checkpoint, for each part, and whether they are an increment."""
    parts = re.compile(re.escape(name) + r"(/part_\d+)?(-delta)?-keys")
    return [(m[0].removesuffix("keys"), bool(m[2])) for m in map(parts.fullmatch, names) if m]


def restore_rows(table: KeyedTable, reader: Any, name: str) -> None:
    """Restores a table from a checkpoint: from all parts that it was saved in, full or incremental."""
    found = saved_parts(name, reader.names())
    if not found:
        raise errors.NotFoundError(None, None, f"Key {name}-keys not found in checkpoint")
    saved = [_read_part(reader, stem) for stem, _ in found]           # everything is read before anything changes
    if table.core is None:
        table.initialize(None)
    if not any(delta for _, delta in found):
        table.clear()
    for part in saved:
        import_rows(table, *part)
    table.mark_saved()


def _read_part(reader: Any, stem: str) -> tuple:
    """The tensors of one part. Checkpoints of DeepRec have no slots here, and may have no versions or frequencies."""
    keys, values = reader.read(f"{stem}keys"), reader.read(f"{stem}values")
    empty = torch.empty(0, dtype=torch.int64)
    versions, freqs = (reader.read(stem + n) if reader.has(stem + n) else empty for n in ("versions", "freqs"))
    if not reader.has(f"{stem}slots"):
        return keys, values, versions, freqs, values[:, :0], strings.pack([]), keys[:0]
    return (keys, values, versions, freqs, *(reader.read(stem + n) for n in ("slots", "slot_names", "gone")))


def import_rows(table: KeyedTable, keys: Any, values: Any, versions: Any, freqs: Any, slots: Any, slot_names: Any,
                gone: Any) -> None:
    """Adds the rows of an export: those whose keys belong to this part of the variable."""
    dim = table.config.dim
    if values.ndim != 2 or values.shape[1] != dim:
        raise errors.invalid(f"Rows of shape {shapes.show(tuple(values.shape))} cannot be restored to embedding variable "
                             f"{table.name}, which has {dim} columns")
    if slots.shape[0] != keys.shape[0] or slots.shape[1] != dim * len(slot_names):
        raise errors.invalid(f"The slots saved for embedding variable {table.name} do not match its rows")
    names = [_slot_name(s) for s in slot_names.reshape(-1).tolist()]
    if table.config.parts > 1:
        keep = torch.from_numpy(key_parts(keys, table.config.parts) == table.config.part)
        gone = gone[(key_parts(gone, table.config.parts) == table.config.part)] if len(gone) else gone
        n = len(keys)
        keys = keys[keep.numpy()] if isinstance(keys, np.ndarray) else keys[keep]
        values, slots = values[keep], slots[keep]
        versions, freqs = (t[keep] if t.numel() == n else t for t in (versions, freqs))
    table.remove(gone)
    table.write(keys, values, None, True, versions, freqs)
    for i, (slot, initial) in enumerate(names):
        table.add_slot(slot, initial)
        table.write(keys, slots[:, i * dim:(i + 1) * dim], slot, creates=False)


def _slot_name(text: bytes) -> tuple[str, float]:
    try:
        name, initial = json.loads(text)
        return str(name), float(initial)
    except (ValueError, TypeError):
        raise errors.DataLossError(None, None, f"Not the name of a slot: {text!r}") from None
