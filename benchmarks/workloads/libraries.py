"""Programs of libraries that import TensorFlow: samplers, Gaussian processes, modules, pretrained transformers, Keras 3.

They need the libraries in both environments, for example from a folder: PYTHONPATH=FOLDER after `pip install --no-deps --target
FOLDER tensorflow-probability gpflow dm-sonnet transformers==4.46.3 keras` and what these need.
"""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from workloads import work_table

WORK, _workload = work_table()


def workload(build: Any) -> Any:
    """A workload whose imports of tensorflow are the framework that is measured."""
    def installed(tf: Any) -> Any:
        os.environ.update(KERAS_BACKEND="tensorflow", TF_USE_LEGACY_KERAS="1")
        if hasattr(tf, "install"):
            tf.install()
        return build(tf)
    installed.__name__ = build.__name__
    return _workload(installed)


def normal(*dims: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).randn(*dims).astype("f")


def ids(high: int, *dims: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).randint(0, high, dims)


def regression(tfd: Any, tf: Any) -> Any:
    """The log density of the weights of a logistic regression."""
    x, y = tf.constant(normal(200, 8)), tf.constant(ids(2, 200).astype("f"))

    def log_density(w: Any) -> Any:
        prior = tf.reduce_sum(tfd.Normal(0.0, 1.0).log_prob(w), -1)
        return prior + tf.reduce_sum(tfd.Bernoulli(logits=tf.matmul(w, x, transpose_b=True)).log_prob(y), -1)
    return log_density


@workload
def probability_hmc(tf: Any) -> Any:
    """Hamiltonian Monte Carlo with step size adaptation, 8 chains."""
    import tensorflow_probability as tfp
    kernel = tfp.mcmc.SimpleStepSizeAdaptation(tfp.mcmc.HamiltonianMonteCarlo(
        regression(tfp.distributions, tf), step_size=0.1, num_leapfrog_steps=3), num_adaptation_steps=20)

    @tf.function
    def sample() -> Any:
        return tfp.mcmc.sample_chain(30, tf.zeros([8, 8]), kernel=kernel, num_burnin_steps=20, trace_fn=None, seed=[1, 2])
    return lambda: float(tf.reduce_mean(sample()))


@workload
def probability_nuts(tf: Any) -> Any:
    """The No-U-Turn sampler, 4 chains."""
    import tensorflow_probability as tfp
    kernel = tfp.mcmc.NoUTurnSampler(regression(tfp.distributions, tf), step_size=0.2, max_tree_depth=4)

    @tf.function
    def sample() -> Any:
        return tfp.mcmc.sample_chain(10, tf.zeros([4, 8]), kernel=kernel, num_burnin_steps=0, trace_fn=None, seed=[1, 2])
    return lambda: float(tf.reduce_mean(sample()))


@workload
def probability_surrogate(tf: Any) -> Any:
    """Twenty steps of variational inference with a factored posterior."""
    import tensorflow_probability as tfp
    tfd = tfp.distributions
    log_density = regression(tfd, tf)
    loc, scale = tf.Variable(tf.zeros([8])), tfp.util.TransformedVariable(tf.ones([8]), tfp.bijectors.Softplus())
    posterior = tfd.Independent(tfd.Normal(loc, scale), 1)
    optimizer = tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            w = posterior.sample(16, seed=3)
            loss = tf.reduce_mean(posterior.log_prob(w) - log_density(w))
        variables = posterior.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss
    return lambda: float([step() for _ in range(20)][-1])


@workload
def probability_flow(tf: Any) -> Any:
    """A training step of a masked autoregressive flow of three layers."""
    import tensorflow_probability as tfp
    tfd, tfb = tfp.distributions, tfp.bijectors
    nets = [tfb.AutoregressiveNetwork(params=2, hidden_units=[32, 32], activation="relu", event_shape=[4]) for _ in range(3)]
    parts = []
    for net in nets:
        parts += [tfb.MaskedAutoregressiveFlow(shift_and_log_scale_fn=net), tfb.Permute([3, 1, 0, 2])]
    flow = tfd.TransformedDistribution(tfd.Sample(tfd.Normal(0.0, 1.0), [4]), tfb.Chain(parts))
    data, optimizer = tf.constant(normal(128, 4)), tf.keras.optimizers.Adam(1e-3)
    flow.log_prob(data)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(flow.log_prob(data))
        variables = [v for net in nets for v in net.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss
    return lambda: float(step())


@workload
def probability_state_space(tf: Any) -> Any:
    """The gradient of the likelihood of a linear Gaussian model of 60 steps."""
    import tensorflow_probability as tfp
    tfd = tfp.distributions
    series, noise = tf.constant(normal(60, 1)), tf.Variable(0.5)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            model = tfd.LinearGaussianStateSpaceModel(
                num_timesteps=60, transition_matrix=tf.constant([[1.0, 1.0], [0.0, 1.0]]),
                transition_noise=tfd.MultivariateNormalDiag(scale_diag=[noise, noise]),
                observation_matrix=tf.constant([[1.0, 0.0]]), observation_noise=tfd.MultivariateNormalDiag(scale_diag=[0.3]),
                initial_state_prior=tfd.MultivariateNormalDiag(scale_diag=[1.0, 1.0]))
            loss = -model.log_prob(series)
        return tape.gradient(loss, noise)
    return lambda: float(step())


@workload
def gaussian_process_regression(tf: Any) -> Any:
    """A step of Adam on the exact marginal likelihood, 150 points."""
    import gpflow
    x = np.random.RandomState(0).rand(150, 2)
    model = gpflow.models.GPR((x, np.sin(6 * x[:, :1])), gpflow.kernels.Matern52() + gpflow.kernels.Linear())
    optimizer = tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss
    return lambda: float(step())


@workload
def gaussian_process_sparse(tf: Any) -> Any:
    """A step of a sparse variational classifier with 40 inducing points, on batches of a dataset."""
    import gpflow
    x = np.random.RandomState(0).rand(1000, 2)
    y = (x[:, :1] > x[:, 1:]).astype(float)
    model = gpflow.models.SVGP(gpflow.kernels.SquaredExponential(), gpflow.likelihoods.Bernoulli(), x[:40].copy(),
                               num_data=1000)
    batches = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().shuffle(1000, seed=1).batch(64))
    loss, optimizer = model.training_loss_closure(batches, compile=True), tf.keras.optimizers.Adam(0.01)

    @tf.function
    def step() -> Any:
        optimizer.minimize(loss, model.trainable_variables)
        return loss()
    return lambda: float(step())


@workload
def modules_lstm(tf: Any) -> Any:
    """A step of a language model of sonnet modules: an embedding, a dynamic unroll of an LSTM, layer norm."""
    import sonnet as snt
    embed, core, norm, out = snt.Embed(200, 32), snt.LSTM(48), snt.LayerNorm(-1, True, True), snt.Linear(200)
    tokens, optimizer = tf.constant(ids(200, 20, 16)), snt.optimizers.Adam(1e-3)

    def loss_of(tokens: Any) -> Any:
        x, _ = snt.dynamic_unroll(core, embed(tokens[:-1]), core.initial_state(16))
        logits = snt.BatchApply(out)(norm(x))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[1:], logits=logits))
    loss_of(tokens)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(tokens)
        variables = [v for m in (embed, core, norm, out) for v in m.trainable_variables]
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss
    return lambda: float(step())


@workload
def modules_vq_vae(tf: Any) -> Any:
    """A step of a convolutional autoencoder with a quantized code, of sonnet modules."""
    import sonnet as snt
    encoder = snt.Sequential([snt.Conv2D(16, 4, 2), tf.nn.relu, snt.Conv2D(16, 3)])
    decoder = snt.Sequential([snt.Conv2D(16, 3), tf.nn.relu, snt.Conv2DTranspose(1, 4, stride=2)])
    codes = snt.nets.VectorQuantizerEMA(16, 32, 0.25, 0.99)
    x, optimizer = tf.constant(normal(16, 16, 16, 1)), snt.optimizers.Adam(1e-3)

    def loss_of(x: Any) -> Any:
        quantized = codes(encoder(x), is_training=True)
        return tf.reduce_mean((decoder(quantized["quantize"]) - x) ** 2) + quantized["loss"]
    loss_of(x)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        variables = [*encoder.trainable_variables, *decoder.trainable_variables]
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss
    return lambda: float(step())


def fine_tuned(tf: Any, model: Any, inputs: dict) -> Any:
    """A compiled step of a model that computes its own loss."""
    optimizer = tf.keras.optimizers.Adam(1e-4)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(**inputs, training=True).loss)
        variables = model.trainable_variables
        pairs = zip(tape.gradient(loss, variables), variables, strict=True)
        optimizer.apply_gradients((g, v) for g, v in pairs if g is not None)
        return loss
    return lambda: float(step())


@workload
def transformers_bert(tf: Any) -> Any:
    """Fine-tuning of a small BERT for two classes."""
    import transformers
    config = transformers.BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=128)
    model = transformers.TFBertForSequenceClassification(config)
    return fine_tuned(tf, model, {"input_ids": tf.constant(ids(500, 8, 48)), "labels": tf.constant(ids(2, 8)),
                                  "attention_mask": tf.ones([8, 48], tf.int32)})


@workload
def transformers_t5(tf: Any) -> Any:
    """Fine-tuning of a small T5."""
    import transformers
    config = transformers.T5Config(vocab_size=300, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                                   decoder_start_token_id=0)
    return fine_tuned(tf, transformers.TFT5ForConditionalGeneration(config),
                      {"input_ids": tf.constant(ids(300, 8, 32)), "labels": tf.constant(ids(300, 8, 16))})


@workload
def transformers_generate(tf: Any) -> Any:
    """Twelve tokens of a small GPT-2, greedily and eagerly, with its cache."""
    import transformers
    config = transformers.GPT2Config(vocab_size=300, n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=0,
                                     eos_token_id=299)
    model, start = transformers.TFGPT2LMHeadModel(config), tf.constant(ids(298, 2, 8))
    return lambda: float(model.generate(start, max_new_tokens=12, do_sample=False, pad_token_id=0).shape[1])


@workload
def transformers_vit(tf: Any) -> Any:
    """Inference of a small vision transformer."""
    import transformers
    config = transformers.ViTConfig(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128,
                                    image_size=64, patch_size=8)
    model, x = transformers.TFViTModel(config), tf.constant(normal(8, 3, 64, 64))

    @tf.function
    def run(x: Any) -> Any:
        return model(x).last_hidden_state
    return lambda: float(tf.reduce_sum(run(x)))


def keras_3(tf: Any) -> Any:
    """Keras 3 on the framework."""
    os.environ["TF_USE_LEGACY_KERAS"] = "0"
    import keras
    assert keras.__version__.startswith("3"), keras.__version__
    keras.utils.set_random_seed(0)
    return keras


@workload
def keras_3_convolutions(tf: Any) -> Any:
    """An epoch of `fit` of a small convolution network."""
    keras = keras_3(tf)
    L = keras.layers
    model = keras.Sequential([keras.Input((16, 16, 3)), L.Conv2D(16, 3, activation="relu"), L.BatchNormalization(),
                              L.MaxPooling2D(), L.Flatten(), L.Dropout(0.2), L.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    x, y = normal(320, 16, 16, 3), ids(10, 320)
    return lambda: model.fit(x, y, batch_size=32, verbose=0).history["loss"][-1]


@workload
def keras_3_text(tf: Any) -> Any:
    """Steps of a bidirectional LSTM over an embedding with a mask."""
    keras = keras_3(tf)
    L = keras.layers
    model = keras.Sequential([keras.Input((30,), dtype="int32"), L.Embedding(200, 24, mask_zero=True),
                              L.Bidirectional(L.LSTM(16)), L.Dense(1, activation="sigmoid")])
    model.compile("rmsprop", "binary_crossentropy")
    x, y = ids(200, 128, 30), ids(2, 128)
    return lambda: model.fit(x, y, batch_size=32, verbose=0).history["loss"][-1]


@workload
def keras_3_attention(tf: Any) -> Any:
    """Inference and `train_on_batch` of a transformer block of functional layers."""
    keras = keras_3(tf)
    L = keras.layers
    inputs = keras.Input((24, 32))
    x = L.LayerNormalization()(inputs + L.MultiHeadAttention(4, 8)(inputs, inputs))
    x = L.LayerNormalization()(x + L.Dense(32)(L.Dense(64, activation="gelu")(x)))
    model = keras.Model(inputs, L.Dense(5)(L.GlobalAveragePooling1D()(x)))
    model.compile(keras.optimizers.AdamW(1e-3), "mse")
    x, y = normal(32, 24, 32), normal(32, 5)

    def both() -> float:
        model.predict(x, verbose=0)
        return float(model.train_on_batch(x, y))
    return both
