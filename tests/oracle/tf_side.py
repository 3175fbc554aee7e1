"""Runs in the environment of real TensorFlow: `python tf_side.py CASES RESULTS`.

Every case is a GraphDef with feeds; the answer holds the fetched values, and the gradients that TensorFlow itself builds.
"""
import os
import re
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import records  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.FATAL)


def run(header, parts):
    """(values, gradients or None) of one case; an op that was withdrawn runs as in a graph of the last version with it."""
    message = tf.GraphDef.FromString(parts[0])
    try:
        return run_graph(message, header, parts)
    except tf.errors.UnimplementedError as e:
        withdrawn = re.search(r"removed in version (\d+)", str(e))
        if not withdrawn:
            raise
        message.versions.producer = int(withdrawn.group(1)) - 1
        return run_graph(message, header, parts)


def run_graph(message, header, parts):
    """The values of a graph, and the gradients or None."""
    arrays = [tf.make_ndarray(tf.make_tensor_proto(0).FromString(p)) for p in parts[1:]]
    feeds = dict(zip(header["feeds"], arrays, strict=False))
    weights = arrays[len(header["feeds"]):]
    with tf.Graph().as_default() as g:
        tf.import_graph_def(message, name="")
        with tf.Session() as sess:
            values = sess.run(header["fetches"], feeds)
            grads = None
            if header["xs"]:
                ys = [g.get_tensor_by_name(n) for n in header["ys"]]
                xs = [g.get_tensor_by_name(n) for n in header["xs"]]
                try:
                    found = tf.gradients(ys, xs, [tf.constant(w, y.dtype) for w, y in zip(weights, ys, strict=True)])
                    grads = sess.run([tf.zeros_like(x) if d is None else tf.convert_to_tensor(d)
                                      for d, x in zip(found, xs, strict=True)], feeds)
                except Exception:
                    grads = None            # TensorFlow has no gradient for this case; the values still count
    return values, grads


def shown(e):
    """An error in one line."""
    frame = ("Graph execution error", "Detected at", "Node: ")
    lines = [line for line in str(e).splitlines() if line and not line.startswith(frame)]
    return f"{type(e).__name__}: {lines[0] if lines else ''}"[:300]


def main():
    """Answers case by case, so that a crash loses only what comes after it."""
    with open(sys.argv[1], "rb") as cases, open(sys.argv[2], "ab", buffering=0) as out:
        for header, parts in records.read(cases):
            if header["id"] in sys.argv[3:]:
                continue
            try:
                values, grads = run(header, parts)
                encoded = [tf.make_tensor_proto(v).SerializeToString() for v in [*values, *(grads or [])]]
                records.write(out, {"id": header["id"], "n": len(values), "grads": grads is not None}, encoded)
            except Exception as e:
                records.write(out, {"id": header["id"], "error": shown(e)}, [])


main()
