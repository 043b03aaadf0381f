"""Choices that a user has made: `--pin NODE.algo=TEXT`, `--pin NODE.layout=TEXT`, `--pin NODE.KNOB=VALUE`.

    conv1.algo=winograd      a kernel or variant whose name contains the text
    conv1.layout=plain       the layout of what it makes: plain, or the block, such as b8
    conv1.rows=4             a knob of its kernel
    'stage2.*.algo=direct'   patterns as in a shell

A node is named as in the ONNX file, or by the tensor it makes. A pin holds for the group whose main operator the node
is; groups of several main operators around it are left out unless they keep it too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from meta_infer.hardware.profile import Profile
from meta_infer.ir.graph import Graph, Node, walk_graphs
from meta_infer.ir.group import PLAIN, Group, Variant
from meta_infer.kernels.kernel import Refusal
from meta_infer.kernels.registry import all_kernels, kernel_named
from meta_infer.kernels.tuning import tuned_as_asked
from meta_infer.search.default_plan import Variants
from meta_infer.support.errors import UsageError

_ALGO, _LAYOUT = "algo", "layout"
_MOST = 4
"""Reasons that an error gives."""


@dataclass(frozen=True)
class Pin:
    """One choice: `value` is what `field` of the nodes that `node` matches shall be."""

    text: str
    node: str
    field: str
    value: str

    def matches(self, node: Node) -> bool:
        return any(fnmatchcase(name, self.node) for name in (*node.origins, *filter(None, node.outputs)))


def parse_pins(texts: Iterable[str]) -> tuple[Pin, ...]:
    """Raises UsageError for a text that is no pin."""
    pins = []
    for text in texts:
        left, equal, value = text.partition("=")
        node, dot, field_name = left.rpartition(".")
        if not (equal and dot and node and field_name and value):
            raise UsageError("is no choice", what=f"--pin {text}",
                             hint="write NODE.algo=KERNEL, NODE.layout=plain or NODE.KNOB=VALUE, such as "
                                  "conv1.algo=winograd")
        pins.append(Pin(text, node, field_name, value))
    return tuple(pins)


@dataclass
class Pinned:
    """Pins on the nodes of a graph. `why` says of each pin what it alone left out so far, `vague` what others did
    too."""

    pins: Sequence[Pin]
    why: dict[str, list[str]] = field(default_factory=dict)
    vague: dict[str, list[str]] = field(default_factory=dict)

    def check(self, graph: Graph) -> None:
        """Raises UsageError for a pin whose node is not there, with the nearest name."""
        nodes = [node for one in walk_graphs(graph) for node in one.nodes]
        for pin in self.pins:
            if not any(pin.matches(node) for node in nodes):
                names = [name for node in nodes for name in (*node.origins, *filter(None, node.outputs))]
                near = difflib.get_close_matches(pin.node, names, n=1, cutoff=0.4)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise UsageError(f"the model has no node {pin.node!r}", what=f"--pin {pin.text}",
                                 hint=f"{hint}`meta-infer build --details` lists groups, `--stop-after legalize` nodes")

    def among(self, variants: Variants) -> Variants:
        """`variants` less those that break a pin."""
        def kept(group: Group, profile: Profile) -> Iterator[Variant]:
            pins = self._of(group)
            for variant in variants(group, profile):
                found = self._pinned(group, variant, pins, profile) if pins else variant
                if found is not None:
                    yield found

        return kept if self.pins else variants

    def keeps(self, group: Group, variant: Variant) -> bool:
        """Whether a variant, perhaps with other knobs, is as pinned."""
        return all(_mismatch(pin, group, variant) == "" for pin in self._of(group))

    def broken(self) -> UsageError | None:
        """The error of the last pin that something stood in the way of, for when no plan was found."""
        for why in (self.why, self.vague):
            for pin in reversed(self.pins):
                if pin.text in why:
                    reasons = list(dict.fromkeys(why[pin.text]))
                    more = f"; and {len(reasons) - _MOST} more" if len(reasons) > _MOST else ""
                    return UsageError("cannot be: " + "; ".join(reasons[:_MOST]) + more, what=f"--pin {pin.text}",
                                      hint=f"{_meant(pin)}leave it out, or pin what can be")
        return None

    def _of(self, group: Group) -> list[Pin]:
        anchors = [group.anchor, *group.prologue]
        return [pin for pin in self.pins if any(pin.matches(node) for node in anchors)]

    def _pinned(self, group: Group, variant: Variant, pins: Sequence[Pin], profile: Profile) -> Variant | None:
        """The variant with the pinned knobs; None where that, its name or its layout cannot be."""
        if variant.kernel in ("view", "region"):
            return variant
        failed: list[tuple[Pin, str]] = []
        for pin in pins:
            if pin.field in (_ALGO, _LAYOUT) or pin.field not in variant.knobs:
                continue
            kernel = kernel_named(variant.kernel)
            value = int(pin.value) if pin.value.lstrip("-").isdigit() else pin.value
            tuned = tuned_as_asked(kernel, group, variant, {pin.field: value}, profile)
            if isinstance(tuned, Refusal):
                known = next((k.values for k in kernel.knobs(group, variant, profile) if k.name == pin.field), ())
                offers = f"it offers {', '.join(map(str, known))}"
                failed.append((pin, f"{tuned.detail}: {offers}" if tuned.reason == "value" else
                               f"{variant.kernel} refuses it ({tuned.reason}: {tuned.detail}; {offers})"))
            else:
                variant = tuned
        said = [pin for pin, _ in failed]
        failed += [(pin, reason) for pin in pins if pin not in said and (reason := _mismatch(pin, group, variant))]
        if not failed:
            return variant
        # What breaks one pin alone tells more than what breaks several.
        place = self.why if len(failed) == 1 else self.vague
        for pin, reason in failed:
            place.setdefault(pin.text, []).append(reason)
        return None


def _meant(pin: Pin) -> str:
    """A kernel whose name is near to what a pin gives; '' where there is none, or it is one."""
    names = [kernel.name for kernel in all_kernels()]
    if pin.field != _ALGO or any(pin.value in name for name in names):
        return ""
    words = {name.partition("_")[2]: name for name in names} | {name: name for name in names}
    near = difflib.get_close_matches(pin.value, words, n=1)
    return f"did you mean {pin.node}.{_ALGO}={words[near[0]]}? " if near else ""


def _mismatch(pin: Pin, group: Group, variant: Variant) -> str:
    """What of a variant is not as pinned; '' when all is."""
    if variant.kernel in ("view", "region"):
        return ""
    if pin.field == _ALGO:
        names = variant.kernel, variant.name, f"{variant.kernel}/{variant.name}"
        return "" if any(pin.value in name for name in names) else f"{group.label} may be {names[2]}"
    if pin.field == _LAYOUT:
        made = [variant.outputs.get(name, PLAIN) for name in group.outputs]
        found = sorted({"plain" if not layout.block else f"b{layout.block}" for layout in made})
        return "" if found == [pin.value] else f"{variant.kernel}/{variant.name} makes {', '.join(found)}"
    if pin.field not in variant.knobs:
        return f"{variant.kernel} has no knob {pin.field!r} (it has {', '.join(variant.knobs) or 'none'})"
    now = variant.knobs[pin.field]
    return "" if str(now) == pin.value else f"{variant.kernel} has {pin.field}={now}"
