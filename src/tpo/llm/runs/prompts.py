"""Prompts as text and as token ids, as TRL reads them in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Tokens = list[int]


def token_ids(tokenizer: Any, prompts: Sequence[Any], **template: Any) -> list[Tokens]:
    """The ids of prompts; special tokens come from the chat template, or without one from the tokenizer."""
    ids = []
    for prompt in prompts:
        plain = _is_plain(tokenizer, prompt)
        text = templated(tokenizer, prompt, **template)
        ids.append(tokenizer(text, add_special_tokens=plain)["input_ids"])
    return ids


def templated(tokenizer: Any, prompt: Any, **template: Any) -> str:
    """A prompt as the model reads it: through the chat template, or as plain text without one."""
    if _is_plain(tokenizer, prompt):
        return prompt_text(prompt)
    return str(
        tokenizer.apply_chat_template(
            prompt, tokenize=False, add_generation_prompt=True, **template
        )
    )


def prompt_text(prompt: Any) -> str:
    """A prompt's own words, without the chat template."""
    return prompt if isinstance(prompt, str) else "\n".join(m["content"] for m in prompt)


def _is_plain(tokenizer: Any, prompt: Any) -> bool:
    return isinstance(prompt, str) or not getattr(tokenizer, "chat_template", None)
