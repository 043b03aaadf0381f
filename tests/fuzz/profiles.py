"""Damaged hardware profiles: bytes, lines, and values. A small model is planned for every accepted one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import onnx

from meta_infer import api
from meta_infer.hardware.load import catalog_names
from tests.build.tiny_models import MODELS

from .campaign import Target
from .damage import damage

VALUES = ("", "null", "~", "true", "-1", "0", "1", "1e999", "-.inf", ".nan", "9" * 40, "1" * 5000, "0x7fffffffffffffff",
          "0.1", "[]", "{}", "[1, [2, [3]]]", "!!python/object/apply:os.system ['true']", "!!binary aGk=", "!!set {a}",
          "*nowhere", "&a [*a]", "2001-01-01", "'x'", '"\\x00"', "conv2d", "cpu", "npu", "x86-64-v3", "fp32",
          "|\n  text", "? a", "- a", "1_000", "yes", "@", "%", "\ud800", "[" * 400 + "]" * 400,
          "{a: " * 200 + "1" + "}" * 200)
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))


@dataclass(frozen=True)
class Profiles:
    texts: tuple[str, ...]
    model: Path


def prepare(folder: Path) -> Profiles:
    model = folder / "m.onnx"
    onnx.save(MODELS["convolution_block_with_residual"](), model)
    catalog = files("meta_infer.hardware") / "catalog"
    texts = [(catalog / f"{name}.yaml").read_text(encoding="utf-8") for name in catalog_names()]
    shown = Path(__file__).resolve().parents[2] / "profiles"
    return Profiles((*texts, *(p.read_text(encoding="utf-8") for p in sorted(shown.glob("*.yaml")))), model)


def change_line(rng: random.Random, lines: list[str]) -> None:
    at = rng.randrange(len(lines))
    key, colon, value = lines[at].partition(":")
    match rng.randrange(8):
        case 0:
            del lines[at]
        case 1:
            lines.insert(rng.randrange(len(lines)), lines[at])
        case 2:
            lines[at] = rng.choice((" ", "  ", "\t", "- ")) + lines[at]
        case 3:
            lines[at] = lines[at].lstrip()
        case 4 if colon:
            lines[at] = key[:-1] + colon + value
        case 5:
            lines.insert(at, rng.choice((BOMB, "---", "...", "<<: *a", "accelerator: {}", "? [a, b]\n: c", "# \x07")))
        case _ if colon:
            lines[at] = f"{key}: {rng.choice(VALUES)}"
        case _:
            lines[at] = rng.choice(VALUES)


def mutate(state: Profiles, rng: random.Random, folder: Path) -> Path:
    path, text = folder / "mutant.yaml", rng.choice(state.texts)
    if rng.random() < 0.3:
        path.write_bytes(damage(rng, text.encode()))
        return path
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if lines:
            change_line(rng, lines)
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    return path


def attempt(state: Profiles, path: Path) -> None:
    api.build(state.model, hardware=str(path), verify=False, stop_after="memory")


PROFILES = Target("profiles", prepare, mutate, attempt)
