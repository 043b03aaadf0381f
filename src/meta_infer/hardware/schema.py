"""What a profile file may say: the full form (`Chip`) and the minimal form (`Accelerator`), sugar for it.

docs/hardware-profiles.md is the reference for people. Every field carries its unit in its description, which
error messages quote. Nothing here has a made-up default: what a file does not say is None or empty.
"""

from __future__ import annotations

import difflib
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from meta_infer.hardware import isa, units

Kind = Literal["cpu", "gpu", "npu", "dsp", "fpga"]
Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int16", "int8", "uint8", "int4", "uint4"]


def _known_isa(name: str) -> str:
    if name not in isa.NAMES:
        raise ValueError(f"expected one of {', '.join(isa.NAMES)}")
    return name


def _known_feature(name: str) -> str:
    if name not in isa.EXTENSIONS:
        near = difflib.get_close_matches(name, isa.EXTENSIONS, n=1, cutoff=0.5)
        guess = f"did you mean {near[0]!r}" if near else f"known: {', '.join(sorted(isa.EXTENSIONS))}"
        raise ValueError(f"unknown feature, {guess}")
    return name


IsaName = Annotated[str, AfterValidator(_known_isa)]
Feature = Annotated[str, AfterValidator(_known_feature)]
Name = Annotated[str, StringConstraints(min_length=1)]
Layout = Annotated[str, StringConstraints(pattern=r"^N[CDHW]{1,4}([0-9]+c)?$")]
OpName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Bytes = Annotated[int, BeforeValidator(units.size), Field(gt=0)]
MiB = Annotated[int, BeforeValidator(lambda v: units.size(v, "MiB")), Field(gt=0)]
Rate = Annotated[float, BeforeValidator(lambda v: units.quantity(v, units.RATE, "MB/s")), Field(gt=0)]
Seconds = Annotated[float, BeforeValidator(lambda v: units.quantity(v, units.TIME, "s"))]


class Section(BaseModel):
    """A mapping of known keys. An unknown key is refused with the nearest known one named."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in data:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
                guess = f", did you mean {near[0]!r}?" if near else ""
                raise PydanticCustomError(
                    "unknown_key", "unknown key{guess} (known: {known})",
                    {"key": str(key), "guess": guess, "known": ", ".join(known)})
        return data


class OpLimit(Section):
    """A case of an operator that the device cannot do, with the reason a user will read."""

    op: OpName = Field(description="operator, as in supported_ops")
    max_kernel: Count | None = Field(None, description="largest kernel side, elements")
    max_stride: Count | None = Field(None, description="largest stride, elements")
    max_channels: Count | None = Field(None, description="most channels of one tensor")
    precision: tuple[Precision, ...] | None = Field(None, description="element types this operator runs in")
    reason: Name = Field(description="why, in words for the user")


class Device(Section):
    """One processor. The first device of a chip is the one that models are compiled for."""

    name: Name = Field(description="name, unique in the file")
    kind: Kind = Field(description="cpu, gpu, npu, dsp or fpga")
    isa: IsaName | None = Field(None, description="instruction set of a cpu or dsp")
    features: tuple[Feature, ...] = Field((), description="extensions of isa, as /proc/cpuinfo names them")
    simd_bits: Count | None = Field(None, description="bits of a vector register; left out: what isa implies")
    compute_units: Count | None = Field(None, description="cores, or units that work in parallel")
    max_workers: Count | None = Field(None, description="most units one model may use; left out: all")
    clock_ghz: Positive | None = Field(None, description="clock of a compute unit, GHz")
    macs_per_cycle: dict[Precision, Positive] = Field(
        default_factory=dict, description="multiply-accumulates per cycle and compute unit, by element type")
    pipeline_depth: Count | None = Field(None, description="stages of the arithmetic pipeline, cycles")
    instruction_cache: Bytes | None = Field(None, description="size, such as '32 KiB'")
    aligned_channel: Count | None = Field(None, description="channels are padded to a multiple of this")
    precision: tuple[Precision, ...] = Field((), description="element types it computes in, best first")
    data_layouts: tuple[Layout, ...] = Field((), description="layouts such as NCHW, NHWC, NCHW8c, best first")
    supported_ops: tuple[OpName, ...] | None = Field(None, description="operators; left out: everything")
    op_limits: tuple[OpLimit, ...] = Field((), description="cases of supported operators that it cannot do")


class Memory(Section):
    """A place tensors can live in."""

    name: Name = Field(description="name, unique in the file; links refer to it")
    kind: Literal["main", "l1d", "l2", "l3", "sram"] = Field(description="main memory, a cache, or SRAM")
    size: Bytes = Field(description="size, such as '128 MiB'; of one compute unit's own for l1d and l2")
    banks: Count | None = Field(None, description="banks that can be accessed at the same time")
    alignment: Bytes | None = Field(None, description="alignment of a tensor's first byte, such as 64")


class Link(Section):
    """A way data moves: between two memories, or between a memory and a device."""

    source: Name = Field(alias="from", description="name of a memory or device")
    target: Name = Field(alias="to", description="name of a memory or device")
    bandwidth: Rate = Field(description="rate, such as '20480 MB/s'")
    setup: Seconds | None = Field(None, description="time before the first byte, such as '200 ns'")
    dma_granularity: Bytes | None = Field(None, description="smallest piece of one transfer, such as '64 B'")
    two_d: bool | None = Field(None, description="whether one transfer can have a row pitch")


class Power(Section):
    """Energy model."""

    static_w: NotNegative | None = Field(None, description="power while idle but on, W")
    joules_per_mac: dict[Precision, Positive] = Field(
        default_factory=dict, description="energy of one multiply-accumulate by element type, J")
    joules_per_byte: dict[Name, Positive] = Field(
        default_factory=dict, description="energy of one byte read or written, by memory name, J")


Work = Literal["ports", "arithmetic", "function", "shuffle", "load", "store", "partial", "divide", "scalar", "index",
               "loop", "entry", "prefetch", "chain"]
Penalty = Literal["chunks"]


class Cost(Section):
    """Fitted coefficients of the time of one core, where busy = alpha * work and moving = beta * bytes:

    time = max(busy, moving) + (1 - overlap) * min(busy, moving) + gamma * launches + delta * penalty
    """

    kernel_class: Name = Field(description="class of kernels it was fitted on; 'any': all of them")
    precision: Precision = Field(description="element type it was fitted on")
    alpha: dict[Work, NotNegative] = Field(description="s per operation on a register, by kind of work")
    beta: dict[Name, NotNegative] = Field(description="s per byte, by name of the memory it comes from")
    gamma: NotNegative = Field(description="s per launch")
    delta: dict[Penalty, NotNegative] = Field(description="s per unit of penalty, by kind")
    overlap: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="share of the lesser of busy and moving that hides behind the greater")
    fitted: date = Field(description="day of the fit, YYYY-MM-DD")
    samples: Count = Field(description="measurements it stands on")
    error: NotNegative = Field(description="median relative error on held-out measurements, 0.1 is 10 %")


class Versions(Section):
    """Versions that were verified together."""

    toolchain: Name | None = Field(None, description="compiler or SDK and its version")
    driver: Name | None = Field(None, description="driver and its version")
    firmware: Name | None = Field(None, description="firmware and its version")


class Chip(Section):
    """The full form of a profile."""

    name: Name = Field(description="name of the profile")
    description: str | None = Field(None, description="one line for people")
    backend: Literal["cpu"] | None = Field(None, description="code generator; left out: estimates only")
    devices: tuple[Device, ...] = Field(description="processors; the first is compiled for")
    memories: tuple[Memory, ...] = Field((), description="memories and caches")
    links: tuple[Link, ...] = Field((), description="ways between memories and devices")
    sensitive_layers: tuple[OpName, ...] = Field((), description="operators that keep a higher precision")
    power: Power | None = Field(None, description="energy model")
    cost: tuple[Cost, ...] = Field((), description="fitted cost coefficients")
    versions: Versions | None = Field(None, description="versions that were verified together")

    @model_validator(mode="after")
    def _names_fit(self) -> Chip:
        if not self.devices:
            raise ValueError("devices: expected at least one")
        names = [device.name for device in self.devices] + [memory.name for memory in self.memories]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the name {name!r} is given to {names.count(name)} devices or memories")
        for link in self.links:
            for end in (link.source, link.target):
                if end not in names:
                    raise ValueError(f"a link names {end!r}, expected one of: {', '.join(names)}")
        for name in self.power.joules_per_byte if self.power else ():
            if name not in names:
                raise ValueError(f"power.joules_per_byte names {name!r}, expected one of: {', '.join(names)}")
        first = self.devices[0]
        if self.backend == "cpu" and (first.kind != "cpu" or first.isa is None):
            raise ValueError("backend 'cpu' needs a first device of kind cpu with an isa")
        return self


class Accelerator(Section):
    """The minimal form, under the single key `accelerator`."""

    name: Name = Field(description="name of the profile")
    compute_units: Count | None = Field(None, description="units that work in parallel")
    supported_ops: tuple[OpName, ...] | None = Field(None, description="operators; left out: everything")
    data_layouts: tuple[Layout, ...] = Field((), description="layouts such as NCHW, NHWC, best first")
    precision: tuple[Precision, ...] = Field((), description="element types it computes in, best first")
    aligned_channel: Count | None = Field(None, description="channels are padded to a multiple of this")
    unified_memory: MiB | None = Field(None, description="memory shared by all units, MiB")
    bandwidth_mbps: Rate | None = Field(None, description="bandwidth of that memory, MB/s")
    max_workers: Count | None = Field(None, description="most units one model may use")

    def expand(self) -> Chip:
        """The same statements in the full form: one npu, one main memory, one link between them.

        A bandwidth without a memory size becomes a link of the device with itself, so that it is not lost.
        """
        device = self.model_dump(include={
            "compute_units", "max_workers", "aligned_channel", "precision", "data_layouts", "supported_ops"})
        chip: dict[str, Any] = {"name": self.name, "devices": ({"name": "npu", "kind": "npu", **device},)}
        memory = "npu"
        if self.unified_memory is not None:
            memory = "memory"
            chip["memories"] = ({"name": memory, "kind": "main", "size": self.unified_memory},)
        if self.bandwidth_mbps is not None:
            chip["links"] = ({"from": memory, "to": "npu", "bandwidth": f"{self.bandwidth_mbps:.0f} B/s"},)
        return Chip.model_validate(chip)
