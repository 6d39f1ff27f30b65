"""The commands the README shows work as they stand."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from tests.service import readme_table
from tests.service.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\w*\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
LINES = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]
COMMANDS = [line for line in LINES if line.startswith("layout-search ")]
REQUESTS = [line for line in LINES if line.startswith("curl ")]
TARGETS = [line.split()[1] for line in LINES if line.startswith("make ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_is_answered(command):
    arguments = shlex.split(command)[1:]
    ran = subprocess.run(
        [sys.executable, "-m", "service.cli", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("command", REQUESTS)
def test_a_request_of_the_readme_is_answered(client, command):
    words = shlex.split(command)
    address = next(word for word in words if word.startswith("http://"))
    body = (ROOT / words[words.index("-d") + 1].removeprefix("@")).read_text()
    path = "/" + address.split("/", 3)[3]
    assert client.post(path, json=json.loads(body)).status_code == 200


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_of_the_readme_is_in_the_makefile(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_file_the_readme_links_to_exists():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_the_readme_shows_a_command_a_request_and_targets():
    assert COMMANDS
    assert REQUESTS
    assert TARGETS


@pytest.fixture(scope="module")
def tables():
    return readme_table.shown(), readme_table.printed()


def test_the_places_the_readme_shows_are_those_its_command_prints(tables):
    shown, printed = tables
    assert len(shown.rows) == readme_table.ROWS
    for told, found in zip(shown.rows, printed.rows, strict=False):
        for column in ("#", "TP", "CP", "PP×V", "DP"):
            assert told[column] == found[column], "run `make readme`"
        assert float(told["step s"]) == pytest.approx(float(found["step s"]), abs=0.01), "run `make readme`"
        assert told["peak/limit GB"] == found["peak/limit GB"], "run `make readme`"


def test_the_space_the_readme_tells_is_the_one_its_command_prints(tables):
    shown, printed = (readme_table.WALL.sub("", table.space) for table in tables)
    assert shown == readme_table.shortened(printed), "run `make readme`"


def test_the_readme_table_is_in_the_form_that_make_readme_writes(tables):
    shown, _ = tables
    (block,) = readme_table.BLOCK.findall(README)
    assert block == readme_table.block_of(shown)
