"""Descriptions of data sets, and providers of their items."""
from __future__ import annotations

from typing import Any

from penstock._src.base.api import export
from penstock._src.compat.contrib.slim.data.reading import parallel_read


@export(v1=["contrib.slim.dataset.Dataset"])
class Dataset:
    """Where the records of a data set are, how they are read and decoded, and how many there are.

    >>> slim.dataset.Dataset(files, tf.TFRecordReader, decoder, num_samples=1000, items_to_descriptions={})
    """

    def __init__(self, data_sources: Any, reader: Any, decoder: Any, num_samples: int | None, items_to_descriptions: Any,
                 **kwargs: Any):
        self.__dict__.update(kwargs, data_sources=data_sources, reader=reader, decoder=decoder, num_samples=num_samples,
                             items_to_descriptions=items_to_descriptions)


@export(v1=["contrib.slim.data_provider.DataProvider"])
class DataProvider:
    """Gives tensors of items."""

    def __init__(self, items_to_tensors: dict[str, Any], num_samples: int | None):
        self._items_to_tensors, self._num_samples = items_to_tensors, num_samples

    def get(self, items: Any) -> list:
        """The tensors of items."""
        for item in items:
            if item not in self._items_to_tensors:
                raise ValueError(f"Items must be a subset of {self.list_items()}, got {item}")
        return [self._items_to_tensors[item] for item in items]

    def list_items(self) -> list:
        """The names of all items."""
        return list(self._items_to_tensors)

    def num_samples(self) -> int | None:
        """The number of records."""
        return self._num_samples


@export(v1=["contrib.slim.dataset_data_provider.DatasetDataProvider"])
class DatasetDataProvider(DataProvider):
    """Reads the records of a data set through queues.

    >>> image, label = slim.dataset_data_provider.DatasetDataProvider(dataset).get(["image", "label"])
    """

    def __init__(self, dataset: Any, num_readers: int = 1, reader_kwargs: Any = None, shuffle: bool = True,
                 num_epochs: int | None = None, common_queue_capacity: int = 256, common_queue_min: int = 128,
                 record_key: str = "record_key", seed: int | None = None, scope: Any = None):
        key, data = parallel_read(dataset.data_sources, reader_class=dataset.reader, num_epochs=num_epochs,
                                  num_readers=num_readers, reader_kwargs=reader_kwargs, shuffle=shuffle,
                                  capacity=common_queue_capacity, min_after_dequeue=common_queue_min, seed=seed, scope=scope)
        items = dataset.decoder.list_items()
        tensors = dict(zip(items, dataset.decoder.decode(data, items), strict=True))
        if record_key in tensors:
            raise ValueError(f"The item name used for `record_key` cannot also be used for a dataset item: {record_key}")
        super().__init__({**tensors, record_key: key}, dataset.num_samples)
