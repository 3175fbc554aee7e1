"""Mistakes raise exceptions of TensorFlow's types, with a message that names the cause."""
import importlib.util
import json
import pathlib
import re

import pytest

import penstock
import penstock.compat.v1
from tests.mistakes.run import ALL, SUBJECTS, outcome

ROOT = pathlib.Path(__file__).parents[2]
TYPES = json.loads((pathlib.Path(__file__).parent / "types.json").read_text())
# Subclasses of what TensorFlow raises.
BASES = {"MissingName": "AttributeError", "IncompatibleInputs": "TypeError", "InputTypeError": "TypeError"}
HERE = "the file of the mistake"
WORDS = {
    "matmul_of_sizes_that_do_not_fit": ["[2, 3]", "[4, 5]"],
    "add_of_shapes_that_do_not_broadcast": ["(2, 3)", "(4,)"],
    "channels_of_filter_and_image_differ": ["8 vs 3", "filter"],
    "decode_of_a_file_that_is_not_an_image": ["PNG", "size 12"],
    "tensor_that_leaves_a_function": ["out of scope", "'f'", "Return it from the function", HERE],
    "variable_made_in_every_call": ["outside of the function"],
    "contrib_in_the_2_x_api": ["penstock.compat.v1.contrib"],
    "session_of_the_2_x_api": ["penstock.compat.v1.Session"],
    "placeholder_without_a_feed": ["'x'", HERE],
    "feed_of_a_wrong_shape": ["(2,)", "(None, 3)", HERE],
    "variable_without_initialization": ["global_variables_initializer"],
    "checkpoint_without_a_variable": ["Key w not found"],
    "error_in_a_map_of_a_dataset": [HERE],
    "fit_with_different_numbers_of_rows": ["4", "3"],
    "layer_with_an_unknown_activation": ["rellu", "did you mean 'relu'"],
    "model_compiled_with_an_unknown_loss": ["mean_square", "mean_squared_error"],
    "model_compiled_with_an_unknown_optimizer": ["adamm", "did you mean 'adam'"],
    "function_called_with_too_many_arguments": ["takes (x)", "2 positional"],
    "weights_of_another_shape": ["(3, 2)", "(4, 2)", "dense", "kernel"],
    "checkpoint_that_does_not_exist": ["/no/such/checkpoint", "no folder '/no/such'"],
    "inverse_of_a_matrix_that_is_not_square": ["[2, 3]"],
    "fit_without_labels": ["targets are missing", "`y`"],
    "fit_with_batches_of_no_rows": ["batch_size", "0"],
    "weights_file_that_is_missing": ["/no/such.weights.h5"],
    "queue_that_is_closed": ["'fifo_queue'", HERE],
    "end_of_a_dataset": [HERE],
    "tape_watching_a_number": ["3.0"],
    "condition_that_is_not_a_boolean": ["bool", "float32"],
    "ragged_sum_of_other_rows": ["[0 1 3]", "[0 2 3]"],
    "add_layer_with_one_input": ["(2, 3)"],
    "weights_of_a_model_with_other_layers": ["(2, 4)", "(2, 3)", "kernel"],
    "variable_of_a_shape_that_does_not_fit": ["(2,)", "(3,)"],
    "optimizer_of_another_strategy": ["strategy.scope()"],
    "reduction_over_an_unknown_choice": ["'SUM'", "'average'"],
    "gradient_of_a_tensor_of_another_graph": ["same graph"],
    "scope_named_with_a_space": ["two words", "letters"],
    "weight_with_an_unknown_initializer": ["'glorot'", "glorot_normal"],
    "layer_called_before_its_constructor": ["super().__init__()", "Headless"],
    "signature_with_fewer_specs_than_parameters": ["missing type constraint for y"],
    "signature_that_is_a_type": ["tf.float32"],
    "batch_jacobian_of_other_batches": ["(4, 3)", "(2, 3)"],
    "custom_gradient_with_too_few_gradients": ["return 2 gradients, but returned 1"],
    "learning_rate_schedule_that_returns_text": ["fast"],
    "device_that_is_not_text": ["string device name", "int (0)"],
    "strategy_given_a_device_without_a_task": ["/job:worker/replica:0", "task"],
    "import_of_a_graph_with_an_unknown_op": ["NoSuchOp", "Node 'a'"],
    "sparse_given_where_a_tensor_is_needed": ["tf.sparse.to_dense"],
    "cast_of_text": ["tf.strings.to_number"],
    "tensor_of_a_set_in_a_list": ["{1, 2}", "set"],
    "flatten_left_out_before_a_dense_layer": ["[144,10]", "Flatten"],
    "one_hot_labels_for_a_sparse_loss": ["one-hot", "categorical_crossentropy"],
    "image_given_with_channels_first": ["(None, 32, 32, 3)", "(2, 3, 32, 32)", "another order"],
    "dataset_that_was_not_batched": ['layer "dense"', "found ndim=1", "shape=(3,)"],
    "method_of_numpy_on_a_tensor": ["tf.reshape(x, shape)", "experimental_enable_numpy_behavior"],
    "type_changed_as_in_numpy": ["tf.cast(x, dtype)"],
    "item_asked_as_in_pytorch": ["x.numpy().item()"],
    "detached_as_in_pytorch": ["tf.stop_gradient(x)"],
    "gradient_of_a_number": ["1.0", "float()"],
    "optimizer_with_a_learning_rate_of_text": ["learning_rate", "'0.1'"],
    "value_of_a_tensor_asked_in_a_function": ["no value before"],
    "numpy_applied_to_a_symbolic_tensor": ["functions of `tf`"],
    "tensor_evaluated_with_numpy": ["as a number"],
    "csv_column_that_is_missing": ["['x', 'y']", "'label'"],
    "files_that_match_nothing": ["/no/such/*.tfrecord"],
    "function_that_returns_an_object": ["function_that_returns_an_object.<locals>.f"],
    "summary_given_no_session": ["session.run(summary)"],
    "loss_reduced_automatically_in_a_strategy": ["Reduction.SUM", "compute_average_loss"],
    "where_with_a_condition_of_another_length": ["condition (2,)", "then (3,)", "else (3,)"],
    "list_of_booleans_as_an_index": ["[True, False, True]", "tf.boolean_mask"],
    "text_files_named_by_a_number": ["`filenames`", "tf.int32"],
    "windows_without_a_size": ["`window_size`", "must be specified"],
    "error_in_a_generator": ["KeyError: 'label'", HERE, "in rows"],
    "variable_without_a_shape": ["Variable w", "`shape`"],
    "placeholder_with_its_arguments_swapped": ["'dtype'", "[None, 2]"],
    "operation_run_without_a_session": ["execute operation"],
    "session_given_its_options_first": ["Session(config=config)"],
    "layer_with_several_outputs_in_a_sequential": ["single output", "functional API"],
    "batch_size_with_a_fraction": ["`batch_size`", "2.5"],
    "text_vectorization_of_a_matrix": ["last shape dimension must be 1", "(2, 2)"],
    "center_crop_larger_than_the_image_of_rank_two": ["CenterCrop", "(4, 4)"],
    "csv_logger_into_a_missing_folder": ["/no/such/folder/log.csv"],
    "sparse_placeholder_fed_an_array": ["SparseTensorValue", "dense_shape"],
    "softmax_layer_over_a_missing_axis": ["layer 'softmax' (type Softmax)", "shape=(2, 3)"],
    "layer_that_raises_in_its_call": ["undefined_bias", 'layer "faulty" (type Faulty)', "x=tf.Tensor(shape=(None, 3)"],
    "variance_scaling_with_an_unknown_mode": ["'fan_both'", "fan_avg"],
    "piecewise_with_equal_lengths": ["2 boundaries", "2 values"],
    "train_step_that_returns_nothing": ["Model.train_step", "None"],
    "model_given_inputs_under_other_names": ["right", "['left', 'wrong']", "['left', 'right']"],
    "conv_with_a_filter_count_of_zero": ["filters=0"],
    "multi_head_attention_of_matrices": ["axes between", "(2, 3)"],
    "submodel_built_with_a_wrong_shape": ["tuple of sizes", "'wide'"],
    "record_written_that_is_no_bytes": ["SerializeToString", "3"],
    "hue_beyond_its_limit": ["[-1, 1]", "3.0"],
    "psnr_of_other_sizes": ["(8, 8, 3)", "(4, 4, 3)"],
    "concatenate_over_a_missing_axis": ["axis 4", "(2, 3)"],
    "class_weight_with_several_outputs": ["`class_weight`", "single output"],
    "steps_per_epoch_that_are_negative": ["steps_per_epoch must be positive", "-3"],
    "bidirectional_with_an_unknown_merge": ["product"],
    "batch_normalization_of_an_unknown_width": ["(None, None)", "axis"],
    "average_pooling_with_negative_strides": ["`strides`", "-1"],
    "random_zoom_below_minus_one": ["height_factor", "at least -1", "(-2.0, 0.5)"],
    "specificity_above_one": ["`specificity`", "[0, 1]", "1.5"],
    "loss_with_an_unknown_reduction": ["'average'", "sum_over_batch_size"],
    "loop_variable_that_becomes_none": ["'y'", "None at the end"],
    "window_used_as_a_tensor": ["'_VariantDataset'"],
    "dimension_of_text": ["'a'"],
}


def test_the_types_of_all_are_recorded():
    assert len(ALL) >= 790 and list(TYPES) == [m.__name__ for m in ALL]


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_mistakes_page", ROOT / "scripts" / "make_mistakes_page.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.__name__.rpartition(".")[2])
def test_the_pages_show_what_these_tests_run(maker, subject):
    """Every block of docs/mistakes is the body of a mistake, and the index has every page."""
    page = (ROOT / "docs" / maker.file_name(subject)).read_text()
    shown = re.findall(r"^```python mistake\n(.*?)\n```$", page, re.S | re.M)
    assert shown == [maker.source(m) for m in SUBJECTS[subject]]
    row = f"| [{maker.heading(subject)}]({maker.file_name(subject)}) | {len(shown)} |"
    assert row in (ROOT / "docs" / "mistakes.md").read_text()


@pytest.mark.parametrize("mistake", ALL, ids=lambda m: m.__name__)
def test_the_error_is_the_one_of_tensorflow(mistake):
    name = mistake.__name__
    kind, message = outcome(mistake, penstock)
    assert BASES.get(kind, kind) == TYPES[name]
    words = [pathlib.Path(mistake.__code__.co_filename).name if w is HERE else w for w in WORDS.get(name, [])]
    assert message and [w for w in words if w not in message] == []
