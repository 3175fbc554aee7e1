"""Run by real TensorFlow: writes the SavedModels of test_serving.py, with requests and TensorFlow's answers.

    python serving_tf.py FOLDER

Each model lies in FOLDER/NAME/1; FOLDER/NAME.npz has, for request i, `i/in/KEY` and `i/out/KEY`, and `i/signature`.
"""
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
FOLDER = sys.argv[1]
RNG = np.random.default_rng(7)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def texts(*words):
    return np.array([w.encode() if isinstance(w, str) else w for w in words], object)


def path_of(name):
    return os.path.join(FOLDER, name, "1")


def record(name, requests):
    """Runs the requests, given as (signature, {input: value}), and keeps both sides."""
    loaded, found = tf.saved_model.load(path_of(name)), {}
    for i, (signature, inputs) in enumerate(requests):
        answer = loaded.signatures[signature](**{k: tf.constant(v) for k, v in inputs.items()})
        found[f"{i}/signature"] = np.array(signature)
        for kind, values in (("in", inputs), ("out", {k: v.numpy() for k, v in answer.items()})):
            found.update({f"{i}/{kind}/{k}": np.asarray(v) for k, v in values.items()})
    np.savez(os.path.join(FOLDER, f"{name}.npz"), **found)


def example(**features):
    kinds = {bytes: "bytes_list", float: "float_list", int: "int64_list"}
    made = tf.train.Example()
    for key, values in features.items():
        getattr(made.features.feature[key], kinds[type(values[0])]).value.extend(values)
    return made.SerializeToString()


def signatures():
    class Model(tf.Module):
        def __init__(self):
            self.w = tf.Variable(floats(3, 2))

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, "x"), tf.TensorSpec([], tf.float32, "scale")])
        def scaled(self, x, scale):
            return {"y": x @ self.w * scale, "norm": tf.norm(x, axis=1)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "ids"), tf.TensorSpec([None], tf.bool, "keep")])
        def chosen(self, ids, keep):
            return {"ids": tf.where(keep, ids * 2, -ids), "half": tf.cast(ids, tf.float64) / 2, "small": tf.cast(ids, tf.uint8)}

    model = Model()
    tf.saved_model.save(model, path_of("signatures"), {"serving_default": model.scaled, "chosen": model.chosen})
    record("signatures", [("serving_default", {"x": floats(4, 3), "scale": np.float32(2.5)}),
                          ("chosen", {"ids": np.array([1, -7, 1 << 40]), "keep": np.array([True, False, True])})])


def strings():
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def __call__(self, text):
            return {"upper": tf.strings.upper(text, "utf-8"), "length": tf.strings.length(text),
                    "raw_bytes": tf.strings.join([text, b"\xff\x00"]), "number": tf.strings.to_hash_bucket_fast(text, 97)}

    model = Model()
    tf.saved_model.save(model, path_of("strings"), {"serving_default": model.__call__})
    record("strings", [("serving_default", {"text": texts("one", "zwölf", "", "x" * 300)})])


def ragged():
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def words(self, text):
            words = tf.strings.split(text)
            sizes = words.row_lengths()
            return {"count": sizes, "longest": tf.reduce_max(tf.strings.length(words), axis=1),
                    "dense": words.to_tensor(b"-"), "joined": tf.strings.reduce_join(words, axis=1, separator="_")}

        @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.float32)])
        def sums(self, values):
            return {"sum": tf.reduce_sum(values, axis=1), "mean": tf.reduce_mean(values, axis=1)}

    model = Model()
    tf.saved_model.save(model, path_of("ragged"), {"serving_default": model.words, "sums": model.sums})
    values = tf.ragged.constant([[1.0, 2.0], [3.0], [4.0, 5.0, 6.5]])
    names = sorted(tf.saved_model.load(path_of("ragged")).signatures["sums"].structured_input_signature[1])
    parts = {"values": values.values.numpy(), "values_1": values.row_splits.numpy()}
    record("ragged", [("serving_default", {"text": texts("a bb ccc", "dddd", "e f g h")}),
                      ("sums", {n: parts["values" if i == 0 else "values_1"] for i, n in enumerate(names)})])


def examples():
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
        def __call__(self, examples):
            parsed = tf.io.parse_example(examples, {
                "x": tf.io.FixedLenFeature([2], tf.float32), "n": tf.io.FixedLenFeature([], tf.int64, 5),
                "tags": tf.io.VarLenFeature(tf.string), "r": tf.io.RaggedFeature(tf.int64)})
            tags = tf.sparse.to_dense(parsed["tags"], b"")
            return {"y": tf.reduce_sum(parsed["x"], 1) * tf.cast(parsed["n"], tf.float32), "tags": tags,
                    "total": tf.reduce_sum(parsed["r"], axis=1)}

    model = Model()
    tf.saved_model.save(model, path_of("examples"), {"serving_default": model.__call__})
    record("examples", [("serving_default", {"examples": texts(
        example(x=[1.0, 2.0], n=[3], tags=[b"a", b"bc"], r=[1, 2, 3]), example(x=[0.5, -1.0]),
        example(x=[4.0, 4.0], tags=[b"z"], r=[9]))})])


def tables():
    vocabulary = os.path.join(FOLDER, "words.txt")
    with open(vocabulary, "w") as file:
        file.write("\n".join(["the", "cat", "sat", "on", "mat"]))

    class Model(tf.Module):
        def __init__(self):
            self.ids = tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(
                vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 3)
            self.names = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
                tf.constant([0, 1, 2], tf.int64), tf.constant(["zero", "one", "two"])), "?")

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.string, "words")])
        def __call__(self, words):
            ids = self.ids.lookup(words)
            return {"ids": ids, "names": self.names.lookup(ids)}

    model = Model()
    tf.saved_model.save(model, path_of("tables"), {"serving_default": model.__call__})
    record("tables", [("serving_default", {"words": texts("the", "dog", "sat", "mat").reshape(2, 2)})])


def control_flow():
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "n"), tf.TensorSpec([None, 4], tf.float32, "x")])
        def __call__(self, n, x):
            steps = tf.zeros_like(n)
            current = n
            while tf.reduce_any(current > 1):
                current = tf.where(current <= 1, current, tf.where(current % 2 == 0, current // 2, 3 * current + 1))
                steps += tf.cast(current != 1, tf.int32)
            array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
            for i in tf.range(4):
                if tf.reduce_sum(x[:, i]) > 0:
                    array = array.write(i, x[:, i] * 2)
                else:
                    array = array.write(i, -x[:, i])
            mapped = tf.map_fn(lambda row: tf.cond(row[0] > 0, lambda: tf.reduce_max(row), lambda: tf.reduce_min(row)), x)
            return {"steps": steps, "columns": tf.transpose(array.stack()), "mapped": mapped}

    model = Model()
    tf.saved_model.save(model, path_of("control_flow"), {"serving_default": model.__call__})
    record("control_flow", [("serving_default", {"n": np.array([6, 27, 1], np.int32), "x": floats(3, 4)}),
                            ("serving_default", {"n": np.array([97], np.int32), "x": floats(1, 4)})])


def session_graph():
    """A graph of 1.x with reference variables: predict, classify and regress over serialized examples."""
    utils = v1.saved_model.utils.build_tensor_info
    with v1.Graph().as_default(), v1.Session() as sess:
        serialized = v1.placeholder(tf.string, [None], "tf_example")
        x = v1.io.parse_example(serialized, {"x": tf.io.FixedLenFeature([2], tf.float32)})["x"]
        w = v1.get_variable("w", initializer=floats(2, 3), use_resource=False)
        logits = v1.nn.bias_add(x @ w, v1.get_variable("b", initializer=floats(3), use_resource=False))
        scores, order = tf.nn.top_k(tf.nn.softmax(logits), 3)
        table = v1.lookup.index_to_string_table_from_tensor(["cat", "dog", "emu"]) if hasattr(
            v1.lookup, "index_to_string_table_from_tensor") else None
        names = table.lookup(tf.cast(order, tf.int64)) if table is not None else tf.gather(["cat", "dog", "emu"], order)
        value = tf.reduce_sum(logits, 1, keepdims=True)
        dense = v1.placeholder_with_default(x, [None, 2], "x")
        sess.run([v1.global_variables_initializer(), v1.tables_initializer()])
        make = v1.saved_model.signature_def_utils.build_signature_def
        methods = v1.saved_model.signature_constants
        builder = v1.saved_model.Builder(path_of("session_graph"))
        builder.add_meta_graph_and_variables(sess, [v1.saved_model.tag_constants.SERVING], {
            "classify": make({"inputs": utils(serialized)}, {"classes": utils(names), "scores": utils(scores)},
                             methods.CLASSIFY_METHOD_NAME),
            "regress": make({"inputs": utils(serialized)}, {"outputs": utils(value)}, methods.REGRESS_METHOD_NAME),
            "serving_default": make({"x": utils(dense)}, {"y": utils(dense @ w), "twice": utils(dense * 2)},
                                    methods.PREDICT_METHOD_NAME),
        }, main_op=v1.tables_initializer())
        builder.save()
    rows = texts(example(x=[1.0, 2.0]), example(x=[-0.5, 3.0]))
    record("session_graph", [("serving_default", {"x": floats(5, 2)}), ("classify", {"inputs": rows}),
                             ("regress", {"inputs": rows})])


def keras_model():
    tf.keras.utils.set_random_seed(3)
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((12, 12, 3)), layers.Conv2D(8, 3, activation="relu"), layers.BatchNormalization(),
                                 layers.MaxPooling2D(), layers.Flatten(), layers.Dense(5, activation="softmax")])
    model.export(path_of("keras"), verbose=False)
    name = next(iter(tf.saved_model.load(path_of("keras")).signatures["serving_default"].structured_input_signature[1]))
    record("keras", [("serving_default", {name: floats(3, 12, 12, 3)})])


def recurrent():
    tf.keras.utils.set_random_seed(4)
    layers = tf.keras.layers
    ids, extra = tf.keras.Input((None,), dtype="int32", name="ids"), tf.keras.Input((2,), name="extra")
    hidden = layers.Bidirectional(layers.LSTM(6))(layers.Embedding(50, 8, mask_zero=True)(ids))
    out = layers.Dense(3, name="scores")(layers.Concatenate()([hidden, extra]))
    tf.keras.Model([ids, extra], out).export(path_of("recurrent"), verbose=False)
    record("recurrent", [("serving_default", {"ids": np.array([[3, 4, 5, 0], [9, 0, 0, 0]], np.int32), "extra": floats(2, 2)})])


def bert():
    """A small encoder as in BERT: three inputs, attention with a mask, pooled and sequence outputs."""
    width, heads, layers, length = 32, 4, 2, 16

    class Encoder(tf.Module):
        def __init__(self):
            self.words, self.kinds = tf.Variable(floats(100, width) * 0.1), tf.Variable(floats(2, width) * 0.1)
            self.places = tf.Variable(floats(length, width) * 0.1)
            self.layers = [{n: tf.Variable(floats(*s) * 0.1) for n, s in {
                "qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width),
                "g1": (width,), "b1": (width,), "g2": (width,), "b2": (width,)}.items()} for _ in range(layers)]
            self.pool = tf.Variable(floats(width, width) * 0.1)

        def normalized(self, x, gain, bias):
            mean, variance = tf.nn.moments(x, [-1], keepdims=True)
            return (x - mean) * tf.math.rsqrt(variance + 1e-6) * (1 + gain) + bias

        def attention(self, x, mask, layer):
            batch, steps = tf.shape(x)[0], tf.shape(x)[1]
            parts = tf.reshape(x @ layer["qkv"], [batch, steps, 3, heads, width // heads])
            q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
            scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(width // heads) + mask
            return tf.reshape(tf.transpose(tf.nn.softmax(scores) @ v, [0, 2, 1, 3]), [batch, steps, width]) @ layer["out"]

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, n)
                                      for n in ("input_word_ids", "input_mask", "input_type_ids")])
        def __call__(self, input_word_ids, input_mask, input_type_ids):
            x = tf.gather(self.words, input_word_ids) + tf.gather(self.kinds, input_type_ids)
            x += self.places[:tf.shape(x)[1]]
            mask = (1.0 - tf.cast(input_mask[:, None, None, :], tf.float32)) * -10000.0
            for layer in self.layers:
                x = self.normalized(x + self.attention(x, mask, layer), layer["g1"], layer["b1"])
                x = self.normalized(x + tf.nn.gelu(x @ layer["up"]) @ layer["down"], layer["g2"], layer["b2"])
            return {"pooled_output": tf.tanh(x[:, 0] @ self.pool), "sequence_output": x}

    model = Encoder()
    tf.saved_model.save(model, path_of("bert"), {"serving_default": model.__call__})
    ids = RNG.integers(0, 100, (2, length)).astype(np.int32)
    mask = (np.arange(length) < np.array([[length], [9]])).astype(np.int32)
    record("bert", [("serving_default", {"input_word_ids": ids, "input_mask": mask, "input_type_ids": np.zeros_like(ids)})])


def images():
    """Encoded pictures in, as many front ends send them."""
    class Model(tf.Module):
        def __init__(self):
            self.w = tf.Variable(floats(3, 4))

        def decoded(self, data):
            picture = tf.io.decode_image(data, channels=3, expand_animations=False)
            return tf.image.resize(tf.image.convert_image_dtype(picture, tf.float32), [8, 8])

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "image_bytes")])
        def __call__(self, image_bytes):
            x = tf.map_fn(self.decoded, image_bytes, fn_output_signature=tf.TensorSpec([8, 8, 3], tf.float32))
            scores = tf.nn.softmax(tf.reduce_mean(x, [1, 2]) @ self.w)
            whole = tf.cast(tf.round(x * 16), tf.uint8)
            again = tf.map_fn(lambda p: tf.io.decode_png(tf.io.encode_png(p)), whole)
            return {"scores": scores, "best": tf.argmax(scores, 1), "again": again,
                    "head_bytes": tf.strings.substr(image_bytes, 0, 8)}

    model = Model()
    tf.saved_model.save(model, path_of("images"), {"serving_default": model.__call__})
    files = [tf.io.encode_png(RNG.integers(0, 255, (h, w, 3), np.uint8)).numpy() for h, w in ((16, 16), (24, 40))]
    record("images", [("serving_default", {"image_bytes": texts(*files)})])


def dtypes():
    """Every kind of number, and values that JSON has no number for."""
    kinds = [tf.float16, tf.float64, tf.int8, tf.int16, tf.uint16, tf.uint32, tf.uint64]

    class Model(tf.Module):
        @tf.function
        def __call__(self, **x):
            return {**{f"{k}_again": v for k, v in x.items()}, "odd": 1.0 / tf.cast(x["int8"], tf.float32),
                    "flags": x["int16"] > 2, "empty": tf.zeros([0, 3])}

    model = Model()
    tf.saved_model.save(model, path_of("dtypes"), {"serving_default": model.__call__.get_concrete_function(
        **{k.name: tf.TensorSpec([None], k, k.name) for k in kinds})})
    values = {k.name: np.array([0, 1, 3, 100]).astype(k.as_numpy_dtype) for k in kinds}
    values["uint64"] = np.array([0, 1, 3, 2**63 + 5], np.uint64)
    record("dtypes", [("serving_default", values)])


def text_vectors():
    """Keras's preprocessing inside the model: strings to tokens to scores."""
    tf.keras.utils.set_random_seed(5)
    layers = tf.keras.layers
    vectors = layers.TextVectorization(max_tokens=40, output_sequence_length=6)
    vectors.adapt(["the cat sat on the mat", "a dog ran to the cat", "mats and dogs"])
    text, kind = tf.keras.Input((1,), dtype="string", name="text"), tf.keras.Input((1,), dtype="string", name="kind")
    words = layers.GlobalAveragePooling1D()(layers.Embedding(40, 8)(vectors(text)))
    kinds = layers.Flatten()(layers.StringLookup(vocabulary=["news", "mail"], output_mode="one_hot")(kind))
    model = tf.keras.Model({"text": text, "kind": kind}, layers.Dense(3)(layers.Concatenate()([words, kinds])))
    model.export(path_of("text_vectors"), verbose=False)
    record("text_vectors", [("serving_default", {"text": texts("The cat, again!", "zebra dogs").reshape(2, 1),
                                                 "kind": texts("mail", "?").reshape(2, 1)})])


def legacy_loops():
    """A graph of 1.x with dataflow loops and conditionals, a table from an asset file and a partitioned variable."""
    words = os.path.join(FOLDER, "legacy.txt")
    with open(words, "w") as file:
        file.write("red\ngreen\nblue")
    v1.disable_control_flow_v2()
    with v1.Graph().as_default(), v1.Session() as sess:
        colours, x = v1.placeholder(tf.string, [None], "colours"), v1.placeholder(tf.float32, [None, 3], "x")
        table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
            words, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), -1)
        rows = v1.get_variable("rows", [4, 3], partitioner=v1.fixed_size_partitioner(2), use_resource=False)
        found = v1.nn.embedding_lookup(rows, table.lookup(colours) + 1, partition_strategy="div")
        _, powers = v1.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, v1.cond(
            tf.reduce_sum(y) > 0, lambda: y * 0.5 + found, lambda: y - 1.0)), [tf.constant(0), x])
        sess.run([v1.global_variables_initializer(), v1.tables_initializer()])
        v1.saved_model.simple_save(sess, path_of("legacy_loops"), {"colours": colours, "x": x},
                                   {"powers": powers, "ids": table.lookup(colours)}, legacy_init_op=v1.tables_initializer())
    v1.enable_control_flow_v2()
    record("legacy_loops", [("serving_default", {"colours": texts("blue", "red", "none"), "x": floats(3, 3)})])


def sequences():
    """Serialized sequence examples, sparse embeddings, and a mutable table that requests do not change."""
    class Model(tf.Module):
        def __init__(self):
            self.table = tf.Variable(floats(20, 4))
            self.names = tf.lookup.experimental.MutableHashTable(tf.int64, tf.string, "none")
            self.names.insert(tf.constant([1, 2], tf.int64), tf.constant(["one", "two"]))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "sequences")])
        def __call__(self, sequences):
            context, steps, _ = tf.io.parse_sequence_example(
                sequences, {"user": tf.io.FixedLenFeature([], tf.int64)},
                {"items": tf.io.VarLenFeature(tf.int64), "times": tf.io.RaggedFeature(tf.float32)})
            flat = tf.sparse.reshape(steps["items"], [tf.shape(sequences)[0], -1])
            return {"mean": tf.nn.embedding_lookup_sparse(self.table, flat, None, combiner="mean"),
                    "user": self.names.lookup(context["user"]), "size": steps["times"].row_lengths(),
                    "last": tf.reduce_max(steps["times"], axis=[1, 2])}

    model = Model()
    tf.saved_model.save(model, path_of("sequences"), {"serving_default": model.__call__})
    rows = []
    for user, items, times in ((1, [[3], [4, 5]], [[0.5], [1.5]]), (7, [[9]], [[2.0, 3.0]])):
        made = tf.train.SequenceExample()
        made.context.feature["user"].int64_list.value.append(user)
        for each in items:
            made.feature_lists.feature_list["items"].feature.add().int64_list.value.extend(each)
        for each in times:
            made.feature_lists.feature_list["times"].feature.add().float_list.value.extend(each)
        rows.append(made.SerializeToString())
    record("sequences", [("serving_default", {"sequences": texts(*rows)})])


def keras_2():
    """What `save` of Keras 2 writes: a custom regularized layer, two outputs and a state."""
    import tf_keras
    tf_keras.utils.set_random_seed(6)
    layers = tf_keras.layers
    x = tf_keras.Input((10, 4), name="series")
    hidden = layers.GRU(5, return_sequences=True, kernel_regularizer="l2")(layers.Masking()(x))
    first = layers.Dense(2, name="first")(layers.GlobalMaxPooling1D()(hidden))
    second = layers.TimeDistributed(layers.Dense(1, "sigmoid"), name="second")(layers.LayerNormalization()(hidden))
    tf_keras.Model(x, {"first": first, "second": second}).save(path_of("keras_2"))
    record("keras_2", [("serving_default", {"series": floats(2, 10, 4)})])


def detection():
    """Boxes from anchors, suppression per class, crops of the best ones: results of unknown size."""
    class Model(tf.Module):
        def __init__(self):
            self.scores, self.boxes = tf.Variable(floats(4, 3)), tf.Variable(floats(4, 4) * 0.1)

        @tf.function(input_signature=[tf.TensorSpec([None, 32, 32, 3], tf.float32, "images"),
                                      tf.TensorSpec([], tf.float32, "threshold")])
        def __call__(self, images, threshold):
            cells = tf.nn.avg_pool2d(tf.concat([images, images[..., :1] ** 2], -1), 4, 4, "VALID")
            flat = tf.reshape(cells, [tf.shape(cells)[0], 64, 4])
            rows, columns = tf.meshgrid(tf.range(8.0) / 8, tf.range(8.0) / 8, indexing="ij")
            anchors = tf.reshape(tf.stack([rows, columns, rows + 0.25, columns + 0.25], -1), [64, 4])
            boxes = tf.clip_by_value(anchors + flat @ self.boxes, 0.0, 1.0)
            scores = tf.sigmoid(flat @ self.scores)
            found = tf.image.combined_non_max_suppression(boxes[:, :, None], scores, 3, 5, 0.4, threshold)
            whole = tf.image.non_max_suppression(boxes[0], scores[0, :, 0], 6, 0.3, threshold)
            crops = tf.image.crop_and_resize(images, found.nmsed_boxes[:, 0], tf.range(tf.shape(images)[0]), [4, 4])
            return {"boxes": found.nmsed_boxes, "scores": found.nmsed_scores, "classes": found.nmsed_classes,
                    "count": found.valid_detections, "first": whole, "crops": crops,
                    "best": tf.math.top_k(scores[..., 0], 4).indices}

    model = Model()
    tf.saved_model.save(model, path_of("detection"), {"serving_default": model.__call__})
    record("detection", [("serving_default", {"images": floats(2, 32, 32, 3), "threshold": np.float32(t)}) for t in (0.3, 0.9)])


def audio():
    """WAV files to log mel spectrograms to scores."""
    class Model(tf.Module):
        def __init__(self):
            self.w = tf.Variable(floats(20, 4))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "audio_bytes")])
        def __call__(self, audio_bytes):
            waves = tf.map_fn(lambda b: tf.audio.decode_wav(b, 1, 2048).audio[:, 0], audio_bytes,
                              fn_output_signature=tf.float32)
            power = tf.abs(tf.signal.stft(waves, 256, 128)) ** 2
            mel = power @ tf.signal.linear_to_mel_weight_matrix(20, 129, 8000, 60.0, 3800.0)
            logs = tf.math.log(mel + 1e-3)
            return {"scores": tf.reduce_mean(logs, 1) @ self.w, "loud": tf.reduce_max(tf.abs(waves), 1),
                    "cepstrum": tf.signal.mfccs_from_log_mel_spectrograms(logs)[..., :5]}

    model = Model()
    tf.saved_model.save(model, path_of("audio"), {"serving_default": model.__call__})
    files = [tf.audio.encode_wav(np.clip(0.3 * floats(n, 1), -1, 1), 8000).numpy() for n in (2048, 900)]
    record("audio", [("serving_default", {"audio_bytes": texts(*files)})])


def decoder():
    """Greedy decoding with a cache: a loop that grows tensors and ends by its values."""
    class Model(tf.Module):
        def __init__(self):
            self.words, self.w, self.out = (tf.Variable(floats(*s) * 0.5) for s in ((30, 16), (16, 48), (16, 30)))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "start"), tf.TensorSpec([], tf.int32, "most")])
        def __call__(self, start, most):
            batch, tokens = tf.shape(start)[0], tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=[None])
            cache, last, done, step = tf.zeros([batch, 0, 32]), start, tf.zeros([batch], tf.bool), 0
            while step < most and not tf.reduce_all(done):
                tf.autograph.experimental.set_loop_options(shape_invariants=[
                    (cache, tf.TensorShape([None, None, 32])), (last, tf.TensorShape([None])), (done, tf.TensorShape([None]))])
                q, kv = tf.split(tf.gather(self.words, last) @ self.w, [16, 32], -1)
                cache = tf.concat([cache, kv[:, None]], 1)
                k, v = tf.split(cache, 2, -1)
                mixed = tf.einsum("bt,btd->bd", tf.nn.softmax(tf.einsum("bd,btd->bt", q, k) * 0.25), v)
                last = tf.where(done, 0, tf.argmax(tf.tanh(mixed + q) @ self.out, -1, tf.int32))
                done |= last % 7 == 3
                tokens = tokens.write(step, last)
                step += 1
            return {"tokens": tf.transpose(tokens.stack()), "steps": step, "cache": cache}

    model = Model()
    tf.saved_model.save(model, path_of("decoder"), {"serving_default": model.__call__})
    record("decoder", [("serving_default", {"start": np.array(s, np.int32), "most": np.int32(n)})
                       for s, n in (([1, 2, 8], 12), ([5], 1), ([4, 9], 30))])


def columns():
    """Feature columns of 1.x over serialized examples: buckets, crosses, hashes, vocabularies and weighted embeddings."""
    fc = tf.feature_column
    age = fc.numeric_column("age")
    city = fc.categorical_column_with_vocabulary_list("city", ["rome", "oslo"], num_oov_buckets=1)
    buckets, words = fc.bucketized_column(age, [20, 40]), fc.categorical_column_with_hash_bucket("words", 50)
    weighted = fc.weighted_categorical_column(words, "weights")
    made = [age, buckets, fc.indicator_column(city), fc.embedding_column(weighted, 3, combiner="sqrtn"),
            fc.indicator_column(fc.crossed_column([buckets, "city"], 20))]
    with v1.Graph().as_default(), v1.Session() as sess:
        rows = v1.placeholder(tf.string, [None], "rows")
        parsed = tf.io.parse_example(rows, fc.make_parse_example_spec(made))
        x = v1.feature_column.input_layer(parsed, made)
        linear = v1.feature_column.linear_model(parsed, [buckets, city, weighted])
        w = v1.get_variable("w", [x.shape[1], 2], initializer=v1.random_normal_initializer(seed=1))
        scores = tf.nn.softmax(x @ w + linear)
        sess.run([v1.global_variables_initializer(), v1.tables_initializer()])
        info = v1.saved_model.utils.build_tensor_info
        builder = v1.saved_model.Builder(path_of("columns"))
        builder.add_meta_graph_and_variables(sess, ["serve"], {"serving_default": v1.saved_model.build_signature_def(
            {"rows": info(rows)}, {"scores": info(scores), "layer": info(x)}, "tensorflow/serving/predict")},
            main_op=v1.tables_initializer(), strip_default_attrs=True)
        builder.save()
    given = texts(example(age=[33.0], city=[b"oslo"], words=[b"a", b"b"], weights=[0.5, 2.0]),
                  example(age=[70.0], city=[b"paris"], words=[b"c"], weights=[1.0]), example(age=[5.0]))
    record("columns", [("serving_default", {"rows": given})])


def processes():
    """Linear algebra and nested functions: a Gaussian process, a branch by index, a vectorized map, gradients inside."""
    class Model(tf.Module):
        def __init__(self):
            self.x, self.y = tf.Variable(floats(12, 2)), tf.Variable(floats(12, 1))

        @tf.function
        def kernel(self, a, b):
            return tf.exp(-0.5 * tf.reduce_sum((a[:, None] - b) ** 2, -1))

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([], tf.int32, "what")])
        def __call__(self, x, what):
            root = tf.linalg.cholesky(self.kernel(self.x, self.x) + 0.1 * tf.eye(12))
            across = self.kernel(x, self.x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                mean = self.kernel(x, self.x) @ tf.linalg.cholesky_solve(root, self.y)
            half = tf.linalg.triangular_solve(root, tf.transpose(across))
            chosen = tf.switch_case(what, [lambda: mean, lambda: tf.sort(mean, 0), lambda: tf.cumsum(mean)],
                                    default=lambda: -mean)
            return {"mean": mean, "variance": 1 - tf.reduce_sum(half ** 2, 0), "slope": tape.gradient(mean, x),
                    "chosen": chosen, "norms": tf.vectorized_map(lambda r: tf.linalg.det(tf.tensordot(r, r, 0) + tf.eye(2)), x),
                    "singular": tf.linalg.svd(across, compute_uv=False)}

    model = Model()
    tf.saved_model.save(model, path_of("processes"), {"serving_default": model.__call__})
    record("processes", [("serving_default", {"x": floats(3, 2), "what": np.int32(i)}) for i in (0, 1, 2, 9)])


def mobile():
    """A network of Keras 2 with depthwise convolutions, squeeze and excitation, and preprocessing inside."""
    import tf_keras
    tf_keras.utils.set_random_seed(8)
    model = tf_keras.applications.MobileNetV3Small((64, 64, 3), alpha=0.75, weights=None, classes=10,
                                                   classifier_activation=None)
    for v in model.weights:                      # otherwise images would hardly matter
        v.assign(v + 0.05 * floats(*v.shape))
    model.save(path_of("mobile"))
    record("mobile", [("serving_default", {"input_1": RNG.integers(0, 255, (2, 64, 64, 3)).astype(np.float32)})])


def labelled():
    """Two versions that answer differently; labels choose between them."""
    class Model(tf.Module):
        def __init__(self, factor):
            self.factor = tf.Variable(factor)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
        def __call__(self, x):
            return {"y": x * self.factor}

    for version in (1, 2):
        model = Model(float(version))
        tf.saved_model.save(model, os.path.join(FOLDER, "labelled", str(version)), {"serving_default": model.__call__})


for make in (signatures, strings, ragged, examples, tables, control_flow, session_graph, keras_model, recurrent, bert,
             images, dtypes, text_vectors, legacy_loops, sequences, keras_2, detection, audio, decoder, columns, processes,
             mobile, labelled):
    make()
