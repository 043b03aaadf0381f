"""What a command may replace, and that it does so all at once or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from meta_infer.support.errors import UsageError
from meta_infer.support.output_file import check_replaceable, is_arrays, is_package, is_profile, replacing
from tests.runtime import programs


def test_each_kind_replaces_only_itself(tmp_path: Path) -> None:
    package = programs.write(tmp_path / "a.bin")
    np.savez(tmp_path / "plain.npz", x=np.zeros(3))
    np.savez_compressed(tmp_path / "packed.npz", x=np.zeros(3))
    np.savez(tmp_path / "none.npz")
    (tmp_path / "chip.yaml").write_text("name: x\ndevices:\n- {}\n")
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "empty").touch()
    kinds = {is_package: {package.name}, is_arrays: {"plain.npz", "packed.npz", "none.npz"}, is_profile: {"chip.yaml"}}
    for is_ours, ours in kinds.items():
        for file in tmp_path.iterdir():
            if file.name in {*ours, "empty"}:
                check_replaceable(file, is_ours, "a thing")
                continue
            with pytest.raises(UsageError, match="is not a thing"):
                check_replaceable(file, is_ours, "a thing")
    check_replaceable(tmp_path / "new", is_package, "a package")


def test_a_device_is_no_output() -> None:
    with pytest.raises(UsageError, match="ordinary file"):
        check_replaceable(Path(os.devnull), is_package, "a package")


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "result"
    file.write_text("before")
    with pytest.raises(KeyboardInterrupt), replacing(file) as out:
        out.write(b"half")
        raise KeyboardInterrupt
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("before")
    link.symlink_to(real)
    with replacing(link) as out:
        out.write(b"after")
    assert link.is_symlink() and real.read_text() == "after"
