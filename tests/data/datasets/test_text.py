"""What is printed of a dataset: TensorFlow's class for it, and the type of its elements."""
import pytest

import penstock as tf

DATASETS = {
    "_RangeDataset": lambda r: r,
    "_TensorSliceDataset": lambda r: tf.data.Dataset.from_tensor_slices([1]),
    "_BatchDataset": lambda r: r.batch(2),
    "_MapDataset": lambda r: r.map(lambda x: x),
    "_ParallelMapDataset": lambda r: r.map(lambda x: x, num_parallel_calls=2),
    "_ShuffleDataset": lambda r: r.shuffle(2),
    "_ZipDataset": lambda r: tf.data.Dataset.zip((r, r)),
    "_PrefetchDataset": lambda r: r.batch(2).prefetch(1),
    "CacheDataset": lambda r: r.cache(),
    "_OptionsDataset": lambda r: r.with_options(tf.data.Options()),
    "_FlatMapDataset": lambda r: r.flat_map(lambda x: tf.data.Dataset.from_tensors(x)),
    "TFRecordDatasetV2": lambda r: tf.data.TFRecordDataset("/none"),
}


@pytest.mark.parametrize("name", DATASETS)
def test_names(name):
    made = DATASETS[name](tf.data.Dataset.range(3))
    assert repr(made) == f"<{name} element_spec={made.element_spec}>"
    assert type(made).__name__ == name or type(made).__name__ == "VariantDataset"


def test_in_functions_and_of_user_classes():
    class Mine(tf.data.Dataset):
        def __new__(cls):
            return tf.data.Dataset.range(2).repeat()

    seen = []
    tf.function(lambda: seen.append(repr(tf.data.Dataset.range(3).take(1))))()
    assert seen == ["<_TakeDataset element_spec=TensorSpec(shape=(), dtype=tf.int64, name=None)>"]
    assert repr(Mine()).startswith("<_RepeatDataset ")
