"""tf.data datasets from folders of images or texts with a folder per class, and from windows of time series."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

import penstock as tf
from penstock._src.base import errors
from penstock._src.base.api import export
from penstock._src.models.keras.preprocessing.image import smart_resize

IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")
SOUNDS = (".wav",)


def _index(directory: Any, labels: Any, formats: tuple, class_names: Any, shuffle: bool, seed: Any,
           follow_links: bool) -> tuple[list, Any, list]:
    """Files below a folder, their labels, and the names of the classes."""
    if not os.path.isdir(directory):
        raise errors.NotFoundError(None, None, f"Could not find directory {directory}")
    if labels == "inferred":
        found = sorted(d for d in os.listdir(directory) if os.path.isdir(os.path.join(directory, d)))
        names = list(class_names) if class_names else found
        if set(names) != set(found):
            raise ValueError("The `class_names` passed did not match the names of the subdirectories of the target directory. "
                             f"Expected: {found}, but received: {class_names}")
    else:
        names = [""]
    files, classes = [], []
    for i, name in enumerate(names):
        top = os.path.join(directory, name)
        here = sorted(os.path.join(root, f) for root, _, fs in os.walk(top, followlinks=follow_links) for f in fs
                      if f.lower().endswith(formats))
        files += here
        classes += [i] * len(here)
    chosen: Any = classes if labels == "inferred" else labels
    if chosen is not None and len(chosen) != len(files):
        raise ValueError(f"Expected the lengths of `labels` to match the number of files in the target directory. len(labels) "
                         f"is {len(chosen)} while we found {len(files)} files in directory {directory}.")
    if shuffle:
        order = np.random.RandomState(np.random.randint(1_000_000) if seed is None else seed).permutation(len(files))
        files, chosen = [files[i] for i in order], None if chosen is None else [chosen[i] for i in order]
    return files, chosen, names if labels == "inferred" else []


def _check_split(validation_split: Any, subset: Any, shuffle: bool, seed: Any) -> None:
    if validation_split and not 0 < validation_split < 1:
        raise ValueError(f"`validation_split` must be between 0 and 1, received: {validation_split}")
    if bool(validation_split) != bool(subset):
        raise ValueError("If `subset` is set, `validation_split` must be set, and inversely.")
    if subset not in ("training", "validation", "both", None):
        raise ValueError(f"`subset` must be either \"training\", \"validation\" or \"both\", received: {subset}")
    if validation_split and shuffle and seed is None:
        raise ValueError("If using `validation_split` and shuffling the data, you must provide a `seed` argument, to make sure "
                         "that there is no overlap between the training and validation subset.")


def _dataset(directory: Any, labels: Any, label_mode: Any, formats: tuple, load: Any, class_names: Any, batch_size: Any,
             shuffle: bool, seed: Any, validation_split: Any, subset: Any, follow_links: bool,
             batch: Any = None) -> Any:
    if isinstance(labels, str) and labels != "inferred":
        raise ValueError("`labels` argument should be a list/tuple of integer labels, one for each file, or \"inferred\" for "
                         f"the names of the folders. Received: labels={labels}")
    if class_names and not isinstance(labels, str):
        raise ValueError(f"You can only pass `class_names` if `labels=\"inferred\"`. Received: labels={labels}, and "
                         f"class_names={class_names}")
    if label_mode not in ("int", "categorical", "binary", None):
        raise ValueError("`label_mode` argument must be one of \"int\", \"categorical\", \"binary\", or None. Received: "
                         f"{label_mode}")
    _check_split(validation_split, subset, shuffle, seed)
    if labels is None:
        label_mode = None
    files, classes, names = _index(directory, None if label_mode is None and labels != "inferred" else labels, formats,
                                   class_names, shuffle, seed, follow_links)
    if label_mode == "binary" and names and len(names) != 2:
        raise ValueError(f"When passing `label_mode=\"binary\"`, there must be exactly 2 class_names. Received: {names}")
    if not files:
        what = {IMAGES: "images", SOUNDS: "audio files"}.get(formats, "text files")
        raise ValueError(f"No {what} found in directory {directory}. Allowed formats: {formats}")
    print(f"Found {len(files)} files belonging to {len(names) or len(set(classes or [0]))} classes.")
    number = int((validation_split or 0) * len(files))
    parts = {"training": slice(None, len(files) - number), "validation": slice(len(files) - number, None), None: slice(None)}
    made = []
    for kind in ("training", "validation") if subset == "both" else (subset,):
        chosen, wanted = files[parts[kind]], None if classes is None else classes[parts[kind]]
        if kind:
            print(f"Using {len(chosen)} files for {kind}.")
        made.append(_of_files(chosen, wanted, label_mode, names, load, batch_size, shuffle and kind != "validation"
                              if subset == "both" else shuffle, seed, batch))
    return made if subset == "both" else made[0]


def _of_files(files: list, classes: Any, label_mode: Any, names: list, load: Any, batch_size: Any, shuffle: bool,
              seed: Any, batch: Any = None) -> Any:
    made = tf.data.Dataset.from_tensor_slices(np.array(files, dtype=object).astype("S")).map(load)
    if label_mode is not None:
        count = len(names)

        def label(i: Any) -> Any:
            if label_mode == "categorical":
                return tf.one_hot(i, count)
            return tf.expand_dims(tf.cast(i, "float32"), -1) if label_mode == "binary" else i
        made = tf.data.Dataset.zip((made, tf.data.Dataset.from_tensor_slices(np.array(classes, dtype="int32")).map(label)))
    if shuffle:
        made = made.shuffle(batch_size * 8 if batch_size else 1024, seed=seed)
    if batch_size:
        made = made.batch(batch_size) if batch is None else batch(made)
    made.class_names, made.file_paths = names, files
    return made


@export(v2=["keras.preprocessing.image_dataset_from_directory", "keras.utils.image_dataset_from_directory"])
def image_dataset_from_directory(directory: Any, labels: Any = "inferred", label_mode: Any = "int", class_names: Any = None,
                                 color_mode: str = "rgb", batch_size: Any = 32, image_size: Any = (256, 256),
                                 shuffle: bool = True, seed: Any = None, validation_split: Any = None, subset: Any = None,
                                 interpolation: str = "bilinear", follow_links: bool = False,
                                 crop_to_aspect_ratio: bool = False) -> Any:
    """A dataset of images and labels from a folder with a folder per class. `crop_to_aspect_ratio` cuts off what exceeds the
    shape of `image_size`; otherwise images are stretched.

    >>> ds = tf.keras.utils.image_dataset_from_directory("flowers", image_size=(180, 180))
    """
    channels = {"rgb": 3, "rgba": 4, "grayscale": 1}.get(color_mode)
    if channels is None:
        raise ValueError(f"`color_mode` must be one of {{\"rgb\", \"rgba\", \"grayscale\"}}. Received: {color_mode}")

    def load(path: Any) -> Any:
        image = tf.io.decode_image(tf.io.read_file(path), channels=channels, expand_animations=False)
        image = smart_resize(image, image_size, interpolation) if crop_to_aspect_ratio else \
            tf.image.resize(image, image_size, method=interpolation)
        return tf.ensure_shape(image, (*image_size, channels))
    return _dataset(directory, labels, label_mode, IMAGES, load, class_names, batch_size, shuffle, seed, validation_split,
                    subset, follow_links)


@export(v2=["keras.preprocessing.text_dataset_from_directory", "keras.utils.text_dataset_from_directory"])
def text_dataset_from_directory(directory: Any, labels: Any = "inferred", label_mode: Any = "int", class_names: Any = None,
                                batch_size: Any = 32, max_length: int | None = None, shuffle: bool = True, seed: Any = None,
                                validation_split: Any = None, subset: Any = None, follow_links: bool = False) -> Any:
    """A dataset of texts and labels from a folder with a folder of `.txt` files per class."""
    def load(path: Any) -> Any:
        text = tf.io.read_file(path)
        return text if max_length is None else tf.strings.substr(text, 0, max_length)
    return _dataset(directory, labels, label_mode, (".txt",), load, class_names, batch_size, shuffle, seed, validation_split,
                    subset, follow_links)


@export(v2=["keras.preprocessing.timeseries_dataset_from_array", "keras.utils.timeseries_dataset_from_array"])
def timeseries_dataset_from_array(data: Any, targets: Any, sequence_length: int, sequence_stride: int = 1,
                                  sampling_rate: int = 1, batch_size: Any = 128, shuffle: bool = False, seed: Any = None,
                                  start_index: int | None = None, end_index: int | None = None) -> Any:
    """A dataset of windows of a time series, with the targets at their beginnings.

    Args:
        data: An array whose first axis is time.
        targets: The target of each step, or None for windows without targets.
        sequence_length: How many elements a window has.
        sequence_stride: How many steps apart windows begin.
        sampling_rate: How many steps apart the elements of a window are.
        batch_size: Windows of a batch; None for single ones.
        shuffle: Whether windows come in random order.
        seed: The seed of that order.
        start_index: The first step that is used.
        end_index: The step before which the data end.

    Returns:
        A `tf.data.Dataset` of windows, or of pairs of windows and targets.

    Raises:
        ValueError: if a number is not positive, or the indices are not inside the data.

    >>> x = tf.range(6).numpy()
    >>> for windows, targets in tf.keras.utils.timeseries_dataset_from_array(x[:-2], x[2:], sequence_length=2):
    ...     print(windows.numpy().tolist(), targets.numpy().tolist())
    [[0, 1], [1, 2], [2, 3]] [2, 3, 4]
    """
    data = np.asarray(data)
    first, last = start_index or 0, len(data) if end_index is None else end_index
    if not 0 <= first < last <= len(data):
        raise ValueError(f"`start_index` and `end_index` must be within the data: {first}, {last}, of {len(data)}")
    for name, value in (("sequence_length", sequence_length), ("sampling_rate", sampling_rate),
                        ("sequence_stride", sequence_stride)):
        if value <= 0:
            raise ValueError(f"`{name}` must be higher than 0. Received: {value}")
    number = last - first - (sequence_length - 1) * sampling_rate
    if targets is not None:
        number = min(number, len(targets))
    starts = np.arange(0, number, sequence_stride, dtype="int64")
    if shuffle:
        np.random.RandomState(np.random.randint(1_000_000) if seed is None else seed).shuffle(starts)
    values = tf.constant(data[first:last])
    steps = tf.constant(np.arange(sequence_length, dtype="int64") * sampling_rate)
    made = tf.data.Dataset.from_tensor_slices(starts).map(lambda i: tf.gather(values, i + steps))
    if targets is not None:
        wanted = tf.constant(np.asarray(targets))
        found = tf.data.Dataset.from_tensor_slices(starts).map(lambda i: tf.gather(wanted, i + first))
        made = tf.data.Dataset.zip((made, found))
    if batch_size is None:
        return made.shuffle(1024, seed=seed) if shuffle else made
    return (made.shuffle(batch_size * 8, seed=seed) if shuffle else made).batch(batch_size)


@export(v2=["keras.utils.audio_dataset_from_directory"])
def audio_dataset_from_directory(directory: Any, labels: Any = "inferred", label_mode: Any = "int", class_names: Any = None,
                                 batch_size: Any = 32, sampling_rate: Any = None, output_sequence_length: Any = None,
                                 ragged: bool = False, shuffle: bool = True, seed: Any = None, validation_split: Any = None,
                                 subset: Any = None, follow_links: bool = False) -> Any:
    """A dataset of sounds, `[batch, samples, channels]`, and labels from a folder with a folder of `.wav` files per class.

    Sounds of different lengths are padded with zeros, unless `output_sequence_length` cuts or pads all to one length, or
    `ragged` keeps their lengths.

    >>> dataset = tf.keras.utils.audio_dataset_from_directory("commands", output_sequence_length=16000)
    """
    if sampling_rate is not None:
        raise NotImplementedError("`sampling_rate` is not supported: resample the files before.")
    if ragged and output_sequence_length is not None:
        raise ValueError("Cannot set both `ragged` and `output_sequence_length`.")

    def load(path: Any) -> Any:
        return tf.audio.decode_wav(tf.io.read_file(path), desired_samples=output_sequence_length or -1)[0]

    def batch(sounds: Any) -> Any:
        if output_sequence_length is not None:
            return sounds.batch(batch_size)
        return sounds.ragged_batch(batch_size) if ragged else sounds.padded_batch(batch_size)
    return _dataset(directory, labels, label_mode, SOUNDS, load, class_names, batch_size, shuffle, seed, validation_split,
                    subset, follow_links, batch)
