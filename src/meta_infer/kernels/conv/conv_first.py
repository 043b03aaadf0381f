"""The first convolution of a network: a plain NCHW input of few channels, a blocked output.

The loop nests are those of `conv_direct` and `conv_padded` with single channels in the place of channel blocks, so no
lane of the input is padding and nothing has to be converted.
"""

from __future__ import annotations

from meta_infer.ir.group import Group
from meta_infer.kernels.conv.conv_direct import DIRECT
from meta_infer.kernels.conv.conv_form import form_kernel
from meta_infer.kernels.conv.conv_padded import PADDED
from meta_infer.kernels.conv.conv_shape import ConvShape, extra_inputs

_MOST_CHANNELS = 4


def _takes(group: Group, conv: ConvShape) -> bool:
    if not isinstance(conv.in_channels, int) or conv.in_channels > _MOST_CHANNELS:
        return False
    return conv.x.name not in extra_inputs(group, conv)               # the epilogue would want it blocked


CONV_FIRST = form_kernel("conv_first", {"direct": DIRECT, "padded": PADDED}, takes_plain=True, takes=_takes)
