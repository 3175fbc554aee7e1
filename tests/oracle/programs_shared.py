"""Programs of what ops share: barriers, accumulators, staging areas, locks, values kept in a session, references in loops."""
from __future__ import annotations

import numpy as np

import penstock.compat.v1 as tf
from penstock._src.ops.registry import get
from tests.oracle.programs import after, program

raw = tf.raw_ops


@program
def barrier() -> list:
    b = get("Barrier")(component_types=[tf.float32, tf.int32], shapes=[[], []], shared_name="barrier")
    first = get("BarrierInsertMany")(b, ["a", "b", "c"], [1., 2., 3.], component_index=0)
    with after(first):
        second = get("BarrierInsertMany")(b, ["a", "b"], [10, 20], component_index=1)
    with after(second):
        sizes = [get("BarrierReadySize")(b), get("BarrierIncompleteSize")(b)]
    with after(*sizes):
        taken = get("BarrierTakeMany")(b, 2, component_types=[tf.float32, tf.int32])
    flat = [taken[0], taken[1], *taken[2]]
    with after(*flat):
        closed = get("BarrierClose")(b)
    with after(closed):
        return [*sizes, *(tf.identity(t) for t in flat[1:])]


def _accumulated(prefix: str, made, step) -> list:
    """Two gradients, one of which is stale, and their mean."""
    early = get(f"{prefix}AccumulatorSetGlobalStep")(made, step)
    with after(early):
        first = get(f"{prefix}AccumulatorApplyGradient")(made, step, tf.constant([1., 2.]))
    with after(first):
        second = get(f"{prefix}AccumulatorApplyGradient")(made, step, tf.constant([3., 4.]))
    with after(second):
        stale = get(f"{prefix}AccumulatorApplyGradient")(made, step - 1, tf.constant([90., 90.]))
    with after(stale):
        count = get(f"{prefix}AccumulatorNumAccumulated")(made)
    with after(count):
        return [count, get(f"{prefix}AccumulatorTakeGradient")(made, 2, dtype=tf.float32)]


@program
def accumulators() -> list:
    step = tf.constant(3, tf.int64)
    old = get("ConditionalAccumulator")(dtype=tf.float32, shape=[2], shared_name="accumulator")
    return _accumulated("", old, step)


@program
def resource_accumulators() -> list:
    made = get("ResourceConditionalAccumulator")(dtype=tf.float32, shape=[2], shared_name="resource_accumulator")
    return _accumulated("Resource", made, tf.constant(3, tf.int64))


@program
def sparse_accumulator() -> list:
    made = get("SparseConditionalAccumulator")(dtype=tf.float32, shape=[4, 2], shared_name="sparse_accumulator")
    step, dims = tf.constant(0, tf.int64), np.array([4, 2])
    with after(get("SparseAccumulatorApplyGradient")(made, step, np.array([0, 2]), tf.ones([2, 2]), dims, True)):
        second = get("SparseAccumulatorApplyGradient")(made, step, np.array([2, 3]), tf.fill([2, 2], 5.), dims, True)
    with after(second):
        return list(get("SparseAccumulatorTakeGradient")(made, 2, dtype=tf.float32))


@program
def staging_area() -> list:
    kept = {"dtypes": [tf.float32, tf.int32], "shared_name": "stage"}
    with after(raw.Stage(values=[tf.constant([1., 2.]), tf.constant(3)], **kept)):
        second = raw.Stage(values=[tf.constant([4.]), tf.constant(5)], shared_name="stage")
    with after(second):
        seen = [*raw.StagePeek(index=1, **kept), raw.StageSize(**kept)]
    with after(*seen):
        taken = raw.Unstage(**kept)
    with after(*taken):
        cleared = raw.StageClear(**kept)
    with after(cleared):
        return [*seen, *(tf.identity(t) for t in taken), raw.StageSize(**kept)]


def _map_stage(prefix: str) -> list:
    kept = {"dtypes": [tf.float32, tf.int32], "shared_name": prefix}

    def put(key, indices, values):
        return get(f"{prefix}Stage")(tf.constant(key, tf.int64), indices, values, **kept)
    with after(put(7, [0, 1], [tf.constant([1., 2.]), tf.constant(3)])):
        second = put(9, [0], [tf.constant([4.])])
    with after(second):
        sizes = [get(f"{prefix}Size")(**kept), get(f"{prefix}IncompleteSize")(**kept)]
    with after(*sizes):
        third = put(9, [1], [tf.constant(5)])
    with after(third):
        seen = get(f"{prefix}Peek")(tf.constant(9, tf.int64), [0, 1], **kept)
    with after(*seen):
        one = get(f"{prefix}Unstage")(tf.constant(7, tf.int64), [0, 1], **kept)
    with after(*one):
        key, last = get(f"{prefix}UnstageNoKey")([0, 1], **kept)
    with after(key, *last):
        cleared = get(f"{prefix}Clear")(**kept)
    with after(cleared):
        return [*sizes, *seen, *one, key, *last, get(f"{prefix}Size")(**kept)]


@program
def map_stage() -> list:
    return _map_stage("Map")


@program
def ordered_map_stage() -> list:
    return _map_stage("OrderedMap")


@program
def lock() -> list:
    made = raw.MutexV2(shared_name="mutex")
    first = raw.MutexLock(mutex=made)
    with after(first):
        value = tf.identity(tf.constant(1.))
    with after(value):
        released = raw.ConsumeMutexLock(mutex_lock=first)
    with after(released):
        again = raw.MutexLock(mutex=made)
    with after(raw.ConsumeMutexLock(mutex_lock=again)):
        return [tf.identity(value)]


@program
def reference_in_a_loop() -> list:
    v = get("VariableV2")(shape=[2], dtype=tf.float32, shared_name="looped")
    assigned = get("Assign")(v, tf.constant([1., 2.]))
    i = get("Enter")(tf.constant(0), frame_name="loop")
    one, three, step = (get("Enter")(tf.constant(c), frame_name="loop", is_constant=True) for c in (1, 3, [10., 20.]))
    ref = get("RefEnter")(assigned, frame_name="loop")
    merged, _ = get("Merge")([i, i])
    merged_ref, _ = get("RefMerge")([ref, ref])
    again = get("LoopCond")(merged < three)
    done, on = get("Switch")(merged, again)
    done_ref, on_ref = get("RefSwitch")(merged_ref, again)
    added = get("AssignAdd")(on_ref, step)
    with after(added.op):
        following = get("NextIteration")(on + one)
    merged.op._update_input(1, following)
    merged_ref.op._update_input(1, get("RefNextIteration")(added))
    return [get("Exit")(done), tf.identity(get("RefExit")(done_ref))]


@program
def batches() -> list:
    limits = {"num_batch_threads": 1, "max_batch_size": 4, "batch_timeout_micros": 1000, "allowed_batch_sizes": [3, 4]}
    batched, index, call = raw.Batch(in_tensors=[tf.constant([1., 2.])], grad_timeout_micros=0, **limits)
    rows = raw.Unbatch(batched_tensor=batched[0] * 2., batch_index=index, id=call, timeout_micros=1000000)
    back = raw.UnbatchGrad(original_input=batched[0], batch_index=index, grad=rows, id=call)
    double = tf.function(lambda x: x * 2.).get_concrete_function(tf.TensorSpec([None], tf.float32))
    out = raw.BatchFunction(in_tensors=[tf.constant([3., 4.])], captured_tensors=[], f=double, Tout=[tf.float32], **limits)
    return [*batched, index[:, 1:], rows, back, *out]
