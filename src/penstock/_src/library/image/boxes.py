"""Public functions on boxes: suppression, drawing, random crops."""
from __future__ import annotations

from typing import Any

from penstock._src.base import dtypes
from penstock._src.base.api import export
from penstock._src.graph.random_seed import get_seed
from penstock.compat import v1 as tf


@export("image.non_max_suppression")
def non_max_suppression(boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any = 0.5,
                        score_threshold: float = float("-inf"), name: str | None = None) -> Any:
    """Indices of boxes, best first, that do not overlap a better one by more than iou_threshold.

    Args:
        boxes: Boxes [n, 4]: two opposite corners (y, x).
        scores: Score of each box.
        max_output_size: How many boxes to choose at most.
        iou_threshold: Largest share that two boxes may have in common.
        score_threshold: Lowest score of a box that is chosen.
        name: Name of the operation.

    Returns:
        Indices of the chosen boxes.

    >>> boxes = [[0., 0., 1., 1.], [0., 0., 1., 0.9], [2., 2., 3., 3.]]
    >>> tf.image.non_max_suppression(boxes, [0.5, 0.9, 0.3], 3).numpy().tolist()
    [1, 2]
    """
    with tf.name_scope(name, "non_max_suppression"):
        return tf.raw_ops.NonMaxSuppressionV3(boxes=boxes, scores=scores, max_output_size=max_output_size,
                                              iou_threshold=iou_threshold, score_threshold=score_threshold)


@export("image.non_max_suppression_with_scores")
def non_max_suppression_with_scores(boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any = 0.5,
                                    score_threshold: float = float("-inf"), soft_nms_sigma: float = 0.0,
                                    name: str | None = None) -> tuple:
    """(indices, scores); with soft_nms_sigma > 0 the scores of overlapping boxes are reduced instead of removing the boxes."""
    with tf.name_scope(name, "non_max_suppression_with_scores"):
        dtype = tf.convert_to_tensor(boxes).dtype
        as_t = [tf.cast(v, dtype) for v in (iou_threshold, score_threshold, soft_nms_sigma)]
        chosen, values, _ = tf.raw_ops.NonMaxSuppressionV5(
            boxes=boxes, scores=scores, max_output_size=max_output_size, iou_threshold=as_t[0], score_threshold=as_t[1],
            soft_nms_sigma=as_t[2], pad_to_max_output_size=False)
        return chosen, values


@export("image.non_max_suppression_padded")
def non_max_suppression_padded(boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any = 0.5,
                               score_threshold: float = float("-inf"), pad_to_max_output_size: bool = False,
                               name: str | None = None, sorted_input: bool = False, canonicalized_coordinates: bool = False,
                               tile_size: int = 512) -> tuple:
    """(indices, number of valid ones), the indices padded with zeros if requested.

    Padded, the boxes may be a batch [..., n, 4]. Then a box is dropped also if its overlap is exactly the threshold, or if none
    of its coordinates is positive, as boxes that are padding are.

    >>> boxes = [[[0., 0., 1., 1.], [0., 0., 1., 0.9], [2., 2., 3., 3.]]]
    >>> [t.numpy().tolist() for t in tf.image.non_max_suppression_padded(boxes, [[0.5, 0.9, 0.3]], 3,
    ...                                                                  pad_to_max_output_size=True)]
    [[[1, 2, 0]], [2]]
    """
    with tf.name_scope(name, "non_max_suppression_padded"):
        boxes, scores = tf.convert_to_tensor(boxes), tf.convert_to_tensor(scores)
        if not pad_to_max_output_size and boxes.shape.rank not in (2, None):
            raise ValueError("'pad_to_max_output_size' (value False) must be True for batched input")
        threshold = tf.convert_to_tensor(iou_threshold, tf.float32)
        if pad_to_max_output_size:
            threshold = tf.raw_ops.NextAfter(x1=threshold, x2=tf.constant(float("-inf")))
            lowest = tf.constant(float("-inf"), scores.dtype)
            scores = tf.where_v2(tf.reduce_any(boxes > 0, -1), scores, lowest)

        def chosen(image: tuple) -> tuple:
            return tuple(tf.raw_ops.NonMaxSuppressionV4(
                boxes=image[0], scores=image[1], max_output_size=max_output_size, iou_threshold=threshold,
                score_threshold=score_threshold, pad_to_max_output_size=pad_to_max_output_size))
        if boxes.shape.rank in (2, None):
            return chosen((boxes, scores))
        batch = tf.shape(scores)[:-1]
        images = tf.reshape(boxes, [-1, tf.shape(boxes)[-2], 4]), tf.reshape(scores, [-1, tf.shape(scores)[-1]])
        indices, counts = tf.map_fn(chosen, images, dtype=(tf.int32, tf.int32))
        indices = tf.reshape(indices, tf.concat([batch, [max_output_size]], 0))
        return tf.ensure_shape(indices, [*scores.shape[:-1], tf.get_static_value(max_output_size)]), \
            tf.ensure_shape(tf.reshape(counts, batch), scores.shape[:-1])


@export("image.non_max_suppression_overlaps")
def non_max_suppression_with_overlaps(overlaps: Any, scores: Any, max_output_size: Any, overlap_threshold: Any = 0.5,
                                      score_threshold: float = float("-inf"), name: str | None = None) -> Any:
    """Like non_max_suppression, with a matrix of overlaps instead of boxes."""
    with tf.name_scope(name, "non_max_suppression_overlaps"):
        return tf.raw_ops.NonMaxSuppressionWithOverlaps(
            overlaps=overlaps, scores=scores, max_output_size=max_output_size, overlap_threshold=overlap_threshold,
            score_threshold=score_threshold)


@export("image.combined_non_max_suppression")
def combined_non_max_suppression(boxes: Any, scores: Any, max_output_size_per_class: Any, max_total_size: Any,
                                 iou_threshold: Any = 0.5, score_threshold: float = float("-inf"),
                                 pad_per_class: bool = False, clip_boxes: bool = True, name: str | None = None) -> Any:
    """Suppression per class over a batch: boxes, scores, classes and counts."""
    with tf.name_scope(name, "combined_non_max_suppression"):
        return tf.raw_ops.CombinedNonMaxSuppression(
            boxes=boxes, scores=scores, max_output_size_per_class=max_output_size_per_class, max_total_size=max_total_size,
            iou_threshold=iou_threshold, score_threshold=score_threshold, pad_per_class=pad_per_class, clip_boxes=clip_boxes)


@export(v1=["image.draw_bounding_boxes"])
def draw_bounding_boxes(images: Any, boxes: Any, name: str | None = None, colors: Any = None) -> Any:
    """Images with boxes [y1, x1, y2, x2] (normalised) drawn on them.

    Args:
        images: Images [batch, height, width, channels].
        boxes: Boxes [batch, count, 4] as shares of the height and width.
        name: Name of the operation.
        colors: Colours [count, channels], used in turn.

    Returns:
        Images of the same shape.

    >>> boxes = tf.constant([[[0.25, 0.25, 0.75, 0.75]]])    # relative: top, left, bottom, right
    >>> tf.image.draw_bounding_boxes(tf.zeros([1, 8, 8, 3]), boxes).shape
    TensorShape([1, 8, 8, 3])
    """
    if colors is None:
        return tf.raw_ops.DrawBoundingBoxes(images=images, boxes=boxes, name=name)
    return tf.raw_ops.DrawBoundingBoxesV2(images=images, boxes=boxes, colors=colors, name=name)


@export(v2=["image.draw_bounding_boxes"])
def draw_bounding_boxes_v2(images: Any, boxes: Any, colors: Any, name: str | None = None) -> Any:
    """Images with boxes [y1, x1, y2, x2] (normalised) drawn on them, in the given colours."""
    return draw_bounding_boxes(images, boxes, name, colors)


@export(v1=["image.sample_distorted_bounding_box"])
def sample_distorted_bounding_box(image_size: Any, bounding_boxes: Any, seed: Any = None, seed2: Any = None,
                                  min_object_covered: Any = 0.1, aspect_ratio_range: Any = None, area_range: Any = None,
                                  max_attempts: int | None = None, use_image_if_no_bounding_boxes: bool | None = None,
                                  name: str | None = None) -> Any:
    """A random crop (begin, size, box) that covers enough of one of the boxes.

    Args:
        image_size: Height, width and channels.
        bounding_boxes: Boxes [1, count, 4] as shares of the height and width.
        seed: Seed of the operation. With the graph's seed it fixes the numbers drawn; by default they differ in every run.
        seed2: Second seed.
        min_object_covered: Share of a box that the crop has to cover.
        aspect_ratio_range: Smallest and largest ratio of width to height.
        area_range: Smallest and largest share of the image's area.
        max_attempts: How many random crops are tried before the whole image is returned.
        use_image_if_no_bounding_boxes: Whether an image without boxes counts as one box.
        name: Name of the operation.

    Returns:
        `begin` and `size` for `tf.slice`, and the box for `draw_bounding_boxes`.

    >>> box = tf.constant([[[0.1, 0.2, 0.9, 0.8]]])          # relative: top, left, bottom, right
    >>> begin, size, drawn = tf.image.sample_distorted_bounding_box([32, 32, 3], box, min_object_covered=0.5)
    >>> tf.slice(tf.ones([32, 32, 3]), begin, size).shape[-1], drawn.shape
    (3, TensorShape([1, 1, 4]))
    """
    with tf.name_scope(name, "sample_distorted_bounding_box"):
        return tf.raw_ops.SampleDistortedBoundingBoxV2(
            image_size=image_size, bounding_boxes=bounding_boxes, seed=seed or 0, seed2=seed2 or 0,
            min_object_covered=tf.convert_to_tensor(min_object_covered, dtypes.float32),
            aspect_ratio_range=aspect_ratio_range if aspect_ratio_range is not None else [0.75, 1.33],
            area_range=area_range if area_range is not None else [0.05, 1.0],
            max_attempts=max_attempts if max_attempts is not None else 100,
            use_image_if_no_bounding_boxes=bool(use_image_if_no_bounding_boxes), name=name)


@export(v2=["image.sample_distorted_bounding_box"])
def sample_distorted_bounding_box_v2(image_size: Any, bounding_boxes: Any, seed: int = 0, min_object_covered: Any = 0.1,
                                     aspect_ratio_range: Any = None, area_range: Any = None,
                                     max_attempts: int | None = None, use_image_if_no_bounding_boxes: bool | None = None,
                                     name: str | None = None) -> Any:
    """A random crop (begin, size, box) that covers enough of one of the boxes."""
    seed1, seed2 = get_seed(seed) if seed else (0, 0)
    return sample_distorted_bounding_box(image_size, bounding_boxes, seed1, seed2, min_object_covered, aspect_ratio_range,
                                         area_range, max_attempts, use_image_if_no_bounding_boxes, name)


@export("image.stateless_sample_distorted_bounding_box")
def stateless_sample_distorted_bounding_box(image_size: Any, bounding_boxes: Any, seed: Any, min_object_covered: Any = 0.1,
                                            aspect_ratio_range: Any = None, area_range: Any = None,
                                            max_attempts: int | None = None, use_image_if_no_bounding_boxes: bool | None = None,
                                            name: str | None = None) -> Any:
    """A crop (begin, size, box) that covers enough of one of the boxes, chosen by `seed` alone.

    >>> begin, size, box = tf.image.stateless_sample_distorted_bounding_box(tf.shape(image), boxes, seed=[1, 2])
    """
    with tf.name_scope(name, "stateless_sample_distorted_bounding_box"):
        return tf.raw_ops.StatelessSampleDistortedBoundingBox(
            image_size=image_size, bounding_boxes=bounding_boxes, seed=seed,
            min_object_covered=tf.convert_to_tensor(min_object_covered, dtypes.float32),
            aspect_ratio_range=aspect_ratio_range if aspect_ratio_range is not None else [0.75, 1.33],
            area_range=area_range if area_range is not None else [0.05, 1.0],
            max_attempts=max_attempts if max_attempts is not None else 100,
            use_image_if_no_bounding_boxes=bool(use_image_if_no_bounding_boxes), name=name)
