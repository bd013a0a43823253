"""An environment's folder: what each side may read, and what is refused."""

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rubric_core import ConfigError, Task, read_tasks
from rubric_synth.cli import main
from rubric_synth.errors import DatasetFolderError
from rubric_synth.export.environment import RECORD_FILE, checked_name
from rubric_synth.export.package import common_files
from rubric_synth.export.run import (
    TARGETS,
    chosen_targets,
    judge_files_of,
    read_environment,
    write_environment,
)

Write = Callable[..., Path]
Row = Callable[..., dict[str, Any]]
TO = ("--to", "verifiers")
CANARY = re.compile(rb"zq[a-z]+")
SUBJECTS = ("tide", "yeast", "rust", "orbit", "canopy", "sonar")


def exported(dataset: Path, out: Path, *words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(dataset), "--out", str(out), *words])
    assert not ended.value.code


def row(number: int, **fields: object) -> dict[str, Any]:
    return {
        "question": f"What does number {number} do to the level of the bay?",
        "passage": "It lowers the level.",
        "criteria": [{"id": "a", "weight": 1.0, "required_elements": ["lowers"]}],
        **fields,
    }


def test_only_the_judges_folder_holds_hidden_texts(
    write_dataset: Write, tasks: list[Task], tmp_path: Path
) -> None:
    out = tmp_path / "my-docs"
    exported(write_dataset(), out, "--to", *TARGETS)

    found: dict[str, set[bytes]] = {}
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        found[path.relative_to(out).as_posix()] = set(CANARY.findall(path.read_bytes()))
    judges = {name for name in found if re.search("/(judge|tests|solution)/", name)}

    assert {name: found[name] for name in found.keys() - judges if found[name]} == {}
    assert len(found["my_docs/judge/tasks.jsonl"]) == 10
    assert set(read_tasks(out / "my_docs/judge/tasks.jsonl")) == set(tasks)


def test_the_package_hands_out_questions_and_no_stack(
    write_dataset: Write, tmp_path: Path
) -> None:
    dataset, out = write_dataset(), tmp_path / "my-docs"
    exported(dataset, out, "--to", "verifiers")
    script = (
        "import json, sys, my_docs; "
        "print(json.dumps([my_docs.rows('test'), 'verifiers' in sys.modules]))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=out,
        capture_output=True,
        text=True,
        check=True,
    )

    views = [task.policy_view() for task in read_tasks(dataset / "test.jsonl")]
    asked = [{"task_id": view.task_id, "prompt": view.message} for view in views]
    assert json.loads(done.stdout) == [asked, False]


def test_a_task_that_fails_its_test_is_left_out(
    write_dataset: Write,
    task_row: Row,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [task_row(subject) for subject in SUBJECTS]
    rows[0]["reference_answer"] = "`tau` is the colour of the sky."
    dataset, out = write_dataset(rows), tmp_path / "my-docs"
    exported(dataset, out, "--to", "verifiers")
    printed = capsys.readouterr().out

    kept = set(read_tasks(out / "my_docs/judge/tasks.jsonl"))
    assert kept == {Task.from_json(row) for row in rows[1:]}
    assert "1 task: reference is not the whole reward" in printed
    assert "1 task of 6 left out" in printed
    card = (out / "README.md").read_text("utf-8")
    assert "1 of these tasks were left out" in card
    assert "| reference | full | 6 |" in card


def test_the_command_of_the_card_keeps_traces_on_this_machine(
    write_dataset: Write, task_row: Row, tmp_path: Path
) -> None:
    dataset = write_dataset([task_row(subject) for subject in SUBJECTS])
    exported(dataset, tmp_path / "my-docs", "--to", "verifiers")

    card = (tmp_path / "my-docs" / "README.md").read_text("utf-8")
    command = card.partition("vf-eval ")[2].partition("```")[0]
    assert "--push False" in command


def test_prime_rls_files_need_no_sandbox_of_others(
    write_dataset: Write, tmp_path: Path
) -> None:
    """Where no runtime is named, verifiers asks for Prime Intellect's, and a login there."""
    out = tmp_path / "my-docs"
    exported(write_dataset(), out, "--to", "verifiers", "--fixtures", "0")
    training = tomllib.loads((out / "with_prime_rl.toml").read_text("utf-8"))
    evals = tomllib.loads((out / "with_prime_rl_evals.toml").read_text("utf-8"))
    sources = {
        "train": training["orchestrator"]["train"]["source"],
        "test": evals["eval"]["source"],
    }

    for split, found in sources.items():
        agent = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
        env = {"taskset": {"id": "my-docs", "split": split}, "agent": agent}
        assert found == [{"env": env}]
    card = (out / "README.md").read_text("utf-8")
    assert "rl @ with_prime_rl.toml --model.name" in card
    assert "evals @ with_prime_rl_evals.toml --model" in card


def test_failing_tasks_may_be_kept_and_are_not_passed_over(
    write_dataset: Write, task_row: Row, tmp_path: Path
) -> None:
    rows = [task_row(subject) for subject in SUBJECTS]
    rows[0]["reference_answer"] = "`tau` is the colour of the sky."
    words = ["--to", "verifiers", "--out", str(tmp_path / "out"), "--keep-failing"]

    with pytest.raises(SystemExit) as ended:
        main(["export", str(write_dataset(rows)), *words])

    assert ended.value.code == 1
    assert len(list(read_tasks(tmp_path / "out/out/judge/tasks.jsonl"))) == 6


def test_nothing_is_written_where_every_task_fails(
    write_dataset: Write,
    task_row: Row,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [task_row(subject, reference_answer="It is.") for subject in SUBJECTS]

    with pytest.raises(SystemExit):
        main(["export", str(write_dataset(rows)), "--out", str(tmp_path / "out"), *TO])

    said = " ".join(capsys.readouterr().err.split())
    assert "all 6 tasks fail their own test, and nothing was written" in said
    assert not (tmp_path / "out").exists()


def test_tasks_without_references_make_no_fixtures(write_dataset: Write) -> None:
    dataset = write_dataset([row(number) for number in range(6)])
    targets = chosen_targets(["verifiers"])

    with pytest.raises(
        ConfigError, match="fixtures cannot be made: none of 6 tasks has a"
    ):
        read_environment(dataset, name="a", judge=None, targets=targets)
    made = read_environment(
        dataset, name="a", judge=None, targets=targets, fixture_tasks=0
    )

    assert not made.fixtures


@pytest.mark.parametrize(
    ("count", "asked", "rows_of_verl", "held_out"),
    [
        (6, "test", '("train", "validation")', "validation"),
        (2, "validation", '("train", "validation")', "validation"),
        (1, "train", '("train",)', "train"),
    ],
)
def test_a_split_without_tasks_is_not_what_a_stack_is_given(
    write_dataset: Write, count: int, asked: str, rows_of_verl: str, held_out: str
) -> None:
    made = read_environment(
        write_dataset([row(number) for number in range(count)]),
        name="a",
        judge=None,
        targets=chosen_targets(["verl", "inspect-ai", "harbor"]),
        fixture_tasks=0,
    )

    _, verl, inspect_ai = (
        next(iter(target.files(made))).content.decode() for target in made.targets
    )
    card = next(file for file in common_files(made) if file.path.name == "README.md")

    assert f'def rubric_eval(split: str = "{asked}")' in inspect_ai
    assert f"harbor run --path harbor/{asked} --agent oracle" in card.content.decode()
    assert f"for split in {rows_of_verl}:" in verl
    assert f"data.val_files={{whole(ROWS / '{held_out}.parquet')}}" in verl


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("unfinished", "holds the work of a run that has not ended"),
        ("collected", "is a folder of collected documents"),
        ("absent", "does not exist"),
        ("empty", "holds no task: there is nothing to export"),
    ],
)
def test_what_is_no_finished_dataset_is_refused(
    fault: str, message: str, write_dataset: Write, tmp_path: Path
) -> None:
    dataset = tmp_path / "dataset"
    match fault:
        case "unfinished":
            (dataset / "work").mkdir(parents=True)
        case "collected":
            dataset.mkdir()
            (dataset / "documents.jsonl").touch()
        case "empty":
            write_dataset([])
        case _:
            pass

    with pytest.raises(DatasetFolderError, match=message):
        read_environment(dataset, name="a", judge=None, targets=())


def test_an_environment_may_have_the_name_of_one_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "my_docs"
    module.mkdir()
    (module / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="which it would hide"):
        checked_name("my-docs")

    (module / RECORD_FILE).touch()

    assert checked_name("my-docs") == "my-docs"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "gym"], "--to 'gym': no such target; known are"),
        (["--to", "verifiers", "--name", "9 docs"], "--name '9 docs': no name of a"),
        (["--to", "verifiers", "--name", "class"], "--name 'class': no name of a"),
        (
            ["--to", "verifiers", "--name", "Rubric-Core"],
            "has a module or folder of this name",
        ),
        (["--to", "harbor", "--name", "harbor"], "has a module or folder of this name"),
        (["--to", "harbor", "--name", "json"], "has a module or folder of this name"),
        (["--to", "harbor", "--name", "numpy"], "has a module or folder of this name"),
        # A distribution whose module has another name.
        (["--to", "harbor", "--name", "PyYAML"], "has a module or folder of this name"),
        (["--to", "verifiers", "--judge", "absent.yaml"], "absent.yaml"),
    ],
)
def test_a_wrong_word_is_named(
    words: list[str],
    message: str,
    write_dataset: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(write_dataset()), "--out", str(tmp_path / "out"), *words])

    assert ended.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_stays_as_it_is(
    write_dataset: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()

    with pytest.raises(SystemExit):
        main(["export", str(write_dataset()), "--out", str(out), "--to", "verifiers"])

    assert "is there already, and nothing was changed" in capsys.readouterr().err
    assert list(out.iterdir()) == []


def test_the_card_names_where_the_answers_behind_its_tables_are(
    write_dataset: Write, tmp_path: Path
) -> None:
    out = tmp_path / "my-docs"
    exported(write_dataset(), out, *TO)

    card = (out / "README.md").read_text("utf-8")
    paths = set(re.findall(r"my_docs/judge/[\w.]+", card))

    names = {"fixtures.jsonl", "tasks.jsonl", "judge.yaml"}
    assert paths == {f"my_docs/judge/{name}" for name in names}
    assert all((out / path).is_file() for path in paths)
    assert "--reveal --out attacked" in card


def test_what_a_killed_export_left_goes_with_the_next(
    write_dataset: Write, tmp_path: Path
) -> None:
    dataset, out = write_dataset(), tmp_path / "out" / "my-docs"
    left = tmp_path / "out" / ".my-docs.0123abcd.tmp"
    others = tmp_path / "out" / ".my-docs-2.0123abcd.tmp"
    for folder in (left, others):
        (folder / "judge").mkdir(parents=True)
        (folder / "judge" / "tasks.jsonl").write_text("hidden")

    exported(dataset, out, *TO)

    assert {path.name for path in out.parent.iterdir()} == {out.name, others.name}


@pytest.mark.parametrize("out", ["a file/my-docs", "a file/inner/my-docs", "a" * 250])
def test_a_folder_that_cannot_be_made_is_said_before_the_test(
    write_dataset: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    out: str,
) -> None:
    dataset = write_dataset()
    (tmp_path / "a file").write_text("of somebody")
    monkeypatch.setattr("rubric_synth.export.trial.tried", None)  # cannot be called
    words = ["--out", str(tmp_path / out), "--name", "my-docs", *TO]

    with pytest.raises(SystemExit) as ended:
        main(["export", str(dataset), *words])

    assert ended.value.code == 2
    assert "nothing was changed" in capsys.readouterr().err


def test_a_judge_brings_the_files_that_it_names(tmp_path: Path) -> None:
    home = tmp_path / "judges"
    (home / "made").mkdir(parents=True)
    (home / "made/router.yaml").write_text("model_list: []\n", encoding="utf-8")
    judge = home / "mine.yaml"
    judge.write_text(
        "type: llm\nmodel: openai/x\nlitellm_config: made/router.yaml\n", "utf-8"
    )

    files = judge_files_of(judge)

    assert files == {
        "judge.yaml": judge.read_bytes(),
        "made/router.yaml": b"model_list: []\n",
    }


@pytest.mark.parametrize(
    ("name", "value", "is_given_away"),
    [
        ("api_key", "sk-1", True),
        ("api_key", "os.environ/JUDGE_KEY", False),
        ("aws_access_key_id", "AKIA1", True),
        ("extra_headers", {"Authorization": "Bearer 1"}, True),
        ("input_cost_per_token", "1e-6", False),
        ("output_cost_per_reasoning_token", "4e-6", False),
        ("prompt_cache_key", "judges", False),
    ],
)
def test_a_key_in_a_file_of_the_judge_is_not_exported(
    name: str, value: object, *, is_given_away: bool, tmp_path: Path
) -> None:
    router = tmp_path / "router.yaml"
    entry = {"model_name": "j", "litellm_params": {"model": "openai/x", name: value}}
    router.write_text(json.dumps({"model_list": [entry]}), "utf-8")
    judge = tmp_path / "mine.yaml"
    judge.write_text("type: llm\nmodel: j\nlitellm_config: router.yaml\n", "utf-8")

    if is_given_away:
        with pytest.raises(ConfigError, match="' holds a key"):
            judge_files_of(judge)
    else:
        assert set(judge_files_of(judge)) == {"judge.yaml", "router.yaml"}


@pytest.mark.parametrize("named", ["model", "../other.json"])
def test_a_judge_that_names_a_folder_or_a_file_elsewhere_is_refused(
    named: str, tmp_path: Path
) -> None:
    home = tmp_path / "judges"
    (home / "model").mkdir(parents=True)
    (tmp_path / "other.json").touch()
    judge = home / "mine.yaml"
    judge.write_text(f"type: claims\nentailment: {named}\n", encoding="utf-8")

    with pytest.raises(ConfigError, match="leads nowhere from the environment"):
        judge_files_of(judge)


@pytest.mark.parametrize("named", ["tasks.jsonl", "fixtures.jsonl", "Dockerfile"])
def test_a_judge_cannot_put_its_file_in_the_place_of_another(
    named: str, write_dataset: Write, tmp_path: Path
) -> None:
    judge = tmp_path / "judges" / "mine.yaml"
    judge.parent.mkdir()
    (judge.parent / named).write_text("other\n", encoding="utf-8")
    judge.write_text(f"type: llm\nmodel: openai/x\nlitellm_config: {named}\n", "utf-8")
    environment = read_environment(
        write_dataset(), name="x", judge=judge, targets=chosen_targets(["harbor"])
    )

    with pytest.raises(ConfigError, match=rf"{named}: the judge's file names a file"):
        write_environment(environment, tmp_path / "out")

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(1), row(2), row(1)], "is there twice"),
        ([row(1), row(2, conversation=True)], "is a conversation"),
    ],
)
def test_tasks_that_would_be_asked_otherwise_are_refused(
    rows: list[dict[str, Any]], message: str, write_dataset: Write
) -> None:
    with pytest.raises(DatasetFolderError, match=message):
        read_environment(
            write_dataset(rows), name="x", judge=None, targets=[], fixture_tasks=0
        )


def test_nothing_is_written_where_the_judge_does_not_answer(
    write_dataset: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = tmp_path / "judge.yaml"
    judge.write_text(
        "type: llm\nmodel: openai/x\napi_base: http://127.0.0.1:9/v1\nmax_transport_attempts: 1\n",
        encoding="utf-8",
    )
    words = ["--judge", str(judge), "--out", str(tmp_path / "out"), *TO]

    with pytest.raises(SystemExit) as ended:
        main(["export", str(write_dataset()), *words])

    assert ended.value.code == 4
    assert "127.0.0.1:9" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


Uv = Callable[..., None]


@pytest.fixture
def uv() -> Uv:
    """Calls uv, which builds packages."""
    found = shutil.which("uv")
    if found is None:
        pytest.skip("uv builds the package")

    def call(*words: object) -> None:
        subprocess.run([found, *map(str, words)], check=True, capture_output=True)

    return call


def test_the_package_installs_without_a_network(
    uv: Uv, write_dataset: Write, tmp_path: Path
) -> None:
    out = tmp_path / "my-docs"
    exported(write_dataset(), out, *TO)
    installed = tmp_path / "installed"

    uv("pip", "install", "-q", "--offline", "--no-deps", "--target", installed, out)

    written = {path.relative_to(out) for path in (out / "my_docs").rglob("*.*")}
    assert {path for path in written if not (installed / path).exists()} == set()
    assert (installed / "my_docs-0.1.0.dist-info").is_dir()


def test_a_wheel_out_of_the_source_archive_holds_every_file(
    uv: Uv, write_dataset: Write, tmp_path: Path
) -> None:
    out = tmp_path / "my-docs"
    exported(write_dataset(), out, *TO)
    built = tmp_path / "built"

    # As publishing does it: the archive first, and the wheel out of it.
    uv("build", "-q", "--offline", "--out-dir", built, out)

    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    written = [path for path in (out / "my_docs").rglob("*") if path.is_file()]
    assert len(written) > 5
    for path in written:
        assert packed[path.relative_to(out).as_posix()] == path.read_bytes()


@pytest.mark.parametrize("trainer", ["verl", "skyrl"])
def test_a_trainer_reads_paths_with_signs_whole(
    trainer: str, write_dataset: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "my-docs"
    exported(write_dataset(), out, "--to", trainer)
    place = tmp_path / "it's #1: here"
    place.mkdir()
    monkeypatch.chdir(place)
    source = ast.parse((out / f"with_{trainer}.py").read_text("utf-8"))
    source.body = [part for part in source.body if isinstance(part, ast.FunctionDef)]
    names = dict.fromkeys(("ROWS", "JUDGE", "TASKS"), place) | {"Path": Path}
    script: dict[str, Any] = {**names, "REWARD": "reward", "Any": Any}
    exec(compile(source, trainer, "exec"), script)  # noqa: S102  # it was just written

    values = [word.partition("=")[2] for word in script["settings"](2)]
    paths = [str(yaml.safe_load(value)) for value in values if str(place) in value]

    assert len(paths) == {"verl": 5, "skyrl": 3}[trainer]
    for path in paths:
        assert path.removeprefix('["').startswith(str(place))


@pytest.mark.parametrize("trainer", ["trl", "verl", "skyrl", "slime"])
def test_a_trainer_without_a_task_to_train_on_is_refused(
    trainer: str,
    write_dataset: Write,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dataset, out = write_dataset(), tmp_path / "my-docs"
    (dataset / "train.jsonl").write_text("")

    with pytest.raises(SystemExit) as ended:
        main(["export", str(dataset), "--out", str(out), "--to", trainer, "verifiers"])

    assert ended.value.code == 2
    error = " ".join(capsys.readouterr().err.split())
    assert f"--to {trainer}: no task to train on (0 in train, 2 in valid" in error
    assert not out.exists()
    exported(dataset, out, "--to", "verifiers", "inspect-ai")
