"""Maps the modules of TensorFlow's own folders, which programs import, to names of penstock."""
from __future__ import annotations

# Places, a colon, and modules of tensorflow.python. A place is a prefix of public names (`.` is tf itself), or, after an @, a
# module of penstock. They are searched in this order.
_TABLE = """
train @compat.programs.inside.pywrap: pywrap_tensorflow
train: ops.sdca_ops training.adadelta training.adagrad training.adagrad_da training.adam
    training.checkpoint_ops training.checkpoint_utils training.coordinator training.device_setter training.ftrl
    training.gradient_descent training.input training.learning_rate_decay training.momentum training.proximal_adagrad
    training.proximal_gradient_descent training.queue_runner training.queue_runner_impl training.rmsprop training.server_lib
    training.session_manager training.session_run_hook training.supervisor training.sync_replicas_optimizer
    training.training training.warm_starting_util training.basic_loops training.tracking.util summary.summary_iterator
@compat.programs.inside.modes: tf2 platform.build_info util.is_in_graph_mode
.: training framework platform ops client util eager lib tools user_ops module framework.constant_op framework.device
    framework.device_spec framework.indexed_slices framework.load_library
    framework.common_shapes framework.registry framework.op_def_registry framework.framework_lib
    framework.graph_to_function_def ops.state_ops ops.clip_ops ops.script_ops ops.session_ops
    ops.sort_ops ops.standard_ops ops.template ops.tensor_array_ops ops.functional_ops ops.map_fn ops.gradients
    ops.gradients_impl ops.histogram_ops ops.critical_section_ops ops.custom_gradient
    ops.partitioned_variables ops.ragged.ragged_tensor ops.parallel_for.gradients
    ops.cond_v2 ops.while_v2 ops.unconnected_gradients
    ops.math_grad ops.nn_grad ops.boosted_trees_ops ops.tensor_forest_ops training.saveable_object training.tracking
    training.saving platform.parameterized platform.self_check platform.status_bar util.protobuf
    util.lock_util util.memory client.client_lib client.notebook eager.core eager.def_function eager.profiler
    eager.execute summary.plugin_asset profiler.pprof_profiler data.util data.util.sparse module.module
    distribute.distribute_coordinator distribute.estimator_training
layers: layers layers.base layers.core layers.layers layers.normalization
layers @compat.programs.inside.layer_names: layers.convolutional layers.pooling
keras: keras
summary: summary summary.summary summary.writer summary.writer.writer summary.writer.writer_cache
    summary.writer.event_file_writer
saved_model: saved_model saved_model.simple_save saved_model.load saved_model.saved_model
saved_model @state.saved_model.object_saving: saved_model.save
__internal__.saved_model @state.saved_model.structures: saved_model.nested_structure_coder
estimator: estimator
feature_column: feature_column
feature_column @compat.programs.inside.columns @models.feature_column.serialization: feature_column.feature_column
    feature_column.feature_column_v2 feature_column.feature_column_lib feature_column.serialization feature_column.utils
data: data data.dataset_ops data.ops data.ops.dataset_ops data.ops.readers
data @data.datasets.iterators: data.ops.iterator_ops
. @library.vectorized: ops.parallel_for ops.parallel_for.control_flow_ops
profiler: profiler profiler.tfprof_logger profiler.profiler
distribute: distribute training.distribution_strategy_context training.distribute distribute.distribute_lib
    distribute.mirrored_strategy distribute.cross_device_ops distribute.distribution_strategy_context distribute.reduce_util
    distribute.one_device_strategy
distribute @models.distribute.variables @models.distribute.values: distribute.values distribute.ps_values
dtypes . @base.dtypes @compat.programs.inside.dtype_tables: framework.dtypes
errors: framework.errors framework.errors_impl
@compat.programs.inside.defun @compat.programs.inside.ops: framework.function
.: framework.tensor_conversion_registry
@compat.programs.inside.ops .: ops.variables ops.variable_v1
. @compat.programs.inside.stores: ops.variable_scope
@compat.programs.inside.ops: framework.smart_cond ops.control_flow_util util.variable_utils
@graph.func_graph: framework.func_graph
@graph.function_messages: framework.function_def_to_graph
train io: framework.graph_io
graph_util: framework.graph_util framework.graph_util_impl
. graph_util: framework.importer
train @graph.meta_graph: framework.meta_graph
. @compat.programs.inside.ops @compat.programs.inside.registries @graph.graph @graph.node @graph.convert: framework.ops
. random @graph.random_seed: framework.random_seed
sparse .: framework.sparse_tensor
. @base.static_shape: framework.tensor_shape
. @compat.programs.inside.tensor_util @graph.tensor_proto: framework.tensor_util
test @compat.programs.inside.test_util @library.testing.graphs: framework.test_util
version .: framework.versions
config config.experimental @kernels.devices.device_config: framework.config
.: saved_model.model_utils
@compat.programs.inside.datasets: data.ops.from_generator_op data.ops.range_op data.ops.from_tensors_op
    data.ops.from_tensor_slices_op data.ops.from_sparse_tensor_slices_op
@state.saved_model.object_loading: trackable.resource
@state.saved_model.load_context: saved_model.load_context keras.saving.saved_model.load_context
    keras.saving.legacy.saved_model.load_context
@compat.programs.inside.pywrap: pywrap_tfe
@compat.programs.inside.mode_keys: saved_model.model_utils.mode_keys
@graph.type_registry: framework.type_spec_registry
@compat.programs.inside.op_definitions: framework.c_api_util
@compat.internal.monitoring: eager.monitoring
@graph.composite_tensor: framework.composite_tensor
@graph.node @graph.type_spec: framework.tensor
. @graph.type_spec @graph.type_registry: framework.tensor_spec framework.type_spec
@compat.programs.inside.types: types.core
@compat.programs.inside.csr_matrices .: ops.linalg.sparse.sparse
@compat.programs.inside.slicing: ops.tensor_getitem_override
.: types trackable grappler ops.linalg.sparse ops.linalg.sparse.sparse_csr_matrix_ops data.experimental.ops.distribute
@compat.programs.inside.tapes: eager.tape eager.record
@state.saved_model.frozen @compat.programs.inside.converting: framework.convert_to_constants
@step.optimize.graph_defs: grappler.tf_optimizer
@compat.programs.inside.freezing: tools.freeze_graph tools.saved_model_utils
. manip sparse @compat.programs.inside.ops @compat.programs.inside.slicing: ops.array_ops
. math: ops.math_ops ops.special_math_ops
nn . @compat.programs.inside.convolutions: ops.nn_ops ops.nn_impl
nn . @compat.programs.inside.columns: ops.embedding_ops
nn: ops.nn ops.ctc_ops
. initializers @compat.programs.inside.ops: ops.init_ops
initializers @compat.programs.inside.ops: ops.init_ops_v2
initializers: ops.initializers_ns
@compat.programs.inside.ops @state.variables.resource @state.variables.spec: ops.resource_variable_ops
. @compat.programs.inside.ops @compat.internal.context: ops.control_flow_ops
. random @ops.random.truncated: ops.random_ops
. debugging: ops.check_ops ops.numerics
. queue @compat.programs.inside.queue_lists @ops.state.staging @ops.state.queue_classes @ops.state.barrier: ops.data_flow_ops
lookup contrib.lookup @state.lookup_tables @state.vocabulary_tables @state.table_initializers @ops.state.lookup: ops.lookup_ops
image: ops.image_ops ops.image_ops_impl
. io: ops.io_ops ops.parsing_ops
. summary: ops.logging_ops
. strings: ops.string_ops
. linalg: ops.linalg_ops ops.linalg_ops_impl
linalg: ops.linalg.linalg ops.linalg
. @library.distributions.checks: ops.distributions.util
linalg @compat.programs.inside.linear_operators: ops.linalg.linear_operator ops.linalg.linear_operator_addition
losses: ops.losses ops.losses.losses ops.losses.losses_impl ops.losses.util
metrics: ops.metrics
metrics @compat.programs.inside.metric_shapes @library.metrics.parts: ops.metrics_impl
nn . @models.rnn @compat.programs.inside.cells: ops.rnn
nn.rnn_cell: ops.rnn_cell ops.rnn_cell_wrapper_impl
nn.rnn_cell @compat.programs.inside.cells: ops.rnn_cell_impl
@ops.comm.collective: ops.collective_ops
@compat.programs.inside.list_ops @compat.programs.inside.ops: ops.list_ops
debugging .: ops.control_flow_assert
. @compat.programs.inside.ops: ops.control_flow_case ops.control_flow_switch_case ops.cond ops.while_loop
sets: ops.sets ops.sets_impl
signal: ops.signal
. sparse: ops.sparse_ops
autograph.experimental autograph: autograph autograph.impl autograph.impl.api
xla.experimental: compiler.xla.xla compiler.xla.jit
test: ops.gradient_checker platform.test platform.benchmark eager.test
@library.testing.gradients: ops.gradient_checker_v2
bitwise: ops.bitwise_ops
nn random: ops.candidate_sampling_ops
math . @ops.math.confusion: ops.confusion_matrix
distributions: ops.distributions ops.distributions.distributions
manip: ops.manip_ops
io: ops.proto_ops
ragged: ops.ragged
@library.ragged.row_partition: ops.ragged.row_partition
@library.ragged.functional ragged .: ops.ragged.ragged_util
ragged .: ops.ragged.ragged_array_ops ops.ragged.ragged_concat_ops ops.ragged.ragged_factory_ops
    ops.ragged.ragged_functional_ops ops.ragged.ragged_gather_ops ops.ragged.ragged_map_ops ops.ragged.ragged_math_ops
    ops.ragged.ragged_where_op
@state.variables.resources: ops.resources
random: ops.stateless_random_ops
random.experimental: ops.stateful_random_ops
@compat.programs.inside.summaries: ops.summary_ops_v2
@library.weights: ops.weights_broadcast_ops
nondifferentiable_batch_function .: ops.batch_ops
contrib.graph_editor: ops.op_selector
@ops.array.inplace: ops.inplace_ops
@ops.comm.nccl: ops.nccl_ops
contrib.factorization: ops.clustering_ops
train estimator @compat.programs.inside.hooks: training.basic_session_run_hooks
train @state.checkpoint.state: training.checkpoint_management
contrib.training @compat.programs.inside.evaluation: training.evaluation
.: autograph.pyct autograph.core
@compat.programs.inside.pyct: autograph.pyct.loader autograph.pyct.transformer autograph.pyct.naming
    autograph.pyct.inspect_utils autograph.core.converter
train @training.train.monitored_session: training.monitored_session
train @training.train.moving_averages: training.moving_averages
train @training.train.optimizer: training.optimizer
train @state.checkpoint.saver: training.saver
@training.train.slot_creator: training.slot_creator
train summary @compat.programs.inside.event_files: training.summary_io
raw_ops: training.training_ops
train @training.train.global_step: training.training_util
train.experimental: training.experimental
@graph.trackable: training.tracking.tracking training.tracking.base trackable.autotrackable
@graph.trackable @compat.internal.tracking: trackable.base
@state.containers: trackable.data_structures training.tracking.data_structures
@state.checkpoint.saveable: training.saving.saveable_object
@graph.messages: training.checkpoint_state_pb2
app: platform.app
flags: platform.flags
gfile: platform.gfile
test @library.testing.platform: platform.googletest
resource_loader: platform.resource_loader
sysconfig: platform.sysconfig
logging: platform.tf_logging
compat: util.compat
nest @base.nest @compat.programs.inside.nest_names: util.nest data.util.nest
@compat.programs.inside.decorators: util.deprecation util.tf_export util.tf_decorator util.tf_contextlib util.keyword_args
    util.tf_should_use util.function_utils util.all_util util.lazy_loader keras.utils.tf_contextlib
@compat.programs.inside.identities: util.object_identity
@compat.programs.inside.serialization: util.serialization
@compat.internal.dispatch: util.dispatch
@compat.programs.inside.inspection: util.tf_inspect keras.utils.tf_inspect
@library.testing.graphs: util.protobuf.compare
@kernels.devices.device_lib: client.device_lib
. @session.session: client.session
@execute.timeline: client.timeline
saved_model.builder saved_model: saved_model.builder saved_model.builder_impl
saved_model.constants saved_model: saved_model.constants
saved_model.loader saved_model: saved_model.loader saved_model.loader_impl
saved_model.main_op saved_model: saved_model.main_op
saved_model.main_op: saved_model.main_op_impl
saved_model.signature_constants saved_model: saved_model.signature_constants
saved_model.signature_def_utils saved_model: saved_model.signature_def_utils saved_model.signature_def_utils_impl
saved_model.tag_constants saved_model: saved_model.tag_constants
saved_model.utils saved_model: saved_model.utils saved_model.utils_impl
io python_io: lib.io lib.io.tf_record
gfile @compat.programs.inside.file_io: lib.io.file_io
python_io: lib.io.python_io
@compat.programs.inside.layer_arguments: layers.utils
. contrib.eager @compat.programs.inside.eager @compat.internal.context: eager.backprop eager.context
. contrib.eager: eager.function
compat.v1 . @compat.programs.inside.eager: eager.wrap_function
@compat.programs.inside.inference: tools.optimize_for_inference_lib tools.strip_unused_lib tools.optimize_for_inference
    tools.strip_unused
@compat.programs.inside.checkpoints: tools.inspect_checkpoint
@compat.programs.inside.tpu_function: tpu.tpu_function
@compat.programs.inside.registries: profiler.internal.flops_registry
profiler: profiler.internal
profiler @training.profiler: profiler.model_analyzer profiler.option_builder
@training.profiler: profiler.profile_context
data.experimental: data.experimental data.experimental.ops data.ops.optional_ops
@data.datasets.structure data.experimental: data.util.structure
user_ops: user_ops.user_ops
distribute @models.distribute.datasets: distribute.input_lib
distribute.experimental: distribute.parameter_server_strategy
distribute.cluster_resolver: distribute.cluster_resolver
__internal__.distribute.combinations __internal__.test.combinations @compat.internal.combinations: distribute.combinations
    distribute.strategy_combinations
__internal__.test.combinations: framework.test_combinations framework.combinations
"""


def _read(table: str) -> dict[str, str]:
    found = {}
    for entry in table.strip().replace("\n    ", " ").splitlines():
        places, _, modules = entry.partition(": ")
        found.update(dict.fromkeys(modules.split(), places))
    return found


PLACES = _read(_TABLE)

# Modules of tensorflow.contrib that are not below a folder `python`; their names are those of the package.
_FILES = """
boosted_trees.estimator_batch: estimator
compiler: jit xla
graph_editor: edit reroute select subgraph transform util
lookup: lookup_ops
predictor: core_estimator_predictor predictor predictor_factories saved_model_predictor
session_bundle: bundle_shim constants exporter gc session_bundle
summary: summary
tensor_forest.client: eval_metrics random_forest
tfprof: model_analyzer tfprof_logger
"""
CONTRIB_FILES = frozenset(f"contrib.{package}.{name}" for package, _, names in (line.partition(": ") for line in
                          _FILES.strip().splitlines()) for name in names.split())
