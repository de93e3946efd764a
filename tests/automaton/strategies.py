"""Hypothesis strategies for token sequences: few symbols give long overlapping matches, large ids test the id range."""

from hypothesis import strategies as st

LARGEST_ID = 2**31 - 1
SMALL_IDS = [[0], [0, 1], [0, 1, 2], list(range(50))]
FEW_IDS = [*SMALL_IDS, [0, 1, LARGEST_ID - 1, LARGEST_ID]]


@st.composite
def texts(draw, max_size=40, alphabets=FEW_IDS):
    """A token list over one of the alphabets, half of the time made of repeated phrases."""
    alphabet = draw(st.sampled_from(alphabets))
    token = st.sampled_from(alphabet)
    if draw(st.booleans()):
        return draw(st.lists(token, max_size=max_size))
    phrases = draw(st.lists(st.lists(token, min_size=1, max_size=5), min_size=1, max_size=3))
    order = draw(st.lists(st.integers(0, len(phrases) - 1), max_size=max_size // 4))
    return [token for index in order for token in phrases[index]][:max_size]


@st.composite
def corpora(draw, max_documents=6, max_size=14, alphabets=FEW_IDS):
    """Documents over one alphabet, empty and duplicate ones among them."""
    alphabet = draw(st.sampled_from(alphabets))
    document = st.lists(st.sampled_from(alphabet), max_size=max_size)
    documents = draw(st.lists(document, max_size=max_documents))
    copies = draw(st.lists(st.sampled_from(documents), max_size=2)) if documents else []
    return documents + copies


@st.composite
def corpora_and_queries(draw):
    """A corpus and a query of pieces of its documents, joined with ids that may be foreign to it."""
    documents = draw(corpora())
    known = sorted({token for document in documents for token in document})
    token = st.sampled_from([*known, 7, LARGEST_ID])
    query = draw(st.lists(token, max_size=6))
    for document in draw(st.lists(st.sampled_from(documents), max_size=2)) if documents else []:
        start = draw(st.integers(0, len(document)))
        query += document[start:] + draw(st.lists(token, max_size=2))
    return documents, query


def chunkings(sequence):
    """Ways to cut a sequence into consecutive pieces, empty ones among them."""
    cuts = st.lists(st.integers(0, len(sequence)), max_size=4).map(sorted)
    return cuts.map(lambda at: [sequence[i:j] for i, j in zip([0, *at], [*at, len(sequence)], strict=True)])
