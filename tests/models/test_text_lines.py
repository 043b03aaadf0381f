"""Text recognition reads rendered lines of any width as ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from meta_infer.runtime.session import load
from meta_infer.verify.reference import reference_session, run_reference
from tests.conftest import NOT_RUN

from .cases import PPOCR_REC, ModelCase
from .packages import Built
from .text_lines import FontsMissing, alphabet, find_fonts, read_line, render_lines


def test_lines_are_read_as_onnx_runtime_reads_them(built: Callable[[ModelCase], Built], full: bool) -> None:
    pytest.importorskip("PIL", reason=f"{NOT_RUN}: text lines: pip install pillow")
    try:
        find_fonts()
    except FontsMissing as missing:
        pytest.skip(f"{NOT_RUN}: text lines: {missing}")
    made = built(PPOCR_REC)
    characters, reference = alphabet(made.model), reference_session(made.model, 1)
    right, widths = 0, set()
    with load(made.package, threads=1) as session:
        lines = list(render_lines(200 if full else 24))
        for line in lines:
            inputs = {"x": line.image}
            ours = read_line(session.run(None, inputs)[0][0], characters)
            assert ours == read_line(run_reference(reference, inputs)[0][0], characters), line.text
            right += ours.replace(" ", "") == line.text.replace(" ", "")
            widths.add(line.image.shape[3])
    assert right > len(lines) // 2                        # the lines are legible: equal nonsense would prove little
    assert len(widths) > len(lines) // 3
