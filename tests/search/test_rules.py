"""Each rule alone, on both sides of its edge: as the search counts it, and as the checker restates it."""

import inspect

import numpy as np
import pytest

from models.cost.table import CODES
from models.layout import LayoutChoice
from models.request import Constraints
from search import check as checker
from search import rules
from search.case import Case
from search.problem import problem_of
from tests.builders import layout
from tests.search.questions import DENSE, LATENT, MOE, ROOMY, THREES, Question, resolved

ALL_SPARSE = MOE.model_copy(update={"moe": MOE.moe.model_copy(update={"dense_first": 0}), "ffn": 769})
FREE = Constraints()

NO_SP = Constraints(sequence_parallel=False)
OVERLAP = Constraints(tp_overlap=True)
OVERLAP_NO_SP = Constraints(tp_overlap=True, sequence_parallel=False)
SPLIT = Constraints(stage_layers=(2, 4, 4, 2))
GROUP_OF_6 = Constraints(micro_batch_group=6)
EACH = Constraints(gradient_reduce="per_micro_batch")

EDGES = [
    ("tp_cap", THREES, FREE, {"tp": 64}, True),
    ("tp_cap", THREES, FREE, {"tp": 65}, False),
    ("tp_cap", THREES, Constraints(tp=65), {"tp": 65}, True),
    ("cp_cap", DENSE, FREE, {"cp": 64}, True),
    ("cp_cap", DENSE, FREE, {"cp": 65}, False),
    ("cp_cap", DENSE, Constraints(cp=65), {"cp": 65}, True),
    ("heads_divide", DENSE, FREE, {"tp": 16}, True),  # 16 heads
    ("heads_divide", DENSE, FREE, {"tp": 32}, False),
    ("heads_divide", DENSE, FREE, {"tp": 3}, False),
    ("kv_heads_divide", DENSE, FREE, {"tp": 2}, True),  # 4 key-value heads
    ("kv_heads_divide", DENSE, FREE, {"tp": 8}, True),  # each held by two ranks
    ("kv_heads_divide", THREES, FREE, {"tp": 4}, False),  # 6 key-value heads
    ("kv_heads_divide", THREES, FREE, {"tp": 12}, True),
    ("kv_heads_divide", LATENT, FREE, {"tp": 3}, True),  # none under latent attention
    ("ffn_divides", THREES, FREE, {"tp": 9}, True),  # 2304
    ("ffn_divides", THREES, FREE, {"tp": 5}, False),
    ("ffn_divides", MOE, FREE, {"tp": 64}, True),  # 768 dense, 192 shared
    ("ffn_divides", MOE, FREE, {"tp": 128}, False),  # 768 is, 192 is not
    ("ffn_divides", ALL_SPARSE, FREE, {"tp": 2}, True),  # no dense layer: 769 does not matter
    ("expert_ffn_divides", MOE, FREE, {"tp": 128, "etp": 128}, True),  # 384
    ("expert_ffn_divides", MOE, FREE, {"tp": 256, "etp": 256}, False),
    ("sequence_splits_in_context", DENSE, FREE, {"cp": 256}, True),  # 512 tokens
    ("sequence_splits_in_context", DENSE, FREE, {"cp": 512}, False),
    ("sequence_splits_in_tensor", DENSE, FREE, {"tp": 8, "cp": 64}, True),
    ("sequence_splits_in_tensor", DENSE, FREE, {"tp": 16, "cp": 64}, False),
    ("sequence_splits_in_tensor", DENSE, NO_SP, {"tp": 16, "cp": 64}, True),
    ("experts_need_sequence_parallel", MOE, FREE, {"tp": 2}, True),
    ("experts_need_sequence_parallel", MOE, NO_SP, {"tp": 2}, False),
    ("experts_need_sequence_parallel", MOE, NO_SP, {"tp": 1}, True),
    ("experts_need_sequence_parallel", DENSE, NO_SP, {"tp": 2}, True),
    ("tp_overlap_needs_sequence_parallel", DENSE, OVERLAP, {"tp": 2}, True),
    ("tp_overlap_needs_sequence_parallel", DENSE, OVERLAP_NO_SP, {"tp": 2}, False),
    ("tp_overlap_needs_sequence_parallel", DENSE, OVERLAP_NO_SP, {}, True),
    ("ulysses_heads_divide", DENSE, Constraints(cp_comm="ulysses"), {"cp": 4}, True),  # 4 key-value heads
    ("ulysses_heads_divide", DENSE, Constraints(cp_comm="ulysses"), {"cp": 8}, False),
    ("ulysses_heads_divide", DENSE, Constraints(cp_comm="ulysses"), {"tp": 2, "cp": 4}, False),
    ("ulysses_heads_divide", DENSE, Constraints(cp_comm="ring"), {"cp": 8}, True),
    ("ulysses_heads_divide", LATENT, Constraints(cp_comm="ulysses"), {"cp": 8}, True),
    ("replicas_divide_batch", DENSE, FREE, {"dp": 12}, True),  # 48 sequences
    ("replicas_divide_batch", DENSE, FREE, {"dp": 9}, False),
    ("experts_divide_stage", MOE, FREE, {"dp": 12, "ep": 12}, True),
    ("experts_divide_stage", MOE, FREE, {"dp": 6, "ep": 12}, False),
    ("experts_divide_stage", MOE, FREE, {"tp": 2, "etp": 2, "dp": 6, "ep": 6}, True),
    ("experts_divide_stage", MOE, FREE, {"tp": 4, "etp": 4, "dp": 3, "ep": 6}, False),
    ("pipeline_keeps_weights", DENSE, FREE, {"pp": 2, "zero": 2}, True),
    ("pipeline_keeps_weights", DENSE, FREE, {"pp": 2, "zero": 3}, False),
    ("pipeline_keeps_weights", DENSE, FREE, {"pp": 1, "zero": 3}, True),
    ("weight_gather_needs_zero_3", DENSE, Constraints(weight_gather="keep_for_step"), {"zero": 3}, True),
    ("weight_gather_needs_zero_3", DENSE, Constraints(weight_gather="keep_for_step"), {"zero": 2}, False),
    ("weight_gather_needs_zero_3", DENSE, Constraints(weight_gather="per_pass"), {"zero": 2}, True),
    ("gradient_reduce_needs_zero_2", DENSE, EACH, {"zero": 2}, True),
    ("gradient_reduce_needs_zero_2", DENSE, EACH, {"zero": 1}, False),
    ("gradient_reduce_needs_zero_2", DENSE, Constraints(gradient_reduce="once"), {"zero": 0}, True),
    ("stages_hold_a_layer", DENSE, FREE, {"pp": 4, "vpp": 3}, True),  # 12 layers
    ("stages_hold_a_layer", DENSE, FREE, {"pp": 2, "vpp": 7}, True),  # both ends empty
    ("stages_hold_a_layer", DENSE, FREE, {"pp": 2, "vpp": 8}, False),
    ("stages_hold_a_layer", DENSE, FREE, {"pp": 7, "vpp": 2, "schedule": "zb-v"}, False),
    ("stages_hold_a_layer", DENSE, FREE, {"pp": 14}, False),
    ("split_covers_the_chunks", DENSE, SPLIT, {"pp": 2, "vpp": 2}, True),
    ("split_covers_the_chunks", DENSE, SPLIT, {"pp": 2}, False),
    ("split_covers_the_chunks", DENSE, FREE, {"pp": 2}, True),
    ("micro_batches_divide_batch", DENSE, FREE, {"dp": 12, "micro_batch": 4}, True),
    ("micro_batches_divide_batch", DENSE, FREE, {"dp": 12, "micro_batch": 8}, False),
    ("group_holds_the_stages", DENSE, Constraints(micro_batch_group=4), {"pp": 4, "vpp": 2}, True),
    ("group_holds_the_stages", DENSE, Constraints(micro_batch_group=3), {"pp": 4, "vpp": 2}, False),
    ("group_holds_the_stages", DENSE, Constraints(micro_batch_group=3), {"pp": 4}, True),  # not interleaved
    ("interleaving_fills_groups", DENSE, FREE, {"pp": 4, "vpp": 2, "dp": 12}, True),  # 4 micro-batches
    ("interleaving_fills_groups", DENSE, FREE, {"pp": 4, "vpp": 2, "dp": 16}, False),  # 3
    ("interleaving_fills_groups", DENSE, FREE, {"pp": 4, "vpp": 2, "dp": 8}, False),  # 6 = 4 + 2
    ("interleaving_fills_groups", DENSE, GROUP_OF_6, {"pp": 4, "vpp": 2, "dp": 8}, True),
    ("interleaving_fills_groups", DENSE, FREE, {"pp": 4, "dp": 16}, True),  # not interleaved
]


@pytest.mark.parametrize(("rule", "architecture", "constraints", "knobs", "holds"), EDGES)
def test_a_rule_holds_up_to_its_edge_and_not_beyond(rule, architecture, constraints, knobs, holds):
    case, problem = case_of(architecture, constraints, knobs)
    assert (find_check(rule)(case) is None) is holds
    function = getattr(rules, rule)
    columns = {name: column_of(case.layout, name) for name in rules.touches(function)}
    assert bool(function(problem, **columns).all()) is holds


@pytest.mark.parametrize(
    ("order", "knobs", "holds"),
    [
        (("tp", "cp", "ep", "dp", "pp"), {"pp": 2, "dp": 4, "ep": 2}, True),
        (("tp", "cp", "ep", "pp", "dp"), {"pp": 2, "dp": 4, "ep": 2}, False),  # edp is 2
        (("tp", "cp", "ep", "pp", "dp"), {"pp": 2, "cp": 2, "dp": 4, "ep": 2}, True),  # edp is 4
        (("tp", "cp", "ep", "pp", "dp"), {"pp": 1, "dp": 4, "ep": 2}, True),
        (("tp", "pp", "cp", "ep", "dp"), {"pp": 2, "cp": 2, "dp": 4, "ep": 2, "tp": 2, "etp": 2}, True),
        (("tp", "pp", "cp", "ep", "dp"), {"pp": 2, "cp": 2, "dp": 4, "ep": 4, "tp": 2, "etp": 1}, False),
    ],
)
def test_pipelines_agree_only_where_both_grids_have_the_same_groups(order, knobs, holds):
    case, _ = case_of(MOE, FREE, knobs | {"rank_order": order})
    assert (find_check("pipeline_groups_agree")(case) is None) is holds


def test_a_forbidden_layout_agrees_in_every_stated_knob():
    case, _ = case_of(DENSE, FREE, {"tp": 2, "dp": 4})
    forbid = find_check("forbid")
    assert forbid(Case(case.layout, case.setting, {}, (LayoutChoice(tp=2, dp=4, vpp=1),))) is not None
    assert forbid(Case(case.layout, case.setting, {}, (LayoutChoice(tp=2, dp=8),))) is None


def test_memory_is_broken_by_one_byte_over_the_limit():
    case, _ = case_of(DENSE, FREE, {"tp": 2})
    peak = int(checker.peak_bytes(checker.LayoutTable.of([case.layout]), case.setting)[0])
    for limit, holds in ((peak, True), (peak - 1, False)):
        under = Question(DENSE, 8, 48, limit=limit).setting()
        assert (find_check("memory")(Case(case.layout, under)) is None) is holds


def test_the_search_and_the_checker_state_the_same_rules_in_the_same_order():
    stated = [(check.__name__, checker.statement(check)) for check in checker.CHECKS]
    domains = [name for name, _ in stated[:2]]  # of the search, never its rules
    assert domains == ["schedule_fits_stages", "recompute_covers_what_it_names"]
    assert stated[2:] == [(name, rules.statement(name)) for name in rules.NAMES]


def test_every_statement_is_one_sentence():
    for name in rules.NAMES:
        assert rules.statement(name).endswith(".")
        assert rules.statement(name)[:1].isupper() or rules.statement(name).startswith("micro_batch")


def test_the_checker_never_reads_the_search_s_rules():
    parts = (checker.SHAPE_CHECKS[0], checker.PIPELINE_CHECKS[0], Case)
    for module in (checker, *map(inspect.getmodule, parts)):
        assert "search.rules" not in inspect.getsource(module)


def find_check(rule):
    return next(check for check in checker.CHECKS if check.__name__ == rule)


def case_of(architecture, constraints, knobs):
    pins = {
        name: getattr(constraints, name)
        for name in (
            "sequence_parallel",
            "tp_overlap",
            "cp_comm",
            "weight_gather",
            "gradient_reduce",
            "micro_batch_group",
        )
        if getattr(constraints, name) is not None
    }
    question = Question(architecture, 8, 48, constraints=constraints, limit=ROOMY)
    under = question.setting()
    problem = problem_of(question.request(), resolved(under))
    chunks = knobs.get("pp", 1) * knobs.get("vpp", 1)
    split = {"stage_layers": constraints.stage_layers or (1,) * chunks}
    edp = {
        "edp": max(
            1,
            knobs.get("tp", 1)
            * knobs.get("cp", 1)
            * knobs.get("dp", 1)
            // (knobs.get("etp", 1) * knobs.get("ep", 1)),
        )
    }
    count = {"micro_batches": max(1, 48 // (knobs.get("micro_batch", 1) * knobs.get("dp", 1)))}
    made = layout(architecture, 48, **(pins | split | edp | count | knobs))
    return Case(made, under, problem.caps), problem


def column_of(made, name):
    value = getattr(made, name)
    return np.array([CODES[name].index(value) if name in CODES else value], dtype=np.int64)
