"""Of `ops.variable_scope`: the store in which `get_variable` looks."""
from penstock._src.state.variables.store import EagerVariableStore  # noqa: F401
from penstock._src.state.variables.store import VariableStore as _VariableStore  # noqa: F401
from penstock._src.state.variables.store import current_store as _get_default_variable_store  # noqa: F401
from penstock._src.state.variables.store import with_store as with_variable_store  # noqa: F401
from penstock.compat import v1 as tf

variable = tf.Variable                       # a variable of the current mode, made by the creators in force
