"""A board behind an ssh server: addresses, its folder, its profile, and what goes wrong with the connection."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_infer.backends.cpu.child import child_environment
from meta_infer.hardware.device import Board, open_device, parse_device, require_fit
from meta_infer.hardware.load import load_profile
from meta_infer.support.errors import DeviceError, DeviceLostError, UsageError
from tests.boards import SshServer, emulated_environment, ssh_server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "board") as server:
        monkeypatch.setenv("META_INFER_SSH", server.ssh)
        yield server


@pytest.fixture
def board(server: SshServer) -> Iterator[Board]:
    with open_device(server.url) as board:
        assert board is not None
        yield board


def test_addresses() -> None:
    assert parse_device("local") is None
    full = parse_device("ssh://Me@Big-Board:2222/var/tmp/")
    assert full is not None
    assert (full.user, full.host, full.port, full.folder) == ("Me", "Big-Board", 2222, "/var/tmp")
    assert full.arguments == ["-p", "2222", "--", "Me@Big-Board"]
    v6 = parse_device("ssh://[fe80::1]:22")
    assert v6 is not None and (v6.host, v6.port) == ("fe80::1", 22)
    bare = parse_device("ssh://host")
    assert bare is not None and bare.arguments == ["--", "host"]


@pytest.mark.parametrize("text", ["", "board", "http://board", "ssh://", "ssh://a:b@host", "ssh://host:99999",
                                  "ssh://host?x", "ssh:host"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_device(text)
    assert "--device" in str(caught.value) and caught.value.hint


def test_an_address_cannot_hold_an_option_of_ssh() -> None:
    address = parse_device("ssh://-oProxyCommand=touch/x")
    assert address is not None and address.arguments[-2] == "--"


def test_the_board_is_read_as_this_machine_is(board: Board) -> None:
    here = load_profile("native")
    there = board.profile
    for field in ("isa", "features", "cores", "clock_ghz", "l1d_bytes", "l2_bytes", "l3_bytes", "memory_bytes"):
        assert getattr(there, field) == getattr(here, field), field
    assert board.cpu == (here.chip.description or str(here.isa))
    require_fit(board, [here])
    with pytest.raises(DeviceError, match="the profile is .*aarch64.*\n.*hardware probe --device ssh://me@"):
        require_fit(board, [load_profile("cortex-a55")])


def test_files_and_lines(board: Board, server: SshServer, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(bytes(range(256)) * 4096)
    with board.job({"small": b"a b\nc", "it's": big}) as folder:
        assert board.output(f"cat {shlex.quote(folder)}/it*") == big.read_bytes()
        with board.run(folder, ["sh", "-c", "cat small; echo; echo last >&2; exit 3"]) as running:
            assert list(running.lines(10)) == ["a b", "c"]
            ended = running.end()
        assert (ended.code, ended.signal, ended.error) == (3, "", "last")
    assert not Path(folder).exists()


def test_a_shell_that_greets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ssh_server(tmp_path / "board", greeting="Welcome") as server:
        monkeypatch.setenv("META_INFER_SSH", server.ssh)
        with open_device(server.url) as board:
            assert board is not None and board.profile.isa == load_profile("native").isa
            with board.job({"a": b"\0\1\n"}) as folder:
                assert board.output(f"cat {folder}/a") == b"\0\1\n"


def test_how_a_command_dies(board: Board) -> None:
    with board.job({}) as folder:
        for signal in ("ILL", "SEGV", "KILL", "ALRM"):
            with board.run(folder, ["sh", "-c", f"kill -{signal} $$"]) as running:
                assert list(running.lines(10)) == []
                assert running.end().signal == f"SIG{signal}"
        with board.run(folder, ["./no-such-program"]) as running:
            assert running.end().code == 127
        begun = time.monotonic()
        with board.run(folder, ["sleep", "100"]) as running, pytest.raises(TimeoutError):
            list(running.lines(0.2))
        assert time.monotonic() - begun < 20


def test_what_is_kept_is_sent_once(board: Board, server: SshServer, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"#!/bin/sh\necho $1\n")
    first = board.keep(tmp_path / "a")
    sent = len(server.commands)
    assert board.keep(tmp_path / "b") == first and len(server.commands) == sent
    with board.job({}) as folder, board.run(folder, [first, "word"]) as running:
        assert list(running.lines(10)) == ["word"]


def test_the_folder_goes_away(server: SshServer) -> None:
    with open_device(server.url) as board:
        assert board is not None and [str(f) for f in server.left_behind()] == [board.folder]
    assert server.left_behind() == []
    with pytest.raises(RuntimeError, match="mine"), open_device(server.url):
        raise RuntimeError("mine")
    assert server.left_behind() == []


def test_the_folder_goes_away_when_the_connection_breaks(server: SshServer) -> None:
    with open_device(server.url) as board:
        assert board is not None and board._keeper is not None
        board._keeper.kill()
        gone = time.monotonic() + 10
        while server.left_behind() and time.monotonic() < gone:
            time.sleep(0.05)
        assert server.left_behind() == []
        with pytest.raises(DeviceLostError):
            board.keep(Path(__file__))
        assert server.left_behind() == []


def test_the_folder_goes_away_when_this_side_is_killed(server: SshServer) -> None:
    text = ("import time; from meta_infer.hardware.device import open_device\n"
            f"with open_device({server.url!r}) as board:\n    print(board.folder, flush=True); time.sleep(60)")
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, env=child_environment(), text=True)
    assert child.stdout is not None and Path(child.stdout.readline().strip()) in server.left_behind()
    child.kill()
    child.communicate()
    gone = time.monotonic() + 10
    while server.left_behind() and time.monotonic() < gone:
        time.sleep(0.05)
    assert server.left_behind() == []


def test_the_server_goes_away(server: SshServer) -> None:
    with open_device(server.url) as board:
        assert board is not None
        with board.job({}) as folder, board.run(folder, ["sh", "-c", "echo one; sleep 30; echo two"]) as running:
            lines = running.lines(10)
            assert next(lines) == "one"
            server.hang_up()
            assert list(lines) == []
            with pytest.raises(DeviceLostError, match="(?s)the connection broke.*goes on from there"):
                running.end()
        with pytest.raises(DeviceError):
            board.output("true")


def test_a_connection_is_made_again(board: Board, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    before = board.keep(tmp_path / "a")
    board.connect()
    after = board.keep(tmp_path / "a")
    assert after != before and board.output(f"cat {after}") == b"x" and not Path(before).exists()


def refused(url: str) -> str:
    with pytest.raises(DeviceError) as caught, open_device(url):
        pass
    assert caught.value.exit_code == 12 and url in str(caught.value)
    return str(caught.value)


def test_no_server(server: SshServer) -> None:
    server.hang_up()
    assert "runs no ssh server at that port" in refused(server.url)


def test_a_key_that_the_server_does_not_take(server: SshServer) -> None:
    import asyncssh

    key = server.folder.parent / "key"
    key.unlink()
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key))
    key.chmod(0o600)
    assert "takes no key of yours" in refused(server.url)


def test_a_host_key_that_is_not_known(server: SshServer) -> None:
    (server.folder.parent / "known_hosts").write_text("")
    assert "host key is unknown" in refused(server.url)


def test_no_ssh_client(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("META_INFER_SSH", "/no/such/ssh")
    assert "install an ssh client" in refused(server.url)


def test_a_folder_that_cannot_be_written(server: SshServer) -> None:
    text = refused(f"{server.url}/proc/self")
    assert "making a temporary folder failed" in text and "ssh://host/FOLDER" in text


def test_a_board_without_tar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shims = tmp_path / "bin"
    shims.mkdir()
    for name in ("sh", "cat", "mkdir", "mktemp", "rm"):
        (shims / name).symlink_to(Path("/bin") / name)
    with ssh_server(tmp_path / "board", {"PATH": str(shims)}) as server:
        monkeypatch.setenv("META_INFER_SSH", server.ssh)
        with open_device(server.url) as board:
            assert board is not None
            with pytest.raises(DeviceError, match="(?s)copying files to it failed: it lacks a command.*busybox"):
                board.keep(Path(__file__))


def test_a_full_disk(server: SshServer) -> None:
    with open_device(server.url) as board:
        assert board is not None
        with pytest.raises(DeviceError, match="its disk is full"):
            board.output("head -c 1000 /dev/zero > /dev/full")


def test_an_arm_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ssh_server(tmp_path / "board", emulated_environment(tmp_path / "arm")) as server:
        monkeypatch.setenv("META_INFER_SSH", server.ssh)
        with open_device(server.url) as board:
            assert board is not None
            assert board.profile.isa == "aarch64" and board.profile.backend == "cpu"
            assert board.cpu == "Emulated board, cores 0x41/0xd03"
