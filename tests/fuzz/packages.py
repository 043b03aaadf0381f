"""Damaged packages. Half of the mutants have their checksums made to fit and their code untouched, so that they reach
the inside of the reader and of the command table's parser; in the other half raw bytes of the file change.

Such a mutant is loaded, described, inspected, asked for its shapes, and closed. It is *run* only when its command
table and its weights are as built: a table whose checksum fits is trusted as the code beside it is (see the security
model), because it tells that code where to write.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from meta_infer import api
from meta_infer.cli.generated_code import code_by_kernel
from meta_infer.cli.inputs import choose_inputs
from meta_infer.cli.inspect import inspect
from meta_infer.package.archive import write_archive
from meta_infer.runtime.reader import Package
from meta_infer.runtime.session import load
from tests.build.tiny_models import MODELS

from .campaign import Target
from .damage import damage

CHOSEN = ("convolution_block_with_residual", "loop_with_swap_scan_and_branch", "dynamic_rows", "sizes_as_data",
          "slices_that_are_views_and_slices_that_are_not")
ODD_VALUES = (None, True, -1, 0, 1, 1 << 70, 1e308, float("nan"), "", "x" * 3000, [], {}, [[]], "../evil", "\ud800",
              "n + " * 500 + "1", "(" * 300 + ")" * 300, "n**n", "9" * 30, {"min": 0}, ["n", None])


@dataclass(frozen=True)
class Packages:
    files: tuple[bytes, ...]
    members: tuple[dict[str, bytes], ...]
    trusted: frozenset[str]        # digests of the plans and weights that may be run


def prepare(folder: Path) -> Packages:
    files, members, trusted = [], [], set()
    for name in CHOSEN:
        onnx.save(MODELS[name](), folder / "m.onnx")
        path = api.build(folder / "m.onnx", output=folder / f"{name}.bin", verify=False).path
        assert path is not None
        with zipfile.ZipFile(path) as zipped:
            found = {n: zipped.read(n) for n in zipped.namelist()}
        members.append(with_test(path, found))
        trusted |= {digest(data) for n, data in found.items() if is_run(n)}
        files.append(path.read_bytes())
    return Packages(tuple(files), tuple(members), frozenset(trusted))


def with_test(path: Path, members: dict[str, bytes]) -> dict[str, bytes]:
    """The members with a bundled test made from the package's own outputs."""
    with load(path, threads=1) as session:
        inputs, _ = choose_inputs(session.package, [], [], True, 0)
        outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True))
    file = io.BytesIO()
    np.savez(file, **{f"inputs/{n}": a for n, a in inputs.items()}, **{f"outputs/{n}": a for n, a in outputs.items()})
    return {**members, "tests/random.npz": file.getvalue()}


def is_run(member: str) -> bool:
    """Whether running the package means following this member."""
    return member.endswith(("code.so", "plan.bin", "weights.bin"))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write(path: Path, members: dict[str, bytes]) -> Path:
    """A package of these members whose checksums fit; the manifest may be no JSON any more."""
    members = dict(members)
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        manifest = json.loads(members["manifest.json"])
        manifest["members"] = {n: {"sha256": digest(d), "bytes": len(d)} for n, d in members.items()
                               if n != "manifest.json"}
        members["manifest.json"] = json.dumps(manifest).encode()
    comment = f"meta-infer package 1 sha256:{digest(members['manifest.json'])}"
    write_archive(path, {n: [d] for n, d in members.items()}, comment.encode())
    return path


def change_json(rng: random.Random, data: bytes) -> bytes:
    """One value somewhere in a JSON document becomes odd, vanishes, or trades places with a sibling."""
    tree = json.loads(data)
    holder: Any = tree
    for _ in range(rng.randint(0, 5)):
        values = holder.values() if isinstance(holder, dict) else holder
        inner = [v for v in values if isinstance(v, dict | list) and v]
        if not inner:
            break
        holder = rng.choice(inner)
    key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder))) if holder else 0
    if not holder:
        return b"[]"
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder[rng.randrange(len(holder))] = holder[key]
        case 2 if isinstance(holder[key], str):
            holder[key] = rng.choice(("n", "x", holder[key][::-1], holder[key] * 2, "float16", "int4", "bfloat16"))
        case _:
            holder[key] = rng.choice(ODD_VALUES)
    return json.dumps(tree).encode()


def mutate(state: Packages, rng: random.Random, folder: Path) -> Path:
    path, which = folder / "mutant.bin", rng.randrange(len(state.files))
    if rng.random() < 0.5:
        path.write_bytes(damage(rng, state.files[which]))
        return path
    members = dict(state.members[which])
    for _ in range(rng.choice((1, 1, 2))):
        plan, debug = (next(n for n in members if n.endswith(e)) for e in ("plan.bin", "debug.json"))
        picked = rng.choice([plan, plan, plan, "manifest.json", "manifest.json", debug, debug, "weights.bin",
                             "tests/random.npz", "report.json", "build.lock.json"])
        data = members[picked]
        if picked.endswith(".json") and rng.random() < 0.8:
            with contextlib.suppress(ValueError):
                members[picked] = change_json(rng, data)
        elif picked == "weights.bin":
            members[picked] = data[:rng.randrange(len(data) + 1)] + bytes(rng.choice((0, 0, 1, 64, 4096)))
        elif picked == plan and rng.random() < 0.7:
            raw = bytearray(data)                    # in place: the sections keep their sizes and are read further
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(0, len(raw) - 4) // 4 * 4
                raw[at:at + 4] = rng.choice((0, 1, 2, 3, 7, 64, 255, 0x7FFFFFFF, 0xFFFFFFFF, rng.randrange(64))
                                            ).to_bytes(4, "little")
            members[picked] = bytes(raw)
        else:
            members[picked] = damage(rng, data)
    return write(path, members)


def attempt(state: Packages, path: Path) -> None:
    package = Package(path, verify=True)
    for as_json in (False, True):
        inspect(path, code=False, node=None, verify=False, as_json=as_json)
    for target in package.targets:
        code_by_kernel(package, target)
    with load(path, threads=1) as session:
        session.get_inputs(), session.get_outputs()
        feeds, _ = choose_inputs(package, [], [], False, 0)
        session._frame(session._arrays(feeds), session._handle)  # shapes of the outputs, nothing computed
        if all(digest(bytes(package.member(n))) in state.trusted for n in package.names() if is_run(n)):
            session.run(None, feeds)
            session.layers(feeds)


PACKAGES = Target("packages", prepare, mutate, attempt)
