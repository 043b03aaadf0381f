"""Plans in place, in turns: what each group takes is known by the plans that ran together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_infer.backends.registry import backend_for
from meta_infer.frontend.import_model import import_model
from meta_infer.hardware.load import load_profile
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Variant
from meta_infer.ir.group_text import group_text
from meta_infer.kernels.computed_by import kernels_take
from meta_infer.library.store import Library
from meta_infer.passes.covers import propose_covers
from meta_infer.passes.legalize import legalize
from meta_infer.passes.pipeline import canonicalize
from meta_infer.search.default_plan import default_plan
from meta_infer.search.space.ways import choices_of, way_of
from meta_infer.search.timing import TimeOver, Timer
from meta_infer.search.whole import placed as module
from meta_infer.search.whole.built import Built, build_plan
from meta_infer.search.whole.placed import InPlace, time_placed
from meta_infer.search.whole.whole import Inputs
from meta_infer.verify.samples import random_inputs
from tests.search.test_search import small_model


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[Built, Built, Inputs]:
    """Two plans of one model, the second of plain layouts alone, and inputs of one run."""
    profile = load_profile("native")
    backend = backend_for(profile)
    imported = import_model(small_model(tmp_path_factory.mktemp("model")), {}, lambda text: None)
    graph = legalize(canonicalize(imported, frozenset()), profile, lambda text: None, takes=kernels_take((profile,)))

    def plain(group: Group, chip: Profile) -> Iterator[Variant]:
        for variant in backend.variants(group, chip):
            if not any(layout.block for layout in (*variant.inputs.values(), *variant.outputs.values())):
                yield variant

    found = [default_plan(graph, profile, propose_covers, variants) for variants in (backend.variants, plain)]
    assert choices_of(found[0]) != choices_of(found[1])
    one, other = (build_plan(plan, backend, profile, 1) for plan in found)
    return one, other, [random_inputs(graph, {}, 0)]


@pytest.fixture
def timer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Timer]:
    monkeypatch.setattr(module, "_SECONDS", 0.1)
    profile = load_profile("native")
    with Library.open(tmp_path / "library.sqlite") as library:
        yield Timer(backend_for(profile), profile, library=library)


def seen(found: list[InPlace] | None) -> list[InPlace]:
    assert found is not None
    return found


def test_every_plan_has_the_times_of_its_own_groups(plans: tuple[Built, Built, Inputs], timer: Timer) -> None:
    one, other, inputs = plans
    found = seen(time_placed([one, other], timer, inputs))
    for built, place in zip((one, other), found, strict=True):
        ways = {(group_text(planned.group), way_of(planned.group, planned.variant)) for planned in built.plan.groups}
        assert place.whole > 0 and place.groups and place.groups.keys() <= ways
        assert all(seconds > 0 for seconds, _ in place.groups.values())
    assert found[0].groups.keys() != found[1].groups.keys()


def test_what_ran_together_is_known_together(
        plans: tuple[Built, Built, Inputs], timer: Timer, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, inputs = plans
    first = seen(time_placed([one, other], timer, inputs))
    monkeypatch.setattr(module, "_run", lambda *given: pytest.fail("ran again"))
    assert seen(time_placed([one, other], timer, inputs)) == first
    timer.is_replay = True
    assert seen(time_placed([one, other], timer, inputs)) == first
    for plans_together in ([one], [other, one], [one, other, other]):
        with pytest.raises(TimeOver):
            time_placed(plans_together, timer, inputs)


def test_one_that_fails_leaves_nothing(
        plans: tuple[Built, Built, Inputs], timer: Timer, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, inputs = plans
    monkeypatch.setattr(module, "ask", lambda *given, **more: None)
    assert time_placed([one, other], timer, inputs) is None
    assert timer.library is not None and not timer.library.counts().samples
