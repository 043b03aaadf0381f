"""Reading numpy's files, and saying what is wrong with one."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from meta_infer.support.errors import InputError


def load_arrays(path: Path) -> np.ndarray | dict[str, np.ndarray]:
    """The array of an .npy file, or those of an .npz file by name. Raises InputError naming the file."""
    what, hint = f"file {path}", "write numbers or truth values with numpy.save or numpy.savez"
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise InputError("no such file", what=what, hint="check the path") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", what=what, hint="check the path") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        # numpy takes any unknown file for a pickle, and its advice is to load that in an unsafe way.
        why = "it holds Python objects or anything else" if "pickle" in str(error) else str(error)
        raise InputError(f"is not a readable .npy or .npz file: {why}", what=what, hint=hint) from error
