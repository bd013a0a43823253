"""OpenRLHF: agents of several turns, judged as traces, and credit by turn in its trainer.

`MultiTurnAgentExecutor` sums the rewards of an agent's steps, and the trainer knows one reward of
each trajectory, whose advantage all of its tokens get. What criteria earned that name a turn
travels beside it as metrics, and `register` puts their credit where it belongs.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from functools import partial
from typing import Any, NamedTuple, NoReturn, Unpack, cast

import numpy as np

from rubric_core import (
    Answer,
    ConfigError,
    RewardShapeError,
    RubricError,
    SchemaError,
    Thoughts,
    answer_of_tokens,
    opens_thought,
)
from rubric_core.arrays import FloatArray, differ
from rubric_core.reward.turns import (
    ends_of_turns,
    named_turns,
    token_advantages,
    turn_advantages,
)
from rubric_core.schema.trace import Trace, TraceStep
from rubric_core.traces.chat import chat_trace
from rubric_core.traces.messages import messages_in
from rubric_judge import events
from rubric_judge.adapters import advantages, rows, scoring

__all__ = ["agent_executor", "credit_turns", "register"]

_STACK = advantages.Stack("OpenRLHF", "0.11")
_TURN = "rubric/turn_"
_TIED = 1e-9
"""The number that OpenRLHF adds to a deviation, under `group_norm`."""
_FEWEST = 2
_ESTIMATORS = ("rloo", "dr_grpo", "group_norm")
_REMEDY = (
    "let the file of --train.agent_func_path make its AgentExecutor by "
    "rubric_judge.adapters.openrlhf_turns.agent_executor, with the `tasks` that labels name"
)


class _Rollout(NamedTuple):
    """One trajectory as OpenRLHF's executor returns it."""

    prompt: str
    label: object
    tokens: list[int]
    turns: list[tuple[int, int]]
    """Where each turn of the policy begins and ends in `tokens`."""
    steps: list[Mapping[str, Any]]
    """The results of the agent, one for each turn."""


def agent_executor(
    agent: Callable[[], Any],
    *,
    max_turn_tokens: int | None = None,
    **options: Unpack[scoring.MaskingOptions],
) -> type[Any]:
    """Return the `AgentExecutor` for the file that `--train.agent_func_path` names.

    It runs OpenRLHF's `MultiTurnAgentExecutor` with the agent, reads the turns off the tokens that
    were sampled, has the trace judged once it has ended, and adds the reward to those of the
    agent's steps, which may all be 0. What stands between two turns is the user's, unless a step
    returns `messages` too: OpenAI's chat messages of the step, first the assistant's with its
    `tool_calls`, then the results. The label is the task's id, or a row as JSON.

    Args:
        agent: a class on `openrlhf.utils.agent.AgentInstanceBase`.
        max_turn_tokens: longest turn, in tokens; None leaves a turn all that is left of
            `--data.max_len`, as OpenRLHF does.
        options: `judge`, `tasks`, `workers`, `ledger`, `thoughts`; and `on_unavailable`: "zero",
            the default, or "raise".

    Raises:
        MissingExtraError: OpenRLHF is not installed.
        ConfigError, JudgeSetupError, LedgerError: nothing could be judged like this.
    """
    _check_tokens(max_turn_tokens)
    base = scoring.stack_module("openrlhf.utils.agent", install=_STACK.install)
    scorer = scoring.RubricScorer(**options, maskable=False)
    most = _most_turns(scorer)

    class AgentExecutor(base.MultiTurnAgentExecutor):
        """OpenRLHF's executor of several turns, whose trajectories a rubric rewards."""

        def __init__(self) -> None:
            base.MultiTurnAgentExecutor.__init__(self, agent)

        async def execute(  # noqa: PLR0913, PLR0917  # OpenRLHF's
            self,
            prompt: str,
            label: object,
            sampling_params: Any,
            max_length: int,
            hf_tokenizer: Any,
            llm_engine: Any,
            images: object = None,
        ) -> dict[str, Any]:
            """Sample a trajectory, and have it judged."""
            steps: list[Mapping[str, Any]] = []
            noting: Any = copy(self)
            noting.agent_instance_cls = partial(_noting, agent, steps)
            output: dict[str, Any] = await base.MultiTurnAgentExecutor.execute(
                noting,
                prompt,
                label,
                deepcopy(sampling_params),
                max_length,
                hf_tokenizer,
                _Limited(llm_engine, max_turn_tokens),
                images,
            )
            rollout = _Rollout(
                prompt,
                label,
                output["observation_tokens"],
                output["action_ranges"],
                steps,
            )
            judgement = await _judged(rollout, scorer, hf_tokenizer, most=most)
            reward = judgement.reward or 0.0
            logs = {**judgement.metrics, **_earned(judgement, most)}
            return output | {
                "reward": output["reward"] + reward,
                "scores": reward,
                "extra_logs": output["extra_logs"] | logs,
            }

    AgentExecutor.__module__ = __name__
    AgentExecutor.__qualname__ = "AgentExecutor"
    return AgentExecutor


def _check_tokens(max_turn_tokens: int | None) -> None:
    if max_turn_tokens is not None and max_turn_tokens < 1:
        raise ConfigError(
            f"max_turn_tokens must be 1 or more, not {max_turn_tokens}; None sets no limit",
            location="max_turn_tokens",
        )


def _most_turns(scorer: scoring.RubricScorer) -> int:
    """Return the last turn that a criterion of the tasks names; 0 where none names one."""
    turns = (named_turns(task.rubric) for task in scorer.known_tasks)
    return max((turn for of_task in turns for turn in of_task), default=0)


def _noting(agent: Callable[[], Any], steps: list[Mapping[str, Any]]) -> Any:
    """Return an instance of the agent, and note what its steps return."""
    instance = agent()
    step = instance.step

    async def noted(*args: Any, **options: Any) -> Any:
        result = await step(*args, **options)
        steps.append(result)
        return result

    instance.step = noted
    return instance


class _Limited:
    """The engine, which samples no more tokens at once than a turn may have."""

    def __init__(self, engine: Any, most: int | None) -> None:
        self._engine = engine
        self._most = most

    async def generate(self, tokens: Any, params: Any, **options: Any) -> Any:
        if self._most is not None:
            params.max_tokens = min(params.max_tokens, self._most)
        return await self._engine.generate(tokens, params, **options)


async def _judged(
    rollout: _Rollout, scorer: scoring.RubricScorer, tokenizer: Any, *, most: int
) -> scoring.Judgement:
    """Have a trajectory judged; a faulty one is logged, for OpenRLHF shows it in a long trace."""
    try:
        if most:
            _refuse_merged(rollout.turns)
        trace = _trace(rollout, tokenizer, scorer.thoughts)
        submission = scoring.Submission(
            rows.label_row(rollout.label),
            trace.answer,
            rollout.prompt,
            trace=lambda: trace,
        )
        (judgement,) = await scorer.judge([submission])
    except RubricError as error:
        events.reward_failed(
            stack="openrlhf", error=type(error).__name__, detail=str(error)
        )
        raise
    return judgement


def _refuse_merged(turns: Sequence[tuple[int, int]]) -> None:
    """Refuse turns that the trainer, which sees which tokens were sampled, cannot tell apart.

    Raises:
        SchemaError: nothing stands between two turns, or there is nothing in one.
    """
    end = -1
    for number, (start, stop) in enumerate(turns, 1):
        if start in (end, stop):
            what = "is empty" if start == stop else "follows the one before it directly"
            raise SchemaError(
                f"turn {number} of {len(turns)} {what}: criteria name turns, and the trainer tells "
                "them by the tokens between them; let the agent's `environment_feedback` hold what "
                "the chat template writes before the next turn",
                field="environment_feedback",
            )
        end = stop


def _trace(rollout: _Rollout, tokenizer: Any, thoughts: Thoughts) -> Trace:
    """Return the trace of a trajectory; what the policy wrote is read off its tokens."""

    def decode(ids: Sequence[int], *, skip_special: bool) -> str:
        return tokenizer.decode(list(ids), skip_special_tokens=skip_special)

    steps: list[TraceStep] = []
    tokens = rollout.tokens
    starts = [start for start, _ in rollout.turns]
    followings = [*starts[1:], len(tokens)]
    for number, (start, stop) in enumerate(rollout.turns):
        opened = opens_thought(decode(tokens[:start], skip_special=False), thoughts)
        answer = answer_of_tokens(tokens[start:stop], decode, thoughts, opened=opened)
        text = answer.text.encode(errors="replace").decode()
        messages = rollout.steps[number].get("messages")
        if messages is not None:
            own = answer._replace(text=text)
            steps += _steps_of(messages, own, turn=number + 1, thoughts=thoughts)
            continue
        steps.append(
            TraceStep(role="assistant", text=text, thought=answer.thought, sampled=True)
        )
        between = decode(tokens[stop : followings[number]], skip_special=True).strip()
        if between:
            steps.append(TraceStep(role="user", text=between))
    return Trace(steps=tuple(steps), cut=True)


def _steps_of(
    messages: object, own: Answer, *, turn: int, thoughts: Thoughts
) -> tuple[TraceStep, ...]:
    """Return the steps of a turn that the agent tells of.

    Args:
        messages: the policy's message and what came back.
        own: the answer of the turn, by its tokens: the content of a message that has none.
        turn: the number of the turn.
        thoughts: as for `answer_of`.

    Raises:
        SchemaError: other messages than these.
    """
    first, *others = chat_trace(messages, thoughts=thoughts, cut=True).steps
    if not first.sampled or any(step.sampled for step in others):
        raise SchemaError(
            f"the `messages` of step {turn} have the roles "
            f"{', '.join(step.role for step in (first, *others))}: give one message of the "
            "assistant, and then what tools and users answered",
            field="messages",
        )
    if "content" not in messages_in(messages, role="messages")[0]:
        first = first.model_copy(update={"text": own.text, "thought": own.thought})
    return first, *others


def _earned(judgement: scoring.Judgement, most: int) -> dict[str, float]:
    """Return what the criteria of each turn earned; the same keys for every task."""
    rubric = judgement.view.rubric
    earned = {f"{_TURN}{turn}": 0.0 for turn in range(1, most + 1)}
    for criterion, turn in zip(rubric, named_turns(rubric), strict=True):
        if 0 < turn <= most:
            score = judgement.result.scores.get(criterion.id, 0.0)
            earned[f"{_TURN}{turn}"] += score / rubric.total_weight
    return earned


def credit_turns(
    experiences: Sequence[Any], *, group_size: int, estimator: str
) -> None:
    """Change the advantages of OpenRLHF's experiences to those of the turns.

        A_t ← A_t − Σ_j A_j [1 ≤ t_j ≤ K, t_j ≠ k]        for the tokens t of turn k

    as in `rubric_core.reward.turns.turn_advantages`, with the part A_j of a criterion on the scale
    of the estimator. Penalties and a divergence that are in A_t already stay in it.

    Args:
        experiences: as `compute_advantages_and_returns` returns them, of all responses of a step.
        group_size: `--rollout.n_samples_per_prompt`.
        estimator: `--algo.advantage.estimator`: "rloo", "dr_grpo" or "group_norm".

    Raises:
        ConfigError: another estimator, or metrics that say nothing of turns.
        RewardShapeError: groups of one, or not all responses of a step.
    """
    _check_estimator(estimator)
    names = _turn_keys(experiences)
    places = {
        place: (experience, row)
        for experience in experiences
        for row, place in enumerate(experience.index)
    }
    is_whole = sorted(places) == list(range(len(places)))
    if group_size < _FEWEST or not is_whole or len(places) % group_size:
        raise RewardShapeError(
            f"{len(places)} responses in groups of {group_size}: credit by turn needs whole groups "
            "of two or more"
        )
    masks = [
        places[place][0].action_mask[places[place][1]].tolist()
        for place in range(len(places))
    ]
    shape = (-1, group_size)
    counts_PG = np.array([len(ends_of_turns(mask)) for mask in masks]).reshape(shape)
    earned_PGK = np.array(
        [_values(places[place], names) for place in range(len(places))]
    ).reshape(*shape, len(names))
    rewards_PG = np.array(
        [_values(places[place], None) for place in range(len(places))]
    ).reshape(shape)
    parts_PGK = _parts(earned_PGK, rewards_PG, estimator)
    turns_PK = np.tile(np.arange(1, len(names) + 1), (len(rewards_PG), 1))
    zero_PG = np.zeros_like(rewards_PG)
    credit_NK = turn_advantages(zero_PG, parts_PGK, turns_PK, counts_PG).reshape(
        len(places), -1
    )
    for place, mask in enumerate(masks):
        experience, row = places[place]
        change_T = token_advantages(credit_NK[place], _turn_of_tokens(mask))
        experience.advantages[row] += experience.advantages.new_tensor(change_T)


def _check_estimator(estimator: str) -> None:
    if estimator not in _ESTIMATORS:
        raise ConfigError(
            f"--algo.advantage.estimator {estimator}: its advantages are not those of a group; "
            f"credit by turn takes {', '.join(_ESTIMATORS)}",
            location="algo.advantage.estimator",
        )


def _turn_keys(experiences: Sequence[Any]) -> list[str]:
    """Return the metrics of the turns that criteria name, in order."""
    if not experiences:
        raise ConfigError(f"a step without responses: {_REMEDY}", location="tasks")
    count = sum(1 for name in experiences[0].info if name.startswith(_TURN))
    names = [f"{_TURN}{turn}" for turn in range(1, count + 1)]
    is_told = all(name in part.info for part in experiences for name in names)
    if not count or not is_told:
        raise ConfigError(
            f"no {_TURN}1 among the metrics of the responses: no criterion of the tasks names a "
            f"turn, or nobody told of it; {_REMEDY}",
            location="tasks",
        )
    return names


def _values(place: tuple[Any, int], names: Sequence[str] | None) -> Any:
    experience, row = place
    if names is None:
        return float(experience.rewards[row])
    return [float(experience.info[name][row]) for name in names]


def _parts(
    earned_PGK: FloatArray, rewards_PG: FloatArray, estimator: str
) -> FloatArray:
    """Return the turns' parts of the advantages, as the estimator makes those of rewards."""
    group_size = rewards_PG.shape[1]
    scale_P1 = np.ones((len(rewards_PG), 1))
    if estimator == "rloo":
        scale_P1 *= group_size / (group_size - 1)
    elif estimator == "group_norm":
        scale_P1 /= rewards_PG.std(axis=1, ddof=1, keepdims=True) + _TIED
    # Equal rewards have no advantage to divide, even where turns differ and cancel.
    informative_P1 = differ(rewards_PG, np.ones(rewards_PG.shape, bool))[:, None]
    scale_P1 = np.where(informative_P1, scale_P1, 0.0)
    centred_PGK = earned_PGK - earned_PGK.mean(axis=1, keepdims=True)
    return centred_PGK * scale_P1[:, :, None]


def _turn_of_tokens(mask: Sequence[int]) -> list[int]:
    """Return the turn of each token, −1 for one that the policy did not write."""
    turn = 0
    turns: list[int] = []
    before = 0
    for own in mask:
        turn += bool(own) and not before
        turns.append(turn if own else -1)
        before = own
    return turns


def register() -> None:
    """Have `openrlhf.cli.train_ppo_ray` of this process train with credit by turn.

    To be called before the command is run in the process (`runpy.run_module`): OpenRLHF takes the
    trainer from its module when it starts, and has no flag for another one.

    Raises:
        MissingExtraError: OpenRLHF is not installed.
        ConfigError: its version is another than the one that this was written for.
    """
    module = _STACK.module("openrlhf.trainer.ppo_trainer")
    beside = _STACK.module("openrlhf.trainer.ppo_trainer_async")
    ray = _STACK.module("ray")
    if getattr(module.PPOTrainer, "credits_turns", False):
        return
    metadata = getattr(module.PPOTrainer, "__ray_metadata__", None)
    if metadata is None:
        raise ConfigError(
            f"openrlhf.trainer.ppo_trainer.PPOTrainer is no actor of Ray's: it is not that of "
            f"OpenRLHF {_STACK.series}, which credit by turn was written for: pip install "
            f"{_STACK.install}",
            location="openrlhf",
        )
    trainer = ray.remote(_crediting(metadata.modified_class))
    trainer.credits_turns = True
    module.PPOTrainer = trainer
    beside.PPOTrainerAsync = _Refused


def _crediting(base: Any) -> type[Any]:
    """Return the trainer whose advantages are those of turns."""

    class PPOTrainer(base):
        """OpenRLHF's trainer, with credit by turn."""

        def __init__(self, *args: Any, **options: Any) -> None:
            base.__init__(self, *args, **options)
            maker: Any = self.experience_maker
            compute = maker.compute_advantages_and_returns
            group_size = maker.args.rollout.n_samples_per_prompt
            estimator = maker.args.algo.advantage.estimator
            _check_estimator(estimator)

            def compute_by_turn(experiences: list[Any]) -> list[Any]:
                credited = cast("list[Any]", compute(experiences))
                credit_turns(credited, group_size=group_size, estimator=estimator)
                return credited

            maker.compute_advantages_and_returns = compute_by_turn

    return PPOTrainer


class _Refused:
    """The trainer of `--train.async_enable`, which takes its classes from its own module."""

    @staticmethod
    def remote(*_args: object, **_options: object) -> NoReturn:
        raise ConfigError(
            "--train.async_enable has another trainer, which credit by turn does not reach: leave "
            "the flag out, or train without rubric_judge.adapters.openrlhf_turns.register()",
            location="train.async_enable",
        )
