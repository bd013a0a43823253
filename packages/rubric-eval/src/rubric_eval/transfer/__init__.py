"""Accuracy on benchmarks that no training saw: the paper's Table 2.

suites        the benchmarks: ours, and lm-eval's own as another suite
building      benchmarks as lm-eval's tasks with every prompt, and answers scored by them;
              a check whether each benchmark can be built here
plan          plan of an evaluation, its manifest, and the run up to the table
table         values of every model and benchmark, ready to be compared, and Table 2
pass_through  lm-eval's own command line, with our tasks and a cache for each model
"""
