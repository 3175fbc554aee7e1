"""Runs every mistake with the given module and prints, as JSON, the exception of each: its type and its message.

    python -m tests.mistakes.run penstock        # or tensorflow
"""
import importlib
import json
import sys

from tests.mistakes.across_parts import ACROSS_PARTS
from tests.mistakes.first_weeks import FIRST_WEEKS
from tests.mistakes.keras_and_data import KERAS_AND_DATA
from tests.mistakes.less_used import LESS_USED
from tests.mistakes.mistakes import MISTAKES
from tests.mistakes.next_steps import NEXT_STEPS
from tests.mistakes.rarer import RARER
from tests.mistakes.second_project import SECOND_PROJECT

ALL = [*MISTAKES, *RARER, *KERAS_AND_DATA, *ACROSS_PARTS, *FIRST_WEEKS, *NEXT_STEPS, *LESS_USED, *SECOND_PROJECT]


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
