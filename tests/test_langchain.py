"""The chat model and the callback for LangChain, in real chains of langchain-core."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

lc = pytest.importorskip("langchain_core")
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate

from conftest import tiny_lm
from fakes import FakeNli, fake_pipeline
from sdlg import Pipeline
from sdlg.errors import BadQuestion, UnknownName
from sdlg.integrations.langchain import ChatSdlg, UncertaintyCallback

QUESTION = "What is the capital of France?"
PROMPT = ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "What is the capital of {country}?")])


class Several(FakeListChatModel):
    """A model of somebody else, asked for several answers (n=3)."""

    responses: list[str] = ["Paris", "It is Paris", "Lyon"]  # noqa: RUF012 (a field of pydantic's)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text)) for text in self.responses])


@pytest.fixture
def model():
    return ChatSdlg(pipeline=fake_pipeline())


@pytest.fixture
def judging():
    """Without a language model: answers can be compared, and no text be checked."""
    return UncertaintyCallback(
        Pipeline(None, FakeNli({"Paris": "paris", "It is Paris": "paris"}), equivalence="strict")
    )


# -- the chat model -----------------------------------------------------------------------------------------------


def test_a_chain_answers_with_uncertainty(model):
    message = (PROMPT | model).invoke({"country": "France"})
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    result = fake_pipeline().ask(messages=asked)
    told = message.response_metadata["uncertainty"]
    assert message.content == result.answer.text
    assert told["semantic_entropy"] == result.semantic_entropy
    assert [one["share"] for one in told["meanings"]] == [one.share for one in result.meanings]
    assert message.response_metadata["model_name"] == result.model
    json.dumps(message.response_metadata)


def test_it_stands_where_any_chat_model_stands(model):
    assert (PROMPT | model | StrOutputParser()).batch([{"country": "France"}] * 2) == ["It is Paris"] * 2
    (chunk,) = model.stream(QUESTION)
    assert chunk.response_metadata["uncertainty"]["meanings"][0]["text"] == "It is Paris"


def test_earlier_turns_and_parts_are_read(model):
    turns = [HumanMessage("Hello"), AIMessage("Hi"), HumanMessage([{"type": "text", "text": QUESTION}])]
    assert model.invoke(turns).content == "It is Paris"


def test_options_and_stops_can_be_bound(model):
    few = model.bind(samples=2).invoke(QUESTION).response_metadata["uncertainty"]
    assert few["semantic_entropy"] == fake_pipeline(samples=2).ask(QUESTION).semantic_entropy
    assert few["semantic_entropy"] != fake_pipeline().ask(QUESTION).semantic_entropy
    assert model.invoke(QUESTION, stop=[" is"]).content == "It"
    with pytest.raises(UnknownName, match="did you mean samples"):
        model.invoke(QUESTION, smaples=2)


def test_await_gives_the_same(model):
    told, awaited = model.invoke(QUESTION), asyncio.run(model.ainvoke(QUESTION))
    assert awaited.content == told.content
    assert awaited.response_metadata == told.response_metadata


@pytest.mark.parametrize(
    "turns", [[], [HumanMessage(" ")], [HumanMessage("Who?"), ToolMessage("42", tool_call_id="1")]]
)
def test_what_cannot_be_asked_is_an_error(model, turns):
    with pytest.raises(BadQuestion):
        model.invoke(turns)


def test_the_cache_tells_options_apart():
    from langchain_core.caches import InMemoryCache

    cache, told = InMemoryCache(), []
    for samples in (2, 10, 10):
        model = ChatSdlg(pipeline=fake_pipeline(samples=samples), cache=cache)
        told.append(model.invoke(QUESTION).response_metadata["uncertainty"]["semantic_entropy"])
    assert told[0] != told[1] == told[2]
    assert len(cache._cache) == 2


# -- the callback -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_several_answers_of_another_model_are_grouped(judging, is_async):
    chain, config = PROMPT | Several(), {"callbacks": [judging]}
    country = {"country": "France"}
    message = asyncio.run(chain.ainvoke(country, config)) if is_async else chain.invoke(country, config)
    told = message.response_metadata["uncertainty"]
    assert [(one["text"], one["share"]) for one in told["meanings"]] == [
        ("Paris", pytest.approx(2 / 3)),
        ("Lyon", pytest.approx(1 / 3)),
    ]
    (result,) = judging.results
    assert result.question.text == QUESTION
    assert result.question.system == "Be brief."
    assert told["semantic_entropy"] == result.semantic_entropy


def test_questions_in_a_batch_are_not_mixed_up(judging):
    (PROMPT | Several()).batch([{"country": str(n)} for n in range(8)], {"callbacks": [judging]})
    assert {result.question.text for result in judging.results} == {f"What is the capital of {n}?" for n in range(8)}
    assert judging._asked == {}


def test_why_one_answer_cannot_be_checked_is_told(judging):
    message = FakeListChatModel(responses=["Paris"]).invoke(QUESTION, {"callbacks": [judging]})
    assert "error" in message.response_metadata["uncertainty"]
    assert message.content == "Paris"
    assert judging.results == []


def test_nothing_said_is_not_measured(judging, caplog):
    with caplog.at_level(logging.WARNING):
        message = FakeListChatModel(responses=[""]).invoke(QUESTION, {"callbacks": [judging]})
    assert "uncertainty" not in message.response_metadata
    assert caplog.records == []


def test_a_model_that_fails_leaves_nothing_behind(judging):
    class Broken(Several):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        Broken().invoke(QUESTION, {"callbacks": [judging]})
    assert judging._asked == {}


@pytest.fixture
def checking():
    """With a language model of our own, which reads given texts."""
    options = {"equivalence": "strict", "prompt": "raw", "max_tokens": 12, "draws": 3}
    return UncertaintyCallback(Pipeline(tiny_lm("llama"), FakeNli({}), **options))


def test_one_answer_is_checked_under_the_pipelines_own_model(checking):
    message = FakeListChatModel(responses=["the cat sat"]).invoke("who?", {"callbacks": [checking]})
    told = message.response_metadata["uncertainty"]
    assert [one["text"] for one in told["sentences"]] == ["the cat sat"]
    assert told["semantic_entropy"] == checking.pipeline.check("who?", "the cat sat").semantic_entropy


def test_what_was_streamed_is_among_the_results(checking):
    streamed = FakeListChatModel(responses=["the cat sat"]).stream("who?", {"callbacks": [checking]})
    assert "".join(chunk.content for chunk in streamed) == "the cat sat"
    assert [result.answer.text for result in checking.results] == ["the cat sat"]


def test_a_model_that_does_not_chat_is_measured_too(checking):
    FakeListLLM(responses=["the cat sat"]).invoke("who?", {"callbacks": [checking]})
    assert [result.question.text for result in checking.results] == ["who?"]


def test_a_deadline_holds_for_the_callback_and_the_answer_is_given_all_the_same(checking):
    checking.timeout = 1e-6
    message = FakeListChatModel(responses=["the cat sat"]).invoke("who?", {"callbacks": [checking]})
    assert message.content == "the cat sat"
    assert "1e-06" in message.response_metadata["uncertainty"]["error"]
