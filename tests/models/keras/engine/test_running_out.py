"""Training ends when its data ends before `steps_per_epoch * epochs` batches. The expected epochs are those of tf_keras."""
import numpy as np
import pytest

import penstock as tf

K = tf.keras
X = np.ones((20, 3), np.float32)


class Batches(K.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(batch)


def model():
    made = K.Sequential([K.layers.Dense(1, input_shape=(3,))])
    made.compile("sgd", "mse")
    return made


def dataset(batches):
    return tf.data.Dataset.from_tensor_slices((X[:2 * batches], X[:2 * batches, :1])).batch(2)


def generator(batches):
    return ((X[:2], X[:2, :1]) for _ in range(batches))


@pytest.mark.parametrize("data", [dataset, generator])
@pytest.mark.parametrize("batches, steps, epochs, expected, seen", [
    (10, 5, 4, [0, 1, 2], [*range(5), *range(5)]), (5, 8, 3, [0], [*range(5)]), (5, 2, 4, [0, 1, 2], [0, 1, 0, 1, 0])])
def test_training_ends_with_the_data(data, batches, steps, epochs, expected, seen):
    counter = Batches()
    history = model().fit(data(batches), steps_per_epoch=steps, epochs=epochs, verbose=0, callbacks=[counter])
    assert (history.epoch, counter.seen) == (expected, seen)


def test_a_dataset_of_one_epoch_begins_again():
    assert model().fit(dataset(5), steps_per_epoch=5, epochs=3, verbose=0).epoch == [0, 1, 2]


def test_a_generator_without_steps_is_one_epoch():
    history = model().fit(generator(4), epochs=3, verbose=0)
    assert history.epoch == [0, 1] and history.history["loss"][1] == 0


def test_validation_data_that_ended_has_no_results():
    history = model().fit(X, X[:, :1], validation_data=generator(2), validation_steps=2, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2 and len(history.history["val_loss"]) == 1
