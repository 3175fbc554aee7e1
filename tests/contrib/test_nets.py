"""The networks of slim: numbers of parameters as published, names of variables, shapes of outputs."""
import numpy as np
import pytest

import penstock.compat.v1 as tf


def parameters():
    return sum(int(np.prod(v.shape.as_list())) for v in tf.trainable_variables())


@pytest.mark.parametrize("name, size, count", [
    ("alexnet.alexnet_v2", 224, 50_303_912), ("overfeat.overfeat", 231, 145_704_424), ("vgg.vgg_a", 224, 132_863_336),
    ("vgg.vgg_16", 224, 138_357_544), ("vgg.vgg_19", 224, 143_667_240),
])
def test_chains(name, size, count):
    module, function = name.split(".")
    logits, ends = getattr(getattr(tf.contrib.slim.nets, module), function)(tf.placeholder(tf.float32, [2, size, size, 3]),
                                                                            1000)
    assert logits.shape == (2, 1000) and parameters() == count
    assert f"{function}/fc8" in ends and f"{function}/conv1" in {e.split("/conv1")[0] + "/conv1" for e in ends if "conv1" in e}


@pytest.mark.parametrize("version, count", [("v1", 25_557_032), ("v2", 25_568_360)])
def test_residual(version, count):
    slim = tf.contrib.slim
    nets = getattr(slim.nets, f"resnet_{version}")
    with slim.arg_scope(nets.resnet_arg_scope()):
        net, ends = getattr(nets, f"resnet_{version}_50")(tf.placeholder(tf.float32, [2, 224, 224, 3]), 1000)
    assert net.shape == (2, 1, 1, 1000) and parameters() == count
    prefix = f"resnet_{version}_50/block1/unit_1/bottleneck_{version}"
    names = {v.op.name for v in tf.global_variables()}
    assert f"{prefix}/conv1/weights" in names and f"{prefix}/conv2/BatchNorm/moving_mean" in names
    assert ends[f"resnet_{version}_50/block4"].shape == (2, 7, 7, 2048) and "predictions" in ends


def test_dilated_residual_runs(run):
    slim = tf.contrib.slim
    nets = slim.nets.resnet_v2
    blocks = [nets.resnet_v2_block("block1", base_depth=2, num_units=2, stride=2),
              nets.resnet_v2_block("block2", base_depth=4, num_units=2, stride=2)]
    images = np.random.RandomState(0).rand(1, 32, 32, 3).astype(np.float32)
    with slim.arg_scope(slim.nets.resnet_utils.resnet_arg_scope()):
        plain, _ = nets.resnet_v2(images, blocks, is_training=False, global_pool=False, scope="r")
        dense, _ = nets.resnet_v2(images, blocks, is_training=False, global_pool=False, output_stride=8, scope="r", reuse=True)
    _, a, b = run(plain, dense)
    assert a.shape == (1, 2, 2, 16) and b.shape == (1, 4, 4, 16)
    np.testing.assert_allclose(a, b[:, ::2, ::2], rtol=1e-4, atol=1e-5)     # the same network, on a finer grid


def test_long_import_path():
    from penstock.compat.v1.contrib.slim.nets import resnet_v1
    from penstock.compat.v1.contrib.slim.python.slim.nets import vgg
    assert vgg.vgg_16 is tf.contrib.slim.nets.vgg.vgg_16 and callable(resnet_v1.resnet_v1_101)


def test_inception_v3():
    slim = tf.contrib.slim
    from penstock.compat.v1.contrib.slim.python.slim.nets import inception_v3
    with slim.arg_scope(inception_v3.inception_v3_arg_scope()):
        _, ends = inception_v3.inception_v3_base(tf.placeholder(tf.float32, [5, 299, 299, 3]), scope="b")
    assert slim.model_analyzer.analyze_vars(slim.get_model_variables())[0] == 21_802_784
    assert ends["Mixed_7c"].shape == (5, 8, 8, 2048) and ends["Mixed_6e"].shape == (5, 17, 17, 768)
    with slim.arg_scope(inception_v3.inception_v3_arg_scope()):
        logits, ends = inception_v3.inception_v3(tf.placeholder(tf.float32, [2, 299, 299, 3]), 1000)
    names = {v.op.name for v in tf.global_variables()}
    assert logits.shape == (2, 1000) and ends["AuxLogits"].shape == (2, 1000)
    assert {"InceptionV3/Mixed_5c/Branch_1/Conv_1_0c_5x5/weights", "InceptionV3/Logits/Conv2d_1c_1x1/biases",
            "InceptionV3/AuxLogits/Conv2d_2a_5x5/BatchNorm/beta"} <= names


def test_inception_v1():
    logits, ends = tf.contrib.slim.nets.inception.inception_v1(tf.placeholder(tf.float32, [2, 224, 224, 3]), 1000)
    assert logits.shape == (2, 1000) and ends["Mixed_5c"].shape == (2, 7, 7, 1024)
    assert ends["Mixed_4f"].shape == (2, 14, 14, 832)
    assert "InceptionV1/Mixed_5b/Branch_2/Conv2d_0a_3x3/weights" in {v.op.name for v in tf.global_variables()}
