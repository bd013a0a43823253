"""Accuracy on benchmarks that no training saw: the paper's Table 2.

suites        the benchmarks: ours, and lm-eval's own as a second suite
building      benchmarks as lm-eval's tasks, with every prompt, and whether each can be built here
plan          what is asked of every model, the manifest that says so, and the run to the table
items         answers, scored by lm-eval, as rows of right and wrong
table         rows as values, ready to be compared, and Table 2
pass_through  lm-eval's own command line, with our tasks and a cache for each model
"""
