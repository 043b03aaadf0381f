"""`inspect`: nothing of the package runs, everything in it is shown."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli
from tests.kernels.harness import host_isa


def test_inspect(cli: Cli, package: Path) -> None:
    ended = cli("inspect", package, "--verify")
    assert ended.code == 0
    for words in ("x       input   float32  [B (1..8), W (4..256 in steps of 4)]", "weights.bin", host_isa(), "arena"):
        assert words in ended.out
    assert max(map(len, ended.out.splitlines())) <= 100


def test_json(cli: Cli, package: Path) -> None:
    found = cli("inspect", package, "--json").json
    assert found["manifest"]["inputs"][0]["name"] == "x" and found["package_bytes"] == package.stat().st_size
    assert found["report"] == {"note": "hand written"} and found["build_lock"] == {"zig": "0"}


def test_code_by_node(cli: Cli, package: Path) -> None:
    every = cli("inspect", package, "--code", "--json").json
    assert [k["kernel"] for k in every][0] == "double_it" and all(k["code"].startswith("void ") for k in every)
    assert all(k["code"].endswith("\n}") for k in every)
    node = every[0]["nodes"][0]
    one = cli("inspect", package, "--code", "--node", node)
    assert one.code == 0 and one.out.count("// kernel ") == 1 and f"// nodes: {node}" in one.out
    assert cli("inspect", package, "--code", "--node", "*Node").out.count("// kernel ") == len(every)


def test_a_node_that_is_not_there(cli: Cli, package: Path) -> None:
    ended = cli("inspect", package, "--code", "--node", "MulNod")
    assert ended.code == 2 and "did you mean 'MulNode'?" in ended.err
    assert cli("inspect", package, "--node", "MulNode").code == 2


def test_damage_is_found(cli: Cli, package: Path, tmp_path: Path) -> None:
    data = bytearray(package.read_bytes())
    data[data.index(b"hand written") + 1] ^= 1
    damaged = tmp_path / "damaged.bin"
    damaged.write_bytes(data)
    assert cli("inspect", damaged, "--verify").code == 6
