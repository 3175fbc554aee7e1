"""Loops of a step: from a `while_loop` in the graph to one `while` in the program.

A recurrent network is a loop whose iterations are short: a product of matrices, a dozen pointwise ops, a counter. Run op by op,
most of its time is spent between kernels. This package has the passes that shorten an iteration and the writers that turn a
loop into Python source. There are two forms of a loop, and both end in the same source:

- *Dataflow loops* of v1 graphs: Enter, Merge, Switch, NextIteration and Exit ops in one frame (`graph/frames.py`).
- *Functional loops*: one While op, whose condition and body are functions.

Passes, called by `step/optimize/pipeline.py`:

    variables.py    unused variables of functional loops are removed, from the last loop to the first
    invariants.py   what is the same in all iterations is computed once, in front of the loop
    improve.py      gradients of loops: what depends on saved values only is computed for all iterations at once
    saved.py        what a loop saves for its gradient: constants are not saved, arrays used together are saved as one
    holders.py      which array or stack each op of a step works on, for shapes and for saved.py

Pointwise ops of one iteration become one kernel in `step/optimize/pointwise.py`, which treats ops outside of loops, too.

Writers, called by `step/compiler.py` for a step, and by a While op for its body:

    structured.py   dataflow loops and conditionals as `while` and `if`; None for graphs that are not of this form
    functional.py   the condition and the body of a While op in one `while`; functions that it calls are inlined
    blocks.py       what both share: source with blocks, and where values are dropped
    counted.py      which tensors of a functional loop are Python numbers
    outer_sum.py    sums of small products over all iterations as few large products, added up behind the loop

Counters and conditions are Python numbers (`step/compile/numbers.py`). A loop that no writer supports runs on the dataflow
executor (`execute/dataflow.py`), with the same results. A loop over several devices gets a control loop on each
(`step/partition/loops.py`).

Every pass keeps three invariants: an iteration has the same effects in the same order; a loop without iterations computes
nothing that may fail; results change at most by rounding (`improve.py` reorders sums and products of floats).
"""
