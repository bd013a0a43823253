"""`rubric-judge calibrate`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from rubric_core import ConfigError, Task, write_tasks
from rubric_judge import LexicalConfig, LexicalJudge, judge_spec, load_judge
from rubric_judge.cli import main
from rubric_judge.judges.capabilities import fingerprint
from rubric_judge.quality.calibration.record import Verdict, read_calibration
from rubric_judge.testing import FakeCall, FakeEndpoint

NAMES = ("first", "second")
TEXTS = (
    "The house has word0 in its hall.",
    "The garden has word1 in its grass.",
    "The garden has word0 and word1 in it.",
    "There is nothing here at all.",
)
MakeTasks = Callable[..., dict[str, Task]]
Command = Callable[..., tuple[int, str, str]]
FILES = ("tasks.jsonl", "answers.jsonl")
CASCADE = ("--cascade", "--risk", ".1")


def _label(
    line: int, task_id: str, criterion: str, score: float | None, rater: str
) -> str:
    row = {
        "line": line,
        "task_id": task_id,
        "criterion": criterion,
        "score": score,
        "rater": rater,
    }
    return json.dumps(row)


@pytest.fixture
def command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make_tasks: MakeTasks,
) -> Iterator[Command]:
    """Return a function that runs `rubric-judge calibrate` beside 40 labelled responses.

    anna labels what is there, and ben the other criterion's word in place of the second's.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    tasks = make_tasks(NAMES, 10)
    write_tasks("tasks.jsonl", tasks.values())
    rows = [(name, text) for name in tasks for text in TEXTS]
    lines = [json.dumps({"task_id": name, "response": text}) for name, text in rows]
    Path("answers.jsonl").write_text("\n".join([*lines, lines[0]]))
    for rater, words in (("anna", ("word0", "word1")), ("ben", ("word0", "word0"))):
        labels = [
            _label(line, name, criterion, 2.0 * (word in text), rater)
            for line, (name, text) in enumerate(rows, 1)
            for criterion, word in zip(NAMES, words, strict=True)
        ]
        Path(f"{rater}.jsonl").write_text("\n".join(labels))
    Path("lexical.yaml").write_text("type: lexical\n")
    monkeypatch.setattr(
        "rubric_judge.ui.console.progress.QUIET_S", 3600.0
    )  # no line of a slow machine

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["rubric-judge", "calibrate", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    yield run
    structlog.reset_defaults()


def test_a_judge_is_calibrated_and_found_again_in_its_judgements(
    command: Command,
) -> None:
    words = ("--labels", "anna.jsonl", "--resamples", "30")
    status, printed, complaints = command(
        *FILES, *words, "--judge", "lexical.yaml", "--out", "out"
    )

    assert (status, complaints) == (0, "")
    assert printed.startswith(
        "lexical_v3, against 80 labels by 1 rater on 80 response–criterion pairs. "
        "2 criteria: admit 2; 100% of the labelled weight is admitted.\n"
    )
    assert printed.endswith(
        "next:\ntrain on what is admitted: beside judge.spec of rubric-train\n"
        "  judge:\n    calibration: out/calibration.json\n"
        "    uncalibrated: mask   # those without labels; else training does not start\n"
    )
    assert max(map(len, printed.splitlines()[1:])) <= 80
    found = read_calibration(Path("out/calibration.json"))
    assert found.judge_fingerprint == LexicalJudge(LexicalConfig()).fingerprint
    assert [one.verdict for one in found.criteria] == [Verdict.ADMIT, Verdict.ADMIT]
    assert [one.youden_j.value for one in found.criteria] == [1.0, 1.0]
    assert found.reward.bias.value == 0
    assert found.raters == ("anna",)
    written = {path.name for path in Path("out").iterdir()}
    assert written >= {
        "calibration.html",
        "calibration.md",
        "youden_j.png",
        "youden_j.svg",
    }
    judged = Path("out/judgements_lexical_0.jsonl")
    assert (
        len(judged.read_text().splitlines()) == 40
    )  # what nobody labelled is not asked for

    # The judgements alone give the same figures, and know the judge by name, or by --judge.
    status, printed, told = command(
        *FILES, *words, "--judgements", str(judged), "--out", "named"
    )
    named = read_calibration(Path("named/calibration.json"))
    assert (status, named.judge_fingerprint) == (0, "lexical_v3")
    assert "give its configuration with --judge" in told
    assert (
        "next:\ncalibrate with --judge beside --judgements\n  --judge JUDGE.yaml"
        in printed
    )
    assert "train on what is admitted" not in printed
    assert named.criteria == found.criteria
    both = ("--judgements", str(judged), "--judge", "lexical.yaml", "--out", "both")
    assert command(*FILES, *words, *both)[0] == 0
    assert (
        Path("both/calibration.json").read_text()
        == Path("out/calibration.json").read_text()
    )


def test_what_people_see_and_a_judge_does_not(command: Command) -> None:
    words = ("--labels", "ben.jsonl", "--judge", "lexical.yaml", "--resamples", "30")
    status, printed, _ = command(*FILES, *words, "--out", "out")

    found = {
        one.criterion: one
        for one in read_calibration(Path("out/calibration.json")).criteria
    }
    assert status == 0
    assert found["first"].verdict is Verdict.ADMIT
    assert found["second"].verdict is Verdict.MORE_LABELS
    assert "50% of the labelled weight" in printed
    assert [one.criterion for one in read_calibration(Path("out/calibration.json")).criteria] == [
        "second", "first"
    ]  # fmt: skip
    how = "(without `inclusion`, `rubric-judge label` adds none to them)"
    step = f"label more in the same way as those that are there {how}, then calibrate on all labels"
    assert f"next:\n{step}: second\ntrain on" in printed
    page = Path("out/calibration.md").read_text()
    assert found["second"].reason in page
    assert "![youden j](youden_j.png)" in page


@pytest.mark.parametrize("is_drawn", [True, False])
@pytest.mark.parametrize("is_all_labelled", [True, False])
def test_more_labels_come_from_more_responses_where_all_are_labelled(
    command: Command, *, is_drawn: bool, is_all_labelled: bool
) -> None:
    if is_all_labelled:  # without the last response, which nobody labels
        answers = Path("answers.jsonl").read_text().splitlines()[:-1]
        Path("answers.jsonl").write_text("\n".join(answers))
    rows = map(json.loads, Path("ben.jsonl").read_text().splitlines())
    drawn = {"inclusion": 1.0} if is_drawn else {}
    Path("my labels.jsonl").write_text(
        "\n".join(json.dumps(row | drawn) for row in rows)
    )
    words = (
        "--labels",
        "my labels.jsonl",
        "--judge",
        "lexical.yaml",
        "--resamples",
        "30",
    )
    _, printed, _ = command(*FILES, *words, "--out", "out")

    add = "every response is labelled: add answers at the end of answers.jsonl, score them"
    assert (add in printed) is is_all_labelled
    assert ("without `inclusion`" in printed) is not is_drawn
    larger = "the same command as before with a larger --count after the first"
    assert (larger in printed) is (is_drawn and not is_all_labelled)
    label = "rubric-judge label tasks.jsonl answers.jsonl"
    more = "" if is_all_labelled else "--judgements JUDGED "
    counts = "--count COUNT" if is_all_labelled else "--count COUNT --count LARGER"
    line = f"{label} {more}--out 'my labels.jsonl' {counts}\n"
    assert ((f"  {line}" if is_drawn else label) in printed) is is_drawn


def test_two_raters_and_replicates_of_a_model(command: Command) -> None:
    with FakeEndpoint(lambda call: dict(call.weights)) as endpoint:
        Path("all.yaml").write_text(
            f"type: llm\nmodel: openai/fake\ntransport: direct\napi_base: {endpoint.url}\n"
        )
        words = ("--labels", "anna.jsonl", "--labels", "ben.jsonl", "--judge", "all.yaml",
                 "--replicates", "2", "--resamples", "30", "--ledger", "l.db")  # fmt: skip
        status, _, _ = command(*FILES, *words, "--out", "out")
        calls = len(endpoint.calls)
        again, _, _ = command(*FILES, *words, "--out", "again")

        assert (status, again, calls) == (0, 0, 1 + 80)
        assert len(endpoint.calls) == calls
    assert (
        Path("out/calibration.json").read_text()
        == Path("again/calibration.json").read_text()
    )
    assert (
        "160 labels by 2 raters on 80 response–criterion pairs"
        in Path("out/calibration.md").read_text()
    )
    found = read_calibration(Path("out/calibration.json"))
    first, second = sorted(found.criteria, key=lambda one: one.criterion)
    assert (first.people.value, first.youden_j.value, first.tpr.value) == (
        1.0,
        0.0,
        1.0,
    )
    assert first.verdict in {Verdict.STRONGER_JUDGE, Verdict.MORE_LABELS}
    assert (second.people.value or 0) < 0.1
    assert found.reward.measured.value == 0


def _names(folder: Path) -> list[str]:
    return [
        json.loads(line)["task_id"]
        for line in (folder / "answers.jsonl").read_text().splitlines()
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"task_id": "none"}, "bad.jsonl:1: no task has the id 'none'"),
        (
            {"criterion": "third"},
            "its task has no criterion 'third', but first, second",
        ),
        ({"score": 2.5}, "bad.jsonl:1: 2.5 is more than the criterion's weight 2"),
        ({"line": 99}, "response 99 is not a response to task"),
        ({"score": None}, "none of the 1 labels has a score"),
    ],
)
def test_a_label_that_does_not_fit_is_refused(
    command: Command, tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    row = json.loads(_label(1, _names(tmp_path)[0], "first", 1.0, "anna"))
    Path("bad.jsonl").write_text(json.dumps(row | change))

    status, printed, complaint = command(
        *FILES, "--labels", "bad.jsonl", "--judge", "lexical.yaml", "--out", "out"
    )

    assert (status, printed) == (2, "")
    assert problem in complaint
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("--labels", "anna.jsonl"),
            "--judge: there is no judge; give its configuration",
        ),
        (
            ("--labels", "empty.jsonl", "--judge", "lexical.yaml"),
            "empty.jsonl: holds no label",
        ),
        (
            (
                "--labels",
                "anna.jsonl",
                "--labels",
                "copy.jsonl",
                "--judge",
                "lexical.yaml",
            ),
            "of response 1 again, as line 1 of anna.jsonl does: keep one of the two",
        ),
        (
            ("--labels", "twice.jsonl", "--judge", "lexical.yaml"),
            "twice.jsonl:2: 'anna' labels criterion 'first' of response 1 again",
        ),
        (
            ("--labels", "anna.jsonl", "--judge", "lexical.yaml", "--replicates", "0"),
            'Invalid value "0" for --replicates. Must be >= 1.',
        ),
        (
            ("--labels", "anna.jsonl", "--judge", "lexical.yaml", "--bound", "1"),
            "--bound. Must be < 1",
        ),
        (
            ("--labels", "anna.jsonl", "--judge", "lexical.yaml", "--risk", ".1"),
            "rubric-judge: --risk is of a cascade: give --cascade too, or leave it out",
        ),
        (
            (
                "--labels",
                "anna.jsonl",
                "--judge",
                "lexical.yaml",
                "--confidence",
                ".95",
            ),
            "rubric-judge: --confidence is of a cascade: give --cascade too",
        ),
        (
            ("--labels", "anna.jsonl", "--judge", "lexical.yaml", "--cascade"),
            "rubric-judge: --cascade needs --risk: the share that may contradict the labels",
        ),
        (
            (
                "--labels",
                "anna.jsonl",
                "--judge",
                "lexical.yaml",
                "--cascade",
                "--risk",
                "2",
            ),
            "rubric-judge: the options: risk: must be below 1, not '2'",
        ),
        (
            ("--labels", "anna.jsonl", *CASCADE, "--bound", ".3"),
            "rubric-judge: --bound has no meaning with --cascade: leave one of the two out",
        ),
        (
            ("--labels", "anna.jsonl", *CASCADE, "--judgements", "failed.jsonl"),
            "rubric-judge: --judgements has no meaning with --cascade",
        ),
        (("--labels", "anna.jsonl", *CASCADE), "--judge: there is no judge"),
        (("--labels", "empty.jsonl", *CASCADE), "empty.jsonl: holds no label"),
        (
            ("--labels", "anna.jsonl", "--judgements", "others.jsonl"),
            "others.jsonl: judges line 99 as a response to task",
        ),
        (
            ("--labels", "anna.jsonl", "--judgements", "failed.jsonl"),
            "'j' has scores for not a single labelled response (timeout 1)",
        ),
        (
            (
                "--labels",
                "anna.jsonl",
                "--judgements",
                "failed.jsonl",
                "--judge",
                "lexical.yaml",
            ),
            "--judge lexical.yaml: it is 'lexical_v3'; the judgements are of 'j'",
        ),
    ],
)
def test_bad_input_is_one_clear_error(
    command: Command, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    Path("empty.jsonl").write_text("\n")
    Path("copy.jsonl").write_text(Path("anna.jsonl").read_text())
    line = Path("anna.jsonl").read_text().splitlines()[0]
    Path("twice.jsonl").write_text(f"{line}\n{line}")
    result = {"outcome": "unavailable", "reason": "timeout", "judge": "j"}
    row = {"line": 1, "task_id": _names(tmp_path)[0], "reward": None, "result": result}
    Path("failed.jsonl").write_text(json.dumps(row))
    Path("others.jsonl").write_text(json.dumps(row | {"line": 99}))

    status, printed, complaint = command(*FILES, *words, "--out", "out")

    assert (status, printed) == (2, "")
    assert problem in complaint.replace("\n", " ")
    assert not Path("out/calibration.json").exists()


def test_one_class_only_is_no_error_and_says_what_is_missing(
    command: Command, tmp_path: Path
) -> None:
    names = _names(tmp_path)
    labels = [_label(n, names[n - 1], "first", 0.0, "anna") for n in range(1, 41)]
    Path("zeros.jsonl").write_text("\n".join(labels))

    status, printed, _ = command(
        *FILES, "--labels", "zeros.jsonl", "--judge", "lexical.yaml", "--out", "out"
    )

    assert status == 0
    assert "Not met in any label (40 labels)" in printed
    found = read_calibration(Path("out/calibration.json"))
    assert {one.verdict for one in found.criteria} == {Verdict.MORE_LABELS}
    assert all(
        one.youden_j.value is None and one.labels_needed for one in found.criteria
    )
    assert not Path("out/youden_j.png").exists()


def test_a_criterion_of_which_nobody_can_tell_is_said_to_be_one(
    command: Command, tmp_path: Path
) -> None:
    names = _names(tmp_path)
    labels = [
        _label(
            n, names[n - 1], name, None if name == "second" else float(n % 2), "anna"
        )
        for n in range(1, 41)
        for name in NAMES
    ]
    Path("unsure.jsonl").write_text("\n".join(labels))
    words = ("--labels", "unsure.jsonl", "--judge", "lexical.yaml", "--out", "out")

    assert command(*FILES, *words)[0] == 0
    found = {
        one.criterion: one
        for one in read_calibration(Path("out/calibration.json")).criteria
    }
    assert (
        "Every label, 40 of them, says that the rater cannot tell"
        in found["second"].reason
    )
    assert "cannot tell" not in found["first"].reason
    assert (
        "40 labels more say that the rater cannot tell"
        in Path("out/calibration.md").read_text()
    )


def _probability(call: FakeCall) -> float:
    """The probability of a yes: .9 where a response has the word of the criterion, else .2."""
    prompt = call.messages[-1]["content"]
    response = prompt.partition("BEGIN RESPONSE")[2].partition("END RESPONSE")[0]
    word = "word0" if "Required elements: word0" in prompt else "word1"
    return 0.9 if word in response else 0.2


def test_a_judge_by_probability_is_calibrated_under_a_fingerprint_of_its_own(
    command: Command,
) -> None:
    there = {"type": "llm", "model": "openai/fake"}
    with FakeEndpoint(_probability) as endpoint:
        there["api_base"] = endpoint.url
        Path("judge.yaml").write_text(json.dumps({**there, "verdict": "probability"}))
        words = ("--labels", "anna.jsonl", "--resamples", "30", "--judge", "judge.yaml")
        status, _, complaints = command(*FILES, *words, "--out", "out")

    assert (status, complaints) == (0, "")
    found = read_calibration(Path("out/calibration.json"))
    assert [row.verdict for row in found.criteria] == [Verdict.ADMIT, Verdict.ADMIT]
    assert [row.youden_j.value for row in found.criteria] == [1.0, 1.0]
    # Half of the labels are met, and the judge says .9 and .2 where people say 1 and 0.
    assert [row.bias.value for row in found.criteria] == pytest.approx([0.05, 0.05])
    own, sampled = (
        fingerprint(load_judge(judge_spec(spec)))
        for spec in ({**there, "verdict": "probability"}, there)
    )
    found.require(own, [], source="out/calibration.json")
    with pytest.raises(ConfigError, match="calibrate this judge"):
        found.require(sampled, [], source="out/calibration.json")
    judged = Path("out/judgements_judge_0.jsonl").read_text().splitlines()
    assert len(judged) == 40
    reading = json.loads(judged[0])["result"]["probabilities"]["first"]
    assert reading["met"] == pytest.approx(0.9)


def _as_labelled(call: FakeCall) -> dict[str, float]:
    """Full marks where a response has the word of the criterion."""
    response = call.messages[-1]["content"].partition("BEGIN RESPONSE")[2]
    words = dict(zip(NAMES, ("word0", "word1"), strict=True))
    return {name: 2.0 * (words[name] in response) for name in call.weights}


def test_a_judge_by_probability_is_the_cheap_one_of_a_calibrated_cascade(
    command: Command,
) -> None:
    with FakeEndpoint(_probability) as cheap, FakeEndpoint(_as_labelled) as strong:
        read = {"type": "llm", "model": "openai/cheap", "api_base": cheap.url}
        sampled = {"type": "llm", "model": "openai/strong", "api_base": strong.url}
        cascade = {
            "type": "cascade",
            "uncertainty": "margin",
            "audit_frac": 0,
            "judges": [{**read, "verdict": "probability"}, sampled],
        }
        Path("cascade.yaml").write_text(json.dumps(cascade))
        words = ("--labels", "anna.jsonl", "--judge", "cascade.yaml", "--cascade")
        options = ("--risk", ".3", "--unit", "response", "--out", "out")
        status, _, complaints = command(*FILES, *words, *options)
        asked = len(cheap.calls)

    assert status == 0, complaints
    assert asked == 1 + 40 * 2  # the check, and one call a criterion
    found = json.loads(Path("out/cascade.json").read_text())
    assert (found["uncertainty"], found["k"]) == ("margin", 1)
    # u = 2 · min(z, 1 − z) is .2 and .4: with a threshold of .4 the cheap judge decides all.
    assert found["pooled"]["threshold"] >= 0.4
    assert found["pooled"]["escalated"] == 0
    judge = load_judge(judge_spec({**cascade, "calibration": "out/cascade.json"}))
    assert " > " in judge.name


def test_the_page_leads_to_where_judge_and_people_differ(command: Command) -> None:
    words = ("--labels", "ben.jsonl", "--judge", "lexical.yaml", "--resamples", "30")

    assert command(*FILES, *words, "--out", "out")[0] == 0

    page = Path("out/calibration.html").read_text("utf-8")
    section = page.partition('id="differ"')[2].partition("</section>")[0]
    # Ben takes the first word for the second: of four texts, one has only that, one only this.
    link = "judgements.html#criterion=second&amp;differ=people&amp;sort=gap"
    assert (
        f'href="{link}">second</a></th><td>40</td><td>10</td><td>10</td><td>50.0'
        in section
    )
    assert "criterion=first" not in section
    youden = page.partition('id="criteria"')[2].partition("</section>")[0]
    assert 'href="judgements.html#criterion=first&amp;sort=gap">first</a>' in youden
    assert 'href="judgements.html#differ=people&amp;sort=gap">Judgements' in page
    viewer = Path("out/judgements.html").read_text("utf-8")
    assert "Private." in viewer
    assert '"h":{' in viewer
