"""HAGRID: search answered in prose. A question, numbered passages, and an answer that cites them like [1].

The questions are those of HAGRID's dev split in the user's data folder, else the embedded stand-in's. The training
split (or stand-in) is the corpus of the static automaton: question, passages and cited answer of every row.
"""

from samlib import paths
from samlib.bench.question import Question, embedded_file, own_file, parsed, read_rows, required_list, required_text

FOLDERS = ("hagrid", "hagrid/hagrid-v1.0-en")  # the second as in a copy of the data set's repository
SHAPE = "query_id, query and quotes (a list of objects with a text)"
DOCUMENT_RULE = "query, numbered passages, all answers"  # part of an index's key: another rule is another index
TRAINING_SHAPE = "query, quotes (a list of objects with a text) and answers (a list of objects with an answer)"

PROMPT = (
    "{passages}\n\nQuestion: {query}\n\n"
    "Answer the question with what the passages say, and mark every statement with the number of the passage that it "
    "comes from, like [1]."
)


def hagrid_files():
    """[the user's own dev.jsonl], else [the embedded test file]; SetupError where neither is there."""
    return _own("dev") or [embedded_file(paths.HAGRID_LIKE / "test.jsonl")]


def hagrid_source():
    """The name for captions."""
    return "HAGRID" if _own("dev") else "embedded HAGRID-like questions"


def hagrid_rows():
    """Yield ("file:line", row) for every question."""
    (file,) = hagrid_files()
    return read_rows(file)


def hagrid_question(row):
    """The Question of a row: numbered passages, the query, and the instruction to cite."""
    number = row["query_id"]
    number = int(number) if str(number).isdecimal() else required_text(row, "query_id")
    prompt = PROMPT.format(passages=numbered_passages(row), query=required_text(row, "query").strip())
    return Question(number, "hagrid", (prompt,))


def numbered_passages(row):
    """The row's passages as one text, each with its number in brackets, counted from 1 in the file's order."""
    texts = [required_text(quote, "text").strip() for quote in required_list(row, "quotes")]
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(texts, start=1))


def training_files():
    """[the user's own train.jsonl], else [the embedded one]; SetupError where neither is there."""
    return _own("train") or [embedded_file(paths.HAGRID_LIKE / "train.jsonl")]


def training_source():
    """The corpus's name for captions."""
    return "HAGRID's training split" if _own("train") else "embedded HAGRID-like training documents"


def training_documents():
    """Yield {"kind", "prompt", "answer"} for every training row. SetupError: a row is not as it must be."""
    (file,) = training_files()
    for where, row in read_rows(file):
        yield parsed(_training_document, row, where, TRAINING_SHAPE)


def _training_document(row):
    """Query and passages without the instruction, which would only be found again in prompts; then all answers."""
    prompt = f"{required_text(row, 'query').strip()}\n\n{numbered_passages(row)}"
    answers = [required_text(answer, "answer").strip() for answer in required_list(row, "answers")]
    return {"kind": "hagrid", "prompt": prompt, "answer": "\n\n".join(answers)}


def _own(split):
    return own_file([f"{folder}/{split}.jsonl" for folder in FOLDERS])
