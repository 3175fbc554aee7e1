"""Each line with a comment has one mistake, which type checkers must find."""
import penstock as tf

x = tf.constant([1.0, 2.0])
v = tf.Variable([1.0])
tf.reduce_sum(x, axes=0)                                  # keyword
tf.nn.rellu(x)                                            # name
tf.keras.layers.Dense(3, activate="relu")                 # keyword
tf.matmul(x)                                              # missing
x.shapes                                                  # attribute
v.asign(3.0)                                              # attribute
tf.keras.optimizers.Adam(learn_rate=0.1)                  # keyword
tf.data.Dataset.range(3).shufle(2)                        # attribute
x + "a" + tf.no_such_name                                 # name
tf.placeholder(tf.float32)                                # name
y: int = tf.exp(x)                                        # type
tf.keras.Model().fitt(x)                                  # attribute
tf.image.resize(x, [1, 1], methods="nearest")             # keyword
tf.train.Checkpoint().save()                              # missing


@tf.function
def double(a: tf.Tensor) -> tf.Tensor:
    return a * 2


double(x, x)                                              # arguments
