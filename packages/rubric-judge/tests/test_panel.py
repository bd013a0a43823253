"""Panels: draws that repeat, means of all, failures of one, and judges that are not admitted."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rubric_core import ConfigError, JudgeResult, JudgeView, Outcome, Reason, Usage
from rubric_judge import (
    JudgePool,
    JudgeSetupError,
    PanelConfig,
    PanelJudge,
    load_judge,
    load_replicas,
    read_judge_spec,
)
from rubric_judge.config import judge_spec
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.testing import FailingJudge, FakeEndpoint, ScriptedJudge

ViewFactory = Callable[..., JudgeView]
pytestmark = pytest.mark.anyio
THREE = [{"type": "plugin", "name": name} for name in ("one", "two", "three")]


def _config(**changes: object) -> PanelConfig:
    return PanelConfig.model_validate({"judges": THREE, **changes})


def _judges() -> list[ScriptedJudge]:
    return [ScriptedJudge(n / 4, name=f"judge {n}") for n in (1, 2, 4)]


async def test_a_response_always_goes_to_the_same_judge(make_view: ViewFactory) -> None:
    judges = _judges()
    panel = PanelJudge(judges, _config())
    views = [make_view(f"Answer {n}.") for n in range(60)]

    first = await JudgePool(panel).judge_all(views)
    again = [await PanelJudge(judges, _config()).judge(view) for view in views[::-1]]

    assert [one.total for one in first] == [one.total for one in again[::-1]]
    drawn = Counter(one.total for one in first)
    assert sorted(drawn) == [0.75, 1.5, 3.0]
    assert min(drawn.values()) > 10
    assert {one.judge for one in first} == {panel.name}
    named = {one.reasoning: one.total for one in first}
    assert named == {"By judge 1.": 0.75, "By judge 2.": 1.5, "By judge 4.": 3.0}
    other = PanelJudge(judges, _config(seed=1))
    assert [other.drawn(view) for view in views] != [
        panel.drawn(view) for view in views
    ]
    assert other.fingerprint != panel.fingerprint


async def test_the_mean_is_of_all_judges_and_their_cost_is_summed(
    make_view: ViewFactory,
) -> None:
    usage = Usage(prompt_tokens=10, completion_tokens=2, cost_usd=0.5)

    def costly(view: JudgeView) -> JudgeResult:
        scores = {one.id: one.weight for one in view.rubric}
        whole = JudgeResult.scored(view.rubric, scores, judge="costly")
        return whole.with_call(usage=usage, attempts=2)

    judges = [ScriptedJudge(costly, name="a"), ScriptedJudge(costly, name="b")]
    panel = PanelJudge([*judges, ScriptedJudge(0.0, name="c")], _config(draw="mean"))

    result = await panel.judge(make_view())

    assert result.scores == {
        "names the loss": pytest.approx(4 / 3),
        "gives_limit": pytest.approx(2 / 3),
    }
    assert (result.usage, result.attempts) == (usage.plus(usage), 5)
    assert result.judge == panel.name


@pytest.mark.parametrize(
    ("failures", "reason"),
    [
        ((Reason.TIMEOUT,), Reason.TIMEOUT),
        ((Reason.NOT_JSON,), Reason.NOT_JSON),
        ((Reason.TIMEOUT, Reason.NOT_JSON), Reason.NOT_JSON),
    ],
)
async def test_a_failure_of_one_is_a_failure_of_the_mean(
    make_view: ViewFactory, failures: tuple[Reason, ...], reason: Reason
) -> None:
    failing = [FailingJudge(failure) for failure in failures]
    for n, judge in enumerate(failing):
        judge.name = f"failing {n}"
    panel = PanelJudge([ScriptedJudge(1.0), *failing], _config(draw="mean"))

    result = await panel.judge(make_view())

    assert (result.reason, result.scores) == (reason, {})
    place = 2 + failures.index(reason)
    assert result.detail.startswith(f"judge {place} of {1 + len(failures)}: ")


async def test_where_one_is_drawn_its_failure_is_the_responses(
    make_view: ViewFactory,
) -> None:
    panel = PanelJudge([ScriptedJudge(1.0), FailingJudge(Reason.TIMEOUT)], _config())

    results = await JudgePool(panel).judge_all(
        [make_view(f"Answer {n}.") for n in range(20)]
    )

    outcomes = Counter(one.outcome for one in results)
    assert outcomes.keys() == {Outcome.SCORED, Outcome.UNAVAILABLE}


def test_a_panel_of_one_of_the_same_or_of_group_judges_is_refused() -> None:
    with pytest.raises(ConfigError, match="judges"):
        judge_spec({"type": "panel", "judges": [{"type": "lexical"}]})
    with pytest.raises(ConfigError, match="is in the panel 2 times"):
        load_judge(judge_spec({"type": "panel", "judges": [{"type": "lexical"}] * 2}))
    with pytest.raises(ConfigError, match="1 for 2 judges: give one for each"):
        judge_spec(
            {
                "type": "panel",
                "judges": [{"type": "lexical"}, {"type": "claims"}],
                "calibrations": ["a.json"],
            }
        )

    class Whole(ScriptedJudge):
        max_group = 4

        async def judge_group(self, views: list[JudgeView]) -> list[JudgeResult]:
            return [await self.judge(view) for view in views]

    with pytest.raises(JudgeSetupError, match="beside each other"):
        PanelJudge([Whole(), ScriptedJudge(name="b")], _config())


def _calibration(path: Path, judge: str, factor: float) -> None:
    path.write_text(
        json.dumps({"judge_fingerprint": judge, "criteria": [{"factor": factor}]})
    )


def test_each_judge_must_be_admitted_by_its_own_calibration(tmp_path: Path) -> None:
    spec = {"type": "panel", "judges": [{"type": "lexical"}, {"type": "claims"}]}
    path = tmp_path / "judge.yaml"
    path.write_text(json.dumps({**spec, "calibrations": ["a.json", "b.json"]}))
    first, second = (
        load_judge(judge_spec({"type": kind})) for kind in ("lexical", "claims")
    )
    config = read_judge_spec(path)

    with pytest.raises(ConfigError, match=r"a\.json: cannot be read"):
        load_judge(config)
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"a\.json: this is no calibration\.json"):
        load_judge(config)
    _calibration(tmp_path / "a.json", fingerprint(first), 1.0)
    _calibration(tmp_path / "b.json", fingerprint(first), 1.0)
    with pytest.raises(ConfigError, match=r"b\.json: it is of .*judge 2 of the panel"):
        load_judge(config)
    _calibration(tmp_path / "b.json", fingerprint(second), 0.0)
    with pytest.raises(
        ConfigError, match=r"on none of its 1 criteria: leave the judge"
    ):
        load_judge(config)
    _calibration(tmp_path / "b.json", fingerprint(second), 0.4)
    assert isinstance(load_judge(config), PanelJudge)


async def test_real_endpoints_share_the_responses(make_view: ViewFactory) -> None:
    views = [make_view(f"Answer {n}.") for n in range(16)]
    with FakeEndpoint(lambda _: 1.0) as one, FakeEndpoint(lambda _: 0.5) as other:
        judges = [
            {"type": "llm", "model": f"openai/{name}", "api_base": endpoint.url}
            for name, endpoint in (("one", one), ("other", other))
        ]
        pool = JudgePool(load_replicas(judge_spec({"type": "panel", "judges": judges})))
        results = await pool.judge_all(views)
        await pool.aclose()

    assert len(one.calls) + len(other.calls) == 16
    assert min(len(one.calls), len(other.calls)) >= 3
    models = {one.answered_by.model for one in results if one.answered_by}
    assert len(models) == 2
