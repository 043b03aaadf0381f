"""RNN, LSTM and GRU in random settings against their references, which tests/ops holds against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from meta_infer.ir.graph import Attr
from meta_infer.ir.shapes import Symbol
from meta_infer.kernels.kernel import Kernel, Refusal
from meta_infer.kernels.recurrent.gru import GRU
from meta_infer.kernels.recurrent.lstm import LSTM
from meta_infer.kernels.recurrent.rnn import RNN
from meta_infer.kernels.tuning import tunings
from meta_infer.ops.recurrent_activations import Activation, activation_attrs

from .harness import PROFILE, Case, check_case, layouts_of, make_group, make_profile, reference, run_group

NARROW = make_profile("x86-64-v2")
KERNELS = {"RNN": (RNN, 1, 1, 1), "LSTM": (LSTM, 4, 3, 2), "GRU": (GRU, 3, 2, 1)}     # gates, functions, states
FUNCTIONS = (Activation("Sigmoid"), Activation("Tanh"), Activation("Relu"), Activation("Softsign"),
             Activation("Softplus"), Activation("LeakyRelu", 0.1), Activation("Elu", 0.8),
             Activation("HardSigmoid", 0.3, 0.4), Activation("ThresholdedRelu", 0.2), Activation("Affine", 0.5, 0.1),
             Activation("ScaledTanh", 0.7, 0.9))


def random_case(op: str, seed: int, sizes: tuple[int, int, int, int] | None = None) -> Case:
    """Random sizes (steps, batch, features, hidden unless given), operands, attributes and outputs."""
    rng = np.random.default_rng((seed, len(op)))
    _, gates, functions, states = KERNELS[op]
    steps, batch, features, hidden = sizes or (int(rng.choice(c)) for c in (
        (1, 2, 5), (1, 2, 3, 7, 13), (1, 3, 9), (1, 5, 8, 19)))
    direction = ("forward", "reverse", "bidirectional")[int(rng.integers(3))]
    d, dtype = 2 if direction == "bidirectional" else 1, (np.float32, np.float32, np.float64)[int(rng.integers(3))]

    def make(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / 2).astype(dtype)

    inputs: dict[str, np.ndarray | None] = {
        "x": make(steps, batch, features), "w": make(d, gates * hidden, features), "r": make(d, gates * hidden, hidden),
        "b": make(d, 2 * gates * hidden), "lengths": rng.integers(0, steps + 1, batch).astype(np.int32),
        "h0": make(d, batch, hidden)}
    if op == "LSTM":
        inputs |= {"c0": make(d, batch, hidden), "p": make(d, 3 * hidden)}
    for name in ("b", "lengths", "h0", "c0", "p"):
        if name in inputs and rng.random() < 0.4:
            inputs[name] = None
    attrs: dict[str, Attr] = {"hidden_size": hidden, "direction": direction}
    if rng.random() < 0.6:
        attrs |= activation_attrs(tuple(FUNCTIONS[i] for i in rng.integers(len(FUNCTIONS), size=d * functions)))
    if rng.random() < 0.5:
        attrs["clip"] = 0.6
    if op == "LSTM" and rng.random() < 0.3:
        attrs["input_forget"] = True
    if op == "GRU":
        attrs["linear_before_reset"] = int(rng.integers(2))
    t, n = Symbol("t", 0, 99).dim, Symbol("n", 0, 99).dim
    shapes = {"x": (t, n, features), "lengths": (n,), "h0": (d, n, hidden), "c0": (d, n, hidden)}
    constants = [name for name in ("w", "r", "b", "p") if inputs.get(name) is not None and rng.random() < 0.5]
    outputs = ("y", "y_h", "y_c")[:1 + states]
    case = make_group(op, inputs, attrs, constants=constants, outputs=outputs,
                      shapes={name: s for name, s in shapes.items() if inputs.get(name) is not None})
    wanted = tuple(name for name in outputs if rng.random() < 0.7) or ("y",)
    return replace(case, group=replace(case.group, outputs=wanted))


def check(case: Case, kernel: Kernel, seed: int, engines: Sequence[str] = ("c",), tolerance: float = 3e-6) -> None:
    profile = (PROFILE, NARROW)[seed % 2]
    (variant,) = kernel.variants(case.group, profile)
    layouts = layouts_of(variant, case.group)
    want = reference(case)
    for engine in engines:
        got = run_group(case.group, kernel, variant, layouts, case.arrays, profile, engine=engine, seed=seed)
        for name, array in got.items():
            np.testing.assert_allclose(array, want[name], 1e-5, tolerance, err_msg=f"{name} {case.group.anchor}")


@pytest.mark.parametrize("op", KERNELS)
def test_random_settings(op: str, full: bool) -> None:
    for seed in range(40 if full else 6):
        check(random_case(op, seed), KERNELS[op][0], seed)


@pytest.mark.parametrize("op, seed", [("RNN", 41), ("LSTM", 42), ("GRU", 43), ("GRU", 44)])
def test_all_corners(op: str, seed: int) -> None:
    case = random_case(op, seed, (3, 3, 2, 37))
    assert check_case(case, KERNELS[op][0], 1e-5, 3e-6, all_corners=True) >= 6


@pytest.mark.parametrize("op", KERNELS)
def test_infeasible_values_are_refused(op: str) -> None:
    kernel, group = KERNELS[op][0], random_case(op, 45, (2, 2, 3, 8)).group
    (variant,) = kernel.variants(group, PROFILE)
    reasons = [tuned.reason for tuned in tunings(kernel, group, variant, PROFILE) if isinstance(tuned, Refusal)]
    assert set(reasons) <= {"shape", "registers"} and "shape" in reasons


@pytest.mark.parametrize("op", KERNELS)
def test_nothing_to_do(op: str) -> None:
    for seed, sizes in enumerate(((0, 2, 3, 5), (4, 0, 3, 5), (1, 1, 1, 1))):
        check(random_case(op, seed + 20, sizes), KERNELS[op][0], seed)


@pytest.mark.parametrize("op", KERNELS)
def test_interpreter_agrees(op: str) -> None:
    check(random_case(op, 31, (2, 3, 2, 5)), KERNELS[op][0], 1, ("interpret",))


@pytest.mark.parametrize("op", KERNELS)
def test_constant_weights_are_packed_at_build(op: str) -> None:
    kernel, gates, _, _ = KERNELS[op]
    arrays = {"x": np.zeros((2, 1, 3), np.float32), "w": np.ones((1, gates * 4, 3), np.float32),
              "r": np.ones((1, gates * 4, 4), np.float32), "b": np.ones((1, gates * 8), np.float32)}
    calls = {}
    for constants in ((), ("w", "r", "b")):
        case = make_group(op, arrays, {"hidden_size": 4}, constants=constants, outputs=("y",))
        (variant,) = kernel.variants(case.group, PROFILE)
        calls[constants] = len(kernel.lower(case.group, variant, layouts_of(variant, case.group), PROFILE).calls)
        assert (variant.packed_bytes > 0) == bool(constants)
    assert calls[("w", "r", "b")] == 2 < calls[()]
