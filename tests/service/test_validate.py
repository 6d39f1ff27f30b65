"""Measured runs: how a row becomes a prediction, how errors are counted, and the committed figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from models.catalogue.profiles import profile
from models.stack import Stack, StackRequest
from service.measured import ValidateAnswer, read_runs, validate
from service.measured.answer import RunReport
from service.measured.errors import error_table, memory_error, out_of_memory
from service.measured.machines import MACHINES, cluster_of
from service.measured.rebuild import rebuild
from service.measured.report import report
from service.measured.told import CannotPredict, Told
from tests.service.conftest import ROOT
from tests.service.measured_rows import RUNS, answer, bench, edited, one, rows, written

CALIBRATED = profile("calibrated")


def test_every_row_of_the_file_gets_a_prediction_or_a_reason():
    told = answer()
    assert len(told.runs) == 579
    for run in told.runs:
        assert (run.reason is None) == (run.predicted_step_s is not None), run.id
        assert (run.reason is None) == (run.predicted_memory_bytes is not None), run.id
        assert run.reason or (run.predicted_step_s > 0 and run.predicted_peak_bytes > 0), run.id
    summary = told.summary
    assert summary.predicted + sum(summary.not_predicted.values()) == summary.runs == 579


def test_only_a_row_that_contradicts_itself_gets_no_prediction():
    """64 expert-parallel ranks out of a stage's 32, as its source prints it."""
    assert {run.id: run.reason for run in answer().runs if run.reason} == {
        "megatronbr-0213": "etp 1 x ep 64 does not divide the 32 ranks of a stage"
    }


def test_every_measured_memory_of_the_file_is_understood():
    for run in answer().runs:
        assert run.measured_memory_bytes is not None or not rows()[run.id]["mem_kind"], run.id


def test_a_rerun_gives_the_committed_figures():
    committed = json.loads((ROOT / "bench" / "accuracy.json").read_text(encoding="utf-8"))
    again = json.loads(json.dumps(bench().summary(answer())))
    assert again == committed, "python bench/accuracy.py writes them anew"


def test_the_page_shows_the_committed_figures():
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert bench().section(answer()) in page, "python bench/accuracy.py writes it anew"
    assert bench().accuracy_time.section(answer()) in page, "python bench/accuracy.py writes it anew"


def test_the_name_in_the_file_moves_nothing(tmp_path):
    plain = report(one(tmp_path, "torchtitan-0011"), CALIBRATED)
    renamed = report(one(tmp_path, "torchtitan-0011", model_name="gpt3-175b"), CALIBRATED)
    assert renamed == plain


def test_a_column_of_the_architecture_moves_the_prediction(tmp_path):
    plain = report(one(tmp_path, "torchtitan-0011"), CALIBRATED)
    wider = report(one(tmp_path, "torchtitan-0011", ffn="57344"), CALIBRATED)
    assert wider.predicted_peak_bytes > plain.predicted_peak_bytes


def test_a_kind_of_measurement_we_do_not_know_is_not_compared(tmp_path):
    told = report(one(tmp_path, "dlperf-0002", mem_kind="felt"), CALIBRATED)
    assert told.measured_memory_bytes is None
    assert told.memory_error is None
    assert told.predicted_memory_bytes == told.predicted_peak_bytes


def test_every_gpu_of_the_file_has_a_machine():
    assert {row["gpu"] for row in rows().values()} == set(MACHINES)


def test_the_network_is_the_one_the_file_states(tmp_path):
    cluster = cluster_of(one(tmp_path, "bigscience-0001"), Told())
    assert [tier.bandwidth_bytes_per_s for tier in cluster.tiers] == [3.0e11, 6.25e9]
    assert cluster.tiers[0].gpus == cluster.gpus_per_node == 8


def test_a_group_of_64_stays_inside_a_rack_of_72(tmp_path):
    """Racks of 72 are handed out 64 at a time to a job that needs powers of two."""
    cluster = cluster_of(one(tmp_path, "megatronbr-0026", gpus="256"), Told())
    assert [tier.gpus for tier in cluster.tiers] == [64, None]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"global_batch": "2047"}, "global_batch 2047 is no multiple of micro_batch 1 x dp 4"),
        ({"gpus": "383"}, "tp x cp x pp x dp is 384, and gpus is 383"),
        ({"gpu": "Z1"}, "gpu 'Z1' is not one of the 14 known labels"),
        ({"attention_kernel": "magic"}, "attention_kernel 'magic' is not known"),
        ({"fp8_recipe": "magic"}, "fp8_recipe 'magic' is not known; known: current-scaling, "),
        ({"cuda_graph": "some"}, "cuda_graph 'some' is not known; known: full, none, partial"),
        ({"precision": "int4"}, "precision 'int4' is not known"),
        ({"gradient_dtype": "int4"}, "gradient_dtype 'int4' is not known"),
        ({"ep": "64"}, "etp 1 x ep 64 does not divide the 32 ranks of a stage"),
        ({"layers": "9"}, "9 layers do not fill 12 stages of 1 chunks"),
        ({"n_experts": "8"}, "top_k is not stated, and the architecture needs it"),
        ({"framework": "zzz"}, "framework 'zzz' is not known; known: any, composer-fsdp, "),
        ({"framework": "../profiles/calibrated"}, "framework '../profiles/calibrated' is not known"),
        ({"nvlink_domain_gpus": "1000000000000"}, "Tier, gpus 1000000000000: "),
        ({"recompute": "some"}, "recompute 'some' is not known; known: full, none, selective"),
        ({"schedule": "foo"}, "schedule 'foo' is not known; known: 1f1b, "),
        ({"schedule": "none"}, "schedule_fits_stages: "),
        ({"schedule": "interleaved-1F1B", "vpp": "7", "pp": "12", "layers": "84", "global_batch": "12"},
         "interleaving_fills_groups: "),
        ({"hsdp_shard": "7"}, "sharding_group_divides: The group ZeRO shards inside (hsdp_shard) divides"),
        ({"tp": "3", "dp": "32", "pp": "4"}, "heads_divide: "),
        ({"zero_stage": "3"}, "pipeline_keeps_weights: "),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_priced_says_why(tmp_path, cells, reason):
    told = report(one(tmp_path, "bigscience-0001", **cells), CALIBRATED)
    assert told.reason.startswith(reason)
    assert told.predicted_memory_bytes is None


def test_a_row_that_names_nothing_known_leaves_the_others_alone(tmp_path):
    good = rows()["bigscience-0001"]
    path = written(tmp_path, [good | {"id": "a-1", "framework": "../x"}, good])
    wrong, right = validate(read_runs(path), "calibrated").runs
    assert wrong.reason.startswith("framework '../x' is not known")
    assert right.reason is None


def test_a_schedule_left_blank_is_what_the_degrees_make_of_it(tmp_path):
    stated, blank = (one(tmp_path, "bigscience-0001", schedule=said) for said in ("1F1B", ""))
    first, second = (report(run, CALIBRATED).predicted_peak_bytes for run in (stated, blank))
    assert first == second


def test_a_gpipe_run_holds_more_than_the_same_under_1f1b(tmp_path):
    flat, deep = (one(tmp_path, "bigscience-0001", schedule=said) for said in ("1F1B", "GPipe"))
    assert report(deep, CALIBRATED).predicted_peak_bytes > report(flat, CALIBRATED).predicted_peak_bytes


def test_interleaving_whose_chunks_are_not_stated_takes_a_layer_a_chunk_and_tells_it(tmp_path):
    said = {"schedule": "interleaved-1F1B (how not stated)", "vpp": ""}
    told = Told()
    run = one(tmp_path, "bigscience-0001", layers="72", pp="8", gpus="256", **said)
    layout = rebuild(run, CALIBRATED, told).layout
    assert (layout.schedule, layout.pp, layout.vpp) == ("interleaved", 8, 9)
    assert ("vpp", 9) in [(a.field, a.value) for a in told.assumed]


def test_interleaving_that_cannot_fill_its_groups_is_priced_as_1f1b_and_told(tmp_path):
    said = {"schedule": "interleaved-1F1B (how not stated)", "vpp": ""}
    told = report(one(tmp_path, "bigscience-0001", **said), CALIBRATED)
    assert told.reason is None
    assert "schedule interleaved-1F1B (how not stated): priced as 1f1b" in told.ignored[0]


def test_one_chunk_a_stage_is_1f1b_whatever_the_schedule_is_called(tmp_path):
    told = report(one(tmp_path, "bigscience-0001", schedule="interleaved-1F1B", vpp="1"), CALIBRATED)
    assert "schedule interleaved-1F1B: priced as 1f1b" in told.ignored[0]


def test_a_micro_batch_left_blank_is_one_sequence(tmp_path):
    assert assumed(tmp_path, "bigscience-0001", micro_batch="")["micro_batch"] == 1
    blank, stated = (report(one(tmp_path, "bigscience-0001", micro_batch=b), CALIBRATED) for b in ("", "1"))
    assert blank.predicted_step_s == stated.predicted_step_s


def assumed(tmp_path: Path, run: str, **cells: str) -> dict[str, object]:
    told = Told()
    rebuild(one(tmp_path, run, **cells), CALIBRATED, told)
    return {a.field: a.value for a in told.assumed}


def test_a_blank_column_takes_a_default_and_it_is_told(tmp_path):
    stated = assumed(tmp_path, "bigscience-0001")
    blank = assumed(tmp_path, "bigscience-0001", gradient_dtype="", vpp="", recompute="", tied_embeddings="")
    assert {name: blank[name] for name in blank.keys() - stated.keys()} == {
        "gradient_dtype": "fp16",
        "vpp": 1,
        "recompute": "none",
        "tied_embeddings": True,
    }


def test_blank_columns_that_move_memory_are_told_apart(tmp_path):
    told = report(one(tmp_path, "bigscience-0001", gradient_dtype="", vpp=""), CALIBRATED)
    assert told.unstated == ("interleave", "gradient type")


def test_tying_is_what_meets_the_stated_total(tmp_path):
    assert assumed(tmp_path, "llmfoundry-0001")["tied_embeddings"] is True
    assert assumed(tmp_path, "megatronbr-0019")["tied_embeddings"] is False


def test_fsdp_under_a_pipeline_keeps_weights_and_gradients_whole(tmp_path):
    told = Told()
    layout = rebuild(one(tmp_path, "torchtitan-0013"), CALIBRATED, told).layout
    assert (layout.zero, layout.gradient_reduce) == (2, "once")
    assert ("zero_stage", 2) in [(a.field, a.value) for a in told.assumed]


@pytest.mark.parametrize(
    ("run", "layers", "within"), [("megatronbr-0043", 20, 6), ("megatronbr-0046", 40, 0)]
)
def test_as_many_layers_are_offloaded_as_the_recipe_of_the_run_took(tmp_path, run, layers, within):
    """NVIDIA's recipes for Llama 3 70B offload 20 of 80 layers on GB300, 40 on GB200; no column says so."""
    told = Told()
    stack = rebuild(one(tmp_path, run), CALIBRATED, told).setting.stack
    assert stack.activation_offload
    assert abs(80 * stack.offload_share - layers) <= within
    assert "offload_share" in {a.field for a in told.assumed}
    assert report(one(tmp_path, run), CALIBRATED).predicted_oom is False
    assert report(one(tmp_path, run, activation_offload="0"), CALIBRATED).predicted_oom is True


@pytest.mark.parametrize(
    ("run", "dispatcher"), [("megatronbr-0075", "all_to_all"), ("megatronbr-0060", "deduplicating")]
)
def test_experts_exchanges_are_overlapped_as_the_recipes_of_their_gpu_do(tmp_path, run, dispatcher):
    """A plain all-to-all on an H100, DeepEP on a B200; no column says it."""
    told = Told()
    assert rebuild(one(tmp_path, run), CALIBRATED, told).setting.stack.dispatcher == dispatcher
    assert "dispatcher" in {a.field for a in told.assumed}


def test_a_share_that_a_file_states_is_the_share_that_is_offloaded(tmp_path):
    row = rows()["megatronbr-0046"] | {"offload_share": "0.9"}
    (run,) = read_runs(written(tmp_path, [row]))
    told = Told()
    assert rebuild(run, CALIBRATED, told).setting.stack.offload_share == 0.9
    assert "offload_share" not in {a.field for a in told.assumed}


def stack(tmp_path: Path, run: str, **cells: str) -> Stack:
    return rebuild(one(tmp_path, run, **cells), CALIBRATED, Told()).setting.stack


def test_every_software_knob_a_row_states_reaches_the_setting(tmp_path):
    cells = {
        "attention_kernel": "flash2", "fp8_recipe": "mx", "cuda_graph": "partial", "ep_overlap": "1",
        "token_drop": "1", "mtp": "1", "activation_offload": "1", "release": "26.04",
    }  # fmt: skip
    got = stack(tmp_path, "megatronbr-0019", **cells)
    wanted = {name: True if cell == "1" else cell for name, cell in cells.items()}
    assert {name: getattr(got, name) for name in cells} == wanted


def test_a_blank_knob_is_one_that_is_off(tmp_path):
    got = stack(tmp_path, "megatronbr-0019", fp8_recipe="", cuda_graph="", release="")
    assert (got.fp8_recipe, got.cuda_graph, got.release) == (None, "none", None)


def test_a_request_may_state_every_knob_but_the_container_a_run_was_published_with():
    assert Stack.model_fields.keys() - StackRequest.model_fields.keys() == {"release"}


def run_report(name: str, error: float, group: str | None = None, confidence: str = "high") -> RunReport:
    return RunReport(
        id=name,
        family=name[0],
        group=group,
        gpu="H100",
        precision="bf16",
        kind="dense",
        confidence=confidence,
        measured_oom=False,
        memory_error=error,
    )


def test_a_group_counts_once_and_low_confidence_not_at_all():
    table = error_table(
        [
            run_report("a-1", 0.1, "g"),
            run_report("a-2", -0.3, "g"),
            run_report("b-1", 0.4),
            run_report("b-2", 9.0, confidence="low"),
        ],
        memory_error,
        once=True,
    )
    assert table.all is not None
    assert (table.all.rows, table.all.n) == (3, 2)
    assert table.all.mean == pytest.approx(0.3)
    assert table.all.bias == pytest.approx(0.15)
    assert [one.id for one in table.worst] == ["b-1", "a-2"]
    assert table.low_confidence is not None
    assert table.low_confidence.mean == 9.0


def test_out_of_memory_is_judged_both_ways():
    ran = run_report("a-1", 0.0).model_copy(update={"predicted_oom": True})
    out = run_report("a-2", 0.0).model_copy(update={"predicted_oom": False, "measured_oom": True})
    low = ran.model_copy(update={"id": "a-3", "confidence": "low"})
    found = out_of_memory([ran, out, low])
    assert (found.false_alarms + found.false_alarms_unstated, found.missed, found.low_confidence) == (
        ("a-1",),
        ("a-2",),
        ("a-3",),
    )


def test_an_unknown_gpu_is_a_reason_not_a_default(tmp_path):
    with pytest.raises(CannotPredict, match="known labels"):
        cluster_of(one(tmp_path, "bigscience-0001", gpu="H1OO"), Told())


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "service.cli", "validate", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_prints_predicted_beside_measured(tmp_path):
    few = [rows()[name] for name in ("simumax-0001", "megatronbr-0213")]
    ran = command(str(written(tmp_path, few)))
    assert ran.returncode == 0, ran.stderr
    assert "predicted GB" in ran.stdout
    assert "1 of 2 rows predicted" in ran.stdout
    assert "does not divide the 32 ranks of a stage (megatronbr-0213)" in " ".join(ran.stdout.split())


def test_the_command_tells_a_column_nobody_knows_once(tmp_path):
    few = [rows()[name] | {"bogus": "1"} for name in ("simumax-0001", "megatronlm-0004")]
    path = str(written(tmp_path, few))
    assert command(path).stdout.count("Columns not known, and not read: bogus") == 1
    assert json.loads(command(path, "--json").stdout)["unknown_columns"] == ["bogus"]


def test_the_command_prints_json_for_programs(tmp_path):
    ran = command(str(edited(tmp_path, "simumax-0001")), "--json", "--profile", "textbook")
    assert ran.returncode == 0, ran.stderr
    told = ValidateAnswer.model_validate_json(ran.stdout)
    assert told.profile == "textbook"
    assert told.unknown_columns == ()
    assert told.runs[0].measured_memory_bytes == 71_458_000_000


@pytest.mark.parametrize("arguments", [("no-such-file.csv",), (str(RUNS), "--profile", "textbok")])
def test_a_wrong_question_leaves_with_2(arguments):
    ran = command(*arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "Try 'textbook'" in ran.stderr or "No such file" in ran.stderr
