"""The package DraftRetriever, for a child process: it may end the process that it runs in."""

import numpy as np

from samlib.bench.peers import DraftRetriever


def search(documents, queries):
    """Yield {"paths": every path of the tree that it drafts after a query's last two tokens}, a query at a time."""
    retriever = DraftRetriever()
    vocab_size = 1 + max(token for document in documents for token in document)
    retriever.build(retriever.prepare([np.array(document) for document in documents], vocab_size))
    for query in queries:
        found = retriever.lookup(query[-1], np.array(query))
        paths = {tuple(path[:depth]) for path in found for depth in range(1, len(path) + 1) if path[depth - 1] >= 0}
        yield {"paths": sorted(paths)}
