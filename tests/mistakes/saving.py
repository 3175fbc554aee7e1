"""Files: checkpoints, SavedModels, weights and configurations."""
import os
import pathlib
import tempfile

import numpy as np

from tests.mistakes.made import compiled, signature


def saved_model_that_does_not_exist(tf):
    tf.saved_model.load("/no/such/folder")


def model_file_that_does_not_exist(tf):
    tf.keras.models.load_model("/no/such/model.keras")


def checkpoint_that_does_not_exist(tf):
    tf.train.Checkpoint(w=tf.Variable(1.0)).restore("/no/such/checkpoint")


def weights_of_a_model_with_other_layers(tf):
    path = tempfile.mkdtemp() + "/w.weights.h5"
    tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3)]).save_weights(path)
    tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(4)]).load_weights(path)


def checkpoint_of_another_shape(tf):
    path = tf.train.Checkpoint(w=tf.Variable([1.0, 2.0])).save(tempfile.mkdtemp() + "/c")
    tf.train.Checkpoint(w=tf.Variable([1.0])).restore(path)


def checkpoint_whose_objects_do_not_match(tf):
    path = tf.train.Checkpoint(w=tf.Variable(1.0)).save(tempfile.mkdtemp() + "/c")
    tf.train.Checkpoint(v=tf.Variable(1.0)).restore(path).assert_consumed()


def checkpoint_of_a_number(tf):
    tf.train.Checkpoint(w=3)


def signature_that_is_not_a_function(tf):
    tf.saved_model.save(tf.Module(), tempfile.mkdtemp(), signatures=lambda x: x)


def load_of_a_folder_without_a_saved_model(tf):
    tf.saved_model.load(tempfile.mkdtemp())


def signature_with_too_many_arguments(tf):
    signature(tf)(tf.ones([1]), tf.ones([1]))


def signature_with_an_unknown_input(tf):
    signature(tf)(z=tf.ones([1]))


def weights_file_that_is_missing(tf):
    compiled(tf).load_weights("/no/such.weights.h5")


def model_file_that_is_missing(tf):
    tf.keras.models.load_model("/no/such.keras")


def checkpoint_of_other_objects(tf):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).write(tempfile.mkdtemp() + "/c")
    tf.train.Checkpoint(w=tf.Variable(1.0)).read(path).assert_consumed()


def checkpoint_asserted_without_an_object(tf):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(tempfile.mkdtemp() + "/c")
    tf.train.Checkpoint(v=tf.Variable(1.0), w=tf.Variable(2.0)).restore(path).assert_existing_objects_matched()


def checkpoint_of_another_type(tf):
    path = tf.train.Checkpoint(v=tf.Variable([1.0])).write(tempfile.mkdtemp() + "/c")
    tf.train.Checkpoint(v=tf.Variable([1])).read(path)


def checkpoint_manager_without_a_limit(tf):
    tf.train.CheckpointManager(tf.train.Checkpoint(v=tf.Variable(1.0)), tempfile.mkdtemp(), max_to_keep=0)


def checkpoint_variable_that_is_missing(tf):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).write(tempfile.mkdtemp() + "/c")
    tf.train.load_variable(path, "v")


def saved_model_of_a_number(tf):
    tf.saved_model.save(3.0, tempfile.mkdtemp())


def saved_function_called_with_another_shape(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: x, input_signature=[tf.TensorSpec([2], tf.float32)])
    folder = tempfile.mkdtemp()
    tf.saved_model.save(module, folder)
    tf.saved_model.load(folder).f(tf.ones([3]))


def load_of_a_model_with_an_unknown_layer(tf):
    class Twice(tf.keras.layers.Layer):
        def call(self, x):
            return 2 * x

    path = os.path.join(tempfile.mkdtemp(), "model.h5")
    tf.keras.Sequential([tf.keras.Input((3,)), Twice()]).save(path)
    tf.keras.models.load_model(path)


def model_json_that_is_cut(tf):
    tf.keras.models.model_from_json(compiled(tf).to_json()[:-20])


def input_signature_left_open_in_a_saved_model(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: x + 1)
    tf.saved_model.save(module, tempfile.mkdtemp(), signatures=module.f)


def signature_called_without_its_name(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: x + 1, input_signature=[tf.TensorSpec([], name="x")])
    path = tempfile.mkdtemp()
    tf.saved_model.save(module, path, signatures=module.f)
    tf.saved_model.load(path).signatures["serving_default"](tf.constant(1.0), tf.constant(2.0))


def signature_given_the_wrong_type(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: x + 1, input_signature=[tf.TensorSpec([], name="x")])
    path = tempfile.mkdtemp()
    tf.saved_model.save(module, path, signatures=module.f)
    tf.saved_model.load(path).signatures["serving_default"](x=tf.constant("one"))


def folder_of_texts_that_is_missing(tf):
    tf.keras.utils.text_dataset_from_directory("/no/such/folder")


def checkpoint_callback_with_a_missing_field(tf):
    m = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    m.compile("sgd", "mse")
    m.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0,
          callbacks=[tf.keras.callbacks.ModelCheckpoint("/tmp/{val_acc:.2f}.weights.h5", save_weights_only=True)])


def checkpoint_callback_with_a_wrong_frequency(tf):
    tf.keras.callbacks.ModelCheckpoint("x", save_freq="batch")


def csv_logger_into_a_missing_folder(tf):
    m = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    m.compile("sgd", "mse")
    m.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0,
          callbacks=[tf.keras.callbacks.CSVLogger("/no/such/folder/log.csv")])


def subclassed_model_saved_as_h5(tf):
    class M(tf.keras.Model):
        def call(self, x):
            return x
    m = M()
    m(tf.ones([1, 2]))
    m.save(tempfile.mkdtemp() + "/m.h5")


def layer_from_config_with_an_unknown_key(tf):
    tf.keras.layers.Dense.from_config({"units": 3, "unit": 4})


def image_folder_that_is_missing(tf):
    tf.keras.utils.image_dataset_from_directory("/no/such/folder")


def export_without_signature(tf):
    m = tf.Module()
    m.f = tf.function(lambda x: x)
    d = tempfile.mkdtemp()
    tf.saved_model.save(m, d)
    tf.saved_model.load(d).f(tf.constant(1))


def module_saved_that_is_a_list(tf):
    tf.saved_model.save([tf.Variable(1.0)], tempfile.mkdtemp())


def signature_that_returns_nested_lists(tf):
    module = tf.Module()
    module.f = tf.function(lambda x: [x, [x]], input_signature=[tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, tempfile.mkdtemp(), signatures=module.f)


def saved_model_that_uses_a_variable_left_untracked(tf):
    w = tf.Variable(2.0)
    module = tf.Module()
    module.f = tf.function(lambda x: x * w, input_signature=[tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, tempfile.mkdtemp())


def saved_model_with_a_missing_tag(tf):
    folder = tempfile.mkdtemp()
    tf.saved_model.save(tf.Module(), folder)
    tf.saved_model.load(folder, tags=["gpu"])


def checkpoint_read_by_a_missing_name(tf):
    path = tf.train.Checkpoint(w=tf.Variable(1.0)).write(os.path.join(tempfile.mkdtemp(), "a"))
    tf.train.load_checkpoint(path).get_tensor("v")


def checkpoint_of_nothing_listed(tf):
    tf.train.list_variables(tempfile.mkdtemp())


def model_saved_with_an_unknown_format(tf):
    compiled(tf).save(os.path.join(tempfile.mkdtemp(), "m"), save_format="onnx")


def weights_saved_in_an_unknown_format(tf):
    compiled(tf).save_weights(os.path.join(tempfile.mkdtemp(), "w"), save_format="zip")


def model_loaded_from_a_file_of_text(tf):
    path = os.path.join(tempfile.mkdtemp(), "model.keras")
    pathlib.Path(path).write_text("no model")
    tf.keras.models.load_model(path)


def h5_file_that_is_cut(tf):
    path = os.path.join(tempfile.mkdtemp(), "model.h5")
    compiled(tf).save(path)
    data = pathlib.Path(path).read_bytes()
    pathlib.Path(path).write_bytes(data[:len(data) // 2])
    tf.keras.models.load_model(path)


def existing_objects_matched_to_nothing(tf):
    path = tf.train.Checkpoint(w=tf.Variable(1.0)).save(os.path.join(tempfile.mkdtemp(), "c"))
    tf.train.Checkpoint(v=tf.Variable(1.0)).restore(path).assert_existing_objects_matched()


def checkpoint_with_an_unknown_dependency(tf):
    tf.train.Checkpoint(3)


def manager_that_keeps_a_negative_number(tf):
    tf.train.CheckpointManager(tf.train.Checkpoint(), tempfile.mkdtemp(), max_to_keep=-1)


def function_saved_that_was_never_called(tf):
    module, folder = tf.Module(), tempfile.mkdtemp()
    module.f = tf.function(lambda x: x + 1)
    tf.saved_model.save(module, folder)
    tf.saved_model.load(folder).f(tf.constant(1.0))


def weights_in_another_order(tf):
    layer = tf.keras.layers.Dense(3)
    layer.build((None, 2))
    layer.set_weights([np.zeros(3), np.zeros((2, 3))])


def file_read_that_is_a_folder(tf):
    tf.io.read_file(tempfile.mkdtemp())


def gfile_copied_onto_itself(tf):
    path = os.path.join(tempfile.mkdtemp(), "a")
    tf.io.write_file(path, "text")
    tf.io.gfile.copy(path, path)
