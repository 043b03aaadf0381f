"""All kernels, as one explicit tuple; for one op the preferred kernel comes first."""

from __future__ import annotations

from meta_infer.kernels.attention.attention import ATTENTION
from meta_infer.kernels.attention.linear_attention import LINEAR_ATTENTION
from meta_infer.kernels.conv.conv_chain import CONV_CHAIN
from meta_infer.kernels.conv.conv_depthwise import CONV_DEPTHWISE
from meta_infer.kernels.conv.conv_direct import CONV_DIRECT
from meta_infer.kernels.conv.conv_few import CONV_FEW
from meta_infer.kernels.conv.conv_first import CONV_FIRST
from meta_infer.kernels.conv.conv_generic import CONV_GENERIC
from meta_infer.kernels.conv.conv_im2col import CONV_IM2COL
from meta_infer.kernels.conv.conv_indirect import CONV_INDIRECT
from meta_infer.kernels.conv.conv_lanes import CONV_LANES
from meta_infer.kernels.conv.conv_padded import CONV_PADDED
from meta_infer.kernels.conv.conv_pointwise import CONV_POINTWISE
from meta_infer.kernels.conv.conv_pool import CONV_POOL
from meta_infer.kernels.conv.conv_transpose import CONV_TRANSPOSE
from meta_infer.kernels.conv.conv_winograd import CONV_WINOGRAD
from meta_infer.kernels.conv.squeeze import SQUEEZE
from meta_infer.kernels.elementwise import ELEMENTWISE
from meta_infer.kernels.image.columns import COL2IM, DEFORM_COLUMNS
from meta_infer.kernels.image.global_pool import GLOBAL_POOL
from meta_infer.kernels.image.grid_sample import AFFINE_GRID, GRID_SAMPLE
from meta_infer.kernels.image.pool import POOL
from meta_infer.kernels.image.pool_indices import POOL_INDICES
from meta_infer.kernels.image.resize import RESIZE
from meta_infer.kernels.image.resize_axis import RESIZE_AXIS
from meta_infer.kernels.image.roi import MAX_ROI_POOL, ROI_ALIGN
from meta_infer.kernels.int8.conv_depthwise_int8 import CONV_DEPTHWISE_INT8
from meta_infer.kernels.int8.conv_int8 import CONV_INT8
from meta_infer.kernels.int8.conv_winograd_int8 import CONV_WINOGRAD_INT8
from meta_infer.kernels.int8.gemm_int8 import GEMM_INT8
from meta_infer.kernels.iota import IOTA
from meta_infer.kernels.kernel import Kernel
from meta_infer.kernels.matmul.gemm import GEMM
from meta_infer.kernels.matmul.gemm_half import GEMM_HALF
from meta_infer.kernels.matmul.gemm_weight_only import GEMM_WEIGHT_ONLY
from meta_infer.kernels.matmul.matmul_batched import MATMUL_BATCHED
from meta_infer.kernels.movement.channel_moves import CHANNEL_MOVES
from meta_infer.kernels.movement.concat import CONCAT
from meta_infer.kernels.movement.expand import EXPAND
from meta_infer.kernels.movement.gather import GATHER
from meta_infer.kernels.movement.gather_nd import GATHER_ELEMENTS, GATHER_ND
from meta_infer.kernels.movement.pad import PAD
from meta_infer.kernels.movement.scatter import SCATTER
from meta_infer.kernels.movement.sequence import ONE_HOT, REVERSE_SEQUENCE, TENSOR_SCATTER
from meta_infer.kernels.movement.slice import SLICE
from meta_infer.kernels.movement.transpose import TRANSPOSE
from meta_infer.kernels.random import RANDOM
from meta_infer.kernels.recurrent.gru import GRU
from meta_infer.kernels.recurrent.lstm import LSTM
from meta_infer.kernels.recurrent.rnn import RNN
from meta_infer.kernels.reduction.arg_reduce import ARG_REDUCE
from meta_infer.kernels.reduction.det import DET
from meta_infer.kernels.reduction.layer_norm import LAYER_NORM
from meta_infer.kernels.reduction.non_max_suppression import NON_MAX_SUPPRESSION
from meta_infer.kernels.reduction.non_zero import NON_ZERO
from meta_infer.kernels.reduction.reduce import REDUCE
from meta_infer.kernels.reduction.scan import SCAN
from meta_infer.kernels.reduction.softmax import SOFTMAX
from meta_infer.kernels.reduction.top_k import TOP_K
from meta_infer.kernels.reduction.tree_walk import TREE_WALK
from meta_infer.kernels.reduction.unique import UNIQUE
from meta_infer.kernels.sizes import SIZES

KERNELS: tuple[Kernel, ...] = (
    CONV_CHAIN,
    SQUEEZE,
    CONV_POINTWISE,
    CONV_DEPTHWISE,
    CONV_FIRST,
    CONV_DIRECT,
    CONV_PADDED,
    CONV_WINOGRAD,
    CONV_TRANSPOSE,
    CONV_FEW,
    CONV_INT8,
    CONV_WINOGRAD_INT8,
    CONV_DEPTHWISE_INT8,
    CONV_LANES,
    CONV_INDIRECT,
    CONV_IM2COL,
    CONV_GENERIC,
    CONV_POOL,
    POOL,
    POOL_INDICES,
    ROI_ALIGN,
    MAX_ROI_POOL,
    GRID_SAMPLE,
    AFFINE_GRID,
    DEFORM_COLUMNS,
    COL2IM,
    GLOBAL_POOL,
    GEMM,
    GEMM_HALF,
    GEMM_INT8,
    GEMM_WEIGHT_ONLY,
    MATMUL_BATCHED,
    SOFTMAX,
    LAYER_NORM,
    REDUCE,
    ARG_REDUCE,
    SCAN,
    DET,
    RANDOM,
    TREE_WALK,
    LSTM,
    GRU,
    RNN,
    LINEAR_ATTENTION,
    ATTENTION,
    ELEMENTWISE,
    TRANSPOSE,
    CHANNEL_MOVES,
    CONCAT,
    SLICE,
    GATHER,
    GATHER_ND,
    GATHER_ELEMENTS,
    SCATTER,
    TENSOR_SCATTER,
    REVERSE_SEQUENCE,
    ONE_HOT,
    TOP_K,
    NON_ZERO,
    UNIQUE,
    NON_MAX_SUPPRESSION,
    EXPAND,
    PAD,
    RESIZE,
    RESIZE_AXIS,
    SIZES,
    IOTA,
)


_CUSTOM: dict[str, Kernel] = {}
_RIVALS: dict[str, tuple[Kernel, str]] = {}


def add_custom(kernel: Kernel) -> None:
    """Let `kernel`, made for a user's op, be chosen like those of KERNELS, for the life of the process."""
    _CUSTOM[kernel.name] = kernel


def add_rival(kernel: Kernel, digest: str) -> None:
    """Let `kernel`, which a user brings for an op that exists, be chosen beside the others until `drop_rivals`.

    `digest` stands for its source. Raises ValueError when there is a kernel of that name.
    """
    if kernel.name in _RIVALS or any(known.name == kernel.name for known in (*KERNELS, *_CUSTOM.values())):
        raise ValueError(f"kernel {kernel.name!r} exists already")
    _RIVALS[kernel.name] = kernel, digest


def drop_rivals() -> None:
    """Forget the kernels that an earlier build was given."""
    _RIVALS.clear()


def rival_digest(name: str) -> str:
    """What stands for the source of a kernel that a user brings for an op that exists; '' for all other kernels."""
    return _RIVALS[name][1] if name in _RIVALS else ""


def rival_digests() -> dict[str, str]:
    """Kernels that users bring for ops that exist, with what stands for their sources."""
    return {name: digest for name, (_, digest) in sorted(_RIVALS.items())}


def all_kernels() -> tuple[Kernel, ...]:
    """Those of KERNELS, and after them those of users."""
    return *KERNELS, *_CUSTOM.values(), *(kernel for kernel, _ in _RIVALS.values())


def kernels_for(op: str) -> tuple[Kernel, ...]:
    """The kernels that can compute `op` as a group's anchor, in order of preference."""
    return tuple(kernel for kernel in all_kernels() if op in kernel.anchors)


def kernel_named(name: str) -> Kernel:
    """The kernel called `name`, as variants name it. Raises KeyError when there is none."""
    for kernel in all_kernels():
        if kernel.name == name:
            return kernel
    raise KeyError(name)
