"""Accuracy on benchmarks that no training saw: the paper's Table 2.

suites        the benchmarks: ours, and lm-eval's own as a second suite
building      benchmarks as lm-eval's tasks, with every prompt, and whether each can be built here;
              answers, scored by them, as rows of right and wrong
plan          what is asked of every model, the manifest that says so, and the run to the table
table         rows as values, ready to be compared, and Table 2
pass_through  lm-eval's own command line, with our tasks and a cache for each model
"""
