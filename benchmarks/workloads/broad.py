"""Fourteen programs of different areas: stacked hourglasses, cheap features under augmentation, attention by random features,
compressed interactions of fields in a session, sampled neighbours of a graph, a vocoder against critics, invertible
convolutions, least squares by damped steps, trees of words in a loop, maps that organize themselves, documents of masked
sentences, lines of text of any width, volumes. Written before anyone ran or profiled them."""
from __future__ import annotations

import numpy as np

from workloads import work_table

WORK, workload = work_table()


def normal(*dims, seed=0):
    return np.random.RandomState(seed).randn(*dims).astype("f")


def ids(high, *dims, seed=0, low=0):
    return np.random.RandomState(seed).randint(low, high, dims)


def last(history):
    """The last loss of a `fit`."""
    return float(history.history["loss"][-1])


def applied(tape, loss, variables, optimizer):
    """One update of some variables."""
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))


# vision

@workload
def stacked_hourglasses_fit(tf):
    """`fit` of two hourglasses that find points of a body: halves and doubles, a heat map and a loss after each, callbacks."""
    K = tf.keras.layers

    def residual(x, width):
        short = x if x.shape[-1] == width else K.Conv2D(width, 1)(x)
        for kernel, n in ((1, width // 2), (3, width // 2), (1, width)):
            x = K.Conv2D(n, kernel, padding="same")(K.ReLU()(K.BatchNormalization()(x)))
        return K.Add()([short, x])

    def hourglass(x, depth, width):
        low = residual(K.MaxPool2D()(x), width)
        low = hourglass(low, depth - 1, width) if depth > 1 else residual(low, width)
        return K.Add()([residual(x, width), K.UpSampling2D()(low)])
    inputs = tf.keras.Input([48, 48, 3])
    x, maps = residual(K.MaxPool2D()(K.Conv2D(16, 5, padding="same")(inputs)), 32), []
    for i in range(2):
        x = hourglass(x, 2, 32)
        maps.append(K.Conv2D(8, 1, name=f"map{i}")(x))
        x = K.Add()([x, K.Conv2D(32, 1)(maps[-1])])
    model = tf.keras.Model(inputs, maps)
    model.compile(tf.keras.optimizers.RMSprop(1e-3), "mse", metrics={"map1": ["mae"]})
    a, b = normal(24, 48, 48, 3), np.random.RandomState(1).rand(24, 24, 24, 8).astype("f")
    calls = [tf.keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1),
             tf.keras.callbacks.LearningRateScheduler(lambda epoch: 1e-3 * 0.9 ** epoch),
             tf.keras.callbacks.EarlyStopping(monitor="loss", patience=9)]
    return lambda: last(model.fit(a, [b, b], batch_size=8, callbacks=calls, verbose=0))


@workload
def cheap_features_augmented_fit(tf):
    """`fit` of ghost modules (half of the features by depthwise filters), squeeze and excitation, behind augmentation."""
    K = tf.keras.layers

    def ghost(x, width, act=True):
        first = K.BatchNormalization()(K.Conv2D(width // 2, 1, use_bias=False)(x))
        first = K.ReLU()(first) if act else first
        second = K.BatchNormalization()(K.DepthwiseConv2D(3, padding="same", use_bias=False)(first))
        return K.Concatenate()([first, K.ReLU()(second) if act else second])

    def block(x, wide, out, stride):
        y = ghost(x, wide)
        if stride > 1:
            y = K.BatchNormalization()(K.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(y))
        s = K.GlobalAveragePooling2D(keepdims=True)(y)
        s = K.Conv2D(wide, 1)(K.Conv2D(wide // 4, 1, activation="relu")(s))
        y = ghost(K.Multiply()([y, K.Lambda(lambda t: tf.nn.relu6(t + 3.0) / 6.0)(s)]), out, act=False)
        if stride == 1 and x.shape[-1] == out:
            return K.Add()([x, y])
        x = K.BatchNormalization()(K.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x))
        return K.Add()([K.BatchNormalization()(K.Conv2D(out, 1, use_bias=False)(x)), y])
    inputs = tf.keras.Input([40, 40, 3])
    x = K.RandomZoom(0.1, seed=3)(K.RandomTranslation(0.1, 0.1, seed=2)(K.RandomFlip("horizontal", seed=1)(inputs)))
    x = K.RandomContrast(0.2, seed=4)(x)
    x = K.ReLU()(K.BatchNormalization()(K.Conv2D(16, 3, 2, padding="same", use_bias=False)(x)))
    for wide, out, stride in ((32, 16, 1), (48, 24, 2), (72, 24, 1), (96, 40, 2), (120, 40, 1)):
        x = block(x, wide, out, stride)
    model = tf.keras.Model(inputs, K.Dense(10)(K.Dropout(0.2)(K.GlobalAveragePooling2D()(x))))
    model.compile(tf.keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
                  tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    a, b = np.random.RandomState(0).rand(48, 40, 40, 3).astype("f"), ids(10, 48)
    data = tf.data.Dataset.from_tensor_slices((a, b)).shuffle(48, seed=0).batch(16).prefetch(2)
    return lambda: last(model.fit(data, verbose=0))


@workload
def volumes_dice_fit(tf):
    """A V-shaped network over volumes: 3-D convolutions, strided and transposed, PReLU, a loss of overlap; `train_on_batch`."""
    K = tf.keras.layers

    def stage(x, width, count):
        start = x
        for _ in range(count):
            x = K.PReLU(shared_axes=[1, 2, 3])(K.Conv3D(width, 3, padding="same")(x))
        return K.Add()([start, x]) if start.shape[-1] == width else x

    def overlap(y, p):
        both = tf.reduce_sum(y * p, [1, 2, 3])
        return 1.0 - tf.reduce_mean((2.0 * both + 1.0) / (tf.reduce_sum(y + p, [1, 2, 3]) + 1.0), -1)
    inputs = tf.keras.Input([16, 24, 24, 1])
    a = stage(inputs, 8, 1)
    b = stage(K.Conv3D(16, 2, 2)(a), 16, 2)
    c = stage(K.Conv3D(32, 2, 2)(b), 32, 2)
    x = stage(K.Concatenate()([K.Conv3DTranspose(16, 2, 2)(c), b]), 32, 1)
    x = stage(K.Concatenate()([K.Conv3DTranspose(8, 2, 2)(x), a]), 16, 1)
    model = tf.keras.Model(inputs, K.Conv3D(2, 1, activation="softmax")(K.SpatialDropout3D(0.1)(x)))
    model.compile(tf.keras.optimizers.Adam(1e-3), overlap)
    volume, mask = normal(2, 16, 24, 24, 1), np.eye(2, dtype="f")[ids(2, 2, 16, 24, 24)]
    return lambda: float(model.train_on_batch(volume, mask))


@workload
def lines_of_any_width(tf):
    """Inference: lines of text as images, each batch of another width, convolutions, two directions, greedy decoding."""
    K = tf.keras.layers
    inputs = x = tf.keras.Input([32, None, 1])
    for width, pool in ((16, 2), (32, 2), (48, (2, 1)), (48, (2, 1))):
        x = K.MaxPool2D(pool)(K.Activation("relu")(K.BatchNormalization()(K.Conv2D(width, 3, padding="same")(x))))
    x = K.Reshape([-1, 96])(K.Permute([2, 1, 3])(x))
    x = K.Bidirectional(K.LSTM(48, return_sequences=True))(x)
    model = tf.keras.Model(inputs, K.Dense(40)(x))

    @tf.function(input_signature=[tf.TensorSpec([None, 32, None, 1], tf.float32)])
    def read(images):
        logits = tf.transpose(model(images, training=False), [1, 0, 2])
        lengths = tf.fill([tf.shape(images)[0]], tf.shape(logits)[0])
        decoded, score = tf.nn.ctc_greedy_decoder(logits, lengths)
        return tf.sparse.to_dense(decoded[0], default_value=-1), score
    lines = [tf.constant(normal(4, 32, w, 1, seed=w)) for w in (96, 128, 80, 112, 144, 64)]
    return lambda: float(sum(tf.reduce_sum(read(line)[1]) for line in lines))


# language

@workload
def random_feature_attention(tf):
    """A causal language model whose attention is a product of positive random features, rotated queries, AdamW, clipping."""
    width, heads, features, length = 96, 4, 32, 96
    size = width // heads
    r = [tf.Variable(0.05 * normal(*d, seed=i)) for i, d in enumerate(
        [(500, width)] + [(width, 3 * width), (width, width), (width, 2 * width), (2 * width, width)] * 2)]
    projection = tf.constant(normal(size, features, seed=99))
    angle = np.arange(length)[:, None] / 10000.0 ** (np.arange(size // 2) / (size // 2))
    cos, sin = tf.constant(np.cos(angle).astype("f")), tf.constant(np.sin(angle).astype("f"))
    slots = [(tf.Variable(tf.zeros_like(v)), tf.Variable(tf.zeros_like(v))) for v in r]
    count = tf.Variable(0.0)

    def rotated(x):
        a, b = tf.split(x, 2, -1)
        return tf.concat([a * cos - b * sin, a * sin + b * cos], -1)

    def positive(x):
        x = x * size ** -0.25
        dash = tf.einsum("bhld,df->bhlf", x, projection) - 0.5 * tf.reduce_sum(x * x, -1, keepdims=True)
        return tf.exp(dash - tf.stop_gradient(tf.reduce_max(dash, [-1, -2], keepdims=True))) + 1e-4

    def rms(x):
        return x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6)

    @tf.function
    def step(words):
        with tf.GradientTape() as tape:
            x = tf.gather(r[0], words[:, :-1])
            for i in (1, 5):
                qkv = tf.reshape(rms(x) @ r[i], [8, length, 3, heads, size])
                q, k, v = tf.unstack(tf.transpose(qkv, [2, 0, 3, 1, 4]))
                q, k = positive(rotated(q)), positive(rotated(k))
                sums = tf.cumsum(tf.einsum("bhlf,bhld->bhlfd", k, v), 2)
                norm = tf.reduce_sum(q * tf.cumsum(k, 2), -1, keepdims=True)
                y = tf.einsum("bhlf,bhlfd->bhld", q, sums) / norm
                x += tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [8, length, width]) @ r[i + 1]
                x += tf.nn.silu(rms(x) @ r[i + 2]) @ r[i + 3]
            logits = tf.matmul(rms(x), r[0], transpose_b=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(words[:, 1:], logits))
        grads, _ = tf.clip_by_global_norm([tf.convert_to_tensor(g) for g in tape.gradient(loss, r)], 1.0)
        t = count.assign_add(1.0)
        for v, g, (m, s) in zip(r, grads, slots, strict=True):
            m.assign(0.9 * m + 0.1 * g)
            s.assign(0.99 * s + 0.01 * g * g)
            step = m / (1.0 - 0.9 ** t) / (tf.sqrt(s / (1.0 - 0.99 ** t)) + 1e-8)
            v.assign_sub(1e-3 * (step + 0.01 * v))
        return loss
    words = tf.constant(ids(500, 8, length + 1))
    return lambda: float(step(words))


@workload
def documents_of_masked_sentences_fit(tf):
    """`fit` of a network of two levels: masked GRUs of both directions with attention over words, then over sentences."""
    K = tf.keras.layers

    class Attended(K.Layer):
        def __init__(self, width):
            super().__init__()
            self.supports_masking = True
            self.score, self.context = K.Dense(width, activation="tanh"), K.Dense(1, use_bias=False)

        def call(self, x, mask=None):
            s = tf.squeeze(self.context(self.score(x)), -1)
            if mask is not None:
                s += (1.0 - tf.cast(mask, s.dtype)) * -1e9
            return tf.reduce_sum(x * tf.nn.softmax(s)[..., None], 1)

        def compute_mask(self, inputs, mask=None):
            return None
    words = tf.keras.Input([14], dtype="int32")
    x = K.Bidirectional(K.GRU(24, return_sequences=True))(K.Embedding(800, 32, mask_zero=True)(words))
    sentence = tf.keras.Model(words, Attended(32)(x))
    documents = tf.keras.Input([6, 14], dtype="int32")
    x = K.TimeDistributed(sentence)(documents)
    x = Attended(32)(K.Bidirectional(K.GRU(24, return_sequences=True))(x))
    model = tf.keras.Model(documents, K.Dense(5, activation="softmax")(x))
    model.compile(tf.keras.optimizers.Adagrad(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
    text = ids(800, 48, 6, 14, low=1) * (np.arange(14) < ids(15, 48, 6, 1, seed=1, low=3))
    y = ids(5, 48, seed=2)
    return lambda: last(model.fit(text, y, batch_size=16, verbose=0))


@workload
def trees_of_words_v1(tf):
    """A session: recursive networks over binary trees, one `while_loop` that fills an array, a `cond` for leaves, gradients."""
    v1, graph, width = tf.compat.v1, tf.Graph(), 32
    with graph.as_default():
        leaf, word = v1.placeholder(tf.bool, [None]), v1.placeholder(tf.int32, [None])
        left, right = v1.placeholder(tf.int32, [None]), v1.placeholder(tf.int32, [None])
        label = v1.placeholder(tf.int32, [None])
        table, w, u, out = (v1.get_variable(n, initializer=0.2 * normal(*d, seed=len(n))) for n, d in (
            ("table", (300, width)), ("w", (2 * width, 5 * width)), ("u", (width, 2 * width)), ("out", (width, 5))))
        count = tf.shape(leaf)[0]
        cells, states = (tf.TensorArray(tf.float32, count, clear_after_read=False, element_shape=[1, width]) for _ in range(2))

        def body(i, cells, states):
            def from_word():
                gate, value = tf.split(tf.matmul(tf.gather(table, word[i])[None], u), 2, 1)
                c = tf.sigmoid(gate) * tf.tanh(value)
                return c, tf.tanh(c)

            def from_children():
                a, b = left[i], right[i]
                both = tf.concat([states.read(a), states.read(b)], 1)
                g, f1, f2, o, v = tf.split(tf.matmul(both, w), 5, 1)
                c = tf.sigmoid(g) * tf.tanh(v) + tf.sigmoid(f1) * cells.read(a) + tf.sigmoid(f2) * cells.read(b)
                return c, tf.sigmoid(o) * tf.tanh(c)
            c, h = v1.cond(leaf[i], from_word, from_children)
            return i + 1, cells.write(i, c), states.write(i, h)
        _, _, states = v1.while_loop(lambda i, *_: i < count, body, [tf.constant(0), cells, states])
        logits = tf.matmul(tf.reshape(states.stack(), [-1, width]), out)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))
        train = v1.train.AdagradOptimizer(0.05).minimize(loss)
        session = v1.Session(graph=graph)
        session.run(v1.global_variables_initializer())
    r, feeds = np.random.RandomState(0), []
    for leaves in (6, 9, 7, 9):
        nodes, open_ = [(True, r.randint(300), 0, 0) for _ in range(leaves)], list(range(leaves))
        while len(open_) > 1:
            at = r.randint(len(open_) - 1)
            nodes.append((False, 0, open_[at], open_[at + 1]))
            open_[at:at + 2] = [len(nodes) - 1]
        feeds.append({**dict(zip((leaf, word, left, right), map(np.array, zip(*nodes, strict=True)), strict=True)),
                      label: r.randint(0, 5, len(nodes))})
    return lambda: float(sum(session.run([loss, train], feed)[0] for feed in feeds))


# recommendation, graphs, audio

@workload
def compressed_interactions_session(tf):
    """xDeepFM in a session: one table with offsets, outer products of fields compressed by filters, batch norm, lazy Adam."""
    v1, graph, fields, size = tf.compat.v1, tf.Graph(), 14, 8
    with graph.as_default():
        v1.set_random_seed(0)
        x, y = v1.placeholder(tf.int64, [None, fields]), v1.placeholder(tf.float32, [None])
        training = v1.placeholder_with_default(True, [])
        flat = x + 700 * tf.range(fields, dtype=tf.int64)
        table = v1.get_variable("table", initializer=0.1 * normal(700 * fields, size))
        first = v1.get_variable("first", initializer=np.zeros(700 * fields, "f"))
        rows = tf.nn.embedding_lookup(table, flat)
        hidden, seen = rows, []
        for i, maps in enumerate((16, 12)):
            count = fields if i == 0 else 8
            outer = tf.reshape(tf.einsum("bfd,bhd->bdfh", rows, hidden), [-1, size, fields * count])
            w = v1.get_variable(f"cross{i}", initializer=0.1 * normal(1, fields * count, maps, seed=i))
            found = tf.transpose(tf.nn.relu(tf.nn.conv1d(outer, w, 1, "VALID")), [0, 2, 1])
            hidden, kept = (found[:, :8], found[:, 8:]) if i == 0 else (None, found)
            seen.append(tf.reduce_sum(kept, 2))
        deep = tf.reshape(rows, [-1, fields * size])
        for i, (a, b) in enumerate(((fields * size, 64), (64, 32))):
            deep = tf.matmul(deep, v1.get_variable(f"deep{i}", initializer=0.1 * normal(a, b, seed=i)))
            mean, variance = tf.nn.moments(deep, [0])
            kept = [v1.get_variable(f"{n}{i}", initializer=np.full(b, v, "f"), trainable=False)
                    for n, v in (("mean", 0.0), ("variance", 1.0))]
            updates = [v1.assign_sub(k, 0.1 * (k - new)) for k, new in zip(kept, (mean, variance), strict=True)]
            use = v1.cond(training, lambda m=mean, v=variance: (m, v), lambda k=kept: tuple(tf.identity(n) for n in k))
            with tf.control_dependencies(updates):
                deep = v1.nn.dropout(tf.nn.relu((deep - use[0]) * tf.math.rsqrt(use[1] + 1e-3)), rate=0.1)
        joined = tf.concat([*seen, deep], 1)
        w = v1.get_variable("last", initializer=0.1 * normal(int(joined.shape[1]), 1))
        logits = tf.squeeze(tf.matmul(joined, w), 1) + tf.reduce_sum(tf.nn.embedding_lookup(first, flat), 1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
        train = v1.train.AdamOptimizer(1e-3).minimize(loss)
        _, area = v1.metrics.auc(y, tf.sigmoid(logits))
        session = v1.Session(graph=graph)
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
    feeds = [{x: ids(700, 256, fields, seed=i), y: ids(2, 256, seed=i).astype("f")} for i in range(3)]
    return lambda: float(sum(session.run([loss, train, area], feed)[0] for feed in feeds))


@workload
def sampled_neighbours(tf):
    """GraphSAGE: two hops of neighbours drawn in the step, means and maxima over them, a loss of pairs with drawn negatives."""
    nodes, degree, width = 3000, 20, 48
    features, around = tf.constant(normal(nodes, 32)), tf.constant(ids(nodes, nodes, degree))
    w = [tf.Variable(0.1 * normal(*d, seed=i)) for i, d in enumerate(
        ((32, width), (64, width), (width, width), (2 * width, width), (width, width)))]
    opt = tf.keras.optimizers.Adam(1e-3)

    def hop(at, count):
        columns = tf.random.uniform([tf.size(at), count], 0, degree, tf.int32)
        return tf.gather(tf.gather(around, tf.reshape(at, [-1])), columns, batch_dims=1)

    def embed(at):
        one = hop(at, 8)
        two = tf.reshape(hop(one, 5), [-1, 5])
        mid = tf.reduce_mean(tf.gather(features, two), 1)
        near = tf.gather(features, tf.reshape(one, [-1]))
        h1 = tf.nn.relu(tf.concat([near, mid], 1) @ w[1])
        h0 = tf.nn.relu(tf.gather(features, at) @ w[0])
        pooled = tf.reduce_max(tf.nn.relu(tf.reshape(h1, [-1, 8, width]) @ w[2]), 1)
        return tf.math.l2_normalize(tf.concat([h0, pooled], 1) @ w[3] + h0 @ w[4], 1)

    @tf.function
    def step(a, b):
        with tf.GradientTape() as tape:
            x, y = embed(a), embed(b)
            z = embed(tf.random.uniform([32], 0, nodes, tf.int32))
            right = tf.nn.sigmoid_cross_entropy_with_logits(tf.ones_like(x[:, 0]), tf.reduce_sum(x * y, 1))
            scores = tf.matmul(x, z, transpose_b=True)
            wrong = tf.nn.sigmoid_cross_entropy_with_logits(tf.zeros_like(scores), scores)
            loss = tf.reduce_mean(right) + tf.reduce_mean(wrong)
        applied(tape, loss, w, opt)
        return loss
    a, b = tf.constant(ids(nodes, 64), tf.int32), tf.constant(ids(nodes, 64, seed=1), tf.int32)
    return lambda: float(step(a, b))


@workload
def vocoder_against_critics(tf):
    """Sound from mel frames: transposed 1-D convolutions with normed weights, dilated residuals, critics of three rates."""
    K = tf.keras.layers

    class Normed(tf.Module):
        def __init__(self, kernel, into, out, seed):
            super().__init__()
            self.v = tf.Variable(0.1 * normal(kernel, into, out, seed=seed))
            self.g = tf.Variable(np.ones(out, "f"))
            self.b = tf.Variable(np.zeros(out, "f"))

        def __call__(self, x, dilation=1):
            w = self.v * (self.g * tf.math.rsqrt(tf.reduce_sum(self.v ** 2, [0, 1])))
            return tf.nn.conv1d(x, w, 1, "SAME", dilations=dilation) + self.b
    up = [tf.Variable(0.1 * normal(2 * s, out, into, seed=s)) for s, into, out in ((8, 48, 32), (4, 32, 16), (2, 16, 8))]
    first, final = Normed(7, 20, 48, 1), Normed(7, 8, 1, 2)
    inner = [[(Normed(3, n, n, n + d), Normed(1, n, n, n + d + 1)) for d in (1, 3)] for n in (32, 16, 8)]
    critics = [tf.keras.Sequential([K.Conv1D(8, 15, padding="same"), K.LeakyReLU(),
                                    K.Conv1D(16, 9, 4, padding="same", groups=4), K.LeakyReLU(),
                                    K.Conv1D(32, 9, 4, padding="same", groups=8), K.LeakyReLU(),
                                    K.Conv1D(1, 3, padding="same")]) for _ in range(3)]
    for critic in critics:
        critic.build([None, None, 1])
    normed = [first, final, *[m for level in inner for pair in level for m in pair]]
    makers = up + [v for m in normed for v in (m.v, m.g, m.b)]
    judges = [v for c in critics for v in c.trainable_variables]
    opts = [tf.keras.optimizers.Adam(1e-4, beta_1=0.5) for _ in range(2)]

    def sound(mel):
        x = first(mel)
        for scale, w, level in zip((8, 4, 2), up, inner, strict=True):
            length = x.shape[1] * scale
            x = tf.nn.conv1d_transpose(tf.nn.leaky_relu(x), w, [x.shape[0], length, w.shape[1]], scale, "SAME")
            for (a, b), d in zip(level, (1, 3), strict=True):
                x += b(tf.nn.leaky_relu(a(tf.nn.leaky_relu(x), d)))
        return tf.tanh(final(tf.nn.leaky_relu(x)))

    def judged(wave):
        found = []
        for critic in critics:
            found.append(critic(wave))
            wave = tf.nn.avg_pool1d(wave, 4, 2, "SAME")
        return found

    @tf.function
    def step(mel, wave):
        with tf.GradientTape() as a, tf.GradientTape() as b:
            made = sound(mel)
            false, true = judged(made), judged(wave)
            critic = tf.add_n([tf.reduce_mean(tf.nn.relu(1.0 - t)) + tf.reduce_mean(tf.nn.relu(1.0 + f))
                               for t, f in zip(true, false, strict=True)])
            maker = -tf.add_n([tf.reduce_mean(f) for f in false]) + tf.reduce_mean(tf.abs(
                tf.abs(tf.signal.stft(made[..., 0], 128, 64)) - tf.abs(tf.signal.stft(wave[..., 0], 128, 64))))
        applied(a, critic, judges, opts[0])
        applied(b, maker, makers, opts[1])
        return critic + maker
    mel, wave = tf.constant(normal(4, 16, 20)), tf.constant(0.1 * normal(4, 1024, 1))
    return lambda: float(step(mel, wave))


# generative, numerics

@workload
def invertible_convolutions(tf):
    """Glow: squeezes, scales by activations, invertible 1x1 convolutions with their determinants, affine couplings, splits."""
    r = np.random.RandomState(0)
    steps, variables = [], []

    def var(value):
        variables.append(tf.Variable(value.astype("f")))
        return variables[-1]
    for channels in (12, 24):
        for _ in range(3):
            steps.append((channels, var(np.zeros(channels)), var(np.zeros(channels)),
                          var(np.linalg.qr(r.randn(channels, channels))[0]), var(0.05 * r.randn(3, 3, channels // 2, 32)),
                          var(0.05 * r.randn(1, 1, 32, 32)), var(np.zeros((3, 3, 32, channels)))))
    opt = tf.keras.optimizers.Adamax(1e-3)

    def flow(x, channels):
        log = 0.0
        size = x.shape[1] * x.shape[2]
        for count, shift, scale, mix, a, b, c in steps:
            if count != channels:
                continue
            x = (x + shift) * tf.exp(scale)
            x = tf.nn.conv2d(x, tf.reshape(mix, [1, 1, count, count]), 1, "SAME")
            log += size * (tf.reduce_sum(scale) + tf.linalg.slogdet(mix)[1])
            one, two = tf.split(x, 2, -1)
            h = tf.nn.relu(tf.nn.conv2d(tf.nn.relu(tf.nn.conv2d(one, a, 1, "SAME")), b, 1, "SAME"))
            t, s = tf.split(tf.nn.conv2d(h, c, 1, "SAME"), 2, -1)
            s = tf.sigmoid(s + 2.0)
            x = tf.concat([one, (two + t) * s], -1)
            log += tf.reduce_sum(tf.math.log(s), [1, 2, 3])
        return x, log

    @tf.function
    def step(images):
        with tf.GradientTape() as tape:
            x = images + tf.random.uniform(tf.shape(images)) / 256.0
            x, log = flow(tf.nn.space_to_depth(x, 2), 12)
            kept, x = tf.split(x, 2, -1)
            x, more = flow(tf.nn.space_to_depth(x, 2), 24)
            prior = tf.add_n([tf.reduce_sum(-0.5 * (z * z + np.log(2 * np.pi)), [1, 2, 3]) for z in (kept, x)])
            loss = -tf.reduce_mean(prior + log + more) / 768.0
        applied(tape, loss, variables, opt)
        return loss
    images = tf.constant(r.rand(8, 16, 16, 3).astype("f"))
    return lambda: float(step(images))


@workload
def damped_least_squares(tf):
    """Levenberg and Marquardt in double precision: 64 cameras at once, Jacobians, damped Cholesky solves, kept if better."""
    r = np.random.RandomState(0)
    points = tf.constant(r.randn(64, 24, 3) + [0.0, 0.0, 6.0])
    start = tf.constant(0.1 * r.randn(64, 6))

    def project(pose, points):
        turn, move = pose[:, None, :3], pose[:, None, 3:]
        angle = tf.sqrt(tf.reduce_sum(turn * turn, -1, keepdims=True) + 1e-12)
        axis = turn / angle + tf.zeros_like(points)
        p = (points * tf.cos(angle) + tf.linalg.cross(axis, points) * tf.sin(angle)
             + axis * tf.reduce_sum(axis * points, -1, keepdims=True) * (1.0 - tf.cos(angle))) + move
        return p[..., :2] / p[..., 2:]
    seen = project(tf.constant(0.1 * r.randn(64, 6)), points) + tf.constant(0.001 * r.randn(64, 24, 2))

    @tf.function
    def solve(pose):
        damping, i = tf.fill([64], tf.constant(1e-2, tf.float64)), 0
        while i < 8:
            with tf.GradientTape() as tape:
                tape.watch(pose)
                rest = tf.reshape(project(pose, points) - seen, [64, 48])
            jacobian = tape.batch_jacobian(rest, pose)
            square = tf.matmul(jacobian, jacobian, transpose_a=True)
            square += tf.linalg.diag(damping[:, None] * tf.linalg.diag_part(square) + 1e-9)
            move = tf.linalg.cholesky_solve(tf.linalg.cholesky(square), tf.matmul(jacobian, rest[..., None], transpose_a=True))
            new = pose - move[..., 0]
            cost = tf.reduce_sum(rest * rest, 1)
            better = tf.reduce_sum(tf.reshape(project(new, points) - seen, [64, 48]) ** 2, 1) < cost
            pose = tf.where(better[:, None], new, pose)
            damping = tf.where(better, damping * 0.3, damping * 4.0)
            i += 1
        return tf.reduce_sum(cost)
    return lambda: float(solve(start))


@workload
def maps_that_organize_v1(tf):
    """A session of a self-organizing map: the nearest unit, a neighbourhood that shrinks, scattered updates, wins counted."""
    v1, graph, side, width = tf.compat.v1, tf.Graph(), 16, 24
    with graph.as_default():
        v1.set_random_seed(0)
        x, step = v1.placeholder(tf.float32, [None, width]), v1.train.get_or_create_global_step()
        units = v1.get_variable("units", initializer=normal(side * side, width))
        wins = v1.get_variable("wins", initializer=np.zeros(side * side, np.int32), trainable=False)
        places = tf.constant(np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2).astype("f"))
        far = tf.reduce_sum(x * x, 1)[:, None] - 2.0 * tf.matmul(x, units, transpose_b=True) + tf.reduce_sum(units ** 2, 1)
        best = tf.argmin(far, 1, output_type=tf.int32)
        error = tf.reduce_mean(tf.sqrt(tf.maximum(tf.reduce_min(far, 1), 0.0)))
        reach = v1.train.exponential_decay(4.0, step, 50, 0.9)
        gap = tf.reduce_sum((tf.gather(places, best)[:, None] - places) ** 2, 2)
        near = tf.exp(-gap / (2.0 * reach ** 2))
        target = tf.matmul(near, x, transpose_a=True) / (tf.reduce_sum(near, 0)[:, None] + 1e-6)
        with tf.control_dependencies([target, error]):
            move = v1.assign(units, units + 0.1 * (target - units))
            count = v1.scatter_add(wins, best, tf.ones_like(best))
        with tf.control_dependencies([move, count]):
            dead = tf.where(tf.equal(wins, 0))[:, 0]
            lost = v1.cond(tf.size(dead) > 0, lambda: v1.scatter_update(units, dead[:1], x[:1]), lambda: tf.identity(units))
        train = tf.group(lost, v1.assign_add(step, 1))
        session = v1.Session(graph=graph)
        session.run(v1.global_variables_initializer())
    batches = [normal(n, width, seed=n) for n in (64, 48, 64, 56)]
    return lambda: float(sum(session.run([error, train], {x: b})[0] for b in batches))


# pipelines

@workload
def pictures_with_words_pipeline(tf):
    """`tf.data`: records of JPEG and text; decoded, cropped at random, resized, distorted; words looked up; padded batches."""
    r, records = np.random.RandomState(0), []
    for i in range(64):
        picture = tf.image.resize(r.randint(0, 256, (9, 12, 3)), [72 + i % 9, 96 - i % 7])
        picture = tf.io.encode_jpeg(tf.cast(picture, tf.uint8), quality=80).numpy()
        text = " ".join(f"w{n}" for n in r.randint(0, 300, r.randint(3, 12)))
        feature = {"image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[picture])),
                   "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()])),
                   "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[i % 10]))}
        records.append(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    words = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(
        [f"w{i}" for i in range(250)], tf.range(250, dtype=tf.int64)), 4)
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "text": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record):
        found = tf.io.parse_single_example(record, spec)
        image = tf.image.convert_image_dtype(tf.io.decode_jpeg(found["image"], channels=3), tf.float32)
        image = tf.image.resize(tf.image.random_crop(image, [64, 64, 3], seed=1), [48, 48])
        image = tf.image.random_saturation(tf.image.random_flip_left_right(image, seed=2), 0.7, 1.3, seed=3)
        image = tf.clip_by_value(tf.image.random_brightness(image, 0.1, seed=4), 0.0, 1.0)
        return {"image": image, "words": words.lookup(tf.strings.split(tf.strings.lower(found["text"])))}, found["label"]
    data = (tf.data.Dataset.from_tensor_slices(records).shuffle(64, seed=0).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
            .padded_batch(16, ({"image": [48, 48, 3], "words": [None]}, [])).prefetch(tf.data.AUTOTUNE))

    def call():
        return float(sum(int(label.shape[0]) + float(x["image"].shape[1]) for x, label in data))
    return call
