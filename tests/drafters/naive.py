"""REST and SuffixDecoding by their definitions, over lists of tokens: slow, and free of automata."""

import math

from ..automaton.naive import NaiveStatic, prefix_counts


def rest_tree(documents, known, *, draft_size=64, max_ngram=16, min_ngram=2, continuation=10, room=10**6):
    """(span, counts): the longest span of `known` that goes on in a document, and the draft_size best counts below it.

    counts: {path: occurrences} of all paths that may be drafted. (0, {}) where there is no span.
    """
    static = NaiveStatic(documents)
    for span in range(min(max_ngram, len(known)), min_ngram - 1, -1):
        found = static.occurrences(known[len(known) - span :])
        if found:
            depth = min(continuation, room)
            rests = [tuple(static.documents[index][end:][:depth]) for index, end in found]
            return span, prefix_counts(rests)
    return 0, {}


def suffix_candidates(documents, known, *, max_match_length=64):
    """(source, match length, continuations, occurrences) of every match: the text's first, the longest first."""
    for source, texts in (("dynamic", [known]), ("static", documents)):
        for length in range(min(max_match_length, len(known)), 0, -1):
            rests = [rest for text in texts for rest in _following(text, known[len(known) - length :])]
            if source == "dynamic":
                rests.remove(())  # what ends the text has not gone on yet
            if any(rests):
                yield source, length, [rest for rest in rests if rest], len(rests)


def _following(text, pattern):
    """What follows each occurrence of a pattern in a text; () where the text ends."""
    size = len(pattern)
    return [tuple(text[end:]) for end in range(size, len(text) + 1) if text[end - size : end] == pattern]


def suffix_tree(
    documents, known, *, draft_size=64, max_spec_factor=1.0, min_token_prob=0.1, max_match_length=64, room=10**6
):
    """(source, match length, counts of the nodes taken, best first, counts of all paths, occurrences) of the best tree.

    None where nothing is to be drafted.
    """
    best, best_score = None, 0.0
    for source, length, rests, of in suffix_candidates(documents, known, max_match_length=max_match_length):
        size = math.floor(min(draft_size, max_spec_factor * length + 1e-6))
        counts = prefix_counts(rest[: min(size, room)] for rest in rests)
        taken = sorted((count for count in counts.values() if count / of >= min_token_prob), reverse=True)[:size]
        if sum(taken) / of > best_score:
            best, best_score = (source, length, taken, counts, of), sum(taken) / of
    return best
