"""Calls and outcomes of a run, kept so that the next run goes on with them.

segments   append-only files of checked lines
index      places of the lines of each document
folder     both together, for one run at a time: calls and outcomes
"""
