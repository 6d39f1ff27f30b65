"""Files of measured runs: what is read, which faults are told, and what a measured memory means."""

from pathlib import Path

import pytest

from models.errors import InvalidField
from models.estimate import Memory, StageMemory
from service.measured import read_runs
from service.measured.units import bytes_of, comparable_bytes, scope_of
from tests.service.measured_rows import edited, one, rows, written


def faults(path: Path) -> dict[str, str]:
    with pytest.raises(InvalidField) as caught:
        read_runs(path)
    return {fault.field: fault.reason for fault in caught.value.faults}


def test_a_missing_column_is_told_by_name(tmp_path):
    columns = [name for name in rows()["dlperf-0002"] if name not in ("heads", "zero_stage")]
    told = faults(written(tmp_path, [rows()["dlperf-0002"]], columns))
    assert told == {"/columns/heads": "the column is missing", "/columns/zero_stage": "the column is missing"}


@pytest.mark.parametrize(
    ("column", "cell", "reason"),
    [
        ("hidden", "many", "must be a whole number"),
        ("hidden", "1536.5", "must be a whole number"),
        ("hidden", "", "must be a whole number"),
        ("hidden", "99999999999999999999", "too large"),
        ("hidden", "9" * 5000, "too large"),
        ("hidden", "-5", "below the least accepted, 1"),
        ("zero_stage", "-1", "below the least accepted, 0"),
        ("tp", "0", "below the least accepted, 1"),
        ("sp", "yes", "must be 0 or 1"),
        ("measured_step_s", "fast", "must be a number"),
        ("measured_step_s", "3_7", "must be a number"),
        ("measured_step_s", "3,7", "must be a number"),
        ("measured_step_s", "nan", "must be a finite number more than 0"),
        ("measured_step_s", "-1", "must be a finite number more than 0"),
        ("measured_memory_GB_per_gpu", "1e308", "outside 1e-09 to 1e+15"),
        ("measured_memory_GB_per_gpu", "1e-300", "outside 1e-09 to 1e+15"),
        ("model_name", "gpt\x1b[31m", "holds what cannot be printed"),
        ("framework", "mega\0tron", "holds what cannot be printed"),
        ("gpu", "", "blank, and it has no default"),
        ("confidence", "certain", "not a known confidence"),
        ("mem_kind", "", "a measured memory whose unit and kind are not said"),
    ],
)
def test_a_bad_cell_is_told_with_its_row_and_column(tmp_path, column, cell, reason):
    told = faults(edited(tmp_path, "dlperf-0002", **{column: cell}))
    assert told == {f"/rows/dlperf-0002/{column}": reason}


@pytest.mark.parametrize("mark", [";", "\t"])
def test_columns_parted_by_something_else_are_told_as_such(tmp_path, mark):
    """A spreadsheet set to German saves semicolons: 23 missing columns were told."""
    path = written(tmp_path, [rows()["dlperf-0002"]])
    path.write_text(path.read_text(encoding="utf-8").replace(",", mark), encoding="utf-8")
    assert faults(path) == {"/columns": "they are parted by semicolons or tabs, not by commas"}


def test_blank_lines_above_the_header_are_no_header(tmp_path):
    path = written(tmp_path, [rows()["dlperf-0002"]])
    path.write_text("\n\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert [run.id for run in read_runs(path)] == ["dlperf-0002"]


def test_all_faults_of_a_file_are_told_at_once(tmp_path):
    first, second = rows()["dlperf-0002"], rows()["dlperf-0004"]
    told = faults(written(tmp_path, [first | {"tp": "x"}, second | {"pp": "y", "id": ""}]))
    assert set(told) == {"/rows/dlperf-0002/tp", "/rows/line 3/id", "/rows/line 3/pp"}


def test_an_id_stands_once(tmp_path):
    told = faults(written(tmp_path, [rows()["dlperf-0002"]] * 2))
    assert told == {"/rows/dlperf-0002/id": "line 2 has this id too"}


def test_a_row_with_cells_too_many_is_told(tmp_path):
    path = written(tmp_path, [rows()["dlperf-0002"]])
    path.write_text(path.read_text(encoding="utf-8").rstrip("\r\n") + ",and more\n", encoding="utf-8")
    assert list(faults(path)) == ["/rows/line 2"]


def test_a_file_without_rows_is_a_fault(tmp_path):
    told = faults(written(tmp_path, [], list(rows()["dlperf-0002"])))
    assert told == {"/rows": "the file has no row below its header"}


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00binary", b'id,source\n"open'])
def test_what_is_no_csv_file_is_a_fault_of_the_question(tmp_path, content):
    path = tmp_path / "runs.csv"
    if content is not None:
        path.write_bytes(content)
    assert list(faults(path)) == ["RUNS.csv"]


def test_a_whole_number_may_have_leading_zeros(tmp_path):
    assert one(tmp_path, "dlperf-0002", hidden="0" * 30 + "1536").hidden == 1536


def test_a_file_without_schedules_is_read(tmp_path):
    columns = [name for name in rows()["dlperf-0002"] if name != "schedule"]
    assert read_runs(written(tmp_path, [rows()["dlperf-0002"]], columns))[0].schedule is None


def test_more_columns_than_ours_are_no_fault(tmp_path):
    assert one(tmp_path, "dlperf-0002", weather="fine").id == "dlperf-0002"


@pytest.mark.parametrize(
    ("value", "kind", "scope", "size"),
    [
        (76.0, "nvidia-smi max, GB as printed (nvidia-smi GiB likely)", "process", 79691776000),
        (26.0, "nvidia-smi rounded up, GB as printed", "process", 27262976000),
        (11.604, "nvidia-smi used (MiB x1.0486), may include framework pool", "process", 11604000000),
        (58.8, "peak allocated, GB as printed", "allocated", 58800000000),
        (88.476, "torchtitan max reserved (device memory monitor), GiB x1.0737", "reserved", 88476000000),
        (71.458, "max of torch max_memory_allocated, GiB x1.0737; reserved=1", "allocated", 71458000000),
    ],
)  # fmt: skip
def test_a_measured_memory_is_read_in_the_unit_its_source_printed(value, kind, scope, size):
    assert (scope_of(kind), bytes_of(value, kind)) == (scope, size)


def test_the_allocator_sees_neither_context_nor_communicators():
    memory = Memory(
        limit_bytes=100,
        peak_bytes=30,
        peak_stage=0,
        headroom_bytes=70,
        stages=(stage(0, 30, cuda_context=6, communicators=4), stage(1, 25, cuda_context=6, communicators=0)),
    )
    assert comparable_bytes(memory, "process") == 30
    assert comparable_bytes(memory, "allocated") == comparable_bytes(memory, "reserved") == 20


def stage(index: int, total: int, **details: int) -> StageMemory:
    parts = dict.fromkeys(("weights", "gradients", "optimizer", "activations", "buffers", "overhead"), 0)
    sizes = {f"{name}_bytes": size for name, size in parts.items()}
    return StageMemory(stage=index, layers=1, in_flight=1, total_bytes=total, details=details, **sizes)
