"""DatasetCreator: a function that makes a dataset where it is read, for `fit` under strategies with several processes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.data.datasets.dataset import DatasetV2


@export("keras.utils.experimental.DatasetCreator")
class DatasetCreator:
    """A function of an InputContext that makes a dataset: on each worker of a ParameterServerStrategy, or in this process.

    >>> data = tf.keras.utils.experimental.DatasetCreator(lambda context: make_dataset().shuffle(100).repeat().batch(32))
    >>> model.fit(data, epochs=3, steps_per_epoch=100)
    """

    def __init__(self, dataset_fn: Callable, input_options: Any = None):
        if not callable(dataset_fn):
            raise TypeError(f"`dataset_fn` for `DatasetCreator` must be a `callable`. Received: {dataset_fn}")
        self.dataset_fn, self.input_options = dataset_fn, input_options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The dataset; TypeError if the function returns something else."""
        made = self.dataset_fn(*args, **kwargs)
        if not isinstance(made, DatasetV2):
            raise TypeError(f"The `callable` provided to `DatasetCreator` must return a Dataset. It returns {made!r}")
        return made
