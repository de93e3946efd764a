"""What an EAGLE head trains on: the target's own answers to the corpus prompts, and its hidden states on them.

The frozen target reads every chat (prompt and answer) once; its final hidden states are kept in shards, as float16.
"""

import json
from dataclasses import dataclass

import numpy as np
import torch

from samlib import paths
from samlib.bench.prompts import prompt_ids
from samlib.bench.records import jsonl_lines, write_whole

TEXTS = ("answers", "greedy")  # folders of data/corpus: the sampled answers, and the greedy ones
SHARD = 64  # chats in a file of features
HELD_OUT = 25  # every so many-th prompt trains nothing
MAX_LENGTH = 512  # tokens of a chat that are read


@dataclass(frozen=True)
class Features:
    """One chat. tokens: int32, (n,). hidden: float16, (n, hidden). start: where the answer begins."""

    tokens: torch.Tensor
    hidden: torch.Tensor
    start: int

    @property
    def answer(self):
        """The ids of the answer."""
        return self.tokens[self.start :]


def training_chats(tokenizer, limit=None):
    """(chats that train, prompts that are held out): pairs (ids, start), and ids.

    Both the sampled and the greedy answer to a prompt train, but for every `HELD_OUT`-th prompt. limit: the number of
    prompts that are used; None for all.
    """
    rows = [row for folder in TEXTS for row in answer_rows(folder)]
    prompts = list(dict.fromkeys(row["prompt"] for row in rows))[:limit]
    held_out = prompts[::HELD_OUT]
    ids = {prompt: prompt_ids(tokenizer, [{"role": "user", "content": prompt}]) for prompt in prompts}
    trained = [row for row in rows if row["prompt"] in ids.keys() - set(held_out)]
    chats = [_chat(tokenizer, ids[row["prompt"]], row["answer"]) for row in trained]
    return chats, [ids[prompt] for prompt in held_out]


def answer_rows(folder):
    """Yield the rows {"kind", "prompt", "answer"} of a folder of data/corpus."""
    for path in sorted((paths.CORPUS / folder).glob("*.jsonl")):
        yield from map(json.loads, jsonl_lines(path))


def _chat(tokenizer, prompt, answer):
    ids = [*prompt, *tokenizer(answer, add_special_tokens=False)["input_ids"]]
    return np.asarray(ids, dtype=np.int32), len(prompt)


def extract_features(model, chats, folder, *, shard=SHARD, progress=True):
    """Write the final hidden states of chats, pairs (ids, start), as shards; those that are there stay.

    Returns the shards' paths. A shard is a safetensors file: tokens (int32, of all its chats end to end), starts and
    ends (int64, one a chat; starts count from the chat's own beginning), hidden (float16, one row a token).
    """
    from safetensors.torch import save
    from tqdm import tqdm

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for first in tqdm(range(0, len(chats), shard), desc="features", unit="shard", disable=not progress):
        path = folder / f"features_{first:05d}.safetensors"
        if not path.exists():
            write_whole(path, save(_shard_of(model, chats[first : first + shard])))
        written.append(path)
    return written


@torch.no_grad()
def _shard_of(model, chats):
    ids = [ids[:MAX_LENGTH] for ids, _ in chats]
    states = [
        model.base_model(torch.as_tensor(chat, dtype=torch.long, device=model.device)[None])[0][0] for chat in ids
    ]
    return {
        "tokens": torch.from_numpy(np.concatenate(ids)),
        "starts": torch.tensor([start for _, start in chats]),
        "ends": torch.from_numpy(np.cumsum([len(chat) for chat in ids])),
        "hidden": torch.cat(states).to(torch.float16).cpu(),
    }


def read_features(shards):
    """[Features] of every chat with an answer of two tokens or more."""
    from safetensors.torch import load_file

    chats = []
    for path in shards:
        content, first = load_file(path), 0
        for end, start in zip(content["ends"].tolist(), content["starts"].tolist(), strict=True):
            chats.append(Features(content["tokens"][first:end], content["hidden"][first:end], start))
            first = end
    return [chat for chat in chats if len(chat.answer) > 1]


def ranked_vocabulary(chats):
    """The different ids of the answers in [Features], the most frequent first (of equal ones the smaller id)."""
    ids, counts = np.unique(np.concatenate([chat.answer.numpy() for chat in chats]), return_counts=True)
    return ids[np.argsort(-counts, kind="stable")].tolist()
