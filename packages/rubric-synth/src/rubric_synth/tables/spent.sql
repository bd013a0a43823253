-- What the calls of each stage took; of those that came without a price, `late`, their tokens.
SELECT stage, sum(answered), sum(attempts), sum(fallback),
    sum(coalesce(prompt_tokens, 0)), sum(coalesce(completion_tokens, 0)),
    total(cost_usd), sum(cost_usd IS NULL), sum(late),
    sum(CASE WHEN late THEN prompt_tokens ELSE 0 END),
    sum(CASE WHEN late THEN completion_tokens ELSE 0 END),
    sum(CASE WHEN late THEN min(coalesce(cached_tokens, 0), prompt_tokens) ELSE 0 END)
FROM (SELECT *, cost_usd IS NULL AND prompt_tokens IS NOT NULL AS late FROM calls)
GROUP BY stage ORDER BY stage
