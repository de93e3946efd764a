"""REST: a tree of what followed the last tokens in a fixed text store, merged by frequency.

Source: He et al. 2023 (arXiv 2311.08252), in the form of Spec-Bench: spans of 16 tokens, then 15, … 2; at the longest
one that the store holds, the next 10 tokens of every occurrence, merged into a tree of at most 64 nodes.

The store is the static index, whose counts are exact: the original looks at 5,000 occurrences at most. Documents never
run into each other, and where no span is found, nothing is drafted (Spec-Bench drafts a made-up token there).

The package `draftretriever` 0.1.1 on PyPI is no second backend of this: despite its name it is not REST's index, but
that of a later method. It looks at the last two tokens only and goes on from every two tokens to a third, so that it
drafts passages that stand in no document; it reaches four tokens deep, and aborts the process on a query of one token.
Tests show where the two agree: on what follows two tokens, if that is one token or two, and on four tokens of a passage
whose every two tokens stand nowhere else.
"""

from samlib.automaton import Draft, StaticAutomaton
from samlib.drafters.protocol import Drafter
from samlib.errors import MissingAssetError

DRAFT_SIZE = 64
MAX_NGRAM = 16
MIN_NGRAM = 2
CONTINUATION = 10


class Rest(Drafter):
    """Drafts the most frequent continuations, `continuation` tokens deep, of the longest n-gram that `static` holds.

    static: a StaticAutomaton, the datastore. draft_size: nodes of the tree at most. max_ngram, min_ngram: longest and
    shortest span of the text so far that is looked for. The source of its drafts is "static".

    Raises MissingAssetError without a static, ValueError where max_ngram is below min_ngram.
    """

    def __init__(
        self, static, draft_size=DRAFT_SIZE, max_ngram=MAX_NGRAM, min_ngram=MIN_NGRAM, continuation=CONTINUATION
    ):
        if static is None:
            raise MissingAssetError(
                "rest needs a datastore: give static=samlib.StaticAutomaton.from_texts(texts, tokenizer) over texts of "
                "your own, or static=samlib.StaticAutomaton.load(path) of one that was saved"
            )
        if not isinstance(static, StaticAutomaton):
            raise TypeError(f"static must be a StaticAutomaton, not {type(static).__name__}")
        if max_ngram < min_ngram:
            raise ValueError(f"max_ngram={max_ngram} must not be below min_ngram={min_ngram}")
        self._cursor = static.cursor(max_match_length=max_ngram)
        self.draft_size = draft_size
        self.min_ngram = min_ngram
        self.continuation = continuation

    def begin(self, prompt):
        self._cursor.reset()
        self._cursor.advance(prompt)

    def observe(self, emitted, verified=None):
        self._cursor.advance(emitted)

    def propose(self, room):
        if room == 0 or self._cursor.match_length < self.min_ngram:
            return Draft.empty()
        return self._cursor.draft_tree(self.draft_size, max_depth=min(self.continuation, room))

    def reset(self):
        self._cursor.reset()
