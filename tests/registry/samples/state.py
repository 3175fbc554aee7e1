"""Samples of the ops that hold and change variables: the first array is the value before."""
import numpy as np

from tests.registry.sample import f, i, s, sample

V = f(4, 3)
ROWS = np.array([[2, 0], [2, 3]], np.int32)          # row 2 twice
UPDATES = f(2, 2, 3, low=0.5)
CELLS = np.array([[1, 2], [3, 0]], np.int64)


def in_turn(change):
    """numpy's reference of a scatter: row after row."""
    def expect(ref, indices, updates):
        out = ref.copy()
        updates = np.broadcast_to(updates, indices.shape + ref.shape[1:])
        for at in np.ndindex(indices.shape):
            out[indices[at]] = change(out[indices[at]], updates[at])
        return [out, out]
    return expect


CHANGES = {"Update": lambda a, b: b, "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide,
           "Min": np.minimum, "Max": np.maximum}
for _kind, _change in CHANGES.items():
    _both = in_turn(_change)
    sample(f"Scatter{_kind}", V, ROWS, UPDATES, expect=_both)
    sample(f"Scatter{_kind}", V, np.array([3, 1], np.int64), np.float32(2.5), expect=_both)
    sample(f"ResourceScatter{_kind}", V, ROWS, UPDATES, expect=lambda *a, both=_both: both(*a)[1:])
sample("ScatterUpdate", s("a", "b", "c"), np.array([2, 0], np.int32), s("x", "y"))
sample("ScatterAdd", i(4, 3), ROWS, i(2, 2, 3), expect=in_turn(np.add))
sample("ScatterDiv", i(4, 3, low=10, high=99), np.array([0, 2], np.int32), i(2, 3, low=1, high=5))

for _kind in ("Update", "Add", "Sub"):
    _change = CHANGES[_kind]

    def _nd(ref, indices, updates, change=_change):
        out = ref.copy()
        for at in np.ndindex(indices.shape[:-1]):
            out[tuple(indices[at])] = change(out[tuple(indices[at])], updates[at])
        return [out, out]
    sample(f"ScatterNd{_kind}", V, CELLS, f(2), expect=_nd)
    sample(f"ScatterNd{_kind}", V, np.array([[2], [2], [0]], np.int32), f(3, 3), expect=_nd)
    sample(f"ResourceScatterNd{_kind}", V, CELLS, f(2), expect=lambda *a, nd=_nd: nd(*a)[1:])

sample("Assign", V, f(4, 3), expect=lambda ref, value: [value, value])
sample("AssignAdd", V, f(4, 3), expect=lambda ref, value: [ref + value] * 2)
sample("AssignAdd", i(3, dtype=np.uint16, low=0), i(3, dtype=np.uint16, low=0), expect=lambda a, b: [a + b] * 2)
sample("AssignSub", V, f(4, 3), expect=lambda ref, value: [ref - value] * 2)
sample("AssignVariableOp", V, f(4, 3), expect=lambda ref, value: [value])
sample("AssignAddVariableOp", V, f(4, 3), expect=lambda ref, value: [ref + value])
sample("AssignSubVariableOp", V, f(4, 3), expect=lambda ref, value: [ref - value])
sample("IsVariableInitialized", V, expect=lambda ref: [np.True_, ref])
sample("VarIsInitializedOp", V, expect=lambda ref: [np.True_, ref])
sample("CountUpTo", np.int32(3), limit=5, expect=lambda ref: [ref, ref + 1])
sample("ResourceCountUpTo", np.int32(3), limit=5, T="int32", expect=lambda ref: [ref, ref + 1])
sample("ReadVariableOp", V, dtype="float32", expect=lambda ref: [ref, ref])
sample("VariableShape", V, expect=lambda ref: [np.array([4, 3], np.int32), ref])
sample("ResourceGather", V, ROWS, dtype="float32", expect=lambda ref, rows: [ref[rows], ref])
sample("ResourceGather", f(2, 3, 2), i(2, 4, low=0, high=3), dtype="float32", batch_dims=1)
sample("ResourceGatherNd", V, CELLS, dtype="float32", expect=lambda ref, at: [ref[at[:, 0], at[:, 1]], ref])


def _assigned(ref, begin, end, strides, value):
    out = ref.copy()
    out[tuple(slice(*b) for b in zip(begin, end, strides, strict=True))] = value
    return [out, out]


_BOUNDS = [np.array(b, np.int32) for b in ([0, 1], [4, 3], [2, 1])]
sample("StridedSliceAssign", V, *_BOUNDS, f(2, 2), expect=_assigned)
sample("ResourceStridedSliceAssign", V, *_BOUNDS, f(2, 2), expect=lambda *a: _assigned(*a)[1:])
sample("VariableShape", np.float64(3), out_type="int64", expect=lambda ref: [np.zeros(0, np.int64), ref])
sample("ReadVariableOp", np.int64([[1, 2]]), dtype="int64", expect=lambda ref: [ref, ref])
sample("ResourceCountUpTo", np.int64(0), limit=1, T="int64", expect=lambda ref: [ref, ref + 1])
