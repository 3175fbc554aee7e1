"""Samples of the updates of optimizers, with references in numpy: the first arrays are variable and slots before."""
import numpy as np

from tests.registry.sample import f, sample

G = f(4, 3)
ROWS = np.array([2, 0, 2, 1], np.int32)              # row 2 twice: updated in turn
STATES = [f(4, 3, low=0.5), f(4, 3, low=0.5, high=0.9), f(4, 3, low=1.5), f(4, 3, low=0.5)]
NUMBERS = {"lr": .1, "alpha": .1, "l1": .05, "l2": .02, "momentum": .9, "beta1": .9, "beta2": .99, "beta1_power": .81,
           "beta2_power": .98, "epsilon": 1e-3, "rho": .9, "lr_power": -.5, "l2_shrinkage": .03, "sign_decay": .7,
           "beta": .8, "logbase": 1.}


def shrink(x, by):
    return np.sign(x) * np.maximum(np.abs(x) - by, 0)


def descent(g, var, alpha):
    return [var - alpha * g]


def proximal_descent(g, var, alpha, l1, l2):
    return [shrink(var - alpha * g, alpha * l1) / (1 + l2 * alpha)]


def momentum_rule(g, var, accum, lr, momentum, use_nesterov=False):
    accum = momentum * accum + g
    return [var - lr * (g + momentum * accum if use_nesterov else accum), accum]


def keras_momentum(g, var, accum, lr, momentum, use_nesterov=False):
    accum = momentum * accum - lr * g
    return [var + (momentum * accum - lr * g if use_nesterov else accum), accum]


def adam(g, var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, use_nesterov=False):
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    rate = lr * np.sqrt(1 - beta2_power) / (1 - beta1_power)
    step = beta1 * m + (1 - beta1) * g if use_nesterov else m
    return [var - rate * step / (np.sqrt(v) + epsilon), m, v]


def amsgrad(g, var, m, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon):
    _, m, v = adam(g, var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon)
    vhat = np.maximum(vhat, v)
    rate = lr * np.sqrt(1 - beta2_power) / (1 - beta1_power)
    return [var - rate * m / (np.sqrt(vhat) + epsilon), m, v, vhat]


def adamax(g, var, m, v, beta1_power, lr, beta1, beta2, epsilon):
    m, v = beta1 * m + (1 - beta1) * g, np.maximum(beta2 * v, np.abs(g))
    return [var - lr / (1 - beta1_power) * m / (v + epsilon), m, v]


def adagrad(g, var, accum, lr, update_slots=True):
    accum = accum + g * g if update_slots else accum
    return [var - lr * g / np.sqrt(accum), accum]


def adagrad_v2(g, var, accum, lr, epsilon, update_slots=True):
    accum = accum + g * g if update_slots else accum
    return [var - lr * g / (np.sqrt(accum) + epsilon), accum]


def proximal_adagrad(g, var, accum, lr, l1, l2):
    accum = accum + g * g
    rate = lr / np.sqrt(accum)
    return [shrink(var - rate * g, rate * l1) / (1 + l2 * rate), accum]


def adagrad_da(g, var, total, squares, lr, l1, l2, global_step):
    total, squares = total + g, squares + g * g
    return [-lr * shrink(total, l1 * global_step) / (l2 * global_step * lr + np.sqrt(squares)), total, squares]


def adadelta(g, var, accum, accum_update, lr, rho, epsilon):
    accum = rho * accum + (1 - rho) * g * g
    step = np.sqrt(accum_update + epsilon) / np.sqrt(accum + epsilon) * g
    return [var - lr * step, accum, rho * accum_update + (1 - rho) * step * step]


def rmsprop(g, var, ms, mom, lr, rho, momentum, epsilon):
    ms = rho * ms + (1 - rho) * g * g
    mom = momentum * mom + lr * g / np.sqrt(ms + epsilon)
    return [var - mom, ms, mom]


def centered_rmsprop(g, var, mg, ms, mom, lr, rho, momentum, epsilon):
    ms, mg = rho * ms + (1 - rho) * g * g, rho * mg + (1 - rho) * g
    mom = momentum * mom + lr * g / np.sqrt(ms - mg * mg + epsilon)
    return [var - mom, mg, ms, mom]


def ftrl(g, var, accum, linear, lr, l1, l2, lr_power, l2_shrinkage=0.):
    new = accum + g * g
    linear = linear + g + 2 * l2_shrinkage * var - (new ** -lr_power - accum ** -lr_power) / lr * var
    step = (np.sign(linear) * l1 - linear) / (new ** -lr_power / lr + 2 * l2)
    return [np.where(np.abs(linear) > l1, step, 0), new, linear]


def add_sign(g, var, m, lr, alpha, sign_decay, beta):
    m = beta * m + (1 - beta) * g
    return [var - lr * (alpha + sign_decay * np.sign(g) * np.sign(m)) * g, m]


def power_sign(g, var, m, lr, logbase, sign_decay, beta):
    m = beta * m + (1 - beta) * g
    return [var - lr * np.exp(logbase * sign_decay * np.sign(g) * np.sign(m)) * g, m]


def update(family, states, inputs, rule, sparse=False, ref=True, **attrs):
    """Samples of the (up to) four ops of a family."""
    numbers = {n: NUMBERS.get(n, 7) for n in inputs if n not in ("grad", "delta")}

    def arrays(names):
        return [G if n in ("grad", "delta") else ROWS if n == "indices" else np.int64(7) if n == "global_step"
                else np.float32(NUMBERS[n]) for n in names]

    def dense(*given):
        return rule(G.astype(np.float64), *[s.astype(np.float64) for s in given[:states]], **numbers, **attrs)

    def by_rows(*given):
        held = [s.astype(np.float64) for s in given[:states]]
        for row, g in zip(ROWS, G, strict=True):
            for s, new in zip(held, rule(g.astype(np.float64), *[s[row] for s in held], **numbers, **attrs),
                              strict=True):
                s[row] = new
        return held
    held = STATES[:states]
    for prefix in ("", "Resource") if ref else ("Resource",):
        lead = (lambda e: lambda *a: [e(*a)[0], *e(*a)]) if not prefix else lambda e: e
        sample(f"{prefix}Apply{family}", *held, *arrays(inputs), expect=lead(dense), **attrs)
        if sparse:
            names = ["grad" if n == "delta" else n for n in inputs]
            names.insert(names.index("grad") + 1, "indices")
            sample(f"{prefix}SparseApply{family}", *held, *arrays(names), expect=lead(by_rows), **attrs)


_ADAM = "beta1_power beta2_power lr beta1 beta2 epsilon grad".split()
update("GradientDescent", 1, ["alpha", "delta"], descent)
update("ProximalGradientDescent", 1, ["alpha", "l1", "l2", "delta"], proximal_descent, sparse=True)
for _nesterov in (False, True):
    update("Momentum", 2, ["lr", "grad", "momentum"], momentum_rule, sparse=True, use_nesterov=_nesterov)
    update("KerasMomentum", 2, ["lr", "grad", "momentum"], keras_momentum, sparse=True, ref=False,
           use_nesterov=_nesterov)
    update("Adam", 3, _ADAM, adam, use_nesterov=_nesterov)
update("AdamWithAmsgrad", 4, _ADAM, amsgrad, ref=False)
update("AdaMax", 3, ["beta1_power", "lr", "beta1", "beta2", "epsilon", "grad"], adamax)
for _slots in (False, True):
    update("Adagrad", 2, ["lr", "grad"], adagrad, sparse=True, update_slots=_slots)
    update("AdagradV2", 2, ["lr", "epsilon", "grad"], adagrad_v2, sparse=True, update_slots=_slots)
update("ProximalAdagrad", 2, ["lr", "l1", "l2", "grad"], proximal_adagrad, sparse=True)
update("AdagradDA", 3, ["grad", "lr", "l1", "l2", "global_step"], adagrad_da, sparse=True)
update("Adadelta", 3, ["lr", "rho", "epsilon", "grad"], adadelta, sparse=True)
update("RMSProp", 3, ["lr", "rho", "momentum", "epsilon", "grad"], rmsprop, sparse=True)
update("CenteredRMSProp", 4, ["lr", "rho", "momentum", "epsilon", "grad"], centered_rmsprop, sparse=True)
update("Ftrl", 3, ["grad", "lr", "l1", "l2", "lr_power"], ftrl, sparse=True)
update("FtrlV2", 3, ["grad", "lr", "l1", "l2", "l2_shrinkage", "lr_power"], ftrl, sparse=True)
update("AddSign", 2, ["lr", "alpha", "sign_decay", "beta", "grad"], add_sign)
update("PowerSign", 2, ["lr", "logbase", "sign_decay", "beta", "grad"], power_sign)
