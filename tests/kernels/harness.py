"""Runs one kernel on one group, for tests: makes the group, compiles the lowering and calls it chunk by chunk.

    case = make_group("Conv", {"x": x, "w": w}, {"strides": (1, 1), ...}, constants=("w",),
                      epilogue=[Step("Add", {"r": r}), Step("Relu")])
    variant = next(iter(KERNEL.variants(case.group, PROFILE)))
    got = run_group(case.group, KERNEL, variant, layouts_of(variant, case.group), case.arrays, PROFILE)
    want = reference(case)

Arrays go in and come out in logical order; the harness blocks and unblocks them. Buffers have guard bands whose
contents are checked, outputs and scratch start as NaN, inputs must come back unchanged.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from meta_infer.backends.cpu.emit_c import emit_module
from meta_infer.backends.cpu.loaded import LoadedModule
from meta_infer.backends.cpu.toolchain import compile_module
from meta_infer.hardware.isa import highest_isa, isa_named
from meta_infer.hardware.profile import Profile
from meta_infer.hardware.schema import Chip
from meta_infer.ir.graph import Attr, Node, Value
from meta_infer.ir.group import PLAIN, Group, Layout, Variant
from meta_infer.ir.interpret_loop import interpret
from meta_infer.ir.loop import LoopFunc
from meta_infer.ir.shapes import Dim, Expr, Symbol, evaluate, symbols_of
from meta_infer.ir.verify_loop import verify_func
from meta_infer.kernels.kernel import Kernel, KernelCall, Lowering
from meta_infer.kernels.tuning import corners, feasible
from meta_infer.ops.infer import counted_symbols, infer_node
from meta_infer.ops.opdef import TensorType
from meta_infer.ops.registry import op_named
from meta_infer.support.dtypes import UINT8, DType, dtype_of
from meta_infer.support.switches import read_switches

_GUARD = 256
_FILL = 0xFF                                  # NaN for every float type, -1 or the largest for integers

Shapes = Mapping[str, tuple[Dim, ...]]


@dataclass(frozen=True)
class Step:
    """An elementwise node of an epilogue: `extra` are its other operands, the chain is operand number `at`."""

    op: str
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    at: int = 0


@dataclass(frozen=True)
class Case:
    """A group with arrays for all its inputs, constants included."""

    group: Group
    arrays: Mapping[str, np.ndarray]


def host_isa() -> str:
    """The best instruction set this machine runs."""
    flags: set[str] = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):
            flags = set(line.split(":")[1].split())
            break
    found = highest_isa(os.uname().machine, flags)
    assert found is not None
    return found.name


def make_profile(isa: str | None = None, cores: int = 2) -> Profile:
    """A CPU profile with plausible caches, for `isa` (default: this machine's best)."""
    isa = isa or host_isa()
    width = max(isa_named(isa).simd_bits, 32) // 32
    chip = Chip.model_validate({
        "name": f"test-{isa}", "backend": "cpu",
        "devices": ({"name": "cpu", "kind": "cpu", "isa": isa, "compute_units": cores, "clock_ghz": 3.0,
                     "macs_per_cycle": {"fp32": 2.0 * width}, "precision": ("fp32",)},),
        "memories": ({"name": "ram", "kind": "main", "size": "4 GiB"}, {"name": "l1", "kind": "l1d", "size": "32 KiB"},
                     {"name": "l2", "kind": "l2", "size": "512 KiB"}, {"name": "l3", "kind": "l3", "size": "16 MiB"}),
        "links": ({"from": "ram", "to": "cpu", "bandwidth": "20 GB/s"},),
    })
    return Profile.from_chip(chip, "", ())


PROFILE = make_profile()


# --- groups --------------------------------------------------------------------------------------------------


def make_group(op: str, inputs: Mapping[str, np.ndarray | None], attrs: Mapping[str, Attr] | None = None, *,
               constants: Iterable[str] = (), epilogue: Sequence[Step] = (), shapes: Shapes | None = None,
               outputs: Sequence[str] = ("out",), keep: Sequence[str] = ()) -> Case:
    """A group of `op` and an epilogue, typed by the ops' own `infer`.

    `inputs` are the anchor's operands in order, None for an absent optional one. `constants` names those known at
    build. `shapes` gives symbolic shapes to some inputs; the arrays show the symbols' values. Outputs of the group:
    the last node's (plus the anchor's others), and the values named in `keep` ('e0' is the first step's output).
    """
    arrays = {name: a for name, a in inputs.items() if a is not None}
    for step in epilogue:
        arrays.update(step.extra)
    shapes, constant_names = shapes or {}, set(constants)
    types = {name: TensorType(dtype_of(a), shapes.get(name, a.shape)) for name, a in arrays.items()}
    known = {name: arrays[name] for name in constant_names}
    anchor_inputs = tuple(name if a is not None else "" for name, a in inputs.items())
    anchor = Node(op, anchor_inputs, tuple(outputs), dict(attrs or {}), (f"{op.lower()}_node",))
    types.update(zip(outputs, _infer(anchor, types, known), strict=False))
    nodes, last = [], outputs[0]
    for i, step in enumerate(epilogue):
        names = [*step.extra]
        names.insert(step.at, last)
        last = f"e{i}"
        node = Node(step.op, tuple(names), (last,), dict(step.attrs), (f"{step.op.lower()}_{i}",))
        types[last] = _infer(node, types, known)[0]
        nodes.append(node)
    group_inputs = dict.fromkeys(n for n in anchor_inputs if n)
    group_inputs.update(dict.fromkeys(name for step in epilogue for name in step.extra))
    yielded = dict.fromkeys(name for name in (*keep, last, *outputs[1:]) if name)
    values = {name: Value(name, t.dtype, tuple(t.shape)) for name, t in types.items() if name}
    group = Group(anchor, tuple(group_inputs), tuple(yielded), values, known, (), tuple(nodes))
    return Case(group, arrays)


def _infer(node: Node, types: Mapping[str, TensorType], known: Mapping[str, np.ndarray]) -> Sequence[TensorType]:
    return infer_node(node, types, known, counted_symbols("found"))[:len(node.outputs)]


def reference(case: Case, promote: bool = False) -> dict[str, np.ndarray]:
    """The group's outputs by the ops' numpy references; in float64 throughout with `promote`."""
    known = {name: a.astype(np.float64) if promote and a.dtype.kind == "f" else a for name, a in case.arrays.items()}
    symbols = symbol_values(case.group, case.arrays)
    for node in case.group.nodes:
        attrs = {k: _number(v, symbols) for k, v in node.attrs.items()}
        with np.errstate(all="ignore"):
            results = op_named(node.op).reference(attrs, [known[n] if n else None for n in node.inputs])
        known.update({n: np.asarray(r) for n, r in zip(node.outputs, results, strict=False) if n})
    return {name: known[name] for name in case.group.outputs}


def _number(attr: Attr, symbols: Mapping[str, int]) -> Attr:
    if isinstance(attr, tuple):
        return tuple(_number(a, symbols) for a in attr)
    return evaluate(attr, symbols) if isinstance(attr, Expr) else attr


def symbol_values(group: Group, arrays: Mapping[str, np.ndarray]) -> dict[str, int]:
    """What the arrays' shapes say of the symbols in the group's input types."""
    found: dict[str, int] = {}
    for name in group.inputs:
        for dim, size in zip(group.values[name].shape, arrays[name].shape, strict=True):
            if isinstance(dim, Expr) and len(dim.terms) == 1 and dim.terms[0][1] == 1 and len(dim.terms[0][0]) == 1:
                atom = dim.terms[0][0][0]
                if isinstance(atom, Symbol):
                    found[atom.name] = size
    return found


def layouts_of(variant: Variant, group: Group) -> dict[str, Layout]:
    """The layouts a variant asks for, plain where it says nothing."""
    asked = {**variant.inputs, **variant.outputs}
    return {name: asked.get(name, PLAIN) for name in (*group.inputs, *group.outputs)}


# --- memory --------------------------------------------------------------------------------------------------


def to_memory(array: np.ndarray, layout: Layout) -> np.ndarray:
    """A logical array as it lies in memory; padding lanes are zero, or NaN where the layout calls them garbage."""
    if not layout.block:
        return np.ascontiguousarray(array)
    axis, block = layout.axis, layout.block
    missing = -array.shape[axis] % block
    pad = [(0, missing if i == axis else 0) for i in range(array.ndim)]
    garbage = layout.padding == "garbage" and array.dtype.kind == "f"
    padded = np.pad(array, pad, constant_values=np.nan if garbage else 0)
    blocks = -(-array.shape[axis] // block)
    split = padded.reshape(*array.shape[:axis], blocks, block, *array.shape[axis + 1:])
    return np.ascontiguousarray(np.moveaxis(split, axis + 1, -1))


def from_memory(memory: np.ndarray, shape: tuple[int, ...], layout: Layout, name: str) -> np.ndarray:
    """A tensor in memory as a logical array; asserts that padding lanes are zero where the layout promises it."""
    if not layout.block:
        return memory.reshape(shape).copy()
    axis, block = layout.axis, layout.block
    outer = [*shape]
    outer[axis] = -(-shape[axis] // block)
    joined = np.moveaxis(memory.reshape(*outer, block), -1, axis + 1)
    joined = joined.reshape(*shape[:axis], outer[axis] * block, *shape[axis + 1:])
    inside, padding = np.split(joined, [shape[axis]], axis=axis)
    if layout.padding == "zero":
        assert not padding.any(), f"padding lanes of {name} are not zero"
    return np.ascontiguousarray(inside)


class Memory:
    """One buffer, aligned to 64 bytes, between guard bands."""

    def __init__(self, name: str, dtype: DType, elements: int, contents: np.ndarray | None = None) -> None:
        self.name = name
        nbytes = elements * dtype.bytes
        self._raw = np.full(nbytes + 2 * _GUARD + 64, _FILL, np.uint8)
        self._start = _GUARD + -(self._raw.ctypes.data + _GUARD) % 64
        self._stop = self._start + nbytes
        self.array = self._raw[self._start:self._stop].view(dtype.numpy)
        if contents is not None:
            self.array[:] = contents.reshape(-1)
        self.before = self.array.copy() if contents is not None else None

    @property
    def address(self) -> int:
        return self._raw.ctypes.data + self._start

    def check(self, read_only: bool) -> None:
        guards = (self._raw[:self._start], self._raw[self._stop:])
        assert all((g == _FILL).all() for g in guards), f"{self.name} was written out of bounds"
        if read_only and self.before is not None:
            assert self.array.tobytes() == self.before.tobytes(), f"input {self.name} was changed"


# --- running -------------------------------------------------------------------------------------------------


@functools.cache
def _cache() -> Path:
    """Compiled test kernels: META_INFER_CACHE if set (kept between runs), else a folder of this process."""
    if os.environ.get("META_INFER_CACHE"):
        return Path(os.environ["META_INFER_CACHE"])
    folder = tempfile.mkdtemp(prefix="meta-infer-tests-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@dataclass(frozen=True)
class Compiled:
    """Loop functions as machine code, by the names they were given."""

    module: LoadedModule

    def run(self, func: LoopFunc, buffers: Sequence[Memory], dims: Sequence[int],
            order: np.random.Generator | None = None) -> None:
        """All chunks of one function, in random order if `order` is given; checks guards and inputs."""
        addresses = [b.address for b in buffers]
        scratch = Memory("scratch", UINT8, self.module.scratch(func.name, dims))
        count = self.module.chunks(func.name, dims)
        spans = [(0, count)] if order is None else [(c, c + 1) for c in order.permutation(count).tolist()]
        for begin, end in spans:
            self.module.run(func.name, addresses, dims, begin, end, scratch.address)
        scratch.check(False)
        for buffer, param in zip(buffers, func.params, strict=True):
            buffer.check(param.mode == "in")


def compile_funcs(funcs: Sequence[LoopFunc], isa: str | None = None) -> Compiled:
    """Machine code for functions of distinct names, by the emitter and compiler that packages use."""
    isa = isa or host_isa()
    for func in funcs:
        verify_func(func)
    artifact = compile_module(emit_module(funcs, (), (), isa), isa, switches=replace(read_switches(), cache=_cache()))
    return Compiled(LoadedModule(artifact.path))


Runner = Callable[[LoopFunc, Sequence[Memory], Sequence[int]], None]


def _interpret(func: LoopFunc, buffers: Sequence[Memory], dims: Sequence[int]) -> None:
    interpret(func, [b.array for b in buffers], dims)


def _distinct(calls: Sequence[KernelCall]) -> list[KernelCall]:
    return [replace(call, func=replace(call.func, name=f"{call.func.name}_{i}")) for i, call in enumerate(calls)]


def run_group(group: Group, kernel: Kernel, variant: Variant, layouts: Mapping[str, Layout],
              arrays: Mapping[str, np.ndarray], profile: Profile = PROFILE, *, engine: str = "c",
              seed: int | None = None, symbols: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    """Lower, compile and run a group; its outputs by name, in logical order.

    `engine`: 'c', or 'interpret' for the loop interpreter (small sizes; it checks every index).
    `seed`: run the chunks one at a time in a random order. `symbols`: values the arrays' shapes do not show.
    """
    lowering = kernel.lower(group, variant, layouts, profile)
    return run_lowering(group, lowering, layouts, arrays, profile, engine=engine, seed=seed, symbols=symbols)


def run_lowering(group: Group, lowering: Lowering, layouts: Mapping[str, Layout], arrays: Mapping[str, np.ndarray],
                 profile: Profile = PROFILE, *, engine: str = "c", seed: int | None = None,
                 symbols: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    """As `run_group`, for a lowering made by hand."""
    known = {**symbol_values(group, arrays), **(symbols or {})}
    found = {size.symbol for call in lowering.calls for size in call.finds}
    memory: dict[str, Memory] = {}
    for name in group.inputs:
        contents = to_memory(arrays[name], layouts.get(name, PLAIN))
        memory[name] = Memory(name, group.values[name].dtype, contents.size, contents)
    for name in group.outputs:
        value = group.values[name]
        if not {s.name for dim in value.shape for s in symbols_of(dim)} & found:
            memory[name] = _output(value, layouts, known)
    for name, array in lowering.packed.items():
        memory[name] = Memory(name, dtype_of(array.dtype), array.size, np.ascontiguousarray(array))
    for temp in lowering.temps:
        count = int(np.prod([evaluate(d, known) for d in temp.shape]))
        memory[temp.name] = Memory(temp.name, temp.dtype, count)
    for kept in lowering.prepared:
        memory[kept.name] = Memory(kept.name, kept.dtype, int(np.prod([evaluate(d, {}) for d in kept.shape])))
    calls = _distinct((*lowering.prepare, *lowering.calls))
    order = None if seed is None else np.random.default_rng(seed)
    run: Runner = _interpret
    if engine == "c":
        compiled = compile_funcs([call.func for call in calls], profile.isa)
        run = functools.partial(compiled.run, order=order)
    for call in calls:
        for name in call.args:
            if name not in memory:                       # its size has been found by a call before
                memory[name] = _output(group.values[name], layouts, known)
        run(call.func, [memory[name] for name in call.args], [evaluate(d, known) for d in call.dims])
        known.update({size.symbol: int(memory[size.source].array[size.index]) for size in call.finds})
    return {name: from_memory(memory[name].array, tuple(evaluate(d, known) for d in group.values[name].shape),
                              layouts.get(name, PLAIN), name) for name in group.outputs}


def _output(value: Value, layouts: Mapping[str, Layout], known: Mapping[str, int]) -> Memory:
    physical = layouts.get(value.name, PLAIN).physical(value.shape)
    return Memory(value.name, value.dtype, int(np.prod([evaluate(d, known) for d in physical])))


def corner_variants(case: Case, kernel: Kernel, profile: Profile = PROFILE) -> Iterator[Variant]:
    """Every variant of a kernel for a case, with its knobs at all corners that are feasible."""
    for variant in kernel.variants(case.group, profile):
        knobs = kernel.knobs(case.group, variant, profile)
        assert {k.name for k in knobs} == set(variant.knobs), "every knob needs a value, every value its knob"
        assert all(variant.knobs[k.name] in k.values for k in knobs), "a knob's default is one of its values"
        yield from feasible(corners(kernel, case.group, variant, profile))[0]


def check_case(case: Case, kernel: Kernel, rtol: float = 1e-5, atol: float = 1e-6, profile: Profile = PROFILE,
               engines: Sequence[str] = ("c",), all_corners: bool = False) -> int:
    """Run every variant of `kernel` for a case (`all_corners`: with its knobs at their ends too), compare with the
    reference; the number of variants.

    Chunks are run in order and in a random order, which must give bitwise equal results.
    """
    want, count = reference(case), 0
    variants = corner_variants(case, kernel, profile) if all_corners else kernel.variants(case.group, profile)
    for variant in variants:
        count += 1
        layouts = layouts_of(variant, case.group)
        for engine in engines:
            got = run_group(case.group, kernel, variant, layouts, case.arrays, profile, engine=engine)
            for name, array in got.items():
                assert array.dtype == want[name].dtype and array.shape == want[name].shape
                what = f"{variant.name} {dict(variant.knobs)} {engine} {name}"
                np.testing.assert_allclose(array, want[name], rtol, atol, err_msg=what)
            if engine == "c":
                again = run_group(case.group, kernel, variant, layouts, case.arrays, profile, seed=count)
                for name, array in got.items():
                    assert array.tobytes() == again[name].tobytes(), f"{variant.name}: chunk order changes {name}"
    return count
