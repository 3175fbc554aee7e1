"""Which passes run: TensorFlow's switches, read once per session.

`GraphOptions.optimizer_options` (opt_level, do_constant_folding, do_common_subexpression_elimination, global_jit_level) and
`GraphOptions.rewrite_options` (a RewriterConfig: one toggle per pass, and disable_meta_optimizer for all of them). A pass runs
unless a switch turns it off.
"""
from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Options:
    """One field per pass; the names are RewriterConfig's where it has one."""
    dependency_optimization: bool = True
    constant_folding: bool = True
    common_subexpressions: bool = True
    arithmetic_optimization: bool = True
    shape_optimization: bool = True
    remapping: bool = True
    loop_optimization: bool = True
    function_optimization: bool = True             # functions that are called are inlined
    joined_updates: bool = True                    # optimizers update variables together (updates.py)
    memory: bool = True                            # on GPUs values are freed early, or computed again (memory.py)
    recording: bool = True                         # short steps run without the interpreter (step/compile/recorded.py)
    jit: bool = False                              # the step waits for its best version (step/tiers)

    @property
    def any(self) -> bool:
        """Whether any pass runs."""
        return any(dataclasses.astuple(self))


jit_everywhere = [False]                           # tf.config.optimizer.set_jit
ALL, NONE = Options(), Options(*[False] * len(dataclasses.fields(Options)))
UNFUSED = Options(remapping=False, memory=False, recording=False)    # each op is its own call: for a compiler that fuses itself


def options_of(config: Any) -> Options:
    """The passes that a ConfigProto (or None) requests."""
    if config is None or not config.HasField("graph_options"):
        return dataclasses.replace(ALL, jit=jit_everywhere[0])
    rewrite, old = config.graph_options.rewrite_options, config.graph_options.optimizer_options
    if rewrite.disable_meta_optimizer:
        return NONE
    chosen = {f.name: getattr(rewrite, f.name, rewrite.DEFAULT) != rewrite.OFF for f in dataclasses.fields(Options)}
    chosen["memory"] = rewrite.memory_optimization != rewrite.NO_MEM_OPT
    chosen["jit"] = old.global_jit_level > 0 or old.global_jit_level == 0 and jit_everywhere[0]
    if old.opt_level == old.L0:                    # only the passes requested by name
        chosen["constant_folding"] &= old.do_constant_folding
        chosen["common_subexpressions"] = old.do_common_subexpression_elimination
        chosen["recording"] = False
    return Options(**chosen)
