"""sam_auto in plain Python: matches by searching lists, weights in a dict, trees by sorting all candidates."""

import math

import numpy as np

NUM_RANKS = 8
MOST_EDGES = 32


def occurrences(text, part):
    """The positions after each occurrence of `part` in a list."""
    n = len(part)
    return [end for end in range(n, len(text) + 1) if text[end - n : end] == part]


def length_class(length):
    return next(i for i, most in enumerate((1, 2, 3, 4, 6, 9, 15, 31, math.inf)) if length <= most)


def count_class(count):
    return 0 if count <= 1 else 1 if count <= 3 else 2


class NaiveAuto:
    """The text, the documents, the rows and the weights; what may come next, and which tree is the best."""

    def __init__(self, prior, documents, rate, worth):
        self.weights = {(kind, *place): w for kind, part in prior.items() for place, w in np.ndenumerate(part)}
        self.squares = dict.fromkeys(self.weights, worth)
        self.documents, self.rate, self.worth = documents, rate, worth
        self.text, self.rows, self.pairs = [], {}, {}

    # --- what may come next

    def matches_in_text(self, path):
        """[(suffix, {token: count}, latest token or None)]: the longest that goes on in the text, and two shorter."""
        whole, found, known = self.text + path, [], None
        own = self.match_ends()
        for n in range(min(len(whole), len(self.text)), 0, -1):
            suffix = whole[-n:]
            ends = occurrences(self.text, suffix)
            following = [self.text[end] for end in ends if end < len(self.text)]
            if not following or len(ends) == known or len(found) == 3:
                continue
            known = len(ends)
            found.append((suffix, self.counted(following), self.latest(ends, own)))
        return found

    def match_ends(self):
        """Where the longest suffix of the text that occurs earlier ends."""
        for n in range(len(self.text) - 1, 0, -1):
            ends = occurrences(self.text, self.text[-n:])
            if len(ends) > 1:
                return ends
        return None

    def latest(self, ends, own):
        if ends == own:
            return self.text[ends[-2]]
        return self.text[ends[-1]] if ends[-1] < len(self.text) else None

    def matches_in_documents(self, path):
        """[(suffix, {token: count}, occurrences)], likewise in the documents."""
        whole, found, known = self.text + path, [], None
        for n in range(len(whole), 0, -1):
            ends = [(d, end) for d in self.documents for end in occurrences(d, whole[-n:])]
            following = [d[end] for d, end in ends if end < len(d)]
            if not following or len(ends) == known or len(found) == 3:
                continue
            known = len(ends)
            found.append((whole[-n:], self.counted(following), len(ends)))
        return found

    @staticmethod
    def counted(tokens):
        return {token: tokens.count(token) for token in set(tokens)}

    def options(self, path=()):
        """{token: [(weight's name, times what)]}: what speaks for and against each token."""
        path = list(path)
        whole = [None, None, *self.text, *path]
        sources, latest = [], None
        for match, (suffix, counts, last) in enumerate(self.matches_in_text(path)):
            if match == 0 and len(counts) <= MOST_EDGES:
                latest = (last, len(suffix))
            if len(counts) <= MOST_EDGES:
                sources.append((match, len(suffix), counts, sum(counts.values())))
        for match, (suffix, counts, total) in enumerate(self.matches_in_documents(path)):
            sources.append((3 + match, len(suffix), counts, total))
        row, pair = self.rows.get(whole[-1]), self.pairs.get((whole[-2], whole[-1]))
        tokens = {token for _, _, counts, _ in sources for token in counts} | {*(row or ()), *(pair or ())}
        return {token: self.evidence(token, sources, latest, row, pair) for token in tokens}

    def evidence(self, token, sources, latest, row, pair):
        found = []
        for match, length, counts, total in sources:
            place = length_class(length)
            if token in counts:
                found.append((("hit", match, place, count_class(total)), 1.0))
                found.append((("share", match, place), float(np.float32(math.log(counts[token] / total)))))
            else:
                found.append((("miss", match, place), 1.0))
        if latest is not None and latest[0] == token:
            found.append((("latest", length_class(latest[1])), 1.0))
        for kind, ids in (("row", row), ("pair", pair)):
            if ids is not None:
                found.append(((kind, ids.index(token) if token in ids else NUM_RANKS), 1.0))
        return found

    def probabilities(self, options):
        weights = {
            token: math.exp(max(-30.0, min(30.0, sum(self.weights[name] * value for name, value in evidence))))
            for token, evidence in options.items()
        }
        total = 1.0 + sum(weights.values())
        return {token: weight / total for token, weight in weights.items()}

    # --- learning

    def extend(self, tokens, learn):
        for token in tokens:
            if learn:
                self.learn(token)
            self.text.append(token)

    def learn(self, token):
        options = self.options()
        probabilities = self.probabilities(options)
        gradients = {}
        for option, evidence in options.items():
            error = (option == token) - probabilities[option]
            for name, value in evidence:
                gradients[name] = gradients.get(name, 0.0) + error * value
        for name, gradient in gradients.items():
            self.squares[name] += gradient**2
            self.weights[name] += self.rate * gradient / math.sqrt(self.squares[name])

    def see(self, before, tokens, parents, top):
        for token, parent, ids in zip(tokens, parents, top, strict=True):
            self.rows[token] = list(ids[:NUM_RANKS])
            previous = tokens[parent] if parent >= 0 else before
            if previous is not None:
                self.pairs[previous, token] = list(ids[:NUM_RANKS])

    # --- the tree

    def tree(self, room, cost):
        """(paths in the order in which they are taken, the number of them that is best, their probabilities)."""
        paths, chances = [], []
        waiting = self.children((), 1.0)
        while waiting and len(paths) < len(cost) - 1:
            path = max(waiting, key=waiting.get)
            chance = waiting.pop(path)
            paths.append(path)
            chances.append(chance)
            if len(path) < room:
                waiting |= self.children(path, chance)
        rates = [(1 + sum(chances[:n])) / cost[n] for n in range(len(paths) + 1)]
        return paths, int(np.argmax(rates)), chances

    def children(self, path, chance):
        found = self.probabilities(self.options(path))
        return {(*path, token): chance * probability for token, probability in found.items()}
