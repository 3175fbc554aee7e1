"""The handwritten digits that ship with penstock, for the demo, the examples and the tests.

The data is the UCI optical digits set under CC BY 4.0; see data_files/README.md for source and authors.
"""

from importlib.resources import files

import numpy as np

Split = tuple[np.ndarray, np.ndarray]


def load(test_fraction: float = 0.2, seed: int = 0) -> tuple[Split, Split]:
    """Return ((x_train, y_train), (x_test, y_test)), shuffled the same way for the same seed.

    Images are float32 in [0, 1] of shape (n, 8, 8, 1); labels are int64.

        (x_train, y_train), (x_test, y_test) = load(test_fraction=0.2)
    """
    if not 0.0 <= test_fraction <= 1.0:
        raise ValueError(f"test_fraction must be between 0 and 1, got {test_fraction}")
    with files("penstock._src").joinpath("data_files/digits.npz").open("rb") as file, np.load(file) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    order = np.random.default_rng(seed).permutation(len(images))
    x = (images[order].astype(np.float32) / 16.0)[..., np.newaxis]
    y = labels[order].astype(np.int64)
    n_test = round(len(x) * test_fraction)
    return (x[n_test:], y[n_test:]), (x[:n_test], y[:n_test])
