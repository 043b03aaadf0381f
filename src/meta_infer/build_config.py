"""What a build is asked to do: one set of fields for config files, `api.build` and the command line."""

from __future__ import annotations

import difflib
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML, YAMLError
from ruamel.yaml.error import MarkedYAMLError

from meta_infer.runtime.native import MAX_THREADS
from meta_infer.support.errors import UsageError

_AMOUNT = Field(default=None, gt=0, allow_inf_nan=False)

STEPS = ("import", "canonicalize", "legalize", "plan", "lower", "memory", "emit", "compile", "package")
"""Steps that `stop_after` may name, in order."""


class BuildConfig(BaseModel):
    """All choices of one build. Unknown fields are refused; paths are relative to the working folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Path
    hardware: str = "native"                                  # 'native', a catalog name, or a profile's path
    device: str = "local"                                     # where is measured: 'local', or ssh://[user@]host[:port]
    output: Path | None = None                                # default: the model's name with .bin
    isa: tuple[str, ...] = ()                                 # one target each; default: the profile's own
    shape: tuple[str, ...] = ()                               # 'x=1,3,48,32..960'
    precision: Literal["auto", "fp32", "fp16", "int8"] = "auto"
    search_mode: Literal["none", "fast", "balanced", "thorough"] = "none"
    search_seconds: float | None = _AMOUNT                    # for measuring; default: what the mode has
    pin: tuple[str, ...] = ()                                 # 'conv1.algo=winograd': see search/pins.py
    replay: Path | None = None                                # a lock, or a package that holds one: its choices
    tune_at: tuple[str, ...] = ()                             # 'N=1,L=128': sizes at which a search times a model
    objective: Literal["latency", "energy", "memory", "balanced"] = "latency"     # see search/aims.py
    target_latency_ms: float | None = _AMOUNT                 # default of a search: 60% of the baseline
    memory_limit_mib: float | None = _AMOUNT                  # default: the memory of the profile
    energy_limit_mj: float | None = _AMOUNT                   # of one run
    threads: int | None = Field(default=None, ge=1, le=MAX_THREADS)  # the package's default number of threads
    custom: tuple[Path, ...] = ()                             # Python files with ops of the user
    disable: tuple[str, ...] = ()                             # passes by name
    exclude: tuple[str, ...] = ()                             # 'KERNEL' or 'KERNEL/VARIANT'
    verify: bool = True
    verify_samples: int = Field(default=3, ge=1, le=64)
    tolerance: float = Field(default=1e-3, gt=0)
    seed: int = Field(default=0, ge=0)
    stop_after: Literal["", "import", "canonicalize", "legalize", "plan", "lower", "memory", "emit", "compile",
                        "package"] = ""

    @property
    def package_path(self) -> Path:
        return self.output or self.model.with_suffix(".bin")

    def as_yaml(self) -> str:
        """The effective configuration, every field written out but where the package goes and which board was asked:
        what the package keeps."""
        out = StringIO()
        YAML().dump(self.model_dump(mode="json", exclude={"output", "device"}), out)
        return out.getvalue()


COMMAND_LINE = "command line"
_FLAGS = {"memory_limit_mib": "--memory-limit", "verify": "--no-verify"}
"""Flags whose name is not that of their field."""
_EXPECTED = {
    "missing": "is required",
    "path_type": "expected a path",
    "tuple_type": "expected a list, such as ['x=1,3,224,224']",
    "literal_error": "expected one of {expected}",
}


def make_config(values: dict[str, Any], source: str) -> BuildConfig:
    """A config from plain values. Raises UsageError naming the field, what is expected, and the nearest known field."""
    try:
        return BuildConfig(**values)
    except ValidationError as error:
        # A misspelt field is named before the one it leaves missing.
        raise _wrong_field(min(error.errors(), key=lambda item: item["type"] != "extra_forbidden"), source) from None


def _wrong_field(found: ErrorDetails, source: str) -> UsageError:
    field = str(found["loc"][0])
    what = f"{source}: field {field!r}"
    hint = "docs/command-line.md describes the fields"
    if source == COMMAND_LINE:
        what = _FLAGS.get(field, f"--{field.replace('_', '-')}")
        hint = "`meta-infer build --help` describes it"
    if found["type"] == "extra_forbidden":
        near = difflib.get_close_matches(field, BuildConfig.model_fields, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known fields: {', '.join(BuildConfig.model_fields)}"
        return UsageError("is not a known field", what=what, hint=hint)
    choices = str(found.get("ctx", {}).get("expected", "")).removeprefix("'', ")
    expected = _EXPECTED.get(found["type"], found["msg"].replace("Input should be", "expected"))
    if found["type"] == "missing":
        return UsageError(expected, what=what, hint=f"give {field}")
    near = difflib.get_close_matches(repr(found["input"]), choices.replace(" or ", ", ").split(", "), 1)
    return UsageError(f"is {found['input']!r}, {expected.format(expected=choices)}", what=what,
                      hint=f"did you mean {near[0]}?" if near else hint)


def read_config(path: Path, overrides: dict[str, Any]) -> BuildConfig:
    """A build described by a YAML file; `overrides` (from the command line) win. Raises UsageError."""
    try:
        loaded = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", what=f"config file {path}",
                         hint="check the path given to --config") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"is not YAML: {_yaml_problem(error)}", what=f"config file {path}",
                         hint="write lines such as 'model: net.onnx', each field once") from error
    if not isinstance(loaded, dict):
        raise UsageError("holds no fields", what=f"config file {path}", hint="write lines such as 'model: net.onnx'")
    return make_config({**loaded, **overrides}, f"config file {path}")


def _yaml_problem(error: Exception) -> str:
    """'line 3: found duplicate key "threads"'."""
    if not isinstance(error, MarkedYAMLError) or error.problem_mark is None:
        return str(error).splitlines()[0]
    problem = (error.problem or error.context or "").split(" with value")[0]
    return f"line {error.problem_mark.line + 1}: {problem}"


def stored_config(text: str, source: str) -> BuildConfig:
    """The config that a package keeps, read back. Raises UsageError when it was made by a version with other fields."""
    return make_config(YAML(typ="safe").load(text), source)
