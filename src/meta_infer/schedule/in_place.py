"""Let a kernel write over one of its inputs.

    before   kernel(in x, in y, out z)      z[i] = f(x[i], y[i])
    after    kernel(inout x, in y)          x[i] = f(x[i], y[i])

Legal only where every load of x and store of z that share an element happen in that order within one chunk, and no
other chunk touches the element: the caller states it by asking only for kernels with one identical index map for
both, such as elementwise ones.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from meta_infer.ir.loop import Buffer, LoopFunc, Store
from meta_infer.ir.walk_loop import walk_stmts


def _swap(node: Any, old: tuple[Buffer, Buffer], new: Buffer) -> Any:
    """`node` with both old buffers replaced; unchanged subtrees are shared."""
    if isinstance(node, Buffer):
        return new if node in old else node
    if isinstance(node, tuple):
        items = tuple(_swap(item, old, new) for item in node)
        return items if any(a is not b for a, b in zip(items, node, strict=True)) else node
    if not is_dataclass(node) or isinstance(node, type):
        return node
    changes = {}
    for item in fields(node):
        before = getattr(node, item.name)
        after = _swap(before, old, new)
        if after is not before:
            changes[item.name] = after
    return replace(node, **changes) if changes else node


def write_in_place(func: LoopFunc, source: str, target: str) -> LoopFunc:
    """`func` with the parameter `target` (mode out) merged into `source` (mode in), which becomes inout.

    Raises ValueError when a parameter is missing, the dtypes differ, or `source` is written already.
    """
    by_name = {p.name: p for p in func.params}
    if source not in by_name or target not in by_name:
        raise ValueError(f"{func.name} has no parameters {source!r} and {target!r}")
    src, dst = by_name[source], by_name[target]
    written = any(isinstance(s, Store) and s.buffer == src for s in walk_stmts(func.body))
    if src.dtype != dst.dtype or src.mode != "in" or dst.mode != "out" or written:
        raise ValueError(f"{func.name}: {target!r} cannot share the memory of {source!r}")
    merged = replace(src, mode="inout")
    params = tuple(merged if p == src else p for p in func.params if p != dst)
    return replace(func, params=params, body=_swap(func.body, (src, dst), merged),
                   name=f"{func.name}_inplace")
