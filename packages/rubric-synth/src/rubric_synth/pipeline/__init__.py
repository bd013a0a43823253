"""Collected documents to a dataset, over any number of runs.

settings     all that shapes an outcome, as one digest
collection   the collected documents, told apart without being read
recorder     keeps what an engine reports, counts costs, and says when to stop
ending       why a run stops, and how soon; whether a dataset is there already
run          one run from beginning to end
"""
