"""Own runs from end to end: a file is fitted, a request carries it, the price moves and says so."""

import csv
import io
import json
from functools import cache

import pytest

from models.calibration import MOST_RUNS, Calibration
from models.catalogue.profiles import profile
from service.measured import ValidateAnswer
from service.measured.reader import COLUMNS
from tests.service.conftest import ROOT
from tests.service.measured_rows import rows, written
from tests.service.shapes import check_problem
from tests.service.test_cli import run

QUESTION = {
    "model": "gpt3-175b",
    "cluster": "dgx-a100",
    "gpus": 1024,
    "workload": {"sequence_length": 2048, "global_batch": 1536, "precision": "fp16"},
    "stack": {"attention_kernel": "unfused"},
}
LAYOUT = {"tp": 8, "pp": 8, "dp": 16, "recompute": "full"}
SOURCE = [row for row in rows().values() if row["id"].startswith("sc21-")]
NEMO = [name for name, row in rows().items() if name.startswith("nemo-") and row["measured_step_s"]][:2]
MATMUL = profile("calibrated").rates.matmul_16.ampere
UNSTATED = ("notes", "params_active_B", "measured_mfu")


def cells(row: dict[str, str]) -> dict[str, str]:
    return {name: cell for name, cell in row.items() if cell and name not in UNSTATED}


OWN = {"runs": [cells(row) for row in SOURCE]}


@cache
def fitted() -> dict:
    """The calibration of ten published A100 runs, as the command writes it."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(SOURCE[0]))
    writer.writeheader()
    writer.writerows(SOURCE)
    place = ROOT / ".pytest_cache"
    place.mkdir(exist_ok=True)
    (place / "own.csv").write_text(text.getvalue(), encoding="utf-8")
    (place / "own.json").unlink(missing_ok=True)
    ran = run("validate", str(place / "own.csv"), "--fit", str(place / "own.json"))
    assert ran.returncode == 0, ran.stderr
    return json.loads((place / "own.json").read_text(encoding="utf-8"))


def evaluated(client, calibration=None, **changes):
    body = QUESTION | {"layout": LAYOUT} | changes
    return client.post(
        "/v1/evaluate", json=body if calibration is None else body | {"calibration": calibration}
    )


def faults_of(answer) -> dict[str, str]:
    return {fault["field"]: fault["reason"] for fault in check_problem(answer, 422)["faults"]}


def test_a_fitted_file_describes_itself():
    found = Calibration.model_validate(fitted())
    assert (found.gpu, found.precisions, found.most_gpus) == ("a100-80gb-sxm", ("fp16",), 3072)
    assert found.cost_model == profile("calibrated").version
    assert found.used == tuple(sorted(row["id"] for row in SOURCE))
    assert found.errors.after.mean < found.errors.before.mean
    assert all(term.default == 1 and term.source and term.meaning for term in found.terms)


def test_validate_prints_what_moved_and_how_the_error_changed(tmp_path):
    ran = run("validate", str(written(tmp_path, SOURCE)), "--fit", str(tmp_path / "own.json"))
    assert ran.returncode == 0, ran.stderr
    told = " ".join(ran.stdout.split())
    assert "Adapted to 10 runs (10 configurations) on a100-80gb-sxm, fp16, up to 3072 GPUs" in told
    assert f"matmul_16.ampere 1 {MATMUL}" in told
    assert "each configuration by the others" in told


def test_json_holds_the_calibration_beside_the_predictions(tmp_path):
    ran = run("validate", str(written(tmp_path, SOURCE)), "--fit", str(tmp_path / "own.json"), "--json")
    told = ValidateAnswer.model_validate_json(ran.stdout)
    assert told.calibration == Calibration.model_validate_json((tmp_path / "own.json").read_bytes())
    plain = run("validate", str(written(tmp_path, SOURCE)), "--json")
    assert ValidateAnswer.model_validate_json(plain.stdout).runs == told.runs


def test_a_calibration_moves_the_time_and_not_the_memory(client):
    plain, own = (evaluated(client, one).raise_for_status().json() for one in (None, fitted()))
    assert own["candidate"]["memory"] == plain["candidate"]["memory"]
    assert own["candidate"]["step_time_s"] != plain["candidate"]["step_time_s"]
    assert sum(own["candidate"]["time"].values()) == pytest.approx(own["candidate"]["step_time_s"])


def test_the_answer_tells_how_many_runs_what_moved_and_how_the_error_changed(client):
    told = evaluated(client, fitted()).json()["assumptions"]
    own = {one["field"]: one for one in told if one["field"].startswith("/calibration")}
    assert own["/calibration"]["value"]["runs"] == 10
    errors = fitted()["errors"]
    assert own["/calibration"]["value"]["mean_error_left_one_out"] == errors["left_one_out"]["mean"]
    moved = {f"/calibration/coefficients/{one['name']}": one for one in fitted()["coefficients"]}
    assert set(own) - {"/calibration"} == set(moved)
    for field, one in moved.items():
        assert own[field]["value"] == one["adapted"]
        assert f"from {one['default']:g}" in own[field]["why"]


def test_the_band_narrows_where_own_runs_agree(client):
    def width(told):
        return told["step_time_high_s"] / told["step_time_low_s"]

    plain, own = (evaluated(client, one).json()["candidate"] for one in (None, fitted()))
    assert width(own) < width(plain)


def test_runs_stated_inline_are_the_same_as_the_file_made_of_them(client):
    assert evaluated(client, OWN).json() == evaluated(client, fitted()).json()


def test_the_same_question_gives_the_same_bytes_whatever_order_its_runs_stand_in(client):
    first = evaluated(client, OWN).content
    assert evaluated(client, OWN).content == first
    assert evaluated(client, {"runs": OWN["runs"][::-1]}).content == first


def test_a_calibration_that_moves_nothing_changes_no_figure(client):
    still = fitted() | {"coefficients": [], "bands": []}
    assert evaluated(client, still).json()["candidate"] == evaluated(client).json()["candidate"]


def test_a_search_prices_its_shortlist_by_the_calibration(client):
    body = QUESTION | {"constraints": {"tp": 8, "pp": [4, 8], "cp": 1, "micro_batch": 1}, "top_k": 2}
    found = client.post("/v1/search", json=body | {"calibration": fitted()}).raise_for_status().json()
    first = found["shortlist"][0]
    priced = evaluated(client, fitted(), layout=first["layout"]).json()["candidate"]
    assert first["step_time_s"] == pytest.approx(priced["step_time_s"], rel=1e-9)
    plain = client.post("/v1/search", json=body).json()
    assert found["space"]["fit"] == plain["space"]["fit"]
    assert first["step_time_s"] != plain["shortlist"][0]["step_time_s"]


def test_a_timeline_in_seconds_follows_the_calibration(client):
    body = QUESTION | {"layout": LAYOUT}
    plain = client.post("/v1/schedule", json=body).raise_for_status().json()["total_s"]
    own = (
        client.post("/v1/schedule", json=body | {"calibration": fitted()})
        .raise_for_status()
        .json()["total_s"]
    )
    assert own != plain
    priced = [evaluated(client, one).json()["candidate"]["step_time_s"] for one in (None, fitted())]
    assert own / plain == pytest.approx(priced[1] / priced[0], rel=0.02)


def test_the_command_line_takes_the_file_and_the_runs(tmp_path):
    (tmp_path / "own.json").write_text(json.dumps(fitted()), encoding="utf-8")
    (tmp_path / "question.json").write_text(json.dumps(QUESTION | {"layout": LAYOUT}), encoding="utf-8")
    told = [
        run(
            "evaluate", "--request", str(tmp_path / "question.json"), "--calibration", str(name), "--json"
        ).stdout
        for name in (tmp_path / "own.json", written(tmp_path, SOURCE))
    ]
    assert json.loads(told[0]) == json.loads(told[1])
    assert any(one["field"] == "/calibration" for one in json.loads(told[0])["assumptions"])


def test_a_calibration_of_another_gpu_is_refused(client):
    told = faults_of(evaluated(client, fitted(), cluster="dgx-h100"))
    assert told == {"/calibration/gpu": "made of runs on a100-80gb-sxm, and the cluster has h100-sxm"}
    told = faults_of(evaluated(client, OWN, cluster="dgx-h100"))
    assert told == {"/calibration/runs": "made of runs on a100-80gb-sxm, and the cluster has h100-sxm"}


def test_a_calibration_of_another_cost_model_is_refused(client):
    told = faults_of(evaluated(client, fitted() | {"cost_model": "calibrated-1"}))
    now = profile("calibrated").version
    assert told == {"/calibration/cost_model": f"made with cost model calibrated-1, and this is {now}"}


def test_the_textbook_takes_no_calibration(client):
    told = faults_of(evaluated(client, fitted(), profile="textbook"))
    assert told == {"/calibration": "own runs adapt the calibrated profile, and textbook is asked for"}


def test_a_precision_no_own_run_is_in_keeps_the_published_band_and_is_warned_of(client):
    workload = QUESTION["workload"] | {"precision": "bf16"}
    plain, own = (evaluated(client, one, workload=workload).json() for one in (None, fitted()))
    assert "No own run is in bf16 (they are in fp16): the published band stays." in own["warnings"]
    for told in (plain, own):
        one = told["candidate"]
        assert one["step_time_high_s"] / one["step_time_s"] == pytest.approx(1.156, abs=0.001)


def test_own_runs_that_contradict_each_other_are_warned_of(client):
    torn = [
        row | {"measured_step_s": str(float(row["measured_step_s"]) * by)}
        for row, by in zip(OWN["runs"][:4], (1.4, 0.7, 1.4, 0.7), strict=True)
    ]
    warnings = evaluated(client, {"runs": torn}).json()["warnings"]
    assert any("predict each other no better" in one for one in warnings)


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"measured_step_s": -3.5}, "measured_step_s", "must be a finite number more than 0"),
        ({"measured_step_s": "nan"}, "measured_step_s", "must be a finite number more than 0"),
        ({"measured_step_s": "1e400"}, "measured_step_s", "must be a finite number more than 0"),
        ({"hidden": None}, "hidden", "must be a whole number"),
        ({"hidden": 1.5}, "hidden", "must be a whole number"),
        ({"tp": 0}, "tp", "below the least accepted, 1"),
        ({"sp": "yes"}, "sp", "must be 0 or 1"),
        ({"weather": "fine"}, "weather", "no column of this name"),
        ({"a/b": 1}, "a~1b", "no column of this name"),
        ({"gpu": ""}, "gpu", "blank, and it has no default"),
    ],
)
def test_a_bad_cell_is_told_at_its_run_and_column(client, change, field, reason):
    runs = [OWN["runs"][0], OWN["runs"][1] | change]
    assert faults_of(evaluated(client, {"runs": runs})) == {f"/calibration/runs/1/{field}": reason}


def test_all_faults_are_told_at_once_those_of_the_question_beside_those_of_the_runs(client):
    runs = [OWN["runs"][0] | {"tp": "x", "pp": "y"}, OWN["runs"][1] | {"id": "sc21-0001", "sp": 7}]
    told = faults_of(evaluated(client, {"runs": runs}, model="gpt3-175", gpus=-1))
    assert set(told) == {
        "/gpus", "/model", "/calibration/runs/0/tp", "/calibration/runs/0/pp", "/calibration/runs/1/sp",
        "/calibration/runs/1/id",
    }  # fmt: skip


def test_an_unknown_gpu_is_told_with_the_labels_that_are_known(client):
    told = faults_of(evaluated(client, {"runs": [OWN["runs"][0] | {"gpu": "H1OO"}]}))
    assert "gpu 'H1OO' is not one of the 14 known labels" in told["/calibration/runs"]


@pytest.mark.parametrize(
    ("calibration", "field"),
    [
        ({}, "/calibration/runs"),
        ({"runs": []}, "/calibration/runs"),
        ({"runs": [{}] * (MOST_RUNS + 1)}, "/calibration/runs"),
        ({"runs": [[]]}, "/calibration/runs/0"),
        ({"runs": [{"hidden": [1]}]}, "/calibration/runs/0/hidden"),
        ({"runs": "runs.csv"}, "/calibration/runs"),
        ("own.json", "/calibration"),
        ([], "/calibration"),
    ],
)
def test_what_is_no_calibration_is_told_where_it_is_none(client, calibration, field):
    assert field in faults_of(evaluated(client, calibration))


@pytest.mark.parametrize(
    ("part", "change", "reason"),
    [
        ("coefficients", {"adapted": 1.36}, "outside what physics allows, 0.5 to 1.35"),
        ("coefficients", {"default": 1.0}, f"the profile has {MATMUL} [1] for matmul_16.ampere"),
        ("coefficients", {"name": "matmul_16.amperes"}, "the cost model has no coefficient"),
        ("bands", {"adapted": 0.01}, "narrower than repeats of one configuration scatter"),
    ],
)
def test_a_file_that_no_fit_wrote_is_refused(client, part, change, reason):
    places = [
        i for i, one in enumerate(fitted()[part]) if one.get("name", "matmul_16.ampere") == "matmul_16.ampere"
    ]
    edited = [dict(one) for one in fitted()[part]]
    edited[places[0]] |= change
    told = faults_of(evaluated(client, fitted() | {part: edited}))
    assert reason in told[f"/calibration/{part}/{places[0]}"]


def test_a_coefficient_that_stands_twice_is_refused(client):
    twice = fitted()["coefficients"][:1] * 2
    told = faults_of(evaluated(client, fitted() | {"coefficients": twice}))
    assert "stands twice" in told["/calibration/coefficients/1"]


def test_a_band_that_stands_twice_is_refused(client):
    told = faults_of(evaluated(client, fitted() | {"bands": fitted()["bands"][:1] * 2}))
    assert told["/calibration/bands/1"] == "dense stands twice"


def test_a_mean_of_absolute_errors_is_not_below_nothing(client):
    errors = fitted()["errors"] | {"before": {"mean": -5.0, "median": 0.1, "bias": -0.1}}
    assert "/calibration/errors/before/mean" in faults_of(evaluated(client, fitted() | {"errors": errors}))


def test_runs_are_in_some_precision(client):
    assert "/calibration/precisions" in faults_of(evaluated(client, fitted() | {"precisions": []}))


def test_another_gpu_of_the_same_name_is_another_gpu(client):
    """A name is for people: sixty times the FLOPs took the A100's calibration with it."""
    inline = {
        "gpu": {
            "name": "a100-80gb-sxm",
            "memory_bytes": 80_000_000_000,
            "memory_bandwidth_bytes_per_s": 2e12,
            "peak_bf16_flops": 2e16,
        },
        "tiers": [{"name": "nvlink", "gpus": 8, "bandwidth_bytes_per_s": 3e11},
                  {"name": "leaf", "bandwidth_bytes_per_s": 2.5e10}],
    }  # fmt: skip
    told = faults_of(evaluated(client, fitted(), cluster=inline))
    assert "the cluster's is stated inline" in told["/calibration/gpu"]
    named = inline | {"gpu": "a100-80gb-sxm"}
    assert evaluated(client, fitted(), cluster=named).status_code == 200


def test_a_step_no_gpu_can_make_is_left_out_with_its_rate(client):
    """Milliseconds under seconds: one such run told the others' mean error as 3,428,000,000 %."""
    runs = [dict(run) for run in OWN["runs"]]
    runs[0]["measured_step_s"] = float(runs[0]["measured_step_s"]) / 1000
    told = evaluated(client, {"runs": runs}).json()["assumptions"]
    own = next(one["value"] for one in told if one["field"] == "/calibration")
    assert (own["runs"], own["left_out"]) == (len(runs) - 1, 1)
    refused = faults_of(evaluated(client, {"runs": runs[:1]}))
    assert "times the peak of its GPUs" in refused["/calibration/runs"]


def test_ten_megabytes_of_runs_are_refused_by_their_size(client):
    huge = {"runs": [{"notes": "x" * 10_000_000}]}
    check_problem(evaluated(client, huge), 413)


def test_columns_with_an_obvious_default_may_be_left_out(tmp_path):
    obvious = ("source", "confidence", "mla", "cp", "ep", "oom", "mtp", "token_drop", "ep_overlap")
    kept = [name for name in SOURCE[0] if name in COLUMNS and name not in obvious and SOURCE[5][name]]
    ran = run("validate", str(written(tmp_path, SOURCE, kept)), "--fit", str(tmp_path / "own.json"), "--json")
    assert ran.returncode == 0, ran.stdout
    found = json.loads((tmp_path / "own.json").read_text(encoding="utf-8"))
    assert found["coefficients"] == fitted()["coefficients"]


def test_columns_truly_missing_are_all_told(tmp_path):
    kept = [name for name in SOURCE[0] if name not in ("hidden", "seq_len", "framework")]
    ran = run("validate", str(written(tmp_path, SOURCE, kept)), "--fit", str(tmp_path / "own.json"))
    assert ran.returncode == 2
    for name in ("hidden", "seq_len", "framework"):
        assert f"/columns/{name}: the column is missing" in ran.stderr
    assert not (tmp_path / "own.json").exists()


def test_the_output_replaces_a_calibration_and_nothing_else(tmp_path):
    runs, output = written(tmp_path, SOURCE), tmp_path / "own.json"
    output.write_text("my notes", encoding="utf-8")
    ran = run("validate", str(runs), "--fit", str(output))
    assert (ran.returncode, output.read_text(encoding="utf-8")) == (2, "my notes")
    assert "the file is there already, and no calibration" in ran.stderr
    output.write_text(json.dumps(fitted() | {"gpu": "h100-sxm"}), encoding="utf-8")
    assert run("validate", str(runs), "--fit", str(output)).returncode == 0
    assert json.loads(output.read_text(encoding="utf-8"))["gpu"] == "a100-80gb-sxm"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.json", "runs.csv"]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("runs.csv", "it is the file of the runs"),
        (".", "it is a folder"),
        ("nowhere/own.json", "its folder is not there"),
    ],
)
def test_a_place_nothing_may_be_written_to_is_told_before_anything_is_fitted(tmp_path, output, reason):
    ran = run("validate", str(written(tmp_path, SOURCE)), "--fit", str(tmp_path / output))
    assert ran.returncode == 2
    assert reason in ran.stderr


def test_the_textbook_is_not_adapted(tmp_path):
    line = ("validate", str(written(tmp_path, SOURCE)), "--fit", str(tmp_path / "own.json"))
    ran = run(*line, "--profile", "textbook")
    assert ran.returncode == 2
    assert "--profile = 'textbook': own runs adapt the calibrated profile alone" in ran.stderr


def test_runs_of_several_gpus_are_told_by_their_numbers(tmp_path):
    mixed = [rows()[name] for name in ("sc21-0001", *NEMO)]
    ran = run("validate", str(written(tmp_path, mixed)), "--fit", str(tmp_path / "own.json"))
    assert ran.returncode == 2
    assert "a100-80gb-sxm (1), h100-sxm (2)" in ran.stderr


def test_own_runs_speak_for_a_gpu_no_published_run_is_on(client):
    """MI300X: what stands for every generation without runs moves, and the band is no longer the widest."""
    runs = [row | {"gpu": "mi300x", "precision": "bf16"} for row in OWN["runs"][:5]]
    workload = QUESTION["workload"] | {"precision": "bf16"}
    plain, own = (
        evaluated(client, one, cluster="mi300x-8x400g", workload=workload).raise_for_status().json()
        for one in (None, {"runs": runs})
    )
    moved = {one["field"].rpartition("/")[2] for one in own["assumptions"] if "coefficients" in one["field"]}
    assert "matmul_16.other" in moved
    widths = [
        told["candidate"]["step_time_high_s"] / told["candidate"]["step_time_s"] for told in (plain, own)
    ]
    assert widths[1] < widths[0]
    for told, word in ((plain, "no measured run tells bf16"), (own, "only own runs tell bf16")):
        assert any(word in one for one in told["candidate"]["warnings"])


def test_a_job_far_larger_than_the_own_runs_keeps_the_published_band(client):
    small = {"runs": OWN["runs"][:2]}
    told = evaluated(client, small).json()
    assert "1024 GPUs, and the largest own run had 64: the published band stays." in told["warnings"]
