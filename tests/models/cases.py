"""The models that the whole compiler answers for: their dynamic dims, and how often each size is tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SEEDS = 5


@dataclass(frozen=True)
class Point:
    """Sizes of the dynamic dims, and how many seeds run there unless --full asks for all."""

    dims: Mapping[str, int]
    seeds: int = SEEDS


@dataclass(frozen=True)
class ModelCase:
    """`shape` is what `--shape` takes; `exact_dims` are the sizes at which a float64 run is affordable.

    A `long` case takes tens of seconds to compile and is left to --full. `usual` are the sizes that benchmarks take.
    """

    name: str
    points: tuple[Point, ...]
    shape: tuple[str, ...] = ()
    exact_dims: tuple[Mapping[str, int], ...] = ({},)
    long: bool = False
    usual: Mapping[str, Sequence[int]] = field(default_factory=dict)


def _static(name: str, long: bool = False) -> ModelCase:
    return ModelCase(name, (Point({}, 2),), long=long)


def _sized(names: tuple[str, ...], *sizes: tuple[int, ...]) -> tuple[Point, ...]:
    return tuple(Point(dict(zip(names, row, strict=True)), 2) for row in sizes)


_REC = ("p2o_DynamicDimension_0", "p2o_DynamicDimension_1")
_DET = ("p2o_DynamicDimension_1", "p2o_DynamicDimension_2")
_CLS = ("x_d0", "x_d3")

PPOCR_REC = ModelCase("ppocr_rec", _sized(_REC, (1, 32), (3, 333), (1, 960)), ("x=1..4,3,48,32..960",),
                      (dict(zip(_REC, (1, 32), strict=True)),), usual=dict(zip(_REC, ([1], [320]), strict=True)))
EFFICIENTNET_LITE0 = _static("efficientnet_lite0_imagenet")

_TOKENS = ("input_ids", "attention_mask", "token_type_ids")

CASES = (
    ModelCase("digits", (Point({"batch": 1}), Point({"batch": 7}), Point({"batch": 32})),
              ("image=1..32,1,8,8",), ({"batch": 1}, {"batch": 7}, {"batch": 32}), usual={"batch": [1]}),
    ModelCase("if_and_loop", (Point({"rows": 1}), Point({"rows": 5}), Point({"rows": 16})),
              ("x=1..16,8",), ({"rows": 1}, {"rows": 5}, {"rows": 16})),
    ModelCase("resnet18", (Point({}),)),
    ModelCase("mobilenetv2", (Point({}),)),
    ModelCase("crnn_bilstm", (Point({"width": 32}), Point({"width": 333}), Point({"width": 640})),
              ("x=1,1,32,32..640",), ({"width": 32},), usual={"width": [320]}),
    ModelCase("minilm_l6", (Point({"batch": 1, "seq": 1}), Point({"batch": 3, "seq": 37}),
                            Point({"batch": 8, "seq": 256}, 1)),
              tuple(f"{name}=1..8,1..256" for name in _TOKENS), ({"batch": 1, "seq": 1}, {"batch": 2, "seq": 9}),
              usual={"batch": [1], "seq": [16, 128]}),
    _static("shufflenetv2_x1_0"),
    _static("bert_mini_s128"),
    _static("vit_tiny_patch16_224"),
    EFFICIENTNET_LITE0,
    PPOCR_REC,
    ModelCase("ppocr_cls", _sized(_CLS, (1, 192), (3, 33), (4, 320)), ("x=1..4,3,48,32..320",),
              ({"x_d0": 1, "x_d3": 64},), long=True, usual=dict(zip(_CLS, ([1], [192]), strict=True))),
    ModelCase("ppocr_det", _sized(_DET, (320, 320), (960, 320), (512, 768), (960, 960)),
              ("x=1,3,320..960:32,320..960:32",), (dict(zip(_DET, (320, 320), strict=True)),), long=True,
              usual=dict(zip(_DET, ([640], [640]), strict=True))),
    *(_static(name, long=True) for name in ("squeezenet1_1", "mobilenetv3_large", "efficientnet_b0", "convnext_atto",
                                            "unet_small_256", "resnet50", "detector_320")),
)
"""Small ones first, so that what is broken altogether shows early."""

REAL = tuple(sorted(case.name for case in CASES if case.name not in ("digits", "if_and_loop")))
