"""Copies of lookup tables on workers: a table that is filled once, and that functions on a worker use, is looked up there.

It is copied when the worker first needs it, from the entries of the table in this process, and again on a worker that was
lost and is back. A table that the function of a dataset makes is filled by that function, on the worker. Tables that change
have no copies: there is one of each, where it was created, and the ops that use it run there.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._src.base import dtypes
from penstock._src.kernels.tables import StaticTable
from penstock._src.ops.registry import get

if TYPE_CHECKING:
    from penstock._src.models.distribute.channel import Channel
    from penstock._src.models.distribute.connect import Connection


def copied(connection: Connection, channel: Channel, table: StaticTable) -> Any:
    """The handle of a table's copy on the worker of a channel. It is filled if the table is initialized."""
    found, filled = channel.copies.get(table) or (None, False)
    if found is None:
        where = next(d for d in channel.devices if "/job:worker" in d.name and d.device_type == "CPU")
        attrs = {"container": "", "shared_name": "", "use_node_name_sharing": False, "key_dtype": table.key_dtype,
                 "value_dtype": table.value_dtype}
        found = connection.made(get("HashTableV2"), attrs, where, channel)
    if table.initialized and not filled:
        values, types = [found._value, *table.export()], [dtypes.resource, table.key_dtype, table.value_dtype]
        channel.run(get("LookupTableImportV2"), values, types, {"Tin": types[1], "Tout": types[2]}, found._value.device)
    channel.copies[table] = found, table.initialized
    return found._value
