"""All kernels, as one explicit tuple; for one op the preferred kernel comes first."""

from __future__ import annotations

from meta_infer.kernels.elementwise import ELEMENTWISE
from meta_infer.kernels.gemm import GEMM
from meta_infer.kernels.kernel import Kernel
from meta_infer.kernels.layer_norm import LAYER_NORM
from meta_infer.kernels.lstm import LSTM
from meta_infer.kernels.matmul_batched import MATMUL_BATCHED
from meta_infer.kernels.reduce import REDUCE
from meta_infer.kernels.softmax import SOFTMAX

KERNELS: tuple[Kernel, ...] = (
    GEMM,
    MATMUL_BATCHED,
    SOFTMAX,
    LAYER_NORM,
    REDUCE,
    LSTM,
    ELEMENTWISE,
)


def kernels_for(op: str) -> tuple[Kernel, ...]:
    """The kernels that can compute `op` as a group's anchor, in order of preference."""
    return tuple(kernel for kernel in KERNELS if op in kernel.anchors)


def kernel_named(name: str) -> Kernel:
    """The kernel called `name`, as variants name it. Raises KeyError when there is none."""
    for kernel in KERNELS:
        if kernel.name == name:
            return kernel
    raise KeyError(name)
