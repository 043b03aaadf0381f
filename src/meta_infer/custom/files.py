"""Reading a user's Python file, and letting its ops and kernels be found by all that compiles."""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import re
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from meta_infer.backends.cpu.linked import link_with
from meta_infer.custom.kernels import CustomKernel, as_kernel, problem_of
from meta_infer.custom.ops import CustomOp
from meta_infer.ir.source import Linked
from meta_infer.kernels.registry import add_custom as add_kernel
from meta_infer.kernels.registry import add_rival, all_kernels, drop_rivals
from meta_infer.ops.opdef import OpDef
from meta_infer.ops.registry import add_custom as add_op
from meta_infer.ops.registry import op_named, op_names
from meta_infer.support.errors import UsageError

_HINT = "docs/custom-ops.md and docs/custom-kernels.md show what such a file holds"
_KERNEL_HINT = "docs/custom-kernels.md describes the arguments of c_kernel"
_TAKEN = ("view", "region", "reorder", "plan")
"""Words that stand where names of kernels do."""


def load_custom(paths: Sequence[Path]) -> None:
    """Run the Python files and add their OPS and KERNELS; kernels of files that were loaded before are forgotten.

    Raises UsageError naming the file (and line) when it cannot be run, holds neither, or has one that cannot be.
    """
    drop_rivals()
    origin: dict[str, Path] = {}
    for path in dict.fromkeys(paths):
        what = f"custom file {path}"
        module = _run(path, what)
        ops = _tuple_in(module, "OPS", what)
        kernels = _tuple_in(module, "KERNELS", what)
        if not ops and not kernels:
            raise UsageError("has no tuple OPS of ops and no tuple KERNELS of kernels", what=what, hint=_HINT)
        _add_ops(ops, what)
        _add_kernels(kernels, path, what, origin)


def _tuple_in(module: ModuleType, name: str, what: str) -> tuple[object, ...]:
    found = getattr(module, name, ())
    if not isinstance(found, tuple | list):
        raise UsageError(f"{name} is a {type(found).__name__}, expected a tuple", what=what, hint=_HINT)
    return tuple(found)


def _add_ops(items: Iterable[object], what: str) -> None:
    for item in items:
        custom = CustomOp(item) if isinstance(item, OpDef) else item
        if not isinstance(custom, CustomOp):
            raise UsageError(f"OPS holds a {type(item).__name__}, expected what c_op returns, or an OpDef", what=what,
                             hint=_HINT)
        if custom.kernel is None and custom.op.decompose is None and custom.op.expr is None:
            raise UsageError(f"op {custom.op.name!r} has neither C source nor `decompose` nor `expr`", what=what,
                             hint=_HINT)
        try:
            add_op(custom.op)
        except ValueError as error:
            raise UsageError(f"{error}", what=what, hint="give it another name") from None
        if custom.kernel is not None:
            add_kernel(custom.kernel)


def _add_kernels(items: Iterable[object], path: Path, what: str, origin: dict[str, Path]) -> None:
    for item in items:
        if not isinstance(item, CustomKernel):
            raise UsageError(f"KERNELS holds a {type(item).__name__}, expected what c_kernel returns", what=what,
                             hint=_HINT)
        named = f"{what}: kernel {item.name!r}"
        if not re.fullmatch("[a-z][a-z0-9_]*", item.name) or item.name in _TAKEN:
            raise UsageError("cannot be called so", what=named,
                             hint="take a name of lower-case letters, digits and _, such as my_gemm")
        try:
            definition = op_named(item.op)
        except KeyError:
            near = difflib.get_close_matches(item.op, op_names(), n=1, cutoff=0.4)
            raise UsageError(f"there is no op {item.op!r}", what=named,
                             hint=(f"did you mean {near[0]!r}? " if near else "") + "docs/operators.md lists them as "
                                  "the compiler knows them; `meta-infer build --stop-after legalize` those of a model"
                             ) from None
        if definition.is_view or definition.is_control_flow:
            kind = "a view" if definition.is_view else "control flow"
            raise UsageError(f"op {item.op!r} has no kernel: it is {kind}", what=named,
                             hint="bring a kernel for an op that computes")
        if problem := problem_of(item):
            raise UsageError(problem, what=named, hint=_KERNEL_HINT)
        linked = [_linked(path, name, named) for name in item.link]
        kernel = as_kernel(item, linked, str(path))
        digest = hashlib.sha256(path.read_bytes() + repr(linked).encode()).hexdigest()[:16]
        try:
            add_rival(kernel, digest)
        except ValueError:
            other = f"in {origin[item.name]}" if item.name in origin else "a part of meta-infer"
            known = "" if item.name in origin else f" (kernels: {', '.join(k.name for k in all_kernels())})"
            raise UsageError(f"a kernel of this name exists already, {other}", what=named,
                             hint=f"give it another name{known}") from None
        origin[item.name] = path


def _linked(path: Path, name: str, named: str) -> Linked:
    file = path.parent / name
    try:
        return link_with(file)
    except OSError as error:
        raise UsageError(f"links {file}, which cannot be read: {error.strerror or error}", what=named,
                         hint="give the path of an object file or archive (.o, .a), relative to the Python file"
                         ) from error


def _run(path: Path, what: str) -> ModuleType:
    if not path.is_file():
        raise UsageError("does not exist", what=what, hint="give the path of a Python file with --custom")
    spec = importlib.util.spec_from_file_location(f"meta_infer_custom_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError("is no Python file", what=what, hint=_HINT)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise UsageError(f"line {error.lineno}: {error.msg}", what=what, hint=_HINT) from error
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        at = f"line {lines[-1]}: " if lines else ""
        raise UsageError(f"{at}{type(error).__name__}: {error}", what=what, hint=_HINT) from error
    return module
