"""Typed reading of node attributes. Every function raises TypeError when the attribute is of another kind."""

from __future__ import annotations

from collections.abc import Mapping

from meta_infer.ir.graph import Attr
from meta_infer.ir.shapes import Dim, Expr
from meta_infer.support.dtypes import DType

Attrs = Mapping[str, Attr]


def _wrong(name: str, found: Attr, wanted: str) -> TypeError:
    return TypeError(f"attribute {name!r} should be {wanted}, not {found!r}")


def int_of(attrs: Attrs, name: str, default: int | None = None) -> int:
    found = attrs.get(name, default)
    if not isinstance(found, int):
        raise _wrong(name, found, "an integer")
    return int(found)


def bool_of(attrs: Attrs, name: str, default: bool | None = None) -> bool:
    return bool(int_of(attrs, name, default))


def float_of(attrs: Attrs, name: str, default: float | None = None) -> float:
    found = attrs.get(name, default)
    if not isinstance(found, (int, float)):
        raise _wrong(name, found, "a number")
    return float(found)


def text_of(attrs: Attrs, name: str, default: str | None = None) -> str:
    found = attrs.get(name, default)
    if not isinstance(found, str):
        raise _wrong(name, found, "a string")
    return found


def dtype_attr(attrs: Attrs, name: str) -> DType:
    found = attrs.get(name)
    if not isinstance(found, DType):
        raise _wrong(name, found, "a dtype")
    return found


def dims_of(attrs: Attrs, name: str, default: tuple[int, ...] | None = None) -> tuple[Dim, ...]:
    """A tuple of dimensions, symbolic ones included."""
    found = attrs.get(name, default)
    if not isinstance(found, tuple):
        raise _wrong(name, found, "a tuple of dims")
    dims: list[Dim] = []
    for item in found:
        if not isinstance(item, (int, Expr)):
            raise _wrong(name, found, "a tuple of dims")
        dims.append(item)
    return tuple(dims)


def ints_of(attrs: Attrs, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """A tuple of plain integers. Symbolic dims are refused: evaluate them first."""
    numbers = []
    for dim in dims_of(attrs, name, default):
        if not isinstance(dim, int):
            raise _wrong(name, dim, "a tuple of integers")
        numbers.append(int(dim))
    return tuple(numbers)


def floats_of(attrs: Attrs, name: str, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
    found = attrs.get(name, default)
    if not isinstance(found, tuple):
        raise _wrong(name, found, "a tuple of numbers")
    numbers = []
    for item in found:
        if not isinstance(item, (int, float)):
            raise _wrong(name, found, "a tuple of numbers")
        numbers.append(float(item))
    return tuple(numbers)


def texts_of(attrs: Attrs, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
    found = attrs.get(name, default)
    if not isinstance(found, tuple):
        raise _wrong(name, found, "a tuple of strings")
    texts = []
    for item in found:
        if not isinstance(item, str):
            raise _wrong(name, found, "a tuple of strings")
        texts.append(item)
    return tuple(texts)
