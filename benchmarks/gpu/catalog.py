"""The models of the folder `models`: one file each, in the folder of its family, with

    FULL, SMALL                           sizes, for a GPU and to test the programs on a CPU
    POLICY                                Keras's policy of precision; PyTorch has bfloat16 for both short ones
    data(r, s)                            the arrays that both programs train on, drawn with r for the sizes s
    ours(s, arrays)                       a step of the program for TensorFlow, which returns the loss
    theirs(s, given, short, compiled)     the same in PyTorch: tensors on the device, short precision, torch.compile

Each program imports its framework itself, so that a process has one of them.
"""

from __future__ import annotations

import importlib
import pathlib
import types
from typing import Any

import numpy as np

from benchmarks.gpu.measuring import Program

FILES = {p.stem: p for p in sorted((pathlib.Path(__file__).parent / "models").glob("*/*.py"))}
RUNNERS = ("penstock", "torch-eager", "torch-compile")


def families() -> list[str]:
    """The folders of the models."""
    return sorted({p.parent.name for p in FILES.values()})


def of_family(family: str) -> list[str]:
    """The models of a folder."""
    return [name for name, p in FILES.items() if p.parent.name == family]


def title(name: str) -> str:
    """The first paragraph of the model's docstring."""
    return " ".join(FILES[name].read_text().split('"""')[1].split("\n\n")[0].split()).rstrip(".")


def load(name: str) -> Any:
    """The module of a model."""
    return importlib.import_module(f"benchmarks.gpu.models.{FILES[name].parent.name}.{name}")


def program(name: str, runner: str, small: bool = False) -> Program:
    """The program of a model for one of RUNNERS."""
    model = load(name)
    sizes = types.SimpleNamespace(**{**model.FULL, **(model.SMALL if small else {})})
    arrays = model.data(np.random.RandomState(0), sizes)
    if runner == "penstock":
        from benchmarks.gpu import penstock_side

        return penstock_side.program(model, sizes, arrays)
    from benchmarks.gpu import torch_side

    return torch_side.program(model, sizes, arrays, runner == "torch-compile")
