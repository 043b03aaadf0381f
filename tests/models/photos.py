"""Photos as a classifier of ImageNet takes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

SIDE, CROP = 224, 0.875


def read_photo(path: Path) -> np.ndarray:
    """The middle of a photo, bicubic to SIDE x SIDE: float32 [1, 3, SIDE, SIDE], (value - 127) / 128."""
    from PIL import Image

    with Image.open(path) as file:
        photo = file.convert("RGB")
    side = round(min(photo.size) * CROP)
    left, top = (photo.width - side) // 2, (photo.height - side) // 2
    middle = photo.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return np.ascontiguousarray(((np.asarray(middle, np.float32) - 127) / 128).transpose(2, 0, 1)[None])


def label_of(path: Path) -> int:
    """The class, counted from 0, that the file's name ends with."""
    return int(path.stem.rsplit("_", 1)[1])
