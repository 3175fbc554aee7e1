"""tf.config: the options of the graph optimizer that sessions start with. Those about devices are in `device_config.py`."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.kernels.devices.device_config import process_config

_optimizer: dict[str, Any] = {}
_SWITCHES = ("layout_optimizer", "constant_folding", "shape_optimization", "remapping", "arithmetic_optimization",
             "dependency_optimization", "loop_optimization", "function_optimization", "debug_stripper",
             "scoped_allocator_optimization", "pin_to_host_optimization", "implementation_selector", "auto_mixed_precision")


@export("config.optimizer.set_experimental_options")
def set_optimizer_experimental_options(options: dict[str, Any]) -> None:
    """Sets options of the graph optimizer for sessions made from now on."""
    unknown = set(options) - {*_SWITCHES, "disable_model_pruning", "disable_meta_optimizer", "min_graph_nodes"}
    if unknown:
        raise ValueError(f"Unknown optimizer options: {', '.join(sorted(unknown))}")
    _optimizer.update(options)


@export("config.optimizer.get_experimental_options")
def get_optimizer_experimental_options() -> dict[str, Any]:
    """The options that were set."""
    return dict(_optimizer)


def session_config(config: Any) -> Any:
    """A session's ConfigProto, or the process's settings, with the optimizer options filled in; `config` if none are set."""
    if config is None:
        config = process_config()
    if not _optimizer:
        return config
    from tensorboard.compat.proto.config_pb2 import ConfigProto
    made = ConfigProto()
    if config is not None:
        made.CopyFrom(config)
    rewrite = made.graph_options.rewrite_options
    for name, value in _optimizer.items():
        if name in _SWITCHES:
            value = rewrite.ON if value else rewrite.OFF
        setattr(rewrite, name, value)
    return made
