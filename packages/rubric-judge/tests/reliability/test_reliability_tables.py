"""The tables of a reliability report can be read in a terminal of 80 columns."""

from collections.abc import Callable
from functools import cache

import pytest

from rubric_core import Task
from rubric_judge.quality.reliability import Rating, ReliabilityReport, collect, measure
from rubric_judge.ui.console.command import print_tables

NAMES = tuple(
    f"hosted_vllm/openai/gpt-oss-20b shared_prefix_v1:0e34cc88 ({stem})"
    for stem in ("strict", "lenient", "second_server", "new_prompt", "old_prompt")
)


@pytest.fixture(scope="module")
def measured(
    make_tasks: Callable[[int], dict[str, Task]], simulated: Callable[..., list[Rating]]
) -> Callable[[int], ReliabilityReport]:
    """Return a function that measures so many judges with long names."""

    @cache
    def report(judges: int) -> ReliabilityReport:
        tasks = make_tasks(9)
        noise = dict.fromkeys(NAMES[:judges], 0.1)
        return measure(
            collect(simulated(tasks, noise=noise, group=3), tasks), resamples=15
        )

    return report


@pytest.mark.parametrize("judges", [1, 2, 3, 5])
def test_nothing_is_cut_at_80_columns(
    judges: int,
    measured: Callable[[int], ReliabilityReport],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    report = measured(judges)

    print_tables(report.tables(), footer="written")

    printed = capsys.readouterr().out
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 80
    for name in NAMES[:judges]:
        assert all(word in printed for word in name.split())
    for estimate in (
        *(one.icc1 for one in report.judges),
        *(pair.bias for pair in report.pairs),
        *(pair.kappa for pair in report.pairs),
    ):
        value, low, high = (
            f"{one:.3f}".replace("-", "−")
            for one in (estimate.value, estimate.low, estimate.high)
        )
        assert value in printed
        assert f"[{low}," in printed
        assert f"{high}]" in printed


def test_several_judges_are_numbered_and_the_numbers_explained(
    measured: Callable[[int], ReliabilityReport],
) -> None:
    report = measured(3)
    tables = {table.title: table for table in report.tables()}

    assert tables["Judges"].texts == tuple(
        (f"J{number}", name) for number, name in enumerate(NAMES[:3], 1)
    )
    assert tables["Each judge alone"].header == ("", "J1", "J2", "J3")
    alphas = tables["Krippendorff's α of each criterion's scores"]
    assert report.panel is not None
    by_criterion = report.panel.alpha_by_criterion
    assert {row[0]: row[1] for row in alphas.texts} == {
        name: f"{alpha:.3f}" for name, alpha in by_criterion.items()
    }
    assert [row[0] for row in alphas.texts] == sorted(
        by_criterion, key=lambda n: by_criterion[n] or 0
    )
    pairs = tables["Pairs of judges, one judgement each"]
    assert [row[0] for row in pairs.texts] == ["J1 − J2", "J1 − J3", "J2 − J3"]
    assert f"| J2 | {NAMES[1]} |" in report.markdown([])
