"""RunConfig: where an estimator keeps its model, how often it saves, and which task of a cluster it is (TF_CONFIG)."""
from __future__ import annotations

import copy
import json
import operator
import os
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export


@export("estimator.experimental.TaskType")
class TaskType:
    """The kinds of tasks of a cluster."""

    MASTER, PS, WORKER, CHIEF, EVALUATOR = "master", "ps", "worker", "chief", "evaluator"


_DEFAULT = object()
_REPLACEABLE = ("model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs",
                "session_config", "keep_checkpoint_max", "keep_checkpoint_every_n_hours", "log_step_count_steps",
                "train_distribute", "device_fn", "protocol", "eval_distribute", "experimental_distribute",
                "experimental_max_worker_delay_secs", "session_creation_timeout_secs")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without duplicate fields."""
    names = [name for name, _ in pairs]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"TF_CONFIG has the field {twice[0]!r} twice.")
    return dict(pairs)


def _check_addresses(jobs: dict[str, Any]) -> None:
    """ValueError if two tasks have one address, where port 0 represents any that is free."""
    seen: dict[str, str] = {}
    for job, tasks in jobs.items():
        for i, address in enumerate(tasks):
            if address in seen and not str(address).endswith(":0"):
                raise ValueError(f'"cluster" in TF_CONFIG names {address!r} twice: as {seen[address]} and as {job}:{i}.')
            seen[address] = f"{job}:{i}"


def _tf_config() -> dict[str, Any]:
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as e:
        raise ValueError(f"TF_CONFIG is not JSON: {e}. It is: {text[:200]!r}") from None
    if not isinstance(found, dict):
        raise ValueError(f"TF_CONFIG must be a JSON object, got: {text[:200]!r}")
    return found


@export("estimator.RunConfig")
class RunConfig:
    """The configuration of an estimator.

    Args:
        model_dir: Folder of checkpoints and summaries.
        tf_random_seed: Seed of the graphs.
        save_summary_steps: Steps between summaries.
        save_checkpoints_steps: Steps between checkpoints.
        save_checkpoints_secs: Seconds between checkpoints, instead of steps; 600 by default.
        session_config: ConfigProto of the sessions.
        keep_checkpoint_max: How many checkpoints to keep; 0 or None for all.
        keep_checkpoint_every_n_hours: Keeps one checkpoint of this many hours in addition.
        log_step_count_steps: Steps between messages with the rate of steps.
        train_distribute: Strategy of training.
        device_fn: Function of an op that returns its device.
        protocol: Protocol of the servers.
        eval_distribute: Strategy of evaluation.
        experimental_distribute: Both strategies and a remote cluster.
        experimental_max_worker_delay_secs: Longest delay of a worker's start.
        session_creation_timeout_secs: Seconds that a worker waits for the chief.
        checkpoint_save_graph_def: Whether to write the graph beside the checkpoints.

    >>> config = tf.estimator.RunConfig(model_dir="model", save_checkpoints_steps=500)
    >>> config.save_checkpoints_steps
    500
    """

    _save_checkpoints_secs: Any
    _save_checkpoints_steps: Any
    _train_distribute: Any
    cluster_spec: Any
    device_fn: Any
    eval_distribute: Any
    evaluation_master: Any
    is_chief: Any
    keep_checkpoint_every_n_hours: Any
    keep_checkpoint_max: Any
    log_step_count_steps: Any
    master: Any
    num_ps_replicas: Any
    save_checkpoints_secs: Any
    save_checkpoints_steps: Any
    save_summary_steps: Any
    session_config: Any
    task_id: Any
    task_type: Any
    tf_random_seed: Any
    train_distribute: Any

    def __init__(self, model_dir: Any = None, tf_random_seed: int | None = None, save_summary_steps: int | None = 100,
                 save_checkpoints_steps: Any = _DEFAULT, save_checkpoints_secs: Any = _DEFAULT, session_config: Any = None,
                 keep_checkpoint_max: int | None = 5, keep_checkpoint_every_n_hours: float = 10000,
                 log_step_count_steps: int | None = 100, train_distribute: Any = None, device_fn: Any = None,
                 protocol: Any = None, eval_distribute: Any = None, experimental_distribute: Any = None,
                 experimental_max_worker_delay_secs: Any = None, session_creation_timeout_secs: int = 7200,
                 checkpoint_save_graph_def: bool = True):
        if save_checkpoints_steps is _DEFAULT and save_checkpoints_secs is _DEFAULT:
            save_checkpoints_steps, save_checkpoints_secs = None, 600
        elif save_checkpoints_secs is _DEFAULT:
            save_checkpoints_secs = None
        elif save_checkpoints_steps is _DEFAULT:
            save_checkpoints_steps = None
        if save_checkpoints_steps is not None and save_checkpoints_secs is not None:
            raise ValueError("Both save_checkpoints_steps and save_checkpoints_secs are set.")
        for name, value in (("save_summary_steps", save_summary_steps), ("save_checkpoints_steps", save_checkpoints_steps),
                            ("save_checkpoints_secs", save_checkpoints_secs), ("keep_checkpoint_max", keep_checkpoint_max)):
            if value is not None and value < 0:
                raise ValueError(f"{name} should be >= 0")
        self._checkpoint_save_graph_def = checkpoint_save_graph_def
        given = locals()
        for name in _REPLACEABLE:
            setattr(self, f"_{name}", given[name])
        self._read_cluster(_tf_config())
        self._model_dir = _model_dir(model_dir, _tf_config())

    def _read_cluster(self, found: dict[str, Any]) -> None:
        self._cluster_spec = tf.train.ClusterSpec(found.get("cluster") or {})
        self._service = found.get("service")
        task = found.get("task") or {}
        self._task_type = task.get("type") or (TaskType.WORKER if not self._cluster_spec.as_dict() else None)
        self._task_id = int(task.get("index") or 0)
        jobs = self._cluster_spec.as_dict()
        self._master, self._is_chief, self._num_ps_replicas, self._num_worker_replicas = "", True, 0, 1
        self._evaluation_master = ""
        self._global_id_in_cluster: int | None = 0
        if not jobs:
            return
        _check_addresses(jobs)
        led = TaskType.CHIEF in jobs or TaskType.MASTER in jobs
        if not led and self._train_distribute is None:
            raise ValueError('If "cluster" is set in TF_CONFIG, it must have one "chief" node.')
        if self._task_type is None or "index" not in task:
            raise ValueError('If "cluster" is set in TF_CONFIG, "task" must have a "type" and an "index" '
                             f'("task" is {json.dumps(task)}).')
        self._num_ps_replicas = len(jobs.get(TaskType.PS, ()))
        self._num_worker_replicas = len(jobs.get(TaskType.WORKER, ())) + led
        if self._task_type == TaskType.EVALUATOR:
            self._is_chief, self._num_ps_replicas, self._num_worker_replicas = False, 0, 0
            self._cluster_spec, self._global_id_in_cluster = tf.train.ClusterSpec({}), None
            return
        known = jobs.get(self._task_type)
        if known is None or self._task_id >= len(known):
            raise ValueError(f'TF_CONFIG names the task {self._task_type}:{self._task_id}, but its "cluster" has '
                             f"{ {k: len(v) for k, v in jobs.items()} }.")
        self._is_chief = self._task_type in (TaskType.CHIEF, TaskType.MASTER) or \
            not led and (self._task_type, self._task_id) == (TaskType.WORKER, 0)        # as strategies take it
        if self._task_type != TaskType.PS:
            self._master = f"grpc://{known[self._task_id]}"
        order = [TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER, TaskType.PS]
        before = sum(len(jobs.get(j, ())) for j in order[:order.index(self._task_type)])
        self._global_id_in_cluster = before + self._task_id

    def replace(self, **changes: Any) -> RunConfig:
        """A copy with some properties changed."""
        unknown = [k for k in changes if k not in _REPLACEABLE]
        if unknown:
            raise ValueError(f"Replacing {unknown[0]} is not supported. Allowed properties are {list(_REPLACEABLE)}.")
        made = copy.copy(self)
        if "save_checkpoints_steps" in changes and changes["save_checkpoints_steps"] is not None:
            changes.setdefault("save_checkpoints_secs", None)
        elif "save_checkpoints_secs" in changes and changes["save_checkpoints_secs"] is not None:
            changes.setdefault("save_checkpoints_steps", None)
        for name, value in changes.items():
            setattr(made, f"_{name}", value)
        if made._save_checkpoints_steps is not None and made._save_checkpoints_secs is not None:
            raise ValueError("Both save_checkpoints_steps and save_checkpoints_secs are set.")
        return made


def _model_dir(given: Any, found: dict[str, Any]) -> Any:
    configured = found.get("model_dir")
    if given is not None and configured is not None and str(given) != configured:
        raise ValueError(f"model_dir is set differently in RunConfig ({given!r}) and in TF_CONFIG ({configured!r}).")
    return given if given is not None else configured


for _name in (*_REPLACEABLE, "cluster_spec", "task_type", "task_id", "master", "evaluation_master", "is_chief",
              "num_ps_replicas", "num_worker_replicas", "global_id_in_cluster", "service", "checkpoint_save_graph_def"):
    setattr(RunConfig, _name, property(operator.attrgetter(f"_{_name}")))
