"""Checking what a caller feeds to `run`, and turning it into arrays the code can read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meta_infer.runtime.reader import Tensor
from meta_infer.support.dtypes import dtype_named
from meta_infer.support.errors import InputError

NO_BOUND = ((1 << 31) - 1) // 2
"""A highest size from here on says nothing of the size: `is_unbounded` of ir/shapes.py, which no runtime imports."""


def _near(name: str, known: Sequence[str]) -> str:
    folded = {k.casefold(): k for k in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.4)
    return f"did you mean {folded[near[0]]!r}?" if near else f"the names are {', '.join(map(repr, known))}"


def shape_text(tensor: Tensor, symbols: Mapping[str, Mapping[str, int]]) -> str:
    """A shape with the ranges of its symbols: [1, 3, W (32..960)], [rows (0 or more, no bound), 2]."""
    parts = []
    for dim in tensor.shape:
        limits = symbols.get(str(dim))
        parts.append(f"{dim} ({_range_text(limits)})" if limits else str(dim))
    return f"[{', '.join(parts)}]"


def _range_text(limits: Mapping[str, int]) -> str:
    step = f" in steps of {limits['step']}" if limits["step"] != 1 else ""
    if limits["max"] >= NO_BOUND:
        return f"{limits['min']} or more{step}, no bound"
    return f"{limits['min']}..{limits['max']}{step}"


def check_names(feeds: Mapping[str, Any], inputs: Sequence[Tensor]) -> None:
    """Raises InputError for a name that is no input, and for an input that is not fed."""
    names = [t.name for t in inputs]
    if not isinstance(feeds, dict | Mapping):
        raise InputError(f"are a {type(feeds).__name__}, expected a dict of arrays by name", what="inputs",
                         hint=f"for instance {{{names[0]!r}: array}}" if names else "give an empty dict")
    for name in feeds:
        if name not in names:
            raise InputError("the model has no such input", what=f"input {name!r}", hint=_near(str(name), names))
    for name in names:
        if name not in feeds:
            raise InputError("is missing", what=f"input {name!r}", hint=f"feed all of {', '.join(map(repr, names))}")


def check_output_names(wanted: Sequence[str], outputs: Sequence[Tensor]) -> list[int]:
    """Positions of the outputs asked for. Raises InputError for an unknown name."""
    names = [t.name for t in outputs]
    if isinstance(wanted, str):
        raise InputError("is one name, expected a list of names", what=f"outputs {wanted!r}", hint=f"[{wanted!r}]")
    for name in wanted:
        if name not in names:
            raise InputError("the model has no such output", what=f"output {name!r}", hint=_near(str(name), names))
    return [names.index(name) for name in wanted]


def check_shared_dims(arrays: Sequence[np.ndarray], inputs: Sequence[Tensor],
                      symbols: Mapping[str, Mapping[str, int]]) -> None:
    """Raises InputError when a named dim that several inputs have is of different size in two of them."""
    seen: dict[str, tuple[int, str]] = {}
    for array, tensor in zip(arrays, inputs, strict=True):
        for axis, (size, dim) in enumerate(zip(array.shape, tensor.shape, strict=True)):
            if not isinstance(dim, str) or dim not in symbols:             # sums and products: the runtime's part
                continue
            first, name = seen.setdefault(dim, (size, tensor.name))
            if first != size:
                raise InputError(f"dimension {axis} ({dim}) is {size}, but {first} in input {name!r}",
                                 what=f"input {tensor.name!r}", hint=f"feed both with the same {dim}")


def _dtype_hint(tensor: Tensor) -> str:
    if not dtype_named(tensor.dtype).is_narrow:
        return f"convert it with .astype('{tensor.dtype}')"
    if tensor.numpy != tensor.storage:
        return f"convert it with .astype(ml_dtypes.{tensor.numpy.name})"
    return (f"numpy has no {tensor.dtype}: give the {tensor.storage} integers that hold it, or install ml_dtypes and "
            "give its arrays")


def as_input(value: Any, tensor: Tensor, symbols: Mapping[str, Mapping[str, int]]) -> np.ndarray:
    """`value` as a dense, aligned array of the input's dtype; copied only when it is not one already.

    A type that numpy lacks may be given as its storage as well (uint16 for bfloat16). Raises InputError for another
    dtype, another rank, and dimensions out of range. Dims that are computed from several symbols are compared by the
    runtime itself.
    """
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    what = f"input {tensor.name!r}"
    if array.dtype not in (tensor.numpy, tensor.storage):
        raise InputError(f"has dtype {array.dtype}, expected {tensor.dtype}", what=what, hint=_dtype_hint(tensor))
    if array.ndim != len(tensor.shape):
        raise InputError(f"has {array.ndim} dimensions {list(array.shape)}, expected {len(tensor.shape)}: "
                         f"{shape_text(tensor, symbols)}", what=what, hint="reshape it")
    for axis, (size, dim) in enumerate(zip(array.shape, tensor.shape, strict=True)):
        limits = symbols.get(str(dim))
        fits = (limits["min"] <= size <= limits["max"] and (size - limits["min"]) % limits["step"] == 0
                if limits else size == dim or isinstance(dim, str))
        if not fits:
            raise InputError(f"dimension {axis} is {size}, the shape must be {shape_text(tensor, symbols)}", what=what,
                             hint="feed an allowed shape, or build the package with another --shape")
    # An array in the other byte order has a dtype of its own and was refused above.
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C")
