"""Runs every mistake with the given module and prints, as JSON, the exception of each: its type and its message.

    python -m tests.mistakes.run penstock        # or tensorflow

A mistake is a function of `tf`, or of `v1`: then it uses the 1.x API and runs in a graph of its own. Each module beside this
one has the mistakes of one subject; the first line of its docstring is the title of its page.
"""
import importlib
import json
import sys

from tests.mistakes import (
    datasets,
    distribution,
    functions,
    graphs,
    habits,
    layers,
    models,
    operations,
    saving,
    sessions,
    tensors,
    text_and_images,
    training,
)

SUBJECTS = {subject: [value for value in vars(subject).values() if getattr(value, "__module__", "") == subject.__name__]
            for subject in (tensors, operations, text_and_images, functions, datasets, layers, models, training, saving,
                            graphs, sessions, distribution, habits)}
ALL = [mistake for mistakes in SUBJECTS.values() for mistake in mistakes]


def outcome(mistake, tf):
    """(type, message) of what a mistake raises; None and "" if nothing."""
    try:
        if mistake.__code__.co_varnames[0] == "v1":
            with tf.compat.v1.Graph().as_default():
                mistake(tf.compat.v1)
        else:
            mistake(tf)
    except Exception as error:              # any type: the type is what is compared
        return type(error).__name__, str(error)
    return None, ""


def outcomes(module):
    """The outcome of every mistake, by its name."""
    tf = importlib.import_module(module)
    importlib.import_module(f"{module}.compat.v1")
    return {m.__name__: outcome(m, tf) for m in ALL}


if __name__ == "__main__":
    print(json.dumps(outcomes(sys.argv[1])))
