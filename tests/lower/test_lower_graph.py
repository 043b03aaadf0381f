"""Structure of programs: who shares memory with whom, what is copied, what is converted once."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from tests.build.tiny_models import MODELS

from meta_infer.backends.registry import backend_for
from meta_infer.frontend.import_model import import_model
from meta_infer.hardware.load import load_profile
from meta_infer.ir.graph import names_of
from meta_infer.ir.program import Call, Command, Copy, If, Loop, Program, walk_commands
from meta_infer.lower.lower_graph import lower_graph
from meta_infer.package.debug_info import writers
from meta_infer.passes.covers import propose_covers
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize
from meta_infer.search.default_plan import default_plan


def lowered(name: str, folder: Path) -> Program:
    path = folder / "m.onnx"
    onnx.save(MODELS[name](), path)
    profile = load_profile("x86-64-v3")
    backend = backend_for(profile)
    imported = import_model(path)
    graph = legalize(canonicalize(imported), profile)
    plan = default_plan(graph, profile, lambda g: propose_covers(g, frozenset(), graph), backend.variants)
    return lower_graph(plan, profile, backend.lower, names_of(imported, imported.inputs),
                       names_of(imported, imported.outputs))


def calls(program: Program) -> list[Call]:
    return [c for c in walk_commands(program.commands) if isinstance(c, Call)]


def test_outputs_are_written_where_the_caller_wants_them(tmp_path: Path) -> None:
    program = lowered("output_is_read_again", tmp_path)
    assert all(program.buffers[o].kind == "output" for o in program.outputs)
    assert not any(isinstance(c, Copy) for c in walk_commands(program.commands))
    assert program.output_names == ("y", "z")


def test_inputs_and_repeated_values_are_copied_to_outputs(tmp_path: Path) -> None:
    program = lowered("output_is_an_input", tmp_path)
    assert len(set(program.outputs)) == 2
    assert sum(isinstance(c, Copy) for c in program.commands) <= 1     # the other may be a kernel


def test_the_last_reader_may_write_in_place_and_an_earlier_one_may_not(tmp_path: Path) -> None:
    program = lowered("in_place_chain_with_a_late_reader", tmp_path)
    a = next(n for n, b in program.buffers.items() if b.origin == "a")
    sharing = [n for n, b in program.buffers.items() if b.alias == a]
    assert not sharing                                                 # Sub reads a after everything else


def test_equal_layers_share_one_kernel(tmp_path: Path) -> None:
    program = lowered("loop_in_a_loop", tmp_path)
    assert len(program.kernels) < len(calls(program)) + 1
    assert {c.kernel for c in calls(program)} == set(program.kernels)


def test_a_value_is_converted_once_per_layout(tmp_path: Path) -> None:
    program = lowered("blocked_value_read_plain_and_blocked", tmp_path)
    converted = [c.args for c in calls(program) if c.label.startswith("Reorder")]
    assert len(converted) == len(set(converted))


@pytest.mark.parametrize("name", ["branches_with_convolutions", "loop_with_swap_scan_and_branch"])
def test_regions_stay_regions(name: str, tmp_path: Path) -> None:
    commands = list(walk_commands(lowered(name, tmp_path).commands))
    assert any(isinstance(c, If) for c in commands)
    assert any(isinstance(c, Loop) for c in commands) == ("loop" in name)


def test_swapped_state_goes_through_a_temporary(tmp_path: Path) -> None:
    """b2 = a lies in a's own buffer: it must be saved before a is overwritten."""
    program = lowered("loop_with_swap_scan_and_branch", tmp_path)
    loop = next(c for c in program.commands if isinstance(c, Loop))
    copies = [c for c in loop.body if isinstance(c, Copy)]
    saved = next(i for i, c in enumerate(copies) if c.dst.endswith("/carried"))
    overwritten = next(i for i, c in enumerate(copies) if c.dst == "a")
    assert saved < overwritten


def test_contiguous_slices_are_views(tmp_path: Path) -> None:
    program = lowered("slices_that_are_views_and_slices_that_are_not", tmp_path)
    assert (program.buffers["front"].alias, program.buffers["front"].offset) == ("r", 6)
    assert program.buffers["inner"].alias is None and program.buffers["reversed"].alias is None


def test_slices_of_whole_blocks_are_views(tmp_path: Path) -> None:
    """29 channels in blocks of 8, 6 x 7 places each."""
    program = lowered("slices_of_channels_in_blocks", tmp_path)
    layouts = {name: str(program.buffers[name].layout) for name in ("y", "a", "b")}
    assert layouts == {"y": "b8@1", "a": "b8@1", "b": "b8@1"}
    places = [(program.buffers[name].alias, program.buffers[name].offset) for name in ("a", "b")]
    assert places == [("y", 0), ("y", 16 * 6 * 7)]
    assert program.buffers["c"].alias is None or str(program.buffers["c"].layout) == "plain"


def test_the_only_reader_writes_in_place(tmp_path: Path) -> None:
    program = lowered("in_place_after_a_gather", tmp_path)
    assert program.buffers["e"].alias == "t"
    call = next(c for c in calls(program) if "e" in c.args)
    assert call.kernel.startswith("elementwise_inplace") and "t" not in call.args


def test_parts_are_written_where_they_belong(tmp_path: Path) -> None:
    """[a, b] is the beginning of [a, b, c]; a pooling writes into [.., d]."""
    program = lowered("parts_written_where_they_belong", tmp_path)
    assert not any("Concat" in c.label for c in calls(program))
    found = {name: program.buffers[name] for name in ("a", "b", "c", "d", "p", "qp")}
    places = {name: (buffer.alias, buffer.offset) for name, buffer in found.items()}
    assert places == {"a": ("q", 0), "b": ("q", 16 * 42), "c": ("q", 24 * 42), "p": ("q", 0), "qp": ("r", 0),
                      "d": ("r", 40 * 42)}
    held = writers(program)
    made = {name: next(i for i, c in enumerate(walk_commands(program.commands)) if name in written(program, c))
            for name in ("a", "b", "c", "d", "qp")}
    assert held["q"] == [max(made[name] for name in "abc")] and held["r"] == [max(made["qp"], made["d"])]


def test_parts_that_are_views_of_what_kernels_write(tmp_path: Path) -> None:
    program = lowered("parts_of_rows_that_are_views", tmp_path)
    assert not any("Concat" in c.label for c in calls(program))
    assert {program.root(name) for name in "manb"} == {program.root("c")}
    assert str(program.buffers["n"].offset) == "12*rows"


def test_parts_that_have_to_be_copied(tmp_path: Path) -> None:
    program = lowered("parts_that_have_to_be_copied", tmp_path)
    copied = [c for c in calls(program) if c.label == "Concat"]
    assert {name for c in copied for name in written(program, c)} >= {"twice", "given", "rows", "shown"}
    assert any("odd" in written(program, c) for c in calls(program))


def written(program: Program, command: Command) -> tuple[str, ...]:
    if not isinstance(command, Call):
        return ()
    return tuple(a for a, p in zip(command.args, program.kernels[command.kernel].params, strict=True) if p.mode != "in")
