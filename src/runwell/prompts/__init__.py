"""Prompts: texts and conversations with named blanks, filled from a dict. A template never evaluates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runwell.prompts.chat import BaseChatPromptTemplate, ChatPromptTemplate
    from runwell.prompts.content import DictPromptTemplate, ImagePromptTemplate
    from runwell.prompts.example_selectors import (
        BaseExampleSelector,
        LengthBasedExampleSelector,
        MaxMarginalRelevanceExampleSelector,
        SemanticSimilarityExampleSelector,
    )
    from runwell.prompts.few_shot import ExampleSelector, FewShotChatMessagePromptTemplate, FewShotPromptTemplate
    from runwell.prompts.formats import PromptTemplateFormat, get_template_variables
    from runwell.prompts.loading import load_prompt
    from runwell.prompts.message import (
        AIMessagePromptTemplate,
        BaseMessagePromptTemplate,
        ChatMessagePromptTemplate,
        HumanMessagePromptTemplate,
        MessagesPlaceholder,
        SystemMessagePromptTemplate,
    )
    from runwell.prompts.prompt import BasePromptTemplate
    from runwell.prompts.prompt_template import PromptTemplate, StringPromptTemplate
    from runwell.prompts.prompt_value import ChatPromptValue, PromptValue, StringPromptValue
    from runwell.prompts.structured import StructuredPrompt

_HOME = {
    "AIMessagePromptTemplate": "runwell.prompts.message",
    "BaseChatPromptTemplate": "runwell.prompts.chat",
    "BaseExampleSelector": "runwell.prompts.example_selectors",
    "BaseMessagePromptTemplate": "runwell.prompts.message",
    "BasePromptTemplate": "runwell.prompts.prompt",
    "ChatMessagePromptTemplate": "runwell.prompts.message",
    "ChatPromptTemplate": "runwell.prompts.chat",
    "ChatPromptValue": "runwell.prompts.prompt_value",
    "DictPromptTemplate": "runwell.prompts.content",
    "ExampleSelector": "runwell.prompts.few_shot",
    "FewShotChatMessagePromptTemplate": "runwell.prompts.few_shot",
    "FewShotPromptTemplate": "runwell.prompts.few_shot",
    "HumanMessagePromptTemplate": "runwell.prompts.message",
    "ImagePromptTemplate": "runwell.prompts.content",
    "LengthBasedExampleSelector": "runwell.prompts.example_selectors",
    "MaxMarginalRelevanceExampleSelector": "runwell.prompts.example_selectors",
    "MessagesPlaceholder": "runwell.prompts.message",
    "PromptTemplate": "runwell.prompts.prompt_template",
    "PromptTemplateFormat": "runwell.prompts.formats",
    "PromptValue": "runwell.prompts.prompt_value",
    "SemanticSimilarityExampleSelector": "runwell.prompts.example_selectors",
    "StringPromptTemplate": "runwell.prompts.prompt_template",
    "StringPromptValue": "runwell.prompts.prompt_value",
    "StructuredPrompt": "runwell.prompts.structured",
    "SystemMessagePromptTemplate": "runwell.prompts.message",
    "get_template_variables": "runwell.prompts.formats",
    "load_prompt": "runwell.prompts.loading",
}

__all__ = [
    "AIMessagePromptTemplate",
    "BaseChatPromptTemplate",
    "BaseExampleSelector",
    "BaseMessagePromptTemplate",
    "BasePromptTemplate",
    "ChatMessagePromptTemplate",
    "ChatPromptTemplate",
    "ChatPromptValue",
    "DictPromptTemplate",
    "ExampleSelector",
    "FewShotChatMessagePromptTemplate",
    "FewShotPromptTemplate",
    "HumanMessagePromptTemplate",
    "ImagePromptTemplate",
    "LengthBasedExampleSelector",
    "MaxMarginalRelevanceExampleSelector",
    "MessagesPlaceholder",
    "PromptTemplate",
    "PromptTemplateFormat",
    "PromptValue",
    "SemanticSimilarityExampleSelector",
    "StringPromptTemplate",
    "StringPromptValue",
    "StructuredPrompt",
    "SystemMessagePromptTemplate",
    "get_template_variables",
    "load_prompt",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
