"""Figures that others published of judges and people, computed again by our functions.

    uv run python benchmarks/public_judgements.py [--data FOLDER] [--quick] [--json PATH]

FOLDER holds the public judgements by source; the default is the nearest `shared/data/judgements` in
a folder above. Needs rubric-judge's extra `reliability`. It takes half a minute, quick or not.
"""

import argparse
import csv
import gzip
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from record import finish
from rich.console import Console
from rich.table import Table

from rubric_core import (
    Criterion,
    Grounding,
    JudgeResult,
    Rubric,
    Task,
    normalized_reward,
    reward_noise_variance,
)
from rubric_core.errors import RewardError
from rubric_core.formats import import_tasks
from rubric_judge.quality.calibration.correction import corrected_mean
from rubric_judge.quality.calibration.record import RewardPair
from rubric_judge.quality.reliability import Rating, Ratings, collect, measure
from rubric_judge.quality.reliability.agreement import effective_judges
from rubric_judge.quality.reliability.measure import groups_of
from rubric_judge.quality.reliability.noise import advantage_pairs, reward_noise
from rubric_judge.quality.reliability.rates import confusion, youden
from rubric_judge.quality.reliability.shared_errors import (
    effective_judges_by_errors,
    effective_without_weakest,
)

CLAIM = "our functions give the published figures of eight public sources of judgements"
TARGET = 0
LEAST_HELD = 0.9
"""Of the corrected means' intervals, at 95 %."""
PAPERS = (
    "all-in-one",
    "pinn",
    "rice",
    "semantic-self-consistency",
    "stay-on-topic-with-classifier-free-guidance",
)
STUDIES = 349
"""LLMBar's: a data set, a judge and a prompt."""
FIRST = {"1": 1.0, "2": 0.0}
"""Whether the first answer is the better one; an unreadable verdict says nothing."""


@dataclass(frozen=True)
class Figure:
    """What was published, what we find, and how many of its numbers differ."""

    name: str
    published: str
    ours: str
    missed: int


def main() -> None:
    """Compute every figure, print the table, and end with 1 where one is not reproduced."""
    parser = argparse.ArgumentParser(description=CLAIM)
    parser.add_argument(
        "--data", type=Path, default=find_data(), help="folder of the judgements"
    )
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--quick", action="store_true", help="the same")
    options = parser.parse_args()
    if options.data is None or not options.data.is_dir():
        parser.error(
            f"--data: no folder of public judgements ({options.data}): name one"
        )
    result = record(list(reproduce(options.data)))
    show(result)
    finish(result, options.json)


def find_data() -> Path | None:
    """Return `shared/data/judgements` of the nearest folder above that has it."""
    folders = (
        above / "shared/data/judgements" for above in Path(__file__).resolve().parents
    )
    return next((folder for folder in folders if folder.is_dir()), None)


def reproduce(data: Path) -> Iterator[Figure]:
    """Compute every figure again, source by source."""
    for source in SOURCES.values():
        yield from source(data)


def near(
    name: str, published: float, ours: float, *, within: float, form: str = ".3f"
) -> Figure:
    """Compare a number; nan is none."""
    missed = 0 if abs(published - ours) <= within else 1
    return Figure(name, f"{published:{form}}", f"{ours:{form}}", missed)


def paperbench(data: Path) -> Iterator[Figure]:
    """Experts' verdicts on leaves, with the weights of a tree that is read as a flat rubric.

    Source: openai/frontier-evals, PaperBench, judge_eval: the score of each root.
    """
    for paper in PAPERS:
        path = data / f"paperbench_judge_eval/{paper}.expected_result.json"
        (imported,) = import_tasks("paperbench", path)
        rubric, root = imported.task.rubric, json.loads(path.read_text("utf-8"))
        scores = {
            criterion.id: criterion.weight * met
            for criterion, met in zip(rubric, leaf_scores(root), strict=True)
        }
        reward = normalized_reward(JudgeResult.scored(rubric, scores, judge=""), rubric)
        name = f"PaperBench, root of {paper[:24]}, {len(rubric)} leaves"
        yield near(name, root["score"], reward, within=1e-6, form=".6f")


def leaf_scores(node: Mapping[str, Any]) -> Iterator[float]:
    """Yield 0 or 1 for each leaf below a node, in the order of the file."""
    if not node["sub_tasks"]:
        yield node["score"]
    for child in node["sub_tasks"]:
        yield from leaf_scores(child)


def newsroom(data: Path) -> Iterator[Figure]:
    """Three people on four criteria of 420 summaries, as judges and as replicates of one.

    Source: dmg-illc/JUDGE-BENCH, results: Krippendorff's alpha. The factor is computed from the
    same ratings: the variance of the reward over raters, over τ²/M_eff.
    """
    tasks, ratings = newsroom_ratings(data)
    panel = measure(collect(ratings, tasks), resamples=2).panel
    models = json.loads(
        (data / "judge_bench/published_regular_newsroom.json").read_text("utf-8")
    )
    for criterion, published in next(iter(models.values())).items():
        ours = panel.alpha_ordinal_by_criterion[criterion]
        name = f"Newsroom, ordinal α of {criterion}"
        yield near(name, published["krippendorff_alpha"], ours, within=1e-4, form=".4f")
    people = [Rating("people", one.task_id, one.line, one.result) for one in ratings]
    pooled = collect(people, tasks)
    (judge,) = measure(pooled, resamples=2).judges
    factor = judge.measured.value / judge.predicted.value
    yield near(
        "Newsroom, measured over τ²/M_eff", 2.96, factor, within=0.005, form=".2f"
    )
    yield turned("Newsroom", (582, 1260), pooled)


def newsroom_ratings(data: Path) -> tuple[dict[str, Task], list[Rating]]:
    """Read the ratings: articles are tasks, summaries are responses, each rater is a judge."""
    study = json.loads(
        (data / "judge_bench/newsroom.annotations.json").read_text("utf-8")
    )
    names = [one["metric"] for one in study["annotations"]]
    rubric = Rubric(criteria=tuple(Criterion(id=name, weight=4.0) for name in names))
    tasks: dict[str, Task] = {}
    ratings: list[Rating] = []
    for line, row in enumerate(study["instances"], 1):
        task = plain_task(row["article_key"], rubric)
        tasks[task.task_id] = task
        given = [row["annotations"][name]["individual_human_scores"] for name in names]
        for rater, marks in enumerate(zip(*given, strict=True), 1):
            scores = {
                name: float(mark) - 1 for name, mark in zip(names, marks, strict=True)
            }
            result = JudgeResult.scored(rubric, scores, judge="")
            ratings.append(Rating(f"rater {rater}", task.task_id, line, result))
    return tasks, ratings


def plain_task(name: str, rubric: Rubric) -> Task:
    """Return a task of which only the rubric is known."""
    return Task(question=name, grounding=Grounding(name), rubric=rubric)


def turned(source: str, published: tuple[int, int], ratings: Ratings) -> Figure:
    """Count the advantages whose sign a second judgement turns, of all that two of them give.

    These are the responses whose group can be compared; where both advantages are 0, none turns.
    """
    pairs = advantage_pairs(ratings.rewards_JNR[0], groups_of(ratings))
    replicates = ratings.rewards_JNR.shape[2]
    compared = int((pairs.part_N > 0).sum()) * math.comb(replicates, 2)
    ours = int(pairs.flips_N.sum()), compared
    theirs, found = ("{} of {}".format(*one) for one in (published, ours))
    return Figure(
        f"{source}, signs of advantages turned", theirs, found, int(ours != published)
    )


def llm_rubric(data: Path) -> Iterator[Figure]:
    """Criteria asked in separate calls, with the judge's probability of every answer.

    The expected score stands beside the sampled one as a replicate without noise: the variance of
    one judgement is then twice that of the two. It is held against τ²/M_eff, τ² by probabilities.

    Source: microsoft/LLM-Rubric, data: probabilities and one sampled answer a criterion.
    """
    for kind, published in (("real", 0.85), ("synth", 1.07)):
        path = data / f"llm_rubric/gpt-3.5-turbo-16k_{kind}_evaluations_FIXED.tsv"
        cells: defaultdict[str, dict[str, Sequence[float]]] = defaultdict(dict)
        for row in rows_of(path):
            chances = [float(row[f"answer{level}_prob"]) for level in range(1, 5)]
            cells[row["text_id"]][row["criterion"]] = (
                float(row["sample_llm"]),
                *chances,
            )
        table_NMC = np.array([[one[c] for c in sorted(one)] for one in cells.values()])
        sampled_NM, chances_NMV = (table_NMC[..., 0] - 1) / 3, table_NMC[..., 1:]
        levels_V = np.arange(4) / 3
        expected_NM = chances_NMV @ levels_V
        tau2 = float((chances_NMV @ levels_V**2 - expected_NM**2).mean())
        z_NRM = np.stack([sampled_NM, expected_NM], axis=1)
        alpha_NM = np.full(sampled_NM.shape, 1 / sampled_NM.shape[1])
        measured = reward_noise(z_NRM, z_NRM.mean(axis=2), alpha_NM).measured
        factor = (
            2
            * measured(np.arange(len(z_NRM)))
            / reward_noise_variance(alpha_NM[0], tau2)
        )
        name = f"LLM-Rubric, {kind}: measured over τ²/M_eff"
        yield near(name, published, factor, within=0.005, form=".2f")


def llmbar(data: Path) -> Iterator[Figure]:
    """Verdicts on pairs with the answers in both orders; one that cannot be read is not correct.

    Source: princeton-nlp/LLMBar, statistics.json of every evaluator: correct verdicts.
    """
    verdicts: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows_of(data / "llmbar/verdicts.csv.gz"):
        verdicts[f"{row['dataset']}|{row['judge']}|{row['prompt']}"].append(row)
    studies = json.loads((data / "llmbar/published_statistics.json").read_text("utf-8"))
    for column, key in (
        ("winner_in_order", "correct_False"),
        ("winner_swapped", "correct_True"),
    ):
        same = 0
        for name, published in studies.items():
            label_N1, said_N1 = (
                np.array([[FIRST.get(row[one], math.nan)] for row in verdicts[name]])
                for one in ("label", column)
            )
            decided = confusion(said_N1[:, None, :], label_N1)
            correct = int(decided.tp_N.sum() + decided.tn_N.sum())
            same += published[key].startswith(f"{correct} / {len(said_N1)} =")
        name = f"LLMBar, counts of correct verdicts, {column.replace('_', ' ')}"
        yield Figure(name, str(STUDIES), str(same), STUDIES - same)


def wildbench(data: Path) -> Iterator[Figure]:
    """Scores 1 to 10 of one judge that was asked again about the same text.

    Source: allenai/WildBench, eval_results: gpt-4o-2024-05-13 in v2.0522 and v2.0625.
    """
    scored: defaultdict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for row in rows_of(data / "wildbench/scores.csv.gz"):
        if row["judge"] == "gpt-4o-2024-05-13":
            text = (row["session_id"], row["model"], row["output_sha1"])
            scored[text][row["judge_request"]] = float(row["score"])
    rubric = Rubric(criteria=(Criterion(id="score", weight=9.0),))
    again = {text: scores for text, scores in scored.items() if len(scores) > 1}
    tasks = {name: plain_task(name, rubric) for name, *_ in again}
    ratings = collect(
        (
            Rating(
                "gpt-4o",
                tasks[name].task_id,
                line,
                JudgeResult.scored(rubric, {"score": x - 1}, judge=""),
            )
            for line, ((name, *_), scores) in enumerate(again.items(), 1)
            for x in scores.values()
        ),
        {task.task_id: task for task in tasks.values()},
    )
    (judge,) = measure(ratings, resamples=2).judges
    yield near(
        "WildBench, τ² on 1 to 10", 0.228, judge.tau2.value * 9**2, within=0.0005
    )
    yield turned("WildBench", (51, 556), ratings)


def healthbench(data: Path) -> Iterator[Figure]:
    """Two judges against physicians, from the counts that were published.

    The published J is the difference of two rates that were rounded to a thousandth first.

    Source: cimo-labs/healthbench-judge-audit, results.
    """
    for judge, published in (
        ("openai_gpt-4o-mini", 0.240),
        ("anthropic_claude-haiku-4-5", 0.361),
    ):
        (path,) = (data / "healthbench_audit").glob(f"results_{judge}*.md")
        counts = dict[str, int]()
        for count, cell in re.findall(
            r"(\d+) \((TP|FP|FN|TN)\)", path.read_text("utf-8")
        ):
            counts[cell.lower()] = int(count)
        yield near(
            f"HealthBench, J of {judge}",
            published,
            youden(**counts).youden_j.value,
            within=0.001,
        )


def cje(data: Path) -> Iterator[Figure]:
    """Each policy's judge mean, corrected by labels of a part of its own answers.

    Half of the labelled answers correct the mean of all that are labelled, which is what to cover.
    Labels of another policy, one whose rewards look alike included, are refused.

    Source: cimo-labs/cje, examples/arena_sample: `unhelpful` is a policy on which the judge errs
    otherwise.
    """
    rows = list(rows_of(data / "cje_arena/scores.csv"))
    base = labelled(rows, "fresh", "base")
    for policy in ("base", "clone", "parallel_universe_prompt", "unhelpful"):
        there = base if policy == "base" else labelled(rows, "probe", policy)
        judge_N, answers_N = [one.judge for one in there], [one.answer for one in there]
        found = corrected_mean(judge_N, there[::2], answers_N=answers_N)
        label = float(np.mean([one.label for one in there]))
        covers = found.ci_low <= label <= found.ci_high
        ours = f"{found.mean:.3f} [{found.ci_low:.3f}, {found.ci_high:.3f}]"
        yield Figure(f"CJE, mean of {policy}", f"{label:.3f}", ours, int(not covers))
        if policy == "base":
            continue
        try:
            corrected_mean(judge_N, base, answers_N=answers_N)
        except RewardError:
            said = "refused"
        else:
            said = "corrected"
        name = f"CJE, {policy} by labels of base"
        yield Figure(name, "refused", said, int(said != "refused"))


def labelled(
    rows: Iterable[Mapping[str, str]], source: str, policy: str
) -> list[RewardPair]:
    """Return the responses of a policy that have both the judge's score and a label."""
    return [
        RewardPair(
            task_id=row["prompt_id"],
            document=row["prompt_id"],
            judge=float(row["judge_score"]),
            label=float(row["oracle_label"]),
            answer=f"{source} {policy} {row['prompt_id']}",
        )
        for row in rows
        if (row["source"], row["policy"]) == (source, policy) and row["oracle_label"]
    ]


def corrections(data: Path) -> Iterator[Figure]:
    """How often intervals of corrected means hold the mean label, over draws of 25 labels a system.

    WildBench: gpt-4o corrected by gpt-4-turbo on the same texts, three models. Newsroom: one person
    corrected by the mean of two others, seven systems. Nobody published these: 90 % is our claim.
    """
    for name, systems in (
        ("WildBench", wildbench_systems(data)),
        ("Newsroom", newsroom_systems(data)),
    ):
        rng = np.random.default_rng(25)
        held = [
            holds(pairs, rng.permutation(len(pairs))[:25])
            for pairs in systems
            for _ in range(1_000 // len(systems))
        ]
        share = float(np.mean(held))
        figure = f"{name}, means corrected by 25 labels that hold"
        yield Figure(figure, "at least 90 %", f"{share:.1%}", int(share < LEAST_HELD))


def holds(pairs: Sequence[RewardPair], drawn: Iterable[int]) -> bool:
    """Whether the interval from some labels holds the mean of all."""
    found = corrected_mean(
        [one.judge for one in pairs],
        [pairs[index] for index in drawn],
        answers_N=[one.answer for one in pairs],
        documents_N=[one.document for one in pairs],
    )
    return found.ci_low <= float(np.mean([one.label for one in pairs])) <= found.ci_high


def wildbench_systems(data: Path) -> list[list[RewardPair]]:
    """Return the texts of each model that both judges scored."""
    scored: defaultdict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for row in rows_of(data / "wildbench/scores.csv.gz"):
        if row["version"] == "v2.0522":
            text = (row["model"], row["session_id"], row["output_sha1"])
            scored[text][row["judge"]] = (float(row["score"]) - 1) / 9
    systems: defaultdict[str, list[RewardPair]] = defaultdict(list)
    for (model, session, text), by_judge in scored.items():
        if len(by_judge) > 1:
            judge, label = (
                by_judge["gpt-4o-2024-05-13"],
                by_judge["gpt-4-turbo-2024-04-09"],
            )
            pair = RewardPair(
                task_id=session, document=session, judge=judge, label=label, answer=text
            )
            systems[model].append(pair)
    return list(systems.values())


def newsroom_systems(data: Path) -> list[list[RewardPair]]:
    """Return the summaries of each system, which stand in one order for each article."""
    study = json.loads(
        (data / "judge_bench/newsroom.annotations.json").read_text("utf-8")
    )
    by_article: defaultdict[str, list[RewardPair]] = defaultdict(list)
    for line, row in enumerate(study["instances"]):
        marks = [one["individual_human_scores"] for one in row["annotations"].values()]
        first, *others = (np.array(marks, float).mean(axis=0) - 1) / 4
        article = row["article_key"]
        pair = RewardPair(
            task_id=article,
            document=article,
            judge=first,
            label=float(np.mean(others)),
            answer=str(line),
        )
        by_article[article].append(pair)
    return [list(system) for system in zip(*by_article.values(), strict=True)]


def themis(data: Path) -> Iterator[Figure]:
    """How many independent judges five are worth, by their errors on answers of known truth.

    Verdicts on four answers, of which one is the best, in four orders; one that cannot be read
    counts as a fourth. Nobody published these.

    Source: sixijsu77-hub/themis-judge-reliability, exp01, phases P2a and J3.
    """
    verdicts: defaultdict[str, defaultdict[tuple[str, ...], dict[str, float]]]
    verdicts = defaultdict(lambda: defaultdict(dict))
    for row in rows_of(data / "themis_rewardbench2/verdicts.csv.gz"):
        item = row["subset"], row["item"], row["arrangement"]
        verdicts[row["phase"]][item][row["judge"]] = float(row["correct"])
    for phase, expected in (
        ("P2a", (3.341, 2.147, 2.001)),
        ("J3", (3.264, 2.1, 1.873)),
    ):
        judges = sorted({name for one in verdicts[phase].values() for name in one})
        correct_JN = np.array(
            [[one[name] for one in verdicts[phase].values()] for name in judges]
        )
        truth_N, rows = np.ones(correct_JN.shape[1]), np.arange(correct_JN.shape[1])
        ours = (
            effective_judges(correct_JN)(rows),
            effective_judges_by_errors(correct_JN, truth_N)(rows),
            effective_without_weakest(correct_JN, truth_N)(rows),
        )
        names = "participation ratio", "by errors", "by errors, without the weakest"
        for name, published, figure in zip(names, expected, ours, strict=True):
            yield near(
                f"Themis {phase}, five judges, {name}", published, figure, within=0.0006
            )


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """Read a CSV or TSV file, compressed or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(
            file, delimiter="\t" if path.suffix == ".tsv" else ","
        )


SOURCES: dict[str, Callable[[Path], Iterator[Figure]]] = {
    "PaperBench": paperbench,
    "Newsroom": newsroom,
    "LLM-Rubric": llm_rubric,
    "LLMBar": llmbar,
    "WildBench": wildbench,
    "HealthBench": healthbench,
    "CJE": cje,
    "Themis": themis,
    "corrections": corrections,
}


def record(figures: Sequence[Figure]) -> dict[str, Any]:
    """Count what was not reproduced."""
    value = sum(figure.missed for figure in figures)
    return {
        "claim": CLAIM,
        "value": value,
        "target": TARGET,
        "direction": "at most",
        "passed": value <= TARGET,
        "details": {one.name: [one.published, one.ours, one.missed] for one in figures},
    }


def show(result: dict[str, Any]) -> None:
    """Print the table."""
    table = Table("figure", "published", "ours", "missed")
    for name, (published, ours, missed) in result["details"].items():
        table.add_row(name, published, ours, str(missed))
    Console(width=120).print(table)
    print(f"{result['value']} (target {TARGET}): {result['passed']=}")


if __name__ == "__main__":
    main()
