"""The models of benchmarks/gpu on a CPU, at their small sizes: both programs of each train, and some compute the same loss."""

import math
import types

import numpy as np
import pytest
import torch

import penstock as tf
from benchmarks.gpu import catalog, penstock_side, torch_side

QUICK = ("text_cnn", "vae")
RIVALS = ("dcgan", "wasserstein_gan", "ppo", "soft_actor_critic")      # losses of several players, or of changing goals
OTHERS = [name for name in catalog.FILES if name not in QUICK]

pytestmark = [                                            # of PyTorch's kernels for CPUs
    pytest.mark.filterwarnings("ignore:Using padding='same':UserWarning"),
    pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning"),
]


@pytest.fixture(autouse=True)
def _torch_settings():
    """The programs for PyTorch set these for the whole process."""
    precision, cudnn = torch.get_float32_matmul_precision(), torch.backends.cudnn
    before = cudnn.benchmark, cudnn.allow_tf32
    torch.manual_seed(1)                                  # with others, NeRF's rays meet nothing, and have no gradient
    yield
    torch.set_float32_matmul_precision(precision)
    cudnn.benchmark, cudnn.allow_tf32 = before


def train(name, runner):
    """Losses are finite, and fall below the first one, or change at least; scaled losses skip some steps."""
    program, found = catalog.program(name, runner, small=True), []

    def trained():
        return len(set(found)) > 1 if name in RIVALS else min(found) < found[0]
    while len(found) < 3 or len(found) < 16 and not trained():
        program.step()
        found.append(program.loss())
    assert all(map(math.isfinite, found)) and trained(), found


@pytest.mark.parametrize("runner", ["penstock", "torch-eager"])
@pytest.mark.parametrize("name", QUICK)
def test_quick_models_train(name, runner):
    train(name, runner)


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["penstock", "torch-eager"])
@pytest.mark.parametrize("name", OTHERS)
def test_models_train(name, runner):
    train(name, runner)


def test_every_model_has_a_title_and_both_sizes():
    for name in catalog.FILES:
        model = catalog.load(name)
        assert catalog.title(name) and set(model.SMALL) <= set(model.FULL) and len(model.SMALL) > 0
        assert model.POLICY in ("float32", "mixed_bfloat16", "mixed_float16")


# -- both programs compute the same -----------------------------------------------------------------------------------
AGREE = ("dlrm", "egnn", "factorization_machine", "gat", "neural_ode", "pixelcnn", "text_cnn")


def in_float32(name):
    """The model, its small sizes and its data, for single precision on both sides."""
    model = catalog.load(name)
    sizes = types.SimpleNamespace(**{**model.FULL, **model.SMALL})
    return types.SimpleNamespace(ours=model.ours, theirs=model.theirs, POLICY="float32"), sizes, \
        model.data(np.random.RandomState(0), sizes)


def torch_weights(made):
    """The weights of modules in the order of their creation, in the layout of Keras."""
    for module, name, weight in made:
        w = weight.detach().numpy()
        if name == "weight" and isinstance(module, torch.nn.Linear):
            w = w.T
        elif name == "weight" and isinstance(module, torch.nn.modules.conv._ConvNd):
            w = np.moveaxis(w, (1, 0), (-2, -1))
        yield w


def by_shape(found):
    groups = {}
    for weight in found:
        groups.setdefault(tuple(weight.shape), []).append(weight)
    return groups


@pytest.mark.slow
@pytest.mark.parametrize("name", AGREE)
def test_programs_with_the_same_weights_have_the_same_loss(name):
    """Weights of the same shape are created in the same order on both sides."""
    made, variables = [], []
    hook = torch.nn.modules.module.register_module_parameter_registration_hook
    handle = hook(lambda module, key, weight: made.append((module, key, weight)) if weight is not None else None)
    try:
        theirs = torch_side.program(*in_float32(name), compiled=False)
    finally:
        handle.remove()

    def creator(make, **options):
        variables.append(make(**options))
        return variables[-1]
    with tf.variable_creator_scope(creator):
        ours = penstock_side.program(*in_float32(name))
        ours.step()                                        # lazy layers create their weights
    weights, held = by_shape(torch_weights(made)), by_shape(v for v in variables if v.trainable)
    assert {k: len(v) for k, v in weights.items()} == {k: len(v) for k, v in held.items()}
    theirs.step()                                          # text_cnn's batches take turns
    for shape, group in held.items():
        for variable, weight in zip(group, weights[shape], strict=True):
            variable.assign(weight)
    losses = []
    for program in (ours, theirs):
        program.step()
        losses.append(program.loss())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
