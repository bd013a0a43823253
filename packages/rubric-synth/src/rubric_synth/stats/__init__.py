"""What a dataset looks like: numbers, a page to look at, and examples to read.

report     what is measured, as `stats.json` holds it, and how numbers are gathered
tally      what is counted of each task
examples   tasks and refused drafts to read, chosen by a hash
charts     what is drawn
page       the parts put into the template
measure    a dataset folder read once into all of it
"""

from __future__ import annotations

from rubric_judge.page.rendering import visible
from rubric_synth.stats.charts import counted, judged_by_words, unreadable_rejections
from rubric_synth.stats.examples import Example, chosen_rejections, chosen_tasks
from rubric_synth.stats.report import Coverage, DatasetStatistics, Histogram, Spread
from rubric_synth.stats.tally import CONTROL_TASKS, PAGE_FILE, STATS_FILE, dataset_statistics

__all__ = [
    "CONTROL_TASKS",
    "PAGE_FILE",
    "STATS_FILE",
    "Coverage",
    "DatasetStatistics",
    "Example",
    "Histogram",
    "Spread",
    "chosen_rejections",
    "chosen_tasks",
    "counted",
    "dataset_statistics",
    "judged_by_words",
    "unreadable_rejections",
    "visible",
]
