"""The C API of runtime/c/mi_runtime.h as ctypes types."""

from __future__ import annotations

from ctypes import CDLL, POINTER, Structure, c_char, c_int32, c_int64, c_size_t, c_void_p

API_VERSION = 1
MAX_RANK = 16
MAX_THREADS = 63
OK, BAD_PLAN, BAD_ARGUMENT, BAD_INPUT, NO_MEMORY, OUT_OF_RANGE = range(6)
ARENA_MODES = {"": 0, "separate": 1, "poison": 2}


class Error(Structure):
    _fields_ = [("code", c_int32), ("text", c_char * 508)]

    @property
    def message(self) -> str:
        """The text; names in it come from the package and may be cut in the middle of a character."""
        text: bytes = self.text
        return text.decode(errors="backslashreplace")


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_int64), ("rank", c_int32), ("reserved", c_int32),
                ("shape", c_int64 * MAX_RANK)]


class Config(Structure):
    _fields_ = [("plan", c_void_p), ("plan_bytes", c_size_t), ("constants", c_void_p), ("constant_bytes", c_size_t),
                ("threads", c_int32), ("arena", c_int32), ("touch", c_int32), ("reserved", c_int32)]


class Watch(Structure):
    _fields_ = [("command", c_int32), ("buffer", c_int32), ("data", c_void_p), ("bytes", c_int64)]


class Options(Structure):
    _fields_ = [("threads", c_int32), ("watch_count", c_int32), ("command_ns", c_void_p),
                ("watches", POINTER(Watch)), ("symbols", POINTER(c_int64))]


class Info(Structure):
    _fields_ = [(name, c_int32) for name in ("inputs", "outputs", "symbols", "dims", "buffers", "commands", "kernels",
                                             "threads")]
    _fields_ += [(name, c_int64) for name in ("arena_bytes", "scratch_bytes", "constant_bytes", "prepared_bytes")]


_SIGNATURES = {
    "mi_api_version": (c_int32, []),
    "mi_plan_check": (c_int32, [c_void_p, c_size_t, c_size_t, POINTER(Error)]),
    "mi_session_create": (c_int32, [POINTER(c_void_p), POINTER(Config), POINTER(Error)]),
    "mi_session_destroy": (None, [c_void_p]),
    "mi_session_describe": (c_int32, [c_void_p, POINTER(Info)]),
    "mi_session_shapes": (c_int32, [c_void_p, POINTER(Tensor), POINTER(Tensor), POINTER(Error)]),
    "mi_session_run": (c_int32, [c_void_p] * 5),       # plain addresses: ctypes takes longest to check typed pointers
    "mi_allocations": (c_int64, []),
    "mi_pool": (c_void_p, []),
    "mi_use_pool": (c_int32, [c_void_p]),
}


def declare(library: CDLL) -> None:
    """Give every function its types. Raises AttributeError for one the library lacks."""
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
