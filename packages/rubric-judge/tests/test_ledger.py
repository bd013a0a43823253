import os
import pickle
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    JudgeView,
    Outcome,
    Reason,
    Rubric,
    Usage,
)
from rubric_judge import Ledger, LedgerError

ViewFactory = Callable[..., JudgeView]


@pytest.fixture
def scored(rubric: Rubric) -> JudgeResult:
    result = JudgeResult.scored(
        rubric,
        {"names the loss": 1.25, "gives_limit": 0.1},
        judge="m",
        reasoning="It says “π ≈ 3”.",
        latency_s=0.25,
    )
    return result.with_call(usage=Usage(prompt_tokens=3, cost_usd=0.1), attempts=2)


def _record(ledger: Ledger, view: JudgeView, result: JudgeResult, **more: int) -> str:
    key = ledger.key(view, judge="j", **more)
    ledger.record(key, view, result, judge="j", **more)
    return key


def test_a_judgement_is_found_as_it_was_recorded(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        key = _record(ledger, make_view(), scored)
        assert ledger.find(key) == scored
    with Ledger(tmp_path / "ledger") as ledger:
        assert ledger.find(key) == scored
        assert ledger.find("0" * 64) is None


def test_a_file_name_of_glob_characters_leaves_nothing_beside_the_ledger(
    tmp_path: Path,
) -> None:
    Ledger(tmp_path / "run[1]*?.ledger").close()
    assert [path.name for path in tmp_path.iterdir()] == ["run[1]*?.ledger"]


@pytest.mark.parametrize(
    "changes",
    [
        {"response": "Other."},
        {"question": "Other?"},
        {"grounding": Grounding("Other.")},
        {"rubric": Rubric(criteria=(Criterion(id="names the loss", weight=2.0),))},
    ],
    ids=str,
)
def test_a_key_changes_with_everything_that_is_judged(
    tmp_path: Path, make_view: ViewFactory, changes: dict[str, object]
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        assert ledger.key(make_view(**changes), judge="j") != ledger.key(
            make_view(), judge="j"
        )


def test_a_key_changes_with_judge_and_replicate_and_with_nothing_else(
    tmp_path: Path, make_view: ViewFactory, rubric: Rubric
) -> None:
    copy = Rubric(criteria=tuple(Criterion.model_validate(c.reveal()) for c in rubric))
    passage = Grounding(make_view().grounding.reveal())
    with Ledger(tmp_path / "ledger") as ledger:
        key = ledger.key(make_view(), judge="j")
        assert ledger.key(make_view(), judge="other") != key
        assert ledger.key(make_view(), judge="j", replicate=1) != key
        # Equal content in other objects, under another name for the task.
        assert (
            ledger.key(
                make_view(rubric=copy, grounding=passage, task_id="x"), judge="j"
            )
            == key
        )


@pytest.mark.parametrize(
    "field", ["description", "scoring_guide", "verification_method"]
)
def test_a_key_changes_with_a_criterions_text(
    tmp_path: Path, make_view: ViewFactory, rubric: Rubric, field: str
) -> None:
    first, second = rubric
    changed = Rubric(
        criteria=(first, Criterion.model_validate({**second.reveal(), field: "x"}))
    )
    with Ledger(tmp_path / "ledger") as ledger:
        key = ledger.key(make_view(), judge="j")
        assert ledger.key(make_view(rubric=changed), judge="j") != key


def test_a_judge_that_was_not_reached_is_kept_and_asked_again(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    lost = JudgeResult.unavailable(Reason.TIMEOUT, judge="m")
    with Ledger(tmp_path / "ledger") as ledger:
        key = _record(ledger, make_view(), lost)
        assert ledger.find(key) is None
        _record(ledger, make_view(), scored)
        assert ledger.find(key) == scored
        assert [entry.result for entry in ledger.entries()] == [lost, scored]


def test_the_first_that_settles_a_judgement_stays_the_one_that_is_found(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    invalid = JudgeResult.invalid(Reason.NOT_JSON, judge="m")
    with Ledger(tmp_path / "ledger") as ledger:
        _record(ledger, make_view("Another."), scored)
        key = _record(ledger, make_view(), invalid)
        _record(ledger, make_view(), scored)
        assert ledger.find(key) == invalid
        assert [entry.result for entry in ledger.entries()] == [scored, invalid, scored]


INVALID = JudgeResult.invalid(Reason.NOT_JSON, judge="m")


def test_an_invalid_answer_of_a_run_without_a_valid_one_is_asked_for_again(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        key = _record(ledger, make_view(), INVALID)
        assert ledger.find(key) == INVALID  # in the same run it is one judgement
    with Ledger(tmp_path / "ledger") as ledger:
        assert ledger.find(key) is None
        assert [entry.suspect for entry in ledger.entries()] == [True]
        _record(ledger, make_view(), scored)
    with Ledger(tmp_path / "ledger") as ledger:
        assert ledger.find(key) == scored


def test_the_first_valid_answer_settles_the_invalid_ones_before_it(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    views = [make_view(f"Answer {number}") for number in range(4)]
    with Ledger(tmp_path / "ledger") as ledger:
        keys = [_record(ledger, view, INVALID) for view in views[:2]]
        keys.append(_record(ledger, views[2], scored))
        keys.append(_record(ledger, views[3], INVALID))
    with Ledger(tmp_path / "ledger") as ledger:
        found = [ledger.find(key) for key in keys]
        assert found == [INVALID, INVALID, scored, INVALID]
        suspects = [entry.suspect for entry in ledger.entries()]
        assert suspects == [True, True, False, False, False, False]


def test_a_valid_answer_of_one_judge_says_nothing_of_another(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        key = ledger.key(make_view(), judge="broken")
        ledger.record(key, make_view(), INVALID, judge="broken")
        _record(ledger, make_view(), scored)
    with Ledger(tmp_path / "ledger") as ledger, Ledger(tmp_path / "other") as other:
        assert ledger.find(key) is None
        for entry in ledger.entries():
            other.append(entry)
        assert other.find(key) is None  # poured into another, it is suspect still


def test_a_clock_that_goes_back_changes_nothing(
    tmp_path: Path,
    make_view: ViewFactory,
    scored: JudgeResult,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([2e9, 1.0, -5.0, 0.0])
    monkeypatch.setattr("rubric_judge.pool.ledger.store.time.time", lambda: next(times))
    zero = JudgeResult.scored(
        make_view().rubric, dict.fromkeys(scored.scores, 0.0), judge="m"
    )
    with Ledger(tmp_path / "ledger") as ledger:
        key = _record(ledger, make_view(), scored)
        for result in (zero, INVALID, zero):
            _record(ledger, make_view(), result)
    with Ledger(tmp_path / "ledger") as ledger:
        assert ledger.find(key) == scored
        assert [entry.recorded_at for entry in ledger.entries()] == [
            2e9,
            1.0,
            -5.0,
            0.0,
        ]


def test_an_entry_holds_what_rejudging_needs_and_no_text_of_the_task(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    view = make_view("Zyzzyva.", question="Quokka?", grounding=Grounding("Axolotl."))
    with Ledger(tmp_path / "ledger") as ledger:
        key = _record(ledger, view, scored, replicate=2)
        (entry,) = ledger.entries()
    assert (entry.key, entry.judge, entry.task_id, entry.replicate) == (
        key,
        "j",
        view.task_id,
        2,
    )
    assert (entry.response, entry.result) == (view.response, scored)
    assert entry.passage_sha256 == view.grounding.sha256
    assert abs(entry.recorded_at - time.time()) < 60
    stored = (tmp_path / "ledger").read_bytes()
    assert b"Zyzzyva" in stored
    assert b"Zyzzyva" not in repr(entry).encode()
    for hidden in (b"Quokka", b"Axolotl", b"which loss", b"cross entropy"):
        assert hidden not in stored


def test_entries_come_in_order_past_a_page(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        for number in range(1203):
            _record(ledger, make_view(str(number)), scored)
        assert [int(entry.response) for entry in ledger.entries()] == list(range(1203))


_texts = st.text(max_size=30)
_results = st.one_of(
    st.builds(
        lambda score, reasoning: JudgeResult(
            outcome=Outcome.SCORED,
            scores={"c": score},
            total=score,
            max_total=1e308,
            reasoning=reasoning,
        ),
        st.floats(0, 1e308),
        _texts,
    ),
    st.builds(lambda judge: JudgeResult.invalid(Reason.EMPTY, judge=judge), _texts),
)


@given(response=_texts, result=_results)
def test_any_text_and_any_score_come_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, response: str, result: JudgeResult
) -> None:
    rubric = Rubric(criteria=(Criterion(id="c", weight=1.0),))
    view = JudgeView(
        task_id="t",
        question="q",
        grounding=Grounding("p"),
        response=response,
        rubric=rubric,
    )
    with Ledger(tmp_path_factory.mktemp("any") / "ledger") as ledger:
        key = _record(ledger, view, result)
        assert ledger.find(key) == result
        (entry,) = ledger.entries()
    assert entry.response == response


def test_threads_share_a_ledger(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:

        def work(name: int) -> None:
            for number in range(50):
                key = _record(ledger, make_view(f"{name}-{number}"), scored)
                assert ledger.find(key) == scored

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ledger.unwritten == 0
        assert len({entry.response for entry in ledger.entries()}) == 400


def test_nothing_in_a_ledger_can_be_changed_or_deleted(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        _record(ledger, make_view(), scored)
    with closing(sqlite3.connect(tmp_path / "ledger")) as database:
        for change in ("DELETE FROM judgements", "UPDATE judgements SET judge = 'x'"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                database.execute(change)


def test_only_the_owner_may_read_the_files(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    before = os.umask(0)
    try:
        with Ledger(tmp_path / "ledger") as ledger:
            _record(ledger, make_view(), scored)
            modes = {
                path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()
            }
    finally:
        os.umask(before)
    assert set(modes) == {"ledger", "ledger-wal", "ledger-shm"}
    assert set(modes.values()) == {0o600}
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]


def test_a_ledger_that_is_read_follows_one_that_is_written_and_writes_nothing(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    path = tmp_path / "ledger"
    with pytest.raises(LedgerError, match="there is no such ledger"):
        Ledger(path, read_only=True)
    assert list(tmp_path.iterdir()) == []
    with Ledger(path) as writer, Ledger(path, read_only=True) as reader:
        key = _record(writer, make_view(), scored)
        assert reader.find(key) == scored
        with pytest.raises(LedgerError, match="opened to be read"):
            reader.record(key, make_view(), scored, judge="j")


def test_a_closed_ledger_says_so(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        key = _record(ledger, make_view(), scored)
    ledger.close()
    with pytest.raises(LedgerError, match="is closed"):
        ledger.find(key)
    with pytest.raises(LedgerError, match="is closed"):
        ledger.record(key, make_view(), scored, judge="j")


def test_a_fork_may_not_use_its_parents_connection(
    tmp_path: Path, make_view: ViewFactory, scored: JudgeResult
) -> None:
    with Ledger(tmp_path / "ledger") as ledger:
        key = _record(ledger, make_view(), scored)
        child = os.fork()
        if child == 0:
            try:
                ledger.find(key)
            except LedgerError as error:
                os._exit(7 if "before a fork" in str(error) else 8)
            os._exit(9)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        assert ledger.find(key) == scored


def test_a_ledger_error_survives_pickling_with_its_path(tmp_path: Path) -> None:
    error = LedgerError("is closed", path=tmp_path)
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, RuntimeError)
    assert (type(copy), str(copy), copy.path) == (LedgerError, str(error), tmp_path)
