"""meta-infer: compile an ONNX model and a chip profile into one package file, and run that file.

    import meta_infer
    package = meta_infer.build("model.onnx", hardware="native", output="model.bin")
    session = meta_infer.load("model.bin")
    outputs = session.run(None, {"x": x})

Whatever is wrong with what a caller gives is a subclass of `meta_infer.MetaInferError`.
`load` needs numpy alone; the compiler behind the others is imported when one of them is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meta_infer.api import build as build
    from meta_infer.checking import compare as compare
    from meta_infer.predicting import predict as predict
    from meta_infer.runtime.session import load as load
    from meta_infer.support.errors import MetaInferError as MetaInferError

__version__ = "0.1.0"

_HOMES = {
    "load": "meta_infer.runtime.session",
    "build": "meta_infer.api",
    "compare": "meta_infer.checking",
    "predict": "meta_infer.predicting",
    "MetaInferError": "meta_infer.support.errors",
}


def __getattr__(name: str) -> Any:
    """Import the home of a public name on first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'meta_infer' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
