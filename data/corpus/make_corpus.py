"""Make the static automaton's corpus: the target model's own answers to our prompts.

The paper's authors let Vicuna-7B answer instruction, code and math prompts (temperature 0.8, top-p 0.95) and index
prompt + answer. This script does the same with the default model. It works in shards of consecutive prompts; a shard
is written in one piece when it is complete, so that the script can be stopped at any time and called again.

    python data/corpus/make_corpus.py [--greedy] [--threads 1] [--batch 32] [--max-new-tokens 224]

With --greedy it writes the greedy answers to the same prompts, into `greedy/`: what the model says when it is decoded
as in the benchmarks. They are text to train on, and no part of the static automaton's corpus.
"""

import argparse
import hashlib
import json
import os
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.masking_utils import eager_mask

from samlib.bench import load_model
from samlib.bench.records import jsonl_lines

HERE = Path(__file__).resolve().parent
KINDS = ("instruction", "code", "math")
TEMPERATURE, TOP_P = 0.8, 0.95
CANDIDATES = 512  # the nucleus is sought among these: at this temperature it hardly ever reaches further


def read_prompts(kind):
    path = HERE / "prompts" / f"{kind}.txt"
    return path.read_text(encoding="utf-8").splitlines()


def shards(size, folder):
    """Yield (path, kind, prompts) for each block of `size` consecutive prompts."""
    for kind in KINDS:
        prompts = read_prompts(kind)
        for start in range(0, len(prompts), size):
            path = HERE / folder / f"{kind}_{start:04d}.jsonl"
            yield path, kind, prompts[start : start + size]


def grouped_attention(module, query, key, value, attention_mask, scaling, **kwargs):
    """Attention that shares keys and values between query heads without copying them, as big batches need on a CPU."""
    rows, heads, length, size = query.shape
    groups = key.shape[1]
    query = query.reshape(rows, groups, heads // groups * length, size)
    scores = query @ key.transpose(-1, -2) * scaling
    if attention_mask is not None:
        scores = scores.view(rows, groups, -1, length, key.shape[2]) + attention_mask[:, :, None]
        scores = scores.view(rows, groups, -1, key.shape[2])
    mixed = scores.softmax(dim=-1) @ value
    return mixed.view(rows, heads, length, size).transpose(1, 2).contiguous(), None


def sample(logits, generator):
    """One id a row of logits (n, vocab), at TEMPERATURE from the nucleus TOP_P, of the CANDIDATES likeliest."""
    values, ids = (logits / TEMPERATURE).topk(CANDIDATES, dim=-1)
    chances = values.softmax(dim=-1)
    chances[chances.cumsum(dim=-1) - chances >= TOP_P] = 0
    return ids.gather(1, torch.multinomial(chances, 1, generator=generator))[:, 0]


@torch.inference_mode()
def answer(model, tokenizer, prompts, *, choose, max_new_tokens):
    """One answer to each prompt, as one left-padded batch that answered rows leave; returns texts.

    choose: gives one id a row of logits (n, vocab).
    """
    chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
    batch = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    mask, ids = batch["attention_mask"], batch["input_ids"]
    positions = mask.cumsum(dim=1).sub(1).clamp(min=0)
    cache, rows, answers = DynamicCache(), torch.arange(len(prompts)), [[] for _ in prompts]
    for _ in range(max_new_tokens):
        out = model(ids, attention_mask=mask, position_ids=positions, cache=cache, logits_to_keep=1)
        tokens = choose(out.logits[:, -1])
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            answers[row].append(token)
        going = (tokens != tokenizer.eos_token_id).nonzero()[:, 0]
        if len(going) == 0:
            break
        if len(going) < len(rows):
            cache.batch_select_indices(going)
            rows, tokens, mask, positions = rows[going], tokens[going], mask[going], positions[going]
        ids = tokens[:, None]
        positions = positions[:, -1:] + 1
        mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
    return tokenizer.batch_decode(answers, skip_special_tokens=True)


def is_complete(path, prompts):
    """True if the shard exists and answers exactly these prompts (an edited prompt makes its shard stale)."""
    if not path.exists():
        return False
    return [json.loads(line)["prompt"] for line in jsonl_lines(path)] == prompts


def write_shard(path, kind, prompts, answers):
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".tmp")
    with open(partial, "w", encoding="utf-8") as file:
        for prompt, text in zip(prompts, answers, strict=True):
            row = {"kind": kind, "prompt": prompt, "answer": text.strip()}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--greedy", action="store_true", help="the greedy answers, into greedy/")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--max-new-tokens", type=int, default=224)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    model, tokenizer = load_model("cpu")
    tokenizer.padding_side = "left"
    AttentionInterface.register("grouped", grouped_attention)
    AttentionMaskInterface.register("grouped", eager_mask)
    model.set_attn_implementation("grouped")
    folder = "greedy" if args.greedy else "answers"
    todo = [shard for shard in shards(args.batch, folder) if not is_complete(shard[0], shard[2])]
    for path, kind, prompts in tqdm(todo, unit="shard"):
        seed = int(hashlib.sha256(path.name.encode()).hexdigest()[:8], 16)
        generator = torch.Generator().manual_seed(seed)
        choose = partial(torch.argmax, dim=-1) if args.greedy else partial(sample, generator=generator)
        answers = answer(model, tokenizer, prompts, choose=choose, max_new_tokens=args.max_new_tokens)
        write_shard(path, kind, prompts, answers)


if __name__ == "__main__":
    main()
