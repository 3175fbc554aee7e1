"""Every op with a resource handle, given handles of other kinds: an error that says so, never one from inside a kernel."""
import pytest

import penstock as tf
from penstock._src.ops import signature
from penstock._src.ops.registry import OPS

R = tf.raw_ops
HANDLES = {
    "variable": lambda: tf.Variable([1.0, 2.0]).handle,
    "table": lambda: R.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.float32),
    "reader": lambda: R.IdentityReaderV2(),
    "stack": lambda: R.StackV2(max_size=3, elem_type=tf.float32),
}
ATTRS = {"int": 1, "shape": [2], "bool": True, "float": 1.0, "list(type)": [tf.float32], "list(shape)": [[]], "list(int)": [1],
         "list(string)": ["a"]}


def takes_a_handle(name):
    made = OPS[name]
    return hasattr(R, name) and any(a.type is tf.resource for a in made.inputs) and not any(a.is_ref for a in made.outputs)


def attrs_of(made):
    """Attributes that an op accepts."""
    out = {}
    for a in made.attrs.values():
        if a.default is not signature.REQUIRED:
            out[a.name] = a.default
        elif a.kind in ("type", "string"):
            out[a.name] = a.allowed[0] if a.allowed else tf.float32 if a.kind == "type" else "a"
        else:
            out[a.name] = max(1, a.minimum or 1) if a.kind == "int" else ATTRS.get(a.kind)
    return out


def value_of(arg, attrs, shape):
    """A small value for an input that is no handle."""
    kind = tf.as_dtype(arg.type or attrs.get(arg.type_attr) or tf.float32)
    if kind is tf.variant:
        return R.EmptyTensorList(element_shape=tf.constant([], tf.int32), max_num_elements=-1, element_dtype=tf.float32)
    return tf.fill(shape, "a") if kind is tf.string else tf.cast(tf.ones(shape), kind)


def called(name, handle, shape):
    """What a call with this kind of handle raises, if anything."""
    made = OPS[name]
    attrs = attrs_of(made)
    try:
        given = {a.name: HANDLES[handle]() if a.type is tf.resource else value_of(a, attrs, shape) for a in made.inputs}
        given = {a.name: [given[a.name]] if a.is_list else given[a.name] for a in made.inputs}
        getattr(R, name)(**given, **{k: v for k, v in attrs.items() if k in made.explicit_attrs})
    except (tf.errors.OpError, ValueError, TypeError, NotImplementedError) as e:
        return e
    return None


@pytest.mark.parametrize("name", sorted(filter(takes_a_handle, OPS)))
def test_handles_of_other_kinds(name):
    for handle in HANDLES:
        for shape in ([], [1]):
            error = called(name, handle, shape)
            assert not isinstance(error, tf.errors.InternalError), f"{handle}, values of shape {shape}: {error}"


@pytest.mark.parametrize("name, handle, what", [
    ("LookupTableSizeV2", "variable", "a lookup table"), ("ReaderNumRecordsProducedV2", "table", "a reader"),
    ("FlushSummaryWriter", "variable", "a summary writer"), ("ResourceScatterAdd", "table", "a variable"),
    ("InitializeTableV2", "variable", "a lookup table"), ("ReadVariableOp", "table", "a variable")])
def test_the_error_names_both_kinds(name, handle, what):
    error = called(name, handle, [1])
    assert isinstance(error, tf.errors.InvalidArgumentError) and f"as {what}" in str(error)
