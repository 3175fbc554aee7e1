"""The rules of ops, one group of tables per pass.

`OpDef` has the properties that every part of the system needs: signature, shapes, kernels, gradient, effects. Properties for a
single pass are entries in a table of that pass, written beside the op:

    rules.arithmetic.neutral[mul] = {0: 1, 1: 1}

    @rules.fusion.fuse(bias_add)
    def _fuse_bias_add(op, fusing): ...

A pass is one file under `step/` and its group here; an op stays one block in its family. Groups hold data only: sets of ops
that have a property, and tables from an op to a value or a function.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from penstock._src.ops.registry import Kernel, OpDef

V = TypeVar("V")


class RuleTable(dict["OpDef", V]):
    """The entries of one kind of rule, by op. Called with ops, it is the decorator that adds an entry for each."""

    __slots__ = ()

    def __call__(self, *ops: OpDef) -> Callable[[V], V]:
        def add(rule: V) -> V:
            for op in ops:
                self[op] = rule
            return rule
        return add


def forwards(op: Any) -> bool:
    """Whether an op of a graph returns its inputs unchanged."""
    rule = algebra.forwards.get(op.opdef)
    return rule is not None and rule(op.attrs)


def is_pointwise(op: Any) -> bool:
    """Whether an op of a graph is elementwise on float32, with broadcasting."""
    return (op.opdef in pointwise.instruction or op.opdef in pointwise.formula) and \
        (op.opdef not in pointwise.by_rows or op.inputs[0].static_dims in ((), op.outputs[0].static_dims))


class batching:
    """ops/control/vectorize.py: rows that are stacked along a new first axis. Elementwise ops and reductions need no entry."""

    elementwise: set[OpDef] = set()            # other ops that work on each element alone
    broadcasts: set[OpDef] = set()             # those of them whose inputs may have different shapes
    axis: RuleTable[int] = RuleTable()         # the input that is an axis, or several, of the others
    axis_attr: RuleTable[str] = RuleTable()    # the attribute that is an axis, or several, of the inputs
    leading: RuleTable[tuple[int, ...]] = RuleTable()    # inputs that may have any number of leading axes, all of them the same
    first: RuleTable[tuple[int, ...]] = RuleTable()      # inputs whose first axis is one of independent samples
    sizes: RuleTable[int] = RuleTable()        # of those, the input that is a shape with the number of samples first
    fills: set[OpDef] = set()                  # draws the numbers of a tensor, whose shape is the first input
    shared: RuleTable[Callable] = RuleTable()  # (op, *Values) -> outputs that are the same for all rows
    rule: RuleTable[Callable] = RuleTable()    # (op, Rows, *Values) -> stacked outputs, or None for a loop over the rows


class algebra:
    """What an op computes, for several passes."""

    elementwise: set[OpDef] = set()       # works on each element alone, with broadcasting
    sums: set[OpDef] = set()              # returns the sum of its inputs
    multiplies: set[OpDef] = set()        # returns the product of its two inputs, element by element
    joins: set[OpDef] = set()             # concatenates its inputs along the axis that is its last input
    divides: set[OpDef] = set()           # splits its second input into equal parts along the axis that is its first input
    metadata: set[OpDef] = set()          # reads shapes only: goes where its input is, and folds if the shape is known
    forwards: RuleTable[Callable[[dict], bool]] = RuleTable()      # (attributes) -> whether it returns its inputs unchanged


class arithmetic:
    """step/optimize/arithmetic.py"""

    involution: set[OpDef] = set()        # applied twice, it returns its input
    permutes: set[OpDef] = set()          # returns its first input with the axes in the order of its second
    reshapes: set[OpDef] = set()          # returns the elements of its first input in the same order, in another shape
    takes_shape: set[OpDef] = set()       # such an op, with the shape as its second input
    reduces: set[OpDef] = set()           # along the axes of its second input; returns its first if there are none
    neutral: RuleTable[dict[int, Any]] = RuleTable()      # input -> the number that, as this input, leaves the other unchanged
    repeats: RuleTable[int] = RuleTable()                 # the input whose elements, and no others, it returns


class folding:
    """step/optimize/folding.py"""

    fills: RuleTable[int] = RuleTable()                   # returns this number everywhere, in the shape of its input
    checks: set[OpDef] = set()            # does nothing if its first input is true
    selects: set[OpDef] = set()           # returns some of its elements, or as many numbers, however many these are


class tiers:
    """step/tiers/tiers.py"""

    raises: set[OpDef] = set()            # keeps no state: it raises an error for some inputs
    on_host: set[OpDef] = set()           # changes what its handle refers to on the host: not part of a captured step


class attention:
    """step/tiers/blocks.py"""

    softmax: set[OpDef] = set()           # of the rows of scores


class memory:
    """step/optimize/memory.py: elementwise ops need no entry."""

    cheap: set[OpDef] = set()             # takes no longer than it takes to read its inputs and to write its result


class shapes:
    """step/optimize/shapes.py and step/loops/holders.py: arrays and stacks, whose handle is the first input of an op."""

    # it "makes" one, "derives" one (of gradients), "puts" something in, "takes" something out, or "looks" at it
    holder: RuleTable[str] = RuleTable()
    # (op, static shape of the elements) -> of what it takes out; of an element that it puts in, or that is there before
    element: RuleTable[Callable] = RuleTable()


class inlining:
    """step/optimize/inlining.py and branches.py, step/loops/variables.py: ops that call functions."""

    # (op, ctx) -> the bodies of the functions it calls, to be written in its place: one, or two to choose from
    in_place: RuleTable[Callable] = RuleTable()
    chooses: set[OpDef] = set()                           # between two bodies, by its first input
    branches: RuleTable[tuple[str, ...]] = RuleTable()    # attributes with the functions that it chooses from
    loop: RuleTable[tuple[str, str]] = RuleTable()        # attributes with the test and the body of a loop over its inputs


class fusion:
    """step/optimize/fusion.py"""

    # (op, Fusing) -> an op in place of this one and those before it, or a value per output; None: it stays
    fuse: RuleTable[Callable] = RuleTable()
    simplify: RuleTable[Callable] = RuleTable()    # the same, also in steps for a compiler
    absorb: RuleTable[Callable] = RuleTable()  # (op, Fusing): may change the inputs of this op itself
    # (op, fed) -> (begin, end) if, with what is known of it, it returns its last input as these rows among zeros
    among_zeros: RuleTable[Callable] = RuleTable()


class updates:
    """step/optimize/updates.py"""

    # the op that does the same for several, and which of its inputs are lists then; the others are the same for all
    several: RuleTable[tuple[str, frozenset[int]]] = RuleTable()
    # (*numbers, **attributes) -> the rule of kernels/_rules.h that does the same to float32, and its numbers; or None
    chosen: RuleTable[Callable] = RuleTable()
    alone: set[OpDef] = set()             # changes the variables that it is given, and does nothing else
    looks: set[OpDef] = set()             # reads a part or the shape of a variable, and does nothing else
    assigns: set[OpDef] = set()           # sets the variable that is its first input to its second
    compiled: set[OpDef] = set()          # changes variables, and nothing else, and has a compiled kernel on the host
    together: set[OpDef] = set()          # is joined on the host without one


class Skipping(NamedTuple):
    """How an op skips rows: which input is their indices, and (op) -> how many rows its variable has, or None."""
    indices: int
    size: Callable[[Any], int | None]


class rows:
    """Rows of variables; `fixed` is for step/optimize/fusion.py."""

    fixed: RuleTable[Callable] = RuleTable()   # (op, Fusing) -> an op in its place whose results have known sizes, or None
    sums: set[OpDef] = set()                   # adds up the rows of its first input by the places that its second names
    parts: set[OpDef] = set()                  # returns a part of its first input, which its other inputs name
    skips: RuleTable[Skipping] = RuleTable()   # changes rows of a variable; on a GPU it skips those with an index of -1


class pointwise:
    """step/optimize/pointwise.py"""

    instruction: RuleTable[str] = RuleTable()  # of kernels/pointwise.py, which does the same to float32
    formula: RuleTable[Callable] = RuleTable() # (Terms, op, *sources) -> the term that is the result, by several instructions
    on_device: RuleTable[str] = RuleTable()    # of kernels/device_plan.py alone
    along_last: RuleTable[Callable] = RuleTable()  # (op) -> whether its channels are last, where attributes decide that
    columns: set[OpDef] = set()                # sums of all axes but the last, of kernels/device_plan.py alone
    of_columns: RuleTable[OpDef] = RuleTable()     # which of `columns` does the same if the axes are these
    # a reduction whose second input is the axes, or an op over the last axis: it needs whole rows
    over_rows: set[OpDef] = set()
    by_rows: set[OpDef] = set()                # a vector that is its first input has one element for each row of the others
    reduces: set[OpDef] = set()                # those of `over_rows` whose result is one number for each row
    # (op) -> type, inputs, attributes of an op that returns the same without a row that is added to it, and the row; or None
    without_row: RuleTable[Callable] = RuleTable()


class regions:
    """step/optimize/regions.py: pointwise ops and reductions of floats, reshapes and transposes need no entry."""

    lower: RuleTable[Callable] = RuleTable()   # (op, Writer) -> the views that are its results
    views: set[OpDef] = set()                  # returns parts of its input
    # the instruction of kernels/_typed_lanes.h that does the same to integers, booleans, or floats to be compared or converted
    each: RuleTable[str] = RuleTable()
    functions: RuleTable[str] = RuleTable()    # the same of floats, by the mathematical library: for few elements
    folds: RuleTable[str] = RuleTable()        # of kernels/_indexing.h: the same over the axes that are the second input
    tables: set[OpDef] = set()                 # reads few elements of its inputs, which may be large


class small:
    """step/optimize/small.py"""

    text: RuleTable[str] = RuleTable()         # what numpy computes, to the bit, for real numbers: "{} + {}"


class loops:
    """step/loops"""

    improve: RuleTable[Callable] = RuleTable()   # (op, Looping): may change an op of a loop
    linear: RuleTable[int] = RuleTable()         # elementwise, and the input that it multiplies by a function of the others
    saves: RuleTable[str] = RuleTable()          # an op of the stacks of loops: "stack", "push" or "pop"
    outer: RuleTable[Callable] = RuleTable()     # (attributes) -> whether it is a product aᵀb of matrices (plus a third)
    # (list, type and static shape of elements) -> an object with `step`, which does to the list what the op does, and `finish`,
    # which returns it: for a list that only this op of a loop works on
    lists: RuleTable[Callable] = RuleTable()
    # (sum, term, op, Looping): this op is the other one of two terms, and puts a part among zeros -> whether the sum has
    # become an op that adds the part to the term
    adds_to_part: RuleTable[Callable] = RuleTable()
    sums_rows: RuleTable[Callable] = RuleTable()       # (op) -> whether it is the sum over the first axis of a matrix


class numbers:
    """step/compile/numbers.py: integers and booleans that are Python numbers in a program."""

    text: RuleTable[str] = RuleTable()                 # the op on Python numbers: "{} + {}"
    inputs: RuleTable[frozenset[str]] = RuleTable()    # inputs that kernels take as Python numbers, too


class arriving:
    """step/compile/arriving.py"""

    # ops that take data from where it waits: the shapes of their results are known when they have run
    takes: set[OpDef] = set()


class hoisting:
    """step/compile/hoisted.py"""

    # (Known) -> a function that arranges the filter of an op, its second input, for its kernel, where a filter stays for many
    # runs; None: it stays as it is
    pack: RuleTable[Callable] = RuleTable()


class program:
    """step/compile/program.py"""

    # (Known) -> a faster kernel for one op of a step, which takes the same inputs, and may rely on static shapes and constant
    # inputs, and the context, if it names `ctx`; None: the usual kernel
    prepare: RuleTable[Callable] = RuleTable()
    distinct: set[OpDef] = set()               # its first result, if it is a vector, has no element twice
    consumes: RuleTable[frozenset[str]] = RuleTable()      # inputs the kernel may overwrite (donated buffers)
    ends_no_wait: set[OpDef] = set()           # it blocks, but no other op waits for it to be done
    # input -> a kernel that writes the result into it, for floats of one shape and type; used if the input is donated
    overwriting: RuleTable[dict[int, Callable]] = RuleTable()

    @staticmethod
    def overwrites(op: OpDef, at: int, kernel: Callable) -> None:
        """Adds a kernel that writes the result into input `at`."""
        program.overwriting.setdefault(op, {})[at] = kernel


class raw_ops:
    """ops/registry.py: the functions of tf.raw_ops."""

    arguments: RuleTable[dict[str, str]] = RuleTable()     # input or attribute -> what tf.raw_ops calls it


class devices:
    """step/compile/adapt.py and filters.py: the device and the layout of values."""

    anywhere: set[OpDef] = set()               # its result may be in the memory of any device
    filter_input: RuleTable[int] = RuleTable()      # which input is a filter that GPUs need laid out outputs first


class costs:
    """step/place/costs.py, optimize/early.py and cluster/task_session.py: the cost of an op, and when to run it."""

    # (shapes of inputs, of outputs) -> arithmetic operations; without one, the number of elements of the outputs
    flops: RuleTable[Callable] = RuleTable()
    light: set[OpDef] = set()                  # takes negligible time for any inputs
    early: set[OpDef] = set()                  # scheduled right after its inputs


class lists:
    """graph/list_types.py"""

    # (op, index of an output) -> (dtype, static shape) of the elements of its lists, or a tensor with lists like them
    elements: RuleTable[Callable] = RuleTable()

    # step/optimize/shapes.py: what is known of the elements of lists
    makes: RuleTable[Callable] = RuleTable()           # (op) -> the Elements of the list that it makes
    puts: RuleTable[int] = RuleTable()                 # which input becomes an element of the list that it is given
    takes: RuleTable[Callable] = RuleTable()           # (op, Elements) -> the shapes of its results
    resizes: RuleTable[Callable] = RuleTable()         # (op) -> whether the list that it returns may have another length


class fetches:
    """session/session.py"""

    fetched_as: RuleTable[Callable] = RuleTable()      # (value, tensor, engine) -> what a fetch of its output returns


class columns:
    """ops/data/dataset_blocks.py"""

    # the kernel for many values of its first input at once, stacked; the other inputs are the same for all rows
    rows: RuleTable[Kernel] = RuleTable()
    # of a random op: (ctx, operation, executions, *inputs) -> what so many executions draw, stacked
    draws: RuleTable[Callable] = RuleTable()
