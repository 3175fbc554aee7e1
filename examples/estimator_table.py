"""A ready-made estimator on a table with feature columns: on one machine, or as a cluster that TF_CONFIG describes.

    python examples/estimator_table.py --folder=/tmp/table
    penstock launch --chief --workers 2 --ps 2 --evaluator examples/estimator_table.py --folder=/tmp/table

The rows are people: age, hours of work, education and town; the label says who earns much. A wide part (crossed columns) and a
deep part (embeddings) are trained together. Every task runs this program, and train_and_evaluate does what its task has to do:
the parameter servers hold the variables, the chief and the workers train, each at its own pace, the chief saves, and the
evaluator measures each checkpoint. A worker that was lost joins again when it is started again.
"""
import time
from typing import Any

import numpy as np

import penstock.compat.v1 as tf

flags = tf.app.flags
flags.DEFINE_string("folder", None, "where checkpoints go: storage that all tasks see")
flags.DEFINE_integer("steps", 300, "the global step at which training ends")
flags.DEFINE_integer("save_steps", 100, "steps between checkpoints")
flags.DEFINE_integer("batch", 32, "rows in a batch")
flags.DEFINE_float("delay", 0.0, "seconds that a step takes longer, as if the model were larger")
FLAGS = flags.FLAGS
SCHOOLS, TOWNS = ["school", "college", "university"], ["Aberdeen", "Bergen", "Cork", "Delft", "Esbjerg"]


def table(rows: int, seed: int) -> Any:
    """Columns of a table, and its labels."""
    draw = np.random.RandomState(seed)
    age, hours = draw.uniform(18, 70, rows).astype(np.float32), draw.uniform(5, 60, rows).astype(np.float32)
    school, town = draw.randint(len(SCHOOLS), size=rows), draw.randint(len(TOWNS), size=rows)
    score = (age - 44) / 15 + (hours - 32) / 16 + (school - 1) + np.where((school == 2) & (town == 1), 1.5, 0)
    return {"age": age, "hours": hours, "school": np.array(SCHOOLS, object)[school],
            "town": np.array(TOWNS, object)[town]}, (score > 0).astype(np.int64)


def columns() -> Any:
    """The columns of the wide part, and those of the deep part."""
    fc = tf.feature_column
    age, hours = (fc.numeric_column(name, normalizer_fn=lambda x, m=m, s=s: (x - m) / s)
                  for name, m, s in (("age", 44.0, 15.0), ("hours", 32.0, 16.0)))
    school = fc.categorical_column_with_vocabulary_list("school", SCHOOLS)
    town = fc.categorical_column_with_hash_bucket("town", 20)
    ages = fc.bucketized_column(fc.numeric_column("age"), [25, 35, 45, 55])
    wide = [ages, school, fc.crossed_column(["school", "town"], 60)]
    return wide, [age, hours, fc.indicator_column(school), fc.embedding_column(town, 4)]


class Pace(tf.train.SessionRunHook):
    """Logs when the first step ran, and makes steps longer."""

    def __init__(self, name: str, delay: float):
        self._name, self._delay, self._steps = name, delay, 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._steps += 1
        if self._steps == 1:
            print(f"{self._name} trains", flush=True)
        time.sleep(self._delay)

    def end(self, session: Any) -> None:
        print(f"{self._name} made {self._steps} steps", flush=True)


def main(_: Any) -> None:
    config = tf.estimator.RunConfig(FLAGS.folder, save_checkpoints_steps=FLAGS.save_steps, save_summary_steps=100,
                                    experimental_max_worker_delay_secs=0.5)
    name = f"{config.task_type} {config.task_id}"
    wide, deep = columns()
    model = tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[16], config=config,
        linear_optimizer=tf.train.FtrlOptimizer(0.05), dnn_optimizer=tf.train.AdagradOptimizer(0.05),
        loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE)
    x, y = table(2000, seed=1 + (config.global_id_in_cluster or 0))
    train = tf.estimator.TrainSpec(tf.estimator.inputs.numpy_input_fn(x, y, FLAGS.batch, num_epochs=None, shuffle=True),
                                   max_steps=FLAGS.steps, hooks=[Pace(name, FLAGS.delay)])
    x, y = table(500, seed=0)
    evaluate = tf.estimator.EvalSpec(tf.estimator.inputs.numpy_input_fn(x, y, 100, num_epochs=1, shuffle=False), steps=None,
                                     start_delay_secs=0, throttle_secs=1)
    found = tf.estimator.train_and_evaluate(model, train, evaluate)
    if found is not None:
        print(f"{name}: step {found[0]['global_step']} accuracy {found[0]['accuracy']:.3f} auc {found[0]['auc']:.3f}")


if __name__ == "__main__":
    tf.disable_v2_behavior()
    tf.app.run()
