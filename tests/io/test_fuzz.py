"""Damaged and hostile files of every format: they are read, or return a typed error, in bounded time and memory.

The cases are the same in every run. For more of them: PENSTOCK_FUZZ=20000 python -m pytest tests/io/test_fuzz.py
"""
import io
import os
import random
import resource
import time
import zlib

import numpy as np
import pytest
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from PIL import Image
from tensorboard.compat.proto.variable_pb2 import VariableDef

import penstock as tf
from penstock._src.base import errors
from penstock._src.io.messages import SavedModel
from penstock._src.io.table import Table, TableWriter

v1 = tf.compat.v1
CASES = int(os.environ.get("PENSTOCK_FUZZ", 60))
SECONDS, MEGABYTES = 20, 400                        # for one case; for all cases of a format


def mutated(rng, data):
    """The bytes with a few of them flipped, dropped, doubled or made extreme; or cut; or with a stretch of another place."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(out)) if out else 0
        kind = rng.randrange(6)
        if kind == 0 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at:at + 1] = rng.choice([b"\xff", b"\x00", b"\x7f", b"\x80\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01"])
        elif kind == 2:
            del out[at:at + rng.randrange(1, 9)]
        elif kind == 3:
            other = rng.randrange(len(out) + 1)
            out[at:at] = out[other:other + rng.randrange(1, 40)]
        elif kind == 4:
            out[at:at + 8] = rng.randbytes(8)
        elif rng.random() < 0.3:
            del out[at:]
    return bytes(out)


# -- a small file of each format, and how it is read ---------------------------------------------------------------------
def example():
    f = tf.train.Feature
    return tf.train.Example(features=tf.train.Features(feature={
        "x": f(float_list=tf.train.FloatList(value=[1.0, 2.0])), "n": f(int64_list=tf.train.Int64List(value=[7])),
        "w": f(bytes_list=tf.train.BytesList(value=[b"a", b"bc"]))})).SerializeToString()


def parse_examples(data, folder):
    wanted = {"x": tf.io.FixedLenFeature([2], tf.float32), "n": tf.io.FixedLenFeature([], tf.int64, 1),
              "w": tf.io.VarLenFeature(tf.string)}
    tf.io.parse_example([example(), data], wanted)
    tf.io.parse_single_example(data, wanted)


def sequence():
    lists = tf.train.FeatureLists(feature_list={"t": tf.train.FeatureList(feature=[
        tf.train.Feature(int64_list=tf.train.Int64List(value=[i])) for i in range(3)])})
    return tf.train.SequenceExample(feature_lists=lists).SerializeToString()


def records(kind=""):
    memory = f"memory://fuzz{os.getpid()}/{kind or 'plain'}"
    with tf.io.TFRecordWriter(memory, kind) as w:
        for i in range(4):
            w.write(b"record %d" % i * 9)
    with tf.io.gfile.GFile(memory, "rb") as f:
        return f.read()


def read_records(data, folder, kind=""):
    (folder / "r").write_bytes(data)
    list(tf.data.TFRecordDataset(str(folder / "r"), kind))


def network():
    """A graph with control flow, a function, strings and constants of several types."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        h = tf.nn.relu(tf.matmul(x, tf.constant(np.arange(6, dtype=np.float32).reshape(3, 2))) + 1.0)
        total = v1.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + tf.reduce_sum(h)), [0, 0.0])[1]
        picked = v1.cond(total > 2.0, lambda: h * 2.0, lambda: h)
        words = tf.strings.join([tf.as_string(tf.cast(total, tf.int32)), "!"])
        squared = tf.function(lambda a: a * a, input_signature=[tf.TensorSpec([None, 2], tf.float32)])(picked)
        tf.identity(tf.reshape(squared, [-1, 2]), name="out")
        tf.identity(words, name="words")
    return graph.as_graph_def()


def import_and_run(graph_def):
    with tf.Graph().as_default() as graph:
        v1.import_graph_def(graph_def, name="")
        config = v1.ConfigProto(operation_timeout_in_ms=2000)
        names = {op.name for op in graph.get_operations()}
        if {"x", "out", "words"} <= names:
            with v1.Session(config=config) as sess:
                sess.run(["out:0", "words:0"], {"x:0": np.ones([2, 3], np.float32)})


def read_graph(data, folder):
    import_and_run(v1.GraphDef.FromString(data))


def read_graph_text(data, folder):
    graph_def = v1.GraphDef()
    text_format.Parse(data.decode("utf-8", "replace"), graph_def)
    import_and_run(graph_def)


def checkpoint_file(folder, which):
    with tf.Graph().as_default(), v1.Session() as sess:
        v1.get_variable("a", initializer=np.arange(200, dtype=np.float32))
        v1.get_variable("s", initializer=np.array([b"one", b"three"], object))
        sess.run(v1.global_variables_initializer())
        v1.train.Saver().save(sess, str(folder / "model"))
    name = {"index": "model.index", "data": "model.data-00000-of-00001", "meta": "model.meta", "state": "checkpoint"}[which]
    return (folder / name).read_bytes(), folder / name


def read_checkpoint(folder):
    path = tf.train.latest_checkpoint(str(folder))
    if path is None:
        return
    with tf.Graph().as_default(), v1.Session() as sess:
        saver = v1.train.import_meta_graph(path + ".meta")
        if saver is not None:                        # None for a graph without variables: an empty file is one
            saver.restore(sess, path)
    tf.train.load_checkpoint(path).get_tensor("a")


class Doubler(tf.Module):
    def __init__(self):
        self.factor = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def __call__(self, x):
        return x * self.factor


def image(kind):
    buffer = io.BytesIO()
    pixels = np.random.RandomState(0).randint(0, 255, (9, 7, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def read_image(kind):
    def read(data, folder):
        tf.io.decode_image(data)
        getattr(tf.io, f"decode_{kind}")(data)
    return read


def deep_image():
    return tf.io.encode_png(np.random.RandomState(0).randint(0, 65535, (9, 7, 1)).astype(np.uint16)).numpy()


def read_deep_image(data, folder):
    tf.io.decode_png(data, dtype=tf.uint16)
    tf.io.decode_png(data, channels=4, dtype=tf.uint16)
    tf.io.decode_png(data)


def read_csv(data, folder):
    tf.io.decode_csv(data.rstrip(b"\n").split(b"\n"), [[0], [1.5], ["z"]])
    (folder / "c").write_bytes(data)
    list(tf.data.experimental.CsvDataset(str(folder / "c"), [[0], [1.5], ["z"]]))
    list(tf.data.experimental.make_csv_dataset(str(folder / "c"), 2, num_epochs=1, header=False, column_names=["a", "b", "c"]))


def events(folder):
    with tf.Graph().as_default():
        writer = v1.summary.FileWriter(str(folder))
        for i in range(3):
            writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="loss", simple_value=float(i))]), i)
        writer.close()
    return next(folder.glob("events*")).read_bytes()


def read_events(data, folder):
    (folder / "e").write_bytes(data)
    list(v1.train.summary_iterator(str(folder / "e")))


def wave():
    return tf.audio.encode_wav(np.zeros([20, 1], np.float32), 8000).numpy()


FORMATS = {
    "example": (lambda folder: example(), parse_examples),
    "sequence": (lambda folder: sequence(),
                 lambda data, folder: tf.io.parse_sequence_example([data], None, {"t": tf.io.VarLenFeature(tf.int64)})),
    "records": (lambda folder: records(), read_records),
    "records-gzip": (lambda folder: records("GZIP"), lambda data, folder: read_records(data, folder, "GZIP")),
    "graph": (lambda folder: network().SerializeToString(), read_graph),
    "graph-text": (lambda folder: text_format.MessageToString(network()).encode(), read_graph_text),
    **{kind: (lambda folder, kind=kind: image(kind), read_image(kind)) for kind in ("png", "jpeg", "gif", "bmp")},
    "png16": (lambda folder: deep_image(), read_deep_image),
    "csv": (lambda folder: b'1,2.5,abc\n4,,"d,e"\n,1e3,\n', read_csv),
    "events": (events, read_events),
    "wav": (lambda folder: wave(), lambda data, folder: tf.audio.decode_wav(data)),
    "tensor": (lambda folder: tf.io.serialize_tensor(np.arange(6.0)).numpy(),
               lambda data, folder: tf.io.parse_tensor(data, tf.float64)),
}
TYPED = (errors.OpError, OSError, ValueError, TypeError, DecodeError, text_format.ParseError)


def attempt(name, case, read):
    """One case: whether it was read; anything but a typed error, and anything that takes long, fails the test."""
    start = time.process_time()                      # not by the wall: the machine may be busy
    try:
        read()
        return True
    except TYPED:
        return False
    except KeyError as e:
        if "refers to" not in str(e):                # a tensor or an op that a graph does not have: TensorFlow's error
            raise AssertionError(f"{name}, case {case}: {e!r}") from e
        return False
    except Exception as e:
        raise AssertionError(f"{name}, case {case}: {type(e).__name__}: {e}") from e
    finally:
        took = time.process_time() - start
        assert took < SECONDS, f"{name}, case {case} took {took:.0f} s"


def grown(before):
    """MB by which the process has grown."""
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_bytes(tmp_path, name):
    make, read = FORMATS[name]
    good = make(tmp_path)
    read(good, tmp_path)
    rng, before = random.Random(name), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = {attempt(name, i, lambda: read(mutated(rng, good), tmp_path)) for i in range(CASES)}
    assert False in outcomes
    assert grown(before) < MEGABYTES


@pytest.mark.timeout(600)
@pytest.mark.parametrize("which", ["index", "data", "meta", "state"])
def test_damaged_checkpoints(tmp_path, which):
    good, path = checkpoint_file(tmp_path, which)
    rng, before = random.Random(which), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(CASES):
        path.write_bytes(mutated(rng, good))
        attempt(which, i, lambda: read_checkpoint(tmp_path))
    path.write_bytes(good)
    read_checkpoint(tmp_path)
    assert grown(before) < MEGABYTES


@pytest.mark.timeout(600)
def test_damaged_saved_models(tmp_path):
    tf.saved_model.save(Doubler(), str(tmp_path))
    path = tmp_path / "saved_model.pb"
    good, rng = path.read_bytes(), random.Random(3)

    def load():
        tf.saved_model.load(str(tmp_path))(tf.constant([1.0]))
    load()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(CASES // 2):
        path.write_bytes(mutated(rng, good))
        attempt("SavedModel", i, load)
    assert grown(before) < MEGABYTES


@pytest.mark.parametrize("field", ["function", "spec", "child", "results"])
def test_a_saved_model_that_names_what_is_not_there(tmp_path, field):
    tf.saved_model.save(Doubler(), str(tmp_path))
    path = tmp_path / "saved_model.pb"
    model = SavedModel.FromString(path.read_bytes())
    nodes = model.meta_graphs[0].object_graph_def.nodes
    if field == "function":
        next(n for n in nodes if n.HasField("bare_concrete_function")).bare_concrete_function.concrete_function_name = "none"
    elif field == "spec":
        spec = next(n for n in nodes if n.HasField("function")).function.function_spec.fullargspec
        del spec.named_tuple_value.values[4:]
    elif field == "results":
        function = next(iter(model.meta_graphs[0].object_graph_def.concrete_functions.values()))
        one = function.output_signature.__class__.FromString(function.output_signature.SerializeToString())
        function.output_signature.Clear()
        function.output_signature.list_value.values.extend([one, one])
    else:
        nodes[0].children[0].node_id = 10**6
    path.write_bytes(model.SerializeToString())
    with pytest.raises((errors.OpError, ValueError)):
        tf.saved_model.load(str(tmp_path))(tf.constant([1.0]))


# -- by hand: sizes beyond any memory -------------------------------------------------------------------------------------
HUGE = [1 << 20, 1 << 20, 1 << 20]


def constant_node(shape, **values):
    graph_def = v1.GraphDef()
    node = graph_def.node.add(name="c", op="Const")
    node.attr["dtype"].type = tf.float32.as_datatype_enum
    tensor = node.attr["value"].tensor
    tensor.dtype = tf.float32.as_datatype_enum
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    for name, value in values.items():
        if name == "tensor_content":
            tensor.tensor_content = value
        else:
            getattr(tensor, name).extend(value)
    return graph_def


@pytest.mark.parametrize("shape, values", [
    (HUGE, {"float_val": [1.0]}), (HUGE, {"tensor_content": b"\0\0\0\0"}), ([-5], {}), ([2], {"tensor_content": b"\0" * 7}),
    (HUGE, {}), ([1 << 62, 4], {"float_val": [1.0]})])
def test_constants_that_claim_more_than_they_have(shape, values):
    def read():
        with tf.Graph().as_default(), v1.Session() as sess:
            v1.import_graph_def(constant_node(shape, **values), name="")
            sess.run("c:0")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert not attempt("constant", 0, read) and grown(before) < MEGABYTES


def test_a_graph_that_nests_or_goes_round():
    graph_def = v1.GraphDef()
    for name, source in (("a", "b"), ("b", "a")):
        graph_def.node.add(name=name, op="Identity", input=[source]).attr["T"].type = 1
    assert not attempt("cycle", 0, lambda: import_and_run(graph_def))
    deep = v1.GraphDef()
    deep.node.add(name="n0", op="Placeholder").attr["dtype"].type = 1
    for i in range(1, 3000):
        deep.node.add(name=f"n{i}", op="Identity", input=[f"n{i - 1}"]).attr["T"].type = 1
    assert attempt("deep", 0, lambda: import_and_run(deep))


def number(n):
    return n.to_bytes(4, "little")


CLAIMS = {"png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\x7f\xff\xff\xff" * 2 + b"\x08\x06\0\0\0" + b"\0" * 4,
          "gif": b"GIF89a\xff\xff\xff\xff\x00\x00\x00,\0\0\0\0\xff\xff\xff\xff\0\x02\x02L\x01\0;",
          "bmp": b"BM" + number(1 << 30) + bytes(4) + number(54) + number(40) + number(1 << 30) * 2 + b"\1\0\x18" + bytes(25)}


@pytest.mark.parametrize("kind", CLAIMS)
def test_images_that_claim_to_be_huge(kind):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert not attempt("image", 0, lambda: tf.io.decode_image(CLAIMS[kind])) and grown(before) < MEGABYTES


@pytest.mark.parametrize("factor, enough", [(1000, True), (1 << 23, False)])
def test_images_with_too_few_bytes_for_their_size(factor, enough):
    """A small PNG that claims many rows is refused before they are allocated; a plain one that packs well is not."""
    if enough:
        data = tf.io.encode_png(np.zeros([factor, factor, 3], np.uint8)).numpy()
        assert tf.io.decode_png(data).shape == (factor, factor, 3)
        return
    data = bytearray(image("png"))
    data[20:24] = factor.to_bytes(4, "big")
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(errors.InvalidArgumentError, match="not enough for"):
        tf.io.decode_png(bytes(data))
    assert grown(before) < 100


def test_a_gif_with_too_few_bytes_for_its_canvas():
    data = bytearray(image("gif"))
    data[6:10] = b"\xff\x22\xff\x22"
    with pytest.raises(errors.InvalidArgumentError, match="not enough for"):
        tf.io.decode_gif(bytes(data))
    data[6:10] = b"\x00\x02\x00\x02"                            # a canvas that the picture does not fill
    assert tf.io.decode_gif(bytes(data)).shape[0] == 1


def test_a_loop_that_claims_shapes_of_other_results():
    with tf.Graph().as_default():
        tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + 2.0), [tf.constant(0), tf.constant(0.0)])
        graph_def = tf.compat.v1.get_default_graph().as_graph_def()
    loop = next(n for n in graph_def.node if n.op.endswith("While"))
    del loop.attr["output_shapes"].list.shape[-1]
    with tf.Graph().as_default(), pytest.raises((ValueError, errors.InvalidArgumentError), match="same length as num outputs"):
        v1.import_graph_def(graph_def, name="")


@pytest.mark.parametrize("dtype", [tf.uint8, tf.uint16])
def test_a_broken_chunk_of_a_deep_image(dtype):
    """A chunk that claims to be shorter than it is: Pillow raises SyntaxError when the pixels are requested."""
    data = bytearray(deep_image())
    at = data.index(b"IDAT") - 1
    for length in range(data[at]):
        data[at] = length
        attempt("deep", length, lambda: tf.io.decode_png(bytes(data), dtype=dtype))


def test_names_in_a_checkpoint_that_are_no_text(tmp_path):
    """The key of a tensor is any bytes, with the right checksum."""
    good, path = checkpoint_file(tmp_path, "index")
    pairs = dict(Table(io.BytesIO(good), len(good), "index").items())
    pairs[b"\xff\xfe"] = pairs.pop(b"a")
    with path.open("wb") as file:
        writer = TableWriter(file)
        for key in sorted(pairs):
            writer.add(key, pairs[key])
        writer.finish()
    with pytest.raises(errors.DataLossError, match="not UTF-8"):
        tf.train.load_checkpoint(str(tmp_path / "model")).get_variable_to_shape_map()
    with pytest.raises(errors.OpError):
        read_checkpoint(tmp_path)


def test_one_value_is_not_repeated_beyond_a_limit():
    with tf.Graph().as_default(), v1.Session() as sess, pytest.raises((ValueError, errors.OpError), match="would take"):
        v1.import_graph_def(constant_node([1 << 15, 1 << 15, 2], float_val=[1.0]), name="")
        sess.run("c:0")


@pytest.mark.parametrize("part", ["output_arg", "input_arg"])
@pytest.mark.parametrize("which", ["body", "cond"])
def test_a_loop_whose_function_has_other_results(which, part):
    """An imported function with a result or an argument less, or one more than the loop has variables."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [], name="x")
        found = tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b + x, a * 2.0), [0, 1.0, 2.0])
        tf.identity(found[1], name="out")
    graph_def = graph.as_graph_def()
    loop = next(n for n in graph_def.node if n.op.endswith("While"))
    function = next(f for f in graph_def.library.function if f.signature.name == loop.attr[which].func.name)
    if part == "input_arg":
        function.signature.input_arg.add(name="more", type=1)
    else:
        name = function.signature.output_arg[-1].name
        del function.signature.output_arg[-1]
        function.ret.pop(name)
    with pytest.raises((ValueError, errors.OpError)) as raised, tf.Graph().as_default(), v1.Session() as sess:
        v1.import_graph_def(graph_def, name="")
        sess.run("out:0", {"x:0": 1.0})
    assert not isinstance(raised.value, errors.InternalError)


@pytest.mark.parametrize("field, message", [("tensor_names", "not UTF-8"), ("variable", "not the handle")])
def test_a_meta_graph_that_names_what_no_file_has(tmp_path, field, message):
    _, path = checkpoint_file(tmp_path, "meta")
    meta = v1.MetaGraphDef.FromString(path.read_bytes())
    if field == "variable":
        held = meta.collection_def["variables"].bytes_list.value
        variable = VariableDef.FromString(held[0])
        variable.variable_name = variable.initial_value_name
        held[0] = variable.SerializeToString()
    else:
        node = next(n for n in meta.graph_def.node if n.name == "save/RestoreV2/tensor_names")
        node.attr["value"].tensor.string_val[0] = b"a\xff\xfe"
    path.write_bytes(meta.SerializeToString())
    with pytest.raises((errors.InvalidArgumentError, ValueError), match=message):
        read_checkpoint(tmp_path)
