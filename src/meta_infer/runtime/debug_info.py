"""A target's debug.json as it is read: which ONNX nodes a kernel serves, which buffer holds which ONNX tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from meta_infer.runtime.layers import LayerRequest, layer_requests


@dataclass(frozen=True)
class DebugInfo:
    """`symbols` in the order of the command table, `called` the kernels in the order of the program's calls, `kernels`
    the ONNX nodes that each kernel serves."""

    symbols: tuple[str, ...]
    called: tuple[str, ...]
    kernels: Mapping[str, tuple[str, ...]]
    requests: tuple[LayerRequest, ...]


def read_debug_info(tree: Any) -> DebugInfo:
    """Raises ValueError for a tree of another form: the file comes from whoever wrote the package."""
    try:
        kernels = {str(name): tuple(map(_text, nodes)) for name, nodes in tree["kernels"].items()}
        called = tuple(_text(row["kernel"]) for row in tree["commands"] if row["op"] == "Call")
        requests = tuple(layer_requests(tree["buffers"]))
        for request in requests:
            _check(request)
        return DebugInfo(tuple(map(_text, tree["symbols"])), called, kernels, requests)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:80]} is no name")
    return value


def _check(request: LayerRequest) -> None:
    """What is used as an index or a size must be one; the dims are evaluated later, and may fail then."""
    _text(request.origin)
    for number in (request.command, request.buffer, request.block, request.axis):
        if type(number) is not int or not 0 <= number < 1 << 31:
            raise ValueError(f"{str(number)[:80]} is no index")
    if not all(isinstance(dim, int | str) for dim in request.shape):
        raise ValueError("a shape of something else than numbers and texts")
