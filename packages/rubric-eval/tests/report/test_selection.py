"""Which questions a page shows, and how texts are cut and made visible."""

from rubric_eval.findings.excerpts import most_different
from rubric_judge.ui.page.rendering import shortened, visible


def test_every_pair_of_models_has_its_greatest_differences() -> None:
    models = {
        "base": {"p": 0.0, "q": 0.5, "r": 0.5, "s": 0.1},
        "sft": {"p": 0.9, "q": 0.5, "r": 0.4, "s": 0.1},
        "grpo": {"p": 0.8, "q": 1.0, "r": 0.5, "s": None},
    }

    assert most_different([models], limit=2) == ["p", "q"]
    assert most_different([models], limit=9) == ["p", "q", "r", "s"]


def test_one_model_shows_its_questions_in_order() -> None:
    assert most_different([{"base": {"p": 0.1, "q": 0.9}}], limit=9) == ["p", "q"]


def test_what_is_unseen_is_named_and_scripts_stay() -> None:
    assert visible("a\u202eb\x00\u200b") == "a[U+202E]b[U+0000][U+200B]"
    assert visible("עברית 👩\u200d🔬\r\n\tx") == "עברית 👩\u200d🔬\n\tx"
    assert visible("o" + "\u0308" * 9) == "o" + "\u0308" * 3


def test_a_cut_says_how_much_is_left() -> None:
    assert (
        shortened("abcdef", 4, where="answers")
        == "abcd […2 more characters in answers]"
    )
    assert shortened("abcd", 4, where="answers") == "abcd"
