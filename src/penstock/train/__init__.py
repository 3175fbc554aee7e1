"""Training: optimizers, learning-rate decays, moving averages and the global step."""
from penstock.train import (  # noqa: F401
    adadelta,
    adagrad,
    adagrad_da,
    adam,
    ftrl,
    global_step,
    gradient_descent,
    learning_rate_decay,
    momentum,
    moving_averages,
    proximal,
    rmsprop,
)
