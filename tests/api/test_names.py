"""The public names and their argument lists, against a record of TensorFlow's (made by scripts/make_api_names.py)."""
import ast
import difflib
import inspect
import pathlib
import re

import pytest

import penstock
import penstock.compat.v1 as tf1

FOLDER = pathlib.Path(__file__).parent
APIS = {"v1": tf1, "v2": penstock}
TENSORFLOW_2 = {     # where argument lists are those of TensorFlow 2, which are no longer compatible with the record
    "autograph.experimental.set_loop_options": "without back_prop",
    "autograph.to_code": "without arg_values and arg_types",
    "autograph.to_graph": "without arg_values and arg_types",
    "keras.experimental.LinearModel.__init__": "kernel_initializer is zeros",
    **dict.fromkeys(("keras.losses.KLDivergence.__init__", "losses.KLDivergence.__init__"), "the name is kl_divergence"),
    **dict.fromkeys(("keras.losses.LogCosh.__init__", "losses.LogCosh.__init__"), "the name is log_cosh"),
    "train.Checkpoint.__init__": "root comes first",
    "image.adjust_jpeg_quality": "dct_method comes before name",
    **dict.fromkeys((f"nn.depthwise_conv2d_{kind}" for kind in (
        "backprop_filter", "backprop_input", "native", "native_backprop_filter", "native_backprop_input")),
        "with explicit_paddings"),
    "RaggedTensor.__init__": "values come with a RowPartition",
    "OptionalSpec.__init__": "value_structure is called element_spec",
    "config.experimental.set_virtual_device_configuration": "virtual_devices is called logical_devices",
    "data.Dataset.from_generator": "output_types may be left out, for output_signature",
    "data.Dataset.interleave": "cycle_length and block_length are None",
    "data.Dataset.padded_batch": "padded_shapes may be left out",
    "data.Dataset.zip": "takes the datasets one by one, too",
    "data.experimental.OptionalStructure.__init__": "value_structure is called element_spec",
    "function": "jit_compile and reduce_retracing come earlier",
    "keras.utils.get_file": "fname may be left out",
    "linalg.matmul": "output_type, grad_a and grad_b come before name",
    "matmul": "output_type, grad_a and grad_b come before name",
    "math.top_k": "index_type comes before name",
    "nn.top_k": "index_type comes before name",
    **dict.fromkeys(("keras.Model.predict", "keras.models.Model.predict"), "verbose is auto: it shows progress in 2.x"),
    "keras.backend.name_scope": "a class",
    "keras.initializers.he_normal": "a class",
    "keras.initializers.he_uniform": "a class",
    "keras.initializers.lecun_normal": "a class",
    "keras.initializers.lecun_uniform": "a class",
    **dict.fromkeys((f"initializers.{kind}" for kind in ("he_normal", "he_uniform", "lecun_normal", "lecun_uniform")),
                    "a class"),
    "keras.Sequential.__init__": "trainable comes before name",
    "keras.models.Sequential.__init__": "trainable comes before name",
    "random.experimental.create_rng_state": "algorithm is called alg",
    "test.compute_gradient": "delta depends on the dtype",
    "keras.callbacks.TensorBoard.__init__": "profile_batch is 0 in the 2.x API",
}
OURS = {     # where they are our own
    "linalg.LinearOperatorCirculant.__init__": "name is None, and the class gives it",
    "linalg.LinearOperatorCirculant2D.__init__": "name is None, and the class gives it",
    "linalg.LinearOperatorCirculant3D.__init__": "name is None, and the class gives it",
    "lookup.experimental.DenseHashTable.lookup": "dynamic_default_values, as MutableHashTable has it in TensorFlow 2",
    "Operation.__init__": "graphs make operations, programs do not",
    "keras.optimizers.Optimizer.variables": "a property, as in Keras 3, whose list may be called",
    "optimizers.Optimizer.variables": "a property, as in Keras 3, whose list may be called",
    "summary.FileWriter.add_graph": "graph may be left out where graph_def is given",
    "print": "the keyword arguments are named",
    **{f"nn.rnn_cell.{cell}.build": "the record has the arguments of a decorator"
       for cell in ("BasicLSTMCell", "BasicRNNCell", "GRUCell", "LSTMCell")},
    **{f"nn.{name}{kind}Wrapper.__init__": "the arguments are named"
       for name in ("rnn_cell.", "RNNCell") for kind in ("Device", "Dropout", "Residual")},
    "custom_gradient": "f may be left out, as in TensorFlow 2",
}


def record(api):
    """The lines of the record as (name, arguments or None, base of a class or None)."""
    for line in (FOLDER / f"names_{api}.txt").read_text().splitlines():
        name, bracket, rest = line.removeprefix("class ").partition("(")
        if line.startswith("class "):
            yield name, None, rest[:-1]
        else:
            yield name, (rest[:-1] if bracket else None), None


def lines():
    """The first words of the lines of later.txt."""
    return [line.split()[0] for line in (FOLDER / "later.txt").read_text().splitlines() if line and line[0] != "#"]


def later(api):
    """The patterns of later.txt that hold for one API."""
    return [line.split(":")[-1] for line in lines() if ":" not in line or line.startswith(api + ":")]


def matches(name, pattern):
    """Whether a line of later.txt means `name`."""
    return name == pattern or name.startswith(pattern + ".") or (pattern[-1] == "*" and name.startswith(pattern[:-1]))


def due(api):
    """The record without what comes later."""
    patterns = later(api)
    return [line for line in record(api) if not any(matches(line[0], p) for p in patterns)]


def find(api, name):
    """The object with a public name; a field that only instances have counts, as its class says by annotation or slot."""
    found = APIS[api]
    for word in name.split("."):
        if isinstance(found, type) and not hasattr(found, word):
            if word not in fields(found):
                raise AttributeError(f"{name}: {found.__name__} has no {word}")
            return None
        found = getattr(found, word)
    return found


def fields(cls):
    """What `cls` says of the fields of its instances, and what their __init__ sets."""
    names = {n for c in cls.__mro__ for n in (*c.__dict__.get("__annotations__", ()), *c.__dict__.get("__slots__", ()))}
    for c in cls.__mro__:
        if inspect.isfunction(c.__dict__.get("__init__")):
            names.update(re.findall(r"self\.(\w+)(?:: [^=\n]+| =|,)", inspect.getsource(c.__init__)))
    return names


def shown(value):
    """A default as the record shows it."""
    if isinstance(value, penstock.DType):
        return f"<dtype: {value.name!r}>"
    if inspect.isfunction(value):
        return f"<function {value.__name__} instance>"
    return str(value).encode("unicode_escape").decode()


def arguments(function):
    """The argument list of `function`, in the record's notation; whether `*` and `**` are there, not their names."""
    if isinstance(function, type):
        return ["self", *arguments(inspect.signature(function))]
    if inspect.ismethod(function):
        function = function.__func__
    result = []
    signature = function if isinstance(function, inspect.Signature) else inspect.signature(function)
    for p in signature.parameters.values():
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind)
        result.append(star or p.name + ("" if p.default is p.empty else f"={shown(p.default)}"))
    return result


def split(text):
    """An argument list of the record, at the commas between arguments."""
    found = [a for a in re.split(r", (?=\*{0,2}[a-zA-Z_]\w*(?:=|,|$))", text) if a]
    return ["*" * a.count("*") if a[0] == "*" else a for a in found]


def same(ours, theirs):
    """Whether an argument is the record's: 6 is 6.0, a list is a tuple, and an object as default is any default."""
    name, equals, default = theirs.partition("=")
    mine, my_equals, my_default = ours.partition("=")
    if mine == name and not equals and my_equals:               # it may be left out here
        return True
    if (mine, my_equals) != (name, equals):
        return False
    some_object = default.endswith(" object instance>") or default.startswith("<class ")
    return some_object or my_default == default or number(my_default) == number(default)


def number(text):
    """What a default would be as a number or a list, else the text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_names_exist(api):
    """Every name of the record is there."""
    missing = sorted({name for name, _, _ in due(api) if not exists(api, name)})
    assert not missing, f"{len(missing)} names are missing: {missing}"


def exists(api, name):
    """Whether a public name is there."""
    try:
        find(api, name)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_argument_lists(api):
    """Arguments have the record's names, order and defaults; TensorFlow 2 has added some at the end since."""
    meant = {**TENSORFLOW_2, **OURS}
    different = [text for name, theirs, _ in due(api) if theirs is not None and name not in meant
                 for text in difference(api, name, theirs)]
    assert not different, "\n".join([f"{len(different)} argument lists differ:", *different])


def difference(api, name, theirs):
    """What is wrong with the argument list of `name`, if anything."""
    try:
        ours = arguments(find(api, name.removesuffix(".__init__")))
    except (AttributeError, TypeError, ValueError) as e:
        return [f"{name}: {e}"]
    wanted = split(theirs)
    if wanted == ["*", "**"]:       # of a function that decorates: it does not say
        return []
    if ours[:1] == ["cls"] and wanted[:1] != ["cls"]:       # a class method where TensorFlow has a static one
        ours = ours[1:]
    if wanted[:1] == ["instance"] and ours[:1] == ["self"]:     # of a decorator that names it so
        wanted = ["self", *wanted[1:]]
    if ours[-1:] == wanted[-1:] == ["**"]:                      # new arguments come before the keywords
        ours, wanted = ours[:-1], wanted[:-1]
    extra = ours[len(wanted):]
    if len(ours) < len(wanted) or not all(map(same, ours, wanted)) or not all("=" in a or "*" in a for a in extra):
        return [f"{name}({', '.join(ours)}) should be ({theirs})"]
    return []


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_bases(api):
    """Classes have the public bases of the record."""
    names = {name for name, _, _ in due(api)}
    wrong = [f"{name}({base})" for name, _, base in due(api)
             if base in names and not issubclass(find(api, name), find(api, base))]
    assert not wrong, wrong


@pytest.mark.slow
def test_later_is_not_stale(monkeypatch):
    """No line of later.txt is about names that are all there already."""
    monkeypatch.setattr(difflib, "get_close_matches", lambda *args, **kwargs: [])      # for a quick "there is no such name"
    waiting = {(api, pattern) for api in APIS for name in {name for name, _, _ in record(api)} if not exists(api, name)
               for pattern in later(api) if matches(name, pattern)}
    stale = [line for line in lines() if not any((api, line.split(":")[-1]) in waiting for api in APIS
                                                 if ":" not in line or line.startswith(api + ":"))]
    assert not stale, f"take these lines out of tests/api/later.txt: {stale}"
