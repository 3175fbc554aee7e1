"""tf.data: pipelines, generators, options, TFRecord files."""
import os
import tempfile
from collections.abc import Iterator

import penstock as tf


def numbers() -> Iterator[int]:
    yield from range(5)


def double(x: tf.Tensor) -> tf.Tensor:
    return x * 2


def main() -> list[int]:
    dataset = tf.data.Dataset.range(10).filter(lambda x: x % 2 == 0).map(double, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.shuffle(4, seed=1).repeat(2).batch(5, drop_remainder=True).prefetch(1)
    options = tf.data.Options()
    options.deterministic = True
    dataset = dataset.with_options(options)
    total = [int(tf.reduce_sum(batch)) for batch in dataset]
    made = tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec([], tf.int64))
    zipped = tf.data.Dataset.zip((made, tf.data.Dataset.from_tensor_slices([1, 2, 3, 4, 5])))
    for left, right in zipped.take(2):
        assert int(left) < int(right)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records")
        with tf.io.TFRecordWriter(path) as writer:
            feature = {"x": tf.train.Feature(int64_list=tf.train.Int64List(value=[3]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
        for record in tf.data.TFRecordDataset(path):
            parsed = tf.io.parse_single_example(record, {"x": tf.io.FixedLenFeature([], tf.int64)})
            total.append(int(parsed["x"]))
    return total


if __name__ == "__main__":
    print(main())
