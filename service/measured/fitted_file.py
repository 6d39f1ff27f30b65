"""The file a fit writes: whole or not at all, and over nothing but its like."""

import json
import os
import tempfile
from pathlib import Path

from models.calibration import FORMAT, Calibration
from models.catalogue.own_runs import BASE
from models.errors import Fault, InvalidField

FLAG = "--fit"
MOST_READ = 200
"""Characters of a file that tell whether it is a calibration: its format stands first."""


def check_output(output: Path, runs: Path, profile: str | None) -> None:
    """Refuse a place nothing may be written to, and a profile that is not adapted, before runs are priced."""
    faults = [fault for fault in (_place_fault(output, runs), _profile_fault(profile)) if fault]
    if faults:
        raise InvalidField(*faults)


def write_calibration(output: Path, found: Calibration) -> None:
    """Write a calibration beside its place and move it there, so that nobody reads half of one."""
    text = json.dumps(found.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
    try:
        with tempfile.NamedTemporaryFile("w", dir=output.parent, encoding="utf-8", delete=False) as file:
            beside = Path(file.name)
            try:
                file.write(text)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                beside.replace(output)
            except OSError:
                beside.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InvalidField(_unwritable(output, error)) from error


def _place_fault(output: Path, runs: Path) -> Fault | None:
    try:
        if output.is_dir():
            return Fault(FLAG, str(output), "it is a folder", "Name a file.")
        if not output.parent.is_dir():
            return Fault(FLAG, str(output), "its folder is not there", "Make it, or name another file.")
        if output.exists() and output.samefile(runs):
            return Fault(FLAG, str(output), "it is the file of the runs", "Name another file.")
        if output.exists() and not _is_calibration(output):
            reason = "the file is there already, and no calibration"
            return Fault(FLAG, str(output), reason, "Name another file, or remove that one.")
    except OSError as error:
        return _unwritable(output, error)
    return None


def _is_calibration(output: Path) -> bool:
    """Whether a file begins as ours do, or holds nothing."""
    with output.open(encoding="utf-8", errors="replace") as file:
        head = file.read(MOST_READ)
    return FORMAT in head or not head.strip()


def _profile_fault(profile: str | None) -> Fault | None:
    if profile in (None, BASE):
        return None
    reason = f"own runs adapt the {BASE} profile alone"
    return Fault("--profile", profile, reason, f"Leave it out, or use {BASE}.")


def _unwritable(output: Path, error: OSError) -> Fault:
    return Fault(FLAG, str(output), f"the file cannot be written: {error.strerror}", "Name another file.")
