"""Models on the command line: listed, shown in full, imported from a file."""

import json

import pytest

from tests.service.conftest import ROOT
from tests.service.test_cli import run

FILE = ROOT / "openapi" / "examples" / "import-deepseek-v3.json"
CONFIG = json.loads(FILE.read_text())["hf_config"]


def told_in_lines(ran, *starts):
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    lines = ran.stderr.splitlines()
    assert len(lines) == len(starts), ran.stderr
    for start in starts:
        assert any(line.startswith(start) for line in lines), ran.stderr


def test_an_architecture_is_shown_with_dimensions_parts_and_flops():
    ran = run("models", "deepseek-v3")
    assert ran.returncode == 0, ran.stderr
    for words in (
        "mla key value lora rank",
        "each of 3 dense layers",
        "each of 58 sparse layers",
        "671,026,419,200",
        "FLOP at 4,096 tokens",
        "250,449,887,232",
        "sequence_length = 4096 (default)",
        "all: config.json of deepseek-ai/DeepSeek-V3",
    ):
        assert words in ran.stdout


def test_a_dense_architecture_shows_no_sparse_layer():
    ran = run("models", "gpt2", "--sequence", "1024")
    assert "each of 12 dense layers" in ran.stdout
    assert "sparse" not in ran.stdout
    assert "FLOP at 1,024 tokens" in ran.stdout
    assert "Assumed" not in ran.stdout


def test_the_list_takes_the_sequence_too():
    assert "of 8,192" in run("models", "--sequence", "8192").stdout


@pytest.mark.parametrize("columns", ["40", "80"])
def test_an_architecture_keeps_to_the_width_of_its_terminal(columns):
    ran = run("models", "import", str(FILE), COLUMNS=columns)
    assert max(map(len, ran.stdout.splitlines())) <= int(columns)


def test_an_import_prints_the_same_json_as_the_api(client):
    ran = run("models", "import", str(FILE), "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == client.post("/v1/models/import", json={"hf_config": CONFIG}).json()


def test_a_name_prints_the_same_json_as_the_api(client):
    printed = json.loads(run("models", "mixtral-8x7b", "--json", "--sequence", "512").stdout)
    assert printed == client.get("/v1/models/mixtral-8x7b?sequence_length=512").json()


def test_an_import_prints_counts_assumptions_and_warnings(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({k: v for k, v in CONFIG.items() if k != "q_lora_rank"}))
    ran = run("models", "import", str(path))
    assert ran.returncode == 0, ran.stderr
    assert "routed experts" in ran.stdout
    assert "/hf_config/q_lora_rank" in ran.stdout
    assert "Warning: rope_scaling (yarn) is not modelled" in ran.stdout


def test_an_import_reads_standard_input():
    ran = run("models", "import", "-", stdin=json.dumps(CONFIG))
    assert ran.returncode == 0, ran.stderr
    assert "671,026,419,200" in ran.stdout


def test_every_fault_of_a_bad_file_is_told_in_a_line():
    bad = CONFIG | {"hidden_size": "7168", "vocab_size": None}
    told_in_lines(
        run("models", "import", "-", stdin=json.dumps(bad)),
        "/hf_config/hidden_size = '7168': ",
        "/hf_config/vocab_size: ",
    )


def test_every_fault_of_a_bad_file_is_told_in_json():
    ran = run("models", "import", "-", "--json", stdin=json.dumps(CONFIG | {"hidden_size": 0}))
    assert ran.returncode == 2
    assert json.loads(ran.stdout)["faults"][0]["field"] == "/hf_config/hidden_size"


@pytest.mark.parametrize(
    ("content", "start"),
    [
        (b"", "the file is empty"),
        (b"{", "the file is not JSON"),
        (b"\xff\xfe\x00\x01", "the file is not UTF-8"),
        (b'{"hidden_size": NaN}', "NaN is not JSON"),
        (b"[" * 100 + b"]" * 100, "the file nests deeper than 32 levels"),
    ],
    ids=["empty", "cut off", "binary", "NaN", "deep"],
)
def test_a_file_that_cannot_be_read_as_json_is_told_in_a_sentence(tmp_path, content, start):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    told_in_lines(run("models", "import", str(path)), f"FILE = '{path}': {start}")


@pytest.mark.parametrize("content", ["[1, 2]", "null", "5", '"llama-3-8b"'])
def test_a_file_that_holds_no_object_is_told_in_a_sentence(content):
    ran = run("models", "import", "-", stdin=content)
    told_in_lines(ran, "/hf_config")
    assert "must be an object, not" in ran.stderr


def test_a_missing_file_a_folder_and_no_file_are_told_in_a_sentence(tmp_path):
    told_in_lines(run("models", "import", "no-such.json"), "FILE = 'no-such.json': the file cannot be read: ")
    told_in_lines(run("models", "import", str(tmp_path)), f"FILE = '{tmp_path}': the file cannot be read: ")
    told_in_lines(run("models", "import"), "FILE: import reads a file, and none is named")


def test_a_file_beside_a_name_is_refused():
    told_in_lines(run("models", "gpt2", "config.json"), "FILE = 'config.json': only import takes a file")


def test_a_sequence_that_makes_no_sense_is_refused():
    told_in_lines(
        run("models", "gpt2", "--sequence", "0"), "sequence_length = 0: below the least accepted, 1"
    )
