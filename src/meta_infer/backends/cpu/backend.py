"""The CPU backend: C with SIMD vector types, compiled into one shared object with the runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from meta_infer.backends.base import Artifact, Backend, Metric, No, Yes
from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.execute import execute_package
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Layout, Variant
from meta_infer.ir.program import Call, Program, walk_commands
from meta_infer.ir.shapes import product, usual_upper
from meta_infer.kernels.kernel import Lowering
from meta_infer.kernels.registry import kernel_named, kernels_for
from meta_infer.lower.dims import program_dims
from meta_infer.runtime.sources import C_SOURCES
from meta_infer.support.dtypes import FLOAT32
from meta_infer.support.errors import ProfileError


def variants(group: Group, profile: Profile) -> Iterator[Variant]:
    """What every kernel that anchors on the group's op offers, preferred kernels first."""
    for kernel in kernels_for(group.anchor.op):
        yield from kernel.variants(group, profile)


def supports(group: Group, profile: Profile) -> Yes | No:
    """Whether any kernel offers a variant."""
    if not kernels_for(group.anchor.op):
        return No(f"no CPU kernel computes {group.anchor.op}")
    if next(variants(group, profile), None) is None:
        types = ", ".join(str(group.values[n]) for n in (*group.inputs, *group.outputs))
        return No(f"no CPU kernel computes {group.label} on {types}")
    return Yes()


def lower(group: Group, variant: Variant, layouts: Mapping[str, Layout], profile: Profile) -> Lowering:
    """The chosen variant as loop functions."""
    return kernel_named(variant.kernel).lower(group, variant, layouts, profile)


def call_labels(program: Program) -> dict[str, str]:
    """For every kernel of a program, what it computes and for which ONNX nodes."""
    labels: dict[str, dict[str, None]] = {}
    for command in walk_commands(program.commands):
        if isinstance(command, Call):
            nodes = ", ".join(command.origins)
            text = f"{command.label or command.kernel}" + (f"  for {nodes}" if nodes else "")
            labels.setdefault(command.kernel, {})[text] = None
    return {kernel: "; ".join(texts) for kernel, texts in labels.items()}


def emit(program: Program, profile: Profile) -> list[str]:
    """C sources of all kernels of a program, the kernel table last."""
    funcs = [replace(func, name=name) for name, func in program.kernels.items()]
    return emit_module(funcs, program_dims(program), tuple(program.symbols.values()), _isa(profile),
                       call_labels(program))


def compile_sources(sources: Sequence[str], profile: Profile) -> Artifact:
    """The shared object of a package: generated code and the runtime. Raises ToolchainError."""
    return compile_module(sources, _isa(profile), C_SOURCES)


def estimate(group: Group, variant: Variant, profile: Profile) -> Metric | None:
    """Roofline: floating-point operations at peak, or bytes at the bandwidth of main memory, whichever takes longer.

    Dynamic dims count at their upper bounds. None when the profile states neither peak nor bandwidth.
    """
    values = [group.values[name] for name in (*group.inputs, *group.outputs) if name not in group.constants]
    moved = sum(usual_upper(product(v.shape)) * v.dtype.bits // 8 for v in values)
    moved += variant.packed_bytes or sum(array.nbytes for array in group.constants.values())
    peak = profile.macs_per_second(FLOAT32)
    parts = []
    if peak:
        parts.append(usual_upper(variant.flops) / (2 * peak))
    if profile.bandwidth:
        parts.append(moved / profile.bandwidth)
    return Metric(max(parts), "s", "model") if parts else None


def _isa(profile: Profile) -> str:
    if profile.isa is None:
        raise ProfileError("states no instruction set", what=f"profile {profile.name!r}",
                           hint="give its first device an isa, such as x86-64-v3")
    return profile.isa


CPU = Backend("cpu", supports, variants, lower, emit, compile_sources, execute_package, estimate)
