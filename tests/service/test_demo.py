"""`make run`: a table, an address, and a clean end."""

import os
import signal
import socket
import subprocess
import sys

from tests.service.conftest import ROOT

COMMAND = [sys.executable, "-m", "service.demo"]


def environment(port: int) -> dict[str, str]:
    return os.environ | {"LAYOUT_SEARCH_PORT": str(port)}


def test_once_prints_the_shortlist_and_ends():
    ran = subprocess.run(
        [*COMMAND, "--once"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(8000),
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "MFU" in ran.stdout
    assert "/docs" in ran.stdout


def test_a_taken_port_is_told_and_another_is_served_until_it_is_stopped():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with subprocess.Popen(
            COMMAND, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment(port)
        ) as process:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if "Swagger UI" in line:
                    break
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0
    assert lines[0].startswith(f"Port {port} is taken; serving on ")
