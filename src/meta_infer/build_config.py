"""What a build is asked to do: one set of fields for config files, `api.build` and the command line."""

from __future__ import annotations

import difflib
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML, YAMLError

from meta_infer.support.errors import UsageError

STEPS = ("import", "canonicalize", "legalize", "plan", "lower", "memory", "emit", "compile", "package")
"""Steps that `stop_after` may name, in order."""


class BuildConfig(BaseModel):
    """All choices of one build. Unknown fields are refused; paths are relative to the working folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Path
    hardware: str = "native"                                  # 'native', a catalog name, or a profile's path
    output: Path | None = None                                # default: the model's name with .bin
    shape: tuple[str, ...] = ()                               # 'x=1,3,48,32..960'
    precision: Literal["auto", "fp32", "fp16", "int8"] = "auto"
    search_mode: Literal["fast", "balanced", "thorough"] = "balanced"
    target_latency_ms: float | None = Field(default=None, gt=0)
    memory_limit_mib: float | None = Field(default=None, gt=0)
    threads: int | None = Field(default=None, ge=1, le=1024)  # the package's default number of threads
    disable: tuple[str, ...] = ()                             # passes by name
    verify: bool = True
    verify_samples: int = Field(default=3, ge=1, le=64)
    tolerance: float = Field(default=1e-3, gt=0)
    seed: int = 0
    stop_after: Literal["", "import", "canonicalize", "legalize", "plan", "lower", "memory", "emit", "compile",
                        "package"] = ""

    @property
    def package_path(self) -> Path:
        return self.output or self.model.with_suffix(".bin")

    def as_yaml(self) -> str:
        """The effective configuration, every field written out: what the package keeps."""
        out = StringIO()
        YAML().dump(self.model_dump(mode="json"), out)
        return out.getvalue()


def make_config(values: dict[str, Any], source: str) -> BuildConfig:
    """A config from plain values. Raises UsageError naming the field, what is expected, and the nearest known field."""
    try:
        return BuildConfig(**values)
    except ValidationError as error:
        # A misspelt field is named before the one it leaves missing.
        first = min(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            near = difflib.get_close_matches(field, BuildConfig.model_fields, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known fields: {', '.join(BuildConfig.model_fields)}"
            raise UsageError("is not a known field", what=f"{source}: field {field!r}", hint=hint) from None
        if first["type"] == "missing":
            raise UsageError("is required", what=f"{source}: field {field!r}", hint=f"give {field}") from None
        raise UsageError(f"{first['msg']} (got {first['input']!r})", what=f"{source}: field {field!r}") from None


def read_config(path: Path, overrides: dict[str, Any]) -> BuildConfig:
    """A build described by a YAML file; `overrides` (from the command line) win. Raises UsageError."""
    try:
        loaded = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", what=f"config file {path}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"is not YAML: {str(error).splitlines()[0]}", what=f"config file {path}") from error
    if not isinstance(loaded, dict):
        raise UsageError("holds no fields", what=f"config file {path}", hint="write lines such as 'model: net.onnx'")
    return make_config({**loaded, **overrides}, f"config file {path}")


def stored_config(text: str, source: str) -> BuildConfig:
    """The config that a package keeps, read back. Raises UsageError when it was made by a version with other fields."""
    return make_config(YAML(typ="safe").load(text), source)
