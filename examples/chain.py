"""A chain: prompt, model, parser. Called once, then for several inputs at a time.

python examples/chain.py
"""

from __future__ import annotations

import sys

from runwell import ChatPromptTemplate, StrOutputParser, init_chat_model

MODEL = "local:qwen2.5-coder-0.5b"

prompt = ChatPromptTemplate(
    [
        ("system", "Answer in one short sentence."),
        ("human", "What is {thing} used for?"),
    ]
)


def main(model: str = MODEL) -> None:
    chain = prompt | init_chat_model(model) | StrOutputParser()
    print(chain.invoke({"thing": "a hammer"}))
    for answer in chain.batch([{"thing": "an umbrella"}, {"thing": "a ladder"}]):
        print("-", answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
