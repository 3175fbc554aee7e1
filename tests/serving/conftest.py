"""One server for the tests that do not change it."""
import pytest

from tests.serving.models import Client, config_of, half_plus, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("half_plus_two")
    half_plus(folder, "00000123")
    half_plus(folder, 124, 3.0)
    model = config_of("half_plus_two", folder)
    model.model_version_policy.all.SetInParent()
    model.version_labels["stable"] = 123
    with serving(model) as server:
        yield server


@pytest.fixture
def client(served):
    with Client(served) as made:
        yield made
