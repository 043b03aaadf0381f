"""Which buffers are sized while running: the one place that decides it, for lowering, planner and command table.

A symbol that no input gives is *late*. A buffer that depends on late symbols lies in the arena at their upper bounds,
as all others do, unless that is out of proportion: then it lies in the session's pool, where it takes what it needs
by the time a command uses it, and gives it back after its last use. It is the dynamic fallback, for few tensors.
"""

from __future__ import annotations

from collections.abc import Collection

from meta_infer.ir.program import BufferDecl
from meta_infer.ir.shapes import Dim, Symbol, is_unbounded, symbols_of, upper

POOL_LIMIT = 64 << 20
"""Bytes up to which a buffer of a late size is reserved in the arena: reserved pages cost nothing until touched, but
an arena of many such buffers no longer says what a model needs."""


def late_symbols(dim: Dim, given: Collection[str]) -> tuple[Symbol, ...]:
    """The symbols of `dim` whose values only running can tell, by name; `given` are those that inputs give."""
    return tuple(sorted((s for s in symbols_of(dim) if s.name not in given), key=lambda s: s.name))


def sized_while_running(buffer: BufferDecl, given: Collection[str]) -> bool:
    """Whether the memory of `buffer`, if it is no view, comes from the pool. Constants and inputs never ask."""
    late = late_symbols(buffer.elements, given)
    return bool(late) and (any(map(is_unbounded, late)) or upper(buffer.nbytes) > POOL_LIMIT)
