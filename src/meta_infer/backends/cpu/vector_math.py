"""The functions of MATH as C for any number of lanes, from the templates vector_math_f32.h and vector_math_f64.h.

In a template V is the vector type, I its mask type, D and L vectors of as many doubles and int64; `select_V` and its
kin are helpers of the prelude, `exp_V` other functions of the template, `log_D` those of the float64 template.
docs/vector-math.md has the algorithms, their sources and the measured errors.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_FUNCTION = re.compile(r"^(?:/\*(?:(?!\*/)[\s\S])*\*/\n)?INLINE \w+ (\w+)_V\([\s\S]*?^\}$", re.MULTILINE)
_WORD = re.compile(r"\b(?:(\w+)_)?([VIDL])\b")


@cache
def templates(bits: int) -> dict[str, str]:
    """Function name -> its template, for elements of float32 or float64."""
    text = resources.files(__package__).joinpath(f"vector_math_f{bits}.h").read_text(encoding="utf-8")
    return {match.group(1): match.group(0) for match in _FUNCTION.finditer(text)}


def needs(template: str) -> list[tuple[str, str]]:
    """(operation, letter) for every helper, and ('', letter) for every type, that a template mentions."""
    return list(dict.fromkeys((word or "", letter) for word, letter in _WORD.findall(template)))


def instantiate(template: str, names: dict[str, str]) -> str:
    """The template with each type letter replaced by a type name."""
    def swap(match: re.Match[str]) -> str:
        word, letter = match.groups()
        return f"{word}_{names[letter]}" if word else names[letter]

    return _WORD.sub(swap, template)
