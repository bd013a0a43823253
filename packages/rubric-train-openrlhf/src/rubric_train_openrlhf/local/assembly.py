"""Assembly of the parts of a run, from its configuration or a checkpoint."""

import contextlib
from collections.abc import Collection, Generator
from dataclasses import dataclass, replace
from functools import partial

import structlog
import torch

from rubric_core import Judge
from rubric_judge import Ledger
from rubric_judge.config import is_program
from rubric_train_openrlhf import policy as policies
from rubric_train_openrlhf.config.method import Method, SelfDistillation
from rubric_train_openrlhf.config.sections import TinyModel
from rubric_train_openrlhf.config.train import TrainConfig, dump_config
from rubric_train_openrlhf.errors import ResumeError, TrainConfigError
from rubric_train_openrlhf.local.auditing import Audits, opened_audits
from rubric_train_openrlhf.local.distilling import Distiller, teacher_prompts
from rubric_train_openrlhf.local.inputs import RunInputs
from rubric_train_openrlhf.local.lengths import most_positions, refuse_long_prompts
from rubric_train_openrlhf.local.rollout import JudgedSampler, background_judge
from rubric_train_openrlhf.local.update import Learner
from rubric_train_openrlhf.objective import adamw, warmup
from rubric_train_openrlhf.policy.holding import (
    follows_length,
    hold_in_evaluation,
    hold_rope,
    recompute_layers,
)
from rubric_train_openrlhf.policy.load import DTYPES
from rubric_train_openrlhf.randomness import derived_seed
from rubric_train_openrlhf.resuming import begin, check_prompting, check_tasks
from rubric_train_openrlhf.run import checkpoints
from rubric_train_openrlhf.run.folder import RunFolder
from rubric_train_openrlhf.run.live_summary import Watch
from rubric_train_openrlhf.run.writing import EventWriter, write_text
from rubric_train_openrlhf.step.credit import Crediting

_log = structlog.get_logger()


def _start_policy(
    config: TrainConfig, *, inputs: RunInputs, device: torch.device, watch: Watch
) -> policies.Policy:
    """Make the policy that step 1 starts from, in float32; the reference model is a copy of it."""
    saved_dtype = DTYPES.get(config.checkpoint.dtype)
    match config.model:
        case TinyModel() as model:
            policy = _tiny_policy(model, seed=config.seed, inputs=inputs, watch=watch)
            torch.nn.Module.to(policy.model, device)
        case saved:
            with watch.progress.phase("loading the policy"):
                policy = policies.load_policy(
                    saved.folder(),
                    device=device,
                    prompt=saved.chat_prompt,
                    thoughts=saved.told_thoughts,
                )
            _hold_rope(
                policy,
                inputs=inputs,
                new_tokens=config.rollout.max_new_tokens,
                method=config.method,
            )
    refuse_long_prompts(
        policy.codec,
        most_positions(policy.model.config),
        tasks={"data.train": inputs.tasks, "data.validation": inputs.heldout},
        config=config,
    )
    if config.sft is not None:
        examples = inputs.tasks.reference_answers()
        seed = derived_seed(config.seed, step=0, purpose="sft")
        with watch.progress.phase(
            "warm start", total=config.sft.steps, unit="steps"
        ) as phase:
            on_step = partial(watch.supervised, "sft", phase=phase)
            report = policies.sft(
                policy, examples, config.sft, seed=seed, on_step=on_step
            )
        _log.info("train.sft.finished", **report._asdict())
    return policy if saved_dtype is None else replace(policy, saved_dtype=saved_dtype)


def _hold_rope(
    policy: policies.Policy, *, inputs: RunInputs, new_tokens: int, method: Method
) -> None:
    """Fix the rotary embedding to the run's longest row, including held-out questions.

    Checkpoints keep that length.
    """
    if not follows_length(policy.model):
        return
    views = list(inputs.tasks.views)
    if inputs.heldout is not None:
        views += inputs.heldout.views
    prompts = [policy.codec.encode_prompt(view) for view in views]
    if isinstance(method, SelfDistillation):
        prompts += teacher_prompts(policy.codec, inputs.tasks.values(), method)
    longest = max(len(prompt.token_ids) for prompt in prompts) + new_tokens
    hold_rope(policy.model, longest=longest)
    _log.info("train.rotary.held", longest=longest)


def _tiny_policy(
    model: TinyModel, *, seed: int, inputs: RunInputs, watch: Watch
) -> policies.Policy:
    texts = inputs.documents
    with watch.progress.phase("building the tokenizer"):
        answers = inputs.tasks.reference_answers()
        pairs = [f"{example.question}\n{example.answer}" for example in answers]
        policy = policies.build_tiny_policy(
            [*texts, *pairs], model.architecture, seed=seed
        )
    steps = model.pretrain.steps
    seed = derived_seed(seed, step=0, purpose="pretrain")
    with watch.progress.phase("pre-training", total=steps, unit="steps") as phase:
        on_step = partial(watch.supervised, "pretrain", phase=phase)
        loss = policies.pretrain(
            policy, texts, model.pretrain, seed=seed, progress=on_step
        )
    _log.info("train.pretrain.finished", loss=loss, steps=steps)
    return policy


@dataclass(frozen=True)
class LocalRun:
    """The parts of a run."""

    config: TrainConfig
    inputs: RunInputs
    folder: RunFolder
    events: EventWriter
    learner: Learner
    sampler: JudgedSampler
    start: checkpoints.TrainerState
    """State that the loop starts from."""
    watch: Watch
    audits: Audits | None = None
    """The audit judge at work; None without one."""

    @property
    def crediting(self) -> Crediting:
        """Rules that turn its judgements into credit."""
        return Crediting(self.config, self.inputs.admission, self.inputs.pooling)


@contextlib.contextmanager
def assembled(
    config: TrainConfig,
    inputs: RunInputs,
    *,
    judge: Judge | None = None,
    audit_judge: Judge | None = None,
    watch: Watch,
) -> Generator[LocalRun]:
    """Open the run folder, load the models and keep a judge running.

    Errors in the input are found before anything but summary.json is written. No other process may
    use the folder.

    Raises:
        RubricError: the model or run folder cannot be used; each has its own type.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    folder = RunFolder(config.out)
    with contextlib.ExitStack() as held:
        policy, start = _policy(config, inputs, folder=folder, watch=watch)
        with watch.progress.phase("loading the reference model"):
            learner = _learner(policy, start=start, config=config, folder=folder)
        ledger = None
        if judge is None and not is_program(config.judge.spec):
            # An interrupted step samples the same responses again, which are judged already.
            ledger = held.enter_context(Ledger(folder.ledger))
        background = held.enter_context(
            background_judge(*inputs.judges, config=config.judge, ledger=ledger)
        )
        audits = held.enter_context(
            opened_audits(
                config, inputs, folder, keeps=audit_judge is None, ledger=ledger
            )
        )
        events = held.enter_context(
            EventWriter(folder.tensorboard, first_step=start.step + 1)
        )
        sampler = JudgedSampler(
            policy, background, config.precision == "bfloat16", watch.progress
        )
        watch.summary_file.start_clock()
        yield LocalRun(
            config,
            inputs,
            folder,
            events,
            learner,
            sampler,
            start=start,
            watch=watch,
            audits=audits,
        )


def _policy(
    config: TrainConfig, inputs: RunInputs, *, folder: RunFolder, watch: Watch
) -> tuple[policies.Policy, checkpoints.TrainerState]:
    """Make the policy of a new run, or load that of a resumed run; open the folder."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise TrainConfigError(
            "device='cuda', but torch sees no GPU; use device='auto' or 'cpu'",
            location="device",
        )
    device_name: str = config.device
    if device_name == "auto":
        device_name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(device_name)
    tasks_sha256 = {"train": inputs.tasks.sha256}
    if inputs.heldout is not None:
        tasks_sha256["validation"] = inputs.heldout.sha256
    checkpoint = inputs.checkpoint
    if checkpoint is not None:
        with watch.progress.phase("loading the checkpoint"):
            check_tasks(folder, config=config, tasks_sha256=tasks_sha256)
            start = checkpoints.load_state(checkpoint)
            if start.step != checkpoints.step_of(checkpoint):
                raise ResumeError(
                    f"{str(checkpoint)!r} holds the trainer state of step {start.step}; give "
                    "the folder its own name back, or start again in another `out`",
                    path=checkpoint,
                )
            if reads_start(config) and start.step:
                # The first checkpoint, which is read again, must be there too.
                checkpoints.load_state(
                    checkpoints.checkpoint_path(folder.checkpoints, step=0)
                )
            prompt = config.model.chat_prompt
            policy = policies.load_policy(
                checkpoint,
                device=device,
                prompt=prompt,
                thoughts=config.model.told_thoughts,
            )
            check_prompting(folder, prompting=policy.codec.record)
            if start.weights:
                policy.model.load_state_dict(start.weights)
            # The pass of step 0 comes after its checkpoint; all others come before theirs.
            passes: Collection[int] = ()
            if config.data.validation is not None and start.step > 0:
                passes = range(0, start.step + 1, config.validation.every)
            folder.cut_back(start.step, heldout=passes)
            inputs.admission.keep(folder)
            write_text(folder.config, dump_config(config))
            watch.summary_file.begin(wall_s=start.wall_s)
        return policy, start
    policy = _start_policy(config, inputs=inputs, device=device, watch=watch)
    policy.round_to_saved()  # the reference model is read back from the first checkpoint
    start = checkpoints.TrainerState(
        step=0, prompts_drawn=0, wall_s=0.0, optimizer={}, schedule={}
    )
    with watch.progress.phase("writing the first checkpoint"):
        prompting = policy.codec.record
        begin(folder, config=config, tasks_sha256=tasks_sha256, prompting=prompting)
        inputs.admission.keep(folder)
        watch.summary_file.begin(wall_s=start.wall_s)
        checkpoints.save_checkpoint(folder.checkpoints, policy, start)
    return policy, start


def _learner(
    policy: policies.Policy,
    *,
    start: checkpoints.TrainerState,
    config: TrainConfig,
    folder: RunFolder,
) -> Learner:
    model = hold_in_evaluation(policy.model)
    if config.optim.gradient_checkpointing:
        recompute_layers(model)
    optimizer = adamw(model.parameters(), config=config.optim)
    schedule = warmup(optimizer, config=config.optim)
    if start.step:
        try:
            optimizer.load_state_dict(start.optimizer)
            schedule.load_state_dict(start.schedule)
        except (
            AttributeError,
            LookupError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as exc:
            raise ResumeError(
                f"the trainer state of step {start.step} in {str(folder.checkpoints)!r} does "
                "not fit its model; start again in another `out`",
                path=folder.path,
            ) from exc
    start_model = None
    if reads_start(config):
        dtype = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
        path = checkpoints.checkpoint_path(folder.checkpoints, step=0)
        loaded = policies.load_policy(path, device=policy.device, dtype=dtype).model
        start_model = loaded.requires_grad_(requires_grad=False)
    method = config.method
    if isinstance(method, SelfDistillation):
        teacher = model if start_model is None else hold_in_evaluation(start_model)
        return Distiller(model, None, optimizer, schedule, config, teacher, method)
    return Learner(model, start_model, optimizer, schedule, config)


def reads_start(config: TrainConfig) -> bool:
    """Return whether updates read the weights of the start: as the reference, or as the teacher."""
    if isinstance(config.method, SelfDistillation):
        return config.method.teacher == "start"
    return config.objective.kl_coef > 0  # a divergence without weight needs none
