"""Collects the parts of a program while groups are lowered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from meta_infer.ir.graph import Value
from meta_infer.ir.group import PLAIN, Layout
from meta_infer.ir.loop import LoopFunc
from meta_infer.ir.program import PREPARED, BufferDecl, Call, Command, SetDim
from meta_infer.ir.shapes import Dim, Symbol
from meta_infer.kernels.kernel import Lowering
from meta_infer.support.dtypes import BOOL, INT64, DType, dtype_of


@dataclass
class ProgramBuilder:
    """Buffers, constants and kernels of the program so far.

    `where` maps (value name, layout) to the buffer that holds that value in that layout. Kernels that differ only by
    name are kept once, so ten equal layers compile as one function.
    """

    buffers: dict[str, BufferDecl] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    kernels: dict[str, LoopFunc] = field(default_factory=dict)
    where: dict[tuple[str, Layout], str] = field(default_factory=dict)
    symbols: dict[str, Symbol] = field(default_factory=dict)      # made by lowering, beside the graph's own
    prepare: list[Command] = field(default_factory=list)          # calls made once, when a session is
    _alike: dict[object, list[tuple[LoopFunc, str]]] = field(default_factory=dict)     # functions by signature

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A region that may not run: what is converted inside is forgotten at its end."""
        outside = dict(self.where)
        yield
        self.where.clear()
        self.where.update(outside)

    def unique(self, stem: str) -> str:
        """A buffer name that is not taken yet."""
        name, count = stem, 2
        while name in self.buffers:
            name, count = f"{stem}#{count}", count + 1
        return name

    def add(self, buffer: BufferDecl) -> str:
        self.buffers[buffer.name] = buffer
        return buffer.name

    def temp(self, stem: str, dtype: DType, shape: tuple[Dim, ...], layout: Layout = PLAIN,
             origin: str | None = None, space: str = "ram") -> str:
        return self.add(BufferDecl(self.unique(stem), dtype, shape, "temp", layout, space, origin=origin))

    def constant(self, stem: str, array: np.ndarray, origin: str | None = None, layout: Layout = PLAIN,
                 shape: tuple[Dim, ...] | None = None) -> str:
        """A buffer in the package that holds `array`; `shape` is the logical one when `layout` is blocked."""
        name = self.unique(stem)
        self.constants[name] = np.ascontiguousarray(array)
        return self.add(BufferDecl(name, dtype_of(array), array.shape if shape is None else shape, "const", layout,
                                   origin=origin))

    def scalar(self, stem: str, value: int | bool) -> str:
        """A constant of rank 0: int64 or bool."""
        dtype = BOOL if isinstance(value, bool) else INT64
        return self.constant(stem, np.array(value, dtype.numpy))

    def view(self, value: Value, of: str, offset: Dim = 0, layout: Layout = PLAIN) -> str:
        """A buffer for `value` that shares the memory of buffer `of`."""
        decl = BufferDecl(self.unique(value.name), value.dtype, value.shape, self.buffers[of].kind, layout,
                          self.buffers[of].space, alias=of, offset=offset, origin=value.origin)
        self.where[value.name, layout] = self.add(decl)
        return decl.name

    def root(self, name: str) -> str:
        """The buffer whose memory `name` lies in."""
        while (alias := self.buffers[name].alias) is not None:
            name = alias
        return name

    def offset(self, name: str) -> Dim:
        """Bytes from the beginning of the root to where `name` begins."""
        offset: Dim = 0
        while (alias := self.buffers[name].alias) is not None:
            offset, name = offset + self.buffers[name].offset * self.buffers[name].dtype.bytes, alias
        return offset

    def kernel(self, func: LoopFunc) -> str:
        """The name under which the program holds `func`; equal functions share one."""
        anonymous = replace(func, name="")
        # Hashing or comparing a function walks all of it: only functions of one signature are compared.
        alike = self._alike.setdefault((func.params, func.dims, func.chunks, func.locals, len(func.body)), [])
        for other, name in alike:
            if other == anonymous:
                return name
        name, count = func.name, 2
        while name in self.kernels:
            name, count = f"{func.name}_{count}", count + 1
        alike.append((anonymous, name))
        self.kernels[name] = replace(func, name=name)
        return name

    def calls(self, lowering: Lowering, args: dict[str, str], stem: str, origins: Sequence[str],
              label: str, output: str = "") -> list[Command]:
        """Commands for a lowered group: `args` maps the names of its values to buffers, `output` is its first one."""
        args = dict(args)
        for name, array in lowering.packed.items():
            args[name] = self.constant(f"{stem}/{name}", np.asarray(array))
        for temp in lowering.temps:
            args[temp.name] = self.temp(f"{stem}/{temp.name}", temp.dtype, temp.shape)
        for kept in lowering.prepared:
            args[kept.name] = self.add(BufferDecl(self.unique(f"{stem}/{kept.name}"), kept.dtype, kept.shape,
                                                  "prepared", space=PREPARED))
        self.prepare += [Call(self.kernel(call.func), tuple(args[a] for a in call.args), call.dims, tuple(origins),
                              label) for call in lowering.prepare]
        commands: list[Command] = []
        for call in lowering.calls:
            commands.append(Call(self.kernel(call.func), tuple(args[a] for a in call.args), call.dims, tuple(origins),
                                 label, tuple(call.pieces.get(a, "") for a in call.args), output=output))
            commands += [SetDim(found.symbol, args[found.source], found.index) for found in call.finds]
        return commands
