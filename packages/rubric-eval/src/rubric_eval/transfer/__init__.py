"""Accuracy on benchmarks that no training saw: the paper's Table 2.

suites        the benchmarks: ours, and lm-eval's own as a second suite
stock         lm-eval's tasks over the same items
building      benchmarks as lm-eval's tasks, with every prompt
recorded      answers that are there, scored by lm-eval
validation    whether every task can be built here
pass_through  lm-eval's own command line, with our tasks and a cache for each model
"""

from __future__ import annotations
