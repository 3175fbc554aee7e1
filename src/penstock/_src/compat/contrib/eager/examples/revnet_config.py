"""The numbers of published RevNets."""
from __future__ import annotations

from typing import Any

from penstock.compat import v1 as tf

_EVERY = {"fused": True, "momentum": 0.9, "seed": 1234, "shuffle": True, "log_every": 500, "save_every": 500,
          "dtype": tf.float32, "div255": True, "tpu_batch_size": 1024, "tpu_eval_batch_size": 1024}
_CIFAR = {"num_train_images": 50000, "num_eval_images": 10000, "init_filters": 32, "init_kernel": 3, "init_stride": 1,
          "n_rev_blocks": 3, "n_res": [3, 3, 3], "filters": [32, 64, 112], "strides": [1, 2, 2], "batch_size": 100,
          "bottleneck": False, "init_max_pool": False, "weight_decay": 2e-4, "lr_decay_steps": [40000, 60000],
          "lr_list": [1e-1, 1e-2, 1e-3], "max_train_iter": 80000, "eval_batch_size": 1000}
_IMAGENET = {"n_classes": 1000, "dataset": "ImageNet", "num_train_images": 1281167, "num_eval_images": 50000,
             "init_filters": 128, "init_kernel": 7, "init_stride": 2, "n_rev_blocks": 4, "n_res": [2, 2, 2, 2],
             "filters": [512, 1024, 2048, 3328], "strides": [1, 2, 2, 2], "batch_size": 256, "bottleneck": True,
             "init_max_pool": True, "weight_decay": 1e-4, "lr_decay_steps": [160000, 320000, 480000],
             "lr_list": [1e-1, 1e-2, 1e-3, 1e-4], "max_train_iter": 600000, "eval_batch_size": 256}


def _made(table: dict[str, Any], pixels: int, **changes: Any) -> Any:
    first = tf.test.is_gpu_available()
    config = tf.contrib.training.HParams(
        **{**_EVERY, **table, **changes}, data_format="channels_first" if first else "channels_last",
        input_shape=(3, pixels, pixels) if first else (pixels, pixels, 3))
    for prefix in ("", "tpu_"):
        steps = config.num_train_images // getattr(config, prefix + "batch_size")
        config.add_hparam(prefix + "iters_per_epoch", steps)
        config.add_hparam(prefix + "epochs", config.max_train_iter // steps)
    config.add_hparam("tpu_eval_steps", config.num_eval_images // config.tpu_eval_batch_size)
    return config


def get_hparams_cifar_38() -> Any:
    """RevNet-38 for CIFAR; the program adds `n_classes`."""
    return _made(_CIFAR, 32)


def get_hparams_cifar_110() -> Any:
    """RevNet-110."""
    return _made(_CIFAR, 32, filters=[32, 64, 128], n_res=[9, 9, 9])


def get_hparams_cifar_164() -> Any:
    """RevNet-164, with bottlenecks."""
    return _made(_CIFAR, 32, filters=[128, 256, 512], n_res=[9, 9, 9], bottleneck=True)


def get_hparams_imagenet_56() -> Any:
    """RevNet-56 for ImageNet."""
    return _made(_IMAGENET, 224)


def get_hparams_imagenet_104() -> Any:
    """RevNet-104."""
    return _made(_IMAGENET, 224, n_res=[2, 2, 11, 2])
