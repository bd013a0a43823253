"""What a judgement takes, and the three ways of judging side by side."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog

from rubric_core import JudgeResult, Reason, Task, Usage, write_tasks
from rubric_judge.cli import main
from rubric_judge.quality.reliability import ReliabilityReport
from rubric_judge.quality.reliability.ratings import judgement_cost
from rubric_judge.quality.reliability.report import WORDS
from rubric_judge.testing import FakeEndpoint
from rubric_judge.testing.calls import FakeCall
from rubric_judge.ui.page.tables import Table


def test_means_are_over_what_says_it() -> None:
    whole = Usage(
        prompt_tokens=100, completion_tokens=10, cached_tokens=40, cost_usd=0.002
    )
    silent = Usage(prompt_tokens=300, completion_tokens=30)
    failed = JudgeResult.unavailable(Reason.TIMEOUT, attempts=4)
    results = [
        JudgeResult.invalid(Reason.EMPTY, usage=whole, latency_s=1.0),
        JudgeResult.invalid(Reason.EMPTY, usage=silent, latency_s=2.0),
        failed,
    ]
    cost = judgement_cost(results)
    assert (cost.calls, cost.prompt_tokens, cost.completion_tokens) == (
        2.0,
        200.0,
        20.0,
    )
    assert (cost.cached_tokens, cost.cost_usd, cost.seconds) == (40.0, 0.002, 1.5)
    assert cost.usd_per_1000 == 2
    of_a_person = judgement_cost([JudgeResult.invalid(Reason.EMPTY)])
    assert set(of_a_person.model_dump().values()) == {None}
    told = [[SimpleNamespace(cost=one)] for one in (of_a_person, cost)]
    table = Table.turned(
        {"title": "", "rows": WORDS["judge"]["cost"]}, told, ("person", "judge")
    )
    cells = {name: row for name, *row in table.texts}
    assert cells["US dollars for 1,000 judgements"] == ["–", "2"]
    assert {of_person for of_person, _ in cells.values()} == {"–"}


def test_one_command_compares_rubric_criterion_and_listwise(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make_tasks: Callable[[int], dict[str, Task]],
) -> None:
    """An endpoint that errs once a call, alike in all that the call scores."""
    monkeypatch.chdir(tmp_path)
    tasks = make_tasks(8)
    write_tasks(tmp_path / "tasks.jsonl", tasks.values())
    rows = [
        {"task_id": name, "response": f"Text {n}."} for name in tasks for n in range(4)
    ]
    Path("responses.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def award(call: FakeCall) -> float:
        text = call.messages[-1]["content"]
        quality = next((n for n in range(4) if f"Text {n}." in text), 0) / 10
        return 0.3 + quality + random.Random(call.number).uniform(-0.3, 0.3)

    with FakeEndpoint(award) as endpoint:
        model = (
            f"model: openai/fake\ntransport: direct\napi_base: {endpoint.url}\n"
            "prices: {prompt_usd_per_mtok: 1, completion_usd_per_mtok: 2}\n"
        )
        Path("rubric.yaml").write_text(f"type: llm\n{model}")
        Path("criterion.yaml").write_text(f"type: llm\ngranularity: criterion\n{model}")
        Path("listwise.yaml").write_text(f"type: listwise\n{model}")
        judges = [
            word
            for name in ("rubric", "criterion", "listwise")
            for word in ("--judge", f"{name}.yaml")
        ]
        words = [
            *(
                "reliability",
                "tasks.jsonl",
                "responses.jsonl",
                *judges,
                "--replicates",
                "6",
            ),
            *("--resamples", "20", "--ledger", "judged.db", "--out", "out"),
        ]
        monkeypatch.setattr("sys.argv", ["rubric-judge", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        structlog.reset_defaults()
        calls = len(endpoint.calls)
    assert ended.value.code == 0
    assert calls == 3 + 6 * (32 + 3 * 32 + 8)  # each is asked whether it is there
    report = ReliabilityReport.model_validate_json(
        Path("out/reliability.json").read_text()
    )
    rubric, criterion, listwise = report.judges
    cost = [one.cost for one in (rubric, criterion, listwise)]
    assert [one.calls for one in cost] == [1.0, 3.0, 0.25]
    prompts = [one.prompt_tokens or 0.0 for one in cost]
    assert prompts[1] > 2 * prompts[0] > 4 * prompts[2] > 0
    assert all(one.cost_usd and one.seconds and one.completion_tokens for one in cost)
    # Weights 3, 1, 1: an error that all share is (Σα)² / Σα² = 25/11 of one that none does.
    assert rubric.inflation.value == pytest.approx(25 / 11)
    assert criterion.inflation.value == pytest.approx(1.0, abs=0.3)
    assert listwise.inflation.value == pytest.approx(25 / 11)
    # One error for the whole group turns no advantage around.
    assert listwise.flips.value == 0.0
    assert (rubric.flips.value or 0) > (criterion.flips.value or 0) > 0.05
    printed = capsys.readouterr().out
    assert "calls a judgement" in printed
    assert "US dollars for 1,000 judgements" in Path("out/reliability.md").read_text()
