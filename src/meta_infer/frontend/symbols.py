"""Input shapes: the model's named dimensions and the user's `--shape` become ints and ranged symbols."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import TypeProto, ValueInfoProto

from meta_infer.frontend.names import NameTable
from meta_infer.ir.graph import Shape
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.support.errors import ModelError, UsageError

_EXAMPLE = "--shape x=1,3,48,32..960 (or 32..960:32 for multiples of 32, ? to leave a dimension as it is)"
_RANGE = re.compile(r"(\d+)\.\.(\d+)(?::(\d+))?")
_MAX_DIM = (1 << 31) - 1


@dataclass(frozen=True)
class DimRange:
    """Sizes `lo, lo + step, ..., hi`, both ends included. Memory is planned for sizes up to `usual` (0: all)."""

    lo: int
    hi: int
    step: int = 1
    usual: int = 0

    def __str__(self) -> str:
        return f"{self.lo}..{self.usual or self.hi}" + (f":{self.step}" if self.step != 1 else "")


DimSpec = int | DimRange | None
"""What a user says of one dimension: a size, a range, or nothing."""


def parse_shape_spec(text: str) -> tuple[str, tuple[DimSpec, ...]]:
    """Read one `NAME=DIMS`, for example `x=1,3,48,32..960`.

    A dimension is a size, `lo..hi`, `lo..hi:step`, or `?` to leave it as the model declares it; `x=` is a
    scalar. Raises UsageError.
    """
    name, equals, dims = text.rpartition("=")
    if not equals or not name.strip():
        raise UsageError("must be NAME=DIM,DIM,...", what=f"shape {text!r}", hint=_EXAMPLE)
    parts = [part.strip() for part in dims.split(",")] if dims.strip() else []
    return name.strip(), tuple(_parse_dim(part, text) for part in parts)


def parse_shape_specs(texts: Sequence[str]) -> dict[str, tuple[DimSpec, ...]]:
    """As `parse_shape_spec`, one per input. Raises UsageError for an input that is named twice."""
    shapes: dict[str, tuple[DimSpec, ...]] = {}
    for text in texts:
        name, dims = parse_shape_spec(text)
        if name in shapes:
            raise UsageError("is given twice", what=f"shape of {name!r}", hint="give one --shape for each input")
        shapes[name] = dims
    return shapes


def _parse_dim(part: str, text: str) -> DimSpec:
    what = f"shape {text!r}"
    if part == "?":
        return None
    if part.isdecimal() and part.isascii():
        lo = hi = int(part)
        step = 1
    elif match := _RANGE.fullmatch(part):
        lo, hi, step = int(match[1]), int(match[2]), int(match[3] or 1)
    else:
        raise UsageError(f"cannot read the dimension {part!r}", what=what, hint=_EXAMPLE)
    if hi > _MAX_DIM:
        raise UsageError(f"{part} is over the largest dimension, {_MAX_DIM}", what=what, hint=_EXAMPLE)
    if lo > hi:
        raise UsageError(f"the range {part} is empty", what=what, hint=f"write {hi}..{lo}")
    if step < 1 or (hi - lo) % step:
        last = hi - (hi - lo) % step if step else hi
        raise UsageError(f"{hi} is not {lo} plus a multiple of {step}", what=what,
                         hint=f"write {lo}..{last}:{step or 1}")
    return lo if part.isdecimal() else DimRange(lo, hi, step)


@dataclass(frozen=True)
class _Axis:
    """One dimension of one input as the model declares it: a size, a name, or neither."""

    input: ValueInfoProto
    axis: int
    rank: int
    size: int | None = None
    param: str = ""

    @property
    def key(self) -> str:
        """Equal for dimensions that must be equal: names of the model are shared, the rest is not."""
        return f"dim {self.param}" if self.param else f"axis {self.axis} of {self.input.name}"

    def __str__(self) -> str:
        return f"input {self.input.name!r} axis {self.axis}" + (f" ({self.param!r})" if self.param else "")


def _sized(symbol: str, spec: DimSpec) -> Dim:
    assert spec is not None
    return Symbol(symbol, spec.lo, spec.hi, spec.step, usual=spec.usual).dim if isinstance(spec, DimRange) else spec


@dataclass(frozen=True)
class OpenDim:
    """A dimension that neither the model nor the user sets. `symbol` is its name in the graph, once it has a range."""

    key: str
    symbol: str
    param: str
    axis: int
    rank: int

    def sized(self, spec: DimSpec) -> Dim:
        """The dimension in the graph when it has this size or range."""
        return _sized(self.symbol, spec)


@dataclass(frozen=True)
class InputDims:
    """What the model and the user say of the dimensions of every input."""

    axes: Mapping[str, list[_Axis]]
    given: Mapping[str, DimSpec]
    names: Mapping[str, str]

    @property
    def open(self) -> tuple[OpenDim, ...]:
        """Every dimension that needs a range from elsewhere, once."""
        found = {axis.key: OpenDim(axis.key, self.names[axis.key], axis.param, axis.axis, axis.rank)
                 for row in self.axes.values() for axis in row if axis.size is None and axis.key not in self.given}
        return tuple(found.values())

    def shapes(self, chosen: Mapping[str, DimSpec]) -> dict[str, Shape]:
        """Shape of every input, by ONNX name; `chosen` has a size or range for each open dimension, by key."""
        return {name: tuple(self._dim(axis, chosen) for axis in row) for name, row in self.axes.items()}

    def _dim(self, axis: _Axis, chosen: Mapping[str, DimSpec]) -> Dim:
        if axis.size is not None:
            return axis.size
        spec = self.given[axis.key] if axis.key in self.given else chosen[axis.key]
        return _sized(self.names.get(axis.key, ""), spec)

    def notes(self, chosen: Mapping[str, DimSpec], narrowed: Sequence[str]) -> list[str]:
        """A line for each input that has open dimensions: what was taken, and how to set it.

        A dimension that two inputs share is told with the first of them.
        """
        told: set[str] = set()
        lines = []
        for name, row in self.axes.items():
            new = [axis for axis in row if axis.key in chosen and axis.key not in told]
            if not new:
                continue
            told.update(axis.key for axis in new)
            taken = ",".join(str(chosen[axis.key]) if axis in new else "?" for axis in row)
            blanks = ",".join("LO..HI" if axis in new else "?" for axis in row)
            limited = [f"axis {axis.axis}" for axis in new if axis.key in narrowed]
            why = f" ({', '.join(limited)}: what the model was found to accept)" if limited else ""
            endless = [f"axis {axis.axis}" for axis in new if getattr(chosen[axis.key], "usual", 0)]
            beyond = f"; more of {' and '.join(endless)} runs too, in memory obtained then" if endless else ""
            lines.append(f"input {name!r}: no range given, taking {name}={taken}{why}{beyond}; set it with "
                         f"--shape {name}={blanks}")
        return lines


def read_input_dims(inputs: Sequence[ValueInfoProto], shapes: Mapping[str, Sequence[DimSpec]],
                    names: NameTable) -> InputDims:
    """The dimensions of `inputs`, with what the user says of them in `shapes`.

    Dimensions of one name in the model share one symbol, so a size or range given for one input holds for
    all. Raises UsageError when `shapes` contradicts the model or itself, ModelError for an unknown rank.
    """
    axes = {value.name: _axes(value, shapes.get(value.name)) for value in inputs}
    for name in shapes:
        if name not in axes:
            near = difflib.get_close_matches(name, axes, 1)
            raise UsageError("no such input of the model", what=f"shape of {name!r}",
                             hint=f"did you mean {near[0]!r}?" if near else f"inputs are {', '.join(axes)}")
    given = _given(axes, shapes)
    symbols: dict[str, str] = {}
    for axis in (axis for row in axes.values() for axis in row if axis.size is None):
        if axis.key not in symbols and not isinstance(given.get(axis.key), int):
            symbols[axis.key] = names.identifier(axis.param or f"{axis.input.name}_d{axis.axis}")
    return InputDims(axes, given, symbols)


def _axes(value: ValueInfoProto, spec: Sequence[DimSpec] | None) -> list[_Axis]:
    tensor: TypeProto.Tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        if spec is None:
            raise ModelError("its rank is unknown: the model declares no shape", what=f"input {value.name!r}",
                             hint=f"give one: {_EXAMPLE.replace('x=', value.name + '=', 1)}")
        return [_Axis(value, i, len(spec)) for i in range(len(spec))]
    rank = len(tensor.shape.dim)
    if spec is not None and len(spec) != rank:
        raise UsageError(f"has {len(spec)} dimensions, the model declares {rank}",
                         what=f"shape of {value.name!r}", hint=_EXAMPLE)
    found = []
    for i, dim in enumerate(tensor.shape.dim):
        sized = dim.HasField("dim_value") and dim.dim_value >= 0       # some exporters write -1 for unknown
        param = dim.dim_param.strip()
        found.append(_Axis(value, i, rank, dim.dim_value if sized else None, "" if param == "?" else param))
    return found


def _given(axes: Mapping[str, list[_Axis]], shapes: Mapping[str, Sequence[DimSpec]]) -> dict[str, DimSpec]:
    """What the user says of each dimension that the model leaves open, by `_Axis.key`."""
    given: dict[str, DimSpec] = {}
    first: dict[str, _Axis] = {}
    for name, specs in shapes.items():
        for axis, spec in zip(axes[name], specs, strict=True):
            if spec is None:
                continue
            if axis.size is not None:
                if spec != axis.size:
                    raise UsageError(f"is {spec}, but the model fixes it at {axis.size}", what=str(axis),
                                     hint="give the model's own size, or export it with a dynamic dimension")
                continue
            if given.setdefault(axis.key, spec) != spec:
                other = first[axis.key]
                raise UsageError(f"is {spec}, but {other} has the same name and is {given[axis.key]}",
                                 what=str(axis), hint="give both the same size or range")
            first.setdefault(axis.key, axis)
    return given
