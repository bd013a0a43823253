"""What a run has spent and what it has left: as message, manifest, card and report say."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rubric_core import FolderLockError
from rubric_judge.testing import FakeEndpoint, Fault
from rubric_synth import (
    check_dataset,
    collect,
    dataset_statistics,
    load_config,
    synthesise,
)
from rubric_synth.cli import main
from rubric_synth.errors import UnfinishedError
from rubric_synth.run.dataset.folder import WORK_FOLDER, read_manifest
from rubric_synth.run.work.folder import WorkFolder
from rubric_synth.testing import scripted_reply

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROUTER = """
model_list:
  - {{model_name: writer, litellm_params: {{model: openai/small, api_key: k, api_base: "{one}"}}}}
  - {{model_name: spare, litellm_params: {{model: openai/large, api_key: k, api_base: "{other}"}}}}
router_settings: {{fallbacks: [{{writer: [spare]}}]}}
"""


def _at(path: Path, url: str, **settings: object) -> Path:
    """Write a configuration again, for a model at another address."""
    content = yaml.safe_load(path.read_text())
    content["synthesiser"]["model"].update(api_base=url, **settings)
    path.write_text(yaml.safe_dump(content))
    return path


def _main(*words: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    assert not ended.value.code


def test_a_server_that_dies_in_mid_run_leaves_documents_pending(
    tmp_path: Path, generated: Callable[[int], Path], configured: Callable[..., Path]
) -> None:
    collected, out = generated(6), tmp_path / "data"
    faults = itertools.chain([None] * 7, itertools.repeat(Fault.SERVER_ERROR))
    with FakeEndpoint(scripted_reply, faults=faults) as endpoint:
        path = _at(
            configured(max_concurrency=1), endpoint.url, max_transport_attempts=1
        )
        with pytest.raises(UnfinishedError, match="documents got no answer") as stopped:
            synthesise(collected, out, config=load_config(path))
    assert stopped.value.cause == "unavailable"
    manifest = read_manifest(out)
    pending = manifest.pending_documents
    assert 0 < pending == manifest.unanswered_documents == stopped.value.pending < 6
    assert manifest.accepted_documents + manifest.rejected_documents + pending == 6
    assert (
        f"{pending} pending, {pending} of them because no answer"
        in (out / "README.md").read_text()
    )
    problems = check_dataset(out, collected=collected).problems
    assert [
        problem
        for problem in problems
        if "document" in problem and "collect" not in problem
    ] == []
    with FakeEndpoint(scripted_reply) as endpoint:
        report = synthesise(collected, out, config=load_config(_at(path, endpoint.url)))
    assert (report.pending_documents, report.unanswered_documents) == (0, 0)


@pytest.mark.usefixtures("model")
def test_message_and_manifest_agree_on_calls_and_costs(
    tmp_path: Path, generated: Callable[[int], Path], configured: Callable[..., Path]
) -> None:
    collected, out = generated(8), tmp_path / "data"
    whole = synthesise(collected, tmp_path / "whole", config=load_config(configured()))
    config = load_config(
        configured(max_cost_usd=whole.usage.cost_usd * 0.6, max_concurrency=3)
    )
    with pytest.raises(UnfinishedError, match="max_cost_usd") as stopped:
        synthesise(collected, out, config=config)
    usage = read_manifest(out).usage
    assert f"{usage.total.calls} calls have cost {usage.total.cost_usd:.4g} USD" in str(
        stopped.value
    )
    with WorkFolder(out / WORK_FOLDER) as work:
        spent = work.index.spent()
        lines = sum(totals.calls for totals in spent.values())
    assert usage.by_stage == spent
    assert usage.total.calls == lines
    assert 0 < usage.unfinished.calls < lines
    assert read_manifest(tmp_path / "whole").usage.unfinished.calls == 0
    assert usage.total.cost_usd <= whole.usage.cost_usd * 0.6 * 1.05


def test_a_ceiling_counts_calls_that_were_answered_without_a_price(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
) -> None:
    collected, out = generated(6), tmp_path / "data"
    whole = synthesise(collected, tmp_path / "whole", config=load_config(configured()))
    synthesise(collected, out, config=load_config(configured(prices=False)), limit=4)
    model.endpoint.calls.clear()
    ceiling = {"max_cost_usd": whole.usage.cost_usd * 0.3}
    with pytest.raises(UnfinishedError) as stopped:
        synthesise(
            collected, out, config=load_config(configured(prices=False, **ceiling))
        )
    assert stopped.value.cause == "unpriced"
    with pytest.raises(UnfinishedError) as stopped:
        synthesise(collected, out, config=load_config(configured(**ceiling)))
    assert stopped.value.cause == "cost"
    assert not model.questions
    report = synthesise(collected, out, config=load_config(configured()))
    assert report.usage.unpriced_calls == 0
    assert report.usage.cost_usd == pytest.approx(whole.usage.cost_usd)


@pytest.mark.slow  # litellm's router is imported
def test_answers_of_a_fallback_are_counted_by_every_run_and_in_the_manifest(
    tmp_path: Path,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    collected, out = generated(3), tmp_path / "data"
    faults = itertools.chain([None] * 4, itertools.repeat(Fault.SERVER_ERROR))
    with (
        FakeEndpoint(scripted_reply, faults=faults) as one,
        FakeEndpoint(scripted_reply) as other,
    ):
        (tmp_path / "router.yaml").write_text(
            ROUTER.format(one=one.url, other=other.url)
        )
        content = yaml.safe_load((path := configured(max_concurrency=1)).read_text())
        content["synthesiser"]["model"] = {
            "model": "writer",
            "litellm_config": str(tmp_path / "router.yaml"),
            "allow_fallback_models": True,
            "backoff_s": 0.01,
        }
        path.write_text(yaml.safe_dump(content))
        _main("run", collected, "--out", out, "--config", path)
    total = read_manifest(out).usage.total
    assert total.fallback_calls == len(other.calls) > 0
    assert total.calls > total.fallback_calls
    told = f"by a fallback of litellm_config: {total.fallback_calls} of {total.calls} calls"
    assert told in capsys.readouterr().out
    _main("stats", out)
    assert told in capsys.readouterr().out
    again = synthesise(collected, out, config=load_config(path))  # from what is kept
    assert again.usage == total


def test_another_collection_into_the_same_folder_says_what_is_gone(
    tmp_path: Path,
    folder: Path,
    package: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "data"
    collect([folder, f"python:{package}"], tmp_path / "c")
    before = synthesise(tmp_path / "c", out)
    after = collect([f"python:{package}"], tmp_path / "d")
    _main("run", tmp_path / "d", "--out", out)
    gone = f"{before.documents - after.documents} documents of an earlier run into this folder"
    assert before.gone_documents == 0
    told = capsys.readouterr().err
    assert gone in told
    assert "run that collection into it again to get them back" in told
    assert synthesise(tmp_path / "d", out).gone_documents == 0
    assert synthesise(tmp_path / "c", out).tasks == before.tasks


@pytest.mark.parametrize("has_work", [True, False])
def test_a_folder_of_another_collection_is_refused_before_anything_is_written(
    tmp_path: Path,
    folder: Path,
    package: str,
    capsys: pytest.CaptureFixture[str],
    *,
    has_work: bool,
) -> None:
    out = tmp_path / "data"
    collect([folder], tmp_path / "c")
    synthesise(tmp_path / "c", out)
    dataset_statistics(out)
    if not has_work:
        shutil.rmtree(out / WORK_FOLDER)
    held = {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    collect([f"python:{package}"], tmp_path / "d")
    with pytest.raises(SystemExit) as ended:
        main(["run", str(tmp_path / "d"), "--out", str(out)])
    told = capsys.readouterr().err
    assert ended.value.code
    assert "another collection" in told
    assert "--out of its own" in told
    assert ("such as" in told) is has_work
    assert held == {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    assert synthesise(tmp_path / "c", out).tasks == read_manifest(out).tasks


def test_statistics_of_an_older_dataset_do_not_outlive_it(
    tmp_path: Path, folder: Path
) -> None:
    out = tmp_path / "data"
    collect([folder], tmp_path / "c")
    synthesise(tmp_path / "c", out, limit=2)
    dataset_statistics(out)
    synthesise(tmp_path / "c", out, limit=2)
    assert (out / "stats.html").exists()
    synthesise(tmp_path / "c", out)
    assert not [path for path in out.iterdir() if path.name.startswith("stats")]


def test_a_finished_dataset_is_recognised_where_nothing_can_be_written(
    tmp_path: Path, collected: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = collected(), tmp_path / "data"
    report = synthesise(source, out)

    def read_only(*_: object, **__: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("rubric_core.locks._take", read_only)
    assert synthesise(source, out) == report
    with pytest.raises(FolderLockError, match="Read-only file system"):
        synthesise(source, tmp_path / "other")
