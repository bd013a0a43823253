"""Judgements on one private page: question, answer, criteria, reasons, and what people say."""
