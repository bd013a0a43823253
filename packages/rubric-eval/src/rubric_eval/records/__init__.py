"""The records of an evaluation, as types: every part writes and reads these alone.

run       the manifest run.json: models, judges, questions, settings; a model's measured values
files     one line per answer, judgement or benchmark item: how they are read and written
digests   digests of the files at an evaluation's end, and the changes since
joining   what a folder holds, whether something may be added, and the record while it is evaluated
inputs    the place of each file in an evaluation's folder, and the inputs of a derived one
"""
