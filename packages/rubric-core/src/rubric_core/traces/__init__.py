"""Traces of policies that act in several turns and call tools: read, cut for judges, credited.

    from rubric_core.traces import chat_trace, trace_views

    trace = chat_trace(completion, prompt=messages)
    views = trace_views(task.whole_view(trace.answer), trace)

The trajectories are those that other stacks record: `docs/judge/traces.md`.
"""

from rubric_core.lazy import attach

__getattr__, __all__ = attach(__name__, __file__)
