import re
from array import array
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rubric_synth import OutputError, SynthReport, dataset_statistics
from rubric_synth.document import DocumentOutcome
from rubric_synth.stats.examples import Sample
from rubric_synth.stats.report import Names, coverage, spread
from rubric_synth.stats.tally import occurring, read_text

_ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{ 7 * 7 }}"


class _Reader(HTMLParser):
    """Elements of a page, and what could run or be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts = 0
        self.suspects: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        names = {name for name, _ in attrs}
        if tag in {"img", "link", "iframe", "object"} or names & {
            "src",
            "onerror",
            "onload",
        }:
            self.suspects.append(tag)


def _page(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.fixture
def dataset(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> Path:
    write(outcomes)
    return tmp_path / "data"


def test_the_page_needs_no_other_file(dataset: Path) -> None:
    dataset_statistics(dataset)
    page = _page(dataset / "stats.html")
    assert not re.search(r"https?://|@import|url\(", page)
    reader = _Reader()
    reader.feed(page)
    assert (reader.scripts, reader.suspects) == (3, [])


def test_hostile_text_is_shown_and_never_run(
    tmp_path: Path, outcomes: list[DocumentOutcome], write: Callable[..., SynthReport]
) -> None:
    row = {**outcomes[0].tasks[0], "question": _ATTACK, "reference_answer": _ATTACK}
    row["criteria"][0] |= {
        "name": _ATTACK,
        "expected_keywords": [_ATTACK],
        "id": _ATTACK,
    }
    row["document_analysis"] |= {"genre": _ATTACK, "concepts": [_ATTACK]}
    refused = (
        outcomes[-1].rejections[0].model_copy(update={"detail": _ATTACK, "draft": row})
    )
    write(
        [
            outcomes[0].model_copy(update={"tasks": (row,)}),
            outcomes[-1].model_copy(
                update={"rejections": (refused,), "source": _ATTACK}
            ),
        ],
        judge=_ATTACK,
        prompts={_ATTACK: _ATTACK},
    )
    dataset_statistics(tmp_path / "data", reveal_grounding=True)
    page = _page(tmp_path / "data" / "stats.html")
    reader = _Reader()
    reader.feed(page)
    assert (reader.scripts, reader.suspects) == (3, [])
    assert "&lt;script&gt;alert(1)" in page
    assert "script-src 'sha256-" in page


def test_passages_are_on_the_page_only_when_they_are_asked_for(dataset: Path) -> None:
    passage = "is measured every day. It never stays"
    dataset_statistics(dataset)
    assert passage not in _page(dataset / "stats.html")
    dataset_statistics(dataset, page=dataset / "whole.html", reveal_grounding=True)
    assert passage in _page(dataset / "whole.html")
    assert passage not in (dataset / "stats.json").read_text()


def test_the_page_shows_tasks_refusals_and_what_was_spent(dataset: Path) -> None:
    found = dataset_statistics(dataset)
    page = _page(dataset / "stats.html")
    for text in (
        "tide",
        "too few criteria",
        "notes/short.md",
        "Calls of models",
        "$2.50",
    ):
        assert text in page
    assert found.documents_collected == 12
    assert found.rejected_by_stage["quality"] == {"too_few_criteria": 1}
    assert found.usage.total.calls == 20
    assert found.control_tasks == 10
    assert found.coverage["keywords_in_passage"].complete_frac == 1.0


def test_the_same_dataset_gives_the_same_page(dataset: Path) -> None:
    dataset_statistics(dataset)
    first = _page(dataset / "stats.html"), (dataset / "stats.json").read_bytes()
    dataset_statistics(dataset)
    assert (
        _page(dataset / "stats.html"),
        (dataset / "stats.json").read_bytes(),
    ) == first


def test_a_page_that_cannot_be_written_is_an_error(dataset: Path) -> None:
    with pytest.raises(OutputError):
        dataset_statistics(dataset, page=dataset / "train.jsonl" / "page.html")


@pytest.mark.parametrize(
    "values",
    [
        [1.0],
        [0.0, 0.0],
        [1, 2, 3],
        [0.5, 0.25],
        [1e9, 1.0],
        list(range(1_000)),
        [7.0] * 9,
    ],
)
def test_every_number_is_in_its_histogram(values: list[float]) -> None:
    found = spread(array("d", values))
    assert sum(found.histogram.counts) == len(values)
    assert len(found.histogram.edges) == len(found.histogram.counts) + 1 <= 33
    assert list(found.histogram.edges) == sorted(set(found.histogram.edges))
    assert found.min <= found.p5 <= found.median <= found.p95 <= found.max


def test_shares_have_a_mean_and_a_part_that_is_complete() -> None:
    found = coverage(array("d", [0.5, 1.0]))
    assert (found.tasks, found.mean, found.complete_frac) == (2, 0.75, 0.5)
    assert coverage(array("d")).tasks == 0


def test_very_many_names_are_counted_in_bounded_memory() -> None:
    names = Names()
    names.add(["often"] * 10)
    names.add(f"rare {number}" for number in range(50_000))
    assert next(iter(names.most())) == "often"
    assert len(names._counts) <= 40_000


def test_a_sample_does_not_depend_on_the_order() -> None:
    forwards, backwards = (Sample[int](5, seed="s") for _ in range(2))
    for number in range(100):
        forwards.offer(str(number), number)
        backwards.offer(str(99 - number), 99 - number)
    assert sorted(forwards.items()) == sorted(backwards.items())
    assert forwards.items() == sorted(forwards.items())
    assert len(forwards.items()) == 5
    assert forwards.offered == 100


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("gauges", 1),
        ("tidal range", 1),
        ("range of tides", 0),
        ("12", 1),
        ("±", 1),
        ("surge", 0),
    ],
)
def test_a_term_occurs_where_the_stems_of_all_its_words_do(
    term: str, found: int
) -> None:
    text = read_text("The gauge shows a range, tidal and large: 12 ± 1.")
    assert occurring({term}, text) == found


def test_numbers_on_an_edge_are_in_the_bar_that_begins_there() -> None:
    # The effective number of equal weights is whole, but for what is lost in dividing.
    values = [4.0, 4.999999999999999, 6.000000000000001, 7.0, 8.0]

    found = spread(array("d", values)).histogram

    assert (found.edges, found.counts) == ((4, 5, 6, 7, 8, 9), (1, 1, 1, 1, 1))
    assert found.is_whole


def test_edges_are_the_numbers_that_the_page_writes() -> None:
    values = [number / 10 for number in range(1, 61)]

    found = spread(array("d", values)).histogram

    for low, high, count in zip(
        found.edges[:-1], found.edges[1:], found.counts, strict=True
    ):
        last = high == found.edges[-1]
        inside = [v for v in values if low <= float(f"{v:.6g}") and (last or v < high)]
        assert count == len(inside), (low, high)
