"""What must hold in every index, checked by looking at all of it; for tests and after a suspicious file."""

import numpy as np

from samlib.automaton.index_file import NODE_FIELDS


def check_index(arrays):
    """AssertionError unless the arrays of an index agree with each other. Time and memory: a few passes over it."""
    node = dict(zip(NODE_FIELDS, arrays["nodes"].T.astype(np.int64), strict=True))
    _check_links(node)
    _check_edges(arrays, node)
    _check_counts(arrays, node)
    _check_special(arrays, node)


def _owners(starts):
    """Per edge, the node that it leaves."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _check_links(node):
    """Each node but the root links to one with a shorter longest string, that occurs at least as often."""
    link, length, count = node["link"][:-1], node["length"][:-1], node["count"][:-1]
    assert link[0] == -1 and length[0] == 0, "the root is the first node"
    assert (link[1:] >= 0).all() and (link[1:] < len(link)).all()
    assert (length[link[1:]] < length[1:]).all(), "a link that does not shorten"
    assert (link[1:] == 0).all() or (count[link[link > 0]] >= count[link > 0]).all(), "a suffix that is rarer"


def _check_edges(arrays, node):
    """Labels begin with the token of their edge and lie in one document; the edges of a node are in order."""
    text, ends, target = arrays["text"], arrays["document_ends"], arrays["inner_target"]
    inner_owner, leaf_owner = _owners(node["inner"]), _owners(node["leaf"])
    start = node["first"][target] - arrays["inner_length"]
    assert (start >= 0).all() and (text[start] == arrays["inner_token"]).all()
    assert (text[arrays["leaf_start"]] == arrays["leaf_token"]).all()
    assert (_document(ends, start) == _document(ends, node["first"][target] - 1)).all(), "a label in two documents"
    grown = node["length"][inner_owner] + arrays["inner_length"]
    assert (grown <= node["length"][target]).all() and (grown > node["length"][node["link"][target]]).all()
    order = np.stack([inner_owner, -node["count"][target], arrays["inner_token"].astype(np.int64)])
    assert _rising(order), "inner edges are not in the order of their counts"
    assert _rising(np.stack([leaf_owner, arrays["leaf_token"].astype(np.int64)])), "leaf edges are not in order"
    pairs = np.concatenate([[inner_owner, arrays["inner_token"]], [leaf_owner, arrays["leaf_token"]]], axis=1)
    assert len(np.unique(pairs, axis=1).T) == pairs.shape[1], "two edges of a node begin alike"


def _document(ends, positions):
    return np.searchsorted(ends, positions, side="right")


def _rising(columns):
    """True if the columns' rows rise strictly, compared as tuples."""
    keys = list(map(tuple, columns.T.tolist()))
    return all(a < b for a, b in zip(keys, keys[1:], strict=False))


def _check_counts(arrays, node):
    """A node occurs where its edges do, and where documents end; only the root and ends of documents may exceed."""
    inner_owner, leaf_owner = _owners(node["inner"]), _owners(node["leaf"])
    nodes = len(node["link"]) - 1
    followed = np.bincount(leaf_owner, minlength=nodes)
    followed = followed + np.bincount(inner_owner, weights=node["count"][arrays["inner_target"]], minlength=nodes)
    ended = node["count"][:-1] - followed
    assert (ended >= 0).all(), "more continuations than occurrences"
    degree = np.diff(node["inner"]) + np.diff(node["leaf"])
    assert ((degree > 1) | (ended > 0))[1:].all(), "a node at which nothing happens"
    assert (node["first"] <= node["latest"]).all()
    assert followed[0] == len(arrays["text"]), "the tokens of the text are the occurrences below the root"


def _check_special(arrays, node):
    """Special nodes know where they go on, and their tables lead to each of their inner edges."""
    degree, starts = np.diff(node["inner"]), arrays["table_start"]
    assert starts[0] == 0 and starts[-1] == len(arrays["table"]) and (np.diff(starts) >= 0).all()
    for number in np.flatnonzero(np.diff(starts)):
        entries = arrays["table"][starts[number] : starts[number + 1]]
        assert sorted(entries[entries >= 0]) == list(range(degree[number])), f"the table of node {number}"
    assert (degree[len(starts) - 1 :] <= 32).all(), "a node of many edges without a table"
    for number in range(len(starts) - 1):
        ways = _ways(arrays, node, number)
        if len(ways):
            assert arrays["special_first"][number] == ways[:, 0].min(), f"node {number} goes on earlier"
            assert arrays["special_latest"][number] == ways[:, 1].max(), f"node {number} goes on later"


def _ways(arrays, node, number):
    """Per edge of a node, where its first and its last occurrence continues."""
    inner = slice(node["inner"][number], node["inner"][number + 1])
    leaf = arrays["leaf_start"][node["leaf"][number] : node["leaf"][number + 1]]
    ends = np.stack([node[name][arrays["inner_target"][inner]] for name in ("first", "latest")], axis=1)
    return np.concatenate([ends - arrays["inner_length"][inner, None], np.stack([leaf, leaf], axis=1)])
