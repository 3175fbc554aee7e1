"""The models of the folder `models`, measured as in others.py: one file has a model's sizes, data and both programs.

PYTHONPATH=src python benchmarks/gpu/run.py --json models.json --table benchmarks/README.md
"""

from __future__ import annotations

import importlib
import pathlib

import numpy as np
import others

FOLDER = pathlib.Path(__file__).parent / "models"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "__init__")


def title(name: str) -> str:
    """The first sentence of the docstring of a model."""
    return (FOLDER / f"{name}.py").read_text().split('"""')[1].split(".\n")[0].strip().rstrip(".")


def prepared(name: str, runner: str) -> tuple:
    """See others.prepared."""
    model = importlib.import_module(f"models.{name}")
    s = others.sizes(model.FULL, model.SMALL)
    arrays = model.data(np.random.RandomState(0), s)
    if runner == "penstock":
        import others_penstock

        others_penstock.K.mixed_precision.set_global_policy(model.POLICY)
        with others_penstock.tf.device(others_penstock.DEVICE):
            run = model.ours(s, arrays)
        return others_penstock.measured(run)
    import others_torch

    short = model.POLICY != "float32"
    return others_torch.measured(model.theirs, s, arrays, short, runner == "torch-compile")


if __name__ == "__main__":
    others.TITLES, others.prepared, others.PROGRAM, others.TABLE = {n: title(n) for n in NAMES}, prepared, __file__, "models"
    others.main()
