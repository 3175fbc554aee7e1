"""CIFAR images from TFRecord files."""
from __future__ import annotations

import os
from typing import Any

from penstock.compat import v1 as tf

IMAGE_HEIGHT, IMAGE_WIDTH, NUM_CHANNEL = 32, 32, 3
_SIZES = {"train": 40000, "validation": 10000, "test": 10000, "train_all": 50000}


def get_ds_from_tfrecords(data_dir: str, split: str, data_aug: bool = True, batch_size: int = 100, epochs: int | None = None,
                          shuffle: bool = True, data_format: str = "channels_first", num_parallel_calls: int = 12,
                          prefetch: int = 0, div255: bool = True, dtype: Any = tf.float32) -> Any:
    """Batches of images and labels of `DATA_DIR/SPLIT.tfrecords`, whose examples have the bytes of an image, channels first.

    >>> dataset = get_ds_from_tfrecords("/data/cifar", "train", batch_size=32)
    """
    if split not in _SIZES:
        raise ValueError(f"Unknown split {split}")

    def read(record: Any) -> tuple[Any, Any]:
        found = tf.parse_single_example(record, {"image": tf.FixedLenFeature([], tf.string),
                                                 "label": tf.FixedLenFeature([], tf.int64)})
        image = tf.reshape(tf.decode_raw(found["image"], tf.uint8), [NUM_CHANNEL, IMAGE_HEIGHT, IMAGE_WIDTH])
        image = tf.cast(tf.transpose(image, [1, 2, 0]), dtype)
        if data_aug:
            image = tf.image.resize_image_with_crop_or_pad(image, IMAGE_HEIGHT + 4, IMAGE_WIDTH + 4)
            image = tf.image.random_flip_left_right(tf.random_crop(image, [IMAGE_HEIGHT, IMAGE_WIDTH, NUM_CHANNEL]))
        if data_format == "channels_first":
            image = tf.transpose(image, [2, 0, 1])
        return image / 255.0 if div255 else image, tf.cast(found["label"], tf.int32)
    dataset = tf.data.TFRecordDataset(os.path.join(data_dir, f"{split}.tfrecords")).repeat(epochs)
    dataset = dataset.map(read, num_parallel_calls=num_parallel_calls).prefetch(prefetch)
    if shuffle:
        dataset = dataset.shuffle(_SIZES[split])
    return dataset.batch(batch_size, drop_remainder=True)
