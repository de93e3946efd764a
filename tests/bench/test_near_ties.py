"""Near-ties made on purpose, from the forward to the table: shown with position and gap, neither hidden nor failed."""

import contextlib
import copy
import dataclasses
import json
import re
from functools import partial

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import samlib
from samlib import paths
from samlib.bench import runner
from samlib.bench.answers import Contender
from samlib.bench.data import TASKS
from samlib.bench.losslessness import LosslessnessError, compare
from samlib.bench.metrics import check_run, table_rows
from samlib.bench.profiles import load_profile
from samlib.bench.tiny import tiny_tokenizer
from samlib.decoding import TargetModel
from samlib.report import TABLE1, table_markdown
from tests.decoding.models import Scripted, draft_of, greedy, random_model, random_prompt

PROFILE = dataclasses.replace(
    load_profile("smoke"),
    max_new_tokens=6,
    min_rounds={"table1": 1},
    max_rounds=1,
    cost_widths=(1, 8),
    cost_repeats=1,
    cost_contexts=(20,),
    paper=("pld", "sam"),
    device_sized=("pld",),
)
TOKENIZER = tiny_tokenizer()
WORDS = "12341234"
HALF_TYPES = [torch.bfloat16, torch.float16]


def id_of(character):
    return TOKENIZER(character, add_special_tokens=False)["input_ids"][0]


TWINS = (id_of("4"), id_of("!"))  # after "3" both are equally good, up to the model's gap


def tie_model(gap, dtype=torch.float32):
    """A Llama that says 1 2 3 4 1 2 3 4 ... after anything; after 3, the logit of "!" is `gap` below that of "4".

    Built like the cycle model: unit vectors in, layers that add nothing, and the next token's row in the head. After
    "!" comes 1, as after 4, so that an output that took the other twin goes on like the first.
    """
    size = 264
    config = LlamaConfig(
        vocab_size=len(TOKENIZER),
        hidden_size=size,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        head_dim=8,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    one, two, three = map(id_of, "123")
    model = LlamaForCausalLM(config).eval()
    head = torch.zeros(len(TOKENIZER), size)
    following = torch.full((len(TOKENIZER),), one)
    following[[one, two, three]] = torch.tensor([two, three, TWINS[0]])
    head[following, torch.arange(len(TOKENIZER))] = 1.0
    with torch.no_grad():
        norm = float(model.model.norm(torch.eye(size)[:1]).max())  # a unit vector leaves the last norm this long
        head[TWINS[1], three] = 1.0 - gap / norm
        model.model.embed_tokens.weight.copy_(torch.eye(size)[: len(TOKENIZER)])
        model.lm_head.weight.copy_(head)
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
    return model.to(dtype)


@contextlib.contextmanager
def many_token_passes_round_up_the_other_twin(model, by):
    """Wherever the head sees more than one token, the logit of "!" comes out larger by `by`, as rounding might do."""

    def nudge(module, args, logits):
        if logits.shape[1] > 1:
            logits = logits.clone()
            logits[..., TWINS[1]] += by
        return logits

    hook = model.lm_head.register_forward_hook(nudge)
    try:
        yield
    finally:
        hook.remove()


def answered(model, by, prompt):
    """(greedy's ids, ids of a method that drafts the cycle), the second with many-token passes that round otherwise."""
    draft = draft_of([id_of(c) for c in "234123"], range(-1, 5))
    after_one = Scripted(lambda known, room: draft if known[-1] == id_of("1") else samlib.Draft.empty())
    with many_token_passes_round_up_the_other_twin(model, by):
        found = samlib.generate(model, prompt, drafter=after_one, max_new_tokens=8)
    return greedy(model, prompt, 8), found.tokens


def test_a_near_tie_is_found_where_it_is_with_its_gap():
    model, prompt = tie_model(1e-4), [id_of("0")]
    reference, found = answered(model, 2e-4, prompt)
    assert TOKENIZER.decode(reference) == "12341234" and TOKENIZER.decode(found) == "123!123!"
    verdict = compare(model, prompt, reference, found)
    assert (verdict.kind, verdict.position) == ("near_tie", 3)
    assert verdict.gap == pytest.approx(1e-4, rel=0.1)


def test_rounding_that_does_not_cross_the_gap_changes_nothing():
    reference, found = answered(tie_model(1e-4), 0.5e-4, [id_of("0")])
    assert reference == found


def test_the_same_with_a_gap_of_two_thousandths_is_a_difference():
    model, prompt = tie_model(2e-3), [id_of("0")]
    verdict = compare(model, prompt, *answered(model, 4e-3, prompt))
    assert (verdict.kind, verdict.position) == ("different", 3)
    assert verdict.gap == pytest.approx(2e-3, rel=0.1)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function (model, by, the lines of the table that round otherwise) -> the records of one round of six questions.

    A line rounds otherwise on the first question only. (Not one of the device's block, whose draft sizes are measured.)
    """
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(paths, "CORPUS", tmp_path / "corpus")
    (tmp_path / "corpus" / "answers").mkdir(parents=True)
    row = {"kind": "code", "prompt": "Count.", "answer": "Done."}
    (tmp_path / "corpus" / "answers" / "a.jsonl").write_text(json.dumps(row) + "\n")
    questions = [{"question_id": i, "category": t, "turns": [f"{WORDS} {t}"]} for i, t in enumerate(TASKS)]
    (tmp_path / "data" / "spec_bench").mkdir(parents=True)
    (tmp_path / "data" / "spec_bench" / "question.jsonl").write_text("".join(json.dumps(q) + "\n" for q in questions))
    monkeypatch.setenv("SAMLIB_DATA", str(tmp_path / "data"))

    def measure(model, by, *lines):
        answer = Contender.answer

        def rounding_otherwise(self, prompt_ids, max_new_tokens):
            chosen = (self.line.block, self.line.name) in lines and self.questions_seen == 0
            chosen = chosen and max_new_tokens == PROFILE.max_new_tokens  # not in the warm-up
            with many_token_passes_round_up_the_other_twin(model, by) if chosen else contextlib.nullcontext():
                return answer(self, prompt_ids, max_new_tokens)

        monkeypatch.setattr(runner, "load_model", lambda profile: (model, TOKENIZER))
        with monkeypatch.context() as patch:
            patch.setattr(Contender, "answer", rounding_otherwise)
            profile = dataclasses.replace(PROFILE, dtype=str(model.dtype).removeprefix("torch."))
            return runner.measure_table("table1", profile, progress=False).load()

    return measure


def cell(records, block, method):
    frame = table_rows("table1", records)
    rows = frame[(frame["block"] == block) & (frame["method"] == method) & (frame["task"] == "overall")]
    return rows["identical"].item()


def test_a_near_tie_passes_the_run_and_stands_apart_in_the_table(run):
    records = run(tie_model(1e-4), 2e-4, ("paper", "pld"))
    assert cell(records, "paper", "pld") == "5/6 + 1 near-tie"
    assert cell(records, "device", "pld") == cell(records, "paper", "sam") == "6/6"
    check_run(records)
    page = table_markdown(table_rows("table1", records), TABLE1)
    assert "5/6 + 1 near-tie" in page
    (gap,) = re.findall(r"- near-tie: question 0, pld \(paper\), token 3, gap (\S+)\n", page)
    assert float(gap) == pytest.approx(1e-4, rel=0.1)


def test_a_gap_above_a_thousandth_fails_the_run(run):
    records = run(tie_model(2e-3), 4e-3, ("paper", "pld"))
    assert cell(records, "paper", "pld") == "5/6 + 1 different"
    with pytest.raises(LosslessnessError, match=r"question 0, pld \(paper\), token 3, gap 0\.002"):
        check_run(records)


def test_two_near_ties_in_few_tokens_fail_the_run(run):
    records = run(tie_model(1e-4), 2e-4, ("paper", "pld"), ("paper", "sam"))
    assert cell(records, "paper", "pld") == cell(records, "paper", "sam") == "5/6 + 1 near-tie"
    with pytest.raises(LosslessnessError, match="2 near-ties in"):
        check_run(records)


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_half_precision_shows_every_difference_and_fails_for_none_that_rounding_explains(run, dtype):
    name, step = str(dtype).removeprefix("torch."), 16 * torch.finfo(dtype).eps
    records = run(tie_model(step, dtype), 2 * step, ("paper", "pld"), ("paper", "sam"))
    gap = next(r for r in records if r["method"] == "pld")["turns"][0]["comparison"]["gap"]
    words = f"5/6 + 1 different in {name} (largest gap {gap:.2g})"
    assert gap > 0 and cell(records, "paper", "pld") == cell(records, "paper", "sam") == words
    check_run(records)
    page = table_markdown(table_rows("table1", records), TABLE1)
    assert words in page and f"rounding: question 0, pld (paper), token 3, gap {gap:.2g} where {name} rounds by" in page


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_half_precision_fails_a_run_for_what_rounding_does_not_explain(run, dtype):
    records = run(tie_model(4.0, dtype), 8.0, ("paper", "pld"))
    assert cell(records, "paper", "pld") == "5/6 + 1 different beyond rounding"
    with pytest.raises(LosslessnessError, match=r"gap 4 where b?float16 rounds by"):
        check_run(records)


# ---- nothing made up: what half precision does by itself ----


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_loop_in_half_precision_differs_by_rounding_at_most(dtype, attention):
    """Small weights, so that logits are close; copied drafts of the oracle's own answer, as chains and as trees."""
    for seed in range(3):
        model = half_model(dtype, attention, seed)
        prompt = random_prompt(seed, 10) * 2
        reference = greedy(model, prompt, 40)
        for branches in (1, 2):
            drafter = Scripted(partial(copied, [*prompt, *reference], branches))
            found = samlib.generate(model, prompt, drafter=drafter, max_new_tokens=40).tokens
            assert compare(model, prompt, reference, found).kind in ("identical", "rounding")


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_tree_in_half_precision_is_finite_and_sees_its_own_path(dtype, attention):
    """The mask is of the model's dtype and finite in it; each node agrees with a plain pass within rounding."""
    model, prompt, root = half_model(dtype, attention, 0), random_prompt(3, 9), 2
    draft = draft_of([5, 9, 11, 12, 3], [-1, -1, 1, 1, 3])
    target = TargetModel(model)
    target.prefill(np.array(prompt, dtype=np.int32))
    logits = target.verify(root, draft).logits.float()
    assert torch.isfinite(logits).all()
    for row, path in enumerate([[], [5], [9], [9, 11], [9, 12], [9, 12, 3]]):
        with torch.no_grad():
            plain = model(torch.tensor([[*prompt, root, *path]])).logits[0, -1].float()
        torch.testing.assert_close(logits[row], plain, atol=0.05, rtol=0.05)


def half_model(dtype, attention, seed):
    return copy.deepcopy(random_model("llama", attention, seed=seed, initializer_range=0.1)).to(dtype)


def copied(whole, branches, known, room):
    """The next tokens of `whole`, once or (a tree) beside a wrong first token."""
    tokens = whole[len(known) : len(known) + 6]
    if not tokens or branches == 1:
        return draft_of(tokens, range(-1, len(tokens) - 1))
    return draft_of([(tokens[0] + 1) % 64, *tokens], [-1, -1, *range(1, len(tokens))])
