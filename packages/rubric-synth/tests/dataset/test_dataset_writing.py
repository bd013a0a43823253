import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from rubric_core import Task, read_tasks, split_of
from rubric_judge import ModelConfig
from rubric_synth import DatasetFolderError, SynthConfig, SynthReport, check_dataset
from rubric_synth.config import LLMConfig, RayConfig
from rubric_synth.document import DocumentOutcome, Rejection
from rubric_synth.files import json_line
from rubric_synth.run.dataset.folder import SPLITS, Manifest, Provenance, read_manifest
from rubric_synth.run.dataset.writing import write_dataset

_FILES = {
    "README.md", "manifest.json", "rejected.jsonl",
    "train.jsonl", "validation.jsonl", "test.jsonl",
    "train.parquet", "validation.parquet", "test.parquet",
}  # fmt: skip
_HOSTILE = (
    'a\u2028b\u2029c\x00d\r\n\t"\\ \U0001f600 \u202e\ufeff e\u0301 </script>{{ x }}'
)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def _copy(row: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {**row, **fields}


def test_every_file_stands_in_the_folder_with_its_hash(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    write(outcomes)
    folder = tmp_path / "data"
    assert {path.name for path in folder.iterdir()} == _FILES
    hashes = read_manifest(folder).sha256
    assert set(hashes) == _FILES - {"manifest.json"}
    for name, expected in hashes.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected


def test_rows_are_written_as_they_came_in_the_split_of_their_document(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    report = write(outcomes)
    for split in SPLITS:
        rows = [t for o in outcomes for t in o.tasks if split_of(o.doc_hash) == split]
        path = tmp_path / "data" / f"{split}.jsonl"
        assert path.read_bytes() == b"".join(map(json_line, rows))
        assert report.tasks[split] == len(rows)
        assert list(read_tasks(path.with_suffix(".parquet"))) == [
            Task.from_json(r) for r in rows
        ]


def test_the_same_outcomes_give_the_same_bytes(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    write(outcomes, name="a")
    write(outcomes, name="b")
    write(outcomes, name="b")
    for name in _FILES:
        assert (tmp_path / "a" / name).read_bytes() == (
            tmp_path / "b" / name
        ).read_bytes()


def test_the_manifest_accounts_for_documents_tasks_refusals_and_costs(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    report = write(
        outcomes, pending=3, judge="lexical", prompts={"b.txt": "2", "a.txt": "1"}
    )
    manifest = read_manifest(tmp_path / "data")
    counts = (
        manifest.documents,
        manifest.accepted_documents,
        manifest.rejected_documents,
    )
    assert (*counts, manifest.pending_documents) == (15, 10, 2, 3)
    assert manifest.rejected == {"no_passage": 1, "too_few_criteria": 1}
    assert manifest.rejected_by_stage == {
        "quality": {"too_few_criteria": 1},
        "synthesise": {"no_passage": 1},
    }
    assert manifest.usage.by_stage["analyse"] == manifest.usage.total == report.usage
    assert (report.usage.calls, report.usage.attempts, report.usage.cost_usd) == (
        20,
        30,
        2.5,
    )
    assert list(manifest.prompts) == ["a.txt", "b.txt"]
    assert manifest.judge == "lexical"
    assert (report.documents, report.pending_documents) == (15, 3)
    assert manifest.documents == 15


def test_no_address_and_no_key_is_published(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    model = ModelConfig(
        model="m", api_base="http://gpu-7.inside:8000/v1", api_key_env="OUR_KEY"
    )
    judge: Any = {
        "type": "plugin",
        "name": "ours",
        "options": {"auth": "sk-0123456789abcdefghij", "depth": "deep"},
    }
    config = SynthConfig.model_validate(
        {
            "synthesiser": LLMConfig(model=model),
            "quality": {"judge": judge},
            "ray": RayConfig(address="ray://gpu-8.inside:10001"),
        }
    )
    write(outcomes, config=config)
    folder = tmp_path / "data"
    shown = (folder / "manifest.json").read_text() + (folder / "README.md").read_text()
    for secret in ("inside", "OUR_KEY", "sk-0123"):
        assert secret not in shown
    options = read_manifest(folder).config["quality"]["judge"]["options"]
    assert options == {"auth": "…", "depth": "deep"}


def test_a_key_among_parameters_or_names_is_not_published(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    further = {
        "extra_body": {"x_api_key": "hunter2", "seed": 1},
        "user": "sk-0123456789abcdefghij",
    }
    model = ModelConfig(model="openai/gpt-4o-2024-08-06", parameters=further)
    config = SynthConfig.model_validate({"synthesiser": LLMConfig(model=model)})
    identity = {"model": model.model, "parameters": further}
    write(outcomes, config=config, model=identity, judge="sk-0123456789abcdefghij")
    folder = tmp_path / "data"
    shown = (folder / "manifest.json").read_text() + (folder / "README.md").read_text()
    for secret in ("hunter2", "sk-0123"):
        assert secret not in shown
    hidden = {"extra_body": {"x_api_key": "…", "seed": 1}, "user": "…"}
    assert read_manifest(folder).model == {"model": model.model, "parameters": hidden}


def test_of_questions_asked_twice_the_first_is_kept(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    first, second = outcomes[0], outcomes[1]
    asked = first.tasks[0]["question"]
    loud = asked.upper().replace(" ", "  ")
    twin = second.model_copy(update={"tasks": (_copy(second.tasks[0], question=loud),)})
    report = write([first, twin])
    assert report.rejected == {"duplicate_question": 1}
    assert (report.accepted_documents, sum(report.tasks.values())) == (1, 1)
    (row,) = _lines(tmp_path / "data" / "rejected.jsonl")
    assert row["doc_hash"] == second.doc_hash
    assert row["detail"] == f"of a question of document {first.doc_hash[:12]}"
    assert asked not in json.dumps(row)


def test_hostile_text_goes_through_both_files_unchanged(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    row = _copy(
        outcomes[0].tasks[0],
        question=_HOSTILE,
        passage=_HOSTILE + "x" * 1_000_000,
        reference_answer=_HOSTILE,
        question_rationale="\x00",
    )
    row["criteria"][0]["expected_keywords"] = [_HOSTILE]
    report = write([outcomes[0].model_copy(update={"tasks": (row,)})])
    (split,) = [split for split, count in report.tasks.items() if count]
    for name in (f"{split}.jsonl", f"{split}.parquet"):
        (task,) = read_tasks(tmp_path / "data" / name)
        assert task == Task.from_json(row)


def test_a_lone_surrogate_in_a_refused_draft_is_kept_as_json_spells_it(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    refused = outcomes[-1].rejections[0]
    rejection = Rejection.model_construct(
        **{**dict(refused), "draft": {"question": "half a smile \ud83d"}}
    )
    write([outcomes[-1].model_copy(update={"rejections": (rejection,)})])
    (row,) = _lines(tmp_path / "data" / "rejected.jsonl")
    assert row["draft"]["question"] == "half a smile \ud83d"


def test_rows_of_several_row_groups_keep_their_order(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    row = outcomes[0].tasks[0]
    tasks = tuple(_copy(row, question=f"q{n} " + " ".join(f"w{n}x{k}" for k in range(4)))
                  for n in range(2_500))  # fmt: skip
    report = write([outcomes[0].model_copy(update={"tasks": tasks})])
    (split,) = [split for split, count in report.tasks.items() if count]
    read = [
        task.question for task in read_tasks(tmp_path / "data" / f"{split}.parquet")
    ]
    assert read == [task["question"] for task in tasks]


def test_a_row_that_is_no_task_leaves_an_older_dataset_whole(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    write(outcomes)
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    broken = _copy(outcomes[0].tasks[0], weight="much")
    with pytest.raises(DatasetFolderError, match="does not have the fields of a task"):
        write([outcomes[0].model_copy(update={"tasks": (broken,)})])
    assert {
        path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()
    } == before


def test_outcomes_that_do_not_add_up_are_an_error(
    tmp_path: Path, outcomes: list[DocumentOutcome]
) -> None:
    short = Provenance(
        collected_sha256="0" * 64,
        prompts={},
        model=None,
        judge="",
        documents=13,
        pending=2,
    )
    with pytest.raises(
        DatasetFolderError, match="12 documents with an outcome and 2 pending"
    ):
        write_dataset(
            tmp_path / "data", outcomes, config=SynthConfig(), provenance=short
        )
    assert list((tmp_path / "data").iterdir()) == []


_FILL = """
import resource, sys
from pathlib import Path
from pydantic import TypeAdapter
from rubric_synth import OutputError, SynthConfig
from rubric_synth.run.dataset.folder import Provenance
from rubric_synth.run.dataset.writing import write_dataset
from rubric_synth.document import DocumentOutcome

outcomes = TypeAdapter(list[DocumentOutcome]).validate_json(sys.stdin.read())
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_dataset(Path(sys.argv[1]), outcomes, config=SynthConfig(),
                  provenance=Provenance(collected_sha256="0", prompts={}, model=None, judge="",
                                        documents=len(outcomes)))
except OutputError as error:
    print(error)
"""


def test_a_file_that_the_system_refuses_leaves_an_older_dataset_whole(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    write(outcomes)
    folder = tmp_path / "data"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    sent = TypeAdapter(list[DocumentOutcome]).dump_json(outcomes)
    command = [sys.executable, "-c", _FILL, str(folder)]
    done = subprocess.run(command, input=sent, capture_output=True, check=True)
    assert b"File too large" in done.stdout, done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_dataset_without_pyarrow_is_json_lines_alone(
    tmp_path: Path,
    outcomes: list[DocumentOutcome],
    write: Callable[..., SynthReport],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(outcomes)
    monkeypatch.setattr(
        "rubric_synth.run.dataset.folder.can_write_parquet", lambda: False
    )
    write(outcomes)
    assert {path.name for path in (tmp_path / "data").iterdir()} == {
        name for name in _FILES if not name.endswith(".parquet")
    }
    assert "train.parquet" not in (tmp_path / "data" / "README.md").read_text()


def test_no_outcome_at_all_is_a_dataset_of_empty_files(
    tmp_path: Path, write: Callable[..., SynthReport]
) -> None:
    report = write([], pending=4)
    assert report.tasks == dict.fromkeys(SPLITS, 0)
    for split in SPLITS:
        assert (tmp_path / "data" / f"{split}.jsonl").read_bytes() == b""
        assert list(read_tasks(tmp_path / "data" / f"{split}.parquet")) == []


def test_the_manifest_reads_back_as_it_was_written(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    write(outcomes)
    text = (tmp_path / "data" / "manifest.json").read_text(encoding="utf-8")
    manifest = Manifest.model_validate_json(text)
    dumped = json.dumps(manifest.model_dump(mode="json"), ensure_ascii=False, indent=2)
    assert dumped + "\n" == text


def test_a_passage_stays_in_the_split_that_has_it_first(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    page = " ".join(
        f"The {name} of station {n} is read twice a day." for n, name in _READINGS
    )
    first, *others = (o for o in outcomes if o.tasks)
    longer = {
        **first.tasks[0],
        "passage": f"The handbook says it all. {page} {page[::-1]}",
    }
    parts = [
        o.model_copy(update={"tasks": ({**o.tasks[0], "passage": page},)})
        for o in others
    ]
    report = write([first.model_copy(update={"tasks": (longer,)}), *parts])
    split = split_of(first.doc_hash)
    apart = [o for o in others if split_of(o.doc_hash) != split]
    assert report.rejected == {"duplicate_passage": len(apart)}
    assert report.tasks[split] == 1 + len(others) - len(apart)
    details = {row["detail"] for row in _lines(tmp_path / "data" / "rejected.jsonl")}
    assert details == {
        f"of a passage of document {first.doc_hash[:12]}, in another split"
    }
    assert not [p for p in check_dataset(tmp_path / "data").problems if "passage" in p]


_READINGS = tuple(
    enumerate(("tide", "wind", "rain", "snow", "heat", "salt", "fog", "ice", "sun"))
)
