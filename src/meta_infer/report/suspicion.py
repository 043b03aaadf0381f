"""Where to look when results are off, likeliest cause first: most trouble sits before the first operator."""

from __future__ import annotations

from collections.abc import Sequence

from meta_infer.verify.compare import TensorComparison, first_beyond


def suspicion(layers: Sequence[TensorComparison], recorded: bool, bisected: str = "") -> list[str]:
    """The order of suspicion as numbered lines, each with what this comparison already says about it.

    `layers` are the inner tensors that were compared, `recorded` tells that the reference was a file of recorded
    tensors and not ONNX Runtime on the same arrays; `bisected` is the verdict of a bisection.
    """
    wrong = first_beyond(layers)
    before = layers[:layers.index(wrong)] if wrong is not None else ()
    inputs = ("are the recorded inputs the very arrays behind the recorded outputs: sample, layout (NCHW or NHWC), "
              "dtype, order in the batch?" if recorded else "not the cause: both sides were given the same arrays")
    prepared = ("are scaling, mean, channel order (RGB or BGR), resizing and padding those of the training code?"
                if recorded else "not compared here; `--reference` takes tensors recorded in the training framework")
    if wrong is not None:
        after = f", right up to {before[-1].name!r}" if before else ""
        inner = f"{wrong.name!r} is the first wrong one{after}: its node and what lies between are to blame"
    elif layers:
        inner = "all inner tensors that could be compared are right: look between the last of them and the outputs"
    else:
        inner = "`--layers` finds the first wrong tensor"
    return [
        f"1. inputs: {inputs}",
        f"2. preprocessing: {prepared}",
        f"3. layers: {inner}",
        "4. what an operator means: padding (auto_pad, count_include_pad, ceil_mode), rounding and coordinates "
        "(Resize, Round, Cast), axis and epsilon, of that node in its opset",
        f"5. rewrites and kernels: {bisected or '`--bisect` leaves them out by halves and names the guilty one'}",
    ]
