"""Every error a user can meet, with its exit code.

An error says which layer failed, which thing (node, field, file, flag), what is wrong, and what to try.
The command line prints `str(error)` and exits with `exit_code`; no traceback reaches a user.
"""

from __future__ import annotations

from typing import Any


class MetaInferError(Exception):
    """Base of all errors caused by the user's input or machine.

    `what` names the thing ("node 'conv1' (Conv)"), `problem` says what is wrong, `hint` what to try.
    """

    exit_code = 1
    layer = ""

    def __init__(self, problem: str, *, what: str = "", hint: str = "") -> None:
        self.problem, self.what, self.hint = problem, what, hint
        super().__init__(problem)

    def __str__(self) -> str:
        head = f"{self.layer}: " if self.layer else ""
        where = f"{_legible(self.what, 400)}: " if self.what else ""
        tail = f"\n  try: {_legible(self.hint, 800)}" if self.hint else ""
        return f"{head}{where}{_legible(self.problem, 2000)}{tail}"


def _legible(text: str, most: int) -> str:
    """The text without what would disturb a terminal, its middle left out when it is long: names come from files."""
    if len(text) > most:
        text = f"{text[:most * 2 // 3]} ... {text[-most // 4:]}"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


class UsageError(MetaInferError):
    """A wrong flag, or flags that contradict each other."""

    exit_code, layer = 2, "usage"


class ModelError(MetaInferError):
    """The ONNX file cannot be read or breaks the specification."""

    exit_code, layer = 3, "frontend"


class UnsupportedError(MetaInferError):
    """The model is valid, but an op, opset, dtype or case has no way down to the target."""

    exit_code, layer = 4, "unsupported"


class ProfileError(MetaInferError):
    """A hardware profile is missing, malformed or contradicts itself."""

    exit_code, layer = 5, "profile"


class PackageError(MetaInferError):
    """A package is damaged, of another format version, or needs what this machine lacks."""

    exit_code, layer = 6, "package"


class InputError(MetaInferError):
    """An input given to `run`, `bench` or `compare` has a wrong name, dtype, rank or dimension."""

    exit_code, layer = 7, "input"


class ToolchainError(MetaInferError):
    """The C compiler is missing or failed."""

    exit_code, layer = 8, "toolchain"


class CompilerFaultError(ToolchainError):
    """The C compiler itself failed on a source, as often as it was tried."""


class VerificationError(MetaInferError):
    """The package was built, but its results differ from the reference beyond tolerance.

    `result` is the BuildResult when a build raised it: the package is there, with its report.
    """

    exit_code, layer = 9, "verify"
    result: Any = None


class LibraryError(MetaInferError):
    """The experience library cannot be used: damaged, no library, of a newer version, or in an unfit place."""

    exit_code, layer = 11, "library"


class LibraryUnwritableError(LibraryError):
    """The experience library cannot be written: no permission, no space, in use. A build goes on without it."""


class DeviceError(MetaInferError):
    """A connected board cannot be reached, refuses, or lacks what measuring needs."""

    exit_code, layer = 12, "device"


class DeviceLostError(DeviceError):
    """The connection to a board broke while something ran there."""


class InternalError(MetaInferError):
    """The compiler broke one of its own invariants: a fault of meta-infer, not of the user."""

    exit_code, layer = 70, "internal"
