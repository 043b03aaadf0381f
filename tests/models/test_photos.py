"""A trained classifier sees in photos what ONNX Runtime sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from meta_infer.runtime.session import load
from meta_infer.verify.reference import reference_session, run_reference
from tests.conftest import NOT_RUN
from tests.real_models import ModelMissing, find_photos

from .cases import EFFICIENTNET_LITE0, ModelCase
from .packages import Built
from .photos import label_of, read_photo


def test_the_first_class_of_each_photo_is_onnx_runtimes(built: Callable[[ModelCase], Built]) -> None:
    pytest.importorskip("PIL", reason=f"{NOT_RUN}: photos: pip install pillow")
    try:
        photos = find_photos()
    except ModelMissing as missing:
        pytest.skip(f"{NOT_RUN}: photos: {missing}")
    made = built(EFFICIENTNET_LITE0)
    reference = reference_session(made.model, 1)
    with load(made.package, threads=1) as session:
        (name,) = (value.name for value in session.get_inputs())
        right = 0
        for path in photos:
            inputs = {name: read_photo(path)}
            best = int(session.run(None, inputs)[0].argmax())
            assert best == int(run_reference(reference, inputs)[0].argmax()), path.name
            right += best == label_of(path)
    assert len(photos) == 20 and right == 18
