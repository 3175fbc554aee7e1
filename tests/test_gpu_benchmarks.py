"""The models of benchmarks/gpu on a CPU, at their small sizes: both programs of each train."""

import math

import pytest
import torch

from benchmarks.gpu import catalog

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
