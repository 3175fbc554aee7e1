"""A network whose layers are in two jobs, in the words of the first releases: make_cluster_def, ServerDef, GrpcServer.

    penstock run examples/lecture_two_jobs.py --job_name=one --task_index=0 &
    penstock run examples/lecture_two_jobs.py --job_name=two --task_index=0 &
    penstock run examples/lecture_two_jobs.py --job_name=two --task_index=1 &
    penstock run examples/lecture_two_jobs.py                     # the client

Each layer is computed where its weights are; the optimizer is on a third task. The client builds the graph and talks to one
of the servers only: that one is the master, which partitions the graph and distributes the parts.
"""
import numpy as np
import tensorflow as tf

from penstock import digits

flags = tf.app.flags
flags.DEFINE_string("job_name", "", "one or two; empty for the client")
flags.DEFINE_integer("task_index", 0, "the number of the task in its job")
flags.DEFINE_string("one", "localhost:50000", "where job one is")
flags.DEFINE_string("two", "localhost:50001,localhost:50002", "where the tasks of job two are")
flags.DEFINE_integer("steps", 300, "batches to train on")
FLAGS = flags.FLAGS


def serve():
    cluster = tf.make_cluster_def({"one": [FLAGS.one], "two": FLAGS.two.split(",")})
    server_def = tf.ServerDef(cluster=cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index, protocol="grpc")
    server = tf.GrpcServer(server_def)
    server.join()


def train():
    (x_train, y_train), (x_test, y_test) = digits.load()
    x_train, x_test = x_train.reshape(-1, 64), x_test.reshape(-1, 64)
    one_hot = np.eye(10, dtype=np.float32)
    rng = np.random.RandomState(0)

    image = tf.placeholder(tf.float32, [None, 64], name="image")
    label = tf.placeholder(tf.float32, [None, 10], name="label")
    with tf.device("/job:one/replica:0/task:0/cpu:0"):
        w1 = tf.Variable(rng.normal(0, 0.1, (64, 32)).astype(np.float32), name="w1")
        hidden = tf.nn.relu(tf.matmul(image, w1, name="product1"), name="hidden")
    with tf.device("/job:two/replica:0/task:0/cpu:0"):
        w2 = tf.Variable(rng.normal(0, 0.1, (32, 10)).astype(np.float32), name="w2")
        prob = tf.nn.softmax(tf.matmul(hidden, w2, name="product2"), name="prob")
        with tf.variable_scope("loss"):
            loss = -tf.reduce_sum(label * tf.log(prob + 1e-9)) / 100
    with tf.device("/job:two/replica:0/task:1/cpu:0"):
        step = tf.train.GradientDescentOptimizer(0.5, name="step").minimize(loss)

    with tf.Session("grpc://" + FLAGS.one) as sess:
        sess.run(tf.initialize_all_variables())
        for _ in range(FLAGS.steps):
            batch = rng.randint(0, len(x_train), 100)
            sess.run(step, {image: x_train[batch], label: one_hot[y_train[batch]]})
        guess = sess.run(prob, {image: x_test}).argmax(1)
        print("accuracy %.3f; w1 on %s, w2 on %s" % ((guess == y_test).mean(), w1.device, w2.device))


def main(_):
    if FLAGS.job_name:
        serve()
    else:
        train()


if __name__ == "__main__":
    tf.app.run()
