"""tf.estimator.Estimator: trains, evaluates, predicts and exports the model that a function builds.

Each of these builds the graph again: input function, model function, then a monitored session on the checkpoints of
`model_dir`. So training continues where it stopped, and an evaluation sees the newest checkpoint.
"""
from __future__ import annotations

import collections
import inspect
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.base.api import export
from penstock._src.data.datasets.dataset import DatasetV2
from penstock._src.models.estimator import replicas
from penstock._src.models.estimator.run_config import RunConfig
from penstock._src.models.estimator.spec import EstimatorSpec, ModeKeys
from penstock._src.models.estimator.supervised import outputs_of
from penstock._src.models.estimator.warm_start import WarmStartSettings, warm_start_settings

_ARGUMENTS = {"features", "labels", "mode", "params", "self", "config"}


@export("estimator.Estimator", v1=["estimator.Estimator"])
class Estimator:
    """A model, given by a function, with its checkpoints.

    Args:
        model_fn: Function of features, labels, mode, params and config that returns an `EstimatorSpec`. It may take fewer
            arguments.
        model_dir: Directory for checkpoints and events.
        config: `RunConfig`.
        params: Dictionary passed to `model_fn`.
        warm_start_from: Checkpoint, or `WarmStartSettings`, to take initial values from.

    >>> def model_fn(features, labels, mode, params):
    ...     w = tf.compat.v1.get_variable("w", initializer=0.)
    ...     loss = tf.reduce_mean((w * features["x"] - labels) ** 2)
    ...     optimizer = tf.compat.v1.train.GradientDescentOptimizer(params["rate"])
    ...     train = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    ...     return tf.estimator.EstimatorSpec(mode, predictions=w * features["x"], loss=loss, train_op=train)
    >>> def input_fn():
    ...     return tf.data.Dataset.from_tensor_slices(({"x": [1., 2.]}, [3., 6.])).repeat().batch(2)
    >>> estimator = tf.estimator.Estimator(model_fn, model_dir="model", params={"rate": 0.1})
    >>> estimator = estimator.train(input_fn, steps=50)
    >>> float(estimator.get_variable_value("w"))
    3.0
    """

    def __init__(self, model_fn: Any, model_dir: Any = None, config: Any = None, params: Any = None,
                 warm_start_from: Any = None):
        _check_not_overridden(self)
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        _check_arguments(model_fn, params)
        self._config = _with_model_dir(config, model_dir)
        self._model_fn, self._params = model_fn, params if hasattr(params, "values") and not isinstance(params, dict) \
            else dict(params or {})
        self._warm_start_settings: WarmStartSettings | None = warm_start_settings(warm_start_from)
        self._device_fn = self._config.device_fn or _default_device_fn(self._config)
        tf.logging.info("Using config: %s", {k: v for k, v in vars(self._config).items()})

    model_dir = property(lambda self: self._config.model_dir, doc="Where the checkpoints are.")
    config = property(lambda self: self._config, doc="The RunConfig.")

    @property
    def params(self) -> Any:
        """A copy of the parameters of the model function."""
        import copy
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Any:
        """The model function, of features, labels, mode and config."""
        def bound(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return self._call_model_fn(features, labels, mode, config)
        return bound

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the newest checkpoint."""
        self._need_checkpoint()
        return tf.train.load_variable(self.model_dir, name)

    def get_variable_names(self) -> list[str]:
        """The names of the variables in the newest checkpoint."""
        self._need_checkpoint()
        return [name for name, _ in tf.train.list_variables(self.model_dir)]

    def latest_checkpoint(self) -> str | None:
        """The newest checkpoint, None if there is none."""
        return tf.train.latest_checkpoint(self.model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """Where the summaries of evaluations are."""
        return os.path.join(str(self.model_dir), f"eval_{name}" if name else "eval")

    def _need_checkpoint(self) -> None:
        if not self.latest_checkpoint():
            raise ValueError(f"Could not find trained model in model_dir: {self.model_dir}. Call train first.")

    # -- training ----------------------------------------------------------------------------------------------------
    def train(self, input_fn: Any, hooks: Any = None, steps: int | None = None, max_steps: int | None = None,
              saving_listeners: Any = None) -> Estimator:
        """Trains for `steps` more steps, or up to `max_steps` in all, or until the input ends."""
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        for name, value in (("steps", steps), ("max_steps", max_steps)):
            if value is not None and value <= 0:
                raise ValueError(f"Must specify {name} > 0, given: {value}")
        if max_steps is not None and _global_step_of(self.model_dir) >= max_steps:
            tf.logging.info("The checkpoint has reached max_steps already: nothing to train.")
            return self
        hooks = _checked_hooks(hooks)
        if steps is not None or max_steps is not None:
            hooks.append(tf.train.StopAtStepHook(steps, max_steps))
        loss = self._train_model(input_fn, hooks, tuple(saving_listeners or ()))
        tf.logging.info("Loss for final step: %s.", loss)
        return self

    def _train_model(self, input_fn: Any, hooks: list, listeners: tuple) -> Any:
        strategy = self._config.train_distribute
        with tf.Graph().as_default() as graph, graph.device(self._device_fn), replicas.scope(strategy):
            tf.set_random_seed(self._config.tf_random_seed if self._config.tf_random_seed is not None else 1)
            step = self._create_and_assert_global_step(graph)
            spec, input_hooks = self._build(input_fn, ModeKeys.TRAIN, strategy)
            if self._warm_start_settings is not None and self.latest_checkpoint() is None:
                self._warm_start_settings.apply()
            every = self._config.log_step_count_steps
            worker_hooks = [*hooks, *input_hooks, tf.train.NanTensorHook(spec.loss)]
            if every:
                worker_hooks.append(tf.train.LoggingTensorHook({"loss": spec.loss, "step": step}, every_n_iter=every))
            worker_hooks += spec.training_hooks
            tf.summary.scalar("loss", spec.loss)
            self._give_saver(spec.scaffold)
            with self._training_session(spec, worker_hooks, listeners) as sess:
                loss = None
                while not sess.should_stop():
                    _, loss = sess.run([spec.train_op, spec.loss])
        return loss

    def _training_session(self, spec: EstimatorSpec, hooks: list, listeners: tuple) -> Any:
        """The session of this task. Where each worker has a copy of the variables, each restores or initializes its own, in a
        session of its process; one of them writes."""
        own = replicas.own_copies(self._config.train_distribute)
        if own and not self._config.train_distribute.extended.should_checkpoint:
            creator = tf.train.ChiefSessionCreator(spec.scaffold, "", self._session_config(), str(self.model_dir))
            return tf.train.MonitoredSession(creator, hooks)
        return tf.train.MonitoredTrainingSession(
            master="" if own else self._config.master, is_chief=own or self._config.is_chief, checkpoint_dir=self.model_dir,
            scaffold=spec.scaffold, hooks=hooks, chief_only_hooks=self._chief_hooks(spec, hooks, listeners),
            save_checkpoint_secs=0, save_summaries_steps=self._config.save_summary_steps, config=self._session_config(),
            log_step_count_steps=self._config.log_step_count_steps)

    def _give_saver(self, scaffold: Any) -> None:
        if scaffold.saver is None and not tf.get_collection(tf.GraphKeys.SAVERS):
            tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(
                sharded=True, max_to_keep=self._config.keep_checkpoint_max, defer_build=True, save_relative_paths=True,
                keep_checkpoint_every_n_hours=self._config.keep_checkpoint_every_n_hours))

    def _chief_hooks(self, spec: EstimatorSpec, worker_hooks: list, listeners: tuple) -> list:
        chief = list(spec.training_chief_hooks)
        savers = [h for h in (*worker_hooks, *chief) if isinstance(h, tf.train.CheckpointSaverHook)]
        secs, steps = self._config.save_checkpoints_secs, self._config.save_checkpoints_steps
        if (secs or steps) and not savers:
            savers = [tf.train.CheckpointSaverHook(str(self.model_dir), secs, steps, scaffold=spec.scaffold)]
            chief += savers
        if listeners:
            if not savers:
                raise ValueError("There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
                                 "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs.")
            savers[0]._listeners.extend(listeners)
        return chief

    def _session_config(self) -> Any:
        config = self._config.session_config
        if config is None and self._config.cluster_spec.as_dict() and self._config.num_ps_replicas:
            worker = f"/job:{self._config.task_type}/task:{self._config.task_id}"
            return tf.ConfigProto(allow_soft_placement=True, device_filters=["/job:ps", worker])
        return config if config is not None else tf.ConfigProto(allow_soft_placement=True)

    # -- evaluation --------------------------------------------------------------------------------------------------
    def evaluate(self, input_fn: Any, steps: int | None = None, hooks: Any = None, checkpoint_path: str | None = None,
                 name: str | None = None) -> dict[str, Any]:
        """The metrics of the newest checkpoint (or of one) over `steps` batches, or over all of the input."""
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        hooks = _checked_hooks(hooks)
        checkpoint = checkpoint_path or self.latest_checkpoint()
        if not checkpoint:
            tf.logging.info("Could not find trained model in model_dir: %s, running initialization to evaluate.",
                            self.model_dir)
        return self._evaluate(input_fn, steps, hooks, checkpoint, name)

    def _evaluate(self, input_fn: Any, steps: int | None, hooks: list, checkpoint: str | None, name: str | None,
                  variables: dict[str, Any] | None = None) -> dict[str, Any]:
        """The metrics of a checkpoint, or of the values of variables."""
        strategy = self._config.eval_distribute
        with tf.Graph().as_default() as graph, graph.device(self._device_fn), replicas.scope(strategy):
            tf.set_random_seed(self._config.tf_random_seed if self._config.tf_random_seed is not None else 1)
            self._create_and_assert_global_step(graph)
            spec, input_hooks = self._build(input_fn, ModeKeys.EVAL, strategy)
            pairs = replicas.metric_pairs(spec) if strategy is None else spec.eval_metric_ops
            updates, values = tf.group(*[update for _, update in pairs.values()]), {k: v for k, (v, _) in pairs.items()}
            final = tf.train.FinalOpsHook({**values, "global_step": tf.train.get_global_step()})
            every = [*hooks, *input_hooks, *spec.evaluation_hooks, final]
            scaffold = spec.scaffold if variables is None else _with_values(spec.scaffold, variables)
            creator = tf.train.ChiefSessionCreator(scaffold, self._config.evaluation_master, self._session_config(),
                                                   checkpoint_filename_with_path=checkpoint)
            self._give_saver(scaffold)
            count = 0
            with tf.train.MonitoredSession(creator, every) as sess:
                while not sess.should_stop() and (steps is None or count < steps):
                    sess.run(updates)
                    count += 1
            result = final.final_ops_values
        _write_result(self.eval_dir(name), result)
        tf.logging.info("Saving dict for global step %d: %s", result["global_step"],
                        ", ".join(f"{k} = {v}" for k, v in sorted(result.items()) if not isinstance(v, bytes)))
        return result

    # -- prediction --------------------------------------------------------------------------------------------------
    def predict(self, input_fn: Any, predict_keys: Any = None, hooks: Any = None, checkpoint_path: str | None = None,
                yield_single_examples: bool = True) -> Iterator[Any]:
        """Yields the predictions for each row of the input (or for each batch)."""
        hooks = _checked_hooks(hooks)
        checkpoint = checkpoint_path or self.latest_checkpoint()
        if not checkpoint:
            tf.logging.info("Could not find trained model in model_dir: %s, running initialization to predict.", self.model_dir)
        with tf.Graph().as_default() as graph, graph.device(self._device_fn):
            tf.set_random_seed(self._config.tf_random_seed if self._config.tf_random_seed is not None else 1)
            self._create_and_assert_global_step(graph)
            features, _, input_hooks = self._features_and_labels(input_fn, ModeKeys.PREDICT)
            spec = self._call_model_fn(features, None, ModeKeys.PREDICT, self._config)
            wanted = _chosen(spec.predictions, predict_keys)
            creator = tf.train.ChiefSessionCreator(spec.scaffold, self._config.master, self._session_config(),
                                                   checkpoint_filename_with_path=checkpoint)
            every = [*hooks, *input_hooks, *spec.prediction_hooks]
            self._give_saver(spec.scaffold)
            with tf.train.MonitoredSession(creator, every) as sess:
                while not sess.should_stop():
                    found = sess.run(wanted)
                    if not yield_single_examples:
                        yield found
                    elif isinstance(wanted, dict):
                        for i in range(_rows(found)):
                            yield {k: v[i] for k, v in found.items()}
                    else:
                        yield from found

    # -- export ------------------------------------------------------------------------------------------------------
    def export_saved_model(self, export_dir_base: Any, serving_input_receiver_fn: Any, assets_extra: Any = None,
                           as_text: bool = False, checkpoint_path: str | None = None,
                           experimental_mode: str = ModeKeys.PREDICT) -> bytes:
        """Writes the model with the weights of the newest checkpoint as a SavedModel; the path of its directory."""
        return self.experimental_export_all_saved_models(export_dir_base, {experimental_mode: serving_input_receiver_fn},
                                                         assets_extra, as_text, checkpoint_path)

    def export_savedmodel(self, export_dir_base: Any, serving_input_receiver_fn: Any, assets_extra: Any = None,
                          as_text: bool = False, checkpoint_path: str | None = None,
                          strip_default_attrs: bool = False) -> bytes:
        """The older name of export_saved_model."""
        return self.export_saved_model(export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path)

    def experimental_export_all_saved_models(self, export_dir_base: Any, input_receiver_fn_map: dict[str, Any],
                                             assets_extra: Any = None, as_text: bool = False,
                                             checkpoint_path: str | None = None) -> bytes:
        """Writes the graphs of several modes into one SavedModel."""
        checkpoint = checkpoint_path or self.latest_checkpoint()
        if not checkpoint:
            raise ValueError(f"Couldn't find trained model at {self.model_dir}. Call train first.")
        folder = _timestamped(export_dir_base)
        building = os.path.join(os.path.dirname(folder), f"temp-{os.path.basename(folder)}")
        builder = tf.saved_model.builder.SavedModelBuilder(building)
        first = True
        for mode in sorted(input_receiver_fn_map, key=lambda m: (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT).index(m)):
            self._add_graph(builder, input_receiver_fn_map[mode], mode, checkpoint, first)
            first = False
        builder.save(as_text)
        for name, source in (assets_extra or {}).items():
            path = os.path.join(building, "assets.extra", name)
            tf.gfile.MakeDirs(os.path.dirname(path))
            tf.gfile.Copy(source, path)
        tf.gfile.Rename(building, folder)
        return folder.encode()

    def _add_graph(self, builder: Any, receiver_fn: Any, mode: str, checkpoint: str, first: bool) -> None:
        if receiver_fn is None:
            raise ValueError("serving_input_receiver_fn must be defined.")
        with tf.Graph().as_default() as graph:
            self._create_and_assert_global_step(graph)
            tf.set_random_seed(self._config.tf_random_seed if self._config.tf_random_seed is not None else 1)
            receiver = receiver_fn()
            spec = self._call_model_fn(receiver.features, getattr(receiver, "labels", None), mode, self._config)
            signatures = _signatures(outputs_of(spec), receiver)
            with tf.Session(config=self._session_config()) as sess:
                saver = spec.scaffold.saver or tf.train.Saver(sharded=True)
                saver.restore(sess, checkpoint)
                init = spec.scaffold.local_init_op
                main_op = init if init is not None else tf.group(tf.local_variables_initializer(), tf.tables_initializer())
                tags = {ModeKeys.PREDICT: "serve", ModeKeys.TRAIN: "train", ModeKeys.EVAL: "eval"}[mode]
                options = {"signature_def_map": signatures, "main_op": main_op,
                           "assets_collection": tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)}
                if first:
                    builder.add_meta_graph_and_variables(sess, [tags], **options)
                else:
                    builder.add_meta_graph([tags], **options)

    # -- building ----------------------------------------------------------------------------------------------------
    def _create_global_step(self, graph: Any) -> Any:
        return tf.train.create_global_step(graph)

    def _create_and_assert_global_step(self, graph: Any) -> Any:
        step = self._create_global_step(graph)
        if step is not tf.train.get_global_step(graph) or not step.dtype.is_integer:
            raise ValueError("_create_global_step must create the global step of the graph as an integer")
        return step

    def _build(self, input_fn: Any, mode: str, strategy: Any) -> tuple[EstimatorSpec, list]:
        """The ops of the model for an input, on one device or for all replicas of a strategy; and hooks of the input."""
        if strategy is not None:
            return replicas.build(self, strategy, input_fn, mode), []
        features, labels, hooks = self._features_and_labels(input_fn, mode)
        return self._call_model_fn(features, labels, mode, self._config), hooks

    def _features_and_labels(self, input_fn: Any, mode: str) -> tuple[Any, Any, list]:
        if not callable(input_fn):
            raise TypeError(f"input_fn must be a function that makes the dataset or the tensors, got {input_fn!r}: the "
                            "Estimator calls it inside of its own graph. Pass `lambda: dataset()` instead of a dataset.")
        taken = inspect.signature(input_fn).parameters
        arguments = {n: v for n, v in (("mode", mode), ("params", self.params), ("config", self.config)) if n in taken}
        with tf.device("/cpu:0"):
            result = input_fn(**arguments)
        hooks: list = []
        if isinstance(result, DatasetV2):
            iterator = tf.data.make_initializable_iterator(result)
            tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
            result = iterator.get_next()
        if isinstance(result, (list, tuple)) and not hasattr(result, "_fields"):
            if len(result) == 2:
                return result[0], result[1], hooks
            if len(result) != 1 and mode != ModeKeys.PREDICT:
                raise ValueError(f"input_fn should return (features, labels) as a len 2 tuple, got {len(result)} elements.")
            return result[0], None, hooks
        return result, None, hooks

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        taken = inspect.signature(self._model_fn).parameters
        arguments: dict[str, Any] = {}
        if "labels" in taken:
            arguments["labels"] = labels
        elif labels is not None:
            raise ValueError("input_fn returns labels, but model_fn has no argument for them.")
        for name, value in (("mode", mode), ("params", self.params), ("config", config)):
            if name in taken:
                arguments[name] = value
        tf.logging.info("Calling model_fn.")
        spec = self._model_fn(features=features, **arguments)
        tf.logging.info("Done calling model_fn.")
        if not isinstance(spec, EstimatorSpec):
            raise ValueError(f"model_fn should return an EstimatorSpec. It returned {type(spec).__name__}.")
        return spec


# -- around it ---------------------------------------------------------------------------------------------------------
def _check_not_overridden(estimator: Any) -> None:
    allowed = {"model_fn", "_create_global_step", "_convert_train_steps_to_hooks", "_convert_eval_steps_to_hooks",
               "export_saved_model", "export_savedmodel", "experimental_export_all_saved_models"}
    for name in ("train", "evaluate", "predict"):
        if name not in allowed and getattr(type(estimator), name) is not getattr(Estimator, name):
            raise ValueError(f"Subclasses of Estimator cannot override members of Estimator. {type(estimator)} does override "
                             f"{name}.")


def _check_arguments(model_fn: Any, params: Any) -> None:
    taken = inspect.signature(model_fn).parameters
    if "features" not in taken:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in taken:
        raise ValueError(f"model_fn ({model_fn}) does not include params argument, but params ({params}) is passed to "
                         "Estimator.")
    any_other = any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in taken.values())
    unknown = sorted(set(taken) - _ARGUMENTS)
    if unknown and not any_other and any(taken[n].default is inspect.Parameter.empty for n in unknown):
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {unknown}")


def _with_model_dir(config: Any, model_dir: Any) -> RunConfig:
    if config is None:
        config = RunConfig()
    elif isinstance(config, dict):
        config = RunConfig(**config)
    elif not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of RunConfig, but provided {config}.")
    if model_dir is not None and config.model_dir is not None and str(model_dir) != str(config.model_dir):
        raise ValueError(f"model_dir are set both in constructor and RunConfig, but with different values. In constructor: "
                         f"'{model_dir}', in RunConfig: '{config.model_dir}'")
    chosen = model_dir if model_dir is not None else config.model_dir
    if not chosen:
        chosen = tempfile.mkdtemp()
        tf.logging.warning("The model is saved in a temporary folder: %s", chosen)
    return config.replace(model_dir=str(chosen))


def _default_device_fn(config: RunConfig) -> Any:
    if config.num_ps_replicas <= 0:
        return None
    return tf.train.replica_device_setter(ps_tasks=config.num_ps_replicas, cluster=config.cluster_spec, merge_devices=True,
                                          worker_device=f"/job:{config.task_type}/task:{config.task_id}",
                                          ps_ops=None)


def _checked_hooks(hooks: Any) -> list:
    hooks = list(hooks or ())
    for hook in hooks:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return hooks


def _global_step_of(folder: Any) -> int:
    checkpoint = tf.train.latest_checkpoint(folder)
    if not checkpoint:
        return 0
    try:
        return int(tf.train.NewCheckpointReader(checkpoint).get_tensor(tf.GraphKeys.GLOBAL_STEP))
    except tf.errors.NotFoundError:
        return 0


def _with_values(scaffold: Any, values: dict[str, Any]) -> Any:
    """A scaffold like another that assigns variables these values, by name."""
    known = [(v, values[v.op.name]) for v in tf.global_variables() if v.op.name in values]

    def load(_: Any, session: Any) -> None:
        for variable, value in known:
            variable.load(value, session)
    return tf.train.Scaffold(init_fn=load, copy_from_scaffold=scaffold)


def _write_result(folder: str, result: dict[str, Any]) -> None:
    """The numbers of an evaluation, as summaries."""
    summary = tf.Summary()
    for key, value in result.items():
        if key == "global_step" or value is None:
            continue
        if isinstance(value, (np.floating, float, np.integer, int)):
            summary.value.add(tag=key, simple_value=float(value))
        elif isinstance(value, bytes):
            found = tf.Summary.FromString(value)
            for i, part in enumerate(found.value):
                part.tag = f"{key}/{i}"
            summary.value.extend(found.value)
    with tf.Graph().as_default(), tf.summary.FileWriter(folder) as writer:
        writer.add_summary(summary, result["global_step"])


def _chosen(predictions: Any, keys: Any) -> Any:
    if keys is None:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    keys = [keys] if isinstance(keys, str) else list(keys)
    kept = {k: v for k, v in predictions.items() if k in keys}
    if not kept:
        raise ValueError(f"Expected to run at least one output from {list(predictions)}, provided {keys}.")
    return kept


def _rows(found: dict[str, Any]) -> int:
    sizes = {k: np.shape(v)[0] if np.ndim(v) else 0 for k, v in found.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"Batch length of predictions should be same. Found {sizes}.")
    return next(iter(sizes.values()))


def _signatures(outputs: dict[str, Any], receiver: Any) -> dict[str, Any]:
    default = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    made: dict[str, Any] = collections.OrderedDict()
    alternatives = getattr(receiver, "receiver_tensors_alternatives", None) or {}
    for prefix, tensors in [(None, receiver.receiver_tensors), *alternatives.items()]:
        for name, output in outputs.items():
            key = name or default
            try:
                made[key if prefix is None else f"{prefix}:{key}"] = output.as_signature_def(tensors)
            except ValueError as e:
                tf.logging.info("Signature %r is not exported: %s", key, e)
    if outputs and not made:
        raise ValueError("No signature could be created: the receiver's tensors fit none of the export_outputs. Use a "
                         "PredictOutput, or a receiver with one string tensor.")
    return made


def _timestamped(base: Any) -> str:
    base = os.fsdecode(base) if isinstance(base, bytes) else str(base)
    for _ in range(10):
        folder = os.path.join(base, str(int(time.time())))
        if not tf.gfile.Exists(folder) and not tf.gfile.Exists(os.path.join(base, f"temp-{os.path.basename(folder)}")):
            return folder
        time.sleep(1)
    raise RuntimeError(f"Failed to obtain a unique export directory name in {base} after 10 attempts.")


