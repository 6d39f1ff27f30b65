"""A server that cannot listen says so in a sentence, and never with the status of an answer."""

import os
import socket
import subprocess
import sys

import pytest

from models.errors import InvalidField
from service.serving import check_address, free_port
from tests.service.conftest import ROOT


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
        check=False,
    )


@pytest.fixture
def taken():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield held.getsockname()[1]


def test_a_taken_port_leaves_with_2_and_one_sentence(taken):
    ran = run("service.cli", "serve", "--port", str(taken))
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith(
        f"--port = {taken}: cannot listen on 127.0.0.1:{taken}, address already in use"
    )


@pytest.mark.parametrize("host", ["203.0.113.7", "no.such.host.invalid", "a" * 70])
def test_an_address_that_is_not_ours_is_the_hosts_fault(host):
    with pytest.raises(InvalidField) as error:
        check_address(host, 0)
    assert [fault.field for fault in error.value.faults] == ["--host"]


def test_a_free_port_is_found_beyond_a_taken_one(taken):
    assert free_port("127.0.0.1", taken) > taken
    with pytest.raises(InvalidField):
        free_port("127.0.0.1", taken, tries=1)


@pytest.mark.parametrize(
    ("name", "value"), [("LAYOUT_SEARCH_PORT", "99999"), ("LAYOUT_SEARCH_HOST", "203.0.113.7")]
)
def test_a_demonstration_that_cannot_start_says_why_in_a_sentence(name, value):
    ran = run("service.demo", "--once", **{name: value})
    assert ran.returncode == 1
    assert value in ran.stderr
    assert "Traceback" not in ran.stderr
