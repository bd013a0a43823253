"""Findings of finished evaluations: first all that is read, then all that is measured of it.

evaluations  evaluations on disk, checked as a whole: numbers first
excerpts     questions on which models differ most, with their answers, cut to fit a page
studies      the curves of a training run, and what is known of a judge's own noise
reading      all of it, with the results that other commands left
measuring    scores and tested differences, signs of judge hacking, corrected rewards
"""
