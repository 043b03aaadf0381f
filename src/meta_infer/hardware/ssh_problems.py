"""What `ssh` and a board say when something does not work, as errors that tell what to try."""

from __future__ import annotations

from meta_infer.support.errors import DeviceError, DeviceLostError

_CONNECTION: tuple[tuple[str, str, str], ...] = (
    ("permission denied", "the ssh server takes no key of yours",
     "copy one with ssh-copy-id, or name it in ~/.ssh/config; a password is never asked for"),
    ("host key verification failed", "its host key is unknown, or another one than before",
     "connect once by hand with ssh, and compare the key it shows"),
    ("could not resolve", "its name is not known on the network", "check the name, or give its address"),
    ("connection refused", "it runs no ssh server at that port", "start one there, or give the port: ssh://host:2222"),
    ("no route to host", "there is no way to it on the network", "see whether it is on and connected"),
    ("timed out", "it does not answer", "see whether it is on and connected"),
)
_BOARD: tuple[tuple[str, str, str], ...] = (
    ("no space left", "its disk is full", "free space there, or name another folder: ssh://host/FOLDER"),
    ("read-only file system", "the folder is on a disk that cannot be written",
     "name another folder: ssh://host/FOLDER"),
    ("no such file or directory", "there is no such folder", "name one that is there: ssh://host/FOLDER"),
    ("not found", "it lacks a command", "a board needs sh, tar, mktemp, cat, mkdir and rm; busybox has them all"),
    ("permission denied", "the folder cannot be written, or lets no programs run",
     "name another folder: ssh://host/FOLDER"),
    ("exec format error", "it does not run code for that instruction set", "read its profile: hardware probe --device"),
)


def lost(device: str, said: str, connected: bool = True) -> DeviceError:
    """The error for a connection that broke, or never came about; `said` is what ssh printed."""
    problem, hint = _known(_CONNECTION, said, "see what `ssh` says to it")
    if connected:
        return DeviceLostError(f"the connection broke: {problem}", what=f"device {device}",
                               hint="what was measured before is kept: the same command goes on from there")
    return DeviceError(f"cannot be reached: {problem}", what=f"device {device}", hint=hint)


def refusal(device: str, said: str, doing: str) -> DeviceError:
    """The error for something that the board did not do."""
    problem, hint = _known(_BOARD, said, "run the command there by hand")
    return DeviceError(f"{doing} failed: {problem}", what=f"device {device}", hint=hint)


def _known(known: tuple[tuple[str, str, str], ...], said: str, hint: str) -> tuple[str, str]:
    last = said.splitlines()[-1].strip() if said else "it says nothing"
    for words, problem, what_to_try in known:
        if words in said.lower():
            return f"{problem} ({last})", what_to_try
    return last, hint
