"""`meta-infer hardware`: the profiles that ship, one profile in words, and this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from meta_infer.cli.calibrate import calibrate_machine
from meta_infer.cli.run import DeviceName
from meta_infer.cli.screen import show, show_json, warn

if TYPE_CHECKING:
    from meta_infer.hardware.profile import Profile

hardware = typer.Typer(no_args_is_help=True, rich_markup_mode=None,
                       help="List, show, probe and calibrate hardware profiles.\n\nExample: meta-infer hardware list")
hardware.command("calibrate")(calibrate_machine)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def profile_names() -> list[str]:
    """'native' and the names in the catalog; also the shell's completions of `--hardware`."""
    from meta_infer.hardware.load import NATIVE, catalog_names

    return [NATIVE, *catalog_names()]


@hardware.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """List the profiles that ship, and this machine.

    Example: meta-infer hardware list
    """
    from meta_infer.hardware.load import load_profile

    profiles = [(name, load_profile(name)) for name in profile_names()]
    if as_json:
        show_json([{"name": name, **profile_facts(profile)} for name, profile in profiles])
        return
    from rich.table import Table

    table = Table("profile", "kind", "figures", "description", box=None, pad_edge=False)
    for name, profile in profiles:
        table.add_row(name, profile.kind, "measured" if profile.backend else "estimates",
                      profile.chip.description or "")
    show(table, "", "figures: 'measured' means that packages run on such a machine; 'estimates' that no code",
         "generator exists yet: packages are checked on this machine. Your own profile: give its path.")


@hardware.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(help="A profile's name, 'native', or the path of a YAML file.",
                                        autocompletion=profile_names)],
    source: Annotated[bool, typer.Option("--source", help="Print the file as it was written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the compiler reads from a profile, and what it leaves out.

    Example: meta-infer hardware show edge_npu_v2
    """
    from meta_infer.hardware.load import load_profile

    profile = load_profile(name)
    if as_json:
        show_json({**profile_facts(profile), "chip": profile.chip.model_dump(mode="json", by_alias=True)})
        return
    if source:
        typer.echo(profile.source.rstrip("\n"))
        return
    show(_facts_table(profile))
    for warning in profile.warnings:
        warn(warning)


@hardware.command("probe")
def probe_machine(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the profile to this file.")] = None,
    device: DeviceName = "local",
    as_json: AsJson = False,
) -> None:
    """Read this machine, or a board (cores, instruction set, caches, memory, limits), and print it as a profile.

    Example: meta-infer hardware probe --output my_machine.yaml
    Example: meta-infer hardware probe --device ssh://pi@192.168.1.20 --output board.yaml
    """
    from meta_infer.cli.profile_file import check_output, write_profile
    from meta_infer.hardware.device import open_device
    from meta_infer.hardware.load import NATIVE, parse_profile
    from meta_infer.hardware.probe import probe

    if output is not None:
        check_output(output)
    with open_device(device) as board:
        text, unread = board.probe() if board else probe()
    if output is not None:
        write_profile(output, text)
    if as_json:
        show_json(profile_facts(parse_profile(text, NATIVE if board is None else device, warnings=unread)))
    elif output is None:
        typer.echo(text.rstrip("\n"))
    for warning in unread:
        warn(warning)


def profile_facts(profile: Profile) -> dict[str, Any]:
    """The fields the compiler asks a profile for, as plain data; sizes in bytes, bandwidth in bytes per second."""
    return {
        "profile": profile.name, "description": profile.chip.description, "kind": profile.kind,
        "backend": profile.backend, "isa": profile.isa, "features": sorted(profile.features),
        "simd_bits": profile.simd_bits, "cores": profile.cores, "max_workers": profile.max_workers,
        "clock_ghz": profile.clock_ghz, "macs_per_cycle": dict(profile.macs_per_cycle),
        "l1d_bytes": profile.l1d_bytes, "l2_bytes": profile.l2_bytes, "l3_bytes": profile.l3_bytes,
        "memory_bytes": profile.memory_bytes, "bandwidth_bytes_per_second": profile.bandwidth,
        "supported_ops": None if profile.supported_ops is None else sorted(profile.supported_ops),
        "data_layouts": list(profile.data_layouts), "precisions": list(profile.precisions),
        "aligned_channel": profile.aligned_channel, "warnings": list(profile.warnings),
    }


def _facts_table(profile: Profile) -> Any:
    from rich.table import Table

    from meta_infer.report.units import bytes_text

    table = Table("field", "value", box=None, pad_edge=False, show_header=False)
    for key, value in profile_facts(profile).items():
        if key == "warnings":
            continue
        if value is None or value == [] or value == {}:
            text = "everything" if key == "supported_ops" and value is None else "not stated"
        elif key.endswith("_bytes"):
            text = bytes_text(value)
        elif key == "bandwidth_bytes_per_second":
            text = f"{value / 1e9:g} GB/s"
        elif isinstance(value, dict):
            text = ", ".join(f"{word} {rate:g}" for word, rate in value.items())
        elif isinstance(value, list):
            text = ", ".join(value)
        else:
            text = str(value)
        table.add_row(key.removesuffix("_bytes").removesuffix("_bytes_per_second"), text)
    return table
