"""Long answers: cut into sentences, each measured as an answer to what stands before it, all on one tree."""

from __future__ import annotations

import itertools
import json
import math
from copy import deepcopy
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from conftest import DATA, tiny_lm, tiny_model, word_tokenizer
from fakes import BORN_IN, CONTRADICTION, ENTAILMENT, NEUTRAL, FakeNli, fake_pipeline
from reference import decode_from_scratch
from results import made
from sdlg import Pipeline, ScriptedModel, result_from_json
from sdlg.calibration import Calibration
from sdlg.cli import main
from sdlg.clustering.matters import matter_ends, relate
from sdlg.errors import BadOption, BadQuestion, NotSupported
from sdlg.loaded import Models
from sdlg.long_answers import _of_none
from sdlg.measures.shares import share_interval, shares_of, tally_of, without
from sdlg.models.base import DecodeRequest, nobody
from sdlg.models.stopping import Stop, find_stop
from sdlg.models.transformers.model import TransformersModel
from sdlg.nli import load_nli
from sdlg.nli.language_model_judge import LanguageModelJudge
from sdlg.options import Decoding, Options
from sdlg.records import (
    Cluster,
    Cost,
    Draws,
    Generation,
    Prompt,
    Question,
    Sample,
    Sampled,
    Sentence,
    StopRule,
)
from sdlg.result import sentence_share
from sdlg.sampling import InitialAnswer
from sdlg.sampling.sentences import SentenceOfAnswer, is_long, sentences_of
from sdlg.sentences import cut_into_parts, first_sentence
from sdlg.views.brief import sentence_dict
from sdlg.views.html_file import result_page
from sdlg.views.reading import reading, to_check
from sdlg.views.terminal import print_result

# -- sentences ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        (" \n ", []),
        ("One sentence only.", ["One sentence only."]),
        ("Dr. Smith paid $3.50. He left.", ["Dr. Smith paid $3.50.", "He left."]),
        ("She came, e.g. in 1903! He did too.", ["She came, e.g. in 1903!", "He did too."]),
        ('"It is," he said. So it was.', ['"It is," he said.', "So it was."]),
        ("1. **Born** in Rome.\n2. Died there", ["1. **Born** in Rome.", "2. Died there"]),
        ("- a first item\n- a second one", ["- a first item", "- a second one"]),
        ("第一句话在这里。第二句话！", ["第一句话在这里。", "第二句话！"]),
        ("هذه جملة أولى. وهذه جملة ثانية.", ["هذه جملة أولى.", "وهذه جملة ثانية."]),
        ("สวัสดีครับ ผมชื่อสมชาย", ["สวัสดีครับ ผมชื่อสมชาย"]),
        ("😀 It works. 👍 It does.", ["😀 It works.", "👍 It does."]),
        ("So:\n```python\na. b\n```\nIt ends here.", ["So:", "```python\na. b\n```", "It ends here."]),
    ],
)
def test_a_text_is_cut_into_its_sentences(text, parts):
    assert [part.text for part in cut_into_parts(text)] == parts
    assert [text[part.start : part.end] for part in cut_into_parts(text)] == parts


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Sure, here is a summary: It is red.", ["claim"]),
        ("Sure, here is a summary:", ["lead"]),
        ("# A heading\nIt is red.", ["lead", "claim"]),
        ("Here are the steps:\n1. Do it now.", ["lead", "claim"]),
        ("Is it red? It is red.", ["lead", "claim"]),
        ("```\ncode. more\n```", ["code"]),
        ("```\nan open block", ["code"]),
        ("Yes.", ["claim"]),
        ("Sydney. It is known for its opera house.", ["claim", "claim"]),
        ("I would say it was 1915. Here's what happened: it sank.", ["claim", "claim"]),
        ("I hope this helps! Let me know if it does.", ["lead", "lead"]),
        ("| --- | --- |\n🎉🎉🎉\n— …", ["lead", "lead", "lead"]),
        ("```pip install x``` is all. It works.", ["claim", "claim"]),
        ("- ```\n  x = 1\n  ```\nIt works.", ["code", "claim"]),
        ("````\n```\nx\n```\n````\nIt works.", ["code", "claim"]),
        ("Of course! It is red.", ["lead", "claim"]),
        ("Of course, Marie Curie was born in 1867.", ["claim"]),
        ("Hi there!", ["lead"]),
        ("Hello Kitty was created in 1974.", ["claim"]),
        ("Thank you for asking.", ["lead"]),
        ("Thanksgiving is in November. Thanks to her it is.", ["claim", "claim"]),
        ("1. Rhine\n2. Elbe", ["claim", "claim"]),
        ("هل هي حمراء؟", ["lead"]),
        ("東京です。", ["claim"]),
    ],
)
def test_what_claims_nothing_is_told_from_what_does(text, kinds):
    assert [part.kind for part in cut_into_parts(text)] == kinds


def test_nothing_of_a_long_text_is_lost_and_nothing_is_there_twice():
    text = "A first one. " * 300 + "\n\n* item\n" * 50 + "```\nx\n```\n" + "The end is near"
    parts = cut_into_parts(text)
    assert all(one.end <= other.start for one, other in itertools.pairwise(parts))
    assert "".join(text[part.start : part.end] for part in parts).replace(" ", "").replace("\n", "") == text.replace(
        " ", ""
    ).replace("\n", "")


def test_a_branch_stops_where_the_next_sentence_begins():
    words = ["<end>", "It", " is", " red", ".", " He", "\n", " Dr", " Smith"]

    def text_of(ids):
        return "".join(words[i] for i in ids if i)

    rule = StopRule(frozenset({0}), one_sentence=True)
    assert find_stop(rule, [1, 2, 3, 4], text_of) is None  # nothing follows yet
    assert find_stop(rule, [1, 2, 3, 4, 5], text_of) == Stop("stop_string", 4, 4)  # its full stop is kept
    assert find_stop(rule, [1, 2, 3, 4, 0], text_of) == Stop("eos", 4, 5)
    assert find_stop(rule, [1, 2, 7, 4, 8], text_of) is None  # Dr. Smith
    assert find_stop(rule, [1, 2, 3, 6], text_of) is None
    assert find_stop(rule, [1, 2, 3, 6, 5], text_of) == Stop("stop_string", 4, 4)
    assert first_sentence("It is red. ") == len("It is red. ")


# -- the tree -----------------------------------------------------------------------------------------------------

PROMPT = Prompt((5, 9, 17, 33, 21, 40), StopRule(frozenset({2})))
SAID = ((), (50, 61), (50, 61, 7, 8))


@pytest.mark.parametrize(
    ("family", "layout"), [("llama", "tree"), ("llama", "separate"), ("gpt2", "tree"), ("mamba", None)]
)
def test_requests_that_differ_in_what_was_said_decode_together_as_alone(family, layout):
    decoding = Decoding(max_tokens=7)
    requests = [
        DecodeRequest(replace(PROMPT, said=said), [(30,), (), (31, 32)], decoding, seed=k)
        for k, said in enumerate(SAID)
    ]
    together = tiny_lm(family, layout).decode_all(requests)
    for request, decoded in zip(requests, together, strict=True):
        alone = tiny_lm(family, layout).decode(request)
        whole = Prompt(PROMPT.token_ids + request.prompt.said, PROMPT.stop)
        for prefix, one, other in zip(request.prefixes, decoded.continuations, alone.continuations, strict=True):
            assert one.token_ids == other.token_ids
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
            ids, logprobs = decode_from_scratch(tiny_lm(family), whole, prefix, decoding.max_tokens)
            assert one.token_ids == tuple(ids)[: len(one.token_ids)]
            assert one.logprobs == pytest.approx(logprobs[: len(one.logprobs)], abs=1e-4)
    steps = [decoded.cost.decode_steps for decoded in together]
    assert steps[1:] == [0, 0]  # counted once
    assert sum(decoded.cost.generated_tokens for decoded in together) == sum(
        one.decisions for decoded in together for one in decoded.continuations
    )


def test_all_sentences_cost_about_as_many_steps_as_the_longest_one():
    """8 sentences of 10 tokens, 5 branches each."""
    lm, sentence = tiny_lm("llama"), 10
    answer = lm.decode(DecodeRequest(PROMPT, [()], Decoding(max_tokens=80))).continuations[0].token_ids
    assert len(answer) == 80
    requests = []
    for first in range(0, 80, sentence):
        prefixes = [(*answer[first : first + at], 60 + at) for at in (0, 2, 4, 6, 8)]
        prompt = replace(PROMPT, said=answer[:first], stop=StopRule())
        requests.append(DecodeRequest(prompt, prefixes, Decoding(max_tokens=sentence)))
    cost = lm.decode_all(requests)[0].cost
    assert cost.decode_steps <= 1.5 * sentence
    longest = sum(sentence - len(prefix) + 1 for request in requests for prefix in request.prefixes)
    assert cost.forward_tokens <= longest  # each branch pays for its own tokens only


@pytest.mark.parametrize("draws", [0, 5])
def test_a_long_answer_costs_half_as_many_steps_again_as_its_longest_sentence(draws):
    """8 sentences of 25 tokens, 5 branches each, which hardly end by themselves: the model has random weights."""
    roomy = deepcopy(tiny_model("llama"))
    roomy.config.max_position_embeddings = 1024
    lm = TransformersModel(roomy, word_tokenizer(), name="roomy")
    options = Options(prompt="raw", sentence_samples=6, draws=draws, unexplored=0, min_probability=1e-9)
    pipeline = Pipeline(models=Models(lm, FakeNli({})), options=options)
    text = " ".join(
        f"{name} sat {'on the mat and ran to the cat ' * 2}mat."
        for name in ["one", "two", "red", "cat", "dog", "mat", "ran", "to"]
    )
    result = pipeline.check("who?", text)
    sizes = [len(one.samples[0].generation.token_ids) for one in result.sentences]
    assert len(sizes) == 8
    assert 20 <= min(sizes) <= max(sizes) <= 30
    reading_it = lm.read(PROMPT, text, alternatives_above=1e-9).cost.decode_steps
    assert result.cost.decode_steps <= reading_it + 1.5 * max(sizes)
    assert any(len(one.samples) == 6 for one in result.sentences)  # those of others may go elsewhere
    assert result.cost.generated_tokens <= 8 * (5 + draws) * 1.5 * max(sizes)


@pytest.mark.parametrize("strategy", ["greedy", "multinomial", "beam"])
@pytest.mark.parametrize("prefixes", [[(30,), (31, 32)], [(1,) * 9], [()]])
def test_a_request_is_told_once_it_is_there(strategy, prefixes):
    decoding = Decoding(strategy=strategy, max_tokens=6)
    requests = [DecodeRequest(replace(PROMPT, said=said), prefixes, decoding, seed=k) for k, said in enumerate(SAID)]
    told = {}
    together = tiny_lm("llama").decode_all(requests, lambda k, decoded: told.setdefault(k, []).append(decoded))
    assert sorted(told) == [0, 1, 2]
    for k, decoded in enumerate(together):
        assert [one.continuations for one in told[k]] == [decoded.continuations]
        assert told[k][0].cost == Cost()


def test_a_sentence_is_told_while_longer_ones_are_still_decoded():
    roomy = deepcopy(tiny_model("llama"))
    roomy.config.max_position_embeddings = 1024
    lm = TransformersModel(roomy, word_tokenizer(), name="roomy")
    options = Options(prompt="raw", sentence_samples=4, draws=2, unexplored=0, min_probability=1e-9)
    pipeline = Pipeline(models=Models(lm, FakeNli({})), options=options)
    seen, text = [], f"one sat on the mat. two sat {'on the mat and ran to the cat ' * 4}mat. the dog ran."

    def watch(progress):
        if progress.stage == "sentence":
            seen.append((progress.sentence, lm._network.steps))

    result = pipeline.check("who?", text, watch=watch)
    places = [sentence.start for sentence, _ in seen]
    assert sorted(places) == [one.start for one in result.sentences]
    assert places[-1] == result.sentences[1].start  # the longest is the last
    steps = [at for _, at in seen]
    assert steps[0] < steps[-1] - 20
    assert {one.start: one for one, _ in seen} == {one.start: one for one in result.sentences}


@pytest.mark.parametrize("judge_is_model", [False, True])
def test_a_language_model_that_judges_is_not_asked_while_it_decodes(judge_is_model):
    inside = []

    class Watched(ScriptedModel):
        def decode_all(self, requests, done=nobody):
            inside.append(True)
            try:
                return super().decode_all(requests, done)
            finally:
                inside.pop()

    class Judge(FakeNli):
        def judge(self, question, pairs):
            assert bool(inside) is not judge_is_model
            return super().judge(question, pairs)

    class ModelJudge(Judge, LanguageModelJudge):
        note = "asks a model"

    judge = (ModelJudge if judge_is_model else Judge)({})
    options = Options(draws=3, sentence_samples=3)
    result = Pipeline(models=Models(Watched(CURIE), judge), options=options).ask("Who was she?")
    assert [one.text for one in result.sentences] == ["Curie was Polish.", "She found radium."]
    assert judge.pairs_run == result.cost.nli_pairs
    assert result.cost.nli_gradients == 2


@pytest.mark.parametrize("measures", [(), ("P(True)",)])
def test_measures_that_ask_the_model_wait_until_it_has_decoded(measures):
    class Watched(ScriptedModel):
        inside = asked_inside = asked = 0

        def decode(self, request):
            is_question = not request.prompt.said and request.decoding.max_tokens == 1
            self.asked += is_question
            self.asked_inside += is_question and self.inside
            return super().decode(request)

        def decode_all(self, requests, done=nobody):
            self.inside = 1
            decoded = super().decode_all(requests, done)
            self.inside = 0
            return decoded

    model = Watched(CURIE)
    pipeline = Pipeline(models=Models(model, FakeNli({})), options=Options(draws=3), measures=measures)
    assert len(pipeline.ask("Who was she?").sentences) == 2
    assert (model.asked, model.asked_inside) == (2 * len(measures), 0)


@pytest.mark.parametrize("family", ["llama", "gpt2", "mamba"])
def test_a_text_that_is_read_is_as_if_it_had_been_said(family):
    lm = tiny_lm(family)
    text = "the dog ran on the mat"
    read = lm.read(PROMPT, text, alternatives_above=0.001).generations[0]
    scored = tiny_lm(family).score(PROMPT, [text]).generations[0]
    assert (read.text, read.token_ids) == (text, scored.token_ids)
    assert read.logprobs == pytest.approx(scored.logprobs, abs=1e-4)
    assert read.ending_logprobs == pytest.approx(scored.ending_logprobs, abs=1e-4)
    assert len(read.alternatives) == len(read.token_ids) + 1
    assert all(math.exp(option.logprob) > 0.001 for step in read.alternatives for option in step)
    for step, token, logprob in zip(read.alternatives, read.token_ids, read.logprobs, strict=False):
        found = [option.logprob for option in step if option.token_id == token]
        assert not found or found[0] == pytest.approx(logprob, abs=1e-6)


# -- the result ---------------------------------------------------------------------------------------------------

CURIE = {
    "": {"Curie": 1.0},
    "Curie": {" was": 0.9, " is": 0.1},
    "Curie was": {" Polish": 0.8, " French": 0.2},
    "Curie is": {" dead": 1.0},
    "Curie is dead": {".": 1.0},
    "Curie was Polish": {".": 1.0},
    "Curie was French": {".": 1.0},
    "Curie was Polish.": {" She": 1.0},
    "Curie was French.": {" He": 1.0},
    "Curie is dead.": {" He": 1.0},
    "Curie was Polish. She": {" found": 1.0},
    "Curie was Polish. She found": {" radium": 0.5, " gold": 0.3, " lead": 0.2},
    "Curie was Polish. She found radium": {".": 1.0},
    "Curie was Polish. She found gold": {".": 1.0},
    "Curie was Polish. She found lead": {".": 1.0},
}


def curie(**options) -> Pipeline:
    return fake_pipeline(CURIE, {}, **options)


def test_each_sentence_is_an_answer_to_what_stands_before_it():
    result = curie(draws=0).ask("Who was she?")
    first, second = result.sentences
    assert (first.text, second.text) == ("Curie was Polish.", "She found radium.")
    assert result.answer.text[second.start : second.end] == second.text
    assert {sample.text for sample in first.samples} == {"Curie was Polish.", "Curie was French.", "Curie is dead."}
    assert {sample.text for sample in second.samples} == {"She found radium.", "She found gold.", "She found lead."}
    assert second.samples[0].generation.logprobs == pytest.approx([0.0, 0.0, math.log(0.5), 0.0])
    assert second.coverage == pytest.approx(1.0)
    assert len(second.clusters) == 3
    entropies = [first.semantic_entropy, second.semantic_entropy]
    assert result.semantic_entropy == max(entropies)
    assert result.mean_sentence_entropy == pytest.approx(sum(entropies) / 2)
    assert first.words[-1].text == "Polish."


@pytest.mark.parametrize(
    ("share", "low", "told"),
    [
        (1.0, 0.61, "≥61%"), (0.9997, 0.61, "≥61%"), (0.98, 0.61, "98%"), (1.0, 0.998, "100%"), (0.998, 0.997, ">99%"),
        (1.0, 0.2, "?"), (0.32, 0.19, "32%"), (1.0, None, "100%"),
    ],
)  # fmt: skip
def test_what_nothing_contradicts_is_told_by_where_its_interval_begins(share, low, told):
    high = None if low is None else max(share, low)
    own = Cluster(0, "it is red.", ("it is red.",), None if low is None else share, (0,), low, high, share)
    assert sentence_share(Sentence("It is red.", 0, 10, "claim", clusters=(own,))) == told
    assert sentence_share(Sentence("Hello!", 0, 6, "lead")) == "–"


def test_shares_of_sentences_are_those_of_draws_from_where_they_begin():
    result = curie(draws=40).ask("Who was she?")
    second = result.sentences[1]
    assert {cluster.text: cluster.probability for cluster in second.clusters} == pytest.approx(
        {"She found radium.": 0.5, "She found gold.": 0.3, "She found lead.": 0.2}
    )
    assert all(cluster.low <= cluster.probability <= cluster.high for cluster in second.clusters)
    assert second.doubt == pytest.approx(0.5)


BORN = {
    "": {"Curie": 1.0},
    "Curie": {" was": 0.5, " worked": 0.5},
    "Curie was": {" born": 1.0},
    "Curie was born": {" in": 1.0},
    "Curie was born in": {" Warsaw": 0.6, " Paris": 0.4},
    "Curie was born in Warsaw": {".": 1.0},
    "Curie was born in Paris": {".": 1.0},
    "Curie worked": {" hard": 1.0},
    "Curie worked hard": {" every": 1.0},
    "Curie worked hard every": {" day": 1.0},
    "Curie worked hard every day": {".": 1.0},
}


def test_a_change_of_subject_is_no_contradiction():
    (only,) = fake_pipeline(BORN, {}, unit="sentences", draws=40).ask("Who was she?").sentences
    assert [cluster.text for cluster in only.clusters] == ["Curie was born in Warsaw.", "Curie was born in Paris."]
    assert only.doubt == pytest.approx(0.4)  # of what is said about her birth
    assert only.elsewhere.texts == ("Curie worked hard every day.",)
    assert only.elsewhere.kind == "elsewhere"
    assert only.elsewhere.probability == pytest.approx(0.5)  # of all
    assert only.elsewhere.low == only.elsewhere.high  # every answer there is was found
    assert only.coverage == pytest.approx(1.0)  # it was looked at all the same
    leaving = next(word for word in only.words if word.text == "was")
    assert (leaving.other_meaning, leaving.unexplored) == pytest.approx((0.0, 0.0))
    assert all(0 <= cluster.members[0] < len(only.samples) for cluster in only.clusters)


@pytest.mark.parametrize(
    ("sentence", "about"),
    [
        ("Curie was born on November 7, 1867, in Warsaw, Poland.", "Curie was born"),
        (
            "She was the first woman to earn a doctorate in physics from the University of Paris.",
            "She was the first woman",
        ),
        ("1. Preheat the oven to 180 degrees.", "1. Preheat"),
        ("- **Rhine**: it ends in the North Sea.", "- **Rhine**:"),
        ("It is Paris.", ""),
        ("the cat sat", ""),
        ("東京は日本の首都です。", ""),
        ("1. ", ""),
        ("", ""),
    ],
)
def test_the_first_words_of_a_sentence_say_what_it_is_about(sentence, about):
    assert sentence[: matter_ends(sentence)] == about


def test_what_a_sentence_is_about_is_given_and_only_what_it_says_of_it_is_measured():
    result = fake_pipeline(BORN_IN, {}, unit="sentences", draws=40).ask("Who was she?")
    (only,) = result.sentences
    assert only.text[: only.measured_from] == "Curie was born"
    own = only.samples[0].generation
    assert own.given == 3
    assert own.logprobs[:3] == pytest.approx([math.log(0.6), math.log(0.7), math.log(0.9)])  # as they are
    assert own.logprob == pytest.approx(math.log(0.5))  # of what comes after them
    every = (*only.samples, *only.draws)
    assert {one.text for one in every} == {
        f"Curie was born in {month} 1867 in Warsaw." for month in ("March", "June", "July")
    }
    assert [cluster.probability for cluster in only.clusters] == pytest.approx([0.5, 0.3, 0.2])
    assert (only.coverage, only.elsewhere) == (pytest.approx(1.0), None)
    assert [word.other_meaning for word in only.words[:3]] == [None, None, None]
    assert only.words[4].other_meaning == pytest.approx(0.5)
    assert {one.position for one in only.candidates} == {4}
    again = result_from_json(result.to_json()).sentences[0]
    assert (again.measured_from, again.samples[1].generation.given) == (len("Curie was born"), 3)
    assert sentence_dict(only)["measured_from"] == len("Curie was born")


def test_a_text_that_was_read_is_not_taken_for_the_likeliest():
    """Codes leave out the greedy answer, where the model gave it; a text from elsewhere may be any."""
    pipeline = fake_pipeline({"": {"Paris": 0.5, "Lyon": 0.3, "Nice": 0.2}}, {}, samples=1, draws=40)
    model, lyon = pipeline.models.language_model, (pipeline.models.language_model.token_id("Lyon"),)
    read = InitialAnswer(Generation("Lyon", lyon, (math.log(0.3),), "eos", (0.0,)), Cost(), was_read=True)
    assert model.text(lyon) == "Lyon"
    asked = Question("Where?")
    shares = pipeline.measured(asked, pipeline.sample(asked, answer=read)).clusters
    assert {one.text: one.probability for one in shares} == pytest.approx(
        {"Lyon": 0.3, "Paris": 0.5, "Nice": 0.2}, abs=0.03
    )


def test_the_share_on_the_matter_is_of_what_the_model_says_on_it():
    """Known: the sentence has .30, and .60 goes elsewhere. Rivals are only drawn."""

    def sample(text, mass, cluster):
        return Sample(
            Generation(text, tuple(text.encode()), (math.log(mass),) + (0.0,) * (len(text) - 1), "eos"),
            (text,),
            cluster=cluster,
        )

    known = (sample("own", 0.3, 0), sample("other things", 0.6, 1))
    drawn = (sample("rival", 0.05, 2), sample("another rival", 0.04, 2), sample("own", 0.3, 0), sample("more", 1e-3, 1))
    sampled = Sampled(known, (), Cost(), draws=Draws(drawn, "multinomial"))
    kept = without(sampled, [sample.cluster == 1 for sample in (*known, *drawn)])
    # Two of the three draws beyond what is known are on the matter: .30 against .10 · 2/3.
    shares = shares_of(tally_of(kept.samples, kept.draws))
    on_matter = 0.3 + 0.1 * 2 / 3
    # What was drawn of the rivals is known, too: .09, and at least so much is theirs.
    assert kept.draws.left_out == pytest.approx(1 - on_matter)
    assert shares[0] == pytest.approx(0.3 / 0.39)
    nothing_left = without(sampled, [False, True, True, True, False, True])
    low, high = share_interval(tally_of(nothing_left.samples, nothing_left.draws), 0, 1.0)
    assert (low, high) == (pytest.approx(0.3 / (0.3 + 0.1 / 6)), pytest.approx(1.0))  # half a draw may be on the matter
    assert without(sampled, [False] * 6) is sampled


def test_a_sentence_holds_its_own_draws_however_they_end():
    """.6 for its tokens, after which the answer ends half of the time; .4 for a rival. The sentence was read."""
    own, rival = (7,), (8,)

    def sample(ids, mass, cluster, ending=()):
        reason = "eos" if ending else "stop_string"
        return Sample(Generation(str(ids), ids, (math.log(mass),), reason, ending), (str(ids),), cluster=cluster)

    known = [sample(own, 0.6, 0)]
    drawn = [sample(own, 0.6, 0), sample(own, 0.6, 0, (math.log(0.5),)), sample(rival, 0.4, 1, (0.0,))]
    tally = tally_of(known, Draws(tuple(drawn), "multinomial"))
    assert shares_of(tally) == pytest.approx([0.6, 0.4])
    assert tally.floor == pytest.approx([0.6, 0.4])
    assert tally.counts.tolist() == [0, 1]
    ended = [sample(own, 0.6, 0, (math.log(0.5),)), sample(own, 0.6, 0, (math.log(0.3),))]  # two endings, each its own
    assert tally_of([], Draws(tuple(ended), "multinomial")).floor == pytest.approx([0.6 * 0.8])


def test_what_leads_elsewhere_is_told_in_every_view():
    result = fake_pipeline(BORN, {}, unit="sentences", draws=40).ask("Who was she?")
    assert "50% of all that it would say here goes on to something else" in view(result)
    assert "worked hard" not in view(result)
    assert result_from_json(result.to_json()).sentences[0].elsewhere == result.sentences[0].elsewhere


@pytest.mark.parametrize(
    ("other", "verdicts", "relation"),
    [
        ("Curie was born in Warsaw in 1867.", ENTAILMENT, "agrees"),
        ("CURIE WAS BORN IN NOVEMBER 1867 IN WARSAW. ", CONTRADICTION, "agrees"),  # the same text: nobody is asked
        ("Curie was born in November 1867 in Paris.", CONTRADICTION, "contradicts"),
        ("Curie was born in November 1867 in Paris.", NEUTRAL, "contradicts"),  # another name in the same words
        ("Curie was born in November 1877 in Warsaw.", NEUTRAL, "contradicts"),
        ("Curie was born in November 1867 in Warsaw, in Poland.", NEUTRAL, "agrees"),
        ("Curie was born into a poor family of teachers.", NEUTRAL, "elsewhere"),
        ("Her city of birth is in Poland.", ENTAILMENT, "agrees"),
        ("Curie was born in Nov. 1867 in Warszawa.", ENTAILMENT, "agrees"),  # names in other words
        ("Curie was never born in Warsaw in November 1867.", CONTRADICTION, "contradicts"),  # the same words
        ("", NEUTRAL, "elsewhere"),
    ],
)
def test_how_a_text_stands_to_a_sentence(other, verdicts, relation):
    nli, sentence = FakeNli(lambda *_: verdicts), "Curie was born in November 1867 in Warsaw."
    related = relate(sentence, [sentence, other, other], nli.judge, about=sentence[: matter_ends(sentence)])
    assert related.relations == ("agrees", relation, relation)
    assert related.cost.nli_pairs == nli.pairs_run <= 2  # both directions, once


@pytest.mark.parametrize(
    ("sentence", "other", "relation"),
    [
        ("- Paris", "- Lyon", "contradicts"),
        ("- Paris", "- paris.", "agrees"),
        ("Yes.", "No.", "contradicts"),
        ("It is Paris.", "Few people live there.", "contradicts"),
    ],
)
def test_a_sentence_of_few_words_is_an_answer(sentence, other, relation):
    nli = FakeNli(lambda *_: NEUTRAL)
    asked = "Is it Paris?"
    assert relate(sentence, [other], nli.judge, asked=asked, nli="nli-minilm").relations == (relation,)
    assert nli.questions == {asked}  # it is judged as one


def test_relations_are_as_good_as_their_bench_says():
    lines = (DATA / "sentence_relations.jsonl").read_text().splitlines()
    some = [json.loads(line) for line in lines][::4]
    nli = load_nli("nli-minilm")
    right = sum(
        relate(one["sentence"], [one["text"]], nli.judge, about=one["sentence"][: one["given"]], nli=nli.name).relations
        == (one["relation"],)
        for one in some
    )
    assert right / len(some) > 0.8  # always "agrees": .70


def test_one_sentence_and_the_whole_answer_are_as_before():
    whole = curie(unit="answer").ask("Who was she?")
    assert whole.sentences == ()
    assert len(whole.samples) > 1
    assert curie(stop_at="sentence").ask("Who was she?").sentences == ()
    capital = fake_pipeline().ask("What is the capital?")
    assert capital.sentences == ()
    assert capital.mean_sentence_entropy is None
    for wrong in ({"method": "multinomial"}, {"stop_at": "sentence"}):
        with pytest.raises(BadOption, match="sentences are measured by"):
            curie(unit="sentences", **wrong).ask("Who was she?")
    alone = fake_pipeline(unit="sentences").ask("What is the capital?")
    assert [one.text for one in alone.sentences] == ["It is Paris"]


def test_a_long_result_is_the_same_after_json_and_shows_in_every_view():
    result = curie().ask("Who was she?")
    again = result_from_json(result.to_json())
    assert again.sentences == tuple(_plain(one) for one in result.sentences)
    assert again.to_dict() == result.to_dict()
    assert json.loads(result.to_json())["sentences"][1]["kind"] == "claim"
    assert "She found radium." in repr(result)
    for verbose in (False, True):
        shown = view(result, verbose)
        assert "or: She found gold." in shown
        assert "check" in shown
    part = result.sentence(1)
    assert part.answer.text == "She found radium."
    assert part.clusters == result.sentences[1].clusters
    assert to_check(result) == [result.sentences[1]]


def _plain(sentence):
    """Without what is too much for a file."""

    def sample(one):
        return replace(one, generation=replace(one.generation, alternatives=()))

    return replace(sentence, samples=tuple(map(sample, sentence.samples)), draws=tuple(map(sample, sentence.draws)))


def view(result, verbose: bool = False) -> str:
    console = Console(file=StringIO(), width=90)
    print_result(console, result, verbose=verbose)
    return console.file.getvalue()


def test_what_is_not_measured_says_why():
    lm = ScriptedModel({})

    def kinds(text, reason="eos", **options):
        lm.text = lambda ids: "".join(map(chr, ids))
        answer = Generation(text, tuple(map(ord, text)), (-0.1,) * len(text), reason)
        return [one.kind for one in sentences_of(lm, answer, Options(**options))]

    assert kinds("It is red. It is bl", "length") == ["claim", "cut"]
    assert kinds("It is red. It is blue.", "length") == ["claim", "claim"]
    assert kinds("It is red. It is blue. It is green.", most_sentences=2) == ["claim", "claim", "beyond"]
    assert kinds("Here:\n```\nx\n```\nIt is red.") == ["lead", "code", "claim"]


def test_a_lead_in_alone_does_not_make_an_answer_long():
    lm = ScriptedModel({})
    lm.text = lambda ids: "".join(map(chr, ids))
    text = "Sure, here it is: Paris is the capital."
    answer = Generation(text, tuple(map(ord, text)), (-0.1,) * len(text), "eos")
    assert not is_long(sentences_of(lm, answer, Options()), Options())
    assert is_long(sentences_of(lm, answer, Options()), Options(unit="sentences"))
    assert not is_long(cut_into_parts("Yes. Penguins can swim."), Options())
    assert is_long(cut_into_parts("它是红的。它是蓝的。"), Options())
    assert not is_long([], Options(unit="sentences"))


def test_readings_of_long_answers():
    sure = curie().ask("Who was she?")
    assert reading(sure).startswith("check 1 of 2 measured sentences first")
    result = replace(sure, sentences=sure.sentences[:1])
    assert reading(result) == "of 1 measured sentences the model would contradict none more than one time in three"
    shaky = sure.sentences[1]
    wide = replace(shaky, clusters=(replace(shaky.clusters[0], low=0.1, high=0.8), *shaky.clusters[1:]))
    unclear = replace(sure, sentences=(sure.sentences[0], wide))
    told = "of 2 measured sentences the model would contradict none more than one time in three; cannot tell yet of 1"
    assert (reading(unclear), to_check(unclear)) == (told, [wide])
    both = replace(sure, sentences=(wide, shaky))
    assert reading(both).endswith("contradict itself; cannot tell yet of 1")
    assert to_check(both) == [shaky, wide]
    assert "too few draws on this matter" in view(unclear)
    assert f"cannot tell yet of 1 (--set draws={4 * unclear.options.draws})" in " ".join(view(unclear).split())
    assert "?  She found radium." in repr(unclear)
    nothing = replace(sure, sentences=(replace(sure.sentences[0], clusters=(), kind="lead"),))
    assert reading(nothing) == "no sentence claims anything that could be measured"
    assert math.isnan(curie(unit="sentences", max_tokens=1).ask("Who was she?").semantic_entropy)
    assert reading(curie(draws=0).ask("Who was she?")).endswith("(draws=0: how often is not known)")
    assert "? She found radium." in result_page(unclear)
    assert sentence_dict(wide)["is_open"]
    assert reading(made([(("Paris",), (0.9, 0.95, 1.0))])).startswith("the model is sure")


# -- given texts --------------------------------------------------------------------------------------------------


def tiny_pipeline(**options) -> Pipeline:
    return Pipeline(tiny_lm("llama"), FakeNli({}), equivalence="strict", prompt="raw", max_tokens=12, **options)


def test_a_given_text_is_checked_under_the_model():
    pipeline = tiny_pipeline(draws=3)
    result = pipeline.check("who?", "the cat sat")
    (only,) = result.sentences
    assert result.answer.text == only.text == "the cat sat"
    assert only.samples[0].text == "the cat sat"
    assert sum(len(cluster.texts) for cluster in only.clusters) > 1
    assert pipeline.score("who?", "the cat sat").to_dict()["sentences"] == result.to_dict()["sentences"]


def test_what_cannot_be_checked_says_so():
    with pytest.raises(BadQuestion, match="empty"):
        tiny_pipeline().check("who?", "  ")
    with pytest.raises(NotSupported, match="cannot read given texts"):
        fake_pipeline().check("Who?", "Somebody.")


def load_tiny(model, nli, loading=None) -> Models:
    return Models(tiny_lm("llama"), FakeNli({}, name=nli), loading)


CHECK = ("--set", "prompt=raw", "--set", "equivalence=strict", "--set", "max_tokens=12")


def test_the_command_checks_a_text_and_a_file_of_them(tmp_path, capsys, monkeypatch):
    answer, out = tmp_path / "answer.txt", tmp_path / "out.jsonl"
    answer.write_text("the cat sat\n")
    assert main(["check", str(answer), "--question", "who?", *CHECK], load_tiny) == 0
    assert "the cat sat" in capsys.readouterr().out
    assert main(["check", str(answer), "--question", "who?", "--json", *CHECK], load_tiny) == 0
    assert result_from_json(capsys.readouterr().out).sentences[0].text == "the cat sat"
    assert main(["check", str(answer), "--question", "who?", "--json", "--samples", "2", *CHECK], load_tiny) == 0
    assert result_from_json(capsys.readouterr().out).options.sentence_samples == 2
    assert main(["check", str(answer), "--question", "who?", "--method", "multinomial", *CHECK], load_tiny) == 2
    assert "unknown argument --method" in capsys.readouterr().err
    page = tmp_path / "page.html"
    assert main(["check", str(answer), "--question", "who?", "--html", str(page), *CHECK], load_tiny) == 0
    assert "the cat sat" in page.read_text()
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '{"question": "who", "answer": "the dog"}\n{"question": "who"}\n{"question": "cat", "answer": "on the mat"}\n'
    )
    assert main(["check", str(rows), "--out", str(out), *CHECK], load_tiny) == 1  # one row has no answer
    lines = out.read_text().splitlines()
    assert len(lines) == 3
    assert "error" in json.loads(lines[1])
    assert main(["check", str(rows), "--out", str(out), *CHECK], load_tiny) == 0  # nothing is left to do
    assert out.read_text().splitlines() == lines
    rows.write_text(rows.read_text().replace("on the mat", "the mat"))
    assert main(["check", str(rows), "--out", str(out), *CHECK], load_tiny) == 2
    assert "checks another answer" in capsys.readouterr().err


def test_a_model_that_cannot_read_texts_is_refused_once_not_for_each_row(tmp_path, capsys):
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows.write_text('{"question": "who", "answer": "the dog"}\n' * 2)
    assert main(["check", str(rows), "--out", str(out)], lambda *_, **__: fake_pipeline().models) == 2
    assert capsys.readouterr().err.count("cannot read given texts") == 1
    assert not out.read_text()


def test_sentences_get_a_risk_from_judged_answers(tmp_path, capsys):
    words = ["the", "cat", "sat", "on", "mat", "dog", "ran"]
    answers = [f"{one} {two} sat. {two} {one} ran. {one} sat on {two}." for one in words for two in words[:4]]
    parts = [[{"text": text.strip() + ".", "right": (k + n) % 3 > 0} for n, text in enumerate(one.split(".")[:-1])]
             for k, one in enumerate(answers)]  # fmt: skip
    judged, checks, risk = (tmp_path / name for name in ("judged.jsonl", "checks.jsonl", "risk.json"))
    rows = [{"question": f"who {k}", "answer": one, "segments": parts[k]} for k, one in enumerate(answers)]
    judged.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fast = (*CHECK, "--samples", "3", "--set", "sentence_samples=3")
    made = ["calibrate", str(checks), "--judged", str(judged), "-o", str(risk)]
    assert main(made) == 2
    assert "make it with sdlg check" in capsys.readouterr().err
    measured = ("--measures", "share_beyond_answer", "--out", str(checks))
    assert main(["check", str(judged), *measured, *fast], load_tiny) == 0
    assert main([*made, "--measure", "perplexity"]) == 2
    assert "--measures perplexity" in capsys.readouterr().err
    assert main(made) == 0
    told = capsys.readouterr().out
    assert f"{3 * len(rows)} judged parts of answers, 33% wrong (as people judged)" in told
    calibration = Calibration.load(risk)
    assert (calibration.origin.unit, calibration.n) == ("sentence", 3 * len(rows))
    assert calibration.origin.samples == 3  # of each sentence
    assert "max_tokens" not in calibration.origin.options
    assert main([*made, "--metric", "rouge_l"]) == 2
    assert "--metric is for runs" in capsys.readouterr().err
    one = tmp_path / "one.txt"
    one.write_text(answers[1])
    assert main(["check", str(one), "--question", "who 1", "--calibration", str(risk), "--json", *fast], load_tiny) == 0
    result = result_from_json(capsys.readouterr().out)
    assert [s.risk.probability for s in result.sentences] == [calibration.risk_at(s.doubt) for s in result.sentences]
    assert "such sentences" in result.sentences[0].risk.sentence
    assert result.risk is None
    assert main(["ask", "who 1", "--calibration", str(risk), *CHECK[:4], "--max-tokens", "3"], load_tiny) == 0
    assert main(["calibrate", str(checks), "-o", str(risk)]) == 2
    assert "is a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        ("some text", (), "say what was asked"),
        ("", ("--question", "Who?"), "the answer is empty"),
        ('{"question": "Who?"}', (), "answer"),
        ("{no json", (), "not valid JSON"),
    ],
)
def test_what_is_asked_wrongly_is_told_before_anything_is_loaded(tmp_path, capsys, text, arguments, says):
    file = tmp_path / "text"
    file.write_text(text)
    assert main(["check", str(file), *arguments], lambda *_: pytest.fail("loaded")) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["La vitamine C\u00a0. Elle est bonne.", "M\u00a0. Dupont est là.", "点 A\u3000. 点 B"]
)
def test_other_white_space_than_a_blank_breaks_nothing_off(text):
    parts = cut_into_parts(text)
    assert "".join(text[part.start : part.end] for part in parts).split() == text.split() or len(parts) == 1


def test_a_number_in_a_circle_is_a_word():
    result = fake_pipeline({"": {"❶ Paris": 0.6, "❶ Lyon": 0.4}}, unit="sentences").ask("Where?")
    assert result.answer.text == "❶ Paris"


def test_half_a_surrogate_pair_is_refused_for_its_own_line_only(tmp_path, capsys):
    with pytest.raises(BadQuestion, match="surrogate"):
        tiny_pipeline().check("the cat?", "the cat \ud800 sat.")
    lines = [{"question": "the cat?", "answer": answer} for answer in ("the cat sat.", "the \ud800 cat.", "the cat.")]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["check", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out.jsonl")]
    assert main(arguments, load=load_tiny) == 1
    rows = list(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines()))
    assert ["error" in row for row in rows] == [False, True, False]


def test_what_else_was_said_with_a_question_is_there_for_each_sentence():
    asked = Question("Where?", context="A text.", system="Be brief.")
    one = SentenceOfAnswer("It is Paris.", 0, 12, "claim", range(3), "It is a town.")
    assert one.asked(asked) == replace(asked, text="Where? It is a town.")


def test_an_undefined_value_of_a_sentence_can_be_read_again():
    result = curie().ask("Who was Curie?")
    claim = next(place for place, one in enumerate(result.sentences) if one.estimates)
    name = next(iter(result.sentences[claim].estimates))
    row = result.to_dict()
    row["sentences"][claim]["estimates"][name]["value"] = None
    again = result_from_json(json.dumps(row))
    assert math.isnan(again.sentences[claim].estimates[name].value)


def test_the_views_of_a_long_answer_have_named_measures_and_what_it_cost():
    result = curie(draws=3, measures=["perplexity"]).ask("Who was she?")
    short, everything = (view(result, verbose=verbose) for verbose in (False, True))
    assert "perplexity" in short
    assert "pairs of answers judged" in everything
    assert "pairs of answers judged" not in short
    sequences = sum(len(one.samples) for one in result.sentences)
    assert f"{sequences} sequences and " in everything


def test_a_measure_is_unavailable_if_no_sentence_has_it():
    assert _of_none([]) == {}
    assert _of_none([{"a": "why", "b": "no"}, {"b": "not either"}]) == {"b": "no"}
