"""The profile as the compiler asks it: plain values of the device that models are compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from meta_infer.hardware import isa
from meta_infer.hardware.schema import Chip, Device, Link, Memory
from meta_infer.support import dtypes
from meta_infer.support.dtypes import DType

PRECISIONS: Mapping[str, DType] = {
    "fp32": dtypes.FLOAT32, "bf16": dtypes.BFLOAT16, "fp16": dtypes.FLOAT16, "int16": dtypes.INT16,
    "int8": dtypes.INT8, "uint8": dtypes.UINT8, "int4": dtypes.INT4, "uint4": dtypes.UINT4,
}
_WORD = {dtype.name: word for word, dtype in PRECISIONS.items()}


@dataclass(frozen=True)
class Profile:
    """One chip. Fields that its file does not state are None or empty; nothing is guessed.

    Sizes are bytes, `bandwidth` is bytes per second, `macs_per_cycle` is per core (compute unit) and keyed by
    the precision words of a profile ('fp32', 'int8', ...). `l1d_bytes` and `l2_bytes` belong to one core,
    `l3_bytes` is shared.
    """

    name: str
    kind: str                                 # cpu, gpu, npu, dsp, fpga
    backend: str | None                       # 'cpu', or None: no code generator, figures are estimates
    isa: str | None                           # 'x86-64-v3', 'aarch64', ...
    features: frozenset[str]                  # names of /proc/cpuinfo; those that `isa` implies included
    simd_bits: int                            # bits of a vector register; 0 for none or unknown
    has_fma: bool
    cores: int
    max_workers: int
    clock_ghz: float | None
    macs_per_cycle: Mapping[str, float] = field(hash=False)
    l1d_bytes: int | None
    l2_bytes: int | None
    l3_bytes: int | None
    memory_bytes: int | None
    bandwidth: float | None
    supported_ops: frozenset[str] | None      # None: everything
    data_layouts: tuple[str, ...]
    precisions: tuple[str, ...]
    aligned_channel: int                      # 1 where the file states none
    chip: Chip = field(hash=False, repr=False)          # the full form: links, limits, power, cost, ...
    source: str = field(repr=False)                     # text of the file it was read from
    warnings: tuple[str, ...] = ()

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register; 1 where there are no vectors."""
        return max(1, self.simd_bits // dtype.bits)

    @property
    def vector_registers(self) -> int:
        """Vector registers of the instruction set; 16 where the profile names none."""
        return isa.isa_named(self.isa).simd_registers if self.isa else 16

    def supports_op(self, name: str) -> bool:
        """Whether the device runs operator `name` at all (a profile word such as 'conv2d')."""
        return self.supported_ops is None or name in self.supported_ops

    def macs_per_second(self, dtype: DType) -> float | None:
        """Peak multiply-accumulates per second of all cores together, or None where the file does not say."""
        rate = self.macs_per_cycle.get(_WORD.get(dtype.name, ""))
        if rate is None or self.clock_ghz is None:
            return None
        return rate * self.clock_ghz * 1e9 * self.cores

    def runs_on(self, host: Profile) -> bool:
        """Whether code generated for this profile runs on `host`, the probed profile of a machine."""
        if self.backend != "cpu" or self.isa is None or host.isa is None:
            return False
        same = isa.isa_named(self.isa).architecture == isa.isa_named(host.isa).architecture
        return same and self.features <= host.features

    @classmethod
    def from_chip(cls, chip: Chip, source: str, warnings: tuple[str, ...]) -> Profile:
        """The profile of the first device of `chip`."""
        device = chip.devices[0]
        implied = isa.isa_named(device.isa) if device.isa else None
        features = frozenset(device.features) | (implied.features if implied else frozenset())
        cores = device.compute_units or 1
        return cls(
            name=chip.name,
            kind=device.kind,
            backend=chip.backend,
            isa=isa.with_products(device.isa, features) if device.isa else None,
            features=features,
            simd_bits=device.simd_bits or (implied.simd_bits if implied else 0),
            has_fma="fma" in features or (implied is not None and implied.has_fma),
            cores=cores,
            max_workers=min(device.max_workers or cores, cores),
            clock_ghz=device.clock_ghz,
            macs_per_cycle={word: rate for word, rate in device.macs_per_cycle.items()},
            l1d_bytes=_size_of(chip.memories, "l1d"),
            l2_bytes=_size_of(chip.memories, "l2"),
            l3_bytes=_size_of(chip.memories, "l3"),
            memory_bytes=_size_of(chip.memories, "main"),
            bandwidth=_main_bandwidth(chip, device),
            supported_ops=None if device.supported_ops is None else frozenset(device.supported_ops),
            data_layouts=device.data_layouts,
            precisions=device.precision,
            aligned_channel=device.aligned_channel or 1,
            chip=chip,
            source=source,
            warnings=warnings,
        )


def _size_of(memories: tuple[Memory, ...], kind: str) -> int | None:
    return next((memory.size for memory in memories if memory.kind == kind), None)


def _main_bandwidth(chip: Chip, device: Device) -> float | None:
    """The fastest way out of (or into) main memory; of the device itself where no memory is stated."""
    ends = {memory.name for memory in chip.memories if memory.kind == "main"} or {device.name}

    def touches(link: Link) -> bool:
        return link.source in ends or link.target in ends

    return max((link.bandwidth for link in chip.links if touches(link)), default=None)
