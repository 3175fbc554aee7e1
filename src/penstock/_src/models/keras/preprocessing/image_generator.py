"""ImageDataGenerator: batches of randomly changed images, from arrays, folders and tables."""
from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from penstock._src.base.api import export
from penstock._src.models.keras import backend as K
from penstock._src.models.keras.preprocessing.image import (
    apply_affine_transform,
    apply_brightness_shift,
    apply_channel_shift,
    array_to_img,
    flip_axis,
    img_to_array,
    list_pictures,
    load_img,
)
from penstock._src.models.keras.utils.data_utils import Sequence


@export("keras.preprocessing.image.Iterator")
class Iterator(Sequence):
    """An infinite sequence of batches of `n` samples, in order or shuffled, by index or by iteration."""

    white_list_formats = ("png", "jpg", "jpeg", "bmp", "ppm", "tif", "tiff")

    def __init__(self, n: int, batch_size: int, shuffle: bool, seed: int | None):
        super().__init__()
        self.n, self.batch_size, self.shuffle, self.seed = n, batch_size, shuffle, seed
        self.batch_index = self.total_batches_seen = 0
        self.lock = threading.Lock()
        self.index_array: Any = None

    def _set_index_array(self) -> None:
        self.index_array = np.random.permutation(self.n) if self.shuffle else np.arange(self.n)

    def __len__(self) -> int:
        return (self.n + self.batch_size - 1) // self.batch_size

    def __getitem__(self, idx: int) -> Any:
        if idx >= len(self):
            raise ValueError(f"Asked to retrieve element {idx}, but the Sequence has length {len(self)}")
        if self.seed is not None:
            np.random.seed(self.seed + self.total_batches_seen)
        self.total_batches_seen += 1
        if self.index_array is None:
            self._set_index_array()
        return self._get_batches_of_transformed_samples(self.index_array[self.batch_size * idx:self.batch_size * (idx + 1)])

    def on_epoch_end(self) -> None:
        """Shuffles again."""
        self._set_index_array()

    def reset(self) -> None:
        """Begins at the first batch."""
        self.batch_index = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self, *args: Any, **kwargs: Any) -> Any:
        return self.next()

    def next(self) -> Any:
        """The next batch."""
        with self.lock:
            if self.index_array is None or self.batch_index == 0:
                self._set_index_array()
            if self.seed is not None:
                np.random.seed(self.seed + self.total_batches_seen)
            first = self.batch_index * self.batch_size % max(self.n, 1)
            rows = self.index_array[first:first + self.batch_size]
            self.batch_index = self.batch_index + 1 if self.n > first + self.batch_size else 0
            self.total_batches_seen += 1
        return self._get_batches_of_transformed_samples(rows)

    def _get_batches_of_transformed_samples(self, index_array: np.ndarray) -> Any:
        raise NotImplementedError


def _save(folder: Any, prefix: str, kind: str, data_format: str, images: np.ndarray, rows: np.ndarray) -> None:
    for image, row in zip(images, rows, strict=True):
        name = f"{prefix}_{row}_{np.random.randint(int(1e4))}.{kind}"
        array_to_img(image, data_format, scale=True).save(os.path.join(folder, name))


@export("keras.preprocessing.image.NumpyArrayIterator")
class NumpyArrayIterator(Iterator):
    """Batches of images in an array, with labels and weights."""

    def __init__(self, x: Any, y: Any, image_data_generator: Any, batch_size: int = 32, shuffle: bool = False,
                 sample_weight: Any = None, seed: int | None = None, data_format: str | None = None, save_to_dir: Any = None,
                 save_prefix: str = "", save_format: str = "png", subset: str | None = None, dtype: Any = None):
        self.dtype = K.floatx() if dtype is None else dtype
        self.x_misc: list = []
        if isinstance(x, (tuple, list)):
            self.x_misc = [np.asarray(m) for m in (x[1] if isinstance(x[1], list) else [x[1]])]
            x = x[0]
        if y is not None and len(x) != len(y):
            raise ValueError("`x` (images tensor) and `y` (labels) should have the same length. "
                             f"Found: x.shape = {np.asarray(x).shape}, y.shape = {np.asarray(y).shape}")
        if sample_weight is not None and len(x) != len(sample_weight):
            raise ValueError("`x` (images tensor) and `sample_weight` should have the same length. "
                             f"Found: x.shape = {np.asarray(x).shape}, sample_weight.shape = {np.asarray(sample_weight).shape}")
        if subset is not None:
            if subset not in ("training", "validation"):
                raise ValueError(f"Invalid subset name: {subset}; expected \"training\" or \"validation\".")
            cut = int(len(x) * image_data_generator._validation_split)
            part = slice(None, cut) if subset == "validation" else slice(cut, None)
            x, y = x[part], None if y is None else y[part]
            sample_weight = None if sample_weight is None else sample_weight[part]
            self.x_misc = [m[part] for m in self.x_misc]
        self.x = np.asarray(x, dtype=self.dtype)
        if self.x.ndim != 4:
            raise ValueError(f"Input data in `NumpyArrayIterator` should have rank 4. You passed an array with shape "
                             f"{self.x.shape}")
        self.y = None if y is None else np.asarray(y)
        self.sample_weight = None if sample_weight is None else np.asarray(sample_weight)
        self.image_data_generator, self.data_format = image_data_generator, data_format or K.image_data_format()
        self.save_to_dir, self.save_prefix, self.save_format = save_to_dir, save_prefix, save_format
        super().__init__(len(self.x), batch_size, shuffle, seed)

    def _get_batches_of_transformed_samples(self, index_array: np.ndarray) -> Any:
        g = self.image_data_generator
        made = np.stack([g.standardize(g.random_transform(self.x[i].copy())) for i in index_array]).astype(self.dtype)
        if self.save_to_dir:
            _save(self.save_to_dir, self.save_prefix, self.save_format, self.data_format, made, index_array)
        first = [made, *(m[index_array] for m in self.x_misc)] if self.x_misc else made
        if self.y is None:
            return first
        out = (first, self.y[index_array])
        return out if self.sample_weight is None else (*out, self.sample_weight[index_array])


class _FileIterator(Iterator):
    """Batches of images in files."""

    filenames: list[str]
    filepaths: list[str]
    labels: Any
    class_mode: str | None

    def _set_up(self, generator: Any, target_size: Any, color_mode: str, data_format: str | None, interpolation: str,
                save: tuple, dtype: Any) -> None:
        self.image_data_generator, self.target_size, self.interpolation = generator, tuple(target_size), interpolation
        if color_mode not in ("rgb", "rgba", "grayscale"):
            raise ValueError(f"Invalid color mode: {color_mode}; expected \"rgb\", \"rgba\", or \"grayscale\".")
        self.color_mode, self.data_format = color_mode, data_format or K.image_data_format()
        channels = {"rgb": 3, "rgba": 4, "grayscale": 1}[color_mode]
        first = self.data_format == "channels_first"
        self.image_shape = (channels, *self.target_size) if first else (*self.target_size, channels)
        self.save_to_dir, self.save_prefix, self.save_format = save
        self.dtype = K.floatx() if dtype is None else dtype

    def _get_batches_of_transformed_samples(self, index_array: np.ndarray) -> Any:
        g = self.image_data_generator
        made = np.zeros((len(index_array), *self.image_shape), dtype=self.dtype)
        for k, i in enumerate(index_array):
            img = load_img(self.filepaths[i], color_mode=self.color_mode, target_size=self.target_size,
                           interpolation=self.interpolation)
            made[k] = g.standardize(g.random_transform(img_to_array(img, data_format=self.data_format)))
        if self.save_to_dir:
            _save(self.save_to_dir, self.save_prefix, self.save_format, self.data_format, made, index_array)
        if self.class_mode == "input":
            return made, made.copy()
        if self.class_mode is None:
            return made
        labels = np.asarray(self.labels)[index_array]
        if self.class_mode == "categorical":
            return made, np.eye(len(self.class_indices), dtype=self.dtype)[labels]
        return made, labels.astype(self.dtype) if self.class_mode in ("binary", "sparse") else labels

    class_indices: dict[str, int]


@export("keras.preprocessing.image.DirectoryIterator")
class DirectoryIterator(_FileIterator):
    """Batches of images from a folder with a folder per class."""

    allowed_class_modes = ("categorical", "binary", "sparse", "input", None)

    def __init__(self, directory: Any, image_data_generator: Any, target_size: Any = (256, 256), color_mode: str = "rgb",
                 classes: Any = None, class_mode: str | None = "categorical", batch_size: int = 32, shuffle: bool = True,
                 seed: int | None = None, data_format: str | None = None, save_to_dir: Any = None, save_prefix: str = "",
                 save_format: str = "png", follow_links: bool = False, subset: str | None = None,
                 interpolation: str = "nearest", dtype: Any = None):
        if class_mode not in self.allowed_class_modes:
            raise ValueError(f"Invalid class_mode: {class_mode}; expected one of: {self.allowed_class_modes}")
        self._set_up(image_data_generator, target_size, color_mode, data_format, interpolation,
                     (save_to_dir, save_prefix, save_format), dtype)
        self.directory, self.classes_given, self.class_mode = directory, classes, class_mode
        names = classes or sorted(d for d in os.listdir(directory) if os.path.isdir(os.path.join(directory, d)))
        self.num_classes, self.class_indices = len(names), {n: i for i, n in enumerate(names)}
        self.filepaths, labels = [], []
        for name in names:
            found = [f for f in list_pictures(os.path.join(directory, name)) if f.lower().endswith(self.white_list_formats)]
            found = _part(found, image_data_generator._validation_split, subset)
            self.filepaths += found
            labels += [self.class_indices[name]] * len(found)
        self.filenames = [os.path.relpath(f, directory) for f in self.filepaths]
        self.classes = self.labels = np.array(labels, dtype="int32")
        self.samples = len(self.filepaths)
        print(f"Found {self.samples} images belonging to {self.num_classes} classes.")
        super().__init__(self.samples, batch_size, shuffle, seed)


def _part(items: list, split: float, subset: str | None) -> list:
    if subset is None:
        return items
    if subset not in ("training", "validation"):
        raise ValueError(f"Invalid subset name: {subset}; expected \"training\" or \"validation\"")
    cut = int(len(items) * split)
    return items[:cut] if subset == "validation" else items[cut:]


@export("keras.preprocessing.image.DataFrameIterator")
class DataFrameIterator(_FileIterator):
    """Batches of images whose names and labels are columns of a table."""

    def __init__(self, dataframe: Any, directory: Any, image_data_generator: Any, x_col: str = "filename", y_col: Any = "class",
                 weight_col: str | None = None, target_size: Any = (256, 256), color_mode: str = "rgb", classes: Any = None,
                 class_mode: str | None = "categorical", batch_size: int = 32, shuffle: bool = True, seed: int | None = None,
                 data_format: str | None = None, save_to_dir: Any = None, save_prefix: str = "", save_format: str = "png",
                 subset: str | None = None, interpolation: str = "nearest", dtype: Any = None, validate_filenames: bool = True):
        self._set_up(image_data_generator, target_size, color_mode, data_format, interpolation,
                     (save_to_dir, save_prefix, save_format), dtype)
        self.directory, self.class_mode = directory or "", class_mode
        paths = [os.path.join(self.directory, f) for f in dataframe[x_col]]
        rows = [i for i, p in enumerate(paths) if not validate_filenames or os.path.isfile(p)]
        rows = _part(rows, image_data_generator._validation_split, subset)
        self.filepaths, self.filenames = [paths[i] for i in rows], [dataframe[x_col].iloc[i] for i in rows]
        self.class_indices, self.labels = {}, None
        if class_mode in ("categorical", "binary", "sparse"):
            given = [dataframe[y_col].iloc[i] for i in rows]
            names = list(classes) if classes else sorted(set(given))
            self.class_indices = {n: i for i, n in enumerate(names)}
            self.labels = np.array([self.class_indices[g] for g in given], dtype="int32")
        elif class_mode in ("raw", "multi_output"):
            self.labels = dataframe[y_col].to_numpy()[rows]
        self.samples = len(self.filepaths)
        print(f"Found {self.samples} validated image filenames.")
        super().__init__(self.samples, batch_size, shuffle, seed)


@export("keras.preprocessing.image.ImageDataGenerator")
class ImageDataGenerator:
    """Makes batches of images that are normalized and randomly rotated, moved, sheared, zoomed, flipped …

    >>> g = tf.keras.preprocessing.image.ImageDataGenerator(rescale=1 / 255., horizontal_flip=True)
    >>> model.fit(g.flow(x, y, batch_size=32), epochs=3)
    """

    def __init__(self, featurewise_center: bool = False, samplewise_center: bool = False,
                 featurewise_std_normalization: bool = False, samplewise_std_normalization: bool = False,
                 zca_whitening: bool = False, zca_epsilon: float = 1e-6, rotation_range: float = 0,
                 width_shift_range: Any = 0.0, height_shift_range: Any = 0.0, brightness_range: Any = None,
                 shear_range: float = 0.0, zoom_range: Any = 0.0, channel_shift_range: float = 0.0,
                 fill_mode: str = "nearest", cval: float = 0.0, horizontal_flip: bool = False, vertical_flip: bool = False,
                 rescale: Any = None, preprocessing_function: Any = None, data_format: str | None = None,
                 validation_split: float = 0.0, dtype: Any = None):
        self.featurewise_center, self.samplewise_center = featurewise_center or zca_whitening, samplewise_center
        self.featurewise_std_normalization = featurewise_std_normalization
        self.samplewise_std_normalization, self.zca_whitening, self.zca_epsilon = (samplewise_std_normalization, zca_whitening,
                                                                                 zca_epsilon)
        self.rotation_range, self.width_shift_range, self.height_shift_range = (rotation_range, width_shift_range,
                                                                              height_shift_range)
        self.brightness_range, self.shear_range, self.channel_shift_range = brightness_range, shear_range, channel_shift_range
        self.fill_mode, self.cval, self.horizontal_flip, self.vertical_flip = fill_mode, cval, horizontal_flip, vertical_flip
        self.rescale, self.preprocessing_function = rescale, preprocessing_function
        self.dtype = K.floatx() if dtype is None else dtype
        self.data_format = K.image_data_format() if data_format is None else data_format
        if self.data_format not in ("channels_last", "channels_first"):
            raise ValueError("`data_format` should be `\"channels_last\"` (channel after row and column) or "
                             "`\"channels_first\"` (channel before row and column). Received: " + str(data_format))
        first = self.data_format == "channels_first"
        self.channel_axis, self.row_axis, self.col_axis = (1, 2, 3) if first else (3, 1, 2)
        if validation_split and not 0 < validation_split < 1:
            raise ValueError(f"`validation_split` must be strictly between 0 and 1.  Received: {validation_split}")
        self._validation_split = validation_split
        if isinstance(zoom_range, (int, float)):
            self.zoom_range = [1 - zoom_range, 1 + zoom_range]
        elif len(zoom_range) == 2:
            self.zoom_range = [zoom_range[0], zoom_range[1]]
        else:
            raise ValueError(f"`zoom_range` should be a float or a tuple or list of two floats. Received: {zoom_range}")
        self.mean: Any = None
        self.std: Any = None
        self.principal_components: Any = None

    # -- where images come from ---------------------------------------------------------------------------------------
    def flow(self, x: Any, y: Any = None, batch_size: int = 32, shuffle: bool = True, sample_weight: Any = None,
             seed: int | None = None, save_to_dir: Any = None, save_prefix: str = "", save_format: str = "png",
             subset: str | None = None) -> Any:
        """Batches from arrays."""
        return NumpyArrayIterator(x, y, self, batch_size, shuffle, sample_weight, seed, self.data_format, save_to_dir,
                                  save_prefix, save_format, subset)

    def flow_from_directory(self, directory: Any, target_size: Any = (256, 256), color_mode: str = "rgb", classes: Any = None,
                            class_mode: str | None = "categorical", batch_size: int = 32, shuffle: bool = True,
                            seed: int | None = None, save_to_dir: Any = None, save_prefix: str = "", save_format: str = "png",
                            follow_links: bool = False, subset: str | None = None, interpolation: str = "nearest") -> Any:
        """Batches from a folder with a folder per class."""
        return DirectoryIterator(directory, self, target_size, color_mode, classes, class_mode, batch_size, shuffle, seed,
                                 self.data_format, save_to_dir, save_prefix, save_format, follow_links, subset, interpolation)

    def flow_from_dataframe(self, dataframe: Any, directory: Any = None, x_col: str = "filename", y_col: Any = "class",
                            weight_col: str | None = None, target_size: Any = (256, 256), color_mode: str = "rgb",
                            classes: Any = None, class_mode: str | None = "categorical", batch_size: int = 32,
                            shuffle: bool = True, seed: int | None = None, save_to_dir: Any = None, save_prefix: str = "",
                            save_format: str = "png", subset: str | None = None, interpolation: str = "nearest",
                            validate_filenames: bool = True, **kwargs: Any) -> Any:
        """Batches from a table of names and labels."""
        return DataFrameIterator(dataframe, directory, self, x_col, y_col, weight_col, target_size, color_mode, classes,
                                 class_mode, batch_size, shuffle, seed, self.data_format, save_to_dir, save_prefix,
                                 save_format, subset, interpolation, validate_filenames=validate_filenames)

    # -- what happens to them -----------------------------------------------------------------------------------------
    def standardize(self, x: np.ndarray) -> np.ndarray:
        """An image after the preprocessing function, rescaling and normalization."""
        if self.preprocessing_function:
            x = self.preprocessing_function(x)
        if self.rescale:
            x = x * self.rescale
        if self.samplewise_center:
            x = x - np.mean(x, keepdims=True)
        if self.samplewise_std_normalization:
            x = x / (np.std(x, keepdims=True) + 1e-6)
        if self.featurewise_center and self.mean is not None:
            x = x - self.mean
        if self.featurewise_std_normalization and self.std is not None:
            x = x / (self.std + 1e-6)
        if self.zca_whitening and self.principal_components is not None:
            x = (x.reshape(-1, int(np.prod(x.shape[-3:]))) @ self.principal_components).reshape(x.shape)
        return x

    def get_random_transform(self, img_shape: tuple, seed: int | None = None) -> dict[str, Any]:
        """The parameters of a random change."""
        if seed is not None:
            np.random.seed(seed)

        def shift(given: Any, size: int) -> float:
            if not np.ndim(given) and not given:
                return 0
            drawn = np.random.choice(given) * np.random.choice([-1, 1]) if np.ndim(given) else np.random.uniform(-given, given)
            limit = np.max(given)
            return drawn * size if limit < 1 else drawn
        tx = shift(self.height_shift_range, img_shape[self.row_axis - 1])
        ty = shift(self.width_shift_range, img_shape[self.col_axis - 1])
        even = self.zoom_range[0] == 1 and self.zoom_range[1] == 1
        zx, zy = (1, 1) if even else np.random.uniform(self.zoom_range[0], self.zoom_range[1], 2)
        r, c = self.rotation_range, self.channel_shift_range
        return {"theta": np.random.uniform(-r, r) if r else 0, "tx": tx, "ty": ty,
                "shear": np.random.uniform(-self.shear_range, self.shear_range) if self.shear_range else 0, "zx": zx, "zy": zy,
                "flip_horizontal": (np.random.random() < 0.5) * self.horizontal_flip,
                "flip_vertical": (np.random.random() < 0.5) * self.vertical_flip,
                "channel_shift_intensity": np.random.uniform(-c, c) if c else None,
                "brightness": None if self.brightness_range is None else np.random.uniform(*self.brightness_range)}

    def apply_transform(self, x: np.ndarray, transform_parameters: dict[str, Any]) -> np.ndarray:
        """An image after a change with given parameters."""
        p, row, col, channel = transform_parameters, self.row_axis - 1, self.col_axis - 1, self.channel_axis - 1
        x = apply_affine_transform(x, p.get("theta", 0), p.get("tx", 0), p.get("ty", 0), p.get("shear", 0), p.get("zx", 1),
                                   p.get("zy", 1), row_axis=row, col_axis=col, channel_axis=channel, fill_mode=self.fill_mode,
                                   cval=self.cval)
        if p.get("channel_shift_intensity") is not None:
            x = apply_channel_shift(x, p["channel_shift_intensity"], channel)
        if p.get("flip_horizontal"):
            x = flip_axis(x, col)
        if p.get("flip_vertical"):
            x = flip_axis(x, row)
        return apply_brightness_shift(x, p["brightness"]) if p.get("brightness") is not None else x

    def random_transform(self, x: np.ndarray, seed: int | None = None) -> np.ndarray:
        """An image after a random change."""
        return self.apply_transform(x, self.get_random_transform(x.shape, seed))

    def fit(self, x: Any, augment: bool = False, rounds: int = 1, seed: int | None = None) -> None:
        """Learns mean, deviation and principal components from images, for feature-wise normalization."""
        x = np.asarray(x, dtype=self.dtype)
        if x.ndim != 4:
            raise ValueError("`fit` needs an array of rank 4, got shape " + str(x.shape))
        if seed is not None:
            np.random.seed(seed)
        x = np.concatenate([np.stack([self.random_transform(i) for i in x]) for _ in range(rounds)]) if augment else np.copy(x)
        axes = (0, self.row_axis, self.col_axis)
        shape = [1, 1, 1]
        shape[self.channel_axis - 1] = x.shape[self.channel_axis]
        if self.featurewise_center:
            self.mean = np.mean(x, axis=axes).reshape(shape)
            x = x - self.mean
        if self.featurewise_std_normalization:
            self.std = np.std(x, axis=axes).reshape(shape)
            x = x / (self.std + 1e-6)
        if self.zca_whitening:
            flat = x.reshape(x.shape[0], -1)
            u, s, _ = np.linalg.svd(flat.T @ flat / flat.shape[0])
            self.principal_components = (u * (1.0 / np.sqrt(s + self.zca_epsilon))) @ u.T
