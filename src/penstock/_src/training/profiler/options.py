"""The options of a profile: tf.profiler.ProfileOptionBuilder."""
from __future__ import annotations

import copy
from typing import Any

from penstock._src.base.api import export

ALL = {"max_depth": 10000, "min_bytes": 0, "min_peak_bytes": 0, "min_residual_bytes": 0, "min_output_bytes": 0, "min_micros": 0,
       "min_accelerator_micros": 0, "min_cpu_micros": 0, "min_params": 0, "min_float_ops": 0, "min_occurrence": 0,
       "order_by": "name", "account_type_regexes": [".*"], "start_name_regexes": [".*"], "trim_name_regexes": [],
       "show_name_regexes": [".*"], "hide_name_regexes": [], "account_displayed_op_only": False, "select": ["micros"],
       "step": -1, "output": "stdout"}


@export(v1=["profiler.ProfileOptionBuilder"])
class ProfileOptionBuilder:
    """Options of a profile, one method each.

    >>> options = tf.profiler.ProfileOptionBuilder.trainable_variables_parameter()
    >>> tf.profiler.profile(graph, options=options).total_parameters
    """

    def __init__(self, options: dict[str, Any] | None = None):
        self._options = copy.deepcopy(ALL if options is None else {**ALL, **options})

    @staticmethod
    def trainable_variables_parameter() -> dict[str, Any]:
        """The parameters of trainable variables, by name scope."""
        return {**copy.deepcopy(ALL), "account_type_regexes": ["_trainable_variables"], "select": ["params"]}

    @staticmethod
    def float_operation() -> dict[str, Any]:
        """Float operations, most first."""
        return {**copy.deepcopy(ALL), "min_float_ops": 1, "order_by": "float_ops", "select": ["float_ops"]}

    @staticmethod
    def time_and_memory(min_micros: int = 1, min_bytes: int = 1, min_accelerator_micros: int = 0, min_cpu_micros: int = 0,
                        min_peak_bytes: int = 0, min_residual_bytes: int = 0, min_output_bytes: int = 0) -> dict[str, Any]:
        """Times and bytes, longest first."""
        return {**copy.deepcopy(ALL), "min_micros": min_micros, "min_bytes": min_bytes,
                "min_accelerator_micros": min_accelerator_micros, "min_cpu_micros": min_cpu_micros,
                "min_peak_bytes": min_peak_bytes, "min_residual_bytes": min_residual_bytes,
                "min_output_bytes": min_output_bytes, "order_by": "micros",
                "select": ["micros", "accelerator_micros", "cpu_micros", "bytes", "peak_bytes", "residual_bytes",
                           "output_bytes"]}

    def build(self) -> dict[str, Any]:
        """The options as a dictionary."""
        return copy.deepcopy(self._options)

    def _set(self, **values: Any) -> ProfileOptionBuilder:
        self._options.update(values)
        return self

    def with_max_depth(self, max_depth: int) -> ProfileOptionBuilder:
        """Shows nodes up to a depth."""
        return self._set(max_depth=max_depth)

    def with_min_memory(self, min_bytes: int = 0, min_peak_bytes: int = 0, min_residual_bytes: int = 0,
                        min_output_bytes: int = 0) -> ProfileOptionBuilder:
        """Shows nodes that took at least so many bytes."""
        return self._set(min_bytes=min_bytes, min_peak_bytes=min_peak_bytes, min_residual_bytes=min_residual_bytes,
                         min_output_bytes=min_output_bytes)

    def with_min_execution_time(self, min_micros: int = 0, min_accelerator_micros: int = 0,
                                min_cpu_micros: int = 0) -> ProfileOptionBuilder:
        """Shows nodes that ran at least so long."""
        return self._set(min_micros=min_micros, min_accelerator_micros=min_accelerator_micros, min_cpu_micros=min_cpu_micros)

    def with_min_parameters(self, min_params: int) -> ProfileOptionBuilder:
        """Shows nodes with at least so many parameters."""
        return self._set(min_params=min_params)

    def with_min_occurrence(self, min_occurrence: int) -> ProfileOptionBuilder:
        """Shows kinds of ops that occur at least so often."""
        return self._set(min_occurrence=min_occurrence)

    def with_min_float_operations(self, min_float_ops: int) -> ProfileOptionBuilder:
        """Shows nodes with at least so many float operations."""
        return self._set(min_float_ops=min_float_ops)

    def with_accounted_types(self, account_type_regexes: list[str]) -> ProfileOptionBuilder:
        """Counts ops whose type, device or role (`_trainable_variables`) matches one of these."""
        return self._set(account_type_regexes=copy.copy(account_type_regexes))

    def with_node_names(self, start_name_regexes: list[str] | None = None, show_name_regexes: list[str] | None = None,
                        hide_name_regexes: list[str] | None = None,
                        trim_name_regexes: list[str] | None = None) -> ProfileOptionBuilder:
        """Begins at, shows, hides, or stops at nodes with such names."""
        given = {"start_name_regexes": start_name_regexes, "show_name_regexes": show_name_regexes,
                 "hide_name_regexes": hide_name_regexes, "trim_name_regexes": trim_name_regexes}
        return self._set(**{k: copy.copy(v) for k, v in given.items() if v is not None})

    def account_displayed_op_only(self, is_true: bool) -> ProfileOptionBuilder:
        """Sums only the nodes that are shown."""
        return self._set(account_displayed_op_only=is_true)

    def with_empty_output(self) -> ProfileOptionBuilder:
        """Prints nothing."""
        return self._set(output="none")

    def with_stdout_output(self) -> ProfileOptionBuilder:
        """Prints to stdout."""
        return self._set(output="stdout")

    def with_file_output(self, outfile: str) -> ProfileOptionBuilder:
        """Writes to a file."""
        return self._set(output=f"file:outfile={outfile}")

    def with_timeline_output(self, timeline_file: str) -> ProfileOptionBuilder:
        """Writes a trace that Chrome shows."""
        return self._set(output=f"timeline:outfile={timeline_file}")

    def with_pprof_output(self, pprof_file: str) -> ProfileOptionBuilder:
        """pprof's format; writing it raises UnimplementedError."""
        return self._set(output=f"pprof:outfile={pprof_file}")

    def order_by(self, attribute: str) -> ProfileOptionBuilder:
        """Orders by name, depth, bytes, micros, params, float_ops or occurrence."""
        return self._set(order_by=attribute)

    def select(self, attributes: list[str]) -> ProfileOptionBuilder:
        """The columns that are shown."""
        return self._set(select=copy.copy(attributes))

    def with_step(self, step: int) -> ProfileOptionBuilder:
        """The step whose times are shown; -1 is the mean of all."""
        return self._set(step=step)
