"""LangChain: a chat model that says how sure it is, and a callback that measures what another model said.

Both write an `uncertainty` into the message's `response_metadata`: a sentence in words (`reading`), the semantic
entropy, the meanings with their shares, and notes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, BaseCallbackHandler, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult

from ..errors import SdlgError
from ..pipeline import Pipeline
from ..questions import question_from_messages
from ..records import Question
from ..result import Result
from ..views.brief import brief_dict

KEY = "uncertainty"  # in `response_metadata`


class ChatSdlg(BaseChatModel):
    """A pipeline where a chat model stands: `ChatSdlg(pipeline=Pipeline("smollm2"))`. Options may be bound."""

    pipeline: Pipeline

    @property
    def _llm_type(self) -> str:
        return "sdlg"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        """What shapes an answer: LangChain's cache and traces tell models apart by it."""
        models, method = self.pipeline.models, self.pipeline.method
        return {"model": models.model_name, "nli": models.nli_name, "method": method, **self.pipeline.options.to_dict()}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _said(self._with(stop, kwargs).ask(messages=_turns(messages)))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return _said(await self._with(stop, kwargs).ask_async(messages=_turns(messages)))

    def _with(self, stop: list[str] | None, named: dict[str, Any]) -> Pipeline:
        """The pipeline with what was bound or given for one call; what is no option is an error."""
        if stop:
            named = {**named, "stop_strings": (*self.pipeline.options.stop_strings, *stop)}
        return self.pipeline.changed(**named) if named else self.pipeline


class UncertaintyCallback(BaseCallbackHandler):
    """Measure what any model of LangChain says, when it has said it.

    Several answers to one prompt (`n=5`) are grouped by meaning. One answer alone is checked sentence by sentence under
    the pipeline's own language model. `results` has them all, in the order in which they were measured: a stream's
    message is with its reader before it can be written into.
    """

    def __init__(self, pipeline: Pipeline, *, timeout: float | None = None) -> None:
        self.pipeline, self.timeout = pipeline, timeout
        self.results: list[Result] = []
        self._asked: dict[UUID, Sequence[BaseMessage] | str] = {}

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Keep what is asked."""
        self._asked[run_id] = messages[0]

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the prompt of a model that does not chat."""
        self._asked[run_id] = prompts[0]

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Forget what got no answer."""
        self._asked.pop(run_id, None)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Measure the answers, and write into the first message how sure, or why that is not known."""
        asked, said = self._asked.pop(run_id, None), response.generations[0]
        texts = [one.text for one in said if one.text.strip()]  # calls of tools say nothing
        if asked is None or not texts:
            return
        try:
            result = self._measured(asked, texts)
        except SdlgError as error:
            _write(said, {"error": str(error)})
        else:
            self.results.append(result)
            _write(said, brief_dict(result))

    def _measured(self, asked: Sequence[BaseMessage] | str, texts: list[str]) -> Result:
        question = Question(asked) if isinstance(asked, str) else question_from_messages(_turns(asked))
        return self.pipeline.score(question, texts if len(texts) > 1 else texts[0], timeout=self.timeout)


def _turns(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    turns = convert_to_openai_messages(messages)
    return turns if isinstance(turns, list) else [turns]


def _said(result: Result) -> ChatResult:
    metadata = {"model_name": result.model, KEY: brief_dict(result)}
    return ChatResult(generations=[ChatGeneration(message=AIMessage(result.answer.text, response_metadata=metadata))])


def _write(said: Sequence[Generation], uncertainty: dict[str, Any]) -> None:
    """Write into the message that the chain goes on with; a model that does not chat has none."""
    if isinstance(said[0], ChatGeneration):
        said[0].message.response_metadata[KEY] = uncertainty
