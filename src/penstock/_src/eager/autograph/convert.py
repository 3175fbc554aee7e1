"""Rewrites each user function once and calls the result in its place; the public names of AutoGraph.

`converted(f)` is what `tf.function` traces. In rewritten code every call goes through `call`, so that the functions which
it calls are rewritten too: all but those of this package, of the standard library and of numerical libraries.
"""
from __future__ import annotations

import ast
import enum
import functools
import inspect
import logging
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from penstock._src.base.api import export
from penstock._src.eager.autograph.builtin_functions import REPLACED
from penstock._src.eager.autograph.source import NoSource, tree_of
from penstock._src.eager.autograph.transform import Unsupported, transform
from penstock._src.graph import context

_LIBRARIES = frozenset(["penstock", "numpy", "torch", "scipy", "pandas", "matplotlib", "PIL", "tensorboard", "google", "absl",
                        "pytest", "_pytest", "hypothesis", "ml_dtypes", "fsspec", *sys.stdlib_module_names])
_codes: dict[int, types.CodeType | None] = {}          # id of a code object -> the rewritten one, None: runs as it is
_rewritten: dict[int, types.CodeType] = {}             # code objects that are results, with those inside of them
_SKIP = "_autograph_skip"


# -- rewriting --------------------------------------------------------------------------------------------------------
def converted(f: Any) -> Any:
    """The rewritten `f`; `f` itself if it is not the user's Python code, or cannot be rewritten."""
    if isinstance(f, types.FunctionType):
        return _function(f)
    if isinstance(f, types.MethodType):
        inner = converted(f.__func__)
        return f if inner is f.__func__ else types.MethodType(inner, f.__self__)
    if isinstance(f, functools.partial):
        inner = converted(f.func)
        return f if inner is f.func else functools.partial(inner, *f.args, **f.keywords)
    if isinstance(f, (type, types.BuiltinFunctionType)) or getattr(f, _SKIP, False):
        return f
    method = getattr(type(f), "__call__", None)  # noqa: B004  the function is wanted, not whether there is one
    if isinstance(method, types.FunctionType):
        inner = _function(method)
        return f if inner is method else types.MethodType(inner, f)
    return f


def converter(features: Any) -> Callable[[Any], Any]:
    """The rewriter of functions, with the optional features that a function asks for."""
    asked = features if isinstance(features, (list, tuple, set, frozenset)) else (features,)
    return _Printing() if {Feature.ALL, Feature.BUILTIN_FUNCTIONS} & set(asked) else converted


class _Printing:
    """`converted`, for code whose `print` shows the values of tensors."""
    prints = True

    def __call__(self, f: Any) -> Any:
        return converted(f)


def call(f: Any) -> Any:
    """The function that rewritten code calls in place of `f`."""
    if isinstance(f, (types.BuiltinFunctionType, type)):
        try:
            return REPLACED.get(f, f)
        except TypeError:
            return f
    return converted(f)


def _function(f: types.FunctionType) -> types.FunctionType:
    code = f.__code__
    if f.__dict__.get(_SKIP) or id(code) in _rewritten or f.__globals__.get("__name__", "").split(".")[0] in _LIBRARIES:
        return f
    if id(code) not in _codes:
        _codes[id(code)] = _rewrite(f)
        weakref.finalize(code, _codes.pop, id(code), None)
    new = _codes[id(code)]
    if new is None:
        return f
    from penstock._src.eager.autograph import operators
    cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
    cells["ag__"] = types.CellType(operators)
    made = types.FunctionType(new, f.__globals__, f.__name__, f.__defaults__, tuple(cells[n] for n in new.co_freevars))
    made.__kwdefaults__, made.__qualname__, made.__module__ = f.__kwdefaults__, f.__qualname__, f.__module__
    made.__dict__.update(f.__dict__)
    return made


def _rewrite(f: types.FunctionType) -> types.CodeType | None:
    """The rewritten code of a function, or None, with a warning if the user may expect it to be rewritten."""
    code = f.__code__
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    try:
        return _compiled(f, transform(tree_of(code)))
    except (NoSource, Unsupported, SyntaxError) as e:
        logging.getLogger("penstock").warning("AutoGraph could not transform %r and will run it as-is: %s. To silence this "
                                              "warning, decorate it with @tf.autograph.experimental.do_not_convert.", f, e)
        return None


def _compiled(f: types.FunctionType, tree: ast.FunctionDef | ast.Lambda) -> types.CodeType:
    """Compiles a rewritten function inside of one that has its free variables, in a class of the same name as its own."""
    free = [*f.__code__.co_freevars, "ag__"]
    _forget_defaults(tree.args)
    inner: ast.stmt = ast.Expr(tree) if isinstance(tree, ast.Lambda) else tree
    target = "<lambda>"
    if isinstance(tree, ast.FunctionDef):
        target = tree.name = "ag__function"                     # inside, the function's name refers to the outer variable
    arguments = ast.arguments(posonlyargs=[], args=[ast.arg(n) for n in free], kwonlyargs=[], kw_defaults=[], defaults=[])
    outer: ast.stmt = ast.FunctionDef("ag__factory", arguments, [inner], [])
    owner = f.__qualname__.rpartition(".")[0].rpartition(".")[2]
    if owner.isidentifier():                                    # private names are mangled with it
        outer = ast.ClassDef(owner, [], [], [outer], [])
    for node in (inner, outer, *ast.walk(arguments), *([outer.body[0]] if isinstance(outer, ast.ClassDef) else [])):
        ast.copy_location(node, tree)
    module = ast.fix_missing_locations(ast.Module([outer], []))
    code = compile(module, f.__code__.co_filename, "exec", dont_inherit=True)
    for name in ([owner] if owner.isidentifier() else []) + ["ag__factory", target]:
        code = next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
    code = code.replace(co_name=f.__code__.co_name, co_qualname=f.__code__.co_qualname)
    _remember(code)
    return code


def _forget_defaults(args: ast.arguments) -> None:
    """The function object has the defaults; here only their number matters."""
    args.defaults = [ast.copy_location(ast.Constant(None), d) for d in args.defaults]
    args.kw_defaults = [None if d is None else ast.copy_location(ast.Constant(None), d) for d in args.kw_defaults]


def _remember(code: types.CodeType) -> None:
    _rewritten[id(code)] = code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            _remember(c)


# -- the public names -------------------------------------------------------------------------------------------------
@export("autograph.experimental.do_not_convert")
def do_not_convert(func: Callable | None = None) -> Any:
    """Keeps AutoGraph from rewriting a function and the functions that it calls.

    >>> @tf.autograph.experimental.do_not_convert
    ... def f(x): ...
    """
    if func is None:
        return do_not_convert

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        with context.autograph(None):
            return func(*args, **kwargs)
    setattr(run, _SKIP, True)
    return run


@export("autograph.to_graph")
def to_graph(entity: Any, recursive: bool = True, experimental_optional_features: Any = None, **kwargs: Any) -> Any:
    """A function like `entity` whose control flow may depend on tensors.

    >>> f = tf.autograph.to_graph(lambda x: x if x > 0 else -x)
    """
    if inspect.isclass(entity) or not callable(entity):
        raise NotImplementedError(f"only functions and methods can be converted, got {entity!r}")
    made = converted(entity)
    if made is entity and isinstance(entity, types.FunctionType):
        raise ValueError(f"{entity!r} could not be converted: its source is not available, or it is not plain Python code")
    return made


@export("autograph.to_code")
def to_code(entity: Any, recursive: bool = True, experimental_optional_features: Any = None, **kwargs: Any) -> str:
    """The rewritten source of a function."""
    function = inspect.unwrap(getattr(entity, "python_function", entity))
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        raise NotImplementedError(f"only functions and methods have code, got {entity!r}")
    return ast.unparse(ast.fix_missing_locations(transform(tree_of(function.__code__))))


@export("autograph.experimental.set_loop_options")
def set_loop_options(parallel_iterations: Any = None, swap_memory: Any = None, maximum_iterations: Any = None,
                     shape_invariants: Any = None) -> None:
    """Sets options of the enclosing loop, if it becomes a loop of the graph.

    >>> for i in tf.range(n):
    ...     tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None]))])
    ...     x = tf.concat([x, [i]], 0)
    """


@export("autograph.set_verbosity")
def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """The verbosity of AutoGraph: 0 is warnings only."""
    logging.getLogger("penstock").setLevel(logging.DEBUG if level else logging.WARNING)


@export("autograph.trace")
def trace(*args: Any) -> None:
    """Prints its arguments while a function is traced."""
    print(*args)


@export("autograph.experimental.Feature")
class Feature(enum.Enum):
    """Names of optional features of AutoGraph. BUILTIN_FUNCTIONS lets `print` show the values of tensors, when the graph
    runs; the others except LISTS are always on. Python lists cannot grow in a loop of the graph: use a TensorArray there."""

    ALL = "ALL"
    AUTO_CONTROL_DEPS = "AUTO_CONTROL_DEPS"
    ASSERT_STATEMENTS = "ASSERT_STATEMENTS"
    BUILTIN_FUNCTIONS = "BUILTIN_FUNCTIONS"
    EQUALITY_OPERATORS = "EQUALITY_OPERATORS"
    LISTS = "LISTS"
    NAME_SCOPES = "NAME_SCOPES"

    @classmethod
    def all(cls) -> tuple:
        """All of them."""
        return tuple(cls)

    @classmethod
    def all_but(cls, exclude: Any) -> tuple:
        """All but some."""
        excluded = exclude if isinstance(exclude, (list, tuple, set)) else (exclude,)
        return tuple(f for f in cls if f not in excluded)
