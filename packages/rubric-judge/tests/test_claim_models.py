"""Models that help the claim judge: real ones of a few dimensions, built here, in real folders."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    MissingExtraError,
    Rubric,
    Task,
)
from rubric_judge import (
    ClaimConfig,
    ClaimJudge,
    JudgeSetupError,
    load_judge,
    read_judge_spec,
)
from rubric_judge.judges.claims.meaning import Meaning
from rubric_judge.judges.claims.verifier import labels_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.anyio

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "the",
    "gas",
    "warm",
    "warms",
    "expands",
    "heat",
    "heated",
    "air",
    "swells",
    "box",
    "is",
    "blue",
    "red",
    "what",
    "happens",
    "to",
    "a",
    "when",
    "it",
    ".",
    "?",
]
CLAIM = "the gas expands when it is heated"
QUESTION = "What happens to a box?"
PASSAGE = "The gas expands when it is heated."


def write_tokenizer(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(
        folder
    )


def tiny(**more: object) -> object:
    return transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=len(WORDS),
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=64,
        **more,
    )


def place(word: str) -> int:
    return WORDS.index(word)


@pytest.fixture
def embedding(tmp_path: Path) -> Path:
    """A model that takes "air swells" for "gas expands" and knows no other likeness."""
    folder = tmp_path / "embedding"
    write_tokenizer(folder)
    model = transformers.BertModel(tiny(), add_pooling_layer=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        words = torch.eye(len(WORDS))
        for one, same in (("air", "gas"), ("swells", "expands"), ("red", "heated")):
            words[place(one)] = words[place(same)]
        model.embeddings.word_embeddings.weight.copy_(words)
        for name, parameter in model.named_parameters():
            if "LayerNorm.weight" in name:
                parameter.fill_(1.0)
    model.save_pretrained(folder)
    return folder


def write_classifier(folder: Path, labels: list[str]) -> Path:
    """Write a model whose first label is likely for "expands", the second for "blue" in a pair."""
    write_tokenizer(folder)
    config = tiny(
        id2label=dict(enumerate(labels)), label2id={n: i for i, n in enumerate(labels)}
    )
    model = transformers.BertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.bert.embeddings.word_embeddings.weight.copy_(torch.eye(len(WORDS)))
        layer = model.bert.encoder.layer[0]
        for norm in (model.bert.embeddings.LayerNorm, layer.attention.output.LayerNorm):
            norm.weight.fill_(1.0)
        layer.output.LayerNorm.weight.fill_(1.0)
        # One head that looks at all tokens alike, so that the first holds the mean of all.
        layer.attention.self.value.weight.copy_(torch.eye(len(WORDS)) * 8)
        layer.attention.output.dense.weight.copy_(torch.eye(len(WORDS)) * 8)
        model.bert.pooler.dense.weight.copy_(torch.eye(len(WORDS)))
        model.classifier.weight[0, place("swells")] = 60.0
        model.classifier.weight[1, place("blue")] = 60.0
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def entailment(tmp_path: Path) -> Path:
    return write_classifier(
        tmp_path / "nli", ["ENTAILMENT", "CONTRADICTION", "NEUTRAL"]
    )


def judged(judge: ClaimJudge, response: str, *required: str) -> JudgeResult:
    criterion = Criterion(
        id="c", weight=1, description=f"Says that {CLAIM}.", required_elements=required
    )
    task = Task(
        question=QUESTION,
        grounding=Grounding(PASSAGE),
        rubric=Rubric(criteria=(criterion,)),
    )
    return judge.judge_now(task.judge_view(response))


def score(judge: ClaimJudge, response: str, *required: str) -> float:
    return dict(judged(judge, response, *required).scores or {})["c"]


def test_meaning_finds_a_claim_without_one_of_its_words(embedding: Path) -> None:
    other_words = "The air swells when it is red."
    assert score(ClaimJudge(), other_words) == 0
    judge = ClaimJudge(ClaimConfig(embedding=str(embedding)))
    result = judged(judge, other_words)
    assert dict(result.scores or {})["c"] > 0.5
    assert "by its meaning" in (result.reasoning or "")
    assert "The air swells when it is red." in (result.reasoning or "")


def test_a_sentence_that_gives_the_question_back_means_nothing_of_the_claim(
    embedding: Path,
) -> None:
    meaning = Meaning(str(embedding))
    rows = meaning.nearness(
        [CLAIM], "what happens to the gas", ["what happens to the gas ?"]
    )
    assert rows == [[0.0]]
    assert meaning.nearness([CLAIM], QUESTION, [CLAIM]) == [[1.0]]


def test_meaning_does_not_make_good_what_is_required(embedding: Path) -> None:
    judge = ClaimJudge(ClaimConfig(embedding=str(embedding)))
    assert score(judge, "The air swells when it is red.", "22.4") <= 0.2


def test_meaning_is_the_same_alone_and_among_others(embedding: Path) -> None:
    together = Meaning(str(embedding)).nearness(
        [CLAIM], QUESTION, ["The air swells when it is red.", "a box"]
    )
    alone = Meaning(str(embedding)).nearness(
        [CLAIM], QUESTION, ["The air swells when it is red."]
    )
    assert together[0][0] == alone[0][0]


def test_an_entailment_model_decides_what_is_stated(entailment: Path) -> None:
    judge = ClaimJudge(ClaimConfig(entailment=entailment))
    stated = judged(judge, "The box is red. The air swells.")
    assert dict(stated.scores or {})["c"] > 0.5
    assert "stated" in (stated.reasoning or "")
    assert "The air swells." in (stated.reasoning or "")
    assert "entailment 0." in (stated.reasoning or "") or "entailment 1.00" in (
        stated.reasoning or ""
    )
    denied = judged(judge, "The gas is blue when heated.")
    assert dict(denied.scores or {})["c"] == 0
    assert "contradicted" in (denied.reasoning or "")
    assert score(judge, "The box is red.") == 0


def test_a_fact_checking_model_says_supported_and_no_more(tmp_path: Path) -> None:
    folder = write_classifier(tmp_path / "check", ["supported", "unsupported"])
    judge = ClaimJudge(ClaimConfig(entailment=folder))
    assert score(judge, "The air swells.") > 0.5
    assert score(judge, "The gas is blue.") == 0
    assert labels_of(
        json.loads((folder / "config.json").read_text()), folder=folder
    ) == (0, None)


def test_a_model_is_part_of_the_fingerprint_and_its_place_is_not(
    embedding: Path, entailment: Path, tmp_path: Path
) -> None:
    plain = ClaimJudge().fingerprint
    one = ClaimJudge(ClaimConfig(embedding=str(embedding))).fingerprint
    other = ClaimJudge(ClaimConfig(entailment=entailment)).fingerprint
    moved = embedding.rename(tmp_path / "moved")
    assert len({plain, one, other}) == 3
    assert ClaimJudge(ClaimConfig(embedding=str(moved))).fingerprint == one


async def test_a_check_reads_the_weights(embedding: Path, entailment: Path) -> None:
    await ClaimJudge(
        ClaimConfig(embedding=str(embedding), entailment=entailment)
    ).check()
    (entailment / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(
        JudgeSetupError, match=r"entailment: the model in .* cannot be read"
    ):
        await ClaimJudge(ClaimConfig(entailment=entailment)).check()


async def test_a_judge_with_a_model_answers_in_an_event_loop(embedding: Path) -> None:
    judge = load_judge(ClaimConfig(embedding=str(embedding)))
    criterion = Criterion(id="c", weight=1, description=f"Says that {CLAIM}.")
    task = Task(
        question=QUESTION,
        grounding=Grounding(PASSAGE),
        rubric=Rubric(criteria=(criterion,)),
    )
    result = await judge.judge(task.judge_view("The air swells when it is red."))
    assert dict(result.scores or {})["c"] > 0.5


def without(name: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for path in folder.glob(name):
            path.unlink()

    return remove


def with_settings(**changed: object) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        path = folder / "config.json"
        read = cast("dict[str, object]", json.loads(path.read_text()))
        path.write_text(json.dumps(read | changed))

    return write


def unparsable(folder: Path) -> None:
    (folder / "config.json").write_text("{")


def no_object(folder: Path) -> None:
    (folder / "config.json").write_text("[]")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (
            without("*.safetensors"),
            r"entailment: .* holds no \*\.safetensors: give a folder",
        ),
        (without("config.json"), r"entailment: .* holds no config\.json"),
        (without("[tv]*"), r"entailment: .* holds no tokenizer\.json"),
        (
            unparsable,
            r"entailment: the model in .* cannot be read \(config\.json: JSONDecodeError",
        ),
        (no_object, r"entailment: .*config\.json is no JSON object"),
        (
            with_settings(architectures=["LlamaForCausalLM"]),
            r"no model for sequence classification \(its architecture: LlamaForCausalLM\)",
        ),
        (with_settings(architectures=None), r"\(its architecture: none\)"),
        (
            with_settings(id2label={"0": "POSITIVE", "1": "NEGATIVE"}),
            r"no label of entailment \(its labels: NEGATIVE, POSITIVE\): .* id2label",
        ),
        (with_settings(id2label=None), r"\(its labels: none\)"),
    ],
)
def test_a_folder_that_cannot_decide_entailment_is_refused(
    entailment: Path, spoil: Callable[[Path], None], told: str
) -> None:
    spoil(entailment)
    with pytest.raises(JudgeSetupError, match=told):
        ClaimJudge(ClaimConfig(entailment=entailment))


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (without("*.safetensors"), r"embedding: .* holds no \*\.safetensors"),
        (
            with_settings(architectures=["LlamaForCausalLM"]),
            r"embedding: .* no model of sentence embeddings \(its architecture: LlamaForCausalLM\)",
        ),
    ],
)
def test_a_folder_without_embeddings_is_refused(
    embedding: Path, spoil: Callable[[Path], None], told: str
) -> None:
    spoil(embedding)
    with pytest.raises(JudgeSetupError, match=told):
        ClaimJudge(ClaimConfig(embedding=str(embedding)))


def test_weights_of_another_model_are_refused(embedding: Path) -> None:
    with_settings(num_hidden_layers=2)(embedding)
    with pytest.raises(JudgeSetupError, match=r"its weights lack 'encoder\.layer\.1"):
        Meaning(str(embedding)).load()


def test_neither_a_folder_nor_a_package_is_told_as_such() -> None:
    with pytest.raises(
        JudgeSetupError, match="'no-such-model' is no folder, and no installed"
    ):
        ClaimJudge(ClaimConfig(embedding="no-such-model"))
    with pytest.raises(JudgeSetupError, match="the package 'pydantic' ships 0 folders"):
        ClaimJudge(ClaimConfig(embedding="pydantic"))


def test_an_installed_package_can_ship_the_model(
    embedding: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    inside = site / "shipped" / "model"
    inside.parent.mkdir(parents=True)
    embedding.rename(inside)
    about = site / "shipped_model-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: shipped-model\nVersion: 1.0\n"
    )
    files = [path.relative_to(site).as_posix() for path in inside.iterdir()]
    (about / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    monkeypatch.syspath_prepend(str(site))
    assert (
        score(
            ClaimJudge(ClaimConfig(embedding="shipped-model")),
            "The air swells when it is red.",
        )
        > 0.5
    )


def test_a_configuration_names_folders_beside_it(
    embedding: Path, entailment: Path
) -> None:
    path = embedding.parent / "judge.yaml"
    path.write_text("type: claims\nembedding: embedding\nentailment: nli\n")
    spec = read_judge_spec(path)
    assert spec == ClaimConfig(embedding=str(embedding), entailment=entailment)
    assert isinstance(load_judge(spec), ClaimJudge)


def test_without_transformers_the_extra_is_named(
    embedding: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(
        sys.modules, "rubric_judge.judges.claims.encoder", raising=False
    )
    with pytest.raises(MissingExtraError, match=r"rubric-judge\[models\]"):
        Meaning(str(embedding)).load()
