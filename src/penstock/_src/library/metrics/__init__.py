"""tf.metrics of TensorFlow 1: values that are accumulated over many steps.

Each function makes local variables (in the collections LOCAL_VARIABLES and METRIC_VARIABLES) and returns two tensors: the
value so far, and an op that takes in the current batch and returns the value after it.

    accuracy, update = tf.metrics.accuracy(labels, predictions)
    sess.run(tf.local_variables_initializer())
    for batch in batches:
        sess.run(update, feed_dict=batch)
    print(sess.run(accuracy))

These functions are written on the public API of `penstock.compat.v1`.
"""
from penstock._src.library.metrics import averages, counts, per_class, ranking, thresholds
