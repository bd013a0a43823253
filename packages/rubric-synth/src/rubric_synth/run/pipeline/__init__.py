"""Turns collected documents into a dataset, over any number of runs.

collection   yields the documents, and one digest of everything that can affect their outcome
recording    keeps what an engine reports, counts costs, and says when and why to stop
run          one run from beginning to end
"""
