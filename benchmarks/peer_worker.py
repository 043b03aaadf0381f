"""A process in which one engine runs one model: started by benchmarks/peers.py in an environment of the peers' own.

It imports numpy and the engine alone. Requests come as JSON lines on standard input, each is answered by one line:

    {"do": "load", "engine": "mnn", "file": "m.mnn", "inputs": "in.npz", "outputs": ["y"], "threads": 1}
                                      -> {"import": s, "load": s, "first": s, "base": bytes, "version": "3.6.1"}
    {"do": "run", "seconds": 0.2}     -> {"seconds": [...], "resident": bytes}
    {"do": "save", "file": "out.npz"} -> {"outputs": n}
    {"do": "quit"}                    -> {}

What goes wrong is answered by {"error": text}. Whatever an engine prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
Run = Callable[[], Sequence[np.ndarray]]
Request = Mapping[str, Any]


def meta_infer(request: Request, inputs: Arrays) -> tuple[Callable[[], Run], str]:
    from meta_infer import __version__
    from meta_infer.runtime.session import load

    def make() -> Run:
        session = load(request["file"], threads=request["threads"])
        return lambda: session.run(None, inputs)
    return make, __version__


def onnxruntime(request: Request, inputs: Arrays) -> tuple[Callable[[], Run], str]:
    import onnxruntime as engine

    def make() -> Run:
        options = engine.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = request["threads"], 1
        # Threads that go on spinning after a run would take the core from whoever has the next turn.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        options.log_severity_level = 3
        session = engine.InferenceSession(request["file"], options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, inputs)
    return make, metadata.version("onnxruntime")


def openvino(request: Request, inputs: Arrays) -> tuple[Callable[[], Run], str]:
    import openvino as engine

    def make() -> Run:
        config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": request["threads"], "NUM_STREAMS": 1,
                  "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
        compiled = engine.Core().compile_model(request["file"], "CPU", config)
        ask = compiled.create_infer_request()

        def run() -> Sequence[np.ndarray]:
            found = ask.infer(inputs, share_inputs=True, share_outputs=False)
            return [found[output] for output in compiled.outputs]
        return run
    return make, metadata.version("openvino")


def mnn(request: Request, inputs: Arrays) -> tuple[Callable[[], Run], str]:
    import MNN as engine

    def make() -> Run:
        runtime = engine.nn.create_runtime_manager(({
            "backend": "CPU", "precision": "high", "memory": "normal", "power": "normal",
            "numThread": request["threads"]},))
        net = engine.nn.load_module_from_file(request["file"], list(inputs), list(request["outputs"]),
                                              runtime_manager=runtime, shape_mutable=False)
        kinds = {"f": engine.expr.float, "i": engine.expr.int}
        arrays = {name: a.astype(np.int32) if a.dtype.kind == "i" else a for name, a in inputs.items()}
        places = [engine.expr.placeholder(list(a.shape), engine.expr.NCHW, kinds[a.dtype.kind])
                  for a in arrays.values()]

        def run() -> Sequence[np.ndarray]:
            for place, array in zip(places, arrays.values(), strict=True):
                place.write(array)
            found = net.forward(places)
            found = found if isinstance(found, (list, tuple)) else [found]
            return [np.array(engine.expr.convert(one, engine.expr.NCHW).read()) for one in found]
        return run
    return make, metadata.version("MNN")


def ncnn(request: Request, inputs: Arrays) -> tuple[Callable[[], Run], str]:
    import ncnn as engine

    def make() -> Run:
        net = engine.Net()
        for name in dir(net.opt):
            if name.startswith(("use_fp16_", "use_bf16_")):
                setattr(net.opt, name, False)
        net.opt.num_threads = request["threads"]
        graph = request["file"]
        for load, file in ((net.load_param, graph), (net.load_model, graph.removesuffix("param") + "bin")):
            if load(file) != 0:
                raise RuntimeError(f"ncnn cannot load {os.path.basename(file)}")
        arrays = [a.astype(np.int32) if a.dtype.kind == "i" else a for a in inputs.values()]
        ways = [{} if axis < 0 else {"batch_index": axis} for axis in request["batch"]]

        def run() -> Sequence[np.ndarray]:
            ask = net.create_extractor()
            for i, array in enumerate(arrays):
                ask.input(f"in{i}", engine.Mat(array, **ways[i]).clone())
            found = []
            for i in range(len(request["outputs"])):
                code, out = ask.extract(f"out{i}")
                if code != 0:
                    raise RuntimeError(f"ncnn cannot compute output {i}")
                found.append(np.array(out))
            return found
        return run
    return make, metadata.version("ncnn")


ENGINES: Mapping[str, Callable[[Request, Arrays], tuple[Callable[[], Run], str]]] = {
    "meta-infer": meta_infer, "onnxruntime": onnxruntime, "openvino": openvino, "mnn": mnn, "ncnn": ncnn}


def resident() -> int:
    """Bytes of this process that lie in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class Worker:
    """Answers requests; the model is there after the first one."""

    def __init__(self) -> None:
        self._run: Run | None = None

    def answer(self, request: Request) -> dict[str, Any]:
        do = request["do"]
        if do == "load":
            return self._load(request)
        if do == "quit":
            return {}
        if self._run is None:
            raise RuntimeError("nothing is loaded")
        if do == "run":
            self._run()
            times, end = [], time.perf_counter() + request["seconds"]
            while not times or time.perf_counter() < end:
                start = time.perf_counter()
                self._run()
                times.append(time.perf_counter() - start)
            return {"seconds": times, "resident": resident()}
        outputs = self._run()
        np.savez(request["file"], **{f"{i:03}": a for i, a in enumerate(outputs)})
        return {"outputs": len(outputs)}

    def _load(self, request: Request) -> dict[str, Any]:
        with np.load(request["inputs"]) as found:
            inputs = {name: found[name] for name in found.files}
        base, clock = resident(), time.perf_counter
        start = clock()
        make, version = ENGINES[request["engine"]](request, inputs)
        imported = clock()
        self._run = make()
        loaded = clock()
        self._run()
        return {"import": imported - start, "load": loaded - imported, "first": clock() - loaded, "base": base,
                "version": version}


def main() -> None:
    """Requests until 'quit' or the end of the input."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                                          # what engines print must not get between the replies
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = worker.answer(request)
        except Exception as error:                         # any engine may raise anything: its row says what
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        if request["do"] == "quit":
            return


if __name__ == "__main__":
    main()
