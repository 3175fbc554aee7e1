"""What Keras's tests import from the root of its repository, which the wheel lacks."""
import keras
import pytest


def skip_if_backend(given_backend: str, reason: str) -> pytest.MarkDecorator:
    """Skips a test on one of Keras's backends."""
    return pytest.mark.skipif(keras.backend.backend() == given_backend, reason=reason)
