"""tf.sysconfig: flags for compiling against TensorFlow's C++ library, which does not exist here."""
from __future__ import annotations

import pathlib
from typing import Any

from penstock._src.base.api import export

export.value(1, "sysconfig.CXX11_ABI_FLAG", v1=["CXX11_ABI_FLAG"])
export.value(201703, "sysconfig.CXX_VERSION")
export.value(0, "sysconfig.MONOLITHIC_BUILD", v1=["MONOLITHIC_BUILD"])


@export("sysconfig.get_include")
def get_include() -> str:
    """The folder of the package; it holds no headers."""
    return str(pathlib.Path(__file__).parents[2])


@export("sysconfig.get_lib")
def get_lib() -> str:
    """The folder of the package; it holds no library."""
    return str(pathlib.Path(__file__).parents[2])


@export("sysconfig.get_compile_flags")
def get_compile_flags() -> list[str]:
    """No flags: there is nothing to compile against."""
    return []


@export("sysconfig.get_link_flags")
def get_link_flags() -> list[str]:
    """No flags: there is nothing to link."""
    return []


@export("sysconfig.get_build_info")
def get_build_info() -> dict[str, Any]:
    """The build configuration of the kernels: that of PyTorch."""
    import torch
    version = torch.version.cuda
    info: dict[str, Any] = {"is_cuda_build": version is not None, "is_rocm_build": torch.version.hip is not None,
                            "is_tensorrt_build": False}
    if version is not None:
        info.update(cuda_version=version, cudnn_version=str(torch.backends.cudnn.version()),
                    cuda_compute_capabilities=torch.cuda.get_arch_list())
    return info
