"""The C kernels, which are optional: without a compiler ATen and numpy do their work.

Without a compiler, or with PENSTOCK_PURE=1, the wheel has no compiled parts and installs on every platform.
"""
import os
import shlex
import shutil
import sysconfig

from setuptools import Extension, setup

KERNELS = "src/penstock/_src/kernels"


def has_compiler() -> bool:
    """Whether the C compiler that Python would call is installed."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    return shutil.which(command[0]) is not None


EXTENSIONS = [
    Extension("penstock._src.io._scanner", ["src/penstock/_src/io/_scanner.c"], optional=True),
    Extension("penstock._src.kernels._colours", [f"{KERNELS}/_colours.c"], depends=[f"{KERNELS}/_threads.h"],
              extra_compile_args=["-O3", "-fno-math-errno"], optional=True),
    Extension("penstock._src.kernels._exiting", [f"{KERNELS}/_exiting.c"], optional=True),
    Extension("penstock._src.kernels._images", [f"{KERNELS}/_images.c"], depends=[f"{KERNELS}/_threads.h"],
              extra_compile_args=["-O3"], optional=True),
    Extension("penstock._src.kernels._pools", [f"{KERNELS}/_pools.c"], depends=[f"{KERNELS}/_threads.h"],
              extra_compile_args=["-O3"], optional=True),
    Extension("penstock._src.kernels._philox", [f"{KERNELS}/_philox.c"],
              depends=[f"{KERNELS}/_philox_lanes.h", f"{KERNELS}/_threads.h"],
              extra_compile_args=["-O3"], optional=True),
    Extension("penstock._src.kernels._fused", [f"{KERNELS}/_fused.c"],
              depends=[f"{KERNELS}/{name}.h"
                       for name in ("_fused_lanes", "_typed_lanes", "_regions", "_matrix_regions", "_indexing", "_draws",
                                    "_double_lanes", "_widths", "_lanes", "_lanes_end", "_threads")],
              extra_compile_args=["-O3", "-fno-math-errno"], optional=True),
    Extension("penstock._src.kernels._gather", [f"{KERNELS}/_gather.c"], extra_compile_args=["-O3"], optional=True),
    Extension("penstock._src.kernels._rows", [f"{KERNELS}/_rows.c"], extra_compile_args=["-O3"], optional=True),
    Extension("penstock._src.kernels._sparse", [f"{KERNELS}/_sparse.c"], extra_compile_args=["-O3"], optional=True),
    Extension("penstock._src.kernels._sums", [f"{KERNELS}/_sums.c"], depends=[f"{KERNELS}/_threads.h"],
              extra_compile_args=["-O3"], optional=True),
    Extension("penstock._src.kernels._text", [f"{KERNELS}/_text.c"], extra_compile_args=["-O3"], optional=True),
    Extension("penstock._src.kernels._recurrent", [f"{KERNELS}/_recurrent.c"],
              depends=[f"{KERNELS}/{name}.h" for name in ("_recurrent_lanes", "_widths", "_lanes", "_lanes_end", "_threads")],
              extra_compile_args=["-O3", "-fno-math-errno"], optional=True),
    Extension("penstock._src.kernels._matrices", [f"{KERNELS}/_matrices.c"],
              depends=[f"{KERNELS}/{name}.h" for name in ("_matrices_lanes", "_widths", "_lanes", "_lanes_end", "_threads")],
              extra_compile_args=["-O3", "-fno-math-errno"], optional=True),
    Extension("penstock._src.kernels._resize", [f"{KERNELS}/_resize.c"], depends=[f"{KERNELS}/_threads.h"],
              extra_compile_args=["-O3"], optional=True),
    Extension("penstock._src.kernels._updates", [f"{KERNELS}/_updates.c"],
              depends=[f"{KERNELS}/{name}.h" for name in ("_rules", "_rules_processors", "_rules_lanes", "_threads")],
              extra_compile_args=["-O3", "-fno-math-errno"], optional=True),
    Extension("penstock._src.kernels._keyed", [f"{KERNELS}/_keyed.c"],
              depends=[f"{KERNELS}/{name}.h" for name in ("_rules", "_rules_processors", "_rules_lanes", "_threads")],
              extra_compile_args=["-O3", "-fno-math-errno"], optional=True),
]
setup(ext_modules=EXTENSIONS if has_compiler() and os.environ.get("PENSTOCK_PURE") != "1" else [])
