"""Help, errors and exit codes of the command line as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from meta_infer.cli import main as door
from meta_infer.support import errors
from tests.cli.conftest import Cli

COMMANDS = (["build"], ["run"], ["bench"], ["compare"], ["inspect"], ["demo"], ["version"], ["hardware", "list"],
            ["hardware", "show"], ["hardware", "probe"])
COMMAND_LINE = [sys.executable, "-m", "meta_infer.cli.entry"]
DOCS = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example_and_a_line_in_the_docs(cli: Cli, command: list[str]) -> None:
    ended = cli(*command, "--help")
    assert ended.code == 0
    example = f"meta-infer {' '.join(command)}"
    assert f"Example: {example}" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 100
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith(f"| `{' '.join(command)}`")]
    assert len(rows) == 1 and example in rows[0]


def test_help_imports_neither_numpy_nor_onnx() -> None:
    program = ("import sys; from meta_infer.cli.main import main; assert main(['--help']) == 0; "
               "print(sorted({'numpy', 'onnx', 'onnxruntime', 'scipy', 'ortools', 'pydantic'} & set(sys.modules)))")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [["build", "--nope"], ["nope"], ["run"], ["bench", "x.bin", "--threads", "0"]])
def test_a_wrong_flag_exits_with_2(cli: Cli, arguments: list[str]) -> None:
    ended = cli(*arguments)
    assert ended.code == 2 and "Usage: meta-infer" in ended.err and ended.out == ""


def test_every_exit_code_is_in_the_docs() -> None:
    text = DOCS.read_text(encoding="utf-8")
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.MetaInferError)]
    for code in {kind.exit_code for kind in kinds} | {0, door.INTERRUPTED}:
        assert f"\n| {code} |" in text, code


def _failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("meta_infer.cli.version.show", fail)


def test_a_fault_of_ours_is_one_message_that_asks_for_a_report(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch, ZeroDivisionError("division [by] zero"))
    ended = cli("version")
    assert ended.code == 70
    assert ended.err.startswith("error: internal: ") and "ZeroDivisionError: division [by] zero" in ended.err
    assert "META_INFER_DEBUG=1" in ended.err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch, errors.ModelError("is broken", what="file x.onnx", hint="another file"))
    monkeypatch.setenv("META_INFER_DEBUG", "1")
    assert door.main(["version"]) == 3
    err = capsys.readouterr().err
    assert "Traceback" in err and err.endswith("error: frontend: file x.onnx: is broken\n  try: another file\n")


def test_a_switch_that_makes_no_sense(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_VERIFY", "often")
    ended = cli("version")
    assert ended.code == 2 and "META_INFER_VERIFY" in ended.err


def test_interrupted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch, KeyboardInterrupt())
    assert cli("version").code == 130


def _hear_ctrl_c() -> None:
    """A test run in the background ignores SIGINT, and its children would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ctrl_c_while_working(package: Path) -> None:
    child = subprocess.Popen([*COMMAND_LINE, "bench", package, "--duration", "60"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, preexec_fn=_hear_ctrl_c)
    try:
        while not (maps := Path(f"/proc/{child.pid}/maps").read_text()) or "meta-infer-code" not in maps:
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
    assert (child.returncode, out) == (130, "") and err.strip() == "interrupted"


BEGIN = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["meta-infer", "version"]
from meta_infer.cli.entry import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["typer", "meta_infer.cli.build", "rich.console", "meta_infer.cli.version"])
def test_ctrl_c_while_modules_are_imported(module: str) -> None:
    """No traceback, in whichever import it falls."""
    ended = subprocess.run([sys.executable, "-c", BEGIN.format(module=module)], capture_output=True, text=True,
                           preexec_fn=_hear_ctrl_c, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


def test_who_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    """A command in the background of a script, say."""
    ended = subprocess.run([sys.executable, "-c", BEGIN.format(module="typer")], capture_output=True, text=True,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN), check=False)
    assert ended.returncode == 0 and "interrupted" not in ended.stderr


def test_a_reader_that_leaves_causes_no_noise(package: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        ended = subprocess.run([*COMMAND_LINE, "inspect", package, "--code"], stdout=gone, stderr=subprocess.PIPE,
                               text=True)
    assert ended.returncode == 1 and ended.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", [[], ["--json"], ["--code"]])
def test_a_full_disk_behind_the_output(package: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([*COMMAND_LINE, "inspect", package, *arguments], stdout=full, stderr=subprocess.PIPE,
                               text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ") and "no space is left" in ended.stderr and ended.stderr.count("\n") == 2


def test_shell_completion() -> None:
    asked = {**os.environ, "_META_INFER_COMPLETE": "complete_bash", "COMP_WORDS": "meta-infer hardware show edge",
             "COMP_CWORD": "3"}
    ended = subprocess.run(COMMAND_LINE, env=asked, capture_output=True, text=True)
    assert ended.stdout.split() == ["edge_npu_v2"], ended.stderr
