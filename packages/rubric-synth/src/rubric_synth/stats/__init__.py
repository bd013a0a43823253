"""Statistics of a dataset: numbers, a page to look at, and examples to read.

report     the statistics, as `stats.json` holds them, and how numbers are gathered
controls   answers that should not score well, and what they earn
examples   tasks and refused drafts to read, chosen by a hash
page       charts and tables of the page, and the parts put into the template
tally      counts over tasks; a dataset folder read once into all of it
"""
