"""The fields of a request that change its logits: penalties, biases, and the grammar that its answer follows."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from kernels.server.http.errors import refused
from kernels.server.scheduler.requests import Grammar, LogitsOptions

MAX_BIASES = 1024
ANY_OBJECT = Grammar("json_schema", '{"type": "object"}')
Penalty = Annotated[float, Field(ge=-2, le=2)]


class JsonSchema(BaseModel):
    """`json_schema` of `response_format`."""

    schema_: dict[str, Any] = Field(alias="schema")


class ResponseFormat(BaseModel):
    """OpenAI's `response_format`."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if self.type == "json_schema" and self.json_schema is None:
            raise refused("response_format", "response_format: json_schema is missing")
        return self

    @property
    def grammar(self) -> Grammar | None:
        """None: any text."""
        if self.json_schema is not None and self.type == "json_schema":
            return Grammar("json_schema", json.dumps(self.json_schema.schema_))
        return ANY_OBJECT if self.type == "json_object" else None


class StructuredOutputs(BaseModel):
    """vLLM's `structured_outputs`; the fields `guided_json`, `guided_regex` and `guided_choice` are its older form."""

    json_: dict[str, Any] | str | None = Field(default=None, alias="json")
    json_object: bool = False
    regex: str | None = None
    choice: list[str] | None = Field(default=None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _served(cls, data: Any) -> Any:
        fields = {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else {}
        if others := fields.keys() - {"json", "json_object", "regex", "choice"}:
            raise ValueError(f"{min(others)} is not served here")
        return fields if isinstance(data, dict) else data

    @property
    def grammars(self) -> list[Grammar]:
        """Those that the fields name."""
        schema = self.json_ if isinstance(self.json_, str | None) else json.dumps(self.json_)
        choice = None if self.choice is None else json.dumps(self.choice)
        grammars = [] if schema is None else [Grammar("json_schema", schema)]
        grammars += [] if self.regex is None else [Grammar("regex", self.regex)]
        grammars += [] if choice is None else [Grammar("choice", choice)]
        return grammars + [ANY_OBJECT] * self.json_object


class LogitsFields(BaseModel):
    """OpenAI's and vLLM's penalties: frequency and presence count the answer's tokens, repetition the prompt's too."""

    frequency_penalty: Penalty = 0.0
    presence_penalty: Penalty = 0.0
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    logit_bias: Annotated[
        dict[Annotated[int, Field(ge=0)], Annotated[float, Field(ge=-100, le=100)]], Field(max_length=MAX_BIASES)
    ] = {}
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs = StructuredOutputs()
    guided_json: dict[str, Any] | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_grammar(self) -> Self:
        if len(self._grammars) > 1:
            sentence = "response_format: the request names several grammars, and an answer follows one"
            raise refused("response_format", sentence)
        return self

    @property
    def logits_options(self) -> LogitsOptions | None:
        """What changes the request's logits; None: nothing does."""
        grammar = next(iter(self._grammars), None)
        options = LogitsOptions(
            grammar, self.logit_bias, self.frequency_penalty, self.presence_penalty, self.repetition_penalty
        )
        return None if options == LogitsOptions() else options

    @property
    def _grammars(self) -> list[Grammar]:
        guided = StructuredOutputs(json=self.guided_json, regex=self.guided_regex, choice=self.guided_choice)
        grammar = self.response_format.grammar if self.response_format else None
        return ([grammar] if grammar else []) + self.structured_outputs.grammars + guided.grammars
