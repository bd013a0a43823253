"""Judges at work on answers, and what they gave.

scoring   judges by name; one model before one judge, each different answer asked about once
judged    rows back, answers beside what judges gave them, checked; the same as values to compare
"""
