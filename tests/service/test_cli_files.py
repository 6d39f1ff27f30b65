"""Files a caller names on the command line: what is read of them, and how much."""

import json
import os
import subprocess
import sys

import pytest

from models.errors import InvalidField
from service.files import read_bounded
from service.measured import read_runs
from tests.service.conftest import ROOT
from tests.service.measured_rows import RUNS
from tests.service.test_cli import SMALL, run
from tests.service.test_cli_models import CONFIG, told_in_lines

READERS = (
    ("FILE", ("models", "import")),
    ("--request", ("search", "--request")),
    ("--request", ("evaluate", "--request")),
    ("--model", ("search", *SMALL[2:], "--model")),
    ("--cluster", ("evaluate", *SMALL[:2], *SMALL[4:], "--cluster")),
    ("RUNS.csv", ("validate",)),
)
"""Every place where the command line reads a file, and what its faults are told by."""
OF_QUESTIONS = READERS[:-1]
LIMIT = 4_000_000


def fault_of(read, *arguments):
    with pytest.raises(InvalidField) as error:
        read(*arguments)
    (fault,) = error.value.faults
    return fault


@pytest.mark.parametrize(("flag", "command"), READERS)
def test_a_device_is_refused_before_it_is_read(flag, command):
    start = f"{flag} = '/dev/zero': the file cannot be read: it is a device, not a regular file"
    told_in_lines(run(*command, "/dev/zero"), start)


@pytest.mark.parametrize(("flag", "command"), READERS)
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path, flag, command):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    start = f"{flag} = '{pipe}': the file cannot be read: it is a named pipe, not a regular file"
    told_in_lines(run(*command, str(pipe)), start)


@pytest.mark.parametrize(("flag", "command"), OF_QUESTIONS)
def test_a_file_larger_than_a_body_may_be_is_refused_with_its_size_and_the_limit(tmp_path, flag, command):
    path = tmp_path / "config.json"
    path.write_text(" " * 5_000_000)
    ran = run(*command, str(path))
    told_in_lines(ran, f"{flag} = '{path}': the file is larger than {LIMIT} bytes: it holds 5000000. ")
    assert "LAYOUT_SEARCH_MAX_BODY_BYTES" in ran.stderr


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input_without_an_end_is_read_no_further_than_the_limit(name):
    with open("/dev/zero", "rb") as endless:
        ran = subprocess.run(
            [sys.executable, "-m", "service.cli", "models", "import", name],
            cwd=ROOT,
            stdin=endless,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    told_in_lines(ran, f"FILE = '{name}': the file is larger than {LIMIT} bytes. ")


def test_the_limit_is_the_one_of_the_environment(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG) + " " * 3000)
    ran = run("models", "import", str(path), LAYOUT_SEARCH_MAX_BODY_BYTES="2000")
    told_in_lines(ran, f"FILE = '{path}': the file is larger than 2000 bytes")


def test_a_file_as_large_as_the_limit_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert read_bounded(str(path), "FILE", 10) == b"x" * 10
    assert (
        fault_of(read_bounded, str(path), "FILE", 9).reason == "the file is larger than 9 bytes: it holds 10"
    )


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0"])
def test_what_a_shell_hands_over_is_read(name):
    ran = run("models", "import", name, stdin=json.dumps(CONFIG))
    assert ran.returncode == 0, ran.stderr
    assert "671,026,419,200" in ran.stdout


def test_a_process_substitution_is_read():
    read, write = os.pipe()
    os.write(write, b"{}")
    os.close(write)
    try:
        assert read_bounded(f"/dev/fd/{read}", "FILE", 10) == b"{}"
    finally:
        os.close(read)


def test_a_link_to_a_file_is_read(tmp_path):
    link = tmp_path / "runs.csv"
    link.symlink_to(RUNS)
    assert len(read_runs(link)) == 579


def test_a_file_of_runs_may_be_larger_than_a_question_but_not_without_bound(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_bytes(RUNS.read_bytes() + b"\n" * LIMIT)
    assert len(read_runs(path)) == 579
    os.truncate(path, 64_000_001)
    assert "larger than 64000000 bytes" in fault_of(read_runs, path).reason
