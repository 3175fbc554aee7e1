"""Process-wide state: modes are fields of base/modes.py, environment variables of ours are in base/switches.py, and no other
state of the process changes what a call means."""
import ast
import pathlib
import re

import penstock
from penstock._src.base import modes, switches

ROOT = pathlib.Path(penstock.__file__).parent / "_src"
FILES = {str(f.relative_to(ROOT)): f.read_text() for f in sorted(ROOT.rglob("*.py"))}

# Variables of other programs, which are read where they apply.
FOREIGN = {
    "TF_CONFIG", "TF_EXP_BASE_DIR", "TEST_TMPDIR", "TEST_SRCDIR", "KERAS_HOME",         # TensorFlow's and Keras's
    "TF_USE_LEGACY_KERAS",
    "SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "CUDA_VISIBLE_DEVICES",     # of schedulers
    "RAY_DEDUP_LOGS",
    "HOME", "XDG_CONFIG_HOME", "PYTHONPATH", "PYCHARM_HOSTED",                          # the user's environment
    "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "CUBLAS_WORKSPACE_CONFIG",  # of kernel libraries
    "TORCHINDUCTOR_CACHE_DIR",
}

# Module-level names that functions assign: caches and counters, and what each is. The list may only shrink.
ASSIGNED = {
    "base/tf_logging.py": {"_logger"},                                   # the logger, created on first use
    "compat/programs/inside/pyct.py": {"_loaded"},                       # whether a module is loaded
    "execute/context.py": {"_Wait", "_eager"},                           # a class loaded late; the context of eager ops
    "graph/convert.py": {"_CONST"},                                      # an op, looked up once
    "kernels/sharing.py": {"_total"},                                    # cores in use
    "library/testing/platform.py": {"_temp_dir"},                        # the folder of this process
    "models/distribute/connect.py": {"_connected"},                      # the cluster that this process is connected to
    "models/keras/backend/state.py": {"_state"},                         # Keras's session and graph
    "models/keras/engine/call_context.py": {"_registered"},              # whether a hook is installed
    "state/checkpoint/restore.py": {"_provider"},                        # the preload of another library
    "training/summary/profiling.py": {"_tracing"},                       # the trace that is being written
}


def environment_names(text):
    """The environment variables that a source names where it uses os.environ."""
    return set(re.findall(r"environ(?:\.get|\.setdefault|\.pop)?[(\[]\s*[\"'](\w+)", text)) | \
        set(re.findall(r"[\"'](\w+)[\"'] (?:not )?in os\.environ", text))


def test_environment_variables_are_in_the_table_or_foreign():
    known = FOREIGN | set(switches.SWITCHES)
    assert {name: left for name, text in FILES.items() if (left := environment_names(text) - known)} == {}
    assert environment_names('os.environ.get("A"); os.environ["B"]; "C" in os.environ') == {"A", "B", "C"}


def test_functions_assign_no_other_names_of_modules():
    found = {}
    for name, text in FILES.items():
        assigned = {n for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Global) for n in node.names}
        if assigned:
            found[name] = assigned
    assert found == ASSIGNED


def test_modes_are_restored():
    before = modes.snapshot()
    modes.process.tensor_equality = not modes.process.tensor_equality
    assert modes.snapshot() != before
    modes.restore(before)
    assert modes.snapshot() == before
