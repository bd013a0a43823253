"""The inputs of a run: the digest of the settings that shape it, and its documents."""

import hashlib
import json
import os
import uuid
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from rubric_core import Judge
from rubric_core.files import file_sha256, open_file, text_sha256
from rubric_judge import ChatModel, load_judge
from rubric_judge.judges.capabilities import fingerprint
from rubric_synth.collect import folder
from rubric_synth.config import LLMConfig, SynthConfig
from rubric_synth.document import Document
from rubric_synth.errors import CollectedFolderError
from rubric_synth.run.dataset.folder import Origin, versions
from rubric_synth.run.work.index import CollectedLine
from rubric_synth.stages.stages import Stages, StagesFactory


class Settings(NamedTuple):
    """Settings that all outcomes of one run have in common."""

    digest: bytes
    """Digest of everything that may change an outcome."""
    origin: Origin
    """Origin of the outcomes."""


def settings_of(
    config: SynthConfig,
    *,
    collected_sha256: str,
    stages: Stages | StagesFactory | None,
    judge: Judge | None,
) -> Settings:
    """Return the settings that the outcomes of a run depend on; nothing is sent.

    Args:
        config: The configuration.
        collected_sha256: SHA-256 of the collected file, on which the extractive stages depend as a
            whole.
        stages: The caller's own stages. Stages without a `fingerprint` may give other drafts
            tomorrow: another run does not use their outcomes again.
        judge: The caller's own judge.

    Raises:
        JudgeSetupError: A key is named and not there.
        ConfigError: A `litellm_config` or a plugin cannot be used.
    """
    judge = judge or load_judge(config.quality.judge)
    prompts: dict[str, str] = {}
    model: dict[str, Any] | None = None
    synthesiser: object = config.synthesiser.model_dump(mode="json", exclude={"model"})
    if stages is not None:
        own = stages if isinstance(stages, Stages) else [stages]
        synthesiser = [_name(part) for part in own]
    elif isinstance(config.synthesiser, LLMConfig):
        from rubric_synth.stages.llm.prompt import (
            prompt_hashes,  # only where it is asked for
        )

        prompts = prompt_hashes(config.synthesiser)
        model = ChatModel(config.synthesiser.model).identity
    else:
        synthesiser = [synthesiser, collected_sha256]
    # Fields of the quality checks that say nothing of one document: the judge is there by its
    # fingerprint, and questions and passages are compared when the dataset is written.
    of_the_whole = {
        "judge",
        "near_duplicate_question_jaccard",
        "near_duplicate_passage_containment",
    }
    parts = {
        "versions": list(versions().values()),
        "synthesiser": synthesiser,
        "prompts": prompts,
        "model": model,
        "quality": config.quality.model_dump(mode="json", exclude=of_the_whole),
        "judge": fingerprint(judge),
    }
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
    origin = Origin(
        collected_sha256=collected_sha256,
        prompts=prompts,
        model=model,
        judge=judge.name,
    )
    return Settings(digest, origin)


def _name(part: object) -> str:
    kind = f"{type(part).__module__}.{type(part).__qualname__}"
    return f"{kind} {getattr(part, 'fingerprint', None) or uuid.uuid4().hex}"


_HASH_BYTES = 32
_DIGEST_BYTES = 16


class Collection:
    """The documents of a collected folder, of which the first may be all that is to be done.

    What tells the lines apart is kept, 56 bytes each: a run goes through them several times.
    """

    def __init__(self, path: Path, *, limit: int | None = None) -> None:
        """Go through the lines once, without reading the documents.

        Args:
            path: Folder written by `collect`.
            limit: Only so many documents are to be done.

        Raises:
            CollectedFolderError: The file is missing, or a line is not a document.
        """
        self.folder = path
        self._path = path / folder.DOCUMENTS_FILE
        self._hashes = bytearray()
        self._offsets = array("Q")
        for doc_hash, offset in folder.collected_hashes(path):
            self._hashes += bytes.fromhex(doc_hash)
            self._offsets.append(offset)
        self._digests: dict[bytes, bytearray] = {}
        self._file: IO[bytes] | None = None
        self.documents = len(self._offsets)
        self.to_do = self.documents if limit is None else min(limit, self.documents)
        self._version = _version(self._path.stat())
        self.sha256 = file_sha256(self._path)
        self.config = folder.read_settings(path) or None
        """Configuration of the collection; None where its manifest has none."""

    def hashes(self) -> set[str]:
        """Return the hashes of all documents."""
        return {doc_hash for doc_hash, _ in folder.collected_hashes(self.folder)}

    def lines(self, settings: bytes) -> Iterator[CollectedLine]:
        """Yield all lines, in order; each can be read until `close`.

        Args:
            settings: Digest of the settings, at most 64 bytes.

        Raises:
            CollectedFolderError: The file cannot be read.
        """
        digests = self._digests_with(settings)
        for number, offset in enumerate(self._offsets):
            start = number * _HASH_BYTES
            doc_hash = self._hashes[start : start + _HASH_BYTES].hex()
            start = number * _DIGEST_BYTES
            digest = bytes(digests[start : start + _DIGEST_BYTES])
            yield CollectedLine(doc_hash, digest, offset, self._read)

    def making(self, config: SynthConfig, settings: Settings) -> str:
        """Return a digest of all that the bytes of the dataset depend on."""
        parts = (
            settings.digest.hex(),
            self.sha256,
            self.to_do,
            config.model_dump_json(),
            repr(self.config),
        )
        return text_sha256(repr(parts))

    def close(self) -> None:
        """Read no more documents."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, offset: int) -> Document:
        if self._file is None:
            self._file = self._opened()
        return folder.read_document(self._file, offset)

    def _opened(self) -> IO[bytes]:
        file = open_file(self._path, buffering=256 * 1024)
        if _version(os.fstat(file.fileno())) != self._version:
            file.close()
            raise CollectedFolderError(
                f"{str(self._path)!r} was replaced meanwhile; give the same command again",
                path=self._path,
            )
        return file

    def _digests_with(self, settings: bytes) -> bytearray:
        if settings not in self._digests:
            digests = bytearray()
            with self._opened() as lines:
                for line, _ in zip(lines, self._offsets, strict=True):
                    line_hash = hashlib.blake2b(
                        line, key=settings, digest_size=_DIGEST_BYTES
                    )
                    digests += line_hash.digest()
            self._digests = {settings: digests}
        return self._digests[settings]


def _version(stat: os.stat_result) -> tuple[int, ...]:
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
