from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from rubric_core import MissingExtraError
from rubric_judge.models.limits import LocalLimiter
from rubric_judge.pool.ray_start import start_ray
from rubric_synth import RejectionReason, SynthConfig, synthesise
from rubric_synth.config import load_config
from rubric_synth.document import Document
from rubric_synth.errors import EngineError, UnfinishedError
from rubric_synth.run.engines import make_engine, ray_actor
from rubric_synth.run.engines import ray as ray_engine
from rubric_synth.run.engines.worker import Pending, WorkerSpec
from rubric_synth.testing import generated_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from rubric_synth.calls import CallRecord
    from rubric_synth.document import DocumentOutcome

pytestmark = [
    # Ray tells of its own future, and leaves sockets and subprocesses to the end of the process.
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SPLITS = ("train", "validation", "test")
SILENCE_S = ray_actor._SILENCE_S

# Stages that workers find as they find any other package.
_STAGES = """
import os

from rubric_synth.document import RejectionReason
from rubric_synth.stages.stages import StageRefusal, Stages


class Deadly:
    async def analyse(self, document):
        if "deadly" in document.title:
            os._exit(1)
        raise StageRefusal(RejectionReason.NO_SUMMARY)


def deadly_stages(calls):
    return Stages(Deadly(), None, None)
"""


class Kept:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.outcomes: list[DocumentOutcome] = []

    def on_call(self, doc_hash: str, record: CallRecord) -> None:
        raise AssertionError(doc_hash, record)

    def on_outcome(self, outcome: DocumentOutcome) -> None:
        self.outcomes.append(outcome)

    def may_call(self) -> bool:
        return True


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("packages")
    (folder / "deadly_stages.py").write_text(_STAGES, encoding="utf-8")
    sys.path.append(str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def cluster(packages: Path) -> Iterator[ModuleType]:
    del packages  # on the path by now
    ray = pytest.importorskip("ray")
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}
    start_ray(
        ray,
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env=environment,
    )
    yield ray
    ray.shutdown()


def _messages(errors: str) -> list[str]:
    """Return what a command wrote on standard error, but for its progress and what Ray adds.

    Under `uv run` Ray sends the project along, and says what it leaves out of it; on a busy machine
    the workers let the run wait.
    """
    passing = (
        "rubric-synth: making tasks: ",
        "is now ignored by default",
        "synth.ray.no_worker_yet",
    )
    return [
        line
        for line in errors.splitlines()
        if not any(words in line for words in passing)
    ]


def _files(folder: Path) -> dict[str, object]:
    """All of a dataset: rows, tables and card by their bytes, the manifest but for the engine."""
    files: dict[str, object] = {
        path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()
    }
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["config"]["engine"], manifest["config"]["ray"]
    files["manifest.json"] = json.dumps(manifest)
    assert {"rejected.jsonl", "README.md"} <= files.keys()
    assert {
        f"{split}.{end}" for split in SPLITS for end in ("jsonl", "parquet")
    } <= files.keys()
    return files


def _wait_until_quiet(model: Any) -> None:
    """Wait until the actors of a killed driver ask nothing any more."""
    for _ in range(60):
        asked = len(model.endpoint.calls)
        time.sleep(2 * SILENCE_S)
        if len(model.endpoint.calls) == asked:
            return
    raise AssertionError(f"actors without a driver go on asking: {asked} calls")


def _descendants(name: str) -> list[int]:
    """Processes under this one whose command line holds a name."""
    parents: dict[int, int] = {}
    named: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
            if name.encode() in command:
                named.append(int(folder.name))

    def is_ours(pid: int) -> bool:
        while pid := parents.get(pid, 0):
            if pid == os.getpid():
                return True
        return False

    return [pid for pid in named if is_ours(pid)]


def test_without_ray_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    config = SynthConfig(engine="ray")
    with pytest.raises(
        MissingExtraError,
        match=r"pip install --no-sources './packages/rubric-synth\[ray\]'",
    ):
        anyio.run(make_engine(WorkerSpec(config)).run, [], Kept())


@pytest.mark.slow
@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense"])
def test_a_cluster_that_is_not_there_is_one_clear_error(address: str) -> None:
    pytest.importorskip("ray")
    config = SynthConfig.model_validate({"engine": "ray", "ray": {"address": address}})
    with pytest.raises(
        EngineError, match=f"no Ray cluster at ray.address='{address}'.*ray start"
    ):
        anyio.run(make_engine(WorkerSpec(config)).run, [], Kept())


@pytest.mark.slow
def test_a_cluster_that_starts_too_slowly_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = pytest.importorskip("ray")
    starts: list[object] = []

    def start(address: object, **_: object) -> None:
        starts.append(address)
        raise Exception("The current node timed out during startup.")  # noqa: TRY002 - as Ray does

    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    config = SynthConfig(engine="ray")
    with pytest.raises(
        EngineError, match=r"3 times: Exception: The current node timed out"
    ):
        anyio.run(make_engine(WorkerSpec(config)).run, [], Kept())
    assert starts == [None] * 3


def test_an_actor_asks_nothing_while_nobody_speaks_to_it(
    configured: Callable[..., Path], model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_actor, "_SILENCE_S", 0.2)
    config = load_config(configured())
    document = next(generated_documents(1))

    async def work() -> None:
        actor = ray_actor.WorkerActor()
        await actor.prepare(WorkerSpec(config), (LocalLimiter(), LocalLimiter()))
        await anyio.sleep(0.3)
        async with anyio.create_task_group() as group:
            group.start_soon(actor.begin, "run", document, ())
            await anyio.sleep(0.5)
            assert not model.questions
            await actor.hear(may_call=True)
        assert model.questions
        await actor.drop("run")
        await actor.aclose()

    anyio.run(work)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ray_gives_the_same_dataset_as_one_process(
    cluster: ModuleType,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    tmp_path: Path,
) -> None:
    del cluster
    collected = generated(100)
    for name, settings in (
        ("llm", {}),
        ("extractive", {"synthesiser": {"type": "extractive"}}),
    ):
        for engine in ("local", "ray"):
            config = load_config(
                configured(f"{name}-{engine}", engine=engine, **settings)
            )
            report = synthesise(collected, tmp_path / f"{name}-{engine}", config=config)
            assert report.documents == 100
            assert report.accepted_documents > 10
        assert _files(tmp_path / f"{name}-ray") == _files(tmp_path / f"{name}-local")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_documents_of_a_killed_worker_go_on_elsewhere_and_answered_calls_are_not_made_again(
    cluster: ModuleType,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    model: Any,
    tmp_path: Path,
) -> None:
    del cluster
    collected = generated(80)
    local = load_config(configured("local", max_concurrency=16))
    expected = synthesise(collected, tmp_path / "local", config=local)
    asked = model.questions
    model.endpoint.calls.clear()
    model.answers.clear()
    noted: list[Any] = []

    def kill(done: int) -> None:
        if done in {15, 40}:  # the driver waits here, so nothing more is kept
            os.kill(_descendants("ray::WorkerActor")[0], signal.SIGKILL)
            noted.append(model.after_kill(tmp_path / "ray"))

    config = load_config(configured("ray", engine="ray", max_concurrency=16))
    report = synthesise(collected, tmp_path / "ray", config=config, on_document=kill)
    assert report.tasks == expected.tasks
    assert _files(tmp_path / "ray") == _files(tmp_path / "local")
    assert len(noted) == 2
    assert set(model.questions) == set(asked)
    assert model.asked_twice_without_need(noted) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_document_that_kills_every_worker_is_rejected_and_takes_no_other_with_it(
    cluster: ModuleType,
) -> None:
    del cluster
    import deadly_stages

    names = ["deadly" if number == 5 else "fine" for number in range(30)]
    documents = [
        Document(
            title=f"{name} {number}", text=f"Text {number}.", source=f"{number}.md"
        )
        for number, name in enumerate(names)
    ]
    config = SynthConfig.model_validate({"engine": "ray", "max_concurrency": 8})
    spec = WorkerSpec(config, stages=deadly_stages.deadly_stages)
    kept = Kept()
    anyio.run(
        make_engine(spec).run, (Pending(document, ()) for document in documents), kept
    )
    reasons = {outcome.source: outcome.rejections[0] for outcome in kept.outcomes}
    assert len(kept.outcomes) == len(reasons) == 30
    failed = reasons.pop("5.md")
    assert failed.reason is RejectionReason.STAGE_FAILED
    assert failed.detail == "3 Ray actors died with this document; see Ray's logs"
    assert {one.reason for one in reasons.values()} == {RejectionReason.NO_SUMMARY}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_limiter_serves_all_workers_and_a_ceiling_on_costs_stops_them(
    cluster: ModuleType,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    model: Any,
    tmp_path: Path,
) -> None:
    del cluster
    collected = generated(40)
    settings = {"engine": "ray", "max_concurrency": 12}
    config = load_config(configured("limited", **settings))
    synthesiser = config.synthesiser.model_dump()
    synthesiser["model"]["limits"]["max_in_flight"] = 3
    limited = {**config.model_dump(), "synthesiser": synthesiser}
    with pytest.raises(UnfinishedError, match="max_cost_usd"):
        synthesise(
            collected,
            tmp_path / "out",
            config=SynthConfig.model_validate({**limited, "max_cost_usd": 0.05}),
        )
    asked = len(model.answers)
    assert 3 < asked < 120
    report = synthesise(
        collected, tmp_path / "out", config=SynthConfig.model_validate(limited)
    )
    assert report.documents == 40
    assert max(model.questions.values()) == 1
    ends = sorted(
        [
            (call.at_s, 1)
            for call in model.endpoint.calls
            if call.number in model.answers
        ]
        + [(end_s, -1) for end_s in model.answers.values()]
    )
    peak = in_flight = 0
    for _, change in ends:
        in_flight += change
        peak = max(peak, in_flight)
    assert peak == 3


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dies_with_its_cluster", [True, False])
def test_a_driver_that_is_killed_is_gone_on_with(
    cluster: ModuleType,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    command: Any,
    model: Any,
    tmp_path: Path,
    *,
    dies_with_its_cluster: bool,
) -> None:
    address = cluster.get_runtime_context().gcs_address
    collected = generated(40)
    synthesise(collected, tmp_path / "local", config=load_config(configured("local")))
    model.endpoint.calls.clear()
    model.answers.clear()
    settings = {
        "engine": "ray",
        "ray": {"address": address, "actors": 2, "cpus_per_actor": 0.5},
    }
    joined = configured("joined", **settings)
    alone = configured(
        "alone", **settings | {"ray": {"actors": 2, "cpus_per_actor": 0.5}}
    )
    first = command(
        collected, tmp_path / "ray", alone if dies_with_its_cluster else joined
    )
    assert first.wait_until(lambda: len(model.answers) > 40), first.wait()
    first.process.kill()
    first.wait()
    _wait_until_quiet(model)
    noted = model.after_kill(tmp_path / "ray")
    status, errors = command(collected, tmp_path / "ray", joined).wait(300)
    assert status == 0, errors
    assert _messages(errors) == []
    assert _files(tmp_path / "ray") == _files(tmp_path / "local")
    # What its actors ask until they notice is heard by nobody, and asked again. They then wait.
    assert model.asked_twice_without_need([noted]) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_that_is_asked_to_end_ends_in_good_order_under_ray(
    cluster: ModuleType,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    command: Any,
    model: Any,
    tmp_path: Path,
) -> None:
    settings = {"address": cluster.get_runtime_context().gcs_address, "actors": 1}
    run = command(
        generated(60), tmp_path / "out", configured("ray", engine="ray", ray=settings)
    )
    assert run.wait_until(lambda: len(model.answers) > 30), run.wait()
    run.process.send_signal(signal.SIGTERM)
    status, errors = run.wait(300)
    assert status == 143, errors
    (message,) = _messages(errors)
    assert message.startswith("rubric-synth: interrupted. "), errors
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert 0 < manifest["pending_documents"] < 60


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_without_workers_is_one_clear_error_and_nothing_is_lost(
    cluster: ModuleType,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    del cluster
    monkeypatch.setattr(ray_engine, "_RESTARTS", 0)
    collected = generated(60)
    done: list[int] = []

    def kill(count: int) -> None:
        done.append(count)
        if count >= 10:  # again, for one may have been starting
            for pid in _descendants("ray::WorkerActor"):
                os.kill(pid, signal.SIGKILL)

    config = load_config(configured("ray", engine="ray"))
    with pytest.raises(EngineError, match="run again when"):
        synthesise(collected, tmp_path / "out", config=config, on_document=kill)
    assert 10 <= max(done) < 60
    local = load_config(configured("local"))
    assert synthesise(collected, tmp_path / "out", config=local).documents == 60
