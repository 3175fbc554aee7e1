"""Random seeds: the graph-level (or process-level, when eager) seed, and the pair that each random op gets.

A random op has two seed attributes. They come from the graph's seed and the op's own:

    graph seed   op seed    the op gets
    none         none       (None, None): unpredictable
    none         s          (87654321, s)
    g            none       (g, the number of such ops made so far): repeatable, different for each op
    g            s          (g, s)
"""
from __future__ import annotations

import random
import weakref
from typing import Any

from penstock._src.base.api import export
from penstock._src.graph import context

DEFAULT_GRAPH_SEED = 87654321
_MAXINT32 = 2**31 - 1


class _Eager:
    """The seed of eager execution, and the numbers drawn from it for ops without their own seed."""
    seed: int | None = None
    rng: random.Random | None = None
    generation = 0          # counts calls of set_seed: streams of an older generation restart
    drawn: set = set()      # pairs of seeds drawn for one execution, which need no stream that continues
    initializers: random.Random | None = None       # the seeds of Keras initializers, after keras.utils.set_random_seed


_eager = _Eager()
_op_seeds: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()     # how many op seeds each graph has assigned


def eager_seed() -> int | None:
    """The seed that was set outside of graphs."""
    return _eager.seed


def generation() -> int:
    """How many times the eager seed was set."""
    return _eager.generation


def gave_seeds(graph: Any) -> bool:
    """Whether ops of a graph took their seeds from the graph's."""
    return _op_seeds.get(graph, 0) > 0


def take_drawn(seed: int, seed2: int) -> bool:
    """Whether these seeds were drawn for a single execution; True only once."""
    try:
        _eager.drawn.remove((seed, seed2))
    except KeyError:
        return False
    return True


def _pair(seed: int, op_seed: int) -> tuple[int, int]:
    """Both seeds as attributes of an op. Kernels take (0, 0) for "no seed"."""
    seeds = seed % _MAXINT32, op_seed % _MAXINT32
    return seeds if seeds != (0, 0) else (0, _MAXINT32)


def first_of_function() -> tuple[int, int] | None:
    """The seeds of the first random op of a function that is traced outside of graphs; None without a seed."""
    return None if _eager.seed is None else _pair(_eager.seed, 0)


def _set_eager_seed(seed: int | None) -> None:
    _eager.seed = seed
    _eager.rng = None if seed is None else random.Random(seed)
    _eager.generation += 1
    _eager.drawn.clear()


def seed_initializers(seed: int | None) -> None:
    """Starts the sequence of seeds for initializers without a seed."""
    _eager.initializers = None if seed is None else random.Random(seed)


def next_initializer_seed() -> int | None:
    """The next seed for an initializer, the same as Keras'; None if no sequence was started."""
    return None if _eager.initializers is None else _eager.initializers.randint(1, 10**9)


def initial_seed() -> int:
    """A seed for a generator of a layer: the next of the sequence of initializers, else one of Python's random numbers."""
    seed = next_initializer_seed()
    return random.randint(1, 10**9) if seed is None else seed


@export(v1=["random.get_seed", "get_seed"])
def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """The two seeds that an op with seed `op_seed` (or None) should use.

    >>> tf.get_seed(7)
    (87654321, 7)
    """
    eager = context.executing_eagerly()
    graph: Any = None if eager else context.current_graph()
    seed = _eager.seed if eager else graph.seed
    if seed is None:
        if op_seed is None:
            if context.process.seeds_required:
                raise RuntimeError("Random ops require a seed to be set when determinism is enabled. Please set a seed before "
                                   "running the op, e.g. by calling tf.random.set_seed(1).")
            return None, None
        return DEFAULT_GRAPH_SEED, op_seed % _MAXINT32
    once = eager and op_seed is None
    if op_seed is None:
        if eager:
            op_seed = _eager.rng.randint(0, _MAXINT32)      # type: ignore[union-attr]
        else:
            op_seed = _op_seeds.get(graph, 0)
            _op_seeds[graph] = op_seed + 1
            if hasattr(graph, "_seed_used"):
                graph._seed_used = True
    seeds = _pair(seed, op_seed)
    if once:
        if len(_eager.drawn) > 1000:                        # requested, but never used
            _eager.drawn.clear()
        _eager.drawn.add(seeds)
    return seeds


@export("random.set_seed", v1=["random.set_random_seed", "set_random_seed"])
def set_seed(seed: int | None) -> None:
    """Sets the seed of the default graph, or of eager execution.

    Args:
        seed: Integer. Ops without a seed get one that depends on it and on their position in the graph.

    >>> def draw():
    ...     with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
    ...         tf.random.set_seed(1234)
    ...         return sess.run(tf.compat.v1.random_uniform([3]))
    >>> bool((draw() == draw()).all())
    True
    """
    if context.executing_eagerly():
        _set_eager_seed(seed)
    else:
        context.current_graph().seed = seed
