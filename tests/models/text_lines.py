"""Lines of text as images: rendered in several fonts and sizes, in the form that text recognition takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

HEIGHT = 48
WIDTHS = (32, 960)
_FONT_FOLDERS = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"))
_FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSansMono-Bold",
          "LiberationSans-Regular", "LiberationSerif-Regular", "LiberationMono-Regular")
_SIZES = (14, 18, 24, 32, 40, 56)
_WORDS = ("invoice", "Total", "Zurich", "receipt", "No.", "tax", "the", "quick", "brown", "Fox", "jumps", "over",
          "LAZY", "dog", "Street", "shipping", "date", "PAID", "order", "net", "x", "I", "of", "e-mail", "100%",
          "(copy)")


class FontsMissing(Exception):
    """No font to draw with; the text says what to do."""


@dataclass(frozen=True)
class Line:
    """A text, how it was drawn, and its image as float32 [1, 3, HEIGHT, width] in -1..1."""

    text: str
    font: str
    size: int
    image: np.ndarray


def find_fonts() -> list[Path]:
    """Files of those fonts of the list that this machine has. Raises FontsMissing."""
    found = {path.stem: path for folder in _FONT_FOLDERS for path in folder.rglob("*.ttf")}
    fonts = [found[name] for name in _FONTS if name in found]
    if not fonts:
        raise FontsMissing("apt-get install fonts-dejavu-core fonts-liberation")
    return fonts


def _text(rng: np.random.Generator) -> str:
    """One to eight words and numbers."""
    parts = []
    for _ in range(int(rng.integers(1, 9))):
        number = f"{rng.integers(0, 10000) / 100:.2f}" if rng.random() < 0.5 else str(rng.integers(0, 100000))
        parts.append(number if rng.random() < 0.3 else str(rng.choice(_WORDS)))
    return " ".join(parts)


def render_lines(count: int, seed: int = 0) -> Iterator[Line]:
    """`count` lines, each with a font, size, colours and width of its own, as tall as the model takes."""
    from PIL import Image, ImageDraw, ImageFont

    fonts = find_fonts()
    rng = np.random.default_rng(seed)
    for i in range(count):
        path, size = fonts[i % len(fonts)], int(rng.choice(_SIZES))
        font = ImageFont.truetype(str(path), size)
        text = _text(rng)
        left, top, right, bottom = font.getbbox(text)
        edge = int(rng.integers(1, max(2, size // 4)))
        paper, ink = rng.integers(180, 256, 3), rng.integers(0, 90, 3)
        if rng.random() < 0.2:
            paper, ink = ink, paper
        picture = Image.new("RGB", (int(right - left) + 2 * edge, int(bottom - top) + 2 * edge), tuple(map(int, paper)))
        ImageDraw.Draw(picture).text((edge - left, edge - top), text, tuple(map(int, ink)), font)
        width = min(max(round(picture.width * HEIGHT / picture.height), WIDTHS[0]), WIDTHS[1])
        pixels = np.asarray(picture.resize((width, HEIGHT), Image.Resampling.BILINEAR), np.float32)
        pixels = np.ascontiguousarray((pixels / 127.5 - 1).transpose(2, 0, 1)[None])
        yield Line(text, path.stem, size, pixels)


def alphabet(model: Path) -> list[str]:
    """What each class of a PP-OCR recogniser stands for: nothing, its characters, a space."""
    metadata = {entry.key: entry.value for entry in onnx.load(model, load_external_data=False).metadata_props}
    return ["", *metadata["character"].splitlines(), " "]


def read_line(scores: np.ndarray, characters: Sequence[str]) -> str:
    """Greedy CTC decoding of one line's scores [steps, classes]: repetitions count once, class 0 is nothing."""
    best = scores.argmax(axis=1)
    kept = best[np.insert(best[1:] != best[:-1], 0, True)]
    return "".join(characters[i] for i in kept)
