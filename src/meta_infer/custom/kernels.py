"""Kernels that users bring for ops that exist: C text, or a vendor's function that it calls, as one more variant.

What a user's functions are given and may return stands in docs/custom-kernels.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product as combinations
from typing import Any, TypeVar

from meta_infer.cost.features import group_flops
from meta_infer.hardware.isa import EXTENSIONS, isa_named
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import PLAIN, Group, Layout, Variant, blocked
from meta_infer.ir.loop import MATH
from meta_infer.ir.shapes import Dim, divisible
from meta_infer.ir.source import Linked
from meta_infer.kernels.custom_text import CText, Items, Pack, elements, rows_per_item
from meta_infer.kernels.kernel import Kernel, Knob, KnobValue, Refusal
from meta_infer.support.dtypes import ALL
from meta_infer.support.errors import MetaInferError, UsageError

Knobs = Mapping[str, KnobValue]
Fits = Callable[[Group, Profile], bool]
Figure = Callable[[Group, Profile, Knobs], float]
Allows = Callable[[Group, Profile, Knobs], "bool | str | None"]
_VARIANT = "source"
_FUNCTIONS = ("fits", "allows", "scratch_bytes", "flops", "cost")
_T = TypeVar("_T")


@dataclass(frozen=True)
class CustomKernel:
    """What `c_kernel` was given; files.py checks and registers it."""

    name: str
    op: str
    source: str
    fits: Fits | None = None
    items: Items | None = None
    grain: int = 1
    head: str = ""
    math: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float32",)
    layouts: Mapping[str, int] = field(default_factory=dict)
    pack: Mapping[str, Pack] = field(default_factory=dict)
    knobs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    allows: Allows | None = None
    scratch_bytes: int | Figure = 0
    flops: Dim | Callable[[Group], Dim] | None = None
    cost: float | Figure = 0.0
    needs: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    epilogue: bool = False


def c_kernel(name: str, *, op: str, source: str, fits: Fits | None = None, items: Items | None = None, grain: int = 1,
             head: str = "", math: tuple[str, ...] = (), dtypes: tuple[str, ...] = ("float32",),
             layouts: Mapping[str, int] | None = None, pack: Mapping[str, Pack] | None = None,
             knobs: Mapping[str, Sequence[int]] | None = None, allows: Allows | None = None,
             scratch_bytes: int | Figure = 0, flops: Dim | Callable[[Group], Dim] | None = None,
             cost: float | Figure = 0.0, needs: tuple[str, ...] = (), link: tuple[str, ...] = (),
             epilogue: bool = False) -> CustomKernel:
    """A kernel for groups whose main operator is `op`: C text as for `c_op`, and what it needs and takes.

    fits           (group, profile) -> whether it computes that group; default: any of `dtypes` and `layouts`.
    items, grain   work items of the text, and how many make a chunk of work for one thread.
    head           C before the function: includes, functions and declarations of its own.
    dtypes         of the operator's inputs and outputs, of which all must be.
    layouts        'in0' or 'out0' -> channels in a block; what is not named is plain.
    pack           'in1' -> (array, knobs) -> array: a constant operand in another form.
    knobs          name -> values worth trying, the first is the default: `knob_NAME` in the text.
    allows         (group, profile, knobs) -> True, or False or a reason.
    scratch_bytes  per thread, or (group, profile, knobs) -> bytes: `scratch` in the text.
    flops          floating-point operations, or (group) -> them; default: what the operator says.
    cost           operations that would take as long at the chip's peak, or (group, profile, knobs) -> them. Without
                   it only a search or a pin chooses the kernel.
    needs          features of the processor, as Linux names them: ('avx2', 'fma').
    link           object files and archives, relative to the file that says so.
    epilogue       takes elementwise operators after its own: an item makes whole rows of the output, in order.
    """
    return CustomKernel(name, op, source, fits, items, grain, head, tuple(math), tuple(dtypes), layouts or {},
                        pack or {}, knobs or {}, allows, scratch_bytes, flops, cost, tuple(needs), tuple(link),
                        epilogue)


def problem_of(kernel: CustomKernel) -> str:
    """What is wrong with the description of a kernel, in words; '' when nothing is."""
    for place in (*kernel.layouts, *kernel.pack):
        if not re.fullmatch(r"in\d+|out\d+", place):
            return f"knows no operand {place!r}: 'in0', 'in1', ..., 'out0'"
    if any(place.startswith("out") for place in kernel.pack):
        return "can pack inputs only"
    if any(not isinstance(block, int) or block < 2 for block in kernel.layouts.values()):
        return "a layout is the number of channels in a block, 2 or more"
    for name, values in kernel.knobs.items():
        if not re.fullmatch("[a-z][a-z0-9_]*", name):
            return f"knob {name!r} is no lower-case name"
        if not values or not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            return f"knob {name!r} needs a tuple of whole numbers"
    if kernel.knobs.keys() & {"algo", "layout"}:
        return "a knob cannot be called algo or layout: pins use these words"
    if unknown := [name for name in kernel.needs if name not in EXTENSIONS]:
        return f"needs {unknown[0]!r}, which is no feature that a processor is known to have, such as avx2 or asimd"
    if unknown := [name for name in kernel.dtypes if name not in {dtype.name for dtype in ALL}]:
        return f"knows no dtype {unknown[0]!r}"
    if unknown := [name for name in kernel.math if name not in MATH]:
        return f"knows no function {unknown[0]!r}: {', '.join(MATH)}"
    if kernel.grain < 1:
        return f"has chunks of {kernel.grain} items"
    if kernel.epilogue and any(place.startswith("out") for place in kernel.layouts):
        return "takes an epilogue only where it makes a plain output"
    return ""


def as_kernel(kernel: CustomKernel, linked: Sequence[Linked], where: str) -> Kernel:
    """The kernel as plans and searches know it; `where` is the file it comes from."""
    def named(what: str, function: Callable[..., _T]) -> Callable[..., _T]:
        return _named(f"kernel {kernel.name} of {where}", what, function)

    asked: dict[str, Any] = {what: named(what, function) for what in _FUNCTIONS
                             if callable(function := getattr(kernel, what))}
    given = replace(kernel, **asked)
    text = CText(given.source, named("items", given.items) if given.items else elements, given.grain, given.math,
                 given.head, tuple(linked), {int(place[2:]): named("pack", pack) for place, pack in given.pack.items()},
                 f"kernel {given.name}")
    made = _Made(given, text)
    return Kernel(given.name, (given.op,), made.variants, text.lower, made.knobs, made.tune)


def _named(kernel: str, what: str, function: Callable[..., _T]) -> Callable[..., _T]:
    """A function of the user whose failure is an error that names it."""
    def asked(*args: object) -> _T:
        try:
            return function(*args)
        except MetaInferError:
            raise
        except Exception as error:
            of = f" for {args[0].anchor.label}" if isinstance(args[0], Group) else ""
            raise UsageError(f"`{what}` failed{of}: {type(error).__name__}: {error}", what=kernel,
                             hint="docs/custom-kernels.md says what it is given and returns") from error

    return asked


@dataclass(frozen=True)
class _Made:
    """The functions of a Kernel, over those of the user."""

    given: CustomKernel
    text: CText

    def variants(self, group: Group, profile: Profile) -> Iterator[Variant]:
        given = self.given
        layouts = self._layouts(group, profile)
        if layouts is None or (given.fits is not None and not given.fits(group, profile)):
            return
        names = list(given.knobs)
        for values in combinations(*given.knobs.values()):
            knobs: dict[str, KnobValue] = dict(zip(names, values, strict=True))
            if not self._refused(group, profile, knobs):
                yield self._variant(group, profile, knobs, layouts)
                return

    def knobs(self, group: Group, variant: Variant, profile: Profile) -> tuple[Knob, ...]:
        return tuple(Knob(name, tuple(values)) for name, values in self.given.knobs.items())

    def tune(self, group: Group, variant: Variant, values: Knobs, profile: Profile) -> Variant | Refusal:
        full = {**variant.knobs, **values}
        for name, value in full.items():
            known = self.given.knobs.get(name, ())
            if value not in known:
                return Refusal(full, "custom", f"{name}={value} is not among {', '.join(map(str, known))}")
        if refused := self._refused(group, profile, full):
            return Refusal(full, "custom", refused)
        return self._variant(group, profile, full, {**variant.inputs, **variant.outputs})

    def _layouts(self, group: Group, profile: Profile) -> dict[str, Layout] | None:
        """What it takes and makes the group's tensors in; None when that cannot be."""
        given, node = self.given, group.anchor
        if group.prologue or (group.epilogue and not self._takes_epilogue(group)):
            return None
        if profile.isa is None or not isa_named(str(profile.isa)).features.issuperset(given.needs):
            return None
        operands = {f"in{i}": name for i, name in enumerate(node.inputs) if name}
        results = {f"out{i}": name for i, name in enumerate(name for name in node.outputs if name)}
        if any(group.values[name].dtype.name not in given.dtypes for name in (*operands.values(), *results.values())):
            return None
        if any(operands.get(place, "") not in group.constants for place in given.pack):
            return None
        layouts = {name: PLAIN for name in (*group.inputs, *group.outputs) if name not in group.constants}
        for place, block in given.layouts.items():
            name = {**operands, **results}.get(place, "")
            shape = group.values[name].shape if name else ()
            if name not in layouts or len(shape) < 3 or not divisible(shape[1], block):
                return None
            layouts[name] = blocked(block)
        return layouts

    def _takes_epilogue(self, group: Group) -> bool:
        """Whether the anchor's result can lie where the group's goes, row by row."""
        made = [name for name in group.anchor.outputs if name]
        if not self.given.epilogue or len(made) != 1 or len(group.outputs) != 1:
            return False
        own, out = group.values[made[0]], group.values[group.outputs[0]]
        return (own.dtype, own.shape) == (out.dtype, out.shape) and rows_per_item(group, self.text.items) is not None

    def _variant(self, group: Group, profile: Profile, knobs: Knobs, layouts: Mapping[str, Layout]) -> Variant:
        given = self.given
        flops = given.flops if given.flops is not None else group_flops
        packed = sum(group.constants[name].nbytes for name in dict.fromkeys(group.inputs) if name in group.constants)
        return Variant(given.name, _VARIANT, {name: layouts[name] for name in group.inputs if name in layouts},
                       {name: layouts[name] for name in group.outputs}, knobs,
                       scratch_bytes=int(_figure(given.scratch_bytes, group, profile, knobs)),
                       packed_bytes=packed, flops=flops(group) if callable(flops) else flops,
                       cost=float(_figure(given.cost, group, profile, knobs)))

    def _refused(self, group: Group, profile: Profile, knobs: Knobs) -> str:
        """Why these values cannot be; '' when they can."""
        if self.given.allows is None:
            return ""
        found = self.given.allows(group, profile, knobs)
        return found if isinstance(found, str) else "" if found or found is None else "the kernel does not allow it"


def _figure(figure: float | Figure, group: Group, profile: Profile, knobs: Knobs) -> float:
    return figure(group, profile, knobs) if callable(figure) else figure
