"""Load a package and run it.

    session = load("model.bin", threads=2)
    [y] = session.run(None, {"x": x})
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meta_infer.runtime import native
from meta_infer.runtime.cpu import available_cores, best_target, target_named
from meta_infer.runtime.feeds import as_input, check_names, check_output_names, check_shared_dims
from meta_infer.runtime.frames import Frame, IdleFrames, address_of, make_frame
from meta_infer.runtime.layers import layer_results
from meta_infer.runtime.loader import Library, load_library
from meta_infer.runtime.outputs import Size, cut_to_shape, is_late, room_for, taken
from meta_infer.runtime.reader import Package, Tensor
from meta_infer.support.dtypes import dtype_named
from meta_infer.support.errors import InputError, MetaInferError, PackageError, UsageError
from meta_infer.support.switches import read_switches

MODES = ("auto", "eco", "realtime")
"""How a session treats the machine: all it may use; one thread; or memory touched at load, so no run waits for it."""
_ORT_WORDS = {"float32": "float", "float64": "double"}
_ERRORS: dict[int, type[MetaInferError]] = {native.BAD_PLAN: PackageError}


@dataclass(frozen=True)
class TensorType:
    """An input or output as users see it. `shape` holds numbers and the names of dynamic dims."""

    name: str
    shape: tuple[int | str, ...]
    type: str                  # in ONNX Runtime's words: 'tensor(float)'
    dtype: np.dtype

    @classmethod
    def of(cls, tensor: Tensor) -> TensorType:
        return cls(tensor.name, tensor.shape, f"tensor({_ORT_WORDS.get(tensor.dtype, tensor.dtype)})",
                   dtype_named(tensor.dtype).numpy)


class Session:
    """A package ready to run. It owns its arena; threads that run one session take turns, sessions are independent.

    Nothing is allocated by the runtime after this is made, but for tensors that are sized while running, and for those
    only in the first run of a size; outputs are fresh numpy arrays.
    """

    def __init__(self, package: Package, threads: int | None = None, mode: str = "auto",
                 target: str | None = None) -> None:
        """See `load`."""
        if mode not in MODES:
            raise UsageError(f"is {mode!r}, expected one of {', '.join(MODES)}", what="mode")
        if threads is None:
            threads = 1 if mode == "eco" else package.threads or min(available_cores(), native.MAX_THREADS)
        if not isinstance(threads, int) or not 1 <= threads <= native.MAX_THREADS:
            raise UsageError(f"is {threads!r}, expected 1..{native.MAX_THREADS}", what="threads")
        self.package, self.threads, self.mode = package, threads, mode
        self.symbols: Mapping[str, Mapping[str, int]] = package.symbols
        self._inputs, self._outputs = package.inputs, package.outputs
        self._input_slots = native.Tensor * max(len(self._inputs), 1)
        self._output_slots = native.Tensor * max(len(self._outputs), 1)
        self._names = [t.name for t in self._inputs]
        self._dtypes = [t.numpy for t in self._inputs]
        self._idle = IdleFrames()
        self._delivery = os.getpid(), threading.Lock()
        self._handle = _Handle()
        what = f"package {str(package.path)!r}"
        candidates = package.targets if target is None else [target_named(package.targets, target, what)]
        self.target = best_target(candidates, what)
        # The plan is hashed before the code is mapped, the code is loaded from the very bytes that were hashed.
        plan = np.frombuffer(package.check(self.target.plan), np.uint8)
        self._library = load_library(bytes(package.check(self.target.code)), what)
        self._weights = np.frombuffer(package.member(self.target.weights), np.uint8)
        config = native.Config(plan.ctypes.data, plan.size, self._weights.ctypes.data, self._weights.size, threads,
                               native.ARENA_MODES[read_switches().arena], int(mode == "realtime"))
        self._handle.library = self._library
        self._call = self._library.functions.mi_session_run
        error = native.Error()
        if self._library.functions.mi_session_create(ctypes.byref(self._handle), ctypes.byref(config),
                                                     ctypes.byref(error)) != native.OK:
            self._library.close()
            raise PackageError(error.message, what=what, hint=_CREATE_HINTS.get(error.code, "build it again"))
        self.info = native.Info()
        self._library.functions.mi_session_describe(self._handle, ctypes.byref(self.info))
        if (self.info.inputs, self.info.outputs) != (len(self._inputs), len(self._outputs)):
            self.close()
            raise PackageError("its manifest and its command table have other inputs or outputs", what=what,
                               hint=_CREATE_HINTS[native.BAD_PLAN])

    # --- what it is -----------------------------------------------------------------------------------------

    def get_inputs(self) -> list[TensorType]:
        return [TensorType.of(t) for t in self._inputs]

    def get_outputs(self) -> list[TensorType]:
        return [TensorType.of(t) for t in self._outputs]

    # --- running --------------------------------------------------------------------------------------------

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any],
            threads: int | None = None) -> list[np.ndarray]:
        """Outputs (all, or those named, in that order) for the arrays in `feeds`, as in ONNX Runtime.

        Raises InputError for a name, dtype, rank or dimension the model does not take, and for a dimension found
        while running that leaves its range. `threads`, at most those of the session, bounds this run alone.
        """
        picked = None if output_names is None else check_output_names(output_names, self._outputs)
        outputs = self._run_again(feeds) if threads is None else None
        if outputs is None:
            outputs = self._run(self._arrays(feeds), None, None if threads is None else native.Options(threads=threads))
        return outputs if picked is None else [outputs[i] for i in picked]

    def run_with(self, feeds: Mapping[str, Any], outputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Like `run`, writing into arrays of the caller; those not named are made fresh.

        An output whose size only running can tell needs room for its upper bound, or where it has no useful one for
        what it takes in this run; the result is then a view of the array's beginning. Raises InputError for an array
        of another dtype or size, or one that is not writable and dense.
        """
        check_output_names(list(outputs), self._outputs)
        return self._run(self._arrays(feeds), outputs, native.Options())

    def profile(self, feeds: Mapping[str, Any]) -> list[int]:
        """Nanoseconds spent in each command of one run, by index; those of a region's holder include its body."""
        times = np.zeros(self.info.commands, np.int64)
        self.profile_into(feeds, times)
        return times.tolist()

    def profile_into(self, feeds: Mapping[str, Any], times: np.ndarray) -> None:
        """Like `profile`, adding to `times`, int64 of one element per command: nothing is left to do after the run."""
        if times.dtype != np.int64 or times.shape != (self.info.commands,) or not times.flags.carray:
            raise UsageError(f"must be a writable dense int64 array of {self.info.commands} elements", what="times")
        options = native.Options(command_ns=address_of(times) if times.size else None)
        if self._run_again(feeds, ctypes.addressof(options)) is None:
            self._run(self._arrays(feeds), None, options)

    def sizes(self, feeds: Mapping[str, Any]) -> dict[str, int]:
        """The value of every named dimension after one run: of the inputs, and those that only running can tell."""
        names = self.package.debug_info(self.target).symbols
        values = (ctypes.c_int64 * max(self.info.symbols, 1))()
        self._run(self._arrays(feeds), None, native.Options(symbols=values))
        return dict(zip(names, values, strict=False))

    def layers(self, feeds: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Every ONNX tensor that some buffer holds during a run, by ONNX name, in plain order.

        Tensors inside a fused kernel, and in regions that did not run, are not there. Runs twice: for sizes, then
        for contents.
        """
        arrays = self._arrays(feeds)
        debug = self.package.debug_info(self.target)
        requests = debug.requests
        watches = (native.Watch * max(len(requests), 1))()
        for watch, request in zip(watches, requests, strict=False):
            watch.command, watch.buffer, watch.bytes = request.command, request.buffer, -1
        symbols = (ctypes.c_int64 * max(self.info.symbols, 1))()
        options = native.Options(watch_count=len(requests), watches=watches, symbols=symbols)
        self._run(arrays, None, options)
        ran = [np.empty(watch.bytes, np.uint8) if watch.bytes >= 0 else None for watch in watches[:len(requests)]]
        for watch, room in zip(watches, ran, strict=False):
            watch.data = None if room is None else room.ctypes.data
        self._run(arrays, None, options)
        try:
            return layer_results(requests, ran, dict(zip(debug.symbols, symbols, strict=False)))
        except (ValueError, KeyError, IndexError, TypeError, ArithmeticError, SyntaxError, RecursionError,
                MemoryError) as error:
            raise PackageError(f"does not fit its command table: {error}", hint="build it again",
                               what=f"package {str(self.package.path)!r}, member {self.target.debug!r}") from error

    def _arrays(self, feeds: Mapping[str, Any]) -> list[np.ndarray]:
        check_names(feeds, self._inputs)
        return [as_input(feeds[t.name], t, self.symbols) for t in self._inputs]

    def _run_again(self, feeds: Mapping[str, Any], options: int | None = None) -> list[np.ndarray] | None:
        """Outputs of a run whose inputs are in all that matters like those of one before; None for any other.

        All this does is in `_run` as well. It is short because it is cold whenever it runs: see `frames`. `options` is
        an address.
        """
        handle = self._handle                          # held until this run has ended, whoever closes the session
        if not handle:                                 # its code is unloaded
            return None
        try:
            arrays = [feeds[name] for name in self._names]
            idle = self._idle.by_shapes[tuple([array.shape for array in arrays])]
            frame = idle.pop()
        except (LookupError, TypeError, AttributeError):
            return None
        for array, dtype, slot in zip(arrays, self._dtypes, frame.takes, strict=False):
            flags = array.flags
            if array.dtype is not dtype or type(array) is not np.ndarray or not (flags.c_contiguous and flags.aligned):
                idle.append(frame)
                return None
            slot.data = address_of(array)
        if len(feeds) != len(arrays) or not frame.exact or frame.pooled:
            idle.append(frame)
            return None
        outputs = []
        for slot, shape, dtype in frame.gives:
            array = np.empty(shape, dtype)
            slot.data = address_of(array)
            outputs.append(array)
        code = self._call(handle, *frame.arguments, options, frame.failure)
        if code != native.OK:
            self._check(code, frame.error)
        idle.append(frame)
        return outputs

    def _run(self, arrays: Sequence[np.ndarray], given: Mapping[str, np.ndarray] | None,
             options: native.Options | None) -> list[np.ndarray]:
        handle = self._handle
        if not handle:
            raise UsageError("is closed", what="the session", hint="load the package again")
        if options is not None and not 0 <= options.threads <= self.threads:
            raise UsageError(f"is {options.threads}, the session has {self.threads}", what="threads")
        shapes = tuple([a.shape for a in arrays])
        frame = self._idle.take(shapes) or self._frame(arrays, handle)
        outputs = self._run_frame(frame, handle, arrays, given or {}, options)
        self._idle.give_back(shapes, frame)
        return outputs

    def _run_frame(self, frame: Frame, handle: _Handle, arrays: Sequence[np.ndarray], given: Mapping[str, np.ndarray],
                   options: native.Options | None) -> list[np.ndarray]:
        """One run with the slots of `frame`, which is the caller's alone meanwhile."""
        for slot, array in zip(frame.takes, arrays, strict=False):
            slot.data = address_of(array)
        outputs = [room_for(t, size, given.get(t.name)) for t, size in zip(self._outputs, frame.sizes, strict=True)]
        for slot, array in zip(frame.outputs, outputs, strict=False):
            slot.data, slot.bytes = address_of(array), array.nbytes
        chosen = None if options is None else ctypes.byref(options)
        if frame.pooled:
            with self._delivering():
                self._check(self._call(handle, frame.inputs, frame.outputs, chosen, ctypes.byref(frame.error)),
                            frame.error)
                outputs = [taken(t, slot, given.get(t.name)) if size.pooled else array for t, size, slot, array
                           in zip(self._outputs, frame.sizes, frame.outputs, outputs, strict=False)]
        else:
            self._check(self._call(handle, frame.inputs, frame.outputs, chosen, ctypes.byref(frame.error)),
                        frame.error)
        if frame.exact:
            return outputs
        return [array if size.exact else cut_to_shape(array, tuple(slot.shape[:slot.rank]), t.name not in given)
                for t, size, array, slot in zip(self._outputs, frame.sizes, outputs, frame.outputs, strict=False)]

    def _frame(self, arrays: Sequence[np.ndarray], handle: _Handle) -> Frame:
        """A new call frame for inputs of these shapes, which the runtime checks."""
        check_shared_dims(arrays, self._inputs, self.symbols)
        inputs, slots, error = self._input_slots(), self._output_slots(), native.Error()
        for slot, array in zip(inputs, arrays, strict=False):
            slot.data, slot.bytes, slot.rank = address_of(array), array.nbytes, array.ndim
            slot.shape[:array.ndim] = array.shape
        self._check(self._library.functions.mi_session_shapes(handle, inputs, slots, error), error)
        sizes = [Size(tuple(slot.shape[:slot.rank]), slot.bytes, not is_late(t, self.symbols))
                 for t, slot in zip(self._outputs, slots, strict=False)]
        return make_frame(inputs, slots, error, sizes, [t.numpy for t in self._outputs])

    def _delivering(self) -> threading.Lock:
        """Held from a run to the copy of what it left in the session's memory. A forked child has its own."""
        if self._delivery[0] != os.getpid():
            self._delivery = os.getpid(), threading.Lock()
        return self._delivery[1]

    def _check(self, code: int, error: native.Error) -> None:
        if code != native.OK:
            raise _ERRORS.get(code, InputError)(error.message, what=f"model {self.package.model!r}")

    # --- ending ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Free the arena and unload the code, after the runs that are going on. Closing twice is harmless."""
        self._idle = IdleFrames()
        self._handle = _Handle()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handle(ctypes.c_void_p):
    """The runtime's session; null before it is made. It ends when the last who holds it lets go: Session, or a run."""

    library: Library

    def __del__(self) -> None:
        if self:
            self.library.functions.mi_session_destroy(self)
            self.library.close()


_CREATE_HINTS = {
    native.BAD_PLAN: "build the package again",
    native.NO_MEMORY: "give its dynamic dims smaller ranges with --shape, or use fewer threads",
}


def load(path: str | Path, threads: int | None = None, mode: str = "auto", verify: bool = False,
         target: str | None = None) -> Session:
    """Load the package at `path` for this machine.

    `threads` is the most a run may use: by default what the package says, else one per core available. `mode` is
    'auto', 'eco' (one thread) or 'realtime' (all memory, at its upper bound, is touched now, not in the first runs).
    Code, plan and manifest are always hashed, with `verify` the weights as well. Of several targets the most capable
    one that this machine satisfies is taken, or the one for the instruction set that `target` names.
    Loading a package runs its code: load only packages you trust. Raises PackageError.
    """
    return Session(Package(path, verify=verify), threads, mode, target)
