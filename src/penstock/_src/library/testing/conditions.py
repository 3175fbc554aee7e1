"""Decorators for tests that run under a condition."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export


@export("test.disable_with_predicate")
def disable_with_predicate(pred: Callable[[], bool], skip_message: str) -> Callable:
    """Skips a test method while `pred()` is true.

    >>> @tf.test.disable_with_predicate(lambda: not tf.config.list_physical_devices("GPU"), "needs a GPU")
    ... def testKernel(self): ...
    """
    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            if pred():
                self.skipTest(skip_message)
            return test(self, *args, **kwargs)
        return run
    return decorate


@export("test.with_eager_op_as_function")
def with_eager_op_as_function(cls: type | None = None, only_as_function: bool = False) -> Any:
    """Returns the class as it is: eager ops run the same way in every mode."""
    return cls if cls is not None else lambda of: of
