"""Training on a cluster: parameter servers, workers with a graph each, asynchronous or synchronous, optionally with backups.

    penstock launch --ps 2 --workers 3 examples/digits_cluster.py --folder=/tmp/digits
    penstock launch --ps 1 --workers 3 examples/digits_cluster.py --sync --aggregate=2     # one backup worker

Variables are on the parameter servers in turn, everything else is on the worker (replica_device_setter). Each worker
shuffles the digits in its own way. The chief initializes the model or restores it, and saves it; a worker that was lost,
or whose session was, continues from there.
"""
import os
import time
from typing import Any

import penstock.compat.v1 as tf
from penstock import digits

flags = tf.app.flags
flags.DEFINE_string("job_name", "worker", "ps or worker")
flags.DEFINE_integer("task_index", 0, "the number of this task in its job")
flags.DEFINE_string("ps_hosts", "", "addresses of the parameter servers, with commas")
flags.DEFINE_string("worker_hosts", "localhost:0", "addresses of the workers, with commas")
flags.DEFINE_string("folder", None, "where checkpoints go; none are written without it")
flags.DEFINE_integer("steps", 400, "the global step at which training ends")
flags.DEFINE_integer("save_steps", 50, "steps between checkpoints")
flags.DEFINE_integer("chief", 0, "the worker that is the chief")
flags.DEFINE_bool("sync", False, "train synchronously")
flags.DEFINE_integer("aggregate", 0, "gradients that make a synchronous step; of all workers, if 0")
flags.DEFINE_integer("batch", 32, "images in a batch")
flags.DEFINE_float("rate", 0.1, "the learning rate")
flags.DEFINE_float("delay", 0.0, "seconds that a step takes longer, as if the model were larger")
flags.DEFINE_integer("slow_worker", -1, "a worker whose delay is ten times as long")
flags.DEFINE_integer("report_steps", 0, "steps between reports of the accuracy by the chief; 0 for none")
FLAGS = flags.FLAGS


def batches(task: int, size: int) -> Any:
    """The training digits again and again, shuffled differently by each worker, with a position that can be kept."""
    (x, y), _ = digits.load()
    data = tf.data.Dataset.from_tensor_slices((x.reshape(-1, 64), y)).shuffle(len(y), seed=task).repeat().batch(size)
    with tf.device(f"/job:worker/task:{task}"):
        iterator = tf.data.make_initializable_iterator(data)
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    return iterator.get_next()


def logits_of(x: tf.Tensor) -> tf.Tensor:
    """A network with one hidden layer."""
    w1 = tf.get_variable("w1", [64, 32], initializer=tf.glorot_uniform_initializer(seed=1))
    b1 = tf.get_variable("b1", [32], initializer=tf.zeros_initializer())
    w2 = tf.get_variable("w2", [32, 10], initializer=tf.glorot_uniform_initializer(seed=2))
    b2 = tf.get_variable("b2", [10], initializer=tf.zeros_initializer())
    return tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2


def build(cluster: tf.train.ClusterSpec, task: int) -> tuple[Any, list[Any], tuple[Any, ...]]:
    """The worker's graph: (op that trains, hooks, loss and accuracy on the test digits)."""
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{task}", cluster=cluster)):
        step = tf.train.get_or_create_global_step()
        x, y = batches(task, FLAGS.batch)
        with tf.variable_scope("model") as model:
            loss = tf.losses.sparse_softmax_cross_entropy(y, logits_of(x))
            model.reuse_variables()
            (_, _), (x_test, y_test) = digits.load()
            test = logits_of(tf.constant(x_test.reshape(-1, 64)))
        opt: Any = tf.train.GradientDescentOptimizer(FLAGS.rate)
        hooks: list[Any] = []
        if FLAGS.sync:
            workers = cluster.num_tasks("worker")
            opt = tf.train.SyncReplicasOptimizer(opt, FLAGS.aggregate or workers, workers)
            hooks = [opt.make_session_run_hook(task == FLAGS.chief, num_tokens=0)]
        train = opt.minimize(loss, global_step=step)
        test_loss = tf.losses.sparse_softmax_cross_entropy(y_test, test, loss_collection=None)
        right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(test, 1), y_test), tf.float32))
        tf.summary.scalar("loss", loss)
        tf.summary.scalar("learning_rate", FLAGS.rate)
    if FLAGS.folder:
        hooks.append(tf.train.experimental.InputPositionHook(FLAGS.folder, f"worker_{task}"))
    return train, hooks, (step, test_loss, right)


def work(cluster: tf.train.ClusterSpec, server: tf.train.Server, task: int) -> None:
    """Trains to the last step, and reports the accuracy."""
    train, hooks, report = build(cluster, task)
    config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task}"])     # workers do not need each other
    delay = FLAGS.delay * (10 if task == FLAGS.slow_worker else 1)
    began, first, due, steps = None, 0, FLAGS.report_steps, 0
    with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=task == FLAGS.chief, config=config, checkpoint_dir=FLAGS.folder,
            save_checkpoint_steps=FLAGS.save_steps, save_checkpoint_secs=None, save_summaries_secs=None,
            save_summaries_steps=10 if FLAGS.folder else None, log_step_count_steps=None, stop_grace_period_secs=5,
            hooks=[*hooks, tf.train.StopAtStepHook(last_step=FLAGS.steps)]) as sess:
        while not sess.should_stop():
            if delay:
                time.sleep(delay)
            sess.run(train)
            steps += 1
            if began is None:
                began, first = time.monotonic(), sess._tf_sess().run(report[0])
            if due and task == FLAGS.chief and sess._tf_sess().run(report[0]) >= due:
                say(sess, report, "so far")
                due += FLAGS.report_steps
        rate = (sess._tf_sess().run(report[0]) - first) / max(time.monotonic() - began, 1e-3) if began else 0.0
        say(sess, report, f"own steps {steps} steps/s {rate:.2f}")


def say(sess: Any, report: Any, more: Any) -> Any:
    """Prints what the model is worth on the test digits."""
    step, loss, accuracy = sess._tf_sess().run(report)
    print(f"worker {FLAGS.task_index}: step {step} loss {loss:.4f} accuracy {accuracy:.4f} {more}", flush=True)


def main(_: Any) -> None:
    cluster = tf.train.ClusterSpec({"ps": list(filter(None, FLAGS.ps_hosts.split(","))),
                                    "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    else:
        if FLAGS.folder:
            os.makedirs(FLAGS.folder, exist_ok=True)
        work(cluster, server, FLAGS.task_index)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    tf.app.run()
