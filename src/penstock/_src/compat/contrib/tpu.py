"""tf.contrib.tpu and tf.estimator.tpu, for programs that can also run without a TPU: their estimators use CPUs and GPUs here.

Programs such as BERT's use TPUEstimator with `use_tpu=False`. A request for a TPU is an error that names the alternative.
"""
from __future__ import annotations

import collections
from typing import Any

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.models.estimator.estimator import Estimator
from penstock._src.models.estimator.run_config import RunConfig as _RunConfig
from penstock._src.models.estimator.spec import EstimatorSpec, ModeKeys
from penstock._src.training.train.optimizer_around import OptimizerAround


@export(v1=["contrib.tpu.InputPipelineConfig", "estimator.tpu.InputPipelineConfig"])
class InputPipelineConfig:
    """Where the input of a TPU is made."""

    PER_SHARD_V1, PER_HOST_V1, PER_HOST_V2, BROADCAST, SLICED = 1, 2, 3, 4, 5


_CONFIG = ("iterations_per_loop", "num_shards", "num_cores_per_replica", "per_host_input_for_training", "tpu_job_name",
           "initial_infeed_sleep_secs", "input_partition_dims", "eval_training_input_configuration",
           "experimental_host_call_every_n_steps")


@export(v1=["contrib.tpu.TPUConfig", "estimator.tpu.TPUConfig"])
class TPUConfig(collections.namedtuple("TPUConfig", _CONFIG)):
    """Settings of a TPU; they have no effect here."""

    def __new__(cls, iterations_per_loop: int = 2, num_shards: int | None = None, num_cores_per_replica: int | None = None,
                per_host_input_for_training: Any = True, tpu_job_name: str | None = None,
                initial_infeed_sleep_secs: int | None = None, input_partition_dims: Any = None,
                eval_training_input_configuration: Any = InputPipelineConfig.PER_HOST_V1,
                experimental_host_call_every_n_steps: int = 1) -> TPUConfig:
        return super().__new__(cls, iterations_per_loop, num_shards, num_cores_per_replica, per_host_input_for_training,
                               tpu_job_name, initial_infeed_sleep_secs, input_partition_dims,
                               eval_training_input_configuration, experimental_host_call_every_n_steps)


@export(v1=["contrib.tpu.RunConfig", "estimator.tpu.RunConfig"])
class RunConfig(_RunConfig):
    """A RunConfig with settings of a TPU beside the others."""

    def __init__(self, tpu_config: Any = None, evaluation_master: Any = None, master: Any = None, cluster: Any = None,
                 **kwargs: Any):
        if master or cluster is not None:
            raise ValueError("TPUs are not supported: leave out master, cluster and tpu_name, and use use_tpu=False")
        super().__init__(**kwargs)
        self._tpu_config, self._cluster = tpu_config or TPUConfig(), None

    tpu_config = property(lambda self: self._tpu_config, doc="The settings of a TPU.")
    cluster = property(lambda self: self._cluster, doc="The cluster resolver: none.")


_SPEC = ("mode", "predictions", "loss", "train_op", "eval_metrics", "export_outputs", "scaffold_fn", "host_call",
         "training_hooks", "evaluation_hooks", "prediction_hooks")


@export(v1=["contrib.tpu.TPUEstimatorSpec", "estimator.tpu.TPUEstimatorSpec"])
class TPUEstimatorSpec(collections.namedtuple("TPUEstimatorSpec", _SPEC)):
    """The ops of a model; metrics and scaffold are functions."""

    def __new__(cls, mode: str, predictions: Any = None, loss: Any = None, train_op: Any = None, eval_metrics: Any = None,
                export_outputs: Any = None, scaffold_fn: Any = None, host_call: Any = None, training_hooks: Any = None,
                evaluation_hooks: Any = None, prediction_hooks: Any = None) -> TPUEstimatorSpec:
        for name, pair in (("eval_metrics", eval_metrics), ("host_call", host_call)):
            if pair is not None and not (isinstance(pair, (tuple, list)) and len(pair) == 2 and callable(pair[0])):
                raise ValueError(f"{name} must be a pair of a function and its tensors, given: {pair}")
        return super().__new__(cls, mode, predictions, loss, train_op, eval_metrics, export_outputs, scaffold_fn, host_call,
                               tuple(training_hooks or ()), tuple(evaluation_hooks or ()), tuple(prediction_hooks or ()))

    def as_estimator_spec(self) -> EstimatorSpec:
        """The same as an EstimatorSpec."""
        metrics = _called(self.eval_metrics) if self.eval_metrics is not None and self.mode == ModeKeys.EVAL else None
        return EstimatorSpec(self.mode, self.predictions, self.loss, self.train_op, metrics, self.export_outputs,
                             training_hooks=self.training_hooks, scaffold=self.scaffold_fn() if self.scaffold_fn else None,
                             evaluation_hooks=self.evaluation_hooks, prediction_hooks=self.prediction_hooks)


def _called(pair: Any) -> Any:
    function, tensors = pair
    return function(**tensors) if isinstance(tensors, dict) else function(*tensors)


@export(v1=["contrib.tpu.TPUEstimator", "estimator.tpu.TPUEstimator"])
class TPUEstimator(Estimator):
    """An Estimator whose functions find the size of a batch in `params["batch_size"]`.

    >>> tf.contrib.tpu.TPUEstimator(model_fn, use_tpu=False, config=config, train_batch_size=32)
    """

    def __init__(self, model_fn: Any = None, model_dir: Any = None, config: Any = None, params: Any = None,
                 use_tpu: bool = True, train_batch_size: int | None = None, eval_batch_size: int | None = None,
                 predict_batch_size: int | None = None, batch_axis: Any = None, eval_on_tpu: bool = True,
                 export_to_tpu: bool = True, export_to_cpu: bool = True, warm_start_from: Any = None, **others: Any):
        if use_tpu:
            raise ValueError("TPUs are not supported: create the TPUEstimator with use_tpu=False")
        if params is not None and "batch_size" in params:
            raise ValueError("params must not contain batch_size: pass train_batch_size, eval_batch_size or predict_batch_size")
        self._batch_sizes = {ModeKeys.TRAIN: train_batch_size, ModeKeys.EVAL: eval_batch_size or train_batch_size,
                             ModeKeys.PREDICT: predict_batch_size or train_batch_size}
        self._mode = ModeKeys.TRAIN

        def plain(features: Any, labels: Any, mode: str, params: Any, config: Any) -> EstimatorSpec:
            import inspect
            taken = inspect.signature(model_fn).parameters
            given = {"labels": labels, "mode": mode, "params": params, "config": config}
            made = model_fn(features, **{k: v for k, v in given.items() if k in taken})
            return made.as_estimator_spec() if isinstance(made, TPUEstimatorSpec) else made
        super().__init__(plain, model_dir, config, dict(params or {}), warm_start_from)

    @property
    def params(self) -> Any:
        """The parameters, with the size of a batch of what runs now, and that it does not run on a TPU."""
        size = self._batch_sizes[self._mode]
        return {**super().params, "use_tpu": False, **({} if size is None else {"batch_size": size})}

    def _features_and_labels(self, input_fn: Any, mode: str) -> tuple[Any, Any, list]:
        self._mode = mode
        return super()._features_and_labels(input_fn, mode)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        self._mode = mode
        return super()._call_model_fn(features, labels, mode, config)


@export(v1=["contrib.tpu.CrossShardOptimizer", "tpu.CrossShardOptimizer"])
class CrossShardOptimizer(OptimizerAround):
    """An optimizer that adds up the gradients of the cores of a TPU: with one device, the optimizer itself."""

    def __init__(self, opt: Any, reduction: Any = None, name: str = "CrossShardOptimizer", group_assignment: Any = None):
        super().__init__(opt, False, name)


@export(v1=["contrib.cluster_resolver.TPUClusterResolver"])
class TPUClusterResolver:
    """Finds the address of a TPU: there is none."""

    def __init__(self, tpu: Any = None, zone: Any = None, project: Any = None, **others: Any):
        raise tf.errors.UnavailableError(None, None, "TPUs are not supported: run the program without a TPU name, with "
                                                     "use_tpu=False")


@export(v1=["contrib.tpu.rewrite", "tpu.rewrite"])
def rewrite(computation: Any, inputs: Any = None, **others: Any) -> Any:
    """Calls the computation, which runs where its ops are placed."""
    return computation(*(inputs or ()))
