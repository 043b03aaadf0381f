"""The smallest models of the faults that random graphs have found, in ONNX's text syntax, each with its opset."""

from __future__ import annotations

FOUND: dict[str, tuple[int, str]] = {
    "a loop of no passes whose value doubles": (18, """
        (float[5,4] x) => (y) <int64 trips = {0}> {
            y = Loop (trips, "", x) <body = body (int64 i, bool go, float[5,?] h) => (bool on, float[5,?] h2) {
                h2 = Concat <axis = 1> (h, h)
                on = Identity (go)
            }>
        }"""),
    "ThresholdedRelu before its function body": (11, """
        (float[2,30] x) => (y) { y = ThresholdedRelu <alpha = 0.5> (x) }"""),
    "Split of a size that data tells": (18, """
        (float[6,3] x) => (a, b) <int64[2] parts = {4, 14}> {
            kept = Abs (x)
            places = NonZero (kept)
            a, b = Split <axis = 1> (places, parts)
        }"""),
}
