"""Types that cannot be found by looking at a function: decorators that keep types, operators, what depends on arguments.

Two underscores in a name stand for a dot. `public_stubs.py` puts these definitions in place of what it finds. Names that begin
with an underscore are classes of `penstock` or of `_typing.pyi` beside the public modules.
"""
from typing import Any

@overload
def function(func: Callable[_P, _R], input_signature: Any = None, autograph: bool = True, jit_compile: bool | None = None,
             reduce_retracing: bool = False, experimental_implements: Any = None, experimental_autograph_options: Any = None,
             experimental_attributes: Any = None, experimental_relax_shapes: Any = None, experimental_compile: Any = None,
             experimental_follow_type_hints: Any = None) -> _Function[_P, _R]: ...
@overload
def function(func: None = None, input_signature: Any = None, autograph: bool = True, jit_compile: bool | None = None,
             reduce_retracing: bool = False, experimental_implements: Any = None, experimental_autograph_options: Any = None,
             experimental_attributes: Any = None, experimental_relax_shapes: Any = None, experimental_compile: Any = None,
             experimental_follow_type_hints: Any = None) -> Callable[[Callable[_P, _R]], _Function[_P, _R]]: ...
def custom_gradient(f: _F) -> _F: ...
def recompute_grad(f: _F) -> _F: ...
def grad_pass_through(f: _F) -> _F: ...
def keras__utils__register_keras_serializable(package: str = "Custom", name: str | None = None) -> Callable[[_C], _C]: ...
def autograph__experimental__do_not_convert(func: _F) -> _F: ...


class Tensor:
    shape: _TensorShape
    dtype: _DType
    name: str
    device: str
    def numpy(self) -> Any: ...
    def __iter__(self) -> Iterator[_Tensor]: ...


class Variable:
    shape: _TensorShape
    dtype: _DType
    name: str
    device: str
    def numpy(self) -> Any: ...
    def value(self) -> _Tensor: ...
    def read_value(self) -> _Tensor: ...


# What functions return whose annotations say `Any`, because they also take sparse or ragged tensors, or nothing, because a
# factory has made them.
RESULTS = {"Tensor": """
    abs acos acosh add asin asinh atan atan2 atanh batch_to_space_nd betainc bitcast bitwise.bitwise_and bitwise.bitwise_or
    bitwise.bitwise_xor bitwise.invert bitwise.left_shift bitwise.right_shift broadcast_to cast ceil clip_by_norm
    clip_by_value cos cosh cross diag diag_part digamma divide dynamic_stitch erf erfc exp expm1 extract_volume_patches fft
    fft2d fft3d floor floor_div floormod greater greater_equal guarantee_const identity ifft ifft2d ifft3d igamma igammac
    image.adjust_brightness image.adjust_contrast image.adjust_gamma image.adjust_hue image.adjust_jpeg_quality
    image.adjust_saturation image.central_crop image.convert_image_dtype image.crop_and_resize image.crop_to_bounding_box
    image.decode_and_crop_jpeg image.decode_bmp image.decode_gif image.decode_image image.decode_jpeg image.decode_png
    image.draw_bounding_boxes image.encode_jpeg image.encode_png image.extract_glimpse image.extract_jpeg_shape
    image.flip_left_right image.flip_up_down image.grayscale_to_rgb image.hsv_to_rgb image.is_jpeg image.non_max_suppression
    image.non_max_suppression_overlaps image.pad_to_bounding_box image.per_image_standardization image.psnr
    image.random_brightness image.random_contrast image.random_flip_left_right image.random_flip_up_down image.random_hue
    image.random_jpeg_quality image.random_saturation image.resize image.resize_area image.resize_bicubic
    image.resize_bilinear image.resize_image_with_crop_or_pad image.resize_image_with_pad image.resize_nearest_neighbor
    image.resize_with_pad image.rgb_to_grayscale image.rgb_to_hsv image.rgb_to_yiq image.rgb_to_yuv image.rot90
    image.sobel_edges image.ssim image.ssim_multiscale image.stateless_random_brightness image.stateless_random_contrast
    image.stateless_random_crop image.stateless_random_flip_left_right image.stateless_random_flip_up_down
    image.stateless_random_hue image.stateless_random_jpeg_quality image.stateless_random_saturation image.total_variation
    image.transpose image.yiq_to_rgb image.yuv_to_rgb invert_permutation io.matching_files io.read_file less less_equal
    lgamma linalg.band_part linalg.logm linalg.sqrtm linalg.triangular_solve log log1p logical_and logical_or math.bessel_i0
    math.bessel_i0e math.bessel_i1 math.bessel_i1e math.erfinv math.maximum math.minimum math.multiply math.ndtri
    math.negative math.nextafter math.polygamma math.pow math.reciprocal math.rint math.rsqrt math.scalar_mul
    math.segment_max math.segment_mean math.segment_min math.segment_prod math.segment_sum math.sigmoid math.sign math.sin
    math.sinh math.softplus math.softsign math.special.bessel_j0 math.special.bessel_j1 math.special.bessel_k0
    math.special.bessel_k0e math.special.bessel_k1 math.special.bessel_k1e math.special.bessel_y0 math.special.bessel_y1
    math.sqrt math.square math.squared_difference math.subtract math.tan math.tanh math.xdivy math.xlog1py math.xlogy
    math.zeta nn.compute_average_loss nn.conv3d_backprop_filter nn.depthwise_conv2d_backprop_filter
    nn.depthwise_conv2d_backprop_input nn.depthwise_conv2d_native nn.elu nn.embedding_lookup nn.embedding_lookup_sparse
    nn.l2_loss nn.local_response_normalization nn.relu nn.safe_embedding_lookup_sparse nn.scale_regularization_loss nn.selu
    realdiv stop_gradient to_bfloat16 to_complex128 to_complex64 to_double to_float to_int32 to_int64 truncatediv
    truncatemod unravel_index keras.activations.elu keras.activations.exponential keras.activations.gelu
    keras.activations.hard_sigmoid keras.activations.leaky_relu keras.activations.linear keras.activations.log_softmax
    keras.activations.mish keras.activations.relu keras.activations.relu6 keras.activations.selu keras.activations.sigmoid
    keras.activations.silu keras.activations.softmax keras.activations.softplus keras.activations.softsign
    keras.activations.tanh layers.average_pooling1d layers.average_pooling2d layers.average_pooling3d
    layers.batch_normalization layers.conv1d layers.conv2d layers.conv2d_transpose layers.conv3d layers.conv3d_transpose
    layers.dense layers.dropout layers.flatten layers.max_pooling1d layers.max_pooling2d layers.max_pooling3d
    layers.separable_conv1d layers.separable_conv2d
    """,
    "Variable": "get_variable get_local_variable",
    "Operation": "global_variables_initializer no_op",
    "Graph": "get_default_graph",
    "Self": """
    data.Dataset.batch data.Dataset.bucket_by_sequence_length data.Dataset.cache data.Dataset.choose_from_datasets
    data.Dataset.concatenate data.Dataset.enumerate data.Dataset.filter data.Dataset.flat_map data.Dataset.from_generator
    data.Dataset.from_tensor_slices data.Dataset.from_tensors data.Dataset.group_by_window data.Dataset.ignore_errors
    data.Dataset.interleave data.Dataset.list_files data.Dataset.map data.Dataset.padded_batch data.Dataset.prefetch
    data.Dataset.ragged_batch data.Dataset.random data.Dataset.range data.Dataset.rebatch data.Dataset.rejection_resample
    data.Dataset.repeat data.Dataset.sample_from_datasets data.Dataset.scan data.Dataset.shard data.Dataset.shuffle
    data.Dataset.skip data.Dataset.snapshot data.Dataset.sparse_batch data.Dataset.take data.Dataset.take_while
    data.Dataset.unbatch data.Dataset.unique data.Dataset.window data.Dataset.with_options data.Dataset.zip
    """,
}
# The keywords that classes take as **kwargs and give to their base class.
KEYWORDS = {
    "keras.layers.Layer": """
    name dtype trainable dynamic input_shape batch_input_shape input_dim input_length batch_size weights autocast
    implementation activity_regularizer zero_output_for_mask time_major reverse_state_order synchronized negative_slope
    max_tokens vocabulary_dtype bins beta
    """,
    "keras.optimizers.legacy.Optimizer": """
    clipnorm clipvalue global_clipnorm lr decay weight_decay use_ema ema_momentum ema_overwrite_frequency jit_compile
    is_legacy_optimizer
    """,
}
