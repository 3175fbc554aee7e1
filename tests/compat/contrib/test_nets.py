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


def names():
    return {v.op.name for v in tf.global_variables()}


def images(size):
    return tf.placeholder(tf.float32, [2, size, size, 3])


def all_model_parameters():
    return tf.contrib.slim.model_analyzer.analyze_vars(tf.contrib.slim.get_model_variables())[0]


def test_inception_v2():
    slim, inception = tf.contrib.slim, tf.contrib.slim.nets.inception
    with slim.arg_scope(inception.inception_v2_arg_scope()):
        _, ends = inception.inception_v2_base(images(224))
    assert all_model_parameters() == 10_173_112
    assert ends["Mixed_4e"].shape == (2, 14, 14, 576) and ends["Mixed_5c"].shape == (2, 7, 7, 1024)
    logits, _ = inception.inception_v2(images(224), 1000, scope="second")
    assert logits.shape == (2, 1000)
    assert {"InceptionV2/Conv2d_1a_7x7/depthwise_weights", "InceptionV2/Mixed_5c/Branch_3/Conv2d_0b_1x1/weights",
            "second/Logits/Conv2d_1c_1x1/biases"} <= names()


def test_inception_v4():
    slim, inception = tf.contrib.slim, tf.contrib.slim.nets.inception_v4
    with slim.arg_scope(inception.inception_v4_arg_scope()):
        logits, ends = inception.inception_v4(images(299), 1000, create_aux_logits=False)
    scales = sum(v.shape.num_elements() for v in tf.trainable_variables() if v.op.name.endswith("beta"))
    assert parameters() + scales == 42_679_816      # the published count has scales in its normalizations
    assert logits.shape == (2, 1000) and ends["Mixed_7d"].shape == (2, 8, 8, 1536)
    assert [ends[n].shape.as_list()[1:] for n in ("Mixed_3a", "Mixed_4a", "Mixed_5a")] == [
        [73, 73, 160], [71, 71, 192], [35, 35, 384]]
    assert {"InceptionV4/Mixed_7b/Branch_2/Conv2d_0e_3x1/weights", "InceptionV4/Logits/Logits/weights"} <= names()


def test_inception_v4_auxiliary_logits():
    _, ends = tf.contrib.slim.nets.inception.inception_v4(images(299), 10)
    assert ends["AuxLogits"].shape == (2, 10)
    assert {"InceptionV4/AuxLogits/Conv2d_2a/weights", "InceptionV4/AuxLogits/Aux_logits/biases"} <= names()


def test_inception_resnet_v2():
    slim, nets = tf.contrib.slim, tf.contrib.slim.nets.inception_resnet_v2
    with slim.arg_scope(nets.inception_resnet_v2_arg_scope()):
        logits, ends = nets.inception_resnet_v2(images(299), 1000, create_aux_logits=False)
    assert parameters() == 55_813_192
    assert logits.shape == (2, 1000) and ends["PreAuxLogits"].shape == (2, 17, 17, 1088)
    assert ends["Conv2d_7b_1x1"].shape == (2, 8, 8, 1536)
    assert {"InceptionResnetV2/Repeat/block35_10/Branch_2/Conv2d_0c_3x3/weights",
            "InceptionResnetV2/Repeat_1/block17_20/Conv2d_1x1/biases", "InceptionResnetV2/Repeat_2/block8_9/Conv2d_1x1/weights",
            "InceptionResnetV2/Block8/Conv2d_1x1/weights", "InceptionResnetV2/Logits/Logits/biases"} <= names()


def test_inception_resnet_v2_on_a_finer_grid():
    base = tf.contrib.slim.nets.inception_resnet_v2.inception_resnet_v2_base
    x, ends = base(images(321), final_endpoint="PreAuxLogits", output_stride=8, align_feature_maps=True)
    assert x.shape == (2, 41, 41, 1088) and "Mixed_7a" not in ends
    with pytest.raises(ValueError, match="only supported up to"):
        base(images(321), output_stride=8, scope="whole")


def test_mobilenet_v1():
    slim, nets = tf.contrib.slim, tf.contrib.slim.nets.mobilenet_v1
    with slim.arg_scope(nets.mobilenet_v1_arg_scope()):
        logits, ends = nets.mobilenet_v1(images(224), 1000)
    assert parameters() == 4_231_976 and logits.shape == (2, 1000)
    assert ends["Conv2d_11_pointwise"].shape == (2, 14, 14, 512) and ends["AvgPool_1a"].shape == (2, 1, 1, 1024)
    assert {"MobilenetV1/Conv2d_13_depthwise/depthwise_weights", "MobilenetV1/Conv2d_13_pointwise/BatchNorm/gamma",
            "MobilenetV1/Logits/Conv2d_1c_1x1/biases"} <= names()


def test_mobilenet_v1_base():
    nets = tf.contrib.slim.nets.mobilenet_v1
    nets.mobilenet_v1_base(images(224))
    assert all_model_parameters() == 3_217_920
    x, _ = nets.mobilenet_v1_base(images(224), output_stride=8, depth_multiplier=0.5, scope="dense")
    assert x.shape == (2, 28, 28, 512)


def test_mobilenet_v2():
    from penstock.compat.v1.contrib.slim.nets.mobilenet import mobilenet_v2
    with tf.contrib.slim.arg_scope(mobilenet_v2.training_scope()):
        logits, ends = mobilenet_v2.mobilenet(images(224), 1000)
    assert parameters() == 3_504_872 and logits.shape == (2, 1000)
    assert ends["layer_19"].shape == (2, 7, 7, 1280) and ends["layer_15/expansion_output"].shape == (2, 14, 14, 576)
    assert {"MobilenetV2/Conv/weights", "MobilenetV2/expanded_conv/depthwise/depthwise_weights",
            "MobilenetV2/expanded_conv_16/project/BatchNorm/moving_mean", "MobilenetV2/Conv_1/BatchNorm/gamma",
            "MobilenetV2/Logits/Conv2d_1c_1x1/biases"} <= names()
    assert "MobilenetV2/expanded_conv/expand/weights" not in names()
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2 * 52      # built for training: moments of 52 normalizations


def test_thin_mobilenet_v2_runs(run):
    nets = tf.contrib.slim.nets.mobilenet_v2
    logits, ends = nets.mobilenet_v2_035(tf.ones([1, 64, 64, 3]), 5)
    _, found, probabilities = run(logits, ends["Predictions"])
    assert ends["layer_19"].shape == (1, 2, 2, 1280) and found.shape == (1, 5)
    np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-5)
