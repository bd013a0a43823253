"""What an evaluation leaves behind, as types: every part writes and reads these alone.

run       what was evaluated, on what, how: run.json; a model's values, ready to be compared
files     one line per answer, judgement or benchmark item: how they are read and written
digests   what the files were at an evaluation's end, and what has changed since
joining   what a folder holds, whether something may be added, and an evaluation under way
inputs    where each file lies in an evaluation's folder, and what a derived one was made from
"""
