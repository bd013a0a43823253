"""Checks of what the two steps left behind: that it is right and whole, and that it loads.

They also search all that the policy's side reads for texts of the judge.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, groupby
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rubric_core import Task, Thought, group_advantages, read_tasks
from rubric_core.data.leak import hidden_texts
from rubric_core.files import read_file
from rubric_core.reward.estimators import GroupAdvantages
from rubric_train_openrlhf.cluster.command import flags, refusals
from rubric_train_openrlhf.cluster.rehearse import checking as check
from rubric_train_openrlhf.cluster.rehearse.checking import Finding
from rubric_train_openrlhf.cluster.settings import ClusterPaths
from rubric_train_openrlhf.cluster.training.trainer_states import DeepSpeedStates
from rubric_train_openrlhf.config.train import TrainConfig
from rubric_train_openrlhf.policy import load_policy
from rubric_train_openrlhf.run.checkpoints import checkpoint_path
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.records import RolloutRow
from rubric_train_openrlhf.step.rewards import Sizes, shaped_rewards

_LARGEST_DIFFERENCE = 1e-6
_LARGEST_GAP = {"float32": 1e-3, "bfloat16": 5e-2}
"""Nats: what the arithmetic of an engine and of the trainer differ by, with the same weights."""


_WITH_FAKE = "a random model may earn nothing; with --judge fake rewards differ"


def check_steps(config: TrainConfig, folder: RunFolder) -> Finding:
    """Every step is there, its figures are numbers, and some weight has moved."""
    rows = folder.read_metrics()
    steps = [row.step for row in rows]
    if steps != list(range(1, config.steps + 1)):
        return check.failed(f"metrics.jsonl has the steps {steps}")
    names = ("loss", "kl", "grad_norm", "reward_mean")
    figures = {
        f"{name} of step {row.step}": getattr(row, name)
        for row in rows
        for name in names
    }
    if odd := [name for name, value in figures.items() if not isfinite(value)]:
        return check.failed(f"not a finite number: {', '.join(odd)}")
    if any(row.grad_norm for row in rows):
        last = rows[-1]
        return check.passed(
            f"{len(rows)} steps: reward {last.reward_mean:.3f} ± {last.reward_std:.3f}, "
            f"loss {last.loss:.3g}, KL {last.kl:.3g}, gradient norm {last.grad_norm:.3g}"
        )
    if any(row.advantage_abs_mean for row in rows):
        return check.failed(
            f"every gradient of {len(rows)} steps is 0, though advantages are not: "
            "nothing is learnt",
            remedy="see run.log; an objective that leaves every token out has no "
            "gradient either",
        )
    return check.warning(
        f"every gradient of {len(rows)} steps is 0, since every advantage is: no "
        "update was tried",
        remedy=_WITH_FAKE,
    )


def check_rewards(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """Rewards are in [0, 1], and tell the responses of a group apart."""
    rows = [
        row for step in _rollouts(config, folder) for group in step for row in group
    ]
    rewards = [row.reward for row in rows if row.reward is not None]
    if outside := [reward for reward in rewards if not 0 <= reward <= 1]:
        yield check.failed(
            f"{len(outside)} rewards are outside of [0, 1], the first {outside[0]!r}"
        )
    if failures := Counter(row.outcome for row in rows if row.outcome != "scored"):
        counts = ", ".join(
            f"{number} {outcome}" for outcome, number in sorted(failures.items())
        )
        yield check.failed(
            f"of {len(rows)} judgements {counts}",
            where="judge.spec",
            remedy="the reasons stand in judgements/ of the rehearsal's run folder",
        )
    if not rewards or min(rewards) == max(rewards):
        yield check.warning(
            "all rewards are equal, so every advantage is 0", remedy=_WITH_FAKE
        )
    elif not outside and not failures:
        yield check.passed(
            f"{len(rewards)} rewards from {min(rewards):.3f} to {max(rewards):.3f}, "
            "all scored"
        )


def check_advantages(config: TrainConfig, folder: RunFolder) -> Finding:
    """Recompute every advantage from the rewards on disk."""
    estimator = config.advantage
    if type(estimator) is not GroupAdvantages:
        return check.unchecked(
            f"advantages of estimator {estimator.estimator!r} may follow from criteria, "
            "which the rollouts do not hold"
        )
    steps = list(_rollouts(config, folder))
    expected = np.concatenate(
        [_recomputed(config, groups, estimator).ravel() for groups in steps]
    )
    written = np.array(
        [row.advantage for groups in steps for group in groups for row in group]
    )
    worst = float(np.abs(expected - written).max())
    nonzero = int(np.count_nonzero(written))
    count = len(written)
    if worst <= _LARGEST_DIFFERENCE and nonzero == 0:
        return check.unchecked(
            f"all {count} advantages are 0, as any formula gives for equal rewards",
            remedy=_WITH_FAKE,
        )
    detail = (
        f"{count} advantages, {nonzero} not 0, differ by at most {worst:.1e} from the "
        "formula"
    )
    if worst > _LARGEST_DIFFERENCE:
        return check.failed(detail, where="advantage")
    return check.passed(detail)


def _rollouts(
    config: TrainConfig, folder: RunFolder
) -> Iterator[list[list[RolloutRow]]]:
    """The groups of each step, in the order of their prompts."""
    for step in range(1, config.steps + 1):
        lines = read_file(folder.rollouts / f"step_{step:06d}.jsonl").splitlines()
        rows = sorted(map(RolloutRow.model_validate_json, lines), key=attrgetter("id"))
        yield [
            list(group)
            for _, group in groupby(rows, key=lambda row: row.id.rpartition("-")[0])
        ]


def _recomputed(
    config: TrainConfig, groups: list[list[RolloutRow]], estimator: GroupAdvantages
) -> npt.NDArray[np.float64]:
    def table(name: str, dtype: Any) -> npt.NDArray[Any]:
        return np.array(
            [[getattr(row, name) for row in group] for group in groups], dtype=dtype
        )

    rewards_PG = table("reward", np.float64)
    whole_PG = [
        [row.ended and row.thought is not Thought.UNCLOSED for row in group]
        for group in groups
    ]
    sizes = Sizes(table("tokens", np.int64), np.array(whole_PG))
    shaped_PG = shaped_rewards(rewards_PG, sizes, config=config)
    valid_PG = ~np.isnan(rewards_PG)
    return group_advantages(
        shaped_PG, std=estimator.std, delta=estimator.delta, valid_PG=valid_PG
    )


def check_sync(config: TrainConfig, folder: RunFolder) -> Finding:
    """After an update the engines must sample from the new weights."""
    rows = folder.read_metrics()
    gaps = [row.cluster.sampler_gap for row in rows if row.cluster is not None]
    if len(gaps) < config.steps:
        return check.failed("the steps do not say how far engines and policy are apart")
    limit = _LARGEST_GAP[config.precision]
    gap = (
        f"log-probabilities of engine and policy differ by {gaps[0]:.1e} nats before "
        f"the first update and {gaps[-1]:.1e} after it (limit {limit:g})"
    )
    if gaps[-1] > limit:
        return check.failed(
            f"{gap}: the engine samples from other weights",
            remedy="see run.log for what the weight sync said",
        )
    if not any(row.grad_norm for row in rows[:-1]):
        return check.unchecked(
            f"{gap}, but no weight had moved by then: an engine with old ones would not "
            "be seen",
            remedy=_WITH_FAKE,
        )
    return check.passed(f"{gap}, with KL {rows[-1].kl:.3g} to the start")


def check_heldout(config: TrainConfig, folder: RunFolder) -> Finding:
    """One pass before training, and one after every step that is due."""
    if config.data.validation is None:
        return check.passed("none is asked for")
    rows = folder.read_heldout()
    steps = [row.step for row in rows]
    due = list(range(config.steps + 1))
    if steps != due:
        return check.failed(f"held-out passes at steps {steps}, not {due}")
    means = ", ".join(f"{100 * row.reward_mean:.1f} %" for row in rows)
    return check.passed(f"{len(rows)} passes over {rows[-1].n} questions: {means}")


def check_checkpoints(config: TrainConfig, folder: RunFolder) -> Iterator[Finding]:
    """The last checkpoint loads, and holds other weights than the start."""
    last = checkpoint_path(folder.checkpoints, step=config.steps)
    paths = last, refusals.model_path(config)
    policy, start = (dict(load_policy(path).model.named_parameters()) for path in paths)
    moved = max(
        (policy[name] - start[name]).detach().abs().max().item() for name in policy
    )
    if moved == 0:
        trained = any(row.advantage_abs_mean for row in folder.read_metrics())
        finding = (
            check.failed if trained else check.warning
        )  # equal rewards move nothing
        yield finding(f"{last.name} holds the weights of the start")
    is_resumable = (
        DeepSpeedStates(ClusterPaths(config.out).trainer_state).check() == config.steps
    )
    if not is_resumable:
        yield check.failed("there is no state of DeepSpeed to resume from")
    if config.data.validation and not (folder.checkpoints / "best").exists():
        yield check.failed("no checkpoint is marked as the best")
    if moved and is_resumable:
        yield check.passed(
            f"{last.name} loads; a weight moved by up to {moved:.2g} from the start"
        )


Run = tuple[str, ...]
"""Words that follow each other, in lower case."""

_LONGEST = 8
"""Words of a run, as where a question is compared with its passage."""
_SHORTEST = 5
"""Words of a text that is too short to be cut; fewer may well stand together by chance."""
_WORD = re.compile(r"\w+")
_ESCAPED = re.compile(r'\\(?:u([0-9a-fA-F]{4})|["\\/bfnrt])')
"""Escapes of JSON, of YAML in quotes and of Python's repr."""
_PRINTED = re.compile(rb"(?:[\t\n\r\x20-\x7e]|[\xc2-\xf4][\x80-\xbf]{1,3}){20,}")
"""Text among other bytes, such as a table of Arrow's; shorter text holds no run of words."""


class HiddenTexts:
    """Texts that the policy's side must not hold, by what they are."""

    def __init__(self) -> None:
        """Begin with none."""
        self.kinds: dict[Run, str] = {}
        """The kind of text that each run of words is part of."""
        self._lengths: dict[str, set[int]] = {}

    def hide(self, texts: Iterable[str | None], *, kind: str) -> None:
        """Add texts; those of a few words are left out.

        Args:
            texts: any.
            kind: what to call them where one stands.
        """
        for words in (_words(text) for text in texts if text):
            length = min(_LONGEST, len(words))
            for start in range(len(words) - length + 1 if length >= _SHORTEST else 0):
                self.kinds.setdefault(tuple(words[start : start + length]), kind)
                self._lengths.setdefault(words[start], set()).add(length)

    def show(self, texts: Iterable[str | None]) -> None:
        """Allow what stands in texts that the policy is meant to read."""
        for text in texts:
            for run in self._runs_in(_words(text or "")):
                del self.kinds[run]

    def kinds_in(self, content: bytes) -> list[str]:
        """Name what stands in a file or an argument, in any case, escaped or among other bytes."""
        pieces = (
            piece.decode("utf-8", errors="replace")
            for piece in _PRINTED.findall(content)
        )
        texts = (_ESCAPED.sub(_unescaped, piece) for piece in pieces)
        return sorted(
            {self.kinds[run] for text in texts for run in self._runs_in(_words(text))}
        )

    def _runs_in(self, words: list[str]) -> set[Run]:
        return {
            run
            for start, word in enumerate(words)
            for length in self._lengths.get(word, ())
            if (run := tuple(words[start : start + length])) in self.kinds
        }


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else " "


def _hidden_texts(
    train: Collection[Task], heldout: Collection[Task], *, learns_answers: bool
) -> HiddenTexts:
    """Return the texts of training and held-out tasks that the policy must not read.

    Args:
        train: questions of which the policy samples answers.
        heldout: questions that it is evaluated on.
        learns_answers: whether a warm start shows it the answers to those of `train`.
    """
    tasks = (*train, *heldout)
    hidden = HiddenTexts()
    for task in tasks:
        for source, texts in hidden_texts(task):
            hidden.hide(texts, kind="a passage" if source == "passage" else "a rubric")
        hidden.hide([task.question_rationale], kind="a rationale")
        if analysis := task.document_analysis:
            texts = (analysis.contribution, *analysis.concepts)
            hidden.hide(texts, kind="a document's analysis")
    answered = heldout if learns_answers else tasks
    hidden.hide((task.reference_answer for task in answered), kind="a reference answer")
    hidden.show(task.policy_view().message for task in tasks)
    if learns_answers:
        hidden.show(task.reference_answer for task in train)
    return hidden


_JUDGES_OWN = ("judgements", "ledger", "report.html")
"""Beginnings of names in a run folder that only the judge's side reads, and people."""


def check_asymmetry(
    config: TrainConfig, folder: RunFolder, *, arguments: Collection[bytes] = ()
) -> Iterator[Finding]:
    """Search all that the policy's side may read for what it must not know.

    That is every file of the rehearsal but the task files and what only the judge reads: prompts,
    answers of the warm start, configurations, logs, rollouts and checkpoints.

    Args:
        config: of the two steps.
        folder: of the run.
        arguments: arguments and variables of the run's processes.
    """
    train = list(read_tasks(config.data.train))
    validation = config.data.validation
    heldout = [] if validation is None else list(read_tasks(validation))
    hidden = _hidden_texts(train, heldout, learns_answers=config.sft is not None)
    files = sorted(path for path in _policy_files(config, folder) if path.is_file())
    command = flags.command_words(flags.grpo_flags(config))
    arguments = [" ".join(command).encode(), *arguments]
    root = folder.path.parent
    process = "an argument or a variable of a process"
    read = ((path.relative_to(root).as_posix(), read_file(path)) for path in files)
    places = chain(read, ((process, argument) for argument in arguments))
    leaks = dict.fromkeys(
        (at, kind) for at, text in places for kind in hidden.kinds_in(text)
    )
    for at, kind in leaks:
        yield check.failed(f"{at} holds text of {kind}", remedy="report it: a defect")
    if not hidden.kinds:
        yield check.warning(
            "what is hidden from the policy is too short to be searched for"
        )
    elif not leaks:
        yield check.passed(
            f"none of {len(hidden.kinds)} runs of words of {len(train) + len(heldout)} "
            f"tasks, which are the judge's alone, stands in {len(files)} files and "
            f"{len(arguments)} arguments"
        )


def _policy_files(config: TrainConfig, folder: RunFolder) -> Iterator[Path]:
    judges = {
        path.absolute() for path in (config.data.train, config.data.validation) if path
    }
    for path in folder.path.parent.rglob("*"):
        name = (
            path.relative_to(folder.path).parts[0]
            if folder.path in path.parents
            else ""
        )
        if path.absolute() not in judges and not name.startswith(_JUDGES_OWN):
            yield path
