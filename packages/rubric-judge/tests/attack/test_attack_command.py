"""`rubric-judge attack`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from rubric_judge.cli import main
from rubric_judge.quality.attack import AttackReport
from rubric_judge.testing import FakeEndpoint
from rubric_judge.testing.calls import FakeCall

CONFIGS = Path(__file__).parents[4] / "configs" / "judge"
ORDER = "full weight of every criterion"

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Return a function that runs `rubric-judge attack` on the lexical judge."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "rubric_judge.ui.console.progress.QUIET_S", 3600.0
    )  # no line of a slow machine

    def run(
        *words: str, judge: Path = CONFIGS / "lexical.yaml", out: str = "out"
    ) -> tuple[int, str, str]:
        rest = ("--judge", str(judge), "--out", out)
        monkeypatch.setattr("sys.argv", ["rubric-judge", "attack", *words, *rest])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    yield run
    structlog.reset_defaults()


def test_the_command_works_at_once_and_shows_the_weaknesses_of_the_lexical_judge(
    command: Command, tmp_path: Path
) -> None:
    status, printed, complaints = command()

    assert (status, complaints) == (0, "")
    report = AttackReport.model_validate_json(
        (tmp_path / "out/attack.json").read_text()
    )
    weak = {family.family for family in report.families if (family.rate or 0) >= 0.25}
    assert weak == {"keyword_stuffing", "rubric_echo", "shuffled_words"}
    assert report.separated == report.separable == 6
    assert "negated_answers" in printed
    assert "Worst cases" in printed
    names = "out/attack.md, attack.json, attack.html, cases.jsonl, over_credit.png"
    assert printed.endswith(f"written: {names}\n")
    page = (tmp_path / "out/attack.html").read_text()
    summary = report.summary().replace(" %", "\N{NO-BREAK SPACE}%")
    assert page.index(summary) < page.index("Over-credit by family")
    assert report.summary() in (tmp_path / "out/attack.md").read_text()
    assert (tmp_path / "out/over_credit.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out/over_credit.svg").exists()
    written = "".join((tmp_path / "out" / name).read_text() for name in (
        "attack.json", "attack.md", "attack.html", "cases.jsonl"))  # fmt: skip
    assert ORDER not in written
    assert "heat pump" not in written
    assert len((tmp_path / "out/cases.jsonl").read_text().splitlines()) == report.cases


def test_where_texts_are_revealed_names_lead_to_a_private_page_of_the_cases(
    command: Command, tmp_path: Path
) -> None:
    hidden = command()[1]
    plain = (tmp_path / "out/attack.html").read_text()
    assert "cases.html" not in hidden + plain
    assert not (tmp_path / "out/cases.html").exists()

    assert "cases.html" in command("--reveal")[1]

    page = (tmp_path / "out/attack.html").read_text()
    report = AttackReport.model_validate_json(
        (tmp_path / "out/attack.json").read_text()
    )
    for family in report.families:
        link = f"cases.html#part={family.family}&amp;sort=reward-down"
        assert page.count(f'href="{link}"') == 2  # of its bar, and of its row
    viewer = (tmp_path / "out/cases.html").read_text()
    worst = report.families[0].worst[0]
    link = page.partition(f'">{worst.id.replace("_", "_<wbr>")}</a>')[0].rpartition(
        "#"
    )[2]
    assert f'"n":"{link.removeprefix("sample=")}"' in viewer
    assert "Private." in viewer
    assert ORDER in viewer
    # A passage that was tampered with is shown as the judge saw it.
    tampered = next(
        case for case in report.families if case.family == "passage_injection"
    )
    assert viewer.count('"id":"passage_injection/') == tampered.cases


def test_a_language_model_is_attacked_and_a_ledger_saves_its_calls(
    command: Command, tmp_path: Path
) -> None:
    def award(call: FakeCall) -> float:
        return float("professor" in call.messages[-1]["content"])

    with FakeEndpoint(award) as endpoint:
        judge = tmp_path / "model.yaml"
        judge.write_text(
            f"type: llm\nmodel: openai/fake\ntransport: direct\napi_base: {endpoint.url}\n"
        )
        words = ("--families", "claims", "--ledger", "judged.db")
        status, _, complaints = command(*words, judge=judge)
        calls = len(endpoint.calls)
        again = command(*words, judge=judge)

        assert (status, complaints) == again[::2] == (0, "")
        assert (
            len(endpoint.calls) == calls == 1 + 3 * 30 + 48
        )  # the first asks whether it is there
    report = AttackReport.model_validate_json(
        (tmp_path / "out/attack.json").read_text()
    )
    (claims,) = report.families
    assert (claims.over_credited, claims.scored) == (6, 48)
    assert {case.id.split("@")[0] for case in claims.worst} == {"claims/professor"}


def test_two_suites_of_one_name_are_refused(command: Command, suite: Path) -> None:
    status, _, complaints = command("--suite", str(suite), "--suite", str(suite))

    assert status == 2
    assert (
        "another suite has the family 'mine:blns' already: rename the folder"
        in complaints
    )


def test_texts_are_written_only_when_asked_for(
    command: Command, tmp_path: Path
) -> None:
    status, _, _ = command(
        "--families", "claims", "passage_injection", "--limit", "4", "--reveal"
    )

    rows = [
        json.loads(line)
        for line in (tmp_path / "out/cases.jsonl").read_text().splitlines()
    ]
    assert status == 0
    assert [row["id"].split("/")[0] for row in rows] == ["claims"] * 4 + [
        "passage_injection"
    ] * 4
    assert all(row["response"] for row in rows)
    assert all(row["passage"] for row in rows[4:])


def test_a_suite_is_attacked_with(command: Command, suite: Path) -> None:
    status, printed, complaints = command(
        "--suite", str(suite), "--families", "mine:blns"
    )

    assert status == 0
    assert "mine:blns" in printed
    assert complaints == f"{suite}: 3 files hold no attacks\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("--families", "master_kees"),
            "'master_kees' is no family; use some of master_keys, ",
        ),
        (("--limit", "0"), 'Invalid value "0" for --limit. Must be >= 1.'),
        (("--epsilon", "1.5"), 'Invalid value "1.5" for --epsilon. Must be < 1.'),
        (("--workers", "0"), 'Invalid value "0" for --workers. Must be >= 1.'),
        (("none.jsonl",), "No such file"),
    ],
)
def test_a_wrong_input_ends_in_one_line(
    command: Command, words: tuple[str, ...], problem: str
) -> None:
    status, _, complaints = command(*words)

    assert status == 2
    assert complaints.startswith("rubric-judge: ")
    assert problem in complaints
    assert complaints.count("\n") == 1


@pytest.mark.parametrize("folder", ["file", "file/deeper", "/proc"])
def test_a_folder_that_cannot_be_written_is_one_line_before_the_first_call(
    command: Command, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "file").touch()
    with FakeEndpoint(0.5) as endpoint:
        judge = tmp_path / "model.yaml"
        judge.write_text(
            f"type: llm\nmodel: openai/fake\ntransport: direct\napi_base: {endpoint.url}\n"
        )
        status, _, complaints = command(judge=judge, out=folder)

        assert status == 2
        assert complaints.startswith(
            f"rubric-judge: --out {folder}: cannot be made a folder"
        )
        assert complaints.endswith("name another folder\n")
        assert complaints.count("\n") == 1
        assert not endpoint.calls
