"""The kind of a criterion is kept where there is one, and is no key where there is none."""

from rubric_core import Criterion, CriterionKind


def test_a_row_without_a_kind_stays_as_it_was() -> None:
    assert "kind" not in Criterion(id="a", weight=1).reveal()


def test_a_kind_comes_back_from_its_row() -> None:
    told = Criterion(id="a", weight=1, kind=CriterionKind.CAUSE)
    assert told.reveal()["kind"] == "cause"
    assert Criterion.model_validate(told.reveal()) == told
