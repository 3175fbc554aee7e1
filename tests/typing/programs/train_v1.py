"""A 1.x training program: placeholders, variable scopes, a session, a saver, summaries."""
import numpy as np

import penstock.compat.v1 as tf


def network(x: tf.Tensor, units: int) -> tf.Tensor:
    with tf.variable_scope("network", reuse=tf.AUTO_REUSE):
        hidden = tf.layers.dense(x, units, activation=tf.nn.relu, name="hidden")
        w = tf.get_variable("w", [units, 10], initializer=tf.glorot_uniform_initializer())
        b = tf.get_variable("b", [10], initializer=tf.zeros_initializer())
        return tf.matmul(hidden, w) + b


def main(steps: int = 5) -> float:
    tf.disable_v2_behavior()
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    y = tf.placeholder(tf.int64, [None])
    logits = network(x, 16)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(learning_rate=0.01).minimize(loss, global_step=step)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, axis=1), y), tf.float32))
    tf.summary.scalar("loss", loss)
    merged = tf.summary.merge_all()
    saver = tf.train.Saver(max_to_keep=2)
    config = tf.ConfigProto(allow_soft_placement=True)
    rng = np.random.RandomState(0)
    value = 0.0
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            feed = {x: rng.rand(8, 4), y: rng.randint(0, 10, 8)}
            _, value, _, _ = sess.run([train, loss, merged, accuracy], feed_dict=feed)
        assert saver is not None
    return float(value)


if __name__ == "__main__":
    print(main())
