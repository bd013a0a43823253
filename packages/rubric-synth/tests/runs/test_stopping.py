"""Ceilings, refusals and interrupts: what is done is written, and the next run goes on."""

# ruff: noqa: PLR0917 - doubles of conftest.py, which no test can import

from __future__ import annotations

import itertools
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from rubric_judge import JudgeSetupError
from rubric_judge.testing import FakeEndpoint, Fault
from rubric_synth import SynthConfig, load_config, synthesise
from rubric_synth.errors import UnfinishedError
from rubric_synth.testing import scripted_reply

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ROWS = ("train.jsonl", "validation.jsonl", "test.jsonl", "rejected.jsonl")


def _rows(out: Path) -> list[bytes]:
    return [(out / name).read_bytes() for name in _ROWS]


def test_the_ceiling_on_costs_holds_over_all_runs_and_the_rest_follows(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    final_files: Callable[[Path], dict[str, bytes]],
) -> None:
    collected, out = generated(8), tmp_path / "data"
    whole = synthesise(collected, tmp_path / "whole", config=load_config(configured()))
    ceiling_usd = whole.usage.cost_usd * 0.5
    config = load_config(configured(max_cost_usd=ceiling_usd, max_concurrency=2))
    model.endpoint.calls.clear()
    for _ in range(2):
        with pytest.raises(UnfinishedError, match="max_cost_usd") as stopped:
            synthesise(collected, out, config=config)
        assert stopped.value.cause == "cost"
        assert 0 < stopped.value.pending < 8
        assert f"{stopped.value.pending} are pending: the same command" in str(
            stopped.value
        )
        # The costs of calls differ, which the mean of those so far does not know.
        asked = sum(model.questions.values())
        assert asked * whole.usage.cost_usd / whole.usage.calls <= ceiling_usd * 1.1
        assert (out / "train.jsonl").is_file()
    synthesise(collected, out, config=load_config(configured()))
    assert set(model.questions.values()) == {1}
    assert final_files(out) == final_files(tmp_path / "whole")


def test_a_ceiling_without_known_prices_stops_after_the_first_answer(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
) -> None:
    config = load_config(configured(prices=False, max_cost_usd=1.0))
    with pytest.raises(UnfinishedError, match="`prices:`") as stopped:
        synthesise(generated(3), tmp_path / "data", config=config)
    assert stopped.value.cause == "unpriced"
    assert sum(model.questions.values()) == 1


def test_new_checks_ask_nothing_even_where_no_call_may_be_made(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
) -> None:
    collected, out = generated(4), tmp_path / "data"
    spent = synthesise(collected, out, config=load_config(configured())).usage.cost_usd
    model.endpoint.calls.clear()
    quality = {"min_reference_reward": 0.75}
    config = load_config(configured(max_cost_usd=spent, quality=quality))
    report = synthesise(collected, out, config=config)
    assert report.pending_documents == 0
    assert report.usage.cost_usd == spent
    assert model.endpoint.calls == []


def _asking(url: str, **settings: object) -> dict[str, object]:
    asked = {
        "model": "fake",
        "transport": "direct",
        "api_base": url,
        "max_transport_attempts": 1,
    }
    synthesiser = {"type": "llm", "model": asked, "questions_per_document": 1}
    return {"synthesiser": synthesiser, **settings}


def test_an_endpoint_that_refuses_everything_ends_the_run_and_loses_nothing(
    tmp_path: Path, generated: Callable[[int], Path]
) -> None:
    collected, out = generated(8), tmp_path / "data"
    faults = itertools.chain([None] * 4, itertools.repeat(Fault.SERVER_ERROR))
    with FakeEndpoint(scripted_reply, faults=faults) as endpoint:
        settings = _asking(endpoint.url, max_concurrency=1, max_unavailable_in_a_row=3)
        with pytest.raises(
            UnfinishedError, match="max_unavailable_in_a_row"
        ) as stopped:
            synthesise(collected, out, config=SynthConfig.model_validate(settings))
    assert stopped.value.cause == "unavailable"
    assert stopped.value.pending == 7
    assert (out / "rejected.jsonl").read_text().count('"model_unavailable"') == 3
    with FakeEndpoint(scripted_reply) as endpoint:
        config = SynthConfig.model_validate(_asking(endpoint.url))
        report = synthesise(collected, out, config=config)
        asked = len(endpoint.calls)
        synthesise(collected, tmp_path / "whole", config=config)
        assert (
            asked == len(endpoint.calls) - asked - 3
        )  # what the first document was told
    assert report.pending_documents == 0
    assert _rows(out) == _rows(tmp_path / "whole")


def test_an_endpoint_that_is_not_there_is_said_before_the_first_document(
    tmp_path: Path, generated: Callable[[int], Path]
) -> None:
    with FakeEndpoint(
        scripted_reply, faults=itertools.repeat(Fault.UNAUTHORIZED)
    ) as endpoint:
        config = SynthConfig.model_validate(_asking(endpoint.url))
        with pytest.raises(JudgeSetupError, match="does not answer") as refused:
            synthesise(generated(3), tmp_path / "data", config=config)
    assert refused.value.__notes__ == [
        "3 documents are pending: the same command goes on with them"
    ]
    assert not (tmp_path / "data" / "train.jsonl").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_writes_what_is_done_and_the_same_command_goes_on(
    tmp_path: Path,
    model: Any,
    generated: Callable[[int], Path],
    configured: Callable[..., Path],
    number: signal.Signals,
    command: Any,
    final_files: Callable[[Path], dict[str, bytes]],
) -> None:
    collected, out, config = (
        generated(12),
        tmp_path / "data",
        configured(max_concurrency=2),
    )
    run = command(collected, out, config)
    assert run.wait_until(lambda: len(model.endpoint.calls) > 10)
    run.process.send_signal(number)
    status, errors = run.wait()
    assert status == 128 + number, errors
    assert "interrupted. " in errors
    assert (
        f"go on with: rubric-synth run {collected} --out {out} --config {config}\n"
        in errors
    )
    assert (out / "manifest.json").is_file()
    synthesise(collected, out, config=load_config(config))
    assert set(model.questions.values()) == {1}
    synthesise(collected, tmp_path / "whole", config=load_config(config))
    assert final_files(out) == final_files(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interrupt_leaves_at_once(
    tmp_path: Path,
    generated: Callable[[int], Path],
    command: Any,
    number: signal.Signals,
) -> None:
    answered = itertools.chain([0.0], itertools.repeat(60.0))
    with FakeEndpoint(scripted_reply, latency=lambda _: next(answered)) as endpoint:
        (tmp_path / "slow.yaml").write_text(
            "synthesiser: {type: llm, model: {model: fake, transport: direct, "
            f"api_base: '{endpoint.url}'}}}}\nmax_concurrency: 2\n"
        )
        run = command(generated(4), tmp_path / "data", tmp_path / "slow.yaml")
        assert run.wait_until(lambda: len(endpoint.calls) >= 3)
        run.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        started_s = time.monotonic()
        run.process.send_signal(number)
        status, errors = run.wait()
    assert status == 128 + number, errors
    assert "stopped immediately; go on with: rubric-synth run " in errors
    assert time.monotonic() - started_s < 30  # half of what an answer takes
