"""tf.keras.utils."""
from penstock._src.models.keras.utils import (  # noqa: F401
    data_utils,
    dataset_creator,
    file_cache,
    generic_utils,
    hdf5_matrix,
    layer_utils,
    np_utils,
    progress_bar,
    seeds,
    splitting,
    vis_utils,
)
