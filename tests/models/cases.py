"""The models that the whole compiler answers for: their dynamic dims, and how often each size is tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SEEDS = 5


@dataclass(frozen=True)
class Point:
    """Sizes of the dynamic dims, and how many seeds run there unless --full asks for all."""

    dims: Mapping[str, int]
    seeds: int = SEEDS


@dataclass(frozen=True)
class ModelCase:
    """`shape` is what `--shape` takes; `exact_dims` are the sizes at which a float64 run is affordable."""

    name: str
    points: tuple[Point, ...]
    shape: tuple[str, ...] = ()
    exact_dims: tuple[Mapping[str, int], ...] = ({},)


_TOKENS = ("input_ids", "attention_mask", "token_type_ids")

CASES = (
    ModelCase("digits", (Point({"batch": 1}), Point({"batch": 7}), Point({"batch": 32})),
              ("image=1..32,1,8,8",), ({"batch": 1}, {"batch": 7}, {"batch": 32})),
    ModelCase("if_and_loop", (Point({"rows": 1}), Point({"rows": 5}), Point({"rows": 16})),
              ("x=1..16,8",), ({"rows": 1}, {"rows": 5}, {"rows": 16})),
    ModelCase("resnet18", (Point({}),)),
    ModelCase("mobilenetv2", (Point({}),)),
    ModelCase("crnn_bilstm", (Point({"width": 32}), Point({"width": 333}), Point({"width": 640})),
              ("x=1,1,32,32..640",), ({"width": 32},)),
    ModelCase("minilm_l6", (Point({"batch": 1, "seq": 1}), Point({"batch": 3, "seq": 37}),
                            Point({"batch": 8, "seq": 256}, 1)),
              tuple(f"{name}=1..8,1..256" for name in _TOKENS), ({"batch": 1, "seq": 1}, {"batch": 2, "seq": 9})),
)
"""Small ones first, so that what is broken altogether shows early."""
