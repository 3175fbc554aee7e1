"""Each line with a comment has one mistake, which type checkers must find."""
import penstock.compat.v1 as tf

x = tf.placeholder(tf.float32, [None], named="x")         # keyword
tf.train.AdamOptimizer(learning_rate=0.1).minimise(x)     # attribute
tf.Session().runn(x)                                      # attribute
tf.layers.dense(x, 3, activations=None)                   # keyword
tf.train.Saver(keep=3)                                    # keyword
tf.get_variable()                                         # missing
tf.no_such_name                                           # name
tf.contrib.layers.fully_connected(x)                      # missing
tf.estimator.Estimator(model_function=None)               # keyword
tf.reduce_mean(x, dims=0)                                 # keyword
tf.train.Example(features=None).SerialiseToString()       # attribute
tf.compat.v1.nn.rellu(x)                                  # name
