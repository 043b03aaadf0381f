"""How right is a package, and what makes it wrong: `compare` and `bisect`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from meta_infer.api import build_from
from meta_infer.build_config import BuildConfig, stored_config
from meta_infer.custom import load_custom
from meta_infer.frontend.import_model import import_model
from meta_infer.frontend.symbols import parse_shape_specs
from meta_infer.ir.graph import Graph
from meta_infer.package.format import CONFIG, LOCK
from meta_infer.passes.pipeline import FUSIONS, canonicalize
from meta_infer.runtime.cpu import best_target, target_named
from meta_infer.runtime.reader import Package
from meta_infer.runtime.session import load
from meta_infer.support.errors import InternalError, UnsupportedError, UsageError
from meta_infer.verify.bisect import Bisection, Suspect, find_guilty, find_removable, maker_of, names_text
from meta_infer.verify.compare import TOLERANCE, first_beyond
from meta_infer.verify.package_check import (
    CompareResult,
    compare_package,
    compare_recorded,
    read_arrays,
    verify_package,
)
from meta_infer.verify.reference import Reference, choose_reference


def compare(package: str | Path, model: str | Path | None = None, *, reference: str | Path | None = None,
            layers: bool = False, samples: int = 3, seed: int = 0, tolerance: float = TOLERANCE,
            threads: int | None = None, target: str | None = None) -> CompareResult:
    """Compare a package with ONNX Runtime on its model, or with tensors recorded in an .npz (`reference`).

    `model` defaults to the file that the package was built from, `target` to the best one for this machine. Raises
    UsageError when that file is gone.
    """
    package = Path(package)
    if reference is not None:
        with load(package, threads=threads, target=target) as session:
            return compare_recorded(session, read_arrays(Path(reference)), tolerance)
    config = _config_of(Package(package), model)
    return compare_package(package, config.model, shape=config.shape, layers=layers, samples=samples, seed=seed,
                           tolerance=tolerance, threads=threads, target=target)


def _config_of(package: Package, model: str | Path | None) -> BuildConfig:
    """What the package was built with; `model` replaces a file that has moved. Raises UsageError when there is none."""
    config = stored_config(bytes(package.check(CONFIG)).decode(), f"package {package.path}")
    load_custom(config.custom)
    path = Path(model) if model is not None else config.model
    if not path.exists():
        raise UsageError("does not exist", what=f"model {path}", hint="give the ONNX file with --model")
    return config.model_copy(update={"model": path})


def bisect(package: str | Path, model: str | Path | None = None, *, samples: int = 3, seed: int = 0,
           tolerance: float = TOLERANCE, target: str | None = None,
           say: Callable[[str], None] = lambda line: None) -> Bisection:
    """Name the rewrite, fusion or kernel that makes a package differ from ONNX Runtime, building it again without some.

    Kernels are left out first, then fusions, then passes: so the most particular cause is found. Each try is told to
    `say`. The package itself is not changed.
    """
    opened = Package(package)
    config = _config_of(opened, model)
    what = f"package {str(opened.path)!r}"
    chosen = best_target(opened.targets if target is None else [target_named(opened.targets, target, what)], what)
    graph = import_model(config.model, parse_shape_specs(config.shape))
    with tempfile.TemporaryDirectory(prefix="meta-infer-bisect-") as folder:
        trials = _Trials(config.model_copy(update={
            "isa": (chosen.isa,), "output": Path(folder) / "try.bin", "verify": False, "stop_after": ""}),
            graph, samples, seed, tolerance, say)
        return trials.find()


@dataclass
class _Trials:
    """Builds without some suspects, each made once."""

    config: BuildConfig
    graph: Graph
    samples: int
    seed: int
    tolerance: float
    say: Callable[[str], None]
    known: dict[frozenset[Suspect], bool] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.config.package_path

    @cached_property
    def reference(self) -> Reference:
        """What all builds are compared with: made once."""
        return choose_reference(self.config.model, self.graph)

    def find(self) -> Bisection:
        if self.right(()):
            return Bisection((), "nothing is guilty: built again with the same choices it is right, so build it again")
        kernels = self.used_kernels()
        rewrites = [Suspect("pass", name) for name in (*FUSIONS, *self.active_passes())]
        suspects = find_removable([*kernels, *rewrites], self.builds)
        self.say(f"{len(suspects)} suspects: {', '.join(map(str, suspects))}")
        if not suspects or not self.right(suspects):
            return self.blame_what_is_left(suspects)
        guilty = find_guilty(suspects, self.right)
        guilty = tuple(found for suspect in guilty for found in self.narrow(suspect, guilty))
        flags = " ".join(suspect.flag for suspect in guilty)
        return Bisection(guilty, f"guilty: {' together with '.join(map(str, guilty))} (build with {flags})")

    def config_without(self, off: Sequence[Suspect]) -> BuildConfig:
        passes = tuple(s.name for s in off if s.kind == "pass")
        kernels = tuple(s.name for s in off if s.kind != "pass")
        return self.config.model_copy(update={"disable": (*self.config.disable, *passes),
                                              "exclude": (*self.config.exclude, *kernels)})

    def builds(self, off: Sequence[Suspect]) -> bool:
        """Whether a program comes out without `off`; compiles nothing."""
        try:
            build_from(self.config_without(off).model_copy(update={"stop_after": "emit"}))
        except (UnsupportedError, InternalError) as error:
            self.say(f"cannot be built without {names_text(off)}: {error.problem}")
            return False
        return True

    def right(self, off: Sequence[Suspect]) -> bool:
        """Whether a package built without `off` is within the tolerance."""
        key = frozenset(off)
        if key not in self.known:
            build_from(self.config_without(off))
            beyond = first_beyond(verify_package(self.path, self.reference, self.graph, samples=self.samples,
                                                 seed=self.seed, tolerance=self.tolerance, target=self.config.isa[0]))
            self.known[key] = beyond is None
            verdict = "right" if beyond is None else f"wrong, {beyond.name!r} is off by {beyond.distance.relative:.2g}"
            self.say(f"try {len(self.known)}: without {names_text(off)}: {verdict}")
        return self.known[key]

    def used_kernels(self, prefix: str = "") -> list[Suspect]:
        """Kernels of the package built last, or variants of one kernel."""
        choices = Package(self.path).json(LOCK)["choices"][self.config.isa[0]]
        real = [c for c in choices if c["kernel"] not in ("view", "region")]
        if prefix:
            names = [f"{prefix}/{c['variant']}" for c in real if c["kernel"] == prefix]
            return [Suspect("variant", name) for name in dict.fromkeys(names)]
        return [Suspect("kernel", name) for name in dict.fromkeys(c["kernel"] for c in real)]

    def active_passes(self) -> list[str]:
        """The passes that change something in this model."""
        changed: dict[str, None] = {}
        canonicalize(self.graph, frozenset(self.config.disable), lambda name, before, after: changed.setdefault(name))
        return list(changed)

    def narrow(self, suspect: Suspect, guilty: Sequence[Suspect]) -> tuple[Suspect, ...]:
        """The variants of a guilty kernel that do it, the kernel itself when all of them must go."""
        others = [g for g in guilty if g != suspect]
        if suspect.kind != "kernel":
            return (suspect,)
        build_from(self.config_without(others))
        variants = self.used_kernels(suspect.name)
        if len(variants) < 2 or not self.right([*others, *variants]):
            return (suspect,)
        found = find_guilty(variants, lambda off: self.right([*others, *off]))
        return found if len(found) < len(variants) else (suspect,)

    def blame_what_is_left(self, off: Sequence[Suspect]) -> Bisection:
        """Leaving out every suspect does not help: the first layer that is off names what cannot be left out."""
        isa = self.config.isa[0]
        build_from(self.config_without(off))
        result = compare_package(self.path, self.config.model, shape=self.config.shape, layers=True, samples=1,
                                 seed=self.seed, tolerance=self.tolerance, target=isa)
        beyond = result.first_beyond
        package = Package(self.path)
        debug = package.json(target_named(package.targets, isa, "package").debug)
        kernel, nodes = maker_of(debug, beyond.name) if beyond is not None else ("", ())
        if beyond is None or not kernel:
            return Bisection((), "no rewrite and no kernel is guilty: it is off with all left out that can be; look at "
                                 "how the model was imported")
        return Bisection((), f"guilty: kernel {kernel}, or what node {', '.join(nodes)} means: with all left out that "
                             f"can be, its {beyond.name!r} is the first wrong tensor, and nothing else computes it")
