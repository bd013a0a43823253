"""What a dataset looks like: numbers, a page to look at, and examples to read.

report     what is measured, as `stats.json` holds it, and how numbers are gathered
controls   answers that should not score well, and what they earn
examples   tasks and refused drafts to read, chosen by a hash
page       what is drawn, and the parts put into the template
tally      what is counted of each task; a dataset folder read once into all of it
"""
