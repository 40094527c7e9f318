"""The bodies that clients send. OpenAI's: unknown fields are passed over, as their clients send many, and fields that
would change the answer in a way we cannot may only have the value that changes nothing. Ours: an unknown name is an
error.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..options import METHODS
from ..schema import GivenAnswer

Detail = Literal["none", "headline", "summary", "sentences", "full"]
Text = Annotated[str, Field(max_length=1_000_000)]  # with a bound, pydantic also refuses half a surrogate pair
OneText = Annotated[list[Text], Field(min_length=1, max_length=1)]
One = Annotated[int, Field(ge=1, le=1, description="one answer; its alternatives are in `uncertainty`")] | None
Zero = Annotated[float, Field(ge=0, le=0, description="it would change the model's probabilities")] | None
OptionValue = int | float | Text | list[Text]  # of `sdlg.Options`, which checks the rest


class _Ours(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    method: Text | None = Field(default=None, description=", ".join(METHODS))
    preset: Text | None = Field(default=None, description="where options start")
    samples: int | None = Field(default=None, description="sequences in all, the answer included", examples=[5])
    stop_at: Text | None = Field(default=None, description="turn or sentence")
    measures: list[Text] | None = Field(default=None, description="further measures, by name or alias")
    options: dict[str, OptionValue] | None = Field(default=None, description="any option of sdlg.Options, by name")


class UncertaintyBody(_Ours):
    """A question or a conversation; or a question and answers to it that one already has."""

    question: Text | None = Field(None, examples=["Who wrote Hamlet?"])
    messages: list[dict[str, Any]] | None = Field(None, description="a conversation, in place of the question")
    context: Text | None = Field(None, description="a text to read before the question")
    system: Text | None = Field(None, description="instructions for a chat model")
    seed: int | None = Field(None, description="same seed, same result")
    max_tokens: int | None = Field(None, description="longest answer, in tokens")
    temperature: float | None = Field(None, description="for multinomial decoding")
    uncertainty: Literal["sentences"] | None = Field(
        None, description="measure each sentence, also if there is one only"
    )
    stream: bool | None = Field(None, description="send what is happening, as server-sent events")
    answer: Text | None = Field(None, description="a text to check, sentence by sentence, instead of answering")
    answers: list[Text | GivenAnswer] | None = Field(
        None, min_length=1, description="measured instead of sampling: texts, or objects with what else is known"
    )


class Wanted(_Ours):
    """How much a completion should say of its uncertainty, and how that is found."""

    detail: Detail = "summary"


class _Theirs(BaseModel):
    model_config = ConfigDict(extra="ignore")


class TextFormat(_Theirs):
    """OpenAI's."""

    type: Literal["text"] = "text"


class StreamOptions(_Theirs):
    """OpenAI's."""

    include_usage: bool | None = None


class _Completion(_Theirs):
    """What both of OpenAI's bodies have."""

    model: str | None = None
    max_tokens: int | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(None, description="absent or 0: greedy")
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: int | None = None
    stop: Text | list[Text] | None = None
    n: One = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: Zero = None
    frequency_penalty: Zero = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    uncertainty: bool | Detail | Wanted | None = None


class ChatBody(_Completion):
    """`POST /v1/chat/completions`."""

    messages: list[dict[str, Any]] = Field(examples=[[{"role": "user", "content": "Who wrote Hamlet?"}]])
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: Annotated[list[Any], Field(max_length=0)] | None = None
    functions: Annotated[list[Any], Field(max_length=0)] | None = None
    response_format: TextFormat | None = None
    modalities: list[Literal["text"]] | None = None


class CompletionBody(_Completion):
    """`POST /v1/completions`."""

    prompt: Text | OneText = Field(examples=["The capital of France is"])
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    echo: Literal[False] | None = None
    suffix: Literal[""] | None = None
    best_of: One = None


class ErrorText(BaseModel):
    """What went wrong."""

    message: str
    type: str
    code: str


class ErrorBody(BaseModel):
    """OpenAI's error shape."""

    error: ErrorText
