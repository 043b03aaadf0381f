"""Where measurements run: this machine, or a board that an ssh server connects.

    local                                  this machine
    ssh://[user@]host[:port][/folder]      a board; temporary files go below `folder`, by default its TMPDIR or /tmp

A board needs a Linux with an ssh server, a POSIX shell and tar: no Python, no compiler, nothing of this project. The
system's `ssh` client connects, with the user's own configuration and keys; it never asks a question. Everything sent
lies in one folder, which the board removes when the connection ends, however it ends.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import urlsplit

from meta_infer.hardware.board_facts import read_board
from meta_infer.hardware.load import parse_profile
from meta_infer.hardware.profile import Profile
from meta_infer.hardware.ssh_problems import lost, refusal
from meta_infer.support.errors import DeviceError, DeviceLostError, UsageError
from meta_infer.support.streams import timed_lines
from meta_infer.support.switches import read_switches

T = TypeVar("T")
LOCAL = "local"
_OPTIONS = ("-T", "-a", "-x", "-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none", "-o", "BatchMode=yes",
            "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
            "-o", "LogLevel=ERROR", "-o", "ControlPersist=no")
_LONGEST_SOCKET = 80
"""Bytes of a socket's path that ssh, which adds some, and the system still take."""
_MARK, _BEGIN = "meta-infer-folder ", "meta-infer-begin"
_NO_FOLDER = 73
_PATIENCE = 30.0
"""Seconds that a board may take to connect, and for a short command."""


@dataclass(frozen=True)
class Address:
    """How a board is reached; `folder` is where its temporary files go, empty for its own choice."""

    text: str
    host: str
    user: str = ""
    port: int | None = None
    folder: str = ""

    @property
    def arguments(self) -> list[str]:
        """What ssh is told after its options."""
        port = [] if self.port is None else ["-p", str(self.port)]
        return [*port, "--", f"{self.user}@{self.host}" if self.user else self.host]


def parse_device(text: str) -> Address | None:
    """The board that `--device` names, None for this machine. Raises UsageError."""
    if text == LOCAL:
        return None
    hint = "give local, or a board as ssh://[user@]host[:port]"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"is no address: {error}", what=f"--device {text}", hint=hint) from error
    if parts.scheme != "ssh" or not parts.hostname or parts.password or parts.query or parts.fragment:
        problem = ("holds a password, which anybody on this machine can read" if parts.password
                   else "is neither 'local' nor ssh://[user@]host[:port]")
        raise UsageError(problem, what=f"--device {text}",
                         hint="use a key: ssh-copy-id" if parts.password else hint)
    # urlsplit lowers the case of the host, which an alias of the user's ssh configuration may have.
    host = re.sub(r":\d*$", "", parts.netloc.rpartition("@")[2]).strip("[]")
    return Address(text, host, parts.username or "", port, parts.path.rstrip("/"))


@contextmanager
def open_device(text: str) -> Iterator[Board | None]:
    """The connected board that `--device` names, None for this machine. Raises UsageError, DeviceError."""
    address = parse_device(text)
    if address is None:
        yield None
        return
    with Board(address) as board:
        yield board


def require_fit(board: Board, targets: Sequence[Profile]) -> None:
    """Raises DeviceError unless code for one of `targets` runs on the board."""
    if any(target.runs_on(board.profile) for target in targets):
        return
    wanted = ", ".join(f"{target.name!r} ({target.isa})" for target in targets)
    raise DeviceError(f"runs code for {board.profile.isa or 'nothing known'}, the profile is {wanted}",
                      what=f"device {board.address.text}",
                      hint=f"meta-infer hardware probe --device {board.address.text} --output board.yaml, then "
                           "--hardware board.yaml")


@dataclass(frozen=True)
class Ended:
    """How a command on a board ended: its exit code, the signal that killed it, the last line of its errors."""

    code: int
    error: str

    @property
    def signal(self) -> str:
        """The signal's name, or nothing. A shell adds 128 to a signal's number."""
        numbers = {s.value for s in signal.Signals}
        return signal.Signals(self.code - 128).name if self.code - 128 in numbers else ""


class Running:
    """A command on a board. Use as a context manager: leaving it ends the command."""

    def __init__(self, board: Board, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._board, self._process, self._errors = board, process, errors

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        # The command there dies by its own alarm, or when it writes its next line.
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def lines(self, patience: float) -> Iterator[str]:
        """What it prints, until its end. Raises TimeoutError when it is silent for `patience` seconds."""
        assert self._process.stdout is not None
        return timed_lines(self._process.stdout, patience)

    def end(self) -> Ended:
        """How it ended. Raises DeviceLostError when the connection did."""
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        if code in (255, -signal.SIGPIPE):
            raise lost(self._board.address.text, said)
        return Ended(code, said.splitlines()[-1] if said else "")


class Board:
    """A connected board. Use as a context manager. Raises DeviceError where the board refuses."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.folder = ""
        self._keeper: subprocess.Popen[bytes] | None = None
        self._control = ""
        self._sent: dict[str, str] = {}
        self._jobs = 0

    def __enter__(self) -> Board:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Opens the connection, once more where it broke, and makes the folder on the board."""
        self.close()
        self._control = _socket_folder()
        begin = f'"{self.address.folder}"' if self.address.folder else '"${TMPDIR:-/tmp}"'
        script = (f"umask 077; d=$(mktemp -d {begin}/meta-infer-XXXXXX) || exit {_NO_FOLDER}; echo \"{_MARK}$d\"; "
                  'trap "" HUP INT TERM PIPE; cat >/dev/null; rm -rf "$d"')
        with tempfile.TemporaryFile() as errors:
            self._keeper = self._start(script, errors, stdin=subprocess.PIPE, master=True)
            assert self._keeper.stdout is not None
            try:
                self.folder = next((line.removeprefix(_MARK) for line in timed_lines(self._keeper.stdout, _PATIENCE)
                                    if line.startswith(_MARK)), "")
            except TimeoutError:
                self.close()
                raise DeviceError(f"does not answer within {_PATIENCE:g} s", what=self._what,
                                  hint="see whether it is on, and reachable by ssh") from None
            if not self.folder:
                code = self._keeper.wait()
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip()
                self.close()
                if code == _NO_FOLDER:
                    raise refusal(self.address.text, said, "making a temporary folder")
                raise lost(self.address.text, said, connected=False)

    def close(self) -> None:
        """Ends the connection; the board removes its folder."""
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()                    # the board's shell sees its end, removes the folder, and ends
            try:
                self._keeper.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._keeper.kill()
                self._keeper.wait()
            if self._keeper.stdout is not None:
                self._keeper.stdout.close()
        if self._control:
            shutil.rmtree(self._control, ignore_errors=True)
        self._keeper, self._control, self.folder, self._sent = None, "", "", {}

    @cached_property
    def profile(self) -> Profile:
        """The profile of the board as it shows itself."""
        text, unread = self.probe()
        return parse_profile(text, self.address.text, warnings=unread)

    def probe(self) -> tuple[str, tuple[str, ...]]:
        """Text of the board's profile, and warnings about what could not be read."""
        return read_board(self.output, self.address.host)

    @property
    def cpu(self) -> str:
        """Its processor by name: a part of the key of every measurement."""
        return self.profile.chip.description or str(self.profile.isa)

    def output(self, script: str, patience: float = _PATIENCE) -> bytes:
        """What a short script prints. Raises DeviceError when it fails."""
        with tempfile.TemporaryFile() as errors:
            process = self._start(f"echo {_BEGIN}; {script}", errors)
            try:
                said, _ = process.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise lost(self.address.text, f"no answer within {patience:g} s") from None
            self._check(process.returncode, errors, f"running {script.split(maxsplit=1)[0]}")
            # Some login shells greet even those who are not at a terminal.
            return bytes(said.partition(f"{_BEGIN}\n".encode())[2])

    @contextmanager
    def job(self, files: Mapping[str, Path | bytes]) -> Iterator[str]:
        """A new folder on the board with these files by name; it goes away afterwards."""
        self._jobs += 1
        folder = f"{self.folder}/job{self._jobs}"
        try:
            self._send(f"job{self._jobs}", files)
            yield folder
        finally:
            try:
                self.output(f"rm -rf {shlex.quote(folder)}")
            except DeviceError:
                pass                                      # the connection is gone: its end removes all

    def keep(self, file: Path) -> str:
        """Path on the board of a program or library, sent once for as long as the connection lasts."""
        data = file.read_bytes()
        name = sha256(data).hexdigest()[:24]
        if name not in self._sent:
            self._send(".", {name: data})
            self._sent[name] = f"{self.folder}/{name}"
        return self._sent[name]

    def run(self, folder: str, command: Sequence[str]) -> Running:
        """Starts a command in a folder of the board. It should end by itself when it cannot write or hangs."""
        # `exit` keeps the shell alive, so that it tells by which signal the command died.
        script = f"cd {shlex.quote(folder)} && {shlex.join(command)}; exit $?"
        errors = tempfile.TemporaryFile()
        return Running(self, self._start(script, errors), errors)

    def again(self, work: Callable[[], T]) -> T:
        """What `work` gives, which is done once more where the connection breaks. Raises DeviceError."""
        try:
            return work()
        except DeviceLostError:
            self.connect()
            return work()

    @property
    def _what(self) -> str:
        return f"device {self.address.text}"

    def _start(self, script: str, errors: IO[bytes], stdin: int = subprocess.DEVNULL,
               master: bool = False) -> subprocess.Popen[bytes]:
        # A login shell may be anything; what is asked of it is to start sh.
        command = [*read_switches().ssh, *_OPTIONS, "-o", f"ControlMaster={'yes' if master else 'no'}", "-o",
                   f"ControlPath={self._control}/s", *self.address.arguments, f"exec sh -c {shlex.quote(script)}"]
        try:
            return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=errors,
                                    start_new_session=True)
        except OSError as error:
            raise DeviceError(f"cannot be reached: {command[0]}: {error.strerror}", what=self._what,
                              hint="install an ssh client (apt-get install openssh-client)") from error

    def _send(self, folder: str, files: Mapping[str, Path | bytes]) -> None:
        """Copies files into a folder within that of the board, which is made where it is not there."""
        script = (f"cd {shlex.quote(self.folder)} || exit {_NO_FOLDER}; mkdir -p {folder} && cd {folder} && "
                  "exec tar xf -")
        with tempfile.TemporaryFile() as errors:
            process = self._start(script, errors, stdin=subprocess.PIPE)
            assert process.stdin is not None and process.stdout is not None
            try:
                with tarfile.open(fileobj=process.stdin, mode="w|") as archive:
                    for name, content in files.items():
                        entry = tarfile.TarInfo(name)
                        entry.mode = 0o700
                        with (BytesIO(content) if isinstance(content, bytes) else content.open("rb")) as data:
                            entry.size = data.seek(0, 2)
                            data.seek(0)
                            archive.addfile(entry, data)
                process.stdin.close()
            except BrokenPipeError:
                pass                                      # it ended early: its errors say why
            finally:
                process.stdout.read()
                process.stdout.close()
                process.wait()
            self._check(process.returncode, errors, "copying files to it")

    def _check(self, code: int, errors: IO[bytes], doing: str) -> None:
        if code == 0:
            return
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()
        if code in (255, _NO_FOLDER):
            raise lost(self.address.text, said)
        raise refusal(self.address.text, said or f"exit code {code}", doing)


def _socket_folder() -> str:
    folder = tempfile.mkdtemp(prefix="mi-")
    if len(folder) > _LONGEST_SOCKET:
        shutil.rmtree(folder)
        folder = tempfile.mkdtemp(prefix="mi-", dir="/tmp")
    return folder


