"""Settings for the whole test run: one thread per process, and a traceback when a process dies."""

import faulthandler

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _one_thread_and_tracebacks():
    torch.set_num_threads(1)
    if not faulthandler.is_enabled():
        faulthandler.enable()
    yield
