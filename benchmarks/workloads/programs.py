"""Ten ordinary programs of recommendation, sequences, graphs and input pipelines beside TensorFlow on the CPU.
"""
from __future__ import annotations

import tempfile

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def stepping(tf, params, opt, loss):
    """One step of training by a function of some tensors."""
    @tf.function
    def step(*args):
        with tf.GradientTape() as tape:
            value = loss(*args)
        opt.apply_gradients(zip(tape.gradient(value, params), params, strict=True))
        return value
    return step


@workload
def din_history(tf):
    """Deep interest network: attention of an item over a padded history of clicks."""
    r = np.random.RandomState(0)
    items, history = tf.Variable(r.randn(4000, 24).astype("f") * 0.05), r.randint(1, 4000, [128, 30])
    for row, length in enumerate(r.randint(3, 31, 128)):
        history[row, length:] = 0
    K = tf.keras.layers
    score = tf.keras.Sequential([K.Dense(32, "sigmoid"), K.Dense(1)])
    top = tf.keras.Sequential([K.Dense(48, "relu"), K.Dense(1)])
    score.build((None, None, 96)), top.build((None, 48))
    history, item = tf.constant(history), tf.constant(r.randint(1, 4000, 128))
    y = tf.constant(r.randint(0, 2, [128, 1]).astype("f"))

    def loss(history, item, y):
        past, now = tf.nn.embedding_lookup(items, history), tf.nn.embedding_lookup(items, item)
        query = tf.broadcast_to(now[:, None], tf.shape(past))
        weights = score(tf.concat([past, query, past - query, past * query], -1))[..., 0]
        weights = tf.nn.softmax(tf.where(history > 0, weights, -1e9))
        interest = tf.einsum("bt,btd->bd", weights, past)
        logits = top(tf.concat([interest, now], 1))
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
    step = stepping(tf, [items, *score.trainable_variables, *top.trainable_variables], tf.keras.optimizers.Adam(1e-3), loss)
    return lambda: float(step(history, item, y))


@workload
def factorization_machine(tf):
    """Second-order factorization machine over 20 sparse fields, FTRL for the linear part of tf.compat.v1."""
    v1, r = tf.compat.v1, np.random.RandomState(0)
    graph = tf.Graph()
    with graph.as_default():
        ids, y = v1.placeholder(tf.int64, [None, 20]), v1.placeholder(tf.float32, [None])
        w, v = v1.get_variable("w", [20000]), v1.get_variable("v", [20000, 8])
        rows = tf.gather(v, ids)
        pairs = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(rows, 1)) - tf.reduce_sum(tf.square(rows), 1), 1)
        logits = tf.reduce_sum(tf.gather(w, ids), 1) + pairs
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        train = tf.group(v1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01).minimize(loss, var_list=[w]),
                         v1.train.AdagradOptimizer(0.05).minimize(loss, var_list=[v]))
        init = v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(init)
    feed = {ids: r.randint(0, 20000, [256, 20]), y: r.randint(0, 2, 256).astype("f")}
    return lambda: session.run([loss, train], feed)[0]


@workload
def node2vec_nce(tf):
    """Random walks over a graph in a function, then noise-contrastive estimation of their pairs."""
    r = np.random.RandomState(0)
    neighbours = tf.constant(r.randint(0, 3000, [3000, 12]))
    table, out = tf.Variable(r.randn(3000, 32).astype("f") * 0.1), tf.Variable(r.randn(3000, 32).astype("f") * 0.1)
    bias = tf.Variable(tf.zeros([3000]))
    start = tf.constant(r.randint(0, 3000, 128))

    def loss(start):
        walk, at = [start], start
        for _ in range(4):
            at = tf.gather_nd(neighbours, tf.stack([at, tf.random.uniform([128], 0, 12, tf.int64)], 1))
            walk.append(at)
        centre, context = tf.tile(start, [4]), tf.concat(walk[1:], 0)
        return tf.reduce_mean(tf.nn.nce_loss(out, bias, context[:, None], tf.nn.embedding_lookup(table, centre), 16, 3000))
    step = stepping(tf, [table, out, bias], tf.keras.optimizers.SGD(0.1), loss)

    def call():
        step(start)
        return 0.0
    return call


@workload
def crf_tagger(tf):
    """A bidirectional LSTM with a linear-chain CRF: the forward algorithm as a loop."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    x, tags = tf.constant(r.randint(1, 2000, [16, 25])), tf.constant(r.randint(0, 9, [16, 25]))
    body = tf.keras.Sequential([K.Embedding(2000, 32), K.Bidirectional(K.LSTM(24, return_sequences=True)), K.Dense(9)])
    body(x)
    move = tf.Variable(r.randn(9, 9).astype("f") * 0.1)

    def loss(x, tags):
        scores = body(x)
        alpha = scores[:, 0]
        for t in tf.range(1, 25):
            alpha = tf.reduce_logsumexp(alpha[:, :, None] + move[None], 1) + scores[:, t]
        total = tf.reduce_logsumexp(alpha, 1)
        unary = tf.reduce_sum(tf.gather(scores, tags, batch_dims=2), 1)
        binary = tf.reduce_sum(tf.gather_nd(move, tf.stack([tags[:, :-1], tags[:, 1:]], -1)), 1)
        return tf.reduce_mean(total - unary - binary)
    step = stepping(tf, [*body.trainable_variables, move], tf.keras.optimizers.Adam(1e-3), loss)
    return lambda: float(step(x, tags))


@workload
def beam_search(tf):
    """Beam search over a GRU cell in tf.while_loop with top_k, gathers and tensor arrays."""
    r = np.random.RandomState(0)
    batch, beams, words, width = 8, 4, 500, 48
    cell, table = tf.keras.layers.GRUCell(width), tf.constant(r.randn(words, width).astype("f"))
    project = tf.constant(r.randn(width, words).astype("f") * 0.3)
    cell.build((None, width))

    @tf.function
    def decode(state):
        def body(t, tokens, state, scores, out):
            h, _ = cell(tf.gather(table, tf.reshape(tokens, [-1])), [tf.reshape(state, [-1, width])])
            logits = tf.nn.log_softmax(h @ project)
            all_scores = tf.reshape(scores[:, :, None] + tf.reshape(logits, [batch, beams, words]), [batch, -1])
            scores, chosen = tf.math.top_k(all_scores, beams)
            parent = chosen // words
            state = tf.gather(tf.reshape(h, [batch, beams, width]), parent, batch_dims=1)
            tokens = chosen % words
            return t + 1, tokens, state, scores, out.write(t, tokens)
        first = tf.constant([[0.0] + [-1e9] * (beams - 1)] * batch)
        state = tf.tile(state[:, None], [1, beams, 1])
        _, _, _, scores, out = tf.while_loop(lambda t, *_: t < 20, body, [
            0, tf.zeros([batch, beams], tf.int32), state, first, tf.TensorArray(tf.int32, 20)])
        return tf.reduce_sum(scores) + tf.cast(tf.reduce_sum(out.stack()), tf.float32) * 0.0
    start = tf.constant(r.randn(batch, width).astype("f"))
    return lambda: float(decode(start)) * 0


@workload
def attention_decoder(tf):
    """Sequence to sequence with additive attention, the decoder as an autograph loop with teacher forcing."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    encoder, embed = K.GRU(48, return_sequences=True, return_state=True), K.Embedding(800, 32)
    cell, query, keys, score, project = K.GRUCell(48), K.Dense(32), K.Dense(32), K.Dense(1), K.Dense(800)
    x, y = tf.constant(r.randint(0, 800, [16, 20])), tf.constant(r.randint(0, 800, [16, 15]))

    def loss(x, y):
        memory, h = encoder(embed(x))
        prepared, total, inputs = keys(memory), 0.0, embed(y)
        for t in tf.range(14):
            weights = tf.nn.softmax(score(tf.tanh(prepared + query(h)[:, None])), axis=1)
            context = tf.reduce_sum(weights * memory, 1)
            _, states = cell(tf.concat([inputs[:, t], context], 1), [h])
            h = states[0] if isinstance(states, (list, tuple)) else states
            total += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y[:, t + 1], logits=project(h)))
        return total / 14.0
    embed(x), encoder(embed(x)), query(tf.zeros([1, 48])), keys(tf.zeros([1, 1, 48])), score(tf.zeros([1, 1, 32]))
    cell(tf.zeros([1, 80]), [tf.zeros([1, 48])]), project(tf.zeros([1, 48]))
    params = [v for layer in (encoder, embed, cell, query, keys, score, project) for v in layer.trainable_variables]
    step = stepping(tf, params, tf.keras.optimizers.RMSprop(1e-3), loss)
    return lambda: float(step(x, y))


@workload
def records_interleaved_augmented(tf):
    """Interleaved TFRecord files of raw images: parse, decode, crop, flip, colours, batch."""
    r, paths = np.random.RandomState(0), []
    for _ in range(4):
        paths.append(tempfile.mktemp(".tfrecord"))
        with tf.io.TFRecordWriter(paths[-1]) as writer:
            for i in range(64):
                image = r.randint(0, 255, [40, 40, 3]).astype("uint8").tobytes()
                writer.write(tf.train.Example(features=tf.train.Features(feature={
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 10])),
                })).SerializeToString())
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record):
        found = tf.io.parse_single_example(record, spec)
        image = tf.reshape(tf.io.decode_raw(found["image"], tf.uint8), [40, 40, 3])
        image = tf.image.random_flip_left_right(tf.image.random_crop(tf.cast(image, tf.float32) / 255.0, [32, 32, 3]))
        return tf.image.random_hue(tf.image.random_contrast(image, 0.7, 1.3), 0.1), found["label"]
    ds = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=2)
    ds = ds.shuffle(64, seed=1).map(parse, num_parallel_calls=2).batch(32).prefetch(1)
    return lambda: float(sum(int(tf.reduce_sum(labels)) for _, labels in ds))


@workload
def bucketed_text(tf):
    """Lines to tokens by a table, grouped by length into padded batches."""
    r = np.random.RandomState(0)
    lines = [" ".join(f"w{r.randint(0, 900)}" for _ in range(r.randint(3, 40))) for _ in range(400)]
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        [f"w{i}" for i in range(900)], np.arange(1, 901)), 0)
    ds = tf.data.Dataset.from_tensor_slices(lines).map(lambda line: table.lookup(tf.strings.split(line)))
    ds = ds.bucket_by_sequence_length(lambda ids: tf.shape(ids)[0], [10, 20, 30], [16, 16, 16, 16])
    return lambda: float(sum(int(tf.reduce_sum(batch)) for batch in ds))


@workload
def simclr_views(tf):
    """Two random views of each image: resized crops, flips, jitter of colours, grey, blur by a convolution."""
    x = np.random.RandomState(0).randint(0, 255, [96, 48, 48, 3]).astype("uint8")
    blur = tf.constant(np.tile((np.outer([1, 2, 1], [1, 2, 1]) / 16.0)[:, :, None, None], [1, 1, 3, 1]).astype("f"))

    def view(image):
        side = tf.random.uniform([], 24, 48, tf.int32)
        image = tf.image.resize(tf.image.random_crop(image, tf.stack([side, side, 3])), [32, 32])
        image = tf.image.random_flip_left_right(image)
        image = tf.image.random_saturation(tf.image.random_brightness(image, 0.3), 0.6, 1.4)
        if tf.random.uniform([]) < 0.2:
            image = tf.tile(tf.image.rgb_to_grayscale(image), [1, 1, 3])
        return tf.nn.depthwise_conv2d(image[None], blur, [1, 1, 1, 1], "SAME")[0]

    def views(image):
        image = tf.cast(image, tf.float32) / 255.0
        return view(image), view(image)
    ds = tf.data.Dataset.from_tensor_slices(x).map(views, num_parallel_calls=2).batch(32)

    def call():
        for a, _ in ds:
            last = a
        return float(last[0, 0, 0, 0]) * 0
    return call


@workload
def ctc_speech(tf):
    """Spectrograms through a convolution and a GRU into CTC loss."""
    K, r = tf.keras.layers, np.random.RandomState(0)
    sound = tf.constant(r.randn(8, 4000).astype("f"))
    labels, lengths = tf.constant(r.randint(1, 20, [8, 6]).astype("int32")), tf.fill([8], 6)
    body = tf.keras.Sequential([K.Conv1D(32, 5, strides=2, padding="same", activation="relu"),
                                K.GRU(32, return_sequences=True), K.Dense(21)])
    body(tf.zeros([8, 61, 65]))

    def loss(sound):
        features = tf.math.log(tf.abs(tf.signal.stft(sound, 128, 64)) + 1e-4)
        logits = tf.transpose(body(features), [1, 0, 2])
        steps = tf.fill([8], tf.shape(logits)[0])
        return tf.reduce_mean(tf.nn.ctc_loss(labels, logits, lengths, steps, logits_time_major=True, blank_index=0))
    step = stepping(tf, body.trainable_variables, tf.keras.optimizers.Adam(1e-3), loss)
    return lambda: float(step(sound))
