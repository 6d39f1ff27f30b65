"""The committed spreads and figures of own runs are those the command gives, and adapting helps."""

import importlib
from pathlib import Path

import pytest

from models.catalogue.own_runs import own_runs_rules
from tests.service.conftest import ROOT


@pytest.fixture(scope="module")
def own():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "bench"))
        yield importlib.import_module("own_runs")


@pytest.fixture(scope="module")
def every(own):
    return own.every_cluster()


def test_the_committed_spreads_are_those_of_the_published_runs(own, every):
    known, committed = own.spreads(every), own.committed()
    assert committed["spreads"] == pytest.approx(known.terms, rel=0.1)
    assert committed["scatter"] == pytest.approx(known.scatter, rel=0.1)


def test_the_rules_hold_the_committed_spreads(own):
    committed = own.committed()
    assert {name: term.spread for name, term in own_runs_rules().terms.items()} == committed["spreads"]
    assert own_runs_rules().scatter.model_dump() == committed["scatter"]
    text = Path(own.RULES).read_text(encoding="utf-8")
    assert own.rules_file(text, own.Spreads(committed["spreads"], committed["scatter"])) == text


def test_the_page_shows_the_committed_figures(own):
    assert own.section(own.committed()) in own.PAGE.read_text(encoding="utf-8"), "bench/own_runs.py writes it"


def test_the_readme_quotes_the_committed_figures(own):
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for size in ("1", "10"):
        mean = own.committed()["all"][size]["mean"]
        assert f"{mean['before'] * 100:.1f} % to {mean['after'] * 100:.1f} %" in readme, size


def test_adapting_to_one_run_helps_in_the_mean_and_the_median_and_to_more_runs_helps_more_clusters(own):
    told = own.committed()["all"]
    for size, one in told.items():
        assert one["mean"]["after"] < one["mean"]["before"]
        assert one["median"]["after"] < one["median"]["before"]
        assert one["better"] > one["worse"] or (size == "1" and one["better"] == one["worse"])
        assert one["mean"]["inside"] >= 0.9


def test_a_committed_draw_is_what_adapting_gives(own, every):
    """The smallest clusters, drawn again as the command draws them."""
    committed = own.committed()["clusters"]
    for place, cluster in enumerate(every):
        name = f"{cluster.source}, {cluster.gpu}"
        if name in committed and cluster.configurations <= 3:
            own._keep(every)
            for size, told in own._drawn(place).items():
                assert told == pytest.approx(committed[name]["drawn"][size], abs=2e-3), (name, size)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_committed_figures_are_those_the_command_gives(own, every):
    again, committed = own.figures(every, own.spreads(every)), own.committed()
    for name, told in committed["clusters"].items():
        for size, one in told["drawn"].items():
            assert again["clusters"][name]["drawn"][size] == pytest.approx(one, abs=3e-3), (name, size)
