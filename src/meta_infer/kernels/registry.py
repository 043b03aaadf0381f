"""All kernels, as one explicit tuple; for one op the preferred kernel comes first."""

from __future__ import annotations

from meta_infer.kernels.arg_reduce import ARG_REDUCE
from meta_infer.kernels.attention import ATTENTION
from meta_infer.kernels.channel_moves import CHANNEL_MOVES
from meta_infer.kernels.columns import COL2IM, DEFORM_COLUMNS
from meta_infer.kernels.concat import CONCAT
from meta_infer.kernels.conv_chain import CONV_CHAIN
from meta_infer.kernels.conv_depthwise import CONV_DEPTHWISE
from meta_infer.kernels.conv_depthwise_int8 import CONV_DEPTHWISE_INT8
from meta_infer.kernels.conv_direct import CONV_DIRECT
from meta_infer.kernels.conv_first import CONV_FIRST
from meta_infer.kernels.conv_generic import CONV_GENERIC
from meta_infer.kernels.conv_im2col import CONV_IM2COL
from meta_infer.kernels.conv_indirect import CONV_INDIRECT
from meta_infer.kernels.conv_int8 import CONV_INT8
from meta_infer.kernels.conv_lanes import CONV_LANES
from meta_infer.kernels.conv_padded import CONV_PADDED
from meta_infer.kernels.conv_pointwise import CONV_POINTWISE
from meta_infer.kernels.conv_pool import CONV_POOL
from meta_infer.kernels.conv_transpose import CONV_TRANSPOSE
from meta_infer.kernels.conv_winograd import CONV_WINOGRAD
from meta_infer.kernels.det import DET
from meta_infer.kernels.elementwise import ELEMENTWISE
from meta_infer.kernels.expand import EXPAND
from meta_infer.kernels.gather import GATHER
from meta_infer.kernels.gather_nd import GATHER_ELEMENTS, GATHER_ND
from meta_infer.kernels.gemm import GEMM
from meta_infer.kernels.gemm_half import GEMM_HALF
from meta_infer.kernels.gemm_int8 import GEMM_INT8
from meta_infer.kernels.gemm_weight_only import GEMM_WEIGHT_ONLY
from meta_infer.kernels.global_pool import GLOBAL_POOL
from meta_infer.kernels.grid_sample import AFFINE_GRID, GRID_SAMPLE
from meta_infer.kernels.gru import GRU
from meta_infer.kernels.iota import IOTA
from meta_infer.kernels.kernel import Kernel
from meta_infer.kernels.layer_norm import LAYER_NORM
from meta_infer.kernels.linear_attention import LINEAR_ATTENTION
from meta_infer.kernels.lstm import LSTM
from meta_infer.kernels.matmul_batched import MATMUL_BATCHED
from meta_infer.kernels.non_max_suppression import NON_MAX_SUPPRESSION
from meta_infer.kernels.non_zero import NON_ZERO
from meta_infer.kernels.pad import PAD
from meta_infer.kernels.pool import POOL
from meta_infer.kernels.pool_indices import POOL_INDICES
from meta_infer.kernels.random import RANDOM
from meta_infer.kernels.reduce import REDUCE
from meta_infer.kernels.resize import RESIZE
from meta_infer.kernels.resize_axis import RESIZE_AXIS
from meta_infer.kernels.rnn import RNN
from meta_infer.kernels.roi import MAX_ROI_POOL, ROI_ALIGN
from meta_infer.kernels.scan import SCAN
from meta_infer.kernels.scatter import SCATTER
from meta_infer.kernels.sequence import ONE_HOT, REVERSE_SEQUENCE, TENSOR_SCATTER
from meta_infer.kernels.sizes import SIZES
from meta_infer.kernels.slice import SLICE
from meta_infer.kernels.softmax import SOFTMAX
from meta_infer.kernels.squeeze import SQUEEZE
from meta_infer.kernels.top_k import TOP_K
from meta_infer.kernels.transpose import TRANSPOSE
from meta_infer.kernels.tree_walk import TREE_WALK
from meta_infer.kernels.unique import UNIQUE

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
    CONV_INT8,
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


def add_custom(kernel: Kernel) -> None:
    """Let `kernel`, made for a user's op, be chosen like those of KERNELS, for the life of the process."""
    _CUSTOM[kernel.name] = kernel


def kernels_for(op: str) -> tuple[Kernel, ...]:
    """The kernels that can compute `op` as a group's anchor, in order of preference."""
    return tuple(kernel for kernel in (*KERNELS, *_CUSTOM.values()) if op in kernel.anchors)


def kernel_named(name: str) -> Kernel:
    """The kernel called `name`, as variants name it. Raises KeyError when there is none."""
    for kernel in (*KERNELS, *_CUSTOM.values()):
        if kernel.name == name:
            return kernel
    raise KeyError(name)
