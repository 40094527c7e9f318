"""The bodies that clients send. OpenAI's: what we do not know is passed over, as their clients send much. Ours: an
unknown name is an error.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..options import METHODS

Detail = Literal["none", "score", "summary", "full"]


class _Ours(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Theirs(BaseModel):
    model_config = ConfigDict(extra="ignore")


class UncertaintyBody(_Ours):
    """A question, or a question with answers that one already has."""

    question: str = Field(examples=["Who wrote Hamlet?"])
    context: str | None = Field(None, description="a text to read before the question")
    system: str | None = Field(None, description="instructions for a chat model")
    method: str | None = Field(None, description=", ".join(METHODS))
    preset: str | None = Field(None, description="where options start")
    samples: int | None = Field(None, description="sequences in all, the answer included", examples=[5])
    seed: int | None = Field(None, description="same seed, same result")
    max_tokens: int | None = Field(None, description="longest answer, in tokens")
    stop_at: str | None = Field(None, description="turn or sentence")
    temperature: float | None = Field(None, description="for multinomial decoding")
    measures: list[str] | None = Field(None, description="further measures, by name or alias")
    stream: bool | None = Field(None, description="tell what is happening, as server-sent events")
    options: dict[str, Any] | None = Field(None, description="any other option of sdlg.Options, by name")
    answers: list[dict[str, Any]] | None = Field(
        None, description='answers to measure instead of sampling: {"text", "logprobs"?, "tokens"?, "cluster"?, …}'
    )


class Wanted(_Ours):
    """How much uncertainty a completion should tell, and how it is found."""

    detail: Detail = "summary"
    method: str | None = None
    preset: str | None = None
    samples: int | None = None
    stop_at: str | None = None
    measures: list[str] | None = None
    options: dict[str, Any] | None = None


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
    stop: str | list[str] | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    uncertainty: bool | Detail | Wanted | None = None


class Message(_Theirs):
    """One turn."""

    role: str
    content: str | list[dict[str, Any]] | None = None


class ChatBody(_Completion):
    """`POST /v1/chat/completions`."""

    messages: list[Message] = Field(examples=[[{"role": "user", "content": "Who wrote Hamlet?"}]])
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    response_format: dict[str, Any] | None = None
    modalities: list[str] | None = None


class CompletionBody(_Completion):
    """`POST /v1/completions`."""

    prompt: str | list[Any] = Field(examples=["The capital of France is"])
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None


class ErrorText(BaseModel):
    """What went wrong."""

    message: str
    type: str
    code: str


class ErrorBody(BaseModel):
    """OpenAI's error shape."""

    error: ErrorText
