"""A pipeline's timeline over HTTP: slots as the texts count them, and every action after what it needs."""

import json
import math
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.catalogue.profiles import profile
from models.cost.pipeline.conditions import Asked, condition_faults
from models.cost.pipeline.known import KNOWN
from tests.service.conftest import ROOT
from tests.service.shapes import check_problem

WORKED = json.loads((ROOT / "tests" / "golden" / "worked_numbers.json").read_text())["pipeline"]
PUBLISHED = json.loads((ROOT / "tests" / "golden" / "published.json").read_text())["entries"]
PYTORCH = {
    "GPipe": "gpipe",
    "1F1B": "1f1b",
    "LoopedBFS": "looped-bfs",
    "InterleavedZeroBubble": "interleaved-zb",
    "ZBVZeroBubble": "zb-v",
    "DualPipeV": "dualpipe-v",
}
PAIR = "forward_and_backward"
EVALUATE = json.loads((ROOT / "openapi" / "examples" / "schedule-llama-3.1-405b-16384-h100.json").read_text())


def ask(client, accept="application/json", **body):
    return client.post("/v1/schedule", json=body, headers={"Accept": accept})


def told(client, **body):
    answer = ask(client, **body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client, **body):
    return {fault["field"]: fault for fault in check_problem(ask(client, **body), 422)["faults"]}


def passes(answer):
    """Every computation as (is forward, chunk, micro-batch) to its start, end, stage and kinds."""
    found = {}
    for stage in answer["stages"]:
        for slot in stage["slots"]:
            times = slot["start"], slot["end"], stage["stage"]
            chunk = stage["chunks"][slot["chunk"]]
            if slot["kind"] == PAIR:
                back = stage["chunks"][slot["backward_chunk"]], slot["backward_micro_batch"]
                found["forward", chunk, slot["micro_batch"]] = times
                found["backward", *back] = times
            else:
                found[slot["kind"], chunk, slot["micro_batch"]] = times
    return found


def check_timeline(answer, chunks):
    """Every chunk passes every micro-batch once each way, one at a time, and after what it needs."""
    done = passes(answer)
    micro_batches = range(answer["micro_batches"])
    length = answer["total_slots"] if answer["unit"] == "slot" else answer["total_s"]
    for stage in answer["stages"]:
        slots = stage["slots"]
        assert all(before["end"] <= after["start"] for before, after in pairwise(slots))
        assert math.isclose(sum(s["end"] - s["start"] for s in slots), stage["busy"], rel_tol=1e-9)
        assert math.isclose(stage["busy"] + stage["idle"], length, rel_tol=1e-9)
    for chunk in range(chunks):
        for m in micro_batches:
            forward = done["forward", chunk, m]
            whole = ("backward", chunk, m) in done
            backward = done["backward" if whole else "input_gradient", chunk, m]
            assert backward[0] >= forward[1]
            assert whole or done["weight_gradient", chunk, m][0] >= backward[1]
            if chunk:
                assert forward[0] >= done["forward", chunk - 1, m][1]
                before = done.get(("backward", chunk - 1, m)) or done["input_gradient", chunk - 1, m]
                assert before[0] >= backward[1]
    parted = sum(kind == "weight_gradient" for kind, *_ in done)
    assert len(done) == 2 * chunks * len(micro_batches) + parted
    assert max(end for _, end, _ in done.values()) - min(start for start, *_ in done.values()) == length


def in_flight(stage):
    """Chunks' activations held at the most, counted from the slots."""
    events = []
    for slot in stage["slots"]:
        if slot["kind"] in ("forward", PAIR):
            events.append((slot["start"], 1, 1))
        if slot["kind"] in ("backward", "weight_gradient", PAIR):
            events.append((slot["end"], 0, -1))
    held = most = 0
    for _, _, change in sorted(events):
        held += change
        most = max(most, held)
    return most


def test_four_stages_and_eight_micro_batches_take_33_slots_of_which_9_idle(client):
    answer = told(client, schedule="1f1b", pp=4, micro_batches=8, vpp=1, forward_slots=1, backward_slots=2)
    assert answer["total_slots"] == 33
    assert isinstance(answer["total_slots"], int)
    assert answer["total_s"] is None
    assert [stage["idle"] for stage in answer["stages"]] == [9] * 4
    assert [stage["busy"] for stage in answer["stages"]] == [24] * 4
    assert [stage["in_flight"] for stage in answer["stages"]] == [4, 3, 2, 1]
    assert [stage["peak_at"] for stage in answer["stages"]] == [3, 3, 3, 3]
    assert [stage["messages"] for stage in answer["stages"]] == [8, 16, 16, 8]
    assert answer["messages"] == 48
    first = answer["stages"][0]["slots"][0]
    assert first == {"kind": "forward", "micro_batch": 0, "chunk": 0, "start": 0, "end": 1}
    assert answer["assumptions"] == []
    check_timeline(answer, 4)


@pytest.mark.parametrize("row", [row for row in WORKED if "G" in row and "schedule" in row])
def test_the_texts_count_these_slots(client, row):
    """47 % at p = G = 8; 33 slots and 9 idle at p = 4, G = 8."""
    answer = told(client, schedule=row["schedule"], pp=row["p"], micro_batches=row["G"], vpp=row.get("v", 1))
    found = {
        "bubble_of_total": answer["bubble_of_total"],
        "bubble_of_compute": answer["bubble_of_compute"],
        "slots": answer["total_slots"],
        "idle_slots_per_stage": answer["stages"][0]["idle"],
    }
    known = set(row) & set(found)
    assert known
    assert all(found[name] == pytest.approx(row[name], abs=5e-5) for name in known)


@pytest.mark.parametrize("chunks", range(1, 9))
def test_sixteen_stages_wait_45_slots_however_many_chunks_they_have(client, chunks):
    answer = told(client, schedule="interleaved", pp=16, micro_batches=16, vpp=chunks)
    assert answer["total_slots"] == 48 * chunks + 45
    assert [stage["idle"] for stage in answer["stages"]] == [45] * 16
    assert answer["bubble_of_compute"] == pytest.approx(15 / (16 * chunks))


ENTRIES = [
    entry
    for entry in PUBLISHED
    if entry["id"].startswith(("pt-", "megatron-interleaved-"))
    and not (
        entry["inputs"].get("schedule") == "Interleaved1F1B" and entry["inputs"]["G"] < entry["inputs"]["p"]
    )
]
"""Runs of public schedulers; PyTorch alone interleaves fewer micro-batches than stages."""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_public_schedulers_take_these_slots_and_hold_these_chunks(client, entry):
    given_, expected = entry["inputs"], entry["expected"]
    name = PYTORCH.get(given_.get("schedule"), "interleaved")
    body = {"schedule": name, "pp": given_["p"], "micro_batches": given_["G"]}
    if name in ("interleaved", "looped-bfs", "interleaved-zb"):
        body["vpp"] = given_["v"]
    if name == "interleaved":
        rounds = max(1, given_["G"] // given_["p"])
        body["micro_batch_group"] = given_.get("N", given_["G"] // rounds)
    answer = told(client, **body)
    shown = len(expected["max_inflight_chunks"])
    stages = answer["stages"][:shown]
    assert answer["total_slots"] == expected["slots"]
    assert [stage["in_flight_chunks"] for stage in stages] == expected["max_inflight_chunks"]
    assert [stage["idle"] for stage in stages] == expected["idle_per_rank"][:shown]


@settings(deadline=None, max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(sorted(KNOWN)),
    pp=st.integers(1, 6),
    micro_batches=st.integers(1, 14),
    vpp=st.sampled_from([None, 1, 2, 3]),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=1) | st.lists(st.integers(1, 5), max_size=6),
    send=st.sampled_from([0, 1, 0.5]),
)
def test_whatever_is_asked_is_refused_with_a_fix_or_runs_in_order(
    client, name, pp, micro_batches, vpp, lengths, send
):
    body = {"schedule": name, "pp": pp, "micro_batches": micro_batches, "send_slots": send}
    body |= {"vpp": vpp} if vpp else {}
    body |= {"forward_slots": lengths} if len(lengths) == pp else {}
    answer = ask(client, **body)
    if faults := condition_faults(Asked(name, pp, micro_batches, vpp)):
        assert {f["field"] for f in check_problem(answer, 422)["faults"]} == {f"/{f.field}" for f in faults}
        return
    found = answer.json()
    check_timeline(found, pp * found["vpp"])
    for stage in found["stages"]:
        assert in_flight(stage) == stage["in_flight_chunks"]
    assert found["bubble_of_total"] == pytest.approx(
        sum(stage["idle"] for stage in found["stages"]) / (found["total_slots"] * pp)
    )


def test_dualpipes_pairs_tell_both_of_their_micro_batches(client):
    answer = told(client, schedule="dualpipe", pp=4, micro_batches=8)
    pairs = [slot for slot in answer["stages"][1]["slots"] if slot["kind"] == PAIR]
    assert pairs
    assert all(slot["end"] - slot["start"] == 3 for slot in pairs)
    assert all(slot["micro_batch"] != slot["backward_micro_batch"] for slot in pairs)
    assert [stage["chunks"] for stage in answer["stages"]] == [[0, 3], [1, 2], [1, 2], [0, 3]]
    assert [stage["in_flight"] for stage in answer["stages"]] == [5, 5, 5, 5]


def test_unequal_stages_are_stated_for_each_stage_or_each_chunk(client):
    base = {"schedule": "interleaved", "pp": 2, "micro_batches": 4, "vpp": 2}
    of_stages = told(client, **base, forward_slots=[1, 2], backward_slots=[2, 4])
    of_chunks = told(client, **base, forward_slots=[1, 2, 1, 2], backward_slots=[2, 4, 2, 4])
    assert of_stages == of_chunks
    assert [stage["busy"] for stage in of_stages["stages"]] == [24, 48]
    check_timeline(of_chunks, 4)


def test_halves_of_a_backward_may_be_stated_or_follow(client):
    base = {"schedule": "zb-h1", "pp": 4, "micro_batches": 8, "forward_slots": 4}
    both = told(client, **base, input_gradient_slots=6, weight_gradient_slots=3)
    one = told(client, **base, input_gradient_slots=6, backward_slots=9)
    assert both["total_slots"] == one["total_slots"] == 8 * 13 + 3 * max(4, 6, 4 + 6 - 3)
    faults = refused(client, **base, input_gradient_slots=6, weight_gradient_slots=3, backward_slots=8)
    assert "sum to 9" in faults["/backward_slots"]["reason"]
    assert set(refused(client, **base, input_gradient_slots=6)) == {"/input_gradient_slots"}


def test_messages_delay_their_receiver(client):
    base = {"schedule": "gpipe", "pp": 4, "micro_batches": 8}
    assert told(client, **base, send_slots=0.25)["total_slots"] == 33 + 2 * 3 * 0.25
    assert told(client, **base, send_slots=[1, 0, 2])["total_slots"] == 33 + 2 * 3


def test_what_was_left_out_and_moved_the_answer_is_told(client):
    answer = told(client, schedule="zb-v", pp=4, micro_batches=8, vpp=1)
    fields = {each["field"]: each["value"] for each in answer["assumptions"]}
    assert fields == {
        "/vpp": 2,
        "/forward_slots": 1,
        "/backward_slots": 2,
        "/input_gradient_slots": "half of backward_slots",
    }
    grouped = told(client, schedule="interleaved", pp=4, micro_batches=8)
    assert {"/micro_batch_group", "/vpp"} <= {each["field"] for each in grouped["assumptions"]}
    assert (grouped["vpp"], grouped["micro_batch_group"]) == (2, 4)


def test_a_long_timeline_is_told_in_patterns(client):
    answer = ask(client, schedule="1f1b", pp=16, micro_batches=1024)
    found = answer.json()
    assert len(answer.content) < 20_000
    assert found["detail"] == "runs"
    assert "32,768 slots are too many" in found["warnings"][0]
    assert found["total_slots"] == 3 * (1024 + 15)
    for stage in found["stages"]:
        assert stage["slots"] is None
        counts = [run["repeats"] * len(run["pattern"].split()) for run in stage["runs"]]
        assert sum(counts) == 2 * 1024
    first = found["stages"][0]["runs"]
    assert [run["pattern"] for run in first] == ["F", "B F", "B"]
    assert first[-1]["end"] == found["total_slots"]


def test_as_many_slots_as_may_be_listed_are(client):
    assert told(client, schedule="gpipe", pp=10, micro_batches=1000)["detail"] == "slots"
    assert told(client, schedule="gpipe", pp=10, micro_batches=1001)["detail"] == "runs"


def test_a_schedule_too_long_to_lay_out_is_reckoned_by_formula_where_one_is_exact(client):
    answer = told(client, schedule="1f1b", pp=16, micro_batches=1_000_000)
    assert (answer["total_slots"], answer["detail"]) == (3 * 1_000_015, "totals")
    assert [stage["in_flight"] for stage in answer["stages"]] == list(range(16, 0, -1))
    unequal = told(client, schedule="1f1b", pp=2, micro_batches=1_000_000, forward_slots=[1, 2])
    assert (unequal["total_slots"], unequal["detail"]) == (4_000_003, "totals")  # 1 + 1e6 (2 + 2) + 2
    assert [stage["in_flight"] for stage in unequal["stages"]] == [2, 1]
    assert "counted on from runs of" in unequal["warnings"][0]
    naive = told(client, schedule="naive", pp=16, micro_batches=1_000_000)
    assert (naive["total_slots"], naive["bubble_of_total"]) == (48_000_000, 15 / 16)
    refusal = refused(client, schedule="v-half", pp=64, micro_batches=4096)["/micro_batches"]
    assert "8,192" in refusal["reason"]
    picture = ask(client, "image/png", schedule="1f1b", pp=16, micro_batches=1_000_000)
    assert check_problem(picture, 422)["faults"][0]["field"] == "Accept"


ONE = {"schedule": "1f1b", "pp": 4, "micro_batches": 8}
CHUNKS = {"schedule": "interleaved", "pp": 4, "micro_batches": 8, "vpp": 2}
HUGE = 10**6


@pytest.mark.parametrize(
    ("body", "field", "word"),
    [
        (ONE | {"schedule": "none"}, "/pp", "one stage"),
        (ONE | {"vpp": 2}, "/vpp", "one chunk"),
        (ONE | {"schedule": "zb-v", "vpp": 3}, "/vpp", "two chunks"),
        (CHUNKS | {"micro_batches": 6}, "/micro_batches", "left over"),
        (CHUNKS | {"micro_batches": 2}, "/micro_batches", "at least pp"),
        (CHUNKS | {"micro_batch_group": 3}, "/micro_batch_group", "between them"),
        (ONE | {"micro_batch_group": 4}, "/micro_batch_group", "no groups"),
        (ONE | {"schedule": "interleaved-zb", "micro_batches": 9}, "/micro_batches", "equal rounds"),
        (ONE | {"schedule": "dualpipe", "pp": 3}, "/pp", "odd"),
        (ONE | {"schedule": "dualpipe", "micro_batches": 9}, "/micro_batches", "odd"),
        (ONE | {"schedule": "dualpipe-v", "micro_batches": 7}, "/micro_batches", "at least 2 pp = 8"),
        (ONE | {"schedule": "zb-h9"}, "/schedule", "not one of"),
        (ONE | {"pp": 0}, "/pp", "below the least"),
        (ONE | {"pp": HUGE}, "/pp", "at most 1,024"),
        (CHUNKS | {"pp": HUGE, "micro_batches": HUGE, "vpp": HUGE}, "/vpp", "at most 1,024"),
        (ONE | {"pp": 10 * HUGE}, "/pp", "above the most"),
        (ONE | {"schedule": "v-half", "pp": 64, "micro_batches": 4096}, "/micro_batches", "8,192"),
        (ONE | {"schedule": "zb-v", "pp": 256}, "/micro_batches", "(at least 2 pp - 1 of them) is 261,632"),
        (ONE | {"micro_batches": 8.5}, "/micro_batches", "whole number"),
        (ONE | {"forward_slots": 0}, "/forward_slots", "least"),
        (ONE | {"forward_slots": -1}, "/forward_slots", "least"),
        (ONE | {"forward_slots": "1"}, "/forward_slots", "must be"),
        (ONE | {"forward_slots": [1, 2]}, "/forward_slots", "2 lengths"),
        (ONE | {"backward_slots": [1, "x", 1, 1]}, "/backward_slots/1", "must be"),
        (ONE | {"send_slots": [1, 1]}, "/send_slots", "2 lengths"),
        (ONE | {"pair_share": 0.9}, "/pair_share", "together"),
        (ONE | {"micro_batchs": 8}, "/micro_batchs", "no field"),
        ({"schedule": "1f1b", "pp": 4}, "/micro_batches", "required"),
        ({}, "/schedule", "required"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_by_its_rule(client, body, field, word):
    fault = refused(client, **body)[field]
    assert word in fault["reason"]
    assert fault["fix"]


def test_all_faults_of_shape_and_meaning_are_told_at_once(client):
    faults = refused(
        client,
        schedule="1f1b",
        pp="four",
        micro_batches=0,
        vpp=3,
        micro_batch_group=2,
        forward_slots=[],
        more=1,
    )
    assert set(faults) == {"/pp", "/micro_batches", "/vpp", "/micro_batch_group", "/forward_slots", "/more"}
    pipe = refused(client, schedule="dualpipe", pp=5, micro_batches=3, vpp=2, pair_share=2)
    assert set(pipe) == {"/pp", "/micro_batches", "/vpp", "/pair_share"}


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999"])
def test_a_length_that_is_no_number_is_400(client, number):
    body = b'{"schedule": "1f1b", "pp": 2, "micro_batches": 2, "forward_slots": %b}' % number
    answer = client.post("/v1/schedule", content=body, headers={"Content-Type": "application/json"})
    check_problem(answer, 400)


@pytest.mark.parametrize(
    ("schedule", "pp", "micro_batches", "more"),
    [
        ("zb-h1", 1024, 128, {"backward_slots": 2.5}),
        ("interleaved", 16, 1024, {"vpp": 8, "send_slots": 0.1}),
        ("zb-v", 181, 300, {}),
        ("v-half", 64, 64, {}),
        ("zb2p", 256, 32, {}),
        ("interleaved-zb", 128, 512, {"vpp": 2}),
        ("interleaved-zb", 32, 4096, {"vpp": 8}),
        ("1f1b", 64, 4096, {"forward_slots": [1, 2] * 32}),
        ("zb2p", 7, 4096, {}),
    ],
)
def test_the_longest_schedules_are_answered_soon(client, schedule, pp, micro_batches, more):
    answer = ask(client, schedule=schedule, pp=pp, micro_batches=micro_batches, **more)
    assert answer.status_code == 200, answer.text
    assert answer.elapsed.total_seconds() < 20
    assert len(answer.content) < 2_500_000


def test_a_layout_is_timed_in_seconds_as_it_is_evaluated(client):
    answer = told(client, **EVALUATE)
    priced = client.post("/v1/evaluate", json=EVALUATE).json()["candidate"]
    assert (answer["unit"], answer["total_slots"]) == ("s", None)
    assert (answer["pp"], answer["vpp"], answer["micro_batches"]) == (16, 4, 16)
    check_timeline(answer, 64)
    parts = ("compute_s", "recompute_s", "tp_exposed_s", "cp_exposed_s", "ep_exposed_s", "other_s")
    rates = profile("calibrated").rates
    whole = priced["step_time_s"] - priced["time"]["optimizer_s"]
    slower = 1 + rates.straggling * math.log2(EVALUATE["gpus"] / 8)
    besides = whole - (whole - rates.step_seconds) / slower  # what no stage takes
    paced = sum(priced["time"][part] for part in parts) - besides
    assert max(stage["busy"] for stage in answer["stages"]) == pytest.approx(paced)
    assert paced < answer["total_s"] < priced["step_time_s"]
    held = [stage["in_flight"] for stage in priced["memory"]["stages"]]
    assert [stage["in_flight"] for stage in answer["stages"]] == pytest.approx(held)
    sent = next(each for each in priced["traffic"] if each["dimension"] == "pp")
    assert answer["stages"][1]["messages"] == sent["per_step"]
    stated = {each["field"] for each in answer["assumptions"]}
    assert {"/layout/rank_order", "/layout/stage_layers", "/profile"} <= stated


def test_the_head_makes_the_last_chunk_longer_and_waits_tell_on_whom(client):
    question = EVALUATE | {"layout": EVALUATE["layout"] | {"vpp": 1, "schedule": "1f1b"}}
    answer = told(client, **question)
    last, middle = answer["stages"][-1], answer["stages"][5]
    forward = [s["end"] - s["start"] for s in middle["slots"] if s["kind"] == "forward"]
    headed = [s["end"] - s["start"] for s in last["slots"] if s["kind"] == "forward"]
    assert headed[0] / 7 > forward[0] / 8  # seven layers and the head on the last stage
    assert min(answer["stages"], key=lambda stage: stage["idle"])["busy"] == max(
        stage["busy"] for stage in answer["stages"]
    )


@pytest.mark.parametrize(
    ("schedule", "pp", "vpp"),
    [("1f1b", 8, 1), ("interleaved", 8, 2), ("interleaved", 4, 5), ("zb-v", 4, 2), ("dualpipe", 8, 1)],
)
def test_an_evaluation_tells_the_bubble_and_the_slowest_stage_of_the_timeline(client, schedule, pp, vpp):
    """One layout, one truth: however long its step is and whether its slots are listed or not."""
    layout = {"tp": 8, "pp": pp, "vpp": vpp, "dp": 8 // pp, "schedule": schedule, "micro_batch": 1}
    for batch in (64, 8192):
        question = {"model": "llama-3-70b", "cluster": "dgx-h100", "gpus": 64, "layout": layout}
        question["workload"] = {"sequence_length": 8192, "global_batch": batch}
        timeline = told(client, **question)
        pipeline = client.post("/v1/evaluate", json=question).json()["candidate"]["pipeline"]
        busy = [stage["busy"] for stage in timeline["stages"]]
        assert pipeline["timed_by"] == "simulation"
        assert pipeline["bubble_of_total"] == pytest.approx(timeline["bubble_of_total"], rel=1e-6)
        assert pipeline["imbalance"] == pytest.approx(max(busy) * pp / sum(busy) - 1, rel=1e-6)
        assert busy[pipeline["limiting_stage"]] == pytest.approx(max(busy))


def test_a_layouts_faults_stand_at_its_knobs_and_are_told_at_once(client):
    layout = EVALUATE["layout"]
    odd = EVALUATE | {"layout": layout | {"micro_batch": 2, "ep": 4}}
    faults = refused(client, **odd)
    assert set(faults) == {"/layout/micro_batch", "/layout/ep"}
    assert "at least pp = 16" in faults["/layout/micro_batch"]["reason"]
    plain = refused(client, **(EVALUATE | {"layout": layout | {"schedule": "1f1b"}}))
    assert set(plain) == {"/layout/vpp"}
    grid = refused(client, **(EVALUATE | {"layout": layout | {"pp": 15}, "model": "llama-9"}))
    assert "/model" in grid
    assert "/layout/dp" in refused(client, **(EVALUATE | {"layout": layout | {"pp": 15}}))


def test_a_bare_schedules_knob_beside_a_layout_is_refused_by_name(client):
    assert "no field" in refused(client, **(EVALUATE | {"pp": 4}))["/pp"]["reason"]


def test_textbook_says_that_its_rate_has_the_bubble_in_it(client):
    answer = told(client, **(EVALUATE | {"profile": "textbook"}))
    assert any("bubble included" in warning for warning in answer["warnings"])


@pytest.mark.parametrize(("accept", "start"), [("image/svg+xml", b"<?xml"), ("image/png", b"\x89PNG\r\n")])
@pytest.mark.parametrize(
    "body",
    [
        {"schedule": "interleaved", "pp": 4, "micro_batches": 8, "vpp": 2},
        {"schedule": "dualpipe", "pp": 4, "micro_batches": 10},
        {"schedule": "zb-h1", "pp": 16, "micro_batches": 512},
        EVALUATE,
    ],
    ids=["chunks", "pairs", "long", "layout"],
)
def test_a_timeline_is_drawn_when_a_picture_is_asked_for(client, accept, start, body):
    first, second = (ask(client, accept, **body) for _ in range(2))
    assert first.status_code == 200, first.text
    assert first.headers["content-type"] == accept
    assert first.headers["vary"] == "Accept"
    assert first.content.startswith(start)
    assert first.content == second.content
    assert len(first.content) < 2_000_000


def test_a_picture_names_its_schedule_its_bubble_and_its_colours(client):
    drawn = ask(client, "image/svg+xml", schedule="zb-h1", pp=4, micro_batches=8).text
    for words in ("zb-h1: 4 stages, 8 micro-batches, 27 slots", "bubble 11.1% of total", ">stage<", ">slot<"):
        assert words in drawn
    for kind in ("forward", "input gradient", "weight gradient"):
        assert f">{kind}<" in drawn
    assert ">backward<" not in drawn
    assert drawn.count(">7<") >= 3 * 4  # the last micro-batch's number in each of its slots


def test_a_form_that_is_not_drawn_is_406(client):
    answer = ask(client, "text/html", schedule="1f1b", pp=4, micro_batches=8)
    fault = check_problem(answer, 406)["faults"][0]
    assert (fault["field"], fault["value"]) == ("Accept", "text/html")


def test_a_refusal_is_json_whatever_form_is_asked_for(client):
    check_problem(ask(client, "image/png", schedule="1f1b", pp=0, micro_batches=8), 422)


def test_every_name_of_the_contract_answers(client):
    for name in ("1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "dualpipe", "dualpipe-v"):
        assert told(client, schedule=name, pp=4, micro_batches=8)["schedule"] == name
    assert told(client, schedule="none", pp=1, micro_batches=8)["bubble_of_total"] == 0
