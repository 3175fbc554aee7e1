"""Assertions that several test files share."""
import contextlib
import re

import pytest


@contextlib.contextmanager
def raises_op(kind, pattern):
    """Expects a run-time error of a kind whose message holds `pattern` and names the op that failed."""
    with pytest.raises(kind) as info:
        yield
    assert re.search(pattern, info.value.message, re.S), info.value.message
    assert "[[node " in info.value.message or "[Op:" in info.value.message
