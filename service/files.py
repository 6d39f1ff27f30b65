"""Read what a caller names: a regular file, or a stream handed to the process; never more than is allowed."""

import os
import stat
import sys
from pathlib import Path

from models.errors import Fault, InvalidField

STDIN = "-"
HANDED = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Where a shell puts what it hands over, as `<(…)` does; a pipe there has a writer."""
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def read_bounded(name: str, flag: str, most: int, raised_by: str | None = None) -> bytes:
    """Return what a file or a stream holds, if that is not more than `most` bytes.

    Parameters
    ----------
    name
        A path, or "-" for standard input.
    flag
        What the caller named it by; faults stand there.
    most
        Most bytes that are read.
    raised_by
        The setting that raises the limit, if there is one.

    Raises
    ------
    InvalidField
        When it cannot be read, is neither a file nor handed over, or is larger.
    """
    try:
        content = _content(name, flag, most)
    except OSError as error:
        fault = Fault(flag, name, f"the file cannot be read: {error.strerror}", "Name a readable file.")
        raise InvalidField(fault) from error
    if len(content) > most:
        raise InvalidField(_too_large(name, flag, most, raised_by))
    return content


def _content(name: str, flag: str, most: int) -> bytes:
    """At most one byte more than is allowed."""
    if name == STDIN:
        return sys.stdin.buffer.read(most + 1)
    if not name.startswith(HANDED):
        _refuse_irregular(name, flag)
    with Path(name).open("rb") as file:
        return file.read(most + 1)


def _refuse_irregular(name: str, flag: str) -> None:
    """Refuse what may have no end, or nobody who writes it, before it is opened."""
    kind = stat.S_IFMT(Path(name).stat().st_mode)
    if kind != stat.S_IFREG:
        reason = f"the file cannot be read: it is {KINDS.get(kind, 'no file')}, not a regular file"
        raise InvalidField(Fault(flag, name, reason, "Name a regular file, or /dev/stdin."))


def _too_large(name: str, flag: str, most: int, raised_by: str | None) -> Fault:
    size = _size(name)
    held = f": it holds {size}" if size > most else ""
    fix = "Name a smaller file" + (f", or raise {raised_by}." if raised_by else ".")
    return Fault(flag, name, f"the file is larger than {most} bytes{held}", fix)


def _size(name: str) -> int:
    """Bytes of a file; 0 where only reading tells."""
    return 0 if name == STDIN else os.stat(name).st_size
