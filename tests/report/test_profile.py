"""Commands find their groups in packages of every version; times stand beside floors; tables fit in 100 columns."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from meta_infer.cost.floor import MachineRates, MemoryRate, everything
from meta_infer.report.group_work import work_of
from meta_infer.report.profile import PackageTime, evaluate, in_order
from meta_infer.report.profile_parts import Parts, described_parts
from meta_infer.report.profile_text import profile_json, profile_parts
from meta_infer.search.whole.in_place import Round
from tests.report.test_group_work import CONV, group

NAME = "/backbone/stage4/stage4.2/" + "branch1/" * 9 + "conv_7/Conv"


def row(ops: str, node: str, output: str, **more: Any) -> dict[str, Any]:
    return {"nodes": [node], "ops": ops, "kernel": ops.lower(), "variant": "v", "knobs": {"rows": 4}, "flops": "2",
            "output": output, **more}


def call(label: str, node: str, output: str | None = None) -> dict[str, Any]:
    return {"op": "Call", "kernel": "k", "label": label, "origins": [node] if node else [],
            **({} if output is None else {"output": output})}


ROWS = [row("Conv+Relu", NAME, "a", work=work_of(group(CONV, ("w", "b")))), row("MatMul", "lstm", "b"),
        row("MatMul", "lstm", "c"), row("Reshape", "flat", "d", kernel="view"),
        row("Loop", "loop", "l", kernel="region"), row("Add", "step", "e", repeats=True)]
COMMANDS = [call("MatMul", "lstm", ""), call("Conv+Relu", NAME, "a"), call("Reorder b8@1 -> plain", "", ""),
            call("MatMul", "lstm", "b"), call("MatMul", "lstm", "b"), call("MatMul", "lstm", "c"), {"op": "Loop"},
            call("Add", "step", "e"), {"op": "Copy"}, {"op": "Copy"}, {"op": "SetDim"}]


def named(parts: Parts) -> list[tuple[str, tuple[int, ...]]]:
    return [(part.ops, part.commands) for part in parts.parts]


def test_commands_find_their_groups() -> None:
    found = described_parts(COMMANDS[1:], ROWS)
    assert named(found) == [("Conv+Relu", (0,)), ("Reorder b8@1 -> plain", (1,)), ("MatMul", (2, 3)), ("MatMul", (4,)),
                            ("Add", (6,)), ("copy", (7, 8)), ("setdim", (9,))]
    assert found.holders == (5,) and found.free == 1
    assert [part.repeats for part in found.parts] == [False] * 4 + [True, False, False]
    assert found.parts[0].group is not None and found.parts[1].kernel == "reorder"


def test_a_call_made_once_belongs_to_the_first_group_of_its_nodes() -> None:
    found = described_parts(COMMANDS, ROWS)
    assert named(found)[2:4] == [("MatMul", (0, 3, 4)), ("MatMul", (5,))]


def test_an_old_package_takes_equal_groups_together() -> None:
    old_rows = [{k: v for k, v in one.items() if k in ("nodes", "ops", "kernel", "flops")} for one in ROWS]
    old = [{k: v for k, v in one.items() if k != "output"} for one in COMMANDS[1:]]
    found = described_parts(old, old_rows)
    assert [part for part in named(found) if part[0] == "MatMul"] == [("MatMul", (2, 3, 4))]
    assert all(part.group is None for part in found.parts)
    assert named(described_parts(old, [])) == named(found), "and one whose report has no groups at all does"


@pytest.mark.parametrize("bad", [[{}], ["Call"], [{"op": "Call"}], None, [{"op": "Call", "label": "x", "origins": 3}]])
def test_commands_of_another_form(bad: Any) -> None:
    with pytest.raises((KeyError, TypeError, AttributeError, IndexError, ValueError)):
        described_parts(bad, ROWS)


def profiled(probed: bool = True) -> tuple[PackageTime, Parts]:
    parts = described_parts(COMMANDS[1:], ROWS)
    rounds = []
    for slow in (1.0, 2.0, 1.5):
        rates = MachineRates(1e11 / slow, (MemoryRate("L1", 65536, 2e11), everything("memory", 2e10)))
        times = np.array([300e-6, 5e-6, 10e-6, 10e-6, 30e-6, 0.0, 40e-6, 1e-6, 2e-6, 0.0]) * slow
        rounds.append(Round(rates if probed else None, float(times.sum()) + 20e-6, times))
    return evaluate(parts.parts, rounds, {"N": 1, "H": 16}), parts


def test_times_stand_beside_floors_of_their_own_round() -> None:
    found, _ = profiled()
    conv = found.parts[0]
    assert conv.seconds == pytest.approx(450e-6) and found.rounds == 3
    assert conv.floor is not None and conv.ratio == pytest.approx(conv.seconds / conv.floor, rel=1e-6)
    assert conv.above == pytest.approx(conv.seconds - conv.floor) and conv.bound == "peak"
    assert found.floor == conv.floor and 0.7 < found.covered < 0.8
    assert found.outside == pytest.approx(20e-6) and found.kernels == pytest.approx(398e-6 * 1.5)
    assert sum(one.share for one in found.parts) < 1
    assert [one.floor for one in found.parts[1:]] == [None] * 6
    assert len(conv.turns) == 3 and conv.turns[1] == (pytest.approx(600e-6), 5e10)


def test_orders() -> None:
    found, _ = profiled()
    assert [one.part.ops for one in in_order(found, "time")][:3] == ["Conv+Relu", "Add", "MatMul"]
    assert in_order(found, "order") == list(found.parts)
    above = [one.above for one in in_order(found, "floor")]
    assert above == sorted(above, reverse=True)


@pytest.mark.parametrize("probed", [True, False])
def test_tables_fit(probed: bool) -> None:
    found, parts = profiled(probed)
    out = io.StringIO()
    console = Console(file=out, width=100)
    for part in profile_parts(found, "floor", 4, parts.free):
        console.print(part, markup=False)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 100
    assert "3 more with --most 0" in text and "1 more group takes no time" in text and "outside of them 20.0 us" in text
    assert ("for 75% of the kernels' time, which is" in text) == probed and "run over floor" not in text
    assert ("bound by" in text) == ("FLOP/s" in text) == probed
    assert "Conv+Relu" in text and "branch1/conv_7\n" in text
    assert "…" not in text.splitlines()[0], "columns of figures are never cut"


def test_data() -> None:
    found, parts = profiled()
    data = profile_json(found, "order", parts.free)
    assert [one["number"] for one in data["groups"]] == list(range(1, 8))
    assert data["groups"][0]["nodes"] == [NAME] and data["groups"][0]["knobs"] == {"rows": 4}
    assert data["groups"][4]["in_loop"] and data["views"] == 1
    assert data["run_seconds"] == found.seconds and set(data["bytes_per_second"]) == {"L1", "memory"}
