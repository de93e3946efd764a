"""The greedy answers to a profile's questions, recorded once for every replay.

They are kept in `runs/<profile>/trajectories/<data set>.jsonl`, a line a turn, so that a call that was stopped goes on;
with nothing missing the model is not loaded. Token ids of questions are in these files, which stay out of git.
"""

from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from samlib import make_drafter, paths
from samlib.bench.cost import cached_cost
from samlib.bench.data import data_source, load_questions, question_files, rounds
from samlib.bench.kernels import cpu_kernels
from samlib.bench.model import load_model, model_identity
from samlib.bench.packages import sha256_of
from samlib.bench.profiles import load_profile
from samlib.bench.prompts import answer_text, prompt_ids
from samlib.bench.records import RecordStore, settings_key
from samlib.bench.replay import Trajectory, record
from samlib.bench.threads import settle_threads

TOP_K = 8  # of the largest logits, for Token Recycling


class Recorded(NamedTuple):
    """One turn: its question, its task, its number in the question, and the Trajectory."""

    question_id: int | str
    task: str
    turn: int
    trajectory: Trajectory


def recorded_answers(profile, dataset="spec_bench", *, most_rounds=None, progress=True):
    """The Recorded turns of a data set's questions, those that are not on file recorded now.

    most_rounds: of one question a task, in the order in which the tables measure them; None for all questions.
    """
    profile = load_profile(profile)
    groups = rounds(load_questions(profile, dataset), profile.seed)[:most_rounds]
    questions = [question for group in groups for question in group]
    store = RecordStore(paths.runs_dir(profile.name) / "trajectories" / f"{dataset}.jsonl")
    keys = _keys(profile, dataset, questions)
    missing = [question for question in questions if not all(map(store.has, keys[question.question_id]))]
    if missing:
        recorder = _Recorder(profile, progress)
        for question in tqdm(missing, desc="greedy answers (once)", unit="question", disable=not progress):
            for key, (turn, trajectory) in zip(keys[question.question_id], recorder.turns(question), strict=True):
                store.append({"key": key, "dataset": data_source(profile, dataset)} | _fields(turn, trajectory))
    return [
        Recorded(question.question_id, question.category, turn, _trajectory(store.get(key)))
        for question in questions
        for turn, key in enumerate(keys[question.question_id])
    ]


class _Recorder:
    """The model, and how it answers a question."""

    def __init__(self, profile, progress):
        self._profile = profile
        self._model, self._tokenizer = load_model(profile)
        settle_threads(self._model, profile)
        self._drafter = make_drafter("sam_auto", cost=cached_cost(profile, self._model, progress=progress))

    def turns(self, question):
        """Yield (number, Trajectory) of each turn; a later turn's prompt holds the answers before."""
        messages = []
        for number, text in enumerate(question.turns):
            messages.append({"role": "user", "content": text})
            ids = prompt_ids(self._tokenizer, messages)
            with cpu_kernels(self._profile, self._model):
                trajectory = record(
                    self._model, ids, self._drafter, max_new_tokens=self._profile.max_new_tokens, top_k=TOP_K
                )
            messages.append({"role": "assistant", "content": answer_text(self._tokenizer, trajectory.tokens.tolist())})
            yield number, trajectory


def _keys(profile, dataset, questions):
    """{question id: the key of each turn}: they change with all that an answer depends on."""
    files = [sha256_of(path) for path in question_files(dataset)]
    of_all = [model_identity(profile), profile.dtype, profile.max_new_tokens, TOP_K, files]
    return {
        question.question_id: [
            settings_key([*of_all, question.question_id, turn]) for turn in range(len(question.turns))
        ]
        for question in questions
    }


def _fields(turn, trajectory):
    """A trajectory as JSON types."""
    return {
        "turn": turn,
        "prompt": trajectory.prompt.tolist(),
        "tokens": trajectory.tokens.tolist(),
        "limit": trajectory.limit,
        "finish_reason": trajectory.finish_reason,
        "top": trajectory.top.tolist(),
    }


def _trajectory(fields):
    top = np.array(fields["top"], dtype=np.int32).reshape(len(fields["tokens"]) - 1, -1)
    prompt, tokens = (np.array(fields[name], dtype=np.int32) for name in ("prompt", "tokens"))
    return Trajectory(prompt, tokens, fields["limit"], fields["finish_reason"], top)
