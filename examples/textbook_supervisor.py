"""The parameter-server program of the textbooks, with Supervisor: between-graph replication, asynchronous or synchronous.

    penstock launch --ps 2 --workers 2 examples/textbook_supervisor.py
    penstock launch --ps 2 --workers 2 examples/textbook_supervisor.py --sync_replicas

It is written for TensorFlow 1; `penstock launch` runs it with `penstock run`.
"""
import tempfile

import numpy as np
import tensorflow as tf

from penstock import digits

flags = tf.app.flags
flags.DEFINE_string("job_name", None, "worker or ps")
flags.DEFINE_integer("task_index", None, "the number of the task in its job; worker 0 is the chief")
flags.DEFINE_string("ps_hosts", "localhost:2222", "comma-separated list of host:port")
flags.DEFINE_string("worker_hosts", "localhost:2223,localhost:2224", "comma-separated list of host:port")
flags.DEFINE_integer("train_steps", 300, "the global step at which training ends")
flags.DEFINE_boolean("sync_replicas", False, "aggregate the gradients of all workers before they are applied")
FLAGS = flags.FLAGS


def model(global_step, num_workers):
    x = tf.placeholder(tf.float32, [None, 64])
    y_ = tf.placeholder(tf.int64, [None])
    hid_w = tf.Variable(tf.truncated_normal([64, 32], stddev=0.1, seed=1), name="hid_w")
    hid_b = tf.Variable(tf.zeros([32]), name="hid_b")
    sm_w = tf.Variable(tf.truncated_normal([32, 10], stddev=0.1, seed=2), name="sm_w")
    sm_b = tf.Variable(tf.zeros([10]), name="sm_b")
    logits = tf.nn.xw_plus_b(tf.nn.relu(tf.nn.xw_plus_b(x, hid_w, hid_b)), sm_w, sm_b)
    cross_entropy = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y_, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y_), tf.float32))
    opt = tf.train.GradientDescentOptimizer(0.3)
    if FLAGS.sync_replicas:
        opt = tf.train.SyncReplicasOptimizer(opt, replicas_to_aggregate=num_workers, total_num_replicas=num_workers)
    return x, y_, accuracy, opt, opt.minimize(cross_entropy, global_step=global_step)


def main(_):
    ps_hosts, worker_hosts = FLAGS.ps_hosts.split(","), FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    is_chief = FLAGS.task_index == 0
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster)):
        global_step = tf.Variable(0, name="global_step", trainable=False)
        x, y_, accuracy, opt, train_step = model(global_step, len(worker_hosts))
        extra = {}
        if FLAGS.sync_replicas:
            extra = {"local_init_op": opt.chief_init_op if is_chief else opt.local_step_init_op,
                     "ready_for_local_init_op": opt.ready_for_local_init_op}
            chief_queue_runner, sync_init_op = opt.get_chief_queue_runner(), opt.get_init_tokens_op()
        sv = tf.train.Supervisor(is_chief=is_chief, logdir=tempfile.mkdtemp() if is_chief else None,
                                 init_op=tf.global_variables_initializer(), recovery_wait_secs=1,
                                 global_step=global_step, save_summaries_secs=0, **extra)
        config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
        sess = sv.prepare_or_wait_for_session(server.target, config=config)
        if FLAGS.sync_replicas and is_chief:
            sess.run(sync_init_op)
            sv.start_queue_runners(sess, [chief_queue_runner])

        (x_train, y_train), (x_test, y_test) = digits.load()
        rng = np.random.RandomState(FLAGS.task_index)
        local_step, step = 0, 0
        while step < FLAGS.train_steps:
            batch = rng.randint(0, len(x_train), 64)
            _, step = sess.run([train_step, global_step], {x: x_train[batch].reshape(-1, 64), y_: y_train[batch]})
            local_step += 1
        value = sess.run(accuracy, {x: x_test.reshape(-1, 64), y_: y_test})
        print("worker %d: %d local steps, global step %d, accuracy %.3f" % (FLAGS.task_index, local_step, step, value))
        if is_chief:
            sv.stop()


if __name__ == "__main__":
    tf.app.run()
