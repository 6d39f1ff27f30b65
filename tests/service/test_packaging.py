"""What is shipped installs from what is committed: lock, Makefile and Dockerfile agree."""

import re
import shlex
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.service.conftest import ROOT

LOCK = (ROOT / "requirements.lock").read_text()
PINS = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", LOCK, re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTRUCTIONS = [
    line.split(maxsplit=1)
    for line in (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith("#")
]
INSTALLS = [
    "pip install --require-hashes -r requirements.lock",
    "pip install --no-deps --no-build-isolation -e .",
]


def test_the_lock_names_no_host_no_path_and_no_local_version():
    assert not re.search(r"https?:|file:|index-url|find-links|^-|\s@\s|\+\w+", LOCK, re.MULTILINE)


def test_every_pin_has_hashes():
    blocks = re.split(r"^(?=[a-z0-9])", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) > 50
    assert all("--hash=sha256:" in block for block in blocks)


@pytest.mark.parametrize("stated", PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"])
def test_the_lock_holds_what_the_project_asks_for(stated):
    wanted = Requirement(stated)
    assert PINS[wanted.name] in wanted.specifier


@pytest.mark.parametrize("name", ["hatchling", "editables"])
def test_the_lock_holds_what_building_without_isolation_needs(name):
    assert name in PINS


@pytest.mark.parametrize("source", [words[1] for words in INSTRUCTIONS if words[0] == "COPY"])
def test_what_the_image_copies_exists(source):
    arguments = [word for word in shlex.split(source) if not word.startswith("--")]
    if "--from=" in source:
        return
    for path in arguments[:-1]:
        assert (ROOT / path).exists()
        assert f"!{path}" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_image_installs_as_make_does():
    image = [re.sub(r"\S*/|--no-cache-dir ", "", words[1]) for words in INSTRUCTIONS if words[0] == "RUN"]
    made = [re.sub(r"\$\(BIN\)/", "", line.strip()) for line in (ROOT / "Makefile").read_text().splitlines()]
    for step in INSTALLS:
        assert step in made
        assert step in image


def test_the_image_runs_as_a_user_with_few_rights_and_tells_its_health():
    words = {name: value for name, value in INSTRUCTIONS}  # noqa: C416
    assert words["USER"] not in ("root", "0")
    assert "/healthz" in words["HEALTHCHECK"]
    assert words["CMD"] == '["layout-search", "serve", "--host", "0.0.0.0"]'


def test_an_image_has_two_stages():
    assert sum(name == "FROM" for name, *_ in INSTRUCTIONS) == 2


def test_the_console_script_is_there():
    assert PROJECT["scripts"]["layout-search"] == "service.cli:main"
