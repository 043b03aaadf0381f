"""A board for tests: a real ssh server in this process, which the system's own `ssh` client talks to.

    with ssh_server(tmp_path / "board") as server:
        monkeypatch.setenv("META_INFER_SSH", server.ssh)
        with open_device(server.url) as board:
            ...
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from meta_infer.backends.cpu.emulated import emulator
from meta_infer.hardware.device import Board, open_device
from tests.emulators import need_emulator

asyncssh: Any = pytest.importorskip("asyncssh", reason="BOARDS NOT CHECKED: asyncssh is not installed (.[dev])")


def need_ssh() -> None:
    if shutil.which("ssh") is None:
        pytest.skip("BOARDS NOT CHECKED: there is no ssh client; apt-get install openssh-client")


@dataclass
class SshServer:
    """A server on this machine. `url` is what --device takes; `ssh` what META_INFER_SSH has to be."""

    port: int
    ssh: str
    folder: Path
    environment: dict[str, str]
    commands: list[str] = field(default_factory=list)
    _stop: Any = None

    @property
    def url(self) -> str:
        return f"ssh://me@127.0.0.1:{self.port}"

    def left_behind(self) -> list[Path]:
        """What lies in the folder for temporary files."""
        return list(self.folder.iterdir())

    def hang_up(self) -> None:
        """Ends all connections, and takes no new ones."""
        self._stop()


@contextmanager
def ssh_server(place: Path, environment: Mapping[str, str] | None = None, greeting: str = "") -> Iterator[SshServer]:
    """Runs a server whose keys, configuration and temporary files lie in `place`; its shell prints a greeting first."""
    need_ssh()
    place.mkdir(parents=True, exist_ok=True)
    key, host_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    key.write_private_key(str(place / "key"))
    (place / "key").chmod(0o600)
    temporary = place / "tmp"
    temporary.mkdir()
    hello = f"echo {greeting}; " if greeting else ""
    env = {**os.environ, "TMPDIR": str(temporary), **(environment or {})}
    loop = asyncio.new_event_loop()
    server = SshServer(0, "", temporary, env)
    children: set[Any] = set()
    connections: set[Any] = set()

    class Door(asyncssh.SSHServer):                                          # type: ignore[misc]
        def connection_made(self, connection: Any) -> None:
            connections.add(connection)

        def begin_auth(self, username: str) -> bool:
            return True

        def public_key_auth_supported(self) -> bool:
            return True

        def validate_public_key(self, username: str, offered: Any) -> bool:
            return bool(offered.public_data == key.public_data)

    async def serve(process: Any) -> None:
        server.commands.append(process.command)
        child = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", hello + process.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, env=env, start_new_session=True)
        children.add(child)

        async def feed() -> None:
            try:
                while data := await process.stdin.read(1 << 16):
                    child.stdin.write(data)
                    await child.stdin.drain()
            except (OSError, asyncssh.Error):
                pass                                     # the child, or the client, has ended
            child.stdin.close()

        async def tell(source: Any, target: Any) -> None:
            while data := await source.read(1 << 16):
                try:
                    target.write(data)
                    await target.drain()
                except (OSError, asyncssh.Error):
                    return                               # closing the pipe tells the child, as sshd does

        feeding = asyncio.create_task(feed())
        await asyncio.gather(tell(child.stdout, process.stdout), tell(child.stderr, process.stderr))
        code = await child.wait()
        feeding.cancel()
        child._transport.close()
        if process.channel.is_closing():
            pass
        elif code < 0:
            process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
        else:
            process.exit(code)
        children.discard(child)

    async def start() -> Any:
        return await asyncssh.create_server(Door, "127.0.0.1", 0, server_host_keys=[host_key], process_factory=serve,
                                            encoding=None)

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    listening = asyncio.run_coroutine_threadsafe(start(), loop).result(20)
    server.port = listening.get_port()
    (place / "known_hosts").write_text(
        f"[127.0.0.1]:{server.port} {host_key.export_public_key().decode().strip()}\n")
    config = place / "config"
    config.write_text(f"Host *\n  IdentityFile {place}/key\n  IdentitiesOnly yes\n  IdentityAgent none\n"
                      f"  UserKnownHostsFile {place}/known_hosts\n  GlobalKnownHostsFile /dev/null\n")
    server.ssh = f"ssh -F {config}"

    async def stop() -> None:
        listening.close()
        for connection in list(connections):
            connection.abort()
        await asyncio.sleep(0.1)                         # handlers see the end and close their pipes
        for child in list(children):
            try:
                await asyncio.wait_for(child.wait(), 2)  # what cleans up, may
            except TimeoutError:
                os.killpg(child.pid, signal.SIGKILL)
                await child.wait()
        await asyncio.sleep(0.1)

    def stop_now() -> None:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(20)

    server._stop = stop_now
    try:
        yield server
    finally:
        stop_now()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def connected(place: Path, monkeypatch: pytest.MonkeyPatch, arm: bool = False) -> Iterator[Board]:
    """A board of this machine's kind, or an emulated one with an Arm processor."""
    with ssh_server(place / "board", emulated_environment(place / "arm") if arm else None) as server:
        monkeypatch.setenv("META_INFER_SSH", server.ssh)
        with open_device(server.url) as board:
            assert board is not None
            yield board


_SHIMS = {
    "uname": "#!/bin/sh\necho aarch64\n",
    "cat": '#!/bin/sh\nif [ "$1" = /proc/cpuinfo ]; then exec {cat} {place}/cpuinfo; fi\nexec {cat} "$@"\n',
    # What came with the archive and is a program for the board's processor will run under the emulator.
    "tar": """#!/bin/sh
{tar} "$@" || exit $?
for file in *; do
    case "$file" in *.elf) continue;; esac
    case "$(head -c 20 "$file" 2>/dev/null | od -An -tx1 -j16 -N4)" in
    *"02 00 b7 00"*)
        mv "$file" "$file.elf"
        printf '#!/bin/sh\\nexec {emulator} "$0.elf" "$@"\\n' > "$file"
        chmod 700 "$file";;
    esac
done
""",
}
CPUINFO = "".join(f"processor\t: {i}\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n\n"
                  for i in range(2)) + "Model\t\t: Emulated board\n"


def emulated_environment(place: Path) -> dict[str, str]:
    """What makes a server look like an aarch64 board: programs that are sent to it run under qemu."""
    need_emulator("aarch64")
    shims = place / "shims"
    shims.mkdir(parents=True)
    (place / "cpuinfo").write_text(CPUINFO)
    words = {"place": place, "emulator": " ".join(emulator("aarch64") or ()), "cat": shutil.which("cat"),
             "tar": shutil.which("tar")}
    for name, text in _SHIMS.items():
        for word, value in words.items():
            text = text.replace(f"{{{word}}}", str(value))
        (shims / name).write_text(text)
        (shims / name).chmod(0o755)
    return {"PATH": f"{shims}:{os.environ['PATH']}"}
