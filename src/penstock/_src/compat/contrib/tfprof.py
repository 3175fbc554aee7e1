"""tf.contrib.tfprof: tf.profiler under its first names."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock.compat import v1 as tf

_Builder = tf.profiler.ProfileOptionBuilder
TRAINABLE_VARS_PARAMS_STAT_OPTIONS = _Builder.trainable_variables_parameter()
FLOAT_OPS_OPTIONS = _Builder.float_operation()
PRINT_ALL_TIMING_MEMORY = _Builder.time_and_memory()
for _name, _value in (("TRAINABLE_VARS_PARAMS_STAT_OPTIONS", TRAINABLE_VARS_PARAMS_STAT_OPTIONS),
                      ("FLOAT_OPS_OPTIONS", FLOAT_OPS_OPTIONS), ("PRINT_ALL_TIMING_MEMORY", PRINT_ALL_TIMING_MEMORY)):
    export.value(_value, v1=[f"contrib.tfprof.model_analyzer.{_name}"])
export.value(tf.profiler.Profiler, v1=["contrib.tfprof.model_analyzer.Profiler"])
export.value(tf.profiler.write_op_log, v1=["contrib.tfprof.tfprof_logger.write_op_log"])


@export(v1=["contrib.tfprof.model_analyzer.print_model_analysis"])
def print_model_analysis(graph: Any, run_meta: Any = None, op_log: Any = None, tfprof_cmd: str = "scope",
                         tfprof_options: Any = None) -> Any:
    """tf.profiler.profile; by default, everything is printed.

    >>> tf.contrib.tfprof.model_analyzer.print_model_analysis(
    ...     graph, tfprof_options=tf.contrib.tfprof.model_analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS)
    """
    return tf.profiler.profile(graph, run_meta, op_log, tfprof_cmd, tfprof_options)
