"""The claim judge, which compares an answer with each claim by words, values and directions."""

from __future__ import annotations

import hashlib
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import anyio

from rubric_core import JudgeResult, JudgeView, Outcome
from rubric_judge.config import ClaimConfig, LexicalConfig
from rubric_judge.judges.capabilities import no_judgement, refuse_tool_use
from rubric_judge.judges.claims import lexicon
from rubric_judge.judges.claims.claim import Claims, read_claims
from rubric_judge.judges.claims.finding import (
    Answer,
    Finding,
    contradicted,
    is_about,
    stated,
)
from rubric_judge.judges.claims.hedges import hedged
from rubric_judge.judges.claims.passage import Statements
from rubric_judge.judges.claims.reading import clauses, sentences
from rubric_judge.judges.claims.retraction import kept_text
from rubric_judge.judges.claims.soundness import flaws_of, framed
from rubric_judge.judges.lexical.judge import LexicalJudge

if TYPE_CHECKING:
    from rubric_judge.judges.claims.meaning import Meaning
    from rubric_judge.judges.claims.verifier import Verifier

_FALSE_COST = 2.5
"""Factor by which the share of false clauses lowers the reward."""
_NOTHING = "–"
"""An answer that states nothing, in place of one that takes back all of itself."""
_KEPT = 128
"""Number of rubrics and of passages that are kept parsed."""


class ClaimJudge:
    """Judge that scores an answer by each claim of a rubric.

        z_j = credit_j (1 − 2.5 · share of clauses against the source), at least 0

    A criterion whose description is "Says that …" states a claim. The lexical judge scores any
    other criterion, and one whose verification method is executed. The judge reads English. It
    needs no model; its configuration can name one of sentence embeddings and one of entailment.
    """

    name = "claims_v2"
    reads_claims = True

    def __init__(self, config: ClaimConfig | None = None) -> None:
        """Check the folders of the models that are named; their weights are read when used.

        Args:
            config: settings; those of a judge without models when left out.

        Raises:
            JudgeSetupError: a folder cannot be read, or holds a model for something else.
        """
        config = config or ClaimConfig()
        self._reads_retractions = config.retractions
        self._meaning: Meaning | None = None
        self._verifier: Verifier | None = None
        if config.embedding:
            from rubric_judge.judges.claims.meaning import Meaning

            self._meaning = Meaning(config.embedding)
        if config.entailment:
            from rubric_judge.judges.claims.verifier import Verifier

            self._verifier = Verifier(config.entailment)
        self._lexical = LexicalJudge(
            LexicalConfig(regex_timeout_s=config.regex_timeout_s)
        )
        self._read_claims = lru_cache(maxsize=_KEPT)(read_claims)
        self._statements = lru_cache(maxsize=_KEPT)(Statements)

    @property
    def fingerprint(self) -> str:
        """The name, and a hash of the tables of words, the lexical judge and the models."""
        models = [
            model.fingerprint if model else ""
            for model in (self._meaning, self._verifier)
        ]
        parts = [lexicon.fingerprint(), self._lexical.fingerprint, *models]
        if self._reads_retractions:
            parts.append("retractions")
        digest = hashlib.sha256("\0".join(parts).encode())
        return f"{self.name} {digest.hexdigest()[:16]}"

    async def check(self) -> None:
        """Read the weights of the models.

        Raises:
            JudgeSetupError: they cannot be read.
        """
        for model in (self._meaning, self._verifier):
            if model is not None:
                await anyio.to_thread.run_sync(model.load)

    def refuse_excerpt(self, view: JudgeView) -> str:
        """Return why a part of a trace cannot be judged: the use of tools is no text."""
        return refuse_tool_use(self, view)

    async def judge(self, view: JudgeView) -> JudgeResult:
        """Score one response; with a model, in a thread of its own.

        Args:
            view: question, response, rubric, and the passage for what it says.

        Returns:
            A scored result; or `unavailable` with reason `judge_error` when a verification method
            of the rubric cannot be executed, or no process can be started.
        """
        view = self._kept(view)
        words = await self._lexical.judge(view) if self._has_words(view) else None
        if self._meaning is None and self._verifier is None:
            return self._scored(view, words)
        return await anyio.to_thread.run_sync(partial(self._scored, view, words))

    def judge_now(self, view: JudgeView) -> JudgeResult:
        """Score one response without an event loop, to the same result."""
        view = self._kept(view)
        words = self._lexical.judge_now(view) if self._has_words(view) else None
        return self._scored(view, words)

    def _kept(self, view: JudgeView) -> JudgeView:
        """Return the view of what the answer does not take back, where that is asked for."""
        if not self._reads_retractions or view.unanswered is not None:
            return view
        kept = kept_text(view.response)
        if kept == view.response:
            return view
        return view.model_copy(update={"response": kept.strip(" \n.!") or _NOTHING})

    def _has_words(self, view: JudgeView) -> bool:
        """Whether a criterion states no claim."""
        claims = self._read_claims(view.rubric, view.question).claims
        return len(claims) < len(view.rubric)

    def _scored(self, view: JudgeView, words: JudgeResult | None) -> JudgeResult:
        """Score the claims, and take the other criteria from the lexical judge."""
        problem = self.refuse_excerpt(view)
        if problem:
            return no_judgement(self, problem)
        reason = view.unwritten
        if reason is not None:
            return JudgeResult.without_answer(view.rubric, reason, judge=self.name)
        if words is not None and words.outcome is not Outcome.SCORED:
            return words.with_call(judge=self.name)
        claims = self._read_claims(view.rubric, view.question)
        scores: dict[str, float] = {}
        notes: list[str] = []
        if words is not None:
            scores |= words.scores
            claimed = {claim.id for claim in claims.claims}
            notes = [
                f"{criterion.id}: states no claim, scored by its words"
                for criterion in view.rubric
                if criterion.id not in claimed
            ]
        answer = self._answer(view, claims)
        telling = sum(len(clause.content) > 1 for clause in answer.clauses) or 1
        truth = max(0.0, 1 - _FALSE_COST * len(answer.false) / telling)
        findings = self._findings(claims, answer, view)
        for claim, finding in zip(claims.claims, findings, strict=True):
            scores[claim.id] = claim.weight * finding.credit * truth
            notes.append(f"{claim.id}: {finding.in_words()}")
        notes += [
            f"against the source (all × {truth:.2f}): {why} in “{answer.clauses[place].text}”"
            for place, why in answer.false.items()
        ]
        # One clause of each unsound sentence.
        unsound = {answer.clauses[i].sentence: i for i in answer.unsound}
        notes += [
            f"cannot state a claim: {answer.unsound[i]} in “{answer.clauses[i].text}”"
            for i in unsound.values()
        ]
        return JudgeResult.scored(
            view.rubric, scores, judge=self.name, reasoning="\n".join(notes)
        )

    def _answer(self, view: JudgeView, claims: Claims) -> Answer:
        statements = self._statements(view.grounding, claims.names, claims.sentences)
        parts = tuple(framed(clause) for clause in clauses(view.response, claims.names))
        readings = [statements.read(clause) for clause in parts]
        flaws = flaws_of(
            sentences(view.response), claims.sentences, question=view.question
        )
        flawed = {
            place: flaws[clause.sentence]
            for place, clause in enumerate(parts)
            if clause.sentence in flaws
        }
        unsound = hedged(parts, claims.clauses) | flawed
        false = {
            place: why
            for place, (why, _) in enumerate(readings)
            if why and place not in unsound
        }
        support = tuple(support for _, support in readings)
        return Answer(parts, false, unsound, support)

    def _findings(
        self, claims: Claims, answer: Answer, view: JudgeView
    ) -> list[Finding]:
        findings = [
            contradicted(claim, answer) or stated(claim, answer)
            for claim in claims.claims
        ]
        if self._meaning is not None:
            findings = self._by_meaning(
                self._meaning, claims, answer, view.question, findings
            )
        if self._verifier is not None:
            return self._verifier.verified(claims.claims, answer, findings)
        return findings

    @staticmethod
    def _by_meaning(
        meaning: Meaning,
        claims: Claims,
        answer: Answer,
        question: str,
        findings: list[Finding],
    ) -> list[Finding]:
        """Look for claims that words alone did not find in full, in the sentences about them."""
        open_claims = [
            place
            for place, finding in enumerate(findings)
            if finding.may_be_more(claims.claims[place])
        ]
        places = [
            place
            for place, sentence in enumerate(answer.true_sentences)
            if any(is_about(claims.claims[claim], sentence) for claim in open_claims)
        ]
        if not places:
            return findings
        open_texts = [claims.sentences[place] for place in open_claims]
        texts = [answer.true_sentences[place].text for place in places]
        rows = meaning.nearness(open_texts, question, texts)
        improved = list(findings)
        for place, row in zip(open_claims, rows, strict=True):
            near = dict(zip(places, row, strict=True))
            improved[place] = stated(claims.claims[place], answer, near)
        return improved
