import pytest

from rubric_judge.judges.lexical.words import (
    faults_of_order,
    read_sentences,
    repeated_share,
)


def _texts(text: str) -> list[str]:
    return [sentence.text for sentence in read_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One is here. Two is there.", ["One is here.", "Two is there."]),
        ("Is it? It is!", ["Is it?", "It is!"]),
        ("a line\nanother line", ["a line", "another line"]),
        ("- first item\n2. second item", ["first item", "second item"]),
        ("# Heading\n\nText.", ["Heading", "Text."]),
        ("Windows, e.g. a Hann window, help.", ["Windows, e.g. a Hann window, help."]),
        ("See Fig. 3 for it. Then stop.", ["See Fig. 3 for it.", "Then stop."]),
        ("It is 3.14 long.", ["It is 3.14 long."]),
        ('He said "stop." Then he left.', ['He said "stop."', "Then he left."]),
        (
            "It is i.e.\nthis one.  \n Then it ends.",
            ["It is i.e.", "this one.", "Then it ends."],
        ),
        (
            "Take a filter (cf.\u00a0[2]). Then\u2003stop.",
            ["Take a filter (cf.\u00a0[2]).", "Then\u2003stop."],
        ),
        ("Call `fft.fft(x)` now.", ["Call fft.fft(x) now."]),
        (" ... \n -- ", []),
        ("", []),
    ],
)
def test_a_text_is_split_at_end_marks_and_lines(text: str, expected: list[str]) -> None:
    assert _texts(text) == expected


@pytest.mark.parametrize(
    ("text", "well_formed"),
    [
        ("It returns the filtered array.", True),
        ("It takes `in1`, `in2` and the mode.", True),
        ('It is called the "impulse response."', True),
        pytest.param("It returns arrays", False, id="no end mark"),
        pytest.param("It is so.", False, id="three words"),
        pytest.param(
            "It is the " + "very long story of " * 12 + "it.", False, id="too long"
        ),
        pytest.param(
            "Convolution filter array mode boundary.", False, id="no function word"
        ),
        pytest.param("It is what it is to me.", False, id="only function words"),
        pytest.param(
            "The loss the loss the loss the loss.", False, id="few different words"
        ),
        pytest.param("It is 1 2 3 4 5 6 7 8 9 10 11 12.", False, id="digits"),
        pytest.param("It is {{{{((((====>>>> so is the thing.", False, id="symbols"),
    ],
)
def test_only_prose_is_well_formed(text: str, *, well_formed: bool) -> None:
    (sentence,) = read_sentences(text)
    assert (sentence.flaw is None) is well_formed


def test_a_sentence_can_earn_one_unit_for_two_words() -> None:
    (sentence,) = read_sentences("It returns the filtered array.")
    assert sentence.capacity == 2


def test_the_repeated_share_counts_runs_of_three_words() -> None:
    # a b c a b c: runs abc bca cab abc, one of four repeated.
    assert repeated_share(read_sentences("a b c a b c")) == pytest.approx(1 / 4)
    assert repeated_share(read_sentences("a b c d")) == 0.0
    assert repeated_share(read_sentences("a b")) == 0.0


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("The filter can have a gain in and above the band.", 0),
        ("It may or may not be of interest to the caller.", 0),
        (
            "The array that it is passed in is not changed.",
            1,
        ),  # "passed in" ends a clause
        ("Filter the of returns output it the.", 3),
        ("Is the was can of sentence a.", 3),
        ("A constant `a` is added to a and b.", 0),
        ("The result is that of the test after the keyword if.", 0),
        ("The result is that of the test after the lock if.", 1),
    ],
)
def test_words_out_of_order_are_told_from_english(text: str, faults: int) -> None:
    (sentence,) = read_sentences(text)
    assert faults_of_order(sentence.text, sentence.lowered) == faults


def test_a_list_of_words_has_no_stems_but_those_beside_function_words() -> None:
    (sentence,) = read_sentences(
        "It has to do with gain, band, ripple, phase, delay, taps, lobes, poles."
    )
    assert {"gain", "band", "pol"} <= sentence.stems
    assert not {"ripple", "phase", "delay"} & sentence.stems
