"""tf.contrib.nccl: reductions among the GPUs of a task (`ops/comm/nccl.py`)."""
from penstock._src.base.api import export
from penstock._src.ops.comm import nccl
from penstock._src.ops.registry import get


def _validate_and_load_nccl_so() -> None:
    """Programs call it before the first reduction, to load NCCL. There is nothing to load; it fails if the ops are missing."""
    for name in ("NcclAllReduce", "NcclReduce", "NcclBroadcast"):
        get(name)


for _name in ("all_sum", "all_prod", "all_min", "all_max", "reduce_sum", "broadcast"):
    export.value(getattr(nccl, _name), v1=[f"contrib.nccl.{_name}"])
export.value(_validate_and_load_nccl_so, v1=["contrib.nccl.nccl_ops._validate_and_load_nccl_so"])
for _name, _op in (("nccl_all_reduce", nccl.all_reduce_op), ("nccl_reduce", nccl.reduce_op),
                   ("nccl_broadcast", nccl.broadcast_op)):
    export.value(_op, v1=[f"contrib.nccl.ops.gen_nccl_ops.{_name}"])
