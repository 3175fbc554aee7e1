"""The error classes: codes, text, pickling."""

import pickle
import traceback
import warnings

import pytest

from penstock._src.base import errors

CODES = range(1, 17)


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_one_class(code):
    cls = errors.exception_type_from_error_code(code)
    assert errors.error_code_from_exception_type(cls) == code
    assert cls(None, None, "text").error_code == code


def test_codes_are_those_of_the_status_protocol():
    assert [errors.CANCELLED, errors.OUT_OF_RANGE, errors.UNAUTHENTICATED] == [1, 11, 16]


def test_unknown_code_warns_and_keeps_the_code():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error = errors.make_error(None, None, "text", 37)
    assert "Unknown error code: 37" in str(caught[0].message)
    assert isinstance(error, errors.UnknownError) and error.error_code == 37


def test_unknown_class_warns():
    with pytest.warns(UserWarning, match="Unknown class exception"):
        assert isinstance(errors.error_code_from_exception_type("no class"), errors.OpError)


@pytest.mark.parametrize("code", [*CODES, 37])
@pytest.mark.filterwarnings("ignore:Unknown error code")
def test_pickle(code):
    error = errors.make_error(None, None, "text", code)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.message, again.error_code, again.node_def, again.op) == ("text", code, None, None)


class Op:
    name = "matmul"
    _original_op = None

    def __init__(self):
        self.traceback = traceback.extract_stack()


def test_text_points_at_the_line_that_made_the_op():
    text = str(errors.InvalidArgumentError(None, Op(), "bad shape"))
    assert text.startswith("bad shape\n\nOriginal stack trace for 'matmul':\n")
    assert "test_errors.py" in text


def test_text_without_an_op_is_the_message():
    assert str(errors.invalid("bad shape")) == "bad shape"


def test_an_op_is_left_behind_when_pickled():
    error = pickle.loads(pickle.dumps(errors.NotFoundError(None, Op(), "gone")))
    assert error.op is None and error.message == "gone"
