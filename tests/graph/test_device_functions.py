"""A device function sees an op as it will be: with its attributes and the shapes of its outputs."""
import penstock as tf2
import penstock.compat.v1 as tf
from penstock._src.graph import context


def test_device_function_sees_shapes():
    seen = {}

    def choose(op):
        seen[op.type] = [t.shape.as_list() for t in op.outputs]
        return "/device:CPU:0"

    with tf.Graph().as_default(), tf.device(choose):
        v = tf.get_variable("v", [3, 4], use_resource=False)
        tf.matmul(v, tf.ones([4, 2]))
        tf.constant([1, 2])
        tf.placeholder(tf.float32, [5, 6])
    assert seen["VariableV2"] == [[3, 4]] and seen["MatMul"] == [[3, 2]] and seen["Placeholder"] == [[5, 6]]
    assert seen["Const"] == [[2]]


def test_balance_of_bytes_by_device_function():
    """Variables go to the server that has the fewest bytes, as in programs that balance by size."""
    load = [0, 0]

    def least_loaded(op):
        if op.type != "VariableV2":
            return ""
        task = load.index(min(load))
        load[task] += op.outputs[0].shape.num_elements()
        return f"/job:ps/task:{task}"

    with tf.Graph().as_default(), tf.device(least_loaded):
        sizes = [tf.get_variable(f"v{n}", [n], use_resource=False).device for n in (8, 2, 3, 4)]
    assert sizes == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:1", "/job:ps/task:1"]
    assert load == [8, 9]


def test_device_scopes_of_eager_execution_are_entered_again():
    scope = tf2.device("/device:CPU:0")
    for _ in range(2):
        with scope, tf2.device("/job:localhost"), scope:
            assert tf2.constant(1.0).device == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert context.state.device is None

    @tf2.function
    def inside():
        with scope, scope:
            return tf2.constant(1.0)
    assert inside() == 1.0
