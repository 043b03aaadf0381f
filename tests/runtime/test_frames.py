"""Runs that find the frame of one before them: every difference that matters still counts."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from meta_infer import api
from meta_infer.runtime.frames import FRAMES_KEPT, IdleFrames, address_of
from meta_infer.runtime.session import Session, load
from meta_infer.support.errors import InputError, UsageError

DIGITS = Path(api.__file__).resolve().parent / "demo" / "digits.onnx"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose outputs have their shapes before the run: the short way serves only those."""
    path = tmp_path_factory.mktemp("frames") / "digits.bin"
    api.build(DIGITS, output=path, shape=("image=1..32,1,8,8",), verify=False)
    return path


def images(batch: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((batch, 1, 8, 8), np.float32)


def plainly(session: Session, image: np.ndarray) -> np.ndarray:
    """The result by the long way."""
    return session.run([session.get_outputs()[0].name], {"image": image}, threads=1)[0]


def test_again_and_again_at_changing_sizes(digits: Path) -> None:
    with load(digits, threads=1) as session:
        for seed in range(12):
            image = images((1, 7, 1, 32)[seed % 4], seed)
            np.testing.assert_array_equal(session.run(None, {"image": image})[0], plainly(session, image))
            assert session.run([], {"image": image}) == []


def test_every_run_has_outputs_of_its_own(digits: Path) -> None:
    with load(digits, threads=1) as session:
        made = [session.run(None, {"image": images(2, seed)})[0] for seed in range(6)]
        for seed, array in enumerate(made):
            np.testing.assert_array_equal(array, plainly(session, images(2, seed)))
            assert array.flags.owndata and array.flags.writeable


def test_arrays_of_other_kinds_take_the_long_way(digits: Path) -> None:
    class Named(np.ndarray):
        pass

    image = images(4)
    frozen = image.copy()
    frozen.setflags(write=False)
    wide = np.zeros((4, 2, 8, 16), np.float32)
    wide[:, ::2, :, ::2] = image
    unaligned = np.zeros(image.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(image.shape)
    unaligned[...] = image
    with load(digits, threads=1) as session:
        [want] = session.run(None, {"image": image})
        for other in (frozen, image.view(Named), wide[:, ::2, :, ::2], unaligned, image.tolist()):
            given = np.asarray(other, np.float32) if isinstance(other, list) else other
            np.testing.assert_array_equal(session.run(None, {"image": given})[0], want)


def test_what_is_wrong_is_said_after_a_good_run_too(digits: Path) -> None:
    image = images(1)
    with load(digits, threads=1) as session:
        [want] = session.run(None, {"image": image})
        for fed, says in (({"image": image.astype(np.float64)}, "float64"), ({}, "missing"),
                          ([image], "expected a dict"),
                          ({"image": image, "other": image}, "no such input"), ({"image": None}, "object"),
                          ({"image": image.view(np.int32)}, "int32"), ({"image": images(33)}, "dimension 0 is 33"),
                          ({"image": image.byteswap().view(image.dtype.newbyteorder())}, "dtype")):
            with pytest.raises(InputError, match=says):
                session.run(None, fed)  # type: ignore[arg-type]
        np.testing.assert_array_equal(session.run(None, {"image": image})[0], want)
    with pytest.raises(UsageError, match="closed"):
        session.run(None, {"image": image})


def test_a_run_that_outlived_its_session_leaves_no_way_in(digits: Path) -> None:
    session = load(digits, threads=1)
    session.run(None, {"image": images(1)})
    shapes = ((1, 1, 8, 8),)
    frame = session._idle.take(shapes)
    assert frame is not None
    session.close()
    session._idle.give_back(shapes, frame)
    with pytest.raises(UsageError, match="closed"):
        session.run(None, {"image": images(1)})


def test_callers_at_once_have_frames_of_their_own(digits: Path) -> None:
    wrong: list[int] = []
    with load(digits, threads=1) as session:
        wanted = [plainly(session, images(3, seed)) for seed in range(4)]

        def work(seed: int) -> None:
            for _ in range(300):
                if not np.array_equal(session.run(None, {"image": images(3, seed)})[0], wanted[seed]):
                    wrong.append(seed)

        callers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert wrong == []


def test_frames_of_many_shapes_do_not_pile_up(digits: Path) -> None:
    with load(digits, threads=1) as session:
        session.run(None, {"image": images(1)})
        frame = session._idle.take(((1, 1, 8, 8),))
        assert frame is not None and session._idle.take(((1, 1, 8, 8),)) is None
        idle = IdleFrames()
        for n in range(3 * FRAMES_KEPT):
            idle.give_back(((n,),), frame)
            assert idle.take(((n,),)) is frame
            assert len(idle.by_shapes) <= FRAMES_KEPT


def test_address_of_any_array() -> None:
    array = np.arange(6, dtype=np.float32)
    frozen = array[2:]
    frozen.setflags(write=False)
    for one in (array, frozen, np.empty(0, np.int64), np.array(3), np.zeros(2, "datetime64[s]")):
        assert address_of(one) == one.ctypes.data


def test_profile_adds_to_the_callers_array(digits: Path) -> None:
    with load(digits, threads=1) as session:
        times = np.zeros(session.info.commands, np.int64)
        for _ in range(3):                                             # the first goes the long way
            before = times.copy()
            session.profile_into({"image": images(2)}, times)
            assert (times >= before).all() and times.sum() > before.sum()
        assert len(session.profile({"image": images(2)})) == session.info.commands
        for wrong in (times[:-1], times.astype(np.int32), np.zeros(2 * len(times), np.int64)[::2]):
            with pytest.raises(UsageError, match="int64 array"):
                session.profile_into({"image": images(2)}, wrong)
