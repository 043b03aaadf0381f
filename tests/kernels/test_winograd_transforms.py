"""Winograd's transforms: exact in fractions, right as straight-line code, as inexact in floats as they say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from meta_infer.ir.builder import Builder
from meta_infer.ir.interpret_loop import interpret
from meta_infer.kernels.conv.winograd_transforms import (
    LinearProgram,
    Matrix,
    as_array,
    emit_program,
    linear_program,
    relative_error,
    transform_weights,
    transforms,
)
from meta_infer.support.dtypes import FLOAT32

SIZES = (2, 4, 6)


def _times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


def _run(program: LinearProgram, vector: list[Fraction]) -> list[Fraction]:
    known = [*vector]
    for step in program.steps:
        known.append(sum((known[value] * factor for value, factor in step), Fraction(0)))
    return [sum((known[value] * factor for value, factor in row), Fraction(0)) for row in program.outputs]


@pytest.mark.parametrize("m", SIZES)
def test_filters_exactly(m: int) -> None:
    """A^T (G g * B^T d) is the sliding sum, to the last digit, for unit vectors: for all, since it is bilinear."""
    t = transforms(m)
    for tap in range(3):
        for at in range(m + 2):
            g = [Fraction(int(k == tap)) for k in range(3)]
            d = [Fraction(int(k == at)) for k in range(m + 2)]
            product = [a * b for a, b in zip(_times(t.weight, g), _times(t.input, d), strict=True)]
            assert _times(t.output, product) == [sum(g[k] * d[i + k] for k in range(3)) for i in range(m)]


@pytest.mark.parametrize("m, most_input, most_output", [(2, 4, 4), (4, 12, 10), (6, 24, 20)])
def test_straight_line_code(m: int, most_input: int, most_output: int) -> None:
    """It is the matrix, and takes far fewer operations than the (m+2)^2 of a dense product."""
    for matrix, most in ((transforms(m).input, most_input), (transforms(m).output, most_output)):
        program = linear_program(matrix)
        vector = [Fraction(3**i, 7) for i in range(len(matrix[0]))]
        assert _run(program, vector) == _times(matrix, vector)
        assert sum(len(one) - 1 for one in (*program.steps, *program.outputs)) <= most
        factors = [factor for one in (*program.steps, *program.outputs) for _, factor in one]
        assert all(Fraction(float(np.float32(float(f)))) == f for f in factors), "every factor is a float"


@pytest.mark.parametrize("part", ["input", "output"])
@pytest.mark.parametrize("m", SIZES)
def test_emitted_code(m: int, part: str) -> None:
    matrix: Matrix = getattr(transforms(m), part)
    b = Builder("transform")
    x, y = b.input("x", FLOAT32), b.output("y", FLOAT32)
    with b.chunks(1):
        values = [b.let(b.load(x, i), "d") for i in range(m + 2)]
        for i, value in enumerate(emit_program(b, linear_program(matrix), values)):
            b.store(y, i, value)
    func, _ = b.finish()
    d, found = np.random.default_rng(m).standard_normal(m + 2).astype(np.float32), np.zeros(len(matrix), np.float32)
    interpret(func, [d, found], ())
    np.testing.assert_allclose(found, as_array(matrix) @ d.astype(np.float64), 1e-5, 1e-5)


def test_weights_of_a_filter_that_copies() -> None:
    """The filter with a one in its middle gives every tile's inner values back."""
    weight = np.zeros((1, 1, 3, 3), np.float32)
    weight[0, 0, 1, 1] = 1
    for m in SIZES:
        t, d = transforms(m), np.random.default_rng(0).standard_normal((m + 2, m + 2))
        u = transform_weights(weight, m).reshape(m + 2, m + 2)
        a, b = as_array(t.output), as_array(t.input)
        np.testing.assert_allclose(a @ (u * (b @ d @ b.T)) @ a.T, d[1:-1, 1:-1], atol=1e-5)


@pytest.mark.parametrize("m", SIZES)
def test_error_is_below_the_estimate(m: int) -> None:
    """On normal data, relative to the sum of |d| |g|; the estimate is for worse data, but not a hundred times."""
    rng, channels, tiles = np.random.default_rng(m), 64, 200
    t = transforms(m)
    a, b = (as_array(matrix).astype(np.float32) for matrix in (t.output, t.input))
    d = rng.standard_normal((tiles, channels, m + 2, m + 2)).astype(np.float32)
    g = rng.standard_normal((1, channels, 3, 3)).astype(np.float32)
    u = transform_weights(g, m).reshape(m + 2, m + 2, channels)
    products = np.zeros((tiles, m + 2, m + 2), np.float32)
    v = b @ d @ b.T
    for c in range(channels):
        products += u[:, :, c] * v[:, c]
    found = a @ products @ a.T
    exact, size = np.zeros((tiles, m, m)), np.zeros((tiles, m, m))
    for i in range(3):
        for j in range(3):
            window, taps = d[:, :, i:i + m, j:j + m].astype(np.float64), g[0, :, i, j].astype(np.float64)
            exact += np.einsum("ncyx,c->nyx", window, taps)
            size += np.einsum("ncyx,c->nyx", np.abs(window), np.abs(taps))
    worst = float((np.abs(found - exact) / size).max())
    assert relative_error(m) / 100 < worst < relative_error(m)
