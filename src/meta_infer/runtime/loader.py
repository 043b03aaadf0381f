"""Loading verified machine code, with one thread pool for all packages of the process."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from _ctypes import dlclose

from meta_infer.runtime.native import API_VERSION, declare
from meta_infer.support.errors import PackageError

_lock = threading.Lock()
_pool_owner: Library | None = None
"""The first library loaded. Its threads serve every later one, so it is never unloaded."""


class Library:
    """A loaded shared object. `close` unloads it, unless its thread pool is the one in use."""

    def __init__(self, code: bytes | memoryview, what: str) -> None:
        """Load exactly the bytes given, which the caller has verified. Raises PackageError when the system refuses.

        A file opened again by name could have changed since it was hashed; memory cannot.
        """
        self._descriptor, path = _private_file(code)
        try:
            self.functions = ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW)
            declare(self.functions)
        except (OSError, AttributeError) as error:
            os.close(self._descriptor)
            raise PackageError(f"its code does not load: {error}", what=what,
                               hint="build the package again on this machine") from error
        finally:
            if not path.startswith("/proc/"):
                os.unlink(path)                        # mapped now: the name is not needed any more
        version = self.functions.mi_api_version()
        if version != API_VERSION:
            self._unload()
            raise PackageError(f"its runtime has API version {version}, this meta-infer speaks {API_VERSION}",
                               what=what, hint="build it again with this version")

    def close(self) -> None:
        if self is not _pool_owner and self._descriptor >= 0:
            self._unload()

    def _unload(self) -> None:
        dlclose(self.functions._handle)
        os.close(self._descriptor)
        self._descriptor = -1


def _private_file(code: bytes | memoryview) -> tuple[int, str]:
    """A descriptor of a file nobody else can open by name, and a path that dlopen takes for it.

    The descriptor stays open as long as the library: the loader recognises libraries by path, and a number used again
    would be taken for the old one.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("meta-infer-code", os.MFD_CLOEXEC)
        _write_all(descriptor, code)
        path = f"/proc/self/fd/{descriptor}"
        if os.path.exists(path):
            return descriptor, path
        os.close(descriptor)
    descriptor, name = tempfile.mkstemp(prefix="meta-infer-", suffix=".so")
    _write_all(descriptor, code)
    return descriptor, name


def _write_all(descriptor: int, code: bytes | memoryview) -> None:
    view = memoryview(code)
    while len(view):
        view = view[os.write(descriptor, view):]


def load_library(code: bytes | memoryview, what: str) -> Library:
    """Load code and connect it to the process's thread pool."""
    global _pool_owner
    library = Library(code, what)
    with _lock:
        if _pool_owner is None:
            _pool_owner = library
        elif library.functions.mi_use_pool(_pool_owner.functions.mi_pool()) != 0:
            library.close()
            raise PackageError("its thread pool does not fit the one of a package loaded before", what=what,
                               hint="load them in separate processes, or build both with one version")
    return library
