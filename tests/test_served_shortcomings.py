"""What a server does not tell is counted, noted and never invented."""

from __future__ import annotations

import json
import math

import pytest

from fake_server import (
    Change,
    Twin,
    save_tokenizer,
)
from fakes import CAPITAL
from sdlg.cli import main
from sdlg.errors import (
    NotSupported,
    ServerFailed,
)
from sdlg.models.base import DecodeRequest
from sdlg.options import Decoding
from sdlg.records import Question
from served import EIGHT, QUESTION, load_with_fake_nli, pipeline, texts

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.mark.parametrize("dialect", ["llama", "vllm"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_what_is_not_told_is_counted_and_nothing_is_invented(connected, tokenizer, dialect, most):
    _, model = connected(dialect, most=most, clamps=True, root=tokenizer)
    result = pipeline(model, samples=10).ask(QUESTION)
    states = ["", "It", "It is", "It is Paris"]
    told = [dict(sorted(CAPITAL[state].items(), key=lambda one: -one[1])[:most]) for state in states]
    assert result.answer.truncated_mass == pytest.approx([1 - sum(step.values()) for step in told], abs=1e-9)
    for sample in result.samples[1:]:
        change = sample.substitution
        token = "<end>" if change.ends_answer else (" " if change.position else "") + change.replacement.strip()
        assert math.exp(change.logprob) == pytest.approx(told[change.position][token])
    note = [note for note in result.notes if "answer.truncated_mass" in note]
    cut = sum(len(CAPITAL[state]) > most for state in states)
    assert len(note) == (cut > 0)
    assert all(f"at {cut} of 4 steps" in one and "--max-logprobs" in one for one in note)


def test_there_is_no_note_where_what_is_not_told_is_too_unlikely(connected):
    _, model = connected(most=3, clamps=True)
    result = pipeline(model, samples=10, min_probability=0.06).ask(QUESTION)
    assert result.answer.truncated_mass == pytest.approx([0, 0, 0.05, 0], abs=1e-9)
    assert not [note for note in result.notes if "truncated_mass" in note]


def test_a_drawn_token_outside_of_the_told_ones_does_not_hide_what_is_not_told(connected, tmp_path):
    """vLLM adds the drawn token, here H, to the five likeliest ones: F is untold and likelier than the floor."""
    options = {"strategy": "multinomial", "min_probability": 0.05, "samples": 1}
    seed = next(n for n in range(1000) if texts(pipeline(Twin(EIGHT), seed=n, **options).ask(QUESTION)) == ["H"])
    _, model = connected("vllm", EIGHT, most=5, root=save_tokenizer(EIGHT, tmp_path))
    result = pipeline(model, seed=seed, **options).ask(QUESTION)
    assert texts(result) == ["H"]
    assert result.answer.truncated_mass[0] == pytest.approx(0.07 + 0.04)
    assert any("at 1 of 2 steps" in note for note in result.notes)


def test_a_text_only_server_gives_the_same_answers(connected):
    server, model = connected("legacy", most=5)
    options = {"method": "multinomial", "samples": 8, "seed": 3}
    served, local = (pipeline(one, **options).ask(QUESTION) for one in (model, Twin(CAPITAL)))
    assert texts(served) == texts(local)
    for mine, other in zip(served.samples, local.samples, strict=True):
        assert mine.generation.decision_logprobs == other.generation.decision_logprobs
        assert mine.cluster == other.cluster
    assert served.semantic_entropy == local.semantic_entropy
    assert all(isinstance(seen.body["prompt"], str) for seen in server.generations)
    assert all("stream" not in seen.body for seen in server.generations)


def test_a_text_only_server_goes_on_from_no_tokens(connected):
    server, model = connected("legacy", most=5)
    prompt = model.prompt(Question(QUESTION), "auto")
    with pytest.raises(NotSupported, match="takes no token ids"):
        model.decode(DecodeRequest(prompt, [(1, 2)], Decoding()))
    assert server.requests == []


def test_an_ending_that_is_not_among_the_tokens_is_an_ending_all_the_same(connected):
    _, model = connected("legacy", most=5, tells_end=False)
    grown = model.decode(DecodeRequest(model.prompt(Question(QUESTION), "auto"), [()], Decoding())).continuations[0]
    assert model.text(grown.token_ids).strip() == "It is Paris"
    assert (grown.stop_reason, grown.stop_logprob) == ("eos", None)
    assert len(grown.logprobs) == 3


def _respelled(parts):
    told = parts[0]["choices"][0]["logprobs"]
    told["tokens"] = [" Rome" if token == " Paris" else token for token in told["tokens"]]
    return parts


def test_tokens_that_do_not_spell_the_text_are_an_error(connected):
    server, model = connected("legacy", most=5)
    server.inject(Change(_respelled))
    with pytest.raises(ServerFailed, match=r"do not spell its text: 'It is Rome / It is Paris'"):
        model.decode(DecodeRequest(model.prompt(Question(QUESTION), "auto"), [()], Decoding()))


def test_stop_strings_are_told_to_a_text_only_server(connected):
    script = {"": {"It": 1.0}, "It": {"\n": 0.5, " is": 0.5}, "It\n": {"Q: more": 1.0}}
    server, model = connected("legacy", script, most=5)
    result = pipeline(model, method="multinomial", samples=6).ask(QUESTION)
    assert "It" in texts(result)
    assert {sample.generation.stop_reason for sample in result.samples if sample.text == "It"} == {"stop_string"}
    assert all({"\n", " Q:"} <= set(seen.body["stop"]) for seen in server.generations)


@pytest.mark.parametrize(("dialect", "most", "reasons"), [
    ("chat", 0, ("go on from the beginning of an answer", "tell what else it could have said")),
    ("chat", 5, ("go on from the beginning of an answer",)),
    ("legacy", 5, ("go on from the beginning of an answer",)),
    ("llama", 0, ("tell what else it could have said",)),
])  # fmt: skip
def test_sdlg_without_what_it_needs_is_refused_before_any_request(connected, dialect, most, reasons):
    server, model = connected(dialect, most=most)
    with pytest.raises(NotSupported, match="--method multinomial works") as refusal:
        pipeline(model).ask(QUESTION)
    assert all(reason in str(refusal.value) for reason in reasons)
    assert "vLLM or llama-server" in str(refusal.value)
    assert server.requests == []


@pytest.mark.parametrize("dialect", ["chat", "legacy", "llama"])
def test_without_log_probabilities_answers_count_by_how_often_they_come(connected, dialect):
    _, model = connected(dialect, most=0)
    options = {"method": "multinomial", "samples": 12, "seed": 5}
    served, local = (pipeline(one, **options).ask(QUESTION) for one in (model, Twin(CAPITAL)))
    assert texts(served) == texts(local)
    assert [s.cluster for s in served.samples] == [s.cluster for s in local.samples]
    assert [c.score_share for c in served.clusters] == pytest.approx([len(c.members) / 12 for c in served.clusters])
    drawn = pipeline(model, draws=5, **options).ask(QUESTION)  # the samples are draws already: nothing further is asked
    assert [c.probability for c in drawn.clusters] == pytest.approx([len(c.members) / 12 for c in drawn.clusters])
    assert served.coverage is None
    assert all(sample.generation.logprobs == () for sample in served.samples)
    assert any("tells no log-probabilities" in note for note in served.notes)
    assert "NaN" not in served.to_json()


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_the_command_answers_with_a_server_that_only_chats(serve, capsys, flags):
    server = serve("chat", most=0)
    assert (
        main(["ask", QUESTION, "--model", server.url, "--method", "multinomial", *flags], load=load_with_fake_nli) == 0
    )
    shown, err = capsys.readouterr()
    assert "It is" in shown
    assert "semantic entropy" in shown or json.loads(shown)["coverage"] is None
    assert "nan" not in shown.lower()
    assert err == ""
    assert main(["ask", QUESTION, "--model", server.url], load=load_with_fake_nli) == 2
    assert "--method multinomial works" in capsys.readouterr().err


def test_a_chat_server_with_log_probabilities_gives_likelihoods(connected):
    _, model = connected("chat", most=5)
    result = pipeline(model, method="multinomial", samples=6).ask(QUESTION)
    local = pipeline(Twin(CAPITAL), method="multinomial", samples=6).ask(QUESTION)
    assert texts(result) == texts(local)
    assert [s.generation.logprobs for s in result.samples] == [s.generation.logprobs for s in local.samples]
    assert result.coverage is not None
    with pytest.raises(NotSupported, match="cannot go on from the beginning of an answer"):
        pipeline(model).ask(QUESTION)


def test_a_chat_server_is_asked_in_messages(connected):
    server, model = connected("chat", most=0)
    pipeline(model, method="multinomial", samples=2).ask(QUESTION, context="A story.")
    for seen in server.generations:
        assert seen.path == "/v1/chat/completions"
        assert seen.body["messages"] == [{"role": "user", "content": f"A story.\n\n{QUESTION}"}]
    with pytest.raises(NotSupported, match="only chats"):
        pipeline(model, method="multinomial", prompt="plain").ask(QUESTION)


LONG = {"": {"Paris": 0.9, "Lyon": 0.1}, "Paris": {". ": 1.0}, "Paris. ": {"It": 1.0}, "Paris. It": {" is": 1.0}}


@pytest.mark.parametrize(
    ("dialect", "traits"),
    [("chat", {"most": 0}), ("legacy", {"most": 0}), ("llama", {"most": 0}), ("llama", {"raw": False})],
)
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, "Paris. It is"),
        ({"stop_at": "sentence"}, "Paris"),
        ({"stop_strings": (" is",)}, "Paris. It"),
        ({"stop_strings": ("1", "2", "3", "4", "5", " is")}, "Paris. It"),
        ({"max_tokens": 3}, "Paris. It"),
    ],
    ids=str,
)
def test_every_stop_ends_an_answer_without_log_probabilities_too(connected, dialect, traits, options, wanted):
    _, model = connected(dialect, LONG, **traits)
    local = pipeline(Twin(LONG), method="multinomial", samples=2, **options).ask(QUESTION)
    assert texts(local) == [wanted] * 2
    assert texts(pipeline(model, method="multinomial", samples=2, **options).ask(QUESTION)) == [wanted] * 2


def test_an_answer_that_looks_like_a_control_token_is_an_answer(connected):
    _, model = connected("chat", {"": {"<s>": 1.0}}, most=0)
    result = pipeline(model, method="multinomial", samples=2).ask("Which tag strikes a text through?")
    assert texts(result) == ["<s>"] * 2


@pytest.mark.parametrize("dialect", ["llama", "vllm"])
def test_log_probabilities_after_temperature_are_not_used_for_sdlg(connected, tokenizer, dialect):
    server, model = connected(dialect, raw=False, root=tokenizer)
    with pytest.raises(NotSupported, match="--logprobs-mode raw_logprobs"):
        pipeline(model).ask(QUESTION)
    assert server.requests == []


@pytest.mark.parametrize("dialect", ["llama", "vllm"])
def test_log_probabilities_after_temperature_are_not_used_for_samples(connected, tokenizer, dialect):
    _, model = connected(dialect, raw=False, root=tokenizer)
    served, local = (
        pipeline(one, method="multinomial", samples=6, temperature=0.5).ask(QUESTION) for one in (model, Twin(CAPITAL))
    )
    assert texts(served) == texts(local)
    assert served.coverage is None
    assert any("change with the temperature" in note for note in served.notes)


def test_a_chat_servers_log_probabilities_after_temperature_are_not_believed(connected):
    _, model = connected("chat", raw=False, most=5)
    result = pipeline(model, method="multinomial", samples=6, temperature=0.5).ask(QUESTION)
    assert result.coverage is None or any("temperature" in note for note in result.notes)


def test_a_chat_endpoint_is_asked_for_alternatives_where_they_are_needed(connected):
    server, model = connected("chat", most=5)
    prompt = model.prompt(Question(QUESTION), "auto")
    grown = model.decode(DecodeRequest(prompt, [()], Decoding(), alternatives_above=0.0)).continuations[0]
    assert [seen.body["top_logprobs"] for seen in server.generations] == [5]
    local = Twin(CAPITAL)
    spelled = [[(model.text([one.token_id]), one.logprob) for one in step] for step in grown.alternatives]
    states = ["", "It", "It is"]
    assert [[(text, p) for text, p in step if p > -100] for step in spelled] == [
        [(local.text([one.token_id]), one.logprob) for one in local.next_tokens(state) if one.token_id]
        for state in states
    ]
    server.heal()
    model.decode(DecodeRequest(prompt, [()], Decoding()))
    assert ["top_logprobs" in seen.body for seen in server.generations] == [False]
