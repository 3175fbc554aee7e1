"""Ops that TensorFlow 2.21 declares without a kernel for CPUs: for TPUs, XLA, cuDNN, and boosted trees, which it has removed.

They have their public name under tf.raw_ops, and graphs can be built, read and written with them. Running one fails as in
TensorFlow on a machine without such a device: no kernel is registered for it.
"""
from __future__ import annotations

from penstock._src.ops.registry import op

_NAMES = {"Conv2DBackpropFilterV2": "conv2d_backprop_filter_v2", "Conv2DBackpropInputV2": "conv2d_backprop_input_v2",
          "GenerateBoundingBoxProposals": "image.generate_bounding_box_proposals"}

for _name, _args, _attrs, _stateful in (
    # -- TPUs
    ("AllToAll",
     "input: T, group_assignment: int32 -> output: T",
     "T: type in {float32 float64 int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 "
     "quint16 uint16 complex128 float16 uint32 uint64 bool}, concat_dimension: int, split_dimension: int, "
     "split_count: int", True),
    ("CollectivePermute",
     "input: T, source_target_pairs: int32 -> output: T",
     "T: type in {float32 float64 int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 "
     "quint16 uint16 complex128 float16 uint32 uint64}", True),
    ("ConfigureDistributedTPU",
     "-> topology: string",
     "embedding_config: string = '', tpu_embedding_config: string = '', is_global_init: bool = False, "
     "enable_whole_mesh_compilations: bool = False, compilation_failure_closes_chips: bool = True, "
     "tpu_cancellation_closes_chips: int = 0", True),
    ("ConfigureTPUEmbedding", "->", "config: string", True),
    ("ConvertToCooTensor",
     "indices_or_row_splits: int32, values: int32, weights: float32 -> row_ids: int32, col_ids: int32, gains: float32",
     "sample_count: int >= 1, combiner: string", True),
    ("ConvertToListOfSparseCoreCooTensors",
     "indices_or_row_splits: int32, values: int32, weights: float32 -> row_ids_list: num_sc_per_chip * int32, "
     "col_ids_list: num_sc_per_chip * int32, gains_list: num_sc_per_chip * float32",
     "sample_count: int >= 1, num_sc_per_chip: int >= 1, row_offset: int >= 0, col_offset: int >= 0, col_shift: "
     "int >= 0, num_sc_shards: int >= 1, stacked_table_sample_count: int >= 1, combiner: string", False),
    ("ConvertToSparseCoreCsrWrappedCooTensor",
     "sorted_row_ids_list: num_sc_per_chip * int32, sorted_col_ids_list: num_sc_per_chip * int32, "
     "sorted_gains_list: num_sc_per_chip * float32, id_counts_list: num_sc_per_chip * int32, splits: int64 -> "
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "row_pointers_unpadded_size: int32, ids_unpadded_size: int32, num_minibatches_per_sc: int32",
     "sample_count_per_sc: int >= 1, num_replica: int >= 1, max_minibatches_per_sc: int >= 1, "
     "max_ids_per_chip_per_sample: int >= 1, table_vocab_size: int >= 1, feature_width: int >= 1, num_sc_per_chip:"
     " int >= 1, table_name: string, allow_id_dropping: bool", False),
    ("CrossReplicaSum",
     "input: T, group_assignment: int32 -> output: T",
     "T: type in {float16 bfloat16 float32 float64 int32 uint32}", True),
    ("DynamicEnqueueTPUEmbeddingArbitraryTensorBatch",
     "sample_indices_or_row_splits: N * T1, embedding_indices: N * T2, aggregation_weights: N * T3, mode_override:"
     " string, device_ordinal: int32 ->",
     "T1: type in {int32 int64} = int32, T2: type in {int32 int64} = int32, T3: type in {float32 float64} = "
     "float32, N: int >= 1, combiners: list(string) = []", True),
    ("DynamicEnqueueTPUEmbeddingRaggedTensorBatch",
     "sample_splits: N * T1, embedding_indices: N * T2, aggregation_weights: N * T3, mode_override: string, "
     "device_ordinal: int32 ->",
     "T1: type in {int32 int64} = int32, T2: type in {int32 int64} = int32, T3: type in {float32 float64} = "
     "float32, N: int >= 1, combiners: list(string) = [], table_ids: list(int), max_sequence_lengths: list(int) = "
     "[], num_features: list(int) = []", True),
    ("EnqueueTPUEmbeddingArbitraryTensorBatch",
     "sample_indices_or_row_splits: N * T1, embedding_indices: N * T2, aggregation_weights: N * T3, mode_override:"
     " string ->",
     "T1: type in {int32 int64} = int32, T2: type in {int32 int64} = int32, T3: type in {float32 float64} = "
     "float32, N: int >= 1, device_ordinal: int = -1, combiners: list(string) = []", True),
    ("EnqueueTPUEmbeddingIntegerBatch",
     "batch: N * int32, mode_override: string ->",
     "N: int >= 1, device_ordinal: int = -1", True),
    ("EnqueueTPUEmbeddingRaggedTensorBatch",
     "sample_splits: N * T1, embedding_indices: N * T2, aggregation_weights: N * T3, mode_override: string ->",
     "T1: type in {int32 int64} = int32, T2: type in {int32 int64} = int32, T3: type in {float32 float64} = "
     "float32, N: int >= 1, device_ordinal: int = -1, combiners: list(string) = [], table_ids: list(int), "
     "max_sequence_lengths: list(int) = [], num_features: list(int) = []", True),
    ("EnqueueTPUEmbeddingSparseBatch",
     "sample_indices: N * T1, embedding_indices: N * T2, aggregation_weights: N * T3, mode_override: string ->",
     "T1: type in {int32 int64} = int32, T2: type in {int32 int64} = int32, T3: type in {float32 float64} = "
     "float32, N: int >= 1, device_ordinal: int = -1, combiners: list(string) = []", True),
    ("EnqueueTPUEmbeddingSparseTensorBatch",
     "sample_indices: N * T1, embedding_indices: N * T2, aggregation_weights: N * T3, mode_override: string ->",
     "T1: type in {int32 int64} = int32, T2: type in {int32 int64} = int32, T3: type in {float32 float64} = "
     "float32, N: int >= 1, device_ordinal: int = -1, combiners: list(string) = [], table_ids: list(int), "
     "max_sequence_lengths: list(int) = [], num_features: list(int) = []", True),
    ("GetMinibatchSplitsWithPhysicalReplica",
     "program_key: string, row_ids: int32, col_ids: int32, gains: float32 -> sorted_row_ids: int32, "
     "sorted_col_ids: int32, sorted_gains: float32, splits: int64, id_counts: int32, max_ids: int32, max_uniques: "
     "int32",
     "sample_count: int >= 1, num_replica: int >= 1, table_vocab_size: int >= 1, feature_width: int >= 1, "
     "num_sc_per_chip: int >= 1, table_name: string, mini_batch_splits: string", True),
    ("GetMinibatchesInCsrWithPhysicalReplica",
     "program_key: string, row_ids: int32, col_ids: int32, gains: float32, splits: int64, id_counts: int32 -> "
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "row_pointers_unpadded_size: int32, ids_unpadded_size: int32, num_minibatches_per_physical_sparse_core: int32",
     "sample_count: int >= 1, num_replica: int >= 1, max_minibatches_per_sc: int >= 1, "
     "max_ids_per_chip_per_sample: int >= 1, table_vocab_size: int >= 1, feature_width: int >= 1, num_sc_per_chip:"
     " int >= 1, table_name: string, mini_batch_in_csr: string", True),
    ("GetStatsFromListOfSparseCoreCooTensors",
     "row_ids_list: N * int32, col_ids_list: N * int32, gains_list: N * float32 -> max_ids_per_sparse_core: int32,"
     " max_unique_ids_per_sparse_core: int32",
     "sample_count_list: list(int), col_offset_list: list(int), num_replica: int >= 1, table_vocab_size: int >= 1,"
     " feature_width: int >= 1, num_sc_per_chip: int >= 1, table_name: string, N: int >= 1", False),
    ("GlobalIterId", "-> iter_id: int64", "", True),
    ("InfeedDequeue", "-> output: dtype", "dtype: type, shape: shape", True),
    ("InfeedDequeueTuple", "-> outputs: dtypes", "dtypes: list(type) >= 1, shapes: list(shape)", True),
    ("InfeedEnqueue",
     "input: dtype ->",
     "dtype: type, shape: shape = [], layout: list(int) = [], device_ordinal: int = -1", True),
    ("InfeedEnqueuePrelinearizedBuffer", "input: variant ->", "device_ordinal: int = -1", False),
    ("InfeedEnqueueTuple",
     "inputs: dtypes ->",
     "dtypes: list(type) >= 1, shapes: list(shape), layouts: list(int) = [], device_ordinal: int = -1", True),
    ("IsTPUEmbeddingInitialized", "-> is_tpu_embedding_initialized: bool", "config: string = ''", True),
    ("LoadTPUEmbeddingADAMParameters",
     "parameters: float32, momenta: float32, velocities: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingAdadeltaParameters",
     "parameters: float32, accumulators: float32, updates: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingAdagradMomentumParameters",
     "parameters: float32, accumulators: float32, momenta: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingAdagradParameters",
     "parameters: float32, accumulators: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingCenteredRMSPropParameters",
     "parameters: float32, ms: float32, mom: float32, mg: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingFTRLParameters",
     "parameters: float32, accumulators: float32, linears: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingFrequencyEstimatorParameters",
     "parameters: float32, last_hit_step: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingMDLAdagradLightParameters",
     "parameters: float32, accumulators: float32, weights: float32, benefits: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingMomentumParameters",
     "parameters: float32, momenta: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingProximalAdagradParameters",
     "parameters: float32, accumulators: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingProximalYogiParameters",
     "parameters: float32, v: float32, m: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingRMSPropParameters",
     "parameters: float32, ms: float32, mom: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("LoadTPUEmbeddingStochasticGradientDescentParameters",
     "parameters: float32 ->",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("OutfeedDequeue", "-> output: dtype", "dtype: type, shape: shape, device_ordinal: int = -1", True),
    ("OutfeedDequeueTuple",
     "-> outputs: dtypes",
     "dtypes: list(type) >= 1, shapes: list(shape), device_ordinal: int = -1", True),
    ("OutfeedDequeueTupleV2",
     "device_ordinal: int32 -> outputs: dtypes",
     "dtypes: list(type) >= 1, shapes: list(shape)", True),
    ("OutfeedDequeueV2", "device_ordinal: int32 -> output: dtype", "dtype: type, shape: shape", True),
    ("OutfeedEnqueue", "input: dtype ->", "dtype: type", True),
    ("OutfeedEnqueueTuple", "inputs: dtypes ->", "dtypes: list(type) >= 1", True),
    ("Prelinearize", "input: dtype -> output: variant", "dtype: type, shape: shape = [], layout: list(int) = []", False),
    ("PrelinearizeTuple",
     "inputs: dtypes -> output: variant",
     "dtypes: list(type) >= 1, shapes: list(shape), layouts: list(int) = []", False),
    ("RecvTPUEmbeddingActivations", "-> outputs: num_outputs * float32", "num_outputs: int >= 1, config: string", True),
    ("RetrieveTPUEmbeddingADAMParameters",
     "-> parameters: float32, momenta: float32, velocities: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingAdadeltaParameters",
     "-> parameters: float32, accumulators: float32, updates: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingAdagradMomentumParameters",
     "-> parameters: float32, accumulators: float32, momenta: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingAdagradParameters",
     "-> parameters: float32, accumulators: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingCenteredRMSPropParameters",
     "-> parameters: float32, ms: float32, mom: float32, mg: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingFTRLParameters",
     "-> parameters: float32, accumulators: float32, linears: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingFrequencyEstimatorParameters",
     "-> parameters: float32, last_hit_step: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingMDLAdagradLightParameters",
     "-> parameters: float32, accumulators: float32, weights: float32, benefits: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingMomentumParameters",
     "-> parameters: float32, momenta: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingProximalAdagradParameters",
     "-> parameters: float32, accumulators: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingProximalYogiParameters",
     "-> parameters: float32, v: float32, m: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingRMSPropParameters",
     "-> parameters: float32, ms: float32, mom: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("RetrieveTPUEmbeddingStochasticGradientDescentParameters",
     "-> parameters: float32",
     "table_id: int = -1, table_name: string = '', num_shards: int, shard_id: int, config: string = ''", True),
    ("SendTPUEmbeddingGradients",
     "inputs: N * float32, learning_rates: NN * float32 ->",
     "N: int >= 1, NN: int >= 0 = 0, config: string", True),
    ("ShutdownDistributedTPU", "->", "", True),
    ("SortListOfSparseCoreCooTensors",
     "row_ids_list: N * int32, col_ids_list: N * int32, gains_list: N * float32 -> sorted_row_ids: int32, "
     "sorted_col_ids: int32, sorted_gains: float32, id_counts: int32",
     "sample_count_list: list(int), col_offset_list: list(int), num_replica: int >= 1, table_vocab_size: int >= 1,"
     " feature_width: int >= 1, num_sc_per_chip: int >= 1, max_ids_per_sparse_core: int >= 1, "
     "max_unique_ids_per_sparse_core: int >= 1, table_name: string, N: int >= 1", False),
    ("StoreMinibatchStatisticsInFdo",
     "program_key: string, max_ids: int32, max_uniques: int32 ->",
     "sample_count: int >= 1, num_replica: int >= 1, feature_width: int >= 1, num_sc_per_chip: int >= 1, "
     "table_name: string, mini_batch_splits: string", True),
    ("TPUAnnotateTensorsWithDynamicShape", "tensors: T -> tpu_tensors: T", "T: list(type) >= 1", True),
    ("TPUCompilationResult", "-> output: string", "", False),
    ("TPUCopyWithDynamicShape",
     "tensors: T, unpadded_sizes: N * int32 -> tpu_tensors: T",
     "N: int >= 0, T: list(type) >= 1", True),
    ("TPUDummyInput", "-> output: dtype", "dtype: type in {float32 bfloat16}, shape: shape", True),
    ("TPUEmbeddingActivations",
     "embedding_variable: float32, sliced_activations: float32 -> output: float32",
     "table_id: int >= 0, lookup_id: int >= 0", False),
    ("TPUOrdinalSelector", "-> device_ordinals: int32", "", True),
    ("TPUPartitionedCall",
     "args: Tin, device_ordinal: int32 -> output: Tout",
     "Tin: list(type) >= 0, Tout: list(type) >= 0, f: func, autotuner_thresh: int = 0", False),
    ("TPUPartitionedInput", "inputs: N * T -> output: T", "N: int >= 1, T: type, partition_dim: int = 0", False),
    ("TPUPartitionedInputV2",
     "inputs: N * T -> output: T",
     "N: int >= 1, T: type, partition_dims: list(int), is_packed: bool = False", False),
    ("TPUPartitionedOutput",
     "inputs: T -> output: num_splits * T",
     "T: type, num_splits: int >= 1, partition_dim: int = 0", False),
    ("TPUPartitionedOutputV2",
     "inputs: T -> output: num_splits * T",
     "T: type, num_splits: int >= 1, partition_dims: list(int)", False),
    ("TPUReplicateMetadata",
     "->",
     "num_replicas: int >= 0, num_cores_per_replica: int = 1, topology: string = '', use_tpu: bool = True, "
     "device_assignment: list(int) = [], computation_shape: list(int) = [], host_compute_core: list(string) = [], "
     "padding_map: list(string) = [], step_marker_location: string = 'STEP_MARK_AT_ENTRY', allow_soft_placement: "
     "bool = False, use_spmd_for_xla_partitioning: bool = False, use_shardy_partitioner: bool = False, "
     "tpu_compile_options_proto: string = ''", False),
    ("TPUReplicatedInput",
     "inputs: N * T -> output: T",
     "N: int >= 1, T: type, is_mirrored_variable: bool = False, index: int = -1, is_packed: bool = False", False),
    ("TPUReplicatedOutput", "input: T -> outputs: num_replicas * T", "num_replicas: int >= 1, T: type", False),
    ("WorkerHeartbeat", "request: string -> response: string", "", True),
    # -- XLA
    ("AssignVariableXlaConcatND",
     "resource: resource, inputs: N * T ->",
     "T: type, N: int >= 1, num_concats: list(int), paddings: list(int) = []", True),
    ("ReadVariableXlaSplitND",
     "resource: resource -> outputs: N * T",
     "T: type, N: int >= 1, num_splits: list(int), paddings: list(int) = []", True),
    ("XlaConcatND",
     "inputs: N * T -> output: T",
     "T: type, N: int >= 1, num_concats: list(int), paddings: list(int) = []", False),
    ("XlaSparseCoreAdagrad",
     "indices: int32, gradient: float32, learning_rate: float32, accumulator: float32, embedding_table: float32 ->"
     " updated_embedding_table: float32, updated_accumulator: float32",
     "feature_width: int", True),
    ("XlaSparseCoreAdagradMomentum",
     "indices: int32, gradient: float32, learning_rate: float32, beta_1: float32, epsilon: float32, accumulator: "
     "float32, momentum: float32, embedding_table: float32 -> updated_embedding_table: float32, "
     "updated_accumulator: float32, updated_momentum: float32",
     "feature_width: int, use_nesterov: bool, beta_2: float, exponent: float", True),
    ("XlaSparseCoreAdam",
     "embedding_table: float32, indices: int32, gradient: float32, learning_rate: float32, momentum: float32, "
     "velocity: float32, beta_1: float32, beta_2: float32, epsilon: float32 -> updated_embedding_table: float32, "
     "updated_velocity: float32, updated_momentum: float32",
     "feature_width: int, use_sum_inside_sqrt: bool", True),
    ("XlaSparseCoreFtrl",
     "embedding_table: float32, accumulator: float32, linear: float32, learning_rate: float32, indices: int32, "
     "gradient: float32, beta: float32, learning_rate_power: float32, l2_regularization_strength: float32 -> "
     "updated_embedding_table: float32, updated_accumulator: float32, updated_linear: float32",
     "feature_width: int, multiply_linear_by_learning_rate: bool, l1_regularization_strength: float", True),
    ("XlaSparseCoreSgd",
     "indices: int32, gradient: float32, learning_rate: float32, embedding_table: float32 -> "
     "updated_embedding_table: float32",
     "feature_width: int", True),
    ("XlaSparseDenseMatmul",
     "row_ids: int32, col_ids: uint32, values: float32, offsets: uint32, embedding_table: float32 -> activations: "
     "float32, row_pointers: int32, sorted_embedding_ids: int32, sorted_sample_ids: int32, sorted_gains: float32",
     "max_ids_per_partition: int >= 0, max_unique_ids_per_partition: int >= 0, input_size: int >= 0", False),
    ("XlaSparseDenseMatmulCustomCombinerOnTcGradWithAdagradAndCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_pos_ids: int32, sorted_gains:"
     " float32, weights: float32, preserved_valencies: int32, preserved_vectors: float32, preserved_weights: "
     "float32, activation_gradients: float32, learning_rate: float32, combiner_weights_learning_rate: float32, "
     "embedding_table: float32, accumulator: float32 -> updated_embedding_table: float32, updated_accumulator: "
     "float32, updated_weights: float32",
     "clip_weight_min: float = -inf, clip_weight_max: float = inf, max_valency: int >= 0, num_weights: int >= 0, "
     "combiner_table_vjp_computation: func, combiner_weights_vjp_computation: func, table_name: string, "
     "num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulCustomCombinerOnTcGradWithAdagradMomentumAndCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_pos_ids: int32, sorted_gains:"
     " float32, weights: float32, preserved_valencies: int32, preserved_vectors: float32, preserved_weights: "
     "float32, activation_gradients: float32, learning_rate: float32, combiner_weights_learning_rate: float32, "
     "embedding_table: float32, accumulator: float32, momenta: float32 -> updated_embedding_table: float32, "
     "updated_accumulator: float32, updated_momenta: float32, updated_weights: float32",
     "use_nesterov: bool, exponent: float, beta1: float, beta2: float, epsilon: float, clip_weight_min: float = "
     "-inf, clip_weight_max: float = inf, max_valency: int >= 0, num_weights: int >= 0, "
     "combiner_table_vjp_computation: func, combiner_weights_vjp_computation: func, table_name: string, "
     "num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulCustomCombinerOnTcGradWithAdamAndCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_pos_ids: int32, sorted_gains:"
     " float32, weights: float32, preserved_valencies: int32, preserved_vectors: float32, preserved_weights: "
     "float32, activation_gradients: float32, learning_rate: float32, combiner_weights_learning_rate: float32, "
     "embedding_table: float32, momenta: float32, velocity: float32 -> updated_embedding_table: float32, "
     "updated_momenta: float32, updated_velocity: float32, updated_weights: float32",
     "use_sum_inside_sqrt: bool, beta1: float, beta2: float, epsilon: float, clip_weight_min: float = -inf, "
     "clip_weight_max: float = inf, max_valency: int >= 0, num_weights: int >= 0, combiner_table_vjp_computation: "
     "func, combiner_weights_vjp_computation: func, table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulCustomCombinerOnTcGradWithCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_pos_ids: int32, sorted_gains:"
     " float32, weights: float32, preserved_valencies: int32, preserved_vectors: float32, preserved_weights: "
     "float32, activation_gradients: float32, tables: N * float32, hyperparameters: M * float32, "
     "combiner_weights_learning_rate: float32 -> updated_tables: N * float32, updated_weights: float32",
     "N: int >= 1, M: int >= 1, max_valency: int >= 0, num_weights: int >= 0, combiner_table_vjp_computation: "
     "func, combiner_weights_vjp_computation: func, optimizer_custom_computation: func, table_name: string, "
     "num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulCustomCombinerOnTcGradWithFtrlAndCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_pos_ids: int32, sorted_gains:"
     " float32, weights: float32, preserved_valencies: int32, preserved_vectors: float32, preserved_weights: "
     "float32, activation_gradients: float32, learning_rate: float32, combiner_weights_learning_rate: float32, "
     "embedding_table: float32, accumulator: float32, linear: float32 -> updated_embedding_table: float32, "
     "updated_accumulator: float32, updated_linear: float32, updated_weights: float32",
     "multiply_linear_by_learning_rate: bool, beta: float, learning_rate_power: float, l1_regularization_strength:"
     " float, l2_regularization_strength: float, clip_weight_min: float = -inf, clip_weight_max: float = inf, "
     "max_valency: int >= 0, num_weights: int >= 0, combiner_table_vjp_computation: func, "
     "combiner_weights_vjp_computation: func, table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulCustomCombinerOnTcGradWithSgdAndCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_pos_ids: int32, sorted_gains:"
     " float32, weights: float32, preserved_valencies: int32, preserved_vectors: float32, preserved_weights: "
     "float32, activation_gradients: float32, learning_rate: float32, combiner_weights_learning_rate: float32, "
     "embedding_table: float32 -> updated_embedding_table: float32, updated_weights: float32",
     "clip_weight_min: float = -inf, clip_weight_max: float = inf, max_valency: int >= 0, num_weights: int >= 0, "
     "combiner_table_vjp_computation: func, combiner_weights_vjp_computation: func, table_name: string, "
     "num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulCustomCombinerOnTcWithCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_pos_ids: int32, sorted_gains:"
     " float32, embedding_table: float32, weights: float32 -> activations: float32, preserved_valencies: int32, "
     "preserved_vectors: float32",
     "input_size: int >= 0, max_valency: int >= 0, num_weights: int >= 0, combiner_computation: func, "
     "quantization_config_low: float, quantization_config_high: float, quantization_config_num_buckets: int >= 0, "
     "table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulGradWithAdagradAndCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, learning_rate: float32, embedding_table: float32, accumulator: float32, "
     "num_minibatches_per_physical_sparse_core: int32 -> updated_embedding_table: float32, updated_accumulator: "
     "float32",
     "clip_weight_min: float = -inf, clip_weight_max: float = inf, table_name: string, num_sparsecores_per_device:"
     " int = -1", False),
    ("XlaSparseDenseMatmulGradWithAdagradAndStaticBufferSize",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, learning_rate: float32, embedding_table: float32, accumulator: float32, "
     "num_minibatches_per_physical_sparse_core: int32 -> updated_embedding_table: float32, updated_accumulator: "
     "float32",
     "clip_weight_min: float = -inf, clip_weight_max: float = inf, max_ids_per_sparse_core: int >= 1, "
     "max_unique_ids_per_sparse_core: int >= 1, table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulGradWithAdagradMomentumAndCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, learning_rate: float32, embedding_table: float32, accumulator: float32, "
     "momenta: float32, num_minibatches_per_physical_sparse_core: int32 -> updated_embedding_table: float32, "
     "updated_accumulator: float32, updated_momenta: float32",
     "use_nesterov: bool, exponent: float, beta1: float, beta2: float, epsilon: float, clip_weight_min: float = "
     "-inf, clip_weight_max: float = inf, table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulGradWithAdagradMomentumAndStaticBufferSize",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, learning_rate: float32, embedding_table: float32, accumulator: float32, "
     "momenta: float32, num_minibatches_per_physical_sparse_core: int32 -> updated_embedding_table: float32, "
     "updated_accumulator: float32, updated_momenta: float32",
     "use_nesterov: bool, exponent: float, beta1: float, beta2: float, epsilon: float, clip_weight_min: float = "
     "-inf, clip_weight_max: float = inf, max_ids_per_sparse_core: int >= 1, max_unique_ids_per_sparse_core: int "
     ">= 1, table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulGradWithAdamAndCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, learning_rate: float32, embedding_table: float32, momenta: float32, velocity:"
     " float32, num_minibatches_per_physical_sparse_core: int32 -> updated_embedding_table: float32, "
     "updated_momenta: float32, updated_velocity: float32",
     "use_sum_inside_sqrt: bool, beta1: float, beta2: float, epsilon: float, clip_weight_min: float = -inf, "
     "clip_weight_max: float = inf, table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulGradWithAdamAndStaticBufferSize",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, learning_rate: float32, embedding_table: float32, momenta: float32, velocity:"
     " float32, num_minibatches_per_physical_sparse_core: int32 -> updated_embedding_table: float32, "
     "updated_momenta: float32, updated_velocity: float32",
     "use_sum_inside_sqrt: bool, beta1: float, beta2: float, epsilon: float, clip_weight_min: float = -inf, "
     "clip_weight_max: float = inf, max_ids_per_sparse_core: int >= 1, max_unique_ids_per_sparse_core: int >= 1, "
     "table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulGradWithCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, tables: N * T, hyperparameters: M * float32, "
     "num_minibatches_per_physical_sparse_core: int32 -> updated_tables: N * T",
     "N: int >= 1, M: int >= 1, custom_computation: func, table_name: string, num_sparsecores_per_device: int = "
     "-1, T: type in {int32 float32} = float32", False),
    ("XlaSparseDenseMatmulGradWithFtrlAndCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, learning_rate: float32, embedding_table: float32, accumulator: float32, "
     "linear: float32, num_minibatches_per_physical_sparse_core: int32 -> updated_embedding_table: float32, "
     "updated_accumulator: float32, updated_linear: float32",
     "multiply_linear_by_learning_rate: bool, beta: float, learning_rate_power: float, l1_regularization_strength:"
     " float, l2_regularization_strength: float, clip_weight_min: float = -inf, clip_weight_max: float = inf, "
     "table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulGradWithFtrlAndStaticBufferSize",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, learning_rate: float32, embedding_table: float32, accumulator: float32, "
     "linear: float32, num_minibatches_per_physical_sparse_core: int32 -> updated_embedding_table: float32, "
     "updated_accumulator: float32, updated_linear: float32",
     "multiply_linear_by_learning_rate: bool, beta: float, learning_rate_power: float, l1_regularization_strength:"
     " float, l2_regularization_strength: float, clip_weight_min: float = -inf, clip_weight_max: float = inf, "
     "max_ids_per_sparse_core: int >= 1, max_unique_ids_per_sparse_core: int >= 1, table_name: string, "
     "num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulGradWithSgdAndCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, learning_rate: float32, embedding_table: float32, "
     "num_minibatches_per_physical_sparse_core: int32 -> updated_embedding_table: float32",
     "clip_weight_min: float = -inf, clip_weight_max: float = inf, table_name: string, num_sparsecores_per_device:"
     " int = -1", False),
    ("XlaSparseDenseMatmulGradWithSgdAndStaticBufferSize",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "activation_gradients: float32, learning_rate: float32, embedding_table: float32, "
     "num_minibatches_per_physical_sparse_core: int32 -> updated_embedding_table: float32",
     "clip_weight_min: float = -inf, clip_weight_max: float = inf, max_ids_per_sparse_core: int >= 1, "
     "max_unique_ids_per_sparse_core: int >= 1, table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSparseDenseMatmulWithCsrInput",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "embedding_table: T, num_minibatches_per_physical_sparse_core: int32 -> activations: T",
     "input_size: int >= 0, quantization_config_low: float, quantization_config_high: float, "
     "quantization_config_num_buckets: int >= 0, table_name: string, num_sparsecores_per_device: int = -1, T: type"
     " in {int32 float32} = float32", False),
    ("XlaSparseDenseMatmulWithStaticBufferSize",
     "row_pointers: int32, sorted_sample_ids: int32, sorted_token_ids: int32, sorted_gains: float32, "
     "embedding_table: float32, num_minibatches_per_physical_sparse_core: int32 -> activations: float32",
     "input_size: int >= 0, quantization_config_low: float, quantization_config_high: float, "
     "quantization_config_num_buckets: int >= 0, max_ids_per_sparse_core: int >= 1, "
     "max_unique_ids_per_sparse_core: int >= 1, table_name: string, num_sparsecores_per_device: int = -1", False),
    ("XlaSplitND",
     "input: T -> outputs: N * T",
     "T: type, N: int >= 1, num_splits: list(int), paddings: list(int) = []", False),
    # -- boosted trees
    ("BoostedTreesAggregateStats",
     "node_ids: int32, gradients: float32, hessians: float32, feature: int32 -> stats_summary: float32",
     "max_splits: int >= 1, num_buckets: int >= 1", False),
    ("BoostedTreesBucketize",
     "float_values: num_features * float32, bucket_boundaries: num_features * float32 -> buckets: num_features * int32",
     "num_features: int >= 0", False),
    ("BoostedTreesCalculateBestFeatureSplit",
     "node_id_range: int32, stats_summary: float32, l1: float32, l2: float32, tree_complexity: float32, "
     "min_node_weight: float32 -> node_ids: int32, gains: float32, feature_dimensions: int32, thresholds: int32, "
     "left_node_contribs: float32, right_node_contribs: float32, split_with_default_directions: string",
     "logits_dimension: int >= 1, split_type: string in {inequality equality} = 'inequality'", False),
    ("BoostedTreesCalculateBestFeatureSplitV2",
     "node_id_range: int32, stats_summaries_list: num_features * float32, split_types: string, "
     "candidate_feature_ids: int32, l1: float32, l2: float32, tree_complexity: float32, min_node_weight: float32 "
     "-> node_ids: int32, gains: float32, feature_ids: int32, feature_dimensions: int32, thresholds: int32, "
     "left_node_contribs: float32, right_node_contribs: float32, split_with_default_directions: string",
     "num_features: int >= 1, logits_dimension: int >= 1", False),
    ("BoostedTreesCalculateBestGainsPerFeature",
     "node_id_range: int32, stats_summary_list: num_features * float32, l1: float32, l2: float32, tree_complexity:"
     " float32, min_node_weight: float32 -> node_ids_list: num_features * int32, gains_list: num_features * "
     "float32, thresholds_list: num_features * int32, left_node_contribs_list: num_features * float32, "
     "right_node_contribs_list: num_features * float32",
     "max_splits: int >= 1, num_features: int >= 1", False),
    ("BoostedTreesCenterBias",
     "tree_ensemble_handle: resource, mean_gradients: float32, mean_hessians: float32, l1: float32, l2: float32 ->"
     " continue_centering: bool",
     "", True),
    ("BoostedTreesCreateEnsemble",
     "tree_ensemble_handle: resource, stamp_token: int64, tree_ensemble_serialized: string ->",
     "", True),
    ("BoostedTreesCreateQuantileStreamResource",
     "quantile_stream_resource_handle: resource, epsilon: float32, num_streams: int64 ->",
     "max_elements: int = 1099511627776", True),
    ("BoostedTreesDeserializeEnsemble",
     "tree_ensemble_handle: resource, stamp_token: int64, tree_ensemble_serialized: string ->",
     "", True),
    ("BoostedTreesEnsembleResourceHandleOp",
     "-> resource: resource",
     "container: string = '', shared_name: string = ''", True),
    ("BoostedTreesExampleDebugOutputs",
     "tree_ensemble_handle: resource, bucketized_features: num_bucketized_features * int32 -> "
     "examples_debug_outputs_serialized: string",
     "num_bucketized_features: int >= 1, logits_dimension: int", True),
    ("BoostedTreesFlushQuantileSummaries",
     "quantile_stream_resource_handle: resource -> summaries: num_features * float32",
     "num_features: int >= 0", True),
    ("BoostedTreesGetEnsembleStates",
     "tree_ensemble_handle: resource -> stamp_token: int64, num_trees: int32, num_finalized_trees: int32, "
     "num_attempted_layers: int32, last_layer_nodes_range: int32",
     "", True),
    ("BoostedTreesMakeQuantileSummaries",
     "float_values: num_features * float32, example_weights: float32, epsilon: float32 -> summaries: num_features "
     "* float32",
     "num_features: int >= 0", False),
    ("BoostedTreesMakeStatsSummary",
     "node_ids: int32, gradients: float32, hessians: float32, bucketized_features_list: num_features * int32 -> "
     "stats_summary: float32",
     "max_splits: int >= 1, num_buckets: int >= 1, num_features: int >= 1", False),
    ("BoostedTreesPredict",
     "tree_ensemble_handle: resource, bucketized_features: num_bucketized_features * int32 -> logits: float32",
     "num_bucketized_features: int >= 1, logits_dimension: int", True),
    ("BoostedTreesQuantileStreamResourceAddSummaries",
     "quantile_stream_resource_handle: resource, summaries: num_features * float32 ->",
     "num_features: int >= 0", True),
    ("BoostedTreesQuantileStreamResourceDeserialize",
     "quantile_stream_resource_handle: resource, bucket_boundaries: num_streams * float32 ->",
     "num_streams: int >= 1", True),
    ("BoostedTreesQuantileStreamResourceFlush",
     "quantile_stream_resource_handle: resource, num_buckets: int64 ->",
     "generate_quantiles: bool = False", True),
    ("BoostedTreesQuantileStreamResourceGetBucketBoundaries",
     "quantile_stream_resource_handle: resource -> bucket_boundaries: num_features * float32",
     "num_features: int >= 0", True),
    ("BoostedTreesQuantileStreamResourceHandleOp",
     "-> resource: resource",
     "container: string = '', shared_name: string = ''", True),
    ("BoostedTreesSerializeEnsemble",
     "tree_ensemble_handle: resource -> stamp_token: int64, tree_ensemble_serialized: string",
     "", True),
    ("BoostedTreesSparseAggregateStats",
     "node_ids: int32, gradients: float32, hessians: float32, feature_indices: int32, feature_values: int32, "
     "feature_shape: int32 -> stats_summary_indices: int32, stats_summary_values: float32, stats_summary_shape: "
     "int32",
     "max_splits: int >= 1, num_buckets: int >= 1", False),
    ("BoostedTreesSparseCalculateBestFeatureSplit",
     "node_id_range: int32, stats_summary_indices: int32, stats_summary_values: float32, stats_summary_shape: "
     "int32, l1: float32, l2: float32, tree_complexity: float32, min_node_weight: float32 -> node_ids: int32, "
     "gains: float32, feature_dimensions: int32, thresholds: int32, left_node_contribs: float32, "
     "right_node_contribs: float32, split_with_default_directions: string",
     "logits_dimension: int >= 1, split_type: string in {inequality} = 'inequality'", False),
    ("BoostedTreesTrainingPredict",
     "tree_ensemble_handle: resource, cached_tree_ids: int32, cached_node_ids: int32, bucketized_features: "
     "num_bucketized_features * int32 -> partial_logits: float32, tree_ids: int32, node_ids: int32",
     "num_bucketized_features: int >= 1, logits_dimension: int", True),
    ("BoostedTreesUpdateEnsemble",
     "tree_ensemble_handle: resource, feature_ids: int32, node_ids: num_features * int32, gains: num_features * "
     "float32, thresholds: num_features * int32, left_node_contribs: num_features * float32, right_node_contribs: "
     "num_features * float32, max_depth: int32, learning_rate: float32 ->",
     "pruning_mode: int >= 0, num_features: int >= 0", True),
    ("BoostedTreesUpdateEnsembleV2",
     "tree_ensemble_handle: resource, feature_ids: num_groups * int32, dimension_ids: num_features * int32, "
     "node_ids: num_features * int32, gains: num_features * float32, thresholds: num_features * int32, "
     "left_node_contribs: num_features * float32, right_node_contribs: num_features * float32, split_types: "
     "num_features * string, max_depth: int32, learning_rate: float32, pruning_mode: int32 ->",
     "num_features: int >= 0, logits_dimension: int = 1, num_groups: int >= 1 = 1", True),
    ("IsBoostedTreesEnsembleInitialized", "tree_ensemble_handle: resource -> is_initialized: bool", "", True),
    ("IsBoostedTreesQuantileStreamResourceInitialized",
     "quantile_stream_resource_handle: resource -> is_initialized: bool",
     "", True),
    # -- others
    ("CTCLossV2",
     "inputs: float32, labels_indices: int64, labels_values: int32, sequence_length: int32 -> loss: float32, "
     "gradient: float32",
     "preprocess_collapse_repeated: bool = False, ctc_merge_repeated: bool = True, "
     "ignore_longer_outputs_than_inputs: bool = False", False),
    ("Conv2DBackpropFilterV2",
     "input: T, filter: T, out_backprop: T -> output: T",
     "T: type in {float16 bfloat16 float32 float64}, strides: list(int), use_cudnn_on_gpu: bool = True, padding: "
     "string in {SAME VALID EXPLICIT}, explicit_paddings: list(int) = [], data_format: string in {NHWC NCHW} = "
     "'NHWC', dilations: list(int) = [1, 1, 1, 1]", False),
    ("Conv2DBackpropInputV2",
     "input: T, filter: T, out_backprop: T -> output: T",
     "T: type in {float16 bfloat16 float32 float64 int32}, strides: list(int), use_cudnn_on_gpu: bool = True, "
     "padding: string in {SAME VALID EXPLICIT}, explicit_paddings: list(int) = [], data_format: string in {NHWC "
     "NCHW} = 'NHWC', dilations: list(int) = [1, 1, 1, 1]", False),
    ("CudnnRNN",
     "input: T, input_h: T, input_c: T, params: T -> output: T, output_h: T, output_c: T, reserve_space: T",
     "T: type in {bfloat16 float16 float32 float64}, rnn_mode: string in {rnn_relu rnn_tanh lstm gru} = 'lstm', "
     "input_mode: string in {linear_input skip_input auto_select} = 'linear_input', direction: string in "
     "{unidirectional bidirectional} = 'unidirectional', dropout: float = 0.0, seed: int = 0, seed2: int = 0, "
     "is_training: bool = True", True),
    ("CudnnRNNBackprop",
     "input: T, input_h: T, input_c: T, params: T, output: T, output_h: T, output_c: T, output_backprop: T, "
     "output_h_backprop: T, output_c_backprop: T, reserve_space: T -> input_backprop: T, input_h_backprop: T, "
     "input_c_backprop: T, params_backprop: T",
     "T: type in {bfloat16 float16 float32 float64}, rnn_mode: string in {rnn_relu rnn_tanh lstm gru} = 'lstm', "
     "input_mode: string in {linear_input skip_input auto_select} = 'linear_input', direction: string in "
     "{unidirectional bidirectional} = 'unidirectional', dropout: float = 0.0, seed: int = 0, seed2: int = 0", True),
    ("CudnnRNNBackpropV2",
     "input: T, input_h: T, input_c: T, params: T, output: T, output_h: T, output_c: T, output_backprop: T, "
     "output_h_backprop: T, output_c_backprop: T, reserve_space: T, host_reserved: int8 -> input_backprop: T, "
     "input_h_backprop: T, input_c_backprop: T, params_backprop: T",
     "T: type in {bfloat16 float16 float32 float64}, rnn_mode: string in {rnn_relu rnn_tanh lstm gru} = 'lstm', "
     "input_mode: string in {linear_input skip_input auto_select} = 'linear_input', direction: string in "
     "{unidirectional bidirectional} = 'unidirectional', dropout: float = 0.0, seed: int = 0, seed2: int = 0", True),
    ("CudnnRNNBackpropV3",
     "input: T, input_h: T, input_c: T, params: T, sequence_lengths: int32, output: T, output_h: T, output_c: T, "
     "output_backprop: T, output_h_backprop: T, output_c_backprop: T, reserve_space: T, host_reserved: int8 -> "
     "input_backprop: T, input_h_backprop: T, input_c_backprop: T, params_backprop: T",
     "T: type in {bfloat16 float16 float32 float64}, rnn_mode: string in {rnn_relu rnn_tanh lstm gru} = 'lstm', "
     "input_mode: string in {linear_input skip_input auto_select} = 'linear_input', direction: string in "
     "{unidirectional bidirectional} = 'unidirectional', dropout: float = 0.0, seed: int = 0, seed2: int = 0, "
     "num_proj: int = 0, time_major: bool = True", True),
    ("CudnnRNNCanonicalToParams",
     "num_layers: int32, num_units: int32, input_size: int32, weights: num_params * T, biases: num_params * T -> "
     "params: T",
     "T: type in {bfloat16 float16 float32 float64}, num_params: int >= 1, rnn_mode: string in {rnn_relu rnn_tanh "
     "lstm gru} = 'lstm', input_mode: string in {linear_input skip_input auto_select} = 'linear_input', direction:"
     " string in {unidirectional bidirectional} = 'unidirectional', dropout: float = 0.0, seed: int = 0, seed2: "
     "int = 0", False),
    ("CudnnRNNCanonicalToParamsV2",
     "num_layers: int32, num_units: int32, input_size: int32, weights: num_params_weights * T, biases: "
     "num_params_biases * T -> params: T",
     "T: type in {bfloat16 float16 float32 float64}, num_params_weights: int >= 1, num_params_biases: int >= 1, "
     "rnn_mode: string in {rnn_relu rnn_tanh lstm gru} = 'lstm', input_mode: string in {linear_input skip_input "
     "auto_select} = 'linear_input', direction: string in {unidirectional bidirectional} = 'unidirectional', "
     "dropout: float = 0.0, seed: int = 0, seed2: int = 0, num_proj: int = 0", False),
    ("CudnnRNNParamsSize",
     "num_layers: int32, num_units: int32, input_size: int32 -> params_size: S",
     "T: type in {bfloat16 float16 float32 float64}, S: type in {int32 int64}, rnn_mode: string in {rnn_relu "
     "rnn_tanh lstm gru} = 'lstm', input_mode: string in {linear_input skip_input auto_select} = 'linear_input', "
     "direction: string in {unidirectional bidirectional} = 'unidirectional', dropout: float = 0.0, seed: int = 0,"
     " seed2: int = 0, num_proj: int = 0", False),
    ("CudnnRNNParamsToCanonical",
     "num_layers: int32, num_units: int32, input_size: int32, params: T -> weights: num_params * T, biases: "
     "num_params * T",
     "T: type in {bfloat16 float16 float32 float64}, num_params: int >= 1, rnn_mode: string in {rnn_relu rnn_tanh "
     "lstm gru} = 'lstm', input_mode: string in {linear_input skip_input auto_select} = 'linear_input', direction:"
     " string in {unidirectional bidirectional} = 'unidirectional', dropout: float = 0.0, seed: int = 0, seed2: "
     "int = 0", False),
    ("CudnnRNNParamsToCanonicalV2",
     "num_layers: int32, num_units: int32, input_size: int32, params: T -> weights: num_params_weights * T, "
     "biases: num_params_biases * T",
     "T: type in {bfloat16 float16 float32 float64}, num_params_weights: int >= 1, num_params_biases: int >= 1, "
     "rnn_mode: string in {rnn_relu rnn_tanh lstm gru} = 'lstm', input_mode: string in {linear_input skip_input "
     "auto_select} = 'linear_input', direction: string in {unidirectional bidirectional} = 'unidirectional', "
     "dropout: float = 0.0, seed: int = 0, seed2: int = 0, num_proj: int = 0", False),
    ("CudnnRNNV2",
     "input: T, input_h: T, input_c: T, params: T -> output: T, output_h: T, output_c: T, reserve_space: T, "
     "host_reserved: int8",
     "T: type in {bfloat16 float16 float32 float64}, rnn_mode: string in {rnn_relu rnn_tanh lstm gru} = 'lstm', "
     "input_mode: string in {linear_input skip_input auto_select} = 'linear_input', direction: string in "
     "{unidirectional bidirectional} = 'unidirectional', dropout: float = 0.0, seed: int = 0, seed2: int = 0, "
     "is_training: bool = True", True),
    ("CudnnRNNV3",
     "input: T, input_h: T, input_c: T, params: T, sequence_lengths: int32 -> output: T, output_h: T, output_c: T,"
     " reserve_space: T, host_reserved: int8",
     "T: type in {bfloat16 float16 float32 float64}, rnn_mode: string in {rnn_relu rnn_tanh lstm gru} = 'lstm', "
     "input_mode: string in {linear_input skip_input auto_select} = 'linear_input', direction: string in "
     "{unidirectional bidirectional} = 'unidirectional', dropout: float = 0.0, seed: int = 0, seed2: int = 0, "
     "num_proj: int = 0, is_training: bool = True, time_major: bool = True", True),
    ("DebugIdentityV3",
     "input: T -> output: T",
     "T: type, device_name: string = '', tensor_name: string = '', io_of_node: string = '', is_input: bool = "
     "False, io_index: int = -1, debug_urls: list(string) = [], gated_grpc: bool = False", True),
    ("ExperimentalMapDataset",
     "input_dataset: variant, other_arguments: Targuments -> handle: variant",
     "f: func, Targuments: list(type) >= 0, output_types: list(type) >= 1, output_shapes: list(shape) >= 1, "
     "use_inter_op_parallelism: bool = True, preserve_cardinality: bool = False, force_synchronous: bool = False", False),
    ("FilterByLastComponentDataset",
     "input_dataset: variant -> output: variant",
     "output_types: list(type) >= 1, output_shapes: list(shape) >= 1", False),
    ("GenerateBoundingBoxProposals",
     "scores: float32, bbox_deltas: float32, image_info: float32, anchors: float32, nms_threshold: float32, "
     "pre_nms_topn: int32, min_size: float32 -> rois: float32, roi_probabilities: float32",
     "post_nms_topn: int = 300", False),
    ("SegmentMaxV2",
     "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
     "T: type in {float32 float64 int32 uint8 int16 int8 int64 bfloat16 uint16 float16 uint32 uint64}, Tindices: "
     "type in {int32 int64}, Tnumsegments: type in {int32 int64} = int32", False),
    ("SegmentMinV2",
     "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
     "T: type in {float32 float64 int32 uint8 int16 int8 int64 bfloat16 uint16 float16 uint32 uint64}, Tindices: "
     "type in {int32 int64}, Tnumsegments: type in {int32 int64} = int32", False),
    ("SegmentProdV2",
     "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
     "T: type in {float32 float64 int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 "
     "quint16 uint16 complex128 float16 uint32 uint64}, Tindices: type in {int32 int64}, Tnumsegments: type in "
     "{int32 int64} = int32", False),
    ("SegmentSumV2",
     "data: T, segment_ids: Tindices, num_segments: Tnumsegments -> output: T",
     "T: type in {float32 float64 int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 "
     "quint16 uint16 complex128 float16 uint32 uint64}, Tindices: type in {int32 int64}, Tnumsegments: type in "
     "{int32 int64} = int32", False),
    ("SyncDevice", "->", "", True),
    # -- 8-bit convolutions of oneDNN, whose kernels in TensorFlow 2.21 refuse every filter: it "must be a constant"
    ("QuantizedConv2DAndRelu",
     "input: Tinput, filter: Tfilter, min_input: float32, max_input: float32, min_filter: float32, max_filter: float32 "
     "-> output: out_type, min_output: float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "out_type: type in {qint8 quint8 qint32 qint16 quint16} = qint32, strides: list(int), padding: string in {SAME "
     "VALID}, dilations: list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedConv2DAndReluAndRequantize",
     "input: Tinput, filter: Tfilter, min_input: float32, max_input: float32, min_filter: float32, max_filter: "
     "float32, min_freezed_output: float32, max_freezed_output: float32 -> output: out_type, min_output: float32, "
     "max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "out_type: type in {qint8 quint8 qint32 qint16 quint16} = quint8, strides: list(int), padding: string in {SAME "
     "VALID}, dilations: list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedConv2DAndRequantize",
     "input: Tinput, filter: Tfilter, min_input: float32, max_input: float32, min_filter: float32, max_filter: "
     "float32, min_freezed_output: float32, max_freezed_output: float32 -> output: out_type, min_output: float32, "
     "max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "out_type: type in {qint8 quint8 qint32 qint16 quint16} = qint8, strides: list(int), padding: string in {SAME "
     "VALID}, dilations: list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedConv2DPerChannel",
     "input: Tinput, filter: Tfilter, min_input: float32, max_input: float32, min_filter: float32, max_filter: float32 "
     "-> output: out_type, min_output: float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "out_type: type in {qint8 quint8 qint32 qint16 quint16} = qint32, strides: list(int), padding: string in {SAME "
     "VALID}, dilations: list(int) = [1, 1, 1, 1]", False),
    ("QuantizedConv2DWithBias",
     "input: Tinput, filter: Tfilter, bias: float32, min_input: float32, max_input: float32, min_filter: float32, "
     "max_filter: float32 -> output: out_type, min_output: float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "out_type: type in {qint8 quint8 qint32 qint16 quint16} = qint32, strides: list(int), padding: string in {SAME "
     "VALID}, dilations: list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedConv2DWithBiasAndRelu",
     "input: Tinput, filter: Tfilter, bias: float32, min_input: float32, max_input: float32, min_filter: float32, "
     "max_filter: float32 -> output: out_type, min_output: float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "out_type: type in {qint8 quint8 qint32 qint16 quint16} = qint32, strides: list(int), padding: string in {SAME "
     "VALID}, dilations: list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedConv2DWithBiasAndReluAndRequantize",
     "input: Tinput, filter: Tfilter, bias: Tbias, min_input: float32, max_input: float32, min_filter: float32, "
     "max_filter: float32, min_freezed_output: float32, max_freezed_output: float32 -> output: out_type, min_output: "
     "float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "Tbias: type in {float32 qint32}, out_type: type in {qint8 quint8 qint32 qint16 quint16} = quint8, strides: "
     "list(int), padding: string in {SAME VALID}, dilations: list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedConv2DWithBiasAndRequantize",
     "input: Tinput, filter: Tfilter, bias: Tbias, min_input: float32, max_input: float32, min_filter: float32, "
     "max_filter: float32, min_freezed_output: float32, max_freezed_output: float32 -> output: out_type, min_output: "
     "float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "Tbias: type in {float32 qint32}, out_type: type in {qint8 quint8 qint32 qint16 quint16} = qint8, strides: "
     "list(int), padding: string in {SAME VALID}, dilations: list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedConv2DWithBiasSignedSumAndReluAndRequantize",
     "input: Tinput, filter: Tfilter, bias: Tbias, min_input: float32, max_input: float32, min_filter: float32, "
     "max_filter: float32, min_freezed_output: float32, max_freezed_output: float32, summand: Tsummand, min_summand: "
     "float32, max_summand: float32 -> output: out_type, min_output: float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "Tbias: type in {float32 qint32}, Tsummand: type in {qint8 quint8 qint32 qint16 quint16}, out_type: type in "
     "{qint8 quint8 qint32 qint16 quint16} = quint8, strides: list(int), padding: string in {SAME VALID}, dilations: "
     "list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedConv2DWithBiasSumAndRelu",
     "input: Tinput, filter: Tfilter, bias: float32, min_input: float32, max_input: float32, min_filter: float32, "
     "max_filter: float32, summand: float32 -> output: out_type, min_output: float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "out_type: type in {qint8 quint8 qint32 qint16 quint16} = qint32, strides: list(int), padding: string in {SAME "
     "VALID}, dilations: list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedConv2DWithBiasSumAndReluAndRequantize",
     "input: Tinput, filter: Tfilter, bias: Tbias, min_input: float32, max_input: float32, min_filter: float32, "
     "max_filter: float32, min_freezed_output: float32, max_freezed_output: float32, summand: Tsummand, min_summand: "
     "float32, max_summand: float32 -> output: out_type, min_output: float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "Tbias: type in {float32 qint32}, Tsummand: type in {qint8 quint8 qint32 qint16 quint16}, out_type: type in "
     "{qint8 quint8 qint32 qint16 quint16} = quint8, strides: list(int), padding: string in {SAME VALID}, dilations: "
     "list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedDepthwiseConv2D",
     "input: Tinput, filter: Tfilter, min_input: float32, max_input: float32, min_filter: float32, max_filter: float32 "
     "-> output: out_type, min_output: float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "out_type: type in {qint8 quint8 qint32 qint16 quint16} = qint32, strides: list(int), padding: string in {SAME "
     "VALID}, dilations: list(int) = [1, 1, 1, 1]", False),
    ("QuantizedDepthwiseConv2DWithBias",
     "input: Tinput, filter: Tfilter, bias: float32, min_input: float32, max_input: float32, min_filter: float32, "
     "max_filter: float32 -> output: out_type, min_output: float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "out_type: type in {qint8 quint8 qint32 qint16 quint16} = qint32, strides: list(int), padding: string in {SAME "
     "VALID}, dilations: list(int) = [1, 1, 1, 1]", False),
    ("QuantizedDepthwiseConv2DWithBiasAndRelu",
     "input: Tinput, filter: Tfilter, bias: float32, min_input: float32, max_input: float32, min_filter: float32, "
     "max_filter: float32 -> output: out_type, min_output: float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "out_type: type in {qint8 quint8 qint32 qint16 quint16} = qint32, strides: list(int), padding: string in {SAME "
     "VALID}, dilations: list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
    ("QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize",
     "input: Tinput, filter: Tfilter, bias: Tbias, min_input: float32, max_input: float32, min_filter: float32, "
     "max_filter: float32, min_freezed_output: float32, max_freezed_output: float32 -> output: out_type, min_output: "
     "float32, max_output: float32",
     "Tinput: type in {qint8 quint8 qint32 qint16 quint16}, Tfilter: type in {qint8 quint8 qint32 qint16 quint16}, "
     "Tbias: type in {float32 qint32}, out_type: type in {qint8 quint8 qint32 qint16 quint16} = quint8, strides: "
     "list(int), padding: string in {SAME VALID}, dilations: list(int) = [1, 1, 1, 1], padding_list: list(int) = []", False),
):
    op(_name, _args, _attrs, stateful=_stateful, foldable=False, export_as=_NAMES.get(_name, "")).no_gradient()
