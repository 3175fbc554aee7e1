"""Small graphs of several ops: those that hold state or steer the flow, which a sample of one op cannot show.

Each program builds its ops in the default graph and returns the tensors to compare. Effects are put in order by `after`.
"""
from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.ops.registry import OPS, get

PROGRAMS: list[Callable[[], list]] = []
raw = tf.raw_ops


def program(build: Callable[[], list]) -> Callable[[], list]:
    """Adds a program."""
    PROGRAMS.append(build)
    return build


class BuiltProgram:
    """A program as a graph, with the interface of a built sample."""

    def __init__(self, build: Callable[[], list]):
        self.graph, self.feeds, self.inputs = tf.Graph(), {}, []
        with self.graph.as_default():
            self.outputs = build()

    def run(self) -> list:
        """The values by a session."""
        with tf.Session(graph=self.graph) as sess:
            return sess.run(self.outputs)

    def ops(self) -> set[str]:
        """The types of all ops, those of functions too."""
        message = self.graph.as_graph_def()
        nodes = [*message.node, *(n for f in message.library.function for n in f.node_def)]
        return {n.op for n in nodes}


class OlderProgram(BuiltProgram):
    """A program in which ops have the names that they had before, where both names take the same arguments."""

    NAMES = {"IteratorV2": "Iterator", "IteratorGetNext": "IteratorGetNextSync",
             "IteratorFromStringHandleV2": "IteratorFromStringHandle"}

    def __init__(self, build: Callable[[], list]):
        super().__init__(build)
        message = self.graph.as_graph_def()
        self.renamed = False
        for node in [*message.node, *(n for f in message.library.function for n in f.node_def)]:
            older = self.NAMES.get(node.op, f"Experimental{node.op}")
            if older in OPS:
                node.op, self.renamed = older, True
        names = [t.name for t in self.outputs]
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.outputs = tf.import_graph_def(message, name="", return_elements=names)


def after(*done: Any) -> contextlib.AbstractContextManager:
    """What is built within runs after these."""
    return tf.control_dependencies([d for d in done if d is not None])


# -- queues --------------------------------------------------------------------------------------------------------------
@program
def fifo_queue() -> list:
    q = raw.FIFOQueueV2(component_types=[tf.float32, tf.int32], shapes=[[2], []], capacity=10, shared_name="fifo")
    first = raw.QueueEnqueueV2(handle=q, components=[tf.constant([1., 2.]), tf.constant(3)])
    with after(first):
        many = raw.QueueEnqueueManyV2(handle=q, components=[tf.reshape(tf.range(8.), [4, 2]), tf.range(4)])
    with after(many):
        size = raw.QueueSizeV2(handle=q)
    with after(size):
        one = raw.QueueDequeueV2(handle=q, component_types=[tf.float32, tf.int32])
    with after(*one):
        two = raw.QueueDequeueManyV2(handle=q, n=2, component_types=[tf.float32, tf.int32])
    with after(*two):
        closed = raw.QueueCloseV2(handle=q)
    with after(closed):
        rest = raw.QueueDequeueUpToV2(handle=q, n=7, component_types=[tf.float32, tf.int32])
    with after(*rest):
        left = [raw.QueueSizeV2(handle=q), raw.QueueIsClosedV2(handle=q)]
    return [size, *one, *two, *rest, *left]


@program
def old_queue() -> list:
    q = get("FIFOQueue")(component_types=[tf.int32], shapes=[[]], capacity=10, shared_name="old")
    with after(get("QueueEnqueueMany")(q, [tf.range(5)])):
        another = get("QueueEnqueue")(q, [tf.constant(7)])
    with after(another):
        size = get("QueueSize")(q)
    with after(size):
        two = get("QueueDequeueMany")(q, 2, component_types=[tf.int32])
    with after(*two):
        one = get("QueueDequeue")(q, component_types=[tf.int32])
    with after(*one):
        closed = get("QueueClose")(q)
    with after(closed):
        rest = get("QueueDequeueUpTo")(q, 9, component_types=[tf.int32])
    return [size, *two, *one, *rest]


@program
def other_old_queues() -> list:
    padding = get("PaddingFIFOQueue")(component_types=[tf.int32], shapes=[[None]], capacity=10, shared_name="oldpadding")
    with after(get("QueueEnqueue")(padding, [tf.constant([1, 2])])):
        padded = get("QueueDequeueMany")(padding, 1, component_types=[tf.int32])
    priority = get("PriorityQueue")(component_types=[tf.string], shapes=[[]], capacity=10, shared_name="oldpriority")
    with after(get("QueueEnqueueMany")(priority, [tf.constant([3, 1], tf.int64), tf.constant(["c", "a"])])):
        first = get("QueueDequeue")(priority, component_types=[tf.int64, tf.string])
    shuffled = get("RandomShuffleQueue")(component_types=[tf.int32], shapes=[[]], capacity=10, shared_name="oldshuffled")
    with after(get("QueueEnqueueMany")(shuffled, [tf.range(3)])):
        three = get("QueueDequeueMany")(shuffled, 3, component_types=[tf.int32])
    return [*padded, *first, tf.sort(three[0]), get("QueueIsClosed")(shuffled)]


@program
def padding_queue() -> list:
    q = raw.PaddingFIFOQueueV2(component_types=[tf.int32], shapes=[[None]], capacity=10, shared_name="padding")
    with after(raw.QueueEnqueueV2(handle=q, components=[tf.constant([1, 2, 3])])):
        second = raw.QueueEnqueueV2(handle=q, components=[tf.constant([4])])
    with after(second):
        return list(raw.QueueDequeueManyV2(handle=q, n=2, component_types=[tf.int32]))


@program
def priority_queue() -> list:
    q = raw.PriorityQueueV2(component_types=[tf.string], shapes=[[]], capacity=10, shared_name="priority")
    with after(raw.QueueEnqueueManyV2(handle=q, components=[tf.constant([3, 1, 2], tf.int64),
                                                           tf.constant(["c", "a", "b"])])):
        return list(raw.QueueDequeueManyV2(handle=q, n=3, component_types=[tf.int64, tf.string]))


@program
def shuffled_queue() -> list:
    q = raw.RandomShuffleQueueV2(component_types=[tf.int32], shapes=[[]], capacity=10, shared_name="shuffled")
    with after(raw.QueueEnqueueManyV2(handle=q, components=[tf.range(5)])):
        got = raw.QueueDequeueManyV2(handle=q, n=5, component_types=[tf.int32])
    return [tf.sort(got[0])]


# -- tables --------------------------------------------------------------------------------------------------------------
KEYS, VALUES, NONE = ["a", "b", "c"], np.array([1, 2, 3], np.int64), np.int64(-1)


@program
def hash_table() -> list:
    t = raw.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="table")
    with after(raw.InitializeTableV2(table_handle=t, keys=tf.constant(KEYS), values=tf.constant(VALUES))):
        found = raw.LookupTableFindV2(table_handle=t, keys=tf.constant(["c", "x", "a"]), default_value=NONE)
        return [found, raw.LookupTableSizeV2(table_handle=t)]


@program
def old_hash_table() -> list:
    t = get("HashTable")(key_dtype=tf.string, value_dtype=tf.int64, shared_name="oldtable")
    with after(get("InitializeTable")(t, tf.constant(KEYS), tf.constant(VALUES))):
        return [get("LookupTableFind")(t, tf.constant(["b", "x"]), tf.constant(-1, tf.int64)), get("LookupTableSize")(t)]


@program
def mutable_table() -> list:
    t = raw.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32, shared_name="mutable")
    inserted = raw.LookupTableInsertV2(table_handle=t, keys=tf.constant(VALUES), values=tf.constant([1., 2., 3.]))
    with after(inserted):
        removed = raw.LookupTableRemoveV2(table_handle=t, keys=tf.constant([2], tf.int64))
    with after(removed):
        found = raw.LookupTableFindV2(table_handle=t, keys=tf.constant(VALUES), default_value=tf.constant(-1.))
        keys, values = raw.LookupTableExportV2(table_handle=t, Tkeys=tf.int64, Tvalues=tf.float32)
    with after(found, keys, values):
        replaced = raw.LookupTableImportV2(table_handle=t, keys=tf.constant([5], tf.int64), values=tf.constant([9.]))
    with after(replaced):
        return [found, tf.sort(keys), tf.sort(values), raw.LookupTableSizeV2(table_handle=t)]


@program
def old_mutable_tables() -> list:
    t = get("MutableHashTable")(key_dtype=tf.int64, value_dtype=tf.int64, shared_name="oldmutable")
    with after(get("LookupTableInsert")(t, tf.constant(VALUES), tf.constant(VALUES * 2))):
        keys, values = get("LookupTableExport")(t, Tkeys=tf.int64, Tvalues=tf.int64)
    with after(keys, values):
        replaced = get("LookupTableImport")(t, tf.constant([7], tf.int64), tf.constant([8], tf.int64))
    with after(replaced):
        found = get("LookupTableFind")(t, tf.constant([1, 7], tf.int64), tf.constant(NONE))
    vectors = get("MutableHashTableOfTensors")(key_dtype=tf.int64, value_dtype=tf.float32, value_shape=[2],
                                               shared_name="oldvectors")
    with after(get("LookupTableInsert")(vectors, tf.constant(VALUES), tf.ones([3, 2]))):
        two = get("LookupTableFind")(vectors, tf.constant([1, 9], tf.int64), tf.constant([5., 6.]))
    return [tf.reduce_sum(values), found, two]


@program
def old_dense_table() -> list:
    """What a dense table exports are its buckets, so only as many as a power of two can be imported."""
    t = get("MutableDenseHashTable")(tf.constant(NONE), value_dtype=tf.int64, initial_num_buckets=8, shared_name="olddense")
    with after(get("LookupTableInsert")(t, tf.constant(VALUES), tf.constant(VALUES * 2))):
        exported = get("LookupTableExport")(t, Tkeys=tf.int64, Tvalues=tf.int64)
    with after(*exported):
        again = get("LookupTableImport")(t, *exported)
    with after(again):
        return [get("LookupTableFind")(t, tf.constant([1, 7], tf.int64), tf.constant(NONE)), get("LookupTableSize")(t)]


@program
def table_of_vectors() -> list:
    t = raw.MutableHashTableOfTensorsV2(key_dtype=tf.string, value_dtype=tf.int64, value_shape=[2], shared_name="vectors")
    with after(raw.LookupTableInsertV2(table_handle=t, keys=tf.constant(KEYS), values=np.stack([VALUES, -VALUES], 1))):
        return [raw.LookupTableFindV2(table_handle=t, keys=tf.constant(["b", "z"]), default_value=np.array([0, -1]))]


@program
def dense_table() -> list:
    t = raw.MutableDenseHashTableV2(empty_key=tf.constant(-1, tf.int64), deleted_key=tf.constant(-2, tf.int64),
                                    value_dtype=tf.int64, value_shape=[], shared_name="dense")
    with after(raw.LookupTableInsertV2(table_handle=t, keys=tf.constant(VALUES), values=tf.constant(VALUES * 10))):
        found = raw.LookupTableFindV2(table_handle=t, keys=tf.constant([3, 8], tf.int64), default_value=NONE)
        return [found, raw.LookupTableSizeV2(table_handle=t)]


def _vocabulary() -> str:
    path = os.path.join(tempfile.gettempdir(), "penstock_oracle_vocabulary.txt")
    with open(path, "w") as f:
        f.write("one\ntwo\nthree\n")
    return path


@program
def old_table_from_file() -> list:
    t = get("HashTable")(key_dtype=tf.string, value_dtype=tf.int64, shared_name="oldfromfile")
    with after(get("InitializeTableFromTextFile")(t, tf.constant(_vocabulary()), key_index=-2, value_index=-1)):
        return [get("LookupTableFind")(t, tf.constant(["three", "four"]), tf.constant(NONE))]


@program
def table_from_file() -> list:
    path = _vocabulary()
    t = raw.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="fromfile")
    with after(raw.InitializeTableFromTextFileV2(table_handle=t, filename=tf.constant(path), key_index=-2, value_index=-1)):
        return [raw.LookupTableFindV2(table_handle=t, keys=tf.constant(["two", "four"]), default_value=NONE)]


# -- stacks and tensor arrays --------------------------------------------------------------------------------------------
@program
def stack() -> list:
    s = raw.StackV2(max_size=tf.constant(4), elem_type=tf.float32, stack_name="s")
    with after(raw.StackPushV2(handle=s, elem=tf.constant([1., 2.]))):
        second = raw.StackPushV2(handle=s, elem=tf.constant([3., 4.]))
    with after(second):
        top = raw.StackPopV2(handle=s, elem_type=tf.float32)
    with after(top):
        below = raw.StackPopV2(handle=s, elem_type=tf.float32)
    with after(below):
        closed = raw.StackCloseV2(handle=s)
    with after(closed):
        return [tf.identity(top), tf.identity(below)]


@program
def old_stack() -> list:
    s = get("Stack")(elem_type=tf.float32, stack_name="old")
    with after(get("StackPush")(s, tf.constant([1., 2.]))):
        second = get("StackPush")(s, tf.constant([3., 4.]))
    with after(second):
        top = get("StackPop")(s, elem_type=tf.float32)
    with after(top):
        below = get("StackPop")(s, elem_type=tf.float32)
    with after(below):
        closed = get("StackClose")(s)
    with after(closed):
        return [tf.identity(top), tf.identity(below)]


@program
def tensor_array() -> list:
    h, flow = raw.TensorArrayV3(size=3, dtype=tf.float32, tensor_array_name="ta", clear_after_read=False)
    flow = raw.TensorArrayWriteV3(handle=h, index=0, value=tf.constant([1., 2.]), flow_in=flow)
    flow = raw.TensorArrayScatterV3(handle=h, indices=[2, 1], value=tf.constant([[3., 4.], [5., 6.]]), flow_in=flow)
    read = raw.TensorArrayReadV3(handle=h, index=1, flow_in=flow, dtype=tf.float32)
    gathered = raw.TensorArrayGatherV3(handle=h, indices=[0, 2], flow_in=flow, dtype=tf.float32)
    joined = raw.TensorArrayConcatV3(handle=h, flow_in=flow, dtype=tf.float32)
    size = raw.TensorArraySizeV3(handle=h, flow_in=flow)
    with after(read, gathered, *joined, size):
        closed = raw.TensorArrayCloseV3(handle=h)
    with after(closed):
        return [tf.identity(t) for t in (read, gathered, *joined, size)]


@program
def tensor_array_split() -> list:
    h, flow = raw.TensorArrayV3(size=2, dtype=tf.float32, tensor_array_name="split")
    flow = raw.TensorArraySplitV3(handle=h, value=tf.range(5.), lengths=tf.constant([2, 3], tf.int64), flow_in=flow)
    return [raw.TensorArrayReadV3(handle=h, index=1, flow_in=flow, dtype=tf.float32)]


@program
def tensor_array_gradient() -> list:
    x = tf.constant([[1., 2.], [3., 4.]])
    a = tf.TensorArray(tf.float32, 2).unstack(x)
    y = tf.reduce_sum(a.read(0) * a.read(1))
    return [y, *tf.gradients(y, x)]


@program
def tensor_array_gradient_of_other_shape() -> list:
    h, flow = raw.TensorArrayV3(size=2, dtype=tf.float32, tensor_array_name="wide")
    flow = raw.TensorArrayScatterV3(handle=h, indices=[0, 1], value=tf.ones([2, 3]), flow_in=flow)
    grads, flow = raw.TensorArrayGradWithShape(handle=h, flow_in=flow, shape_to_prepend=[2], source="gradients")
    flow = raw.TensorArrayWriteV3(handle=grads, index=1, value=tf.ones([2, 3]), flow_in=flow)
    return [raw.TensorArrayReadV3(handle=grads, index=1, flow_in=flow, dtype=tf.float32)]


# -- tensor lists --------------------------------------------------------------------------------------------------------
SHAPE = np.array([2], np.int32)


@program
def tensor_list() -> list:
    h = raw.EmptyTensorList(element_shape=SHAPE, max_num_elements=-1, element_dtype=tf.float32)
    h = raw.TensorListPushBack(input_handle=h, tensor=tf.constant([1., 2.]))
    h = raw.TensorListPushBack(input_handle=h, tensor=tf.constant([3., 4.]))
    stacked = raw.TensorListStack(input_handle=h, element_shape=SHAPE, element_dtype=tf.float32)
    rest, last = raw.TensorListPopBack(input_handle=h, element_shape=SHAPE, element_dtype=tf.float32)
    joined = raw.TensorListConcatV2(input_handle=h, element_shape=SHAPE, leading_dims=tf.constant([], tf.int64),
                                    element_dtype=tf.float32)
    older = raw.TensorListConcat(input_handle=h, element_dtype=tf.float32, element_shape=[2])
    return [stacked, last, *older, raw.TensorListLength(input_handle=rest),
            raw.TensorListElementShape(input_handle=h, shape_type=tf.int32), *joined]


@program
def tensor_list_items() -> list:
    h = raw.TensorListFromTensor(tensor=tf.reshape(tf.range(6.), [3, 2]), element_shape=SHAPE)
    h = raw.TensorListSetItem(input_handle=h, index=1, item=tf.constant([8., 9.]))
    r = raw.TensorListResize(input_handle=raw.TensorListReserve(element_shape=SHAPE, num_elements=2, element_dtype=tf.float32),
                             size=3)
    both = raw.TensorListConcatLists(input_a=h, input_b=h, element_dtype=tf.float32)
    return [raw.TensorListGetItem(input_handle=h, index=1, element_shape=SHAPE, element_dtype=tf.float32),
            raw.TensorListGather(input_handle=h, indices=[2, 0], element_shape=SHAPE, element_dtype=tf.float32),
            raw.TensorListLength(input_handle=r), raw.TensorListLength(input_handle=both)]


@program
def tensor_lists_in_a_batch() -> list:
    made = [raw.TensorListFromTensor(tensor=tf.fill([2, 2], v), element_shape=SHAPE) for v in (1., 2.)]
    grown = raw.TensorListPushBackBatch(input_handles=tf.stack(made), tensor=tf.constant([[3., 4.], [5., 6.]]))
    return [raw.TensorListStack(input_handle=h, element_shape=SHAPE, element_dtype=tf.float32) for h in tf.unstack(grown, 2)]


@program
def tensor_list_scatter() -> list:
    x = tf.reshape(tf.range(6.), [3, 2])
    made = raw.TensorListScatterV2(tensor=x, indices=[2, 0, 1], element_shape=SHAPE, num_elements=4)
    older = raw.TensorListScatter(tensor=x, indices=[1, 0, 2], element_shape=SHAPE)
    into = raw.TensorListScatterIntoExistingList(input_handle=older, tensor=-x[:2], indices=[2, 0])
    split = raw.TensorListSplit(tensor=x, element_shape=tf.constant([-1, 2]), lengths=tf.constant([1, 2], tf.int64))

    def stacked(h):
        return raw.TensorListStack(input_handle=h, element_shape=SHAPE, element_dtype=tf.float32)
    return [stacked(made), stacked(older), stacked(into), raw.TensorListLength(input_handle=split)]


# -- control flow --------------------------------------------------------------------------------------------------------
@program
def switch_and_merge() -> list:
    out = []
    for p in (True, False):
        off, on = raw.Switch(data=tf.constant([1., 2.]), pred=tf.identity(tf.constant(p)))
        out += raw.Merge(inputs=[off * 2., on + 10.])
    return out


@program
def loop() -> list:
    return list(tf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2.), [tf.constant(0), tf.constant(1.)]))


@program
def loop_gradient() -> list:
    x = tf.constant(3.)
    y = tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * x), [tf.constant(0), x])[1]
    return [y, *tf.gradients(y, x)]


@program
def nested_loops() -> list:
    def outer(i, total):
        inner = tf.while_loop(lambda j, s: j < i, lambda j, s: (j + 1, s + j), [tf.constant(0), total])
        return i + 1, tf.cond(inner[1] > 4, lambda: inner[1] * 2, lambda: inner[1])
    return list(tf.while_loop(lambda i, t: i < 5, outer, [tf.constant(0), tf.constant(0)]))


# -- variables, files, sparse maps ---------------------------------------------------------------------------------------
@program
def reference_variable() -> list:
    v = get("VariableV2")(shape=[2], dtype=tf.float32)
    with after(get("Assign")(v, tf.constant([1., 2.])).op):
        same = get("RefIdentity")(v)
        added = get("AssignAdd")(same, tf.constant([1., 1.]))
    with after(added.op):
        return [tf.identity(v)]


@program
def chosen_variable() -> list:
    first, second = (get("Variable")(shape=[2], dtype=tf.float32, shared_name=f"choice{i}") for i in range(2))
    with after(get("Assign")(first, tf.constant([1., 2.])).op, get("Assign")(second, tf.constant([3., 4.])).op):
        one = get("RefSelect")(tf.constant(1), [first, second])
        off, on = get("RefSwitch")(first, tf.identity(tf.constant(True)))
        both = get("RefMerge")([off, on])
    return [tf.identity(one), tf.identity(both[0]), both[1]]


@program
def temporary_variable() -> list:
    v = get("TemporaryVariable")(shape=[2], dtype=tf.float32, var_name="temporary")
    added = get("AssignAdd")(get("Assign")(v, tf.constant([1., 2.])), tf.constant([3., 3.]))
    return [get("DestroyTemporaryVariable")(added, var_name="temporary")]


@program
def resource_variable() -> list:
    h = raw.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="resource")
    with after(raw.AssignVariableOp(resource=h, value=tf.constant([1., 2.]))):
        value = raw.ReadVariableOp(resource=h, dtype=tf.float32)
    with after(value):
        gone = raw.DestroyResourceOp(resource=h)
    with after(gone):
        return [tf.identity(value), raw.VarIsInitializedOp(resource=h)]


@program
def files() -> list:
    path = os.path.join(tempfile.gettempdir(), "penstock_oracle_file.txt")
    with after(raw.WriteFile(filename=tf.constant(path), contents=tf.constant(b"text\x00and zero"))):
        return [raw.ReadFile(filename=tf.constant(path)), raw.MatchingFiles(pattern=tf.constant(path[:-3] + "*"))]


@program
def sparse_map() -> list:
    handles = raw.AddManySparseToTensorsMap(sparse_indices=tf.constant([[0, 0], [1, 1]], tf.int64),
                                            sparse_values=tf.constant([4., 5.]), sparse_shape=tf.constant([2, 3], tf.int64),
                                            shared_name="sparse")
    return list(raw.TakeManySparseFromTensorsMap(sparse_handles=handles, dtype=tf.float32, shared_name="sparse"))


@program
def ragged_variant() -> list:
    v = raw.RaggedTensorToVariant(rt_nested_splits=[np.array([0, 2, 3])], rt_dense_values=[1., 2., 3.], batched_input=True)
    splits, values = raw.RaggedTensorFromVariant(encoded_ragged=v, input_ragged_rank=0, output_ragged_rank=1,
                                                 Tvalues=tf.float32, Tsplits=tf.int64)
    return [*splits, values]


# -- functions -----------------------------------------------------------------------------------------------------------
@program
def call() -> list:
    double = tf.function(lambda x: x * 2.)
    return [double(tf.constant([1., 2.]))]


@program
def function_with_branches() -> list:
    either = tf.function(lambda x: tf.cond(tf.reduce_sum(x) > 2., lambda: x * 2., lambda: x - 1.))
    return [either(tf.constant([1., 2.])), either(tf.constant([0., 1.]))]


@program
def function_with_loop() -> list:
    power = tf.function(lambda x: tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * x), [tf.constant(0), x])[1])
    x = tf.constant([1., 2.])
    y = power(x)
    return [y, *tf.gradients(y, x)]


@program
def function_with_state() -> list:
    h = raw.VarHandleOp(dtype=tf.float32, shape=[], shared_name="counted")
    with after(raw.AssignVariableOp(resource=h, value=tf.constant(1.))):
        start = tf.identity(tf.constant(0))

    @tf.function
    def count(i):
        def body(i):
            raw.AssignAddVariableOp(resource=h, value=tf.constant(2.))
            return i + 1
        i = tf.while_loop(lambda i: i < 3, body, [i])

        def more():
            raw.AssignAddVariableOp(resource=h, value=tf.constant(5.))
            return i * 2
        doubled = tf.cond(i > 2, more, lambda: i)
        return doubled, raw.ReadVariableOp(resource=h, dtype=tf.float32)
    return list(count(start))


@program
def chosen_function() -> list:
    choose = tf.function(lambda i: tf.switch_case(i, [lambda: tf.constant(10.), lambda: tf.constant(20.)]))
    return [choose(tf.constant(0)), choose(tf.constant(1))]


@program
def functions_as_attributes() -> list:
    spec = tf.TensorSpec([2], tf.float32)
    double, less = (tf.function(f).get_concrete_function(spec) for f in (lambda x: x * 2., lambda x: x - 1.))
    step = tf.function(lambda i, x: x + tf.cast(i, tf.float32)).get_concrete_function(tf.TensorSpec([], tf.int32), spec)
    x = tf.constant([1., 2.])
    return [*raw.Case(branch_index=1, input=[x], branches=[double, less], Tout=[tf.float32]),
            *get("For")(0, 4, 1, [x], body=step),
            *raw.RemoteCall(target="/job:localhost/replica:0/task:0/device:CPU:0", args=[x], f=double, Tout=[tf.float32]),
            *raw.SymbolicGradient(input=[x, tf.ones([2])], Tout=[tf.float32], f=double)]


@program
def placeholders() -> list:
    x = tf.constant([1., 2.])
    with after(raw.NoOp()):
        return [raw.PlaceholderWithDefault(input=x, shape=[None]) + 1.]
