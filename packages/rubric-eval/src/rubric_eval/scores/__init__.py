"""The judging of answers, and the scores.

scoring   judges by name; one model before one judge, each different answer judged once
judged    answers beside their scores, read back and checked; the same as values to compare
"""
