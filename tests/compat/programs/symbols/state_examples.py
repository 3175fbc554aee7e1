"""TensorFlow's examples that programs import: models, their losses and their data, each with a value."""
import os
import tempfile

import numpy as np


def _eagerly(function):
    def run(tf):
        tf.enable_eager_execution()
        try:
            function(tf)
        finally:
            tf.disable_eager_execution()
    run.__name__, run.__module__ = function.__name__, function.__module__
    return run


@_eagerly
def densenet(tf):
    from tensorflow.contrib.eager.python.examples.densenet import densenet
    model = densenet.DenseNet(7, 2, 3, 10, [1, 2, 1], "channels_last", bottleneck=True, compression=0.5)
    images = np.random.default_rng(0).standard_normal([2, 8, 8, 3]).astype(np.float32)
    features = densenet.DenseNet(7, 2, 3, 10, -1, "channels_last", include_top=False, bottleneck=False)(images, training=False)
    assert model(images, training=False).shape == (2, 10) and features.shape == (2, 2, 2, 4)
    assert sum(v.shape.num_elements() for v in model.trainable_variables if "kernel" in v.name) == 893
    assert len(model.losses) == len([v for v in model.trainable_variables if v.shape.ndims == 4])


@_eagerly
def gan(tf):
    from tensorflow.contrib.eager.python.examples.gan import mnist
    generator, discriminator = mnist.Generator("channels_last"), mnist.Discriminator("channels_last")
    images = generator(np.zeros([3, 10], np.float32))
    assert images.shape == (3, 28, 28, 1) and abs(images.numpy() - 0.5).max() < 1e-6     # of no noise and no biases
    assert discriminator(images).shape == (3, 1)
    zeros = np.zeros([4, 1], np.float32)
    assert abs(mnist.generator_loss(zeros).numpy() - np.log(2)) < 1e-6
    assert abs(mnist.discriminator_loss(zeros, zeros).numpy() - 2 * np.log(2)) < 1e-6
    before, optimizers = generator.variables[0].numpy(), [tf.train.AdamOptimizer(0.01) for _ in range(2)]
    mnist.train_one_epoch(generator, discriminator, *optimizers, tf.data.Dataset.from_tensors(np.ones([2, 784], np.float32)),
                          tf.Variable(0, dtype=tf.int64, use_resource=True), 1, 10)
    assert abs(generator.variables[0].numpy() - before).max() > 1e-3


@_eagerly
def l2hmc(tf):
    from tensorflow.contrib.eager.python.examples.l2hmc import l2hmc
    energy, mean, covariance = l2hmc.get_scg_energy_fn()
    x = np.random.default_rng(1).standard_normal([5, 2]).astype(np.float32)
    wanted = 0.5 * np.einsum("ni,ij,nj->n", x, np.linalg.inv(covariance.numpy()), x)
    assert np.allclose(energy(tf.constant(x)), wanted, rtol=1e-3) and mean.numpy().tolist() == [0, 0]
    dynamics = l2hmc.Dynamics(2, energy, n_steps=3, eps=0.1)
    position, momentum = tf.constant(x), tf.constant(x[::-1].copy())
    there, pushed, determinant = dynamics._leapfrog(position, momentum, 1, True)
    back, slowed, undone = dynamics._leapfrog(there, pushed, 1, False)
    assert np.allclose(back, x, atol=1e-5) and np.allclose(slowed, momentum, atol=1e-5)        # time runs backward
    assert np.allclose(determinant, -undone.numpy(), atol=1e-6)
    loss, grads, new, accepted = l2hmc.loss_and_grads(dynamics, position, loss_fn=l2hmc.compute_loss)
    assert np.isfinite(loss) and len(grads) == len(dynamics.trainable_variables) and new.shape == (5, 2)
    assert ((accepted.numpy() >= 0) & (accepted.numpy() <= 1)).all()


@_eagerly
def linear_regression(tf):
    from tensorflow.contrib.eager.python.examples.linear_regression import linear_regression
    model = linear_regression.LinearModel()
    data = linear_regression.synthetic_dataset([[2.0], [-1.0]], [0.5], 0.0, 32, 60)
    linear_regression.fit(model, data, tf.train.GradientDescentOptimizer(0.1))
    assert np.allclose(model.variables[0], [[2.0], [-1.0]], atol=0.02) and np.allclose(model.variables[1], [0.5], atol=0.02)


@_eagerly
def resnet50(tf):
    from tensorflow.contrib.eager.python.examples.resnet50 import resnet50
    model = resnet50.ResNet50("channels_last", classes=10, include_top=False, pooling="avg")
    assert model(np.zeros([1, 224, 224, 3], np.float32), training=False).shape == (1, 2048)
    weights = sum(v.shape.num_elements() for v in model.trainable_variables)
    assert weights == 23534592                              # as published, without the top
    assert model.variables[0].name.endswith("conv1/kernel:0")


@_eagerly
def revnet(tf):
    from tensorflow.contrib.eager.python.examples.revnet import blocks, config, ops, revnet
    small = config.get_hparams_cifar_38()
    assert small.epochs == 160 and small.filters == [32, 64, 112] and config.get_hparams_imagenet_56().n_res == [2, 2, 2, 2]
    small.add_hparam("n_classes", 4)
    small.parse("n_rev_blocks=2,init_filters=4")
    small.n_res, small.filters, small.strides, small.dtype, small.fused = [2, 1], [4, 8], [1, 2], tf.float64, False
    x = tf.constant(np.random.default_rng(2).standard_normal([3, 8, 8, 3]))
    pooled = ops.downsample(tf.ones([1, 4, 4, 2]), 4, (2, 2), axis=3)
    assert pooled.shape == (1, 2, 2, 4) and pooled.numpy()[0, 0, 0].tolist() == [0, 1, 1, 0]
    model, labels = revnet.RevNet(small), tf.constant([0, 1, 2])
    with tf.GradientTape() as tape:
        logits, saved = model(x, training=True)
        loss = model.compute_loss(logits, labels)
    wanted = tape.gradient(loss, model.trainable_variables)
    got, again = model.compute_gradients(saved, labels, l2_reg=False)
    assert abs(again - loss) < 1e-9 and len(got) == len(wanted)
    for one, other in zip(got, wanted):                     # without the values between, computed again from the outputs
        assert np.allclose(one, other, atol=1e-7)
    block = blocks.RevBlock(2, 4, (1, 1), (4, 4, 4), data_format="channels_last", fused=False, dtype=tf.float64)
    halves = [tf.constant(np.random.default_rng(3).standard_normal([2, 4, 4, 2])) for _ in range(2)]
    assert block(halves)[0].shape == (2, 4, 4, 2)


def cifar_input(tf):
    from tensorflow.contrib.eager.python.examples.revnet import cifar_input
    with tempfile.TemporaryDirectory() as folder:
        with tf.python_io.TFRecordWriter(os.path.join(folder, "test.tfrecords")) as writer:
            for label in (3, 5):
                example = tf.train.Example()
                example.features.feature["image"].bytes_list.value.append(bytes([51] * 3072))
                example.features.feature["label"].int64_list.value.append(label)
                writer.write(example.SerializeToString())
        dataset = cifar_input.get_ds_from_tfrecords(folder, "test", data_aug=False, batch_size=2, epochs=1, shuffle=False)
        with tf.Session() as sess:
            images, labels = sess.run(dataset.make_one_shot_iterator().get_next())
    assert images.shape == (2, 3, 32, 32) and np.allclose(images, 0.2) and labels.tolist() == [3, 5]


@_eagerly
def rnn_ptb(tf):
    from tensorflow.contrib.eager.python.examples.rnn_ptb import rnn_ptb
    words = np.random.default_rng(4).integers(0, 100, [6, 2])
    model = rnn_ptb.test_model(use_cudnn_rnn=False)
    first = rnn_ptb.loss_fn(model, words[:-1], words[1:], training=False).numpy()
    assert abs(first - np.log(100)) < 0.1 and model(words, training=False).shape == (12, 100)
    for _ in range(15):
        rnn_ptb.train(model, tf.train.GradientDescentOptimizer(5.0), words, 5, 5.0)
    assert rnn_ptb.loss_fn(model, words[:-1], words[1:], training=False).numpy() < first - 0.5
    (grad, _), = rnn_ptb.clip_gradients([(tf.constant([3.0, 4.0]), None)], 1.0)
    assert np.allclose(grad, [0.6, 0.8])
    assert rnn_ptb.small_model(False).linear.units == 10000 and rnn_ptb.large_model(False).keep_ratio == 0.5


def spinn_data(tf):
    from tensorflow.contrib.eager.python.examples.spinn import data
    line = "neutral\t( Big ( cats sleep ) )\t( cats sleep )\n"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("snli/snli_1.0", "glove"):
            os.makedirs(os.path.join(folder, name))
        snli = os.path.join(folder, "snli/snli_1.0/snli_1.0_dev.txt")
        with open(snli, "w") as file:
            file.write("gold_label\tone\ttwo\n" + line + "-\t( a b )\t( a b )\n")
        with open(os.path.join(folder, "glove/glove.42B.300d.txt"), "w") as file:
            for i, word in enumerate(("cats", "other", "sleep")):
                file.write(f"{word} {' '.join([str(i + 1)] * data.WORD_VECTOR_LEN)}\n")
        vocabulary = data.load_vocabulary(folder)
        numbers, vectors = data.load_word_vectors(folder, vocabulary)
        pairs = data.SnliData(snli, numbers)
    assert vocabulary == {"big", "cats", "sleep", "a", "b"} and data.WORD_VECTOR_LEN == 300
    assert numbers["sleep"] == 3 and vectors[:, 0].tolist() == [0, 0, 1, 3]
    (labels, premise, steps, hypothesis, _), = pairs.get_generator(4)()
    assert labels == (3,) and premise.T.tolist() == [[1, 3, 2, 0]] and steps.T.tolist() == [[3, 3, 3, 2, 2]]
    assert hypothesis.T.tolist() == [[1, 3, 2]] and pairs.num_batches(4) == 1


@_eagerly
def rnn_colorbot(tf):
    from tensorflow.contrib.eager.python.examples.rnn_colorbot import rnn_colorbot
    color, letters, length = rnn_colorbot.parse(tf.constant("red,255,0,51"))
    assert np.allclose(color, [1, 0, 0.2]) and letters.numpy().argmax(1).tolist() == [*b"red"] and length.numpy() == 3
    model = rnn_colorbot.RNNColorbot([4], 3, 0.5)
    batch = np.tile(letters.numpy()[None], [2, 1, 1])
    got = model((tf.constant(batch), tf.constant([3, 2])), training=False).numpy()
    short = model((tf.constant(batch[:, :2]), tf.constant([2, 2])), training=False).numpy()
    assert np.allclose(got[1], short[1], atol=1e-6)                # what is behind a length does not matter


def mnist_util(tf):
    from tensorflow.examples.saved_model.integration_tests import mnist_util
    (images, labels), (others, _) = mnist_util.load_reshaped_data(fake_tiny_data=True)
    assert images.shape[1:] == mnist_util.INPUT_SHAPE == (28, 28, 1) and len(others) == 128
    assert labels.shape == (16, mnist_util.NUM_CLASSES) and (labels.sum(1) == 1).all()
    assert 0 <= images.min() <= images.max() <= 1


def speech_models(tf):
    from tensorflow.examples.speech_commands import models
    settings = models.prepare_model_settings(4, 16000, 1000, 30, 10, 40, "mfcc")
    assert (settings["spectrogram_length"], settings["fingerprint_size"]) == (98, 3920)
    average = models.prepare_model_settings(4, 16000, 1000, 30, 20, 40, "average")
    assert (average["average_window_width"], average["fingerprint_width"]) == (6, 43)
    sizes = {}
    for name in ("single_fc", "conv", "low_latency_conv", "tiny_conv", "tiny_embedding_conv"):
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.placeholder(tf.float32, [None, 3920])
            logits, kept = models.create_model(x, settings, name, is_training=True)
            sess.run(tf.global_variables_initializer())
            assert sess.run(logits, {x: np.zeros([2, 3920]), kept: 0.5}).tolist() == [[0] * 4] * 2
            sizes[name] = sum(v.shape.num_elements() for v in tf.global_variables())
    assert sizes["single_fc"] == 3920 * 4 + 4 and sizes["tiny_conv"] == 80 * 8 + 8 + 49 * 20 * 8 * 4 + 4
