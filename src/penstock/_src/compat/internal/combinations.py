"""Strategies for tests over combinations: named, made when a test runs, and skipped where their devices are missing."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import penstock as tf
from penstock._src.base.api import export
from penstock._src.library.testing import combinations

_NAMES = "__internal__.distribute.combinations"


class NamedDistribution:
    """A strategy by name, with what it needs."""

    def __init__(self, name: str, make: Callable[[], Any], gpus: int = 0, tpu: bool = False, workers: int = 0):
        self._name, self._make, self.required_tpu, self.workers = name, make, tpu, workers
        self.required_gpus, self.required_physical_gpus, self.has_chief, self.num_workers = gpus, 0, bool(workers), workers

    @property
    def strategy(self) -> Any:
        """A new strategy."""
        return self._make()

    def lacks(self) -> str | None:
        """Why the strategy cannot be created, or None."""
        found = len(tf.config.list_logical_devices("GPU"))
        if self.required_tpu:
            return "it needs a TPU"
        if self.required_gpus > found:
            return f"it needs {self.required_gpus} GPUs, and there are {found}"
        return f"it needs {self.workers} processes" if self.workers else None

    def __repr__(self) -> str:
        return self._name


class DistributionCombination(combinations.TestCombination):
    """Arguments that are named strategies become strategies."""

    def should_execute_combination(self, kwargs: dict[str, Any]) -> tuple[bool, str | None]:
        """Skips combinations whose devices are missing."""
        for value in kwargs.values():
            if isinstance(value, NamedDistribution) and value.lacks():
                return False, f"{value}: {value.lacks()}"
        return True, None

    def parameter_modifiers(self) -> list[combinations.ParameterModifier]:
        """Replaces names by strategies, and removes arguments that only declare requirements."""
        return [_MadeStrategies(), *map(combinations.OptionalParameter, (
            "required_tpus", "required_tpu", "required_gpus", "required_physical_gpus", "num_workers", "has_chief",
            "use_var_policy"))]


class _MadeStrategies(combinations.ParameterModifier):
    def modified_arguments(self, kwargs: dict[str, Any], requested_parameters: Any) -> dict[str, Any]:
        return {n: v.strategy for n, v in kwargs.items() if isinstance(v, NamedDistribution)}


export.value(functools.partial(combinations.generate, test_combinations=(
    *combinations.generate.keywords["test_combinations"], DistributionCombination())), f"{_NAMES}.generate")


@export(f"{_NAMES}.in_main_process")
def in_main_process() -> bool:
    """Whether this is the process that runs the tests: there is no other."""
    return True


def set_virtual_cpus_to_at_least(num_virtual_cpus: int) -> None:
    """Splits the CPU into so many logical devices, if they are fewer. RuntimeError if it is too late, ValueError below 1."""
    if num_virtual_cpus < 1:
        raise ValueError(f"`num_virtual_cpus` must be at least 1, not {num_virtual_cpus}")
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or [None]) >= num_virtual_cpus:
        return
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * num_virtual_cpus)
    except RuntimeError as e:
        raise RuntimeError(f"{num_virtual_cpus} logical CPUs must be configured before the first operation: {e}") from e


def _named(name: str, title: str, make: Callable[[], Any], **needs: Any) -> None:
    export.value(NamedDistribution(title, make, **needs), f"{_NAMES}.{name}")


def _mirrored(*devices: str) -> Callable[[], Any]:
    return lambda: tf.distribute.MirroredStrategy(list(devices))


def _no_servers() -> Any:
    raise tf.errors.UnimplementedError(None, None, "tests with several processes are started as a cluster "
                                       "(docs/tutorials/cluster.md)")


_named("default_strategy", "Default", tf.distribute.get_strategy)
_named("one_device_strategy", "OneDeviceCPU", lambda: tf.distribute.OneDeviceStrategy("/cpu:0"))
_named("one_device_strategy_gpu", "OneDeviceGPU", lambda: tf.distribute.OneDeviceStrategy("/gpu:0"), gpus=1)
_named("mirrored_strategy_with_one_cpu", "Mirrored1CPU", _mirrored("/cpu:0"))
_named("mirrored_strategy_with_one_gpu", "Mirrored1GPU", _mirrored("/gpu:0"), gpus=1)
_named("mirrored_strategy_with_gpu_and_cpu", "MirroredCPUAndGPU", _mirrored("/gpu:0", "/cpu:0"), gpus=1)
_named("mirrored_strategy_with_two_cpus", "Mirrored2CPUs", _mirrored("/cpu:0", "/cpu:1"))
_named("mirrored_strategy_with_cpu_1_and_2", "Mirrored2CPU", _mirrored("/cpu:1", "/cpu:2"))
for _name in ("mirrored_strategy_with_two_gpus", "mirrored_strategy_with_two_gpus_no_merge_call"):
    _named(_name, "Mirrored2GPUs", _mirrored("/gpu:0", "/gpu:1"), gpus=2)
_named("central_storage_strategy_with_gpu_and_cpu", "CentralStorageCPUAndGPU",
       lambda: tf.distribute.experimental.CentralStorageStrategy(["/gpu:0", "/cpu:0"]), gpus=1)
_named("central_storage_strategy_with_two_gpus", "CentralStorage2GPUs",
       lambda: tf.distribute.experimental.CentralStorageStrategy(["/gpu:0", "/gpu:1"]), gpus=2)
for _name in ("tpu_strategy", "tpu_strategy_one_core", "tpu_strategy_packed_var", "cloud_tpu_strategy"):
    _named(_name, "TPU", tf.distribute.TPUStrategy, tpu=True)
for _name, _title, _gpus, _workers in (
        ("multi_worker_mirrored_2x1_cpu", "MultiWorkerMirrored2x1CPU", 0, 2),
        ("multi_worker_mirrored_2x1_gpu", "MultiWorkerMirrored2x1GPU", 1, 2),
        ("multi_worker_mirrored_2x1_gpu_noshare", "MultiWorkerMirrored2x1GPUNoShare", 1, 2),
        ("multi_worker_mirrored_2x2_gpu", "MultiWorkerMirrored2x2GPU", 2, 2),
        ("multi_worker_mirrored_2x2_gpu_no_merge_call", "MultiWorkerMirrored2x2GPUNoMergeCall", 2, 2),
        ("parameter_server_strategy_1worker_2ps_cpu", "ParameterServer1Worker2PSCPU", 0, 3),
        ("parameter_server_strategy_1worker_2ps_1gpu", "ParameterServer1Worker2PS1GPU", 1, 3),
        ("parameter_server_strategy_3worker_2ps_cpu", "ParameterServer3Worker2PSCPU", 0, 5),
        ("parameter_server_strategy_3worker_2ps_1gpu", "ParameterServer3Worker2PS1GPU", 1, 5)):
    _named(_name, _title, _no_servers, gpus=_gpus, workers=_workers)
