"""Program: buffers and a region tree of commands, the last level before target code.

The runtime executes exactly these commands, from their binary form (`package/command_table.py`).
Buffers are flat; a shape is kept for sizes, for people, and for inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from meta_infer.ir.group import PLAIN, Layout
from meta_infer.ir.loop import LoopFunc
from meta_infer.ir.shapes import Dim, Symbol, product
from meta_infer.support.dtypes import DType


@dataclass(frozen=True)
class BufferDecl:
    """One tensor in memory.

    `kind`: 'input' and 'output' are memory of the caller, 'const' lies in the package, 'temp' in the arena or, where
    `ir/pooling.py` says so, in the session's pool. A model's output of the latter sort is a 'temp' as well.
    'prepared' is memory of the session, of static size, that its making fills from constants and runs only read.
    A buffer with `alias` is a view: same memory as that buffer, `offset` elements in (of this dtype).
    `origin` is the ONNX tensor the buffer equals (in its layout), None when there is none.
    """

    name: str
    dtype: DType
    shape: tuple[Dim, ...]                 # logical
    kind: str
    layout: Layout = PLAIN
    space: str = "ram"
    alias: str | None = None
    offset: Dim = 0
    origin: str | None = None

    @property
    def elements(self) -> Dim:
        """Elements in memory, padding lanes of a blocked layout included."""
        return product(self.layout.physical(self.shape))

    @property
    def nbytes(self) -> Dim:
        return self.elements * self.dtype.bytes


Joined = Literal["alone", "beside", "matched"]
"""How a call may run together with the calls before it that it is joined to, as one parallel loop without a barrier.

beside   neither touches what another one writes.
matched  all have as many chunks, and chunk i of one touches of what another writes what chunk i of that one does.
"""
MOST_JOINED = 8


@dataclass(frozen=True)
class Call:
    """Run a kernel over all its chunks. `args` are buffers for the kernel's params, `dims` its dim parameters.

    `pieces` has, for every argument, how it is cut where chunk i touches only the i-th of its equal pieces, else ''.
    `output` is the first output of the group it belongs to, '' for what is no group's, such as conversions.
    """

    kernel: str
    args: tuple[str, ...]
    dims: tuple[Dim, ...] = ()
    origins: tuple[str, ...] = ()          # ONNX nodes
    label: str = ""                        # ops of the group, for people
    pieces: tuple[str, ...] = ()
    joined: Joined = "alone"
    output: str = ""
    queue: int = 0
    waits: tuple[int, ...] = ()
    signals: int | None = None


@dataclass(frozen=True)
class Copy:
    """dst[dst_offset : dst_offset + count] = src[src_offset : ...], all in elements of the (equal) dtype."""

    src: str
    dst: str
    count: Dim
    src_offset: Dim = 0
    dst_offset: Dim = 0
    queue: int = 0
    waits: tuple[int, ...] = ()
    signals: int | None = None


@dataclass(frozen=True)
class Fill:
    """Every element of `dst` becomes `value`."""

    dst: str
    value: float | int
    queue: int = 0
    waits: tuple[int, ...] = ()
    signals: int | None = None


@dataclass(frozen=True)
class SetDim:
    """A symbol takes its value from an int64 (or int32) element of a buffer; outside its range is a run-time error."""

    symbol: str
    src: str
    index: int = 0
    queue: int = 0
    waits: tuple[int, ...] = ()
    signals: int | None = None


@dataclass(frozen=True)
class AssignDims:
    """Symbols take the values of dims, all evaluated before any symbol changes; outside a range is a run-time error.

    For loop-carried values and results of branches whose shapes change: the target's symbols take the source's sizes,
    and the copy that follows moves the contents.
    """

    symbols: tuple[str, ...]
    dims: tuple[Dim, ...]
    queue: int = 0
    waits: tuple[int, ...] = ()
    signals: int | None = None


@dataclass(frozen=True)
class CheckDims:
    """A run-time error that begins with `text`, unless two dims are equal by then."""

    a: Dim
    b: Dim
    text: str
    queue: int = 0
    waits: tuple[int, ...] = ()
    signals: int | None = None


@dataclass(frozen=True)
class If:
    """Run `then` when the bool in `cond` is true, else `orelse`. Bodies copy their results into outer buffers."""

    cond: str
    then: tuple[Command, ...]
    orelse: tuple[Command, ...]
    queue: int = 0
    waits: tuple[int, ...] = ()
    signals: int | None = None


@dataclass(frozen=True)
class Loop:
    """Run `body` while iteration < trip_count (an int64 buffer, '' = no limit) and `cond` (a bool buffer, '' = true).

    `iteration` (int64 buffer) is set before each pass; `cond` is re-read after each; `symbol`, if named, is at its
    upper bound while the loop runs (where pooled buffers depend on it: at the number of passes begun, so that they
    grow row by row) and takes the number of passes made when it ends. The body itself copies carried values and scan
    rows.
    """

    trip_count: str
    cond: str
    iteration: str
    body: tuple[Command, ...]
    symbol: str = ""
    queue: int = 0
    waits: tuple[int, ...] = ()
    signals: int | None = None


@dataclass(frozen=True)
class Wait:
    """The queue waits for tokens before it goes on."""

    tokens: tuple[int, ...]
    queue: int = 0


Command = Call | Copy | Fill | SetDim | AssignDims | CheckDims | If | Loop | Wait


@dataclass(frozen=True)
class InputDim:
    """Where a symbol's value comes from at the start of a run: one axis of one input."""

    symbol: Symbol
    input: str
    axis: int


@dataclass(frozen=True)
class Program:
    """Everything the runtime needs but addresses.

    `inputs` and `outputs` are buffer names in the model's order. A run first checks all inputs' shapes: static dims
    must match, and symbols are read through `input_dims`; dims of inputs that are compound expressions are checked.
    `input_names` and `output_names` are the names users know, in the same order: the ONNX names.
    The first `prepares` commands are calls without dims that write the 'prepared' buffers when a session is made; a
    run begins after them.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    buffers: Mapping[str, BufferDecl]
    constants: Mapping[str, np.ndarray]    # contents of 'const' buffers, already packed
    kernels: Mapping[str, LoopFunc]
    commands: tuple[Command, ...]
    input_dims: tuple[InputDim, ...] = ()
    symbols: Mapping[str, Symbol] = field(default_factory=dict)
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    prepares: int = 0

    def root(self, name: str) -> str:
        """The buffer whose memory `name` lies in."""
        while (alias := self.buffers[name].alias) is not None:
            name = alias
        return name


def walk_commands(commands: tuple[Command, ...]) -> Iterator[Command]:
    """Every command of the region tree in program order, a region's holder before its body."""
    for command in commands:
        yield command
        match command:
            case If(then=then, orelse=orelse):
                yield from walk_commands(then)
                yield from walk_commands(orelse)
            case Loop(body=body):
                yield from walk_commands(body)


PREPARED = "prepared"
"""The space of buffers of that kind."""


@dataclass(frozen=True)
class Placement:
    """Where one root buffer lies: byte `offset` in its space, `nbytes` at the upper bound, live over [first, last]."""

    space: str
    offset: int
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class PooledBuffer:
    """A root buffer that is sized while running, live over [first, last].

    `symbols` are those that only running can tell; `bound` the bytes it may take, None where a symbol has no bound.
    """

    symbols: tuple[Symbol, ...]
    bound: int | None
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """Addresses of all arena buffers, per space, and what lies in no arena because only running can tell its size.

    `sizes` are bytes per space at the upper bounds of all dims (space PREPARED: what sessions fill when they are
    made), `lower_bounds` the largest sum of bytes live at one command, which no plan can beat. `roots` maps
    every temp to the buffer whose memory it shares.
    """

    placements: Mapping[str, Placement]
    roots: Mapping[str, str]
    sizes: Mapping[str, int]
    lower_bounds: Mapping[str, int]
    alignment: int = 64
    pooled: Mapping[str, PooledBuffer] = field(default_factory=dict)
