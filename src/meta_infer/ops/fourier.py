"""The discrete Fourier transform as core ops, for any length.

Complex numbers lie in a last dimension of 2 (real and imaginary part), real ones in a last dimension of 1.

    short, or known while running    one product with the transform's matrix (the latter computes the matrix as well)
    a multiple of something          n = a b: transforms of length a, twiddle factors, transforms of length b
                                     (Cooley and Tukey 1965, in the arrangement of Bailey's four steps)
    a long prime                     a cyclic convolution of a power of two (Bluestein 1970)

A length n costs n (a + b + ...) multiplications over its factors: meant for spectrograms, not for long signals.
"""

from __future__ import annotations

import math

import numpy as np

from meta_infer.ir.shapes import Dim, product
from meta_infer.ops.node_builder import NodeBuilder
from meta_infer.support.dtypes import FLOAT64, INT64, DType

LARGEST_CONSTANT = 1 << 22
"""Elements of a matrix that a transform multiplies by; a longer one is taken apart instead."""

# Phase by which part c of the input enters part j of the output: w = e^(i t) gives (re, im) = (cos t, sin t), and
# cos(t + phase) is all four of cos t, sin t, -sin t and cos t.
_PHASES = np.array([[0.0, -math.pi / 2], [math.pi / 2, 0.0]])


def matrix(rows: int, columns: int, length: int, *, inverse: bool, parts: int, half: bool = False) -> np.ndarray:
    """The transform as [rows * parts, columns * 2]: frequency k of element n. With `half` it goes from the first half
    of a spectrum of real elements, [rows * 2, columns]: rows are frequencies and columns elements."""
    places = np.outer(np.arange(rows), np.arange(columns)) % length
    angles = places * ((2 if inverse else -2) * math.pi / length)
    phases = _PHASES[:parts, :1] if half else _PHASES[:parts]
    whole = np.cos(angles[:, None, :, None] + phases[None, :, None, :])
    if half:
        whole *= _weights(np.arange(rows), length)[:, None, None, None]
    return np.asarray(whole / (length if inverse else 1)).reshape(rows * parts, columns * phases.shape[1])


def _weights(k: np.ndarray, length: int) -> np.ndarray:
    """How often frequency k and its conjugate appear in a spectrum of real elements."""
    return np.where((k == 0) | (2 * k == length), 1.0, 2.0)


def matrix_while_running(build: NodeBuilder, rows: Dim, columns: Dim, length: Dim, size: str, *, inverse: bool,
                         parts: int, half: bool, dtype: DType) -> str:
    """The same matrix in core ops; `size` names an int64 scalar that holds `length`. Angles are float64."""
    n = build.reshape(build.emit("Iota", size=(rows,)), (rows, 1, 1, 1))
    k = build.reshape(build.emit("Iota", size=(columns,)), (1, 1, columns, 1))
    places = build.cast(build.emit("Mod", build.emit("Mul", n, k), size, fmod=0), FLOAT64)
    turn = build.emit("Div", build.scalar((2 if inverse else -2) * math.pi, FLOAT64, "turn"), build.cast(size, FLOAT64))
    phases = _PHASES[:parts, :1] if half else _PHASES[:parts]
    angles = build.emit("Add", build.emit("Mul", places, turn),
                        build.constant(phases.reshape(1, parts, 1, phases.shape[1]), "phases"))
    whole = build.emit("Cos", angles)
    if half:
        one, two = build.scalar(1, FLOAT64, "one"), build.scalar(2, FLOAT64, "two")
        ends = build.emit("Or", build.emit("Equal", n, build.scalar(0, INT64, "zero")),
                          build.emit("Equal", build.emit("Add", n, n), size))
        whole = build.emit("Mul", whole, build.emit("Where", ends, one, two))
    if inverse:
        whole = build.emit("Div", whole, build.cast(size, FLOAT64))
    return build.cast(build.reshape(whole, (rows * parts, columns * phases.shape[1])), dtype)


def transform(build: NodeBuilder, x: str, lead: tuple[Dim, ...], length: int, dtype: DType, *, inverse: bool) -> str:
    """Complex x [*lead, length, 2] -> its transform, of the same shape."""
    if length * length * 4 <= LARGEST_CONSTANT:
        weights = matrix(length, length, length, inverse=inverse, parts=2)
        flat = build.reshape(x, (*lead, 2 * length))
        product_ = build.emit("MatMul", flat, build.constant(weights.astype(dtype.numpy), "fourier"))
        return build.reshape(product_, (*lead, length, 2))
    a = max(d for d in range(1, math.isqrt(length) + 1) if length % d == 0)
    if a == 1:
        return _bluestein(build, x, lead, length, dtype, inverse)
    b, rows = length // a, product(lead)
    columns = build.transpose(build.reshape(x, (rows, a, b, 2)), (0, 2, 1, 3))
    first = transform(build, columns, (rows, b), a, dtype, inverse=inverse)
    angles = np.outer(np.arange(b), np.arange(a)) * ((2 if inverse else -2) * math.pi / length)
    turned = build.transpose(_times(build, first, np.exp(1j * angles), dtype), (0, 2, 1, 3))
    second = transform(build, turned, (rows, a), b, dtype, inverse=inverse)
    return build.reshape(build.transpose(second, (0, 2, 1, 3)), (*lead, length, 2))


def _times(build: NodeBuilder, x: str, factors: np.ndarray, dtype: DType) -> str:
    """Complex x [..., *factors.shape, 2] times complex constants."""
    real = np.stack([factors.real, factors.real], -1).astype(dtype.numpy)
    imaginary = np.stack([-factors.imag, factors.imag], -1).astype(dtype.numpy)
    swapped = build.emit("Gather", x, build.constant(np.array([1, 0]), "swap"), axis=factors.ndim + 1)
    return build.emit("Add", build.emit("Mul", x, build.constant(real, "real")),
                      build.emit("Mul", swapped, build.constant(imaginary, "imaginary")))


def _bluestein(build: NodeBuilder, x: str, lead: tuple[Dim, ...], length: int, dtype: DType, inverse: bool) -> str:
    """n k = (n^2 + k^2 - (k - n)^2) / 2 makes the transform a convolution with a chirp, done at a power of two."""
    sign, size = (1 if inverse else -1), 1 << (2 * length - 2).bit_length()
    squares = np.arange(length, dtype=np.int64) ** 2 % (2 * length)        # the chirp repeats after 2 n
    chirp = np.exp(1j * sign * math.pi / length * squares)
    response = np.zeros(size, np.complex128)
    response[:length] = np.conj(chirp)
    response[size - length + 1:] = np.conj(chirp[:0:-1])
    rows = product(lead)
    turned = _times(build, build.reshape(x, (rows, length, 2)), chirp, dtype)
    padded = build.emit("Pad", turned, pads=(0, 0, 0, 0, size - length, 0), mode="constant", value=0.0)
    spectrum = transform(build, padded, (rows,), size, dtype, inverse=False)
    shaped = _times(build, spectrum, np.fft.fft(response), dtype)
    filtered = transform(build, shaped, (rows,), size, dtype, inverse=True)
    kept = build.emit("Slice", filtered, starts=(0, 0, 0), sizes=(rows, length, 2), steps=(1, 1, 1))
    return build.reshape(_times(build, kept, chirp / (length if inverse else 1), dtype), (*lead, length, 2))
