"""Random cases for the fuzz: corpora, texts and queries of the shapes that suffix automata find hard.

How they are drawn, and why. Two cases of three are tiny: nearly every wrong split, link or count shows in some text of
at most 40 tokens over one to three symbols, thousands of those are checked a minute, and what fails is short already.
The others have hundreds or thousands of tokens, for what only size brings about: arrays that grow, edge blocks that
widen and are hashed, counts of more than a byte. The shapes of a text are the extreme cases of the theory: one token
(the deepest link chain), periodic and Fibonacci texts (most clones and overlaps), all different (the widest root), a
fan (one context, many continuations: the widest inner state), long blocks and phrases that come again (what drafting
lives on). Documents are cut from, or edits of, each other as often as they are new: what a boundary breaks shows only
where texts on both sides agree. Queries quote, cross from one document into another, and hold foreign ids.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .strategies import LARGEST_ID

ALPHABETS = (1, 2, 3, 50, 50_000)
SIZES = ((0.68, 40), (0.26, 400), (0.055, 5000), (0.005, 20_000))  # share of the cases, tokens at most
WIDEST_FAN = 300


@dataclass(frozen=True)
class Case:
    """One case: what is built, what is asked, and how the tokens are handed over.

    documents: of a static index, or None for the dynamic automata. text: what the cursor or the automaton is told.
    cuts: where the text is cut into pieces; every answer is compared after each piece. before: told first, then
    forgotten by `reset`. n: size of the drafts. stored: "" | "mapped" | "read", how the index goes through a file.
    """

    documents: list[list[int]] | None
    text: list[int]
    cuts: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    n: int = 8
    stored: str = ""

    @property
    def pieces(self):
        """The text in the pieces that it is handed over in."""
        return [self.text[i:j] for i, j in pairwise([0, *sorted(self.cuts), len(self.text)])]

    @property
    def tokens(self):
        """How many tokens there are in all."""
        return len(self.text) + len(self.before) + sum(map(len, self.documents or ()))


def random_case(seed, number):
    """The case of this number: the same for the same seed."""
    rng = np.random.default_rng([seed, number])
    size = int(rng.choice([most for _, most in SIZES], p=[share for share, _ in SIZES]))
    symbols = _symbols(rng)
    if rng.random() < 0.5:
        documents, text = None, _text(rng, symbols, min(size, 5000))
    else:
        documents = _documents(rng, symbols, size)
        text = _query(rng, symbols, documents, min(size, 300))
    before = _text(rng, symbols, 30) if rng.random() < 0.3 else []
    n = int(rng.choice([0, 1, 3, 8, 60], p=[0.02, 0.18, 0.3, 0.4, 0.1]))
    stored = str(rng.choice(["", "mapped", "read"], p=[0.6, 0.25, 0.15])) if documents is not None else ""
    return Case(documents, text, _cuts(rng, len(text)), tuple(before), n, stored)


def _symbols(rng):
    """An alphabet (int64 array): dense from 0, or spread over all ids with both ends among them."""
    size = int(rng.choice(ALPHABETS, p=[0.1, 0.3, 0.25, 0.25, 0.1]))
    if rng.random() < 0.7:
        return np.arange(size)
    spread = rng.integers(0, LARGEST_ID, size)
    spread[0], spread[-1] = 0, LARGEST_ID
    return spread


def _text(rng, symbols, most):
    """At most `most` tokens of one of the shapes, as a list."""
    size = int(rng.integers(0, most + 1))
    shape = SHAPES[rng.integers(len(SHAPES))]
    return [int(token) for token in symbols[np.asarray(shape(rng, len(symbols), size), dtype=np.int64)[:size]]]


def _uniform(rng, k, size):
    return rng.integers(0, k, size)


def _uneven(rng, k, size):
    """Low symbols more often, as words are."""
    return (k * rng.random(size) ** 3).astype(np.int64)


def _one(rng, k, size):
    return np.full(size, rng.integers(k))


def _different(rng, k, size):
    return np.arange(size) % k


def _periodic(rng, k, size):
    return np.resize(rng.integers(0, k, rng.integers(1, 8)), size)


def _fibonacci(rng, k, size):
    word, following = [0], [0, min(1, k - 1)]
    while len(following) < size:
        word, following = following, following + word
    return following


def _runs(rng, k, size):
    lengths = rng.geometric(0.3, size)
    return np.repeat(rng.integers(0, k, size), lengths)


def _phrases(rng, k, size):
    phrases = [rng.integers(0, k, rng.integers(1, 9)) for _ in range(rng.integers(1, 6))]
    order = rng.integers(0, len(phrases), size)
    return np.concatenate([phrases[0], *[phrases[i] for i in order]])


def _block(rng, k, size):
    """A long block again and again, with a token or two between."""
    block = rng.integers(0, k, max(size // 4, 1))
    parts = [part for _ in range(4) for part in (block, rng.integers(0, k, rng.integers(0, 3)))]
    return np.concatenate(parts)


def _fan(rng, k, size):
    """One context before many tokens; later its end alone comes again, so that the wide state is split."""
    width, length = int(rng.integers(1, WIDEST_FAN)), int(rng.integers(1, 4))
    rows = np.zeros((max(size // (length + 1), 1), length + 1), dtype=np.int64)
    rows[:, 0] = min(1, k - 1)
    rows[:, length] = rng.integers(0, k, len(rows)) % width
    rows[int(rng.integers(len(rows))) :, 0] = min(2, k - 1)
    return rows.ravel()


def _edited(rng, k, size):
    """A text and copies of it in which some tokens are others."""
    original = rng.integers(0, k, max(size // 3, 1))
    copies = [np.where(rng.random(len(original)) < 0.1, rng.integers(0, k, len(original)), original) for _ in range(3)]
    return np.concatenate(copies)


SHAPES = (_uniform, _uneven, _one, _different, _periodic, _fibonacci, _runs, _phrases, _block, _fan, _edited)


def _documents(rng, symbols, most):
    """Documents of at most `most` tokens in all: new ones, relatives of earlier ones, empty ones; or many tiny ones."""
    tiny = rng.random() < 0.15
    longest = 3 if tiny else max(most // int(rng.integers(1, 8)), 1)
    documents, room = [], int(rng.integers(0, most + 1))
    for _ in range(most if tiny else int(rng.integers(0, 12))):
        document = _relative(rng, symbols, documents) if documents and rng.random() < 0.5 else None
        document = (_text(rng, symbols, longest) if document is None else document)[:room]
        documents.append(document)
        room -= len(document)
        if not room:
            break
    return documents


def _relative(rng, symbols, documents):
    """A document made of an earlier one: a copy, its front, its back, with one token more, with a part changed."""
    base = documents[rng.integers(len(documents))]
    start, stop = sorted(rng.integers(0, len(base) + 1, 2).tolist())
    token = int(symbols[rng.integers(len(symbols))])
    kinds = (
        base,
        base[:stop],
        base[start:],
        [token, *base],
        [*base, token],
        [*base[:start], token, *base[stop:]],
        [],
        [token],
    )
    return list(kinds[rng.integers(len(kinds))])


def _query(rng, symbols, documents, most):
    """Quotations, crossings from document to document, foreign ids and noise, one after the other."""
    query, wanted = [], int(rng.integers(0, most + 1))
    while len(query) < wanted:
        query += _piece(rng, symbols, documents)
    return query[:wanted]


def _piece(rng, symbols, documents):
    kind = rng.random()
    if kind < 0.1 or not documents:
        return [int(rng.integers(0, LARGEST_ID + 1))]
    if kind < 0.25:
        return rng.choice(symbols, rng.integers(1, 4)).tolist()
    document = documents[rng.integers(len(documents))]
    start = int(rng.integers(0, len(document) + 1))
    if kind < 0.5:
        return document[start:] + documents[rng.integers(len(documents))][:8]  # ends one document, begins another
    return document[start : start + int(rng.geometric(0.1))] or [0]


def _cuts(rng, size):
    """Where to cut `size` tokens: after each one, or in a few places, so that pieces may be empty."""
    if rng.random() < 0.4 and size <= 60:
        return tuple(range(1, size))
    return tuple(sorted(rng.integers(0, size + 1, rng.integers(0, 12)).tolist()))
