"""What the tests of tiers share."""
import pytest

from penstock._src.step.tiers import inductor


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that Inductor would be given; they run as they are."""
    seen = []
    monkeypatch.setattr(inductor, "available", lambda device: True)
    monkeypatch.setattr(inductor, "compiled", lambda graph, example: seen.append(graph) or (lambda inputs: graph(*inputs)))
    return seen
