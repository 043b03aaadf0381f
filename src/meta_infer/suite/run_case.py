"""One case of the operator suite: built, loaded, fed and compared."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from meta_infer.api import build
from meta_infer.ops.gaps import gap_of_case
from meta_infer.runtime.session import load
from meta_infer.suite.cases import OUT, Case
from meta_infer.support.errors import MetaInferError, UnsupportedError

_TWO_ULPS = 2.0**-6                                     # of bfloat16: onnx's own runner allows as much


@dataclass(frozen=True)
class Outcome:
    """What became of a case. `status` is 'passed', 'failed' (wrong, crashed) or 'refused' (not supported)."""

    name: str
    op: str
    kind: str
    status: str
    reason: str
    seconds: float

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def is_known(self) -> bool:
        """Whether `ops/gaps.py` says why it does not pass, or it is of a kind that stays out as a whole."""
        return self.kind in OUT or gap_of_case(self.name) is not None


Feeds = dict[str, Any]
Compute = Callable[[onnx.ModelProto, Feeds, Path], Sequence[Any]]
"""(model, inputs by name, a folder for files) -> all outputs: one way to run a model."""


def compiled(model: onnx.ModelProto, feeds: Feeds, folder: Path) -> Sequence[Any]:
    """Outputs of the compiled package."""
    path, package = folder / f"{os.getpid()}.onnx", folder / f"{os.getpid()}.bin"
    path.write_bytes(model.SerializeToString())
    build(path, output=package, verify=False)
    with load(package, threads=1) as session:
        return session.run(None, {t.name: feeds[t.name] for t in session.get_inputs()})


def run_case(case: Case, folder: Path, compute: Compute = compiled) -> Outcome:
    """Run one case and compare; never raises for what is wrong with it."""
    start = time.perf_counter()
    try:
        status, reason = _try(case, folder, compute)
    except UnsupportedError as error:
        status, reason = "refused", _line(f"{error.what}: {error.problem}")
    except MetaInferError as error:
        status, reason = "failed", _line(str(error))
    except Exception as error:  # noqa: BLE001 - whatever a case makes happen is its outcome
        status, reason = "failed", _line(f"{type(error).__name__}: {error}")
    return Outcome(case.name, case.op, case.kind, status, reason, round(time.perf_counter() - start, 3))


def _line(text: str) -> str:
    return " ".join(text.split())[:400]


def _try(case: Case, folder: Path, compute: Compute) -> tuple[str, str]:
    weights = {tensor.name for tensor in case.model.graph.initializer}
    names = [value.name for value in case.model.graph.input if value.name not in weights]
    got = compute(case.model, dict(zip(names, map(_array, case.inputs), strict=False)), folder)
    if len(got) != len(case.outputs):
        return "failed", f"{len(got)} outputs, expected {len(case.outputs)}"
    for value, have, want in zip(case.model.graph.output, got, map(_array, case.outputs), strict=True):
        problem = _problem(have, want, case)
        if problem:
            return "failed", f"output {value.name!r}: {problem}"
    return "passed", ""


def _problem(have: Any, want: Any, case: Case) -> str:
    """How an output differs from what the case gives, sequences element by element."""
    if not isinstance(want, list):
        return difference(np.asarray(have), np.asarray(want), case.rtol, case.atol)
    if not isinstance(have, list) or len(have) != len(want):
        return f"not a sequence of {len(want)}"
    return next(filter(None, (_problem(a, b, case) for a, b in zip(have, want, strict=True))), "")


def _array(value: Any) -> Any:
    """A tensor of a case as numpy array (of an ml_dtypes dtype where numpy has none), a sequence as list of them."""
    if isinstance(value, list):
        return [_array(item) for item in value]
    if value is None:
        return None
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def difference(have: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> str:
    """How `have` differs from `want` by the rules of onnx's backend tests; '' when it does not."""
    if have.dtype != want.dtype:
        return f"dtype {have.dtype}, expected {want.dtype}"
    if have.shape != want.shape:
        return f"shape {list(have.shape)}, expected {list(want.shape)}"
    if want.dtype.kind in "OUS":
        return "" if np.array_equal(have, want) else "other strings"
    if want.dtype.kind in "biu" and want.dtype.name in np.sctypeDict:
        wrong = int(np.sum(have != want))
        return f"{wrong} of {want.size} elements differ" if wrong else ""
    left, right = have.astype(np.float64), want.astype(np.float64)
    rtol = max(rtol, _TWO_ULPS) if want.dtype.name == "bfloat16" else rtol
    close = np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~close)[0])
    return (f"{int(np.sum(~close))} of {want.size} elements differ, the first at {list(at)}: {left[at]}, "
            f"expected {right[at]}")
