"""The convolution network of the talks, in Keras: with `fit`, or as an estimator, alone or as a cluster of TF_CONFIG.

    python examples/keras_digits.py                                          # compile and fit
    python examples/keras_digits.py --folder=/tmp/digits                     # model_to_estimator and train_and_evaluate
    penstock launch --chief --workers 2 --ps 2 --evaluator examples/keras_digits.py --folder=/tmp/digits

In a cluster every task runs this program; see examples/estimator_table.py for who does what.
"""
from collections.abc import Callable
from typing import Any

from estimator_table import FLAGS, Pace

import penstock.compat.v1 as tf
from penstock import digits
from penstock.keras.layers import Conv2D, Dense, Dropout, Flatten, MaxPooling2D
from penstock.keras.models import Sequential

tf.app.flags.DEFINE_integer("epochs", 3, "epochs of fit")


def network() -> Any:
    """The model, compiled."""
    model = Sequential()
    model.add(Conv2D(32, kernel_size=(3, 3), activation="relu", input_shape=(8, 8, 1), name="image"))
    model.add(MaxPooling2D(pool_size=(2, 2)))
    model.add(Dropout(0.25))
    model.add(Flatten())
    model.add(Dense(64, activation="relu"))
    model.add(Dropout(0.25))
    model.add(Dense(10, activation="softmax"))
    model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
    return model


def inputs(split: Any, **how: Any) -> Callable[[], Any]:
    """Batches of images and labels, for an estimator."""
    x, y = split
    labels = tf.keras.utils.to_categorical(y, 10)
    return lambda: tf.estimator.inputs.numpy_input_fn({"image_input": x}, labels, FLAGS.batch, **how)()


def in_tasks(train: Any, test: Any) -> None:
    """Trains an estimator made of the model."""
    config = tf.estimator.RunConfig(FLAGS.folder, save_checkpoints_steps=FLAGS.save_steps,
                                    experimental_max_worker_delay_secs=0.5)
    name = f"{config.task_type} {config.task_id}"
    estimator = tf.keras.estimator.model_to_estimator(network(), config=config)
    found = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(inputs(train, num_epochs=None, shuffle=True), FLAGS.steps, [Pace(name, FLAGS.delay)]),
        tf.estimator.EvalSpec(inputs(test, num_epochs=1, shuffle=False), steps=None, start_delay_secs=0, throttle_secs=1))
    if found is not None:
        print(f"{name}: step {found[0]['global_step']} accuracy {found[0]['acc']:.3f}")


def main(_: Any) -> None:
    train, test = digits.load()
    if FLAGS.folder:
        return in_tasks(train, test)
    model = network()
    model.fit(train[0], tf.keras.utils.to_categorical(train[1], 10), batch_size=FLAGS.batch, epochs=FLAGS.epochs, verbose=2)
    _, accuracy = model.evaluate(test[0], tf.keras.utils.to_categorical(test[1], 10), verbose=0)
    print(f"accuracy {accuracy:.3f}")


if __name__ == "__main__":
    tf.disable_v2_behavior()
    tf.app.run()
