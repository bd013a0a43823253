"""What a dataset looks like: numbers, a page to look at, and examples to read.

report     what is measured, as `stats.json` holds it
numbers    numbers and names gathered one at a time
terms      which terms of a rubric occur in a text
sample     a few of many, chosen by a hash
tally      what is counted of each task
examples   tasks and refused drafts for the page
charts     what is drawn
drawing    how it is drawn
page       the parts put into the template
measure    a dataset folder read once into all of it
reading    a few tasks or refused drafts of a folder, for the terminal
"""

from __future__ import annotations

from rubric_judge.page.visible import visible
from rubric_synth.stats.charts import counted, judged_by_words, unreadable_rejections
from rubric_synth.stats.examples import Example
from rubric_synth.stats.measure import CONTROL_TASKS, PAGE_FILE, STATS_FILE, dataset_statistics
from rubric_synth.stats.reading import chosen_rejections, chosen_tasks
from rubric_synth.stats.report import Coverage, DatasetStatistics, Histogram, Spread

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
