"""`tensorflow.tools.docs.doc_controls`: marks on what a generator of documentation leaves out."""
from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def _marked(obj: T, mark: str, value: Any = None) -> T:
    target: Any = obj.fget if isinstance(obj, property) else obj
    setattr(target, mark, value)
    return obj


def do_not_generate_docs(obj: T) -> T:
    """Leaves an object out of the documentation."""
    return _marked(obj, "_tf_docs_do_not_document")


def doc_private(obj: T) -> T:
    """Leaves an object out unless private ones are requested."""
    return _marked(obj, "_tf_docs_doc_private")


def do_not_doc_inheritable(obj: T) -> T:
    """Leaves a method out of the class and of its subclasses."""
    return _marked(obj, "_tf_docs_do_not_doc_inheritable")


def for_subclass_implementers(obj: T) -> T:
    """Documents a method only where it is defined."""
    return _marked(obj, "_tf_docs_tools_for_subclass_implementers")


do_not_doc_in_subclasses = doc_in_current_and_subclasses = for_subclass_implementers


def set_deprecated(obj: T) -> T:
    """Marks an object as deprecated."""
    return _marked(obj, "_tf_docs_deprecated")


def header(text: str) -> Any:
    """A decorator that adds a line above the documentation."""
    return lambda obj: _marked(obj, "_tf_docs_header", text)


inheritable_header = header
