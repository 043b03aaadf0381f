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
    "Celu of a scalar": (17, """
        (float x) => (y) { y = Celu <alpha = 0.5> (x) }"""),
    "Unique of which only a size is read": (17, """
        (int64[7] x) => (b, size) { a, b, c, d = Unique (x) size = Shape (c) }"""),
    "Unique that a branch reads for nothing": (17, """
        (int64[4] x, bool[1] c) => (a, y) {
            a, firsts, inverse, counts = Unique (x)
            y = If (c) <then_branch = t () => (float p) { q = Unique (counts) p = Constant <value_float = 1.0> () },
                        else_branch = e () => (float r) { r = Constant <value_float = 2.0> () }>
        }"""),
    "LRN of a tensor that may be empty": (13, """
        (float[1,3,6,4] x, int64[1] at) => (y) <int64[1] far = {99}, int64[1] axis = {2}, int64[1] nine = {9}> {
            first = Mod (at, nine)
            part = Slice (x, first, far, axis)
            y = LRN <alpha = 0.1, size = 1> (part)
        }"""),
    "a pool of a tensor that may be empty": (17, """
        (float[1,2,6,4] x, int64[1] at) => (y) <int64[1] far = {99}, int64[1] axis = {2}, int64[1] nine = {9}> {
            first = Mod (at, nine)
            part = Slice (x, first, far, axis)
            y = MaxPool <kernel_shape = [1,2], strides = [2,1], ceil_mode = 1> (part)
        }"""),
    "convolution of channels that a loop tells": (11, """
        (float[1,3,7] x, float[5,6,1] w) => (y) <int64 trips = {1}> {
            wide = Loop (trips, "", x) <body = b (int64 i, bool go, float[?,?,?] h) => (bool on, float[?,?,?] h2) {
                h2 = Concat <axis = 1> (h, h)
                on = Identity (go)
            }>
            y = Conv (wide, w)
        }"""),
    "Split of a size that data tells": (18, """
        (float[6,3] x) => (a, b) <int64[2] parts = {4, 14}> {
            kept = Abs (x)
            places = NonZero (kept)
            a, b = Split <axis = 1> (places, parts)
        }"""),
}
