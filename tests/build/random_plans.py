"""Plans in which every group takes any of its variants, with any of their knobs: what a search may come upon.

    python -m tests.build.random_plans --first 0 --count 500

Graphs are those of `fuzz_many`. A plan of variants that nobody would choose still has to be right: layouts meet that
the plan without a search never brings together, and tiles and chunks take every size.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from meta_infer import api
from meta_infer.hardware.profile import Profile
from meta_infer.ir.group import Group, Variant
from meta_infer.kernels.kernel import Refusal
from meta_infer.kernels.registry import kernel_named
from meta_infer.search.default_plan import RISK_LIMIT, Variants

from .fuzz import Verdict, load_profile
from .fuzz_many import batches, check_many, draw


def random_variant(rng: random.Random, group: Group, offered: Iterable[Variant], profile: Profile) -> Variant | None:
    """One of the variants that add no error worth speaking of, with random knobs where those are feasible."""
    sound = [variant for variant in offered if variant.risk <= RISK_LIMIT]
    if not sound:
        return None
    variant = rng.choice(sound)
    kernel = kernel_named(variant.kernel)
    for _ in range(4):
        values = {knob.name: rng.choice(knob.values) for knob in kernel.knobs(group, variant, profile)}
        tuned = kernel.tune(group, variant, values, profile)
        if not isinstance(tuned, Refusal) and tuned.risk <= RISK_LIMIT:
            return tuned
    return variant


@contextlib.contextmanager
def plans_at_random(seed: int) -> Iterator[None]:
    """Builds of this process draw the variant of every group."""
    rng, usual = random.Random(seed), api.without_excluded

    def drawn(variants: Variants, names: object, warn: Callable[[str], None]) -> Variants:
        def one(group: Group, profile: Profile) -> Iterator[Variant]:
            found = random_variant(rng, group, variants(group, profile), profile)
            if found is not None:
                yield found
        return one

    api.without_excluded = drawn                         # type: ignore[attr-defined]
    try:
        yield
    finally:
        api.without_excluded = usual                     # type: ignore[attr-defined]


def check_plans(seeds: range) -> dict[int, Verdict]:
    """The graphs of `seeds` in one package, planned at random."""
    api.load_profile = load_profile                      # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder, plans_at_random(seeds.start):
        return dict(check_many(draw(seeds), Path(folder)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--together", type=int, default=25)
    options = parser.parse_args()
    failed = 0
    for seeds in batches(options.first, options.count, options.together):
        for seed, verdict in check_plans(seeds).items():
            if verdict.failed and verdict.kind != "doubtful":
                failed += 1
                print(f"seed {seed} in {seeds.start}..{seeds.stop}: {verdict.kind}: {verdict.detail}", flush=True)
    print(f"{options.count} graphs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
