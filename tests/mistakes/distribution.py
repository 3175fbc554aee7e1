"""Strategies, clusters and devices."""


def strategy_scope_inside_of_another(tf):
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope(), tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        pass


def optimizer_of_another_strategy(tf):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    with strategy.scope():
        model.compile(tf.keras.optimizers.SGD(), "mse")


def merge_call_outside_of_a_replica(tf):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        tf.distribute.get_replica_context().merge_call(lambda s: 1)


def reduction_over_an_unknown_choice(tf):
    tf.distribute.OneDeviceStrategy("/cpu:0").reduce("average", tf.ones([2]), axis=None)


def strategy_that_runs_a_number(tf):
    tf.distribute.MirroredStrategy(["cpu:0"]).run(1)


def device_with_a_wrong_name(tf):
    with tf.device("/gpu:first"):
        tf.constant(1.0) + 1.0


def device_that_is_not_text(tf):
    with tf.device(0):
        tf.constant(1.0)


def threads_set_too_late(tf):
    tf.constant(1.0) + 1.0
    tf.config.threading.set_inter_op_parallelism_threads(3)


def strategy_given_a_device_without_a_task(tf):
    tf.distribute.MirroredStrategy(["/job:worker/replica:0"])


def model_made_outside_of_the_scope(tf):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    with tf.distribute.MirroredStrategy(["cpu:0"]).scope():
        model.compile("sgd", "mse")


def loss_reduced_automatically_in_a_strategy(tf):
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    with strategy.scope():
        loss = tf.keras.losses.MeanSquaredError()
    strategy.run(lambda: loss(tf.ones([2, 1]), tf.zeros([2, 1])))


def cluster_with_a_number_as_a_job(v1):
    v1.train.ClusterSpec({"worker": 3})


def cluster_asked_for_a_missing_task(v1):
    v1.train.ClusterSpec({"worker": ["localhost:1"]}).task_address("worker", 2)


def cluster_asked_for_a_missing_job(v1):
    v1.train.ClusterSpec({"ps": ["localhost:1"]}).num_tasks("worker")


def strategy_that_runs_with_a_list(tf):
    tf.distribute.MirroredStrategy(["cpu:0"]).run(lambda x: x, args=3)


def reduce_without_an_axis(tf):
    tf.distribute.MirroredStrategy(["cpu:0"]).reduce(tf.distribute.ReduceOp.SUM, tf.ones([2]))


def reduce_with_an_unknown_operation(tf):
    strategy = tf.distribute.get_strategy()
    strategy.reduce("average", tf.ones([2]), axis=None)


def mirrored_variable_assigned_text(tf):
    with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        v = tf.Variable(1.0)
    v.assign_add("a")


def tpu_resolver_without_a_name(tf):
    tf.distribute.cluster_resolver.TPUClusterResolver("")


def logical_devices_set_too_late(tf):
    tf.ones([1])
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def memory_of_a_missing_gpu(tf):
    tf.config.experimental.get_memory_info("GPU:3")
