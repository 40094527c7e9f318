"""Long answers: each sentence is an answer to the prompt and the sentences before it, and is sampled as one.

In: an answer, decoded or read. Out: its sentences, and what SDLG samples for each that claims something. What it is
about is given, too: branches and draws begin after its first words, so they are about the same matter, and shorter. All
of them are paths of one tree over the one answer, and cost about as many steps as the longest sentence has tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..clustering.matters import matter_ends
from ..models.base import LanguageModel
from ..options import Options
from ..records import Cost, Generation, Prompt, Question, Sampled, SentenceKind, StopRule
from ..scoring.alignment import Span, token_spans
from ..sentences import Part, cut_into_parts, is_one_word
from .request import InitialAnswer, SamplingRequest
from .sdlg import branch_off, check_sdlg, run_together

_ONE_SENTENCE = StopRule(one_sentence=True)
_SPARE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class SentenceOfAnswer:
    """A sentence, its characters and its tokens in the answer."""

    text: str
    start: int
    end: int
    kind: SentenceKind
    tokens: range
    before: str  # the sentence before it; empty: it is the first
    given: int = 0  # so many of its tokens say what it is about
    measured_from: int = 0  # the character after them, in its own text

    def asked(self, question: Question) -> Question:
        """What the judge of meaning reads before it."""
        return replace(question, text=f"{question.text} {self.before}".strip())


def sentences_of(model: LanguageModel, answer: Generation, options: Options) -> list[SentenceOfAnswer]:
    """Cut an answer into its sentences."""
    text, spans = answer.text, token_spans(answer.token_ids, model.text)
    parts = cut_into_parts(text)
    ends = [next((k for k, span in enumerate(spans) if span[1] > part.start), len(spans)) for part in parts]
    ends.append(len(spans))
    found: list[SentenceOfAnswer] = []
    claims = 0
    for number, part in enumerate(parts):
        is_last, kind = number == len(parts) - 1, part.kind
        if kind == "claim":
            claims += 1
            kind = "beyond" if claims > options.most_sentences else kind
            kind = "cut" if is_last and answer.stop_reason == "length" and not _is_complete(text) else kind
        before = found[-1].text if found and found[-1].kind != "code" else ""
        tokens = range(ends[number], ends[number + 1])
        if not tokens and kind == "claim":
            kind = "lead"  # it shares its only token with the sentence before
        sentence = SentenceOfAnswer(part.text, part.start, part.end, kind, tokens, before)
        found.append(_after_its_matter(sentence, spans) if kind == "claim" else sentence)
    return found


def _after_its_matter(sentence: SentenceOfAnswer, spans: Sequence[Span]) -> SentenceOfAnswer:
    """Return it with what is given: whole tokens, and at least one is left."""
    about, ends = matter_ends(sentence.text), [spans[k][1] - sentence.start for k in sentence.tokens]
    given = sum(end <= about for end in ends[:-1])
    return replace(sentence, given=given, measured_from=ends[given - 1] if given else 0)


def _is_complete(text: str) -> bool:
    return text.rstrip().endswith((".", "!", "?", "。", "！", "？", "…"))


def is_long(sentences: Sequence[SentenceOfAnswer | Part], options: Options) -> bool:
    """Whether the answer of these sentences is measured sentence by sentence. "Yes." before one does not make it so."""
    if options.unit == "answer" or options.stop_at == "sentence":
        return False
    parts = sum(one.kind != "lead" and not is_one_word(one.text) for one in sentences)
    return bool(sentences) and (options.unit == "sentences" or parts > 1)


def sample_sentences(
    request: SamplingRequest,
    initial: InitialAnswer,
    sentences: Sequence[SentenceOfAnswer],
    finished: Callable[[int, Sampled], None],
) -> Cost:
    """Hand on what SDLG samples for each sentence that claims something, by its place, as soon as it is there.

    Return what decoding cost, which they share. While others are still decoded nothing else may use the model.
    """
    check_sdlg(request.model, request.options)
    prompt, answer = request.prompt(), initial.generation
    claims = {place: one for place, one in enumerate(sentences) if one.kind == "claim"}
    longest = max((len(one.tokens) for one in claims.values()), default=0)
    samplings = {
        place: branch_off(
            _request_for(request, one, longest),
            _prompt_for(prompt, answer, one),
            InitialAnswer(_slice(request.model, answer, one), Cost(), was_read=initial.was_read),
        )
        for place, one in claims.items()
    }
    return run_together(request.model, samplings, finished)


def _request_for(request: SamplingRequest, sentence: SentenceOfAnswer, longest: int) -> SamplingRequest:
    """A branch may be a little more than twice as long as its sentence, and half as long again as the longest one."""
    options, most = request.options, max(3 * longest // 2, 2 * _SPARE_TOKENS)
    own = options.updated(
        samples=options.sentence_samples, max_tokens=min(2 * len(sentence.tokens) + _SPARE_TOKENS, most)
    )
    return replace(request, question=sentence.asked(request.question), options=own)


def _prompt_for(prompt: Prompt, answer: Generation, sentence: SentenceOfAnswer) -> Prompt:
    return replace(prompt, said=answer.token_ids[: sentence.tokens.start], stop=prompt.stop | _ONE_SENTENCE)


def _slice(model: LanguageModel, answer: Generation, sentence: SentenceOfAnswer) -> Generation:
    """The sentence as a generation of its own; the answer's ending is that of its last sentence."""
    first, last = sentence.tokens.start, sentence.tokens.stop
    is_last = last == len(answer.token_ids)
    ids = answer.token_ids[first:last]
    ending = answer.ending_logprobs if is_last else ()
    return Generation(
        text=model.text(ids).strip(),
        token_ids=ids,
        logprobs=answer.logprobs[first:last],
        stop_reason="eos" if is_last and answer.stop_reason == "eos" else "stop_string",  # no claim was cut
        ending_logprobs=ending,
        alternatives=answer.alternatives[first : last + is_last],
        entropies=answer.entropies[first : last + len(ending)],
        truncated_mass=answer.truncated_mass[first : last + is_last],
        given=sentence.given,
    )
