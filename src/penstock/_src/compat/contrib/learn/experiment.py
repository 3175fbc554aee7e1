"""tf.contrib.learn.Experiment: an estimator with its input functions, and `learn_runner`, which runs it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.learn.monitors import replace_monitors_with_hooks
from penstock.compat import v1 as tf


@export(v1=["contrib.learn.Experiment"])
class Experiment:
    """An estimator with everything needed to train and evaluate it.

    >>> experiment = tf.contrib.learn.Experiment(estimator, train_input_fn, eval_input_fn, train_steps=1000, eval_steps=None)
    >>> metrics, exports = experiment.train_and_evaluate()
    """

    def __init__(self, estimator: Any, train_input_fn: Callable, eval_input_fn: Callable, eval_metrics: Any = None,
                 train_steps: int | None = None, eval_steps: int | None = 100, train_monitors: Any = None,
                 eval_hooks: Any = None, local_eval_frequency: int | None = None, eval_delay_secs: float = 120,
                 continuous_eval_throttle_secs: float = 60, min_eval_frequency: int | None = None,
                 delay_workers_by_global_step: bool = False, export_strategies: Any = None,
                 train_steps_per_iteration: int | None = None, checkpoint_and_export: bool = False,
                 saving_listeners: Any = None, check_interval_secs: float = 5):
        if eval_metrics and isinstance(estimator, tf.estimator.Estimator):
            raise ValueError("`eval_metrics` must be `None` with `tf.estimator.Estimator`. Use "
                             "`tf.contrib.estimator.add_metrics` instead.")
        self._estimator, self._train_input_fn, self._eval_input_fn = estimator, train_input_fn, eval_input_fn
        self._metrics, self._train_steps, self._eval_steps = eval_metrics, train_steps, eval_steps
        self._hooks, self._eval_hooks, self._listeners = list(train_monitors or ()), list(eval_hooks or ()), saving_listeners
        self._every = train_steps_per_iteration or local_eval_frequency or min_eval_frequency
        self._strategies = list(export_strategies if isinstance(export_strategies, (list, tuple)) else
                                [export_strategies] if export_strategies else [])

    @property
    def estimator(self) -> Any:
        """The estimator."""
        return self._estimator

    @property
    def train_steps(self) -> int | None:
        """How far it is trained; None: until its input ends."""
        return self._train_steps

    @property
    def eval_steps(self) -> int | None:
        """How many batches an evaluation has."""
        return self._eval_steps

    def extend_train_hooks(self, additional_hooks: Any) -> None:
        """Adds hooks to training."""
        self._hooks.extend(additional_hooks)

    def reset_export_strategies(self, new_export_strategies: Any = None) -> Any:
        """Replaces the export strategies; returns the previous ones."""
        old, self._strategies = self._strategies, list(new_export_strategies or ())
        return old

    def train(self, delay_secs: float | None = None) -> Any:
        """Trains up to `train_steps`."""
        return self._train(self._train_steps)

    def _train(self, limit: int | None) -> Any:
        if isinstance(self._estimator, tf.estimator.Estimator):
            hooks = replace_monitors_with_hooks(self._hooks, self._estimator)
            return self._estimator.train(self._train_input_fn, hooks=hooks, max_steps=limit, saving_listeners=self._listeners)
        return self._estimator.fit(input_fn=self._train_input_fn, max_steps=limit, monitors=self._hooks)

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> Any:
        """Evaluates the last checkpoint."""
        more = {} if isinstance(self._estimator, tf.estimator.Estimator) else {"metrics": self._metrics}
        return self._estimator.evaluate(input_fn=self._eval_input_fn, steps=self._eval_steps, hooks=self._eval_hooks, name=name,
                                        **more)

    def train_and_evaluate(self) -> tuple[Any, list]:
        """Trains, with an evaluation every so many steps if that was requested, and one at the end; then exports."""
        done, found = self._step(), None
        while self._every and (self._train_steps is None or done < self._train_steps):
            goal = done + self._every if self._train_steps is None else min(done + self._every, self._train_steps)
            self._train(goal)
            found, before, done = self.evaluate(), done, self._step()
            if done == before:
                break                                       # the input has ended
        if not self._every:
            self._train(self._train_steps)
        if found is None:
            found = self.evaluate()
        return found, self._export(found)

    def continuous_train_and_eval(self, continuous_eval_predicate_fn: Any = None) -> tuple[Any, list]:
        """`train_and_evaluate`."""
        return self.train_and_evaluate()

    def test(self) -> tuple[Any, list]:
        """One step of training and one of evaluation."""
        self._train(self._step() + 1)
        found = self._estimator.evaluate(input_fn=self._eval_input_fn, steps=1)
        return found, self._export(found)

    def _step(self) -> int:
        latest = tf.train.latest_checkpoint(self._estimator.model_dir)
        return 0 if latest is None else int(tf.train.load_variable(latest, "global_step"))

    def _export(self, found: Any) -> list:
        folder = f"{self._estimator.model_dir}/export"
        return [strategy.export(self._estimator, f"{folder}/{strategy.name}",
                                tf.train.latest_checkpoint(self._estimator.model_dir), found) for strategy in self._strategies]

    def run_std_server(self) -> None:
        """Runs a parameter server of the cluster in TF_CONFIG, without end."""
        config = self._estimator.config
        tf.train.Server(config.cluster_spec, job_name=config.task_type, task_index=config.task_id).join()


_SCHEDULES = {"master": "train_and_evaluate", "chief": "train_and_evaluate", "worker": "train", "ps": "run_std_server",
              "evaluator": "evaluate", "local": "train_and_evaluate", None: "train_and_evaluate"}


@export(v1=["contrib.learn.learn_runner.run"])
def run(experiment_fn: Callable, output_dir: str | None = None, schedule: str | None = None, run_config: Any = None,
        hparams: Any = None) -> Any:
    """Makes an experiment, and calls its method `schedule`; by default the one for its task in TF_CONFIG.

    >>> tf.contrib.learn.learn_runner.run(experiment_fn, run_config=tf.contrib.learn.RunConfig(model_dir="/tmp/m"), hparams=h)
    """
    if (output_dir is None) == (run_config is None):
        raise ValueError("Exactly one of `output_dir` and `run_config` must be given")
    experiment = experiment_fn(output_dir) if run_config is None else experiment_fn(run_config, hparams)
    if not isinstance(experiment, Experiment):
        raise TypeError(f"`experiment_fn` must return an Experiment, not {type(experiment).__name__}")
    config = run_config if run_config is not None else experiment.estimator.config
    clustered = bool(getattr(config, "cluster_spec", None))
    chosen = schedule or _SCHEDULES.get(config.task_type if clustered else None, "train_and_evaluate")
    method = getattr(experiment, chosen, None)
    if not callable(method):
        raise ValueError(f"Schedule references non-existent task {chosen}")
    return method()
