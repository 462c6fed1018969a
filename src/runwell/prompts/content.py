"""Templates for content that is more than text: lists of blocks whose strings may hold blanks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runwell.errors import InvalidInput
from runwell.prompts.formats import CompiledTemplate, PromptTemplateFormat, compile_template

__all__ = ["ContentTemplate", "DictPromptTemplate", "ImagePromptTemplate"]

_Fill = Callable[[Mapping[str, Any]], Any]


class DictPromptTemplate:
    """A dict in which every string, however deep, may hold blanks. Keys are taken as they are."""

    def __init__(self, template: Mapping[str, Any], template_format: PromptTemplateFormat = "f-string") -> None:
        self.template = dict(template)
        self.template_format = template_format
        names: dict[str, None] = {}
        self._fill = _compile(self.template, template_format, names)
        self.names = tuple(names)

    @property
    def input_variables(self) -> list[str]:
        return sorted(self.names)

    def format(self, **values: Any) -> dict[str, Any]:
        """The dict, filled. Raises `InvalidInput` when a variable is missing."""
        return self.fill(values)

    def fill(self, values: Mapping[str, Any]) -> dict[str, Any]:
        filled: dict[str, Any] = self._fill(values)
        return filled

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.template, self.template_format)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DictPromptTemplate)
            and other.template == self.template
            and other.template_format == self.template_format
        )

    def __hash__(self) -> int:
        return hash((tuple(self.template), self.template_format))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.template!r})"


class ImagePromptTemplate(DictPromptTemplate):
    """An image by its address: `{"url": "https://…/{name}.png", "detail": "low"}`.

    The address is passed on and never fetched or opened here; a local `path` is refused.
    """

    def __init__(
        self,
        template: Mapping[str, Any],
        template_format: PromptTemplateFormat = "f-string",
        *,
        input_variables: Sequence[str] | None = None,
    ) -> None:
        if "path" in template or "url" not in template:
            raise InvalidInput(
                f"An image needs a 'url', not {sorted(template)}.",
                hint="Read a local file yourself and pass it as url='data:image/png;base64,…'.",
            )
        super().__init__(template, template_format)
        if input_variables is not None and set(input_variables) != set(self.names):
            raise InvalidInput(
                f"The image has the variables {sorted(self.names)}, but input_variables are {sorted(input_variables)}.",
                hint="Leave input_variables out; it is read from the template.",
            )


class ContentTemplate:
    """A list of blocks: strings become text blocks, dicts keep their shape, every string in them may hold blanks."""

    __slots__ = ("_fills", "blocks", "names", "template_format")

    def __init__(self, blocks: Sequence[Any], template_format: PromptTemplateFormat = "f-string") -> None:
        self.blocks = list(blocks)
        self.template_format = template_format
        names: dict[str, None] = {}
        self._fills: list[_Fill] = []
        for position, block in enumerate(self.blocks):
            if isinstance(block, DictPromptTemplate):
                kind = "image_url" if isinstance(block, ImagePromptTemplate) else None
                block = {"type": kind, kind: block.template} if kind else block.template
            elif isinstance(block, str):
                block = {"type": "text", "text": block}
            elif isinstance(text := getattr(block, "template", None), str):  # a PromptTemplate
                block = {"type": "text", "text": text}
            elif not isinstance(block, Mapping):
                raise InvalidInput(
                    f"Block {position} of the content is {block!r:.100}, which is neither a text nor a dict."
                )
            if block.get("type") == "image_url" and isinstance(block.get("image_url"), str):
                block = {**block, "image_url": {"url": block["image_url"]}}
            elif block.keys() == {"text"}:
                block = {"type": "text", **block}
            self._fills.append(_compile(block, template_format, names))
        self.names = tuple(names)

    def fill(self, values: Mapping[str, Any]) -> list[Any]:
        """New blocks, filled. Raises `InvalidInput` when a variable is missing."""
        return [fill(values) for fill in self._fills]

    def __reduce__(self) -> tuple[Any, ...]:
        return ContentTemplate, (self.blocks, self.template_format)

    def __repr__(self) -> str:
        return f"ContentTemplate({self.blocks!r})"


def _compile(part: Any, template_format: PromptTemplateFormat, names: dict[str, None]) -> _Fill:
    """A function that builds `part` anew with its blanks filled; the names of the blanks go into `names`."""
    if isinstance(part, str):
        compiled: CompiledTemplate = compile_template(part, template_format)
        names.update(dict.fromkeys(compiled.names))
        return compiled.render
    if isinstance(part, Mapping):
        fills = {key: _compile(value, template_format, names) for key, value in part.items()}
        return lambda values: {key: fill(values) for key, fill in fills.items()}
    if isinstance(part, (list, tuple)):
        items = [_compile(value, template_format, names) for value in part]
        return lambda values: [fill(values) for fill in items]
    return lambda values: part
