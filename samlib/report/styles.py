"""One fixed look and one fixed name for every method, task and block: the same everywhere, in figures and in tables."""

from dataclasses import dataclass
from pathlib import Path

from matplotlib import style

STYLE_FILE = Path(__file__).with_name("style.mplstyle")
COLUMN_WIDTH, PAGE_WIDTH = 3.4, 7.0  # inches: one column and both columns of a paper

# Okabe and Ito's palette: distinct for colour-blind readers. Markers and line styles keep methods apart in grey.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE, GREY = "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#777777"


@dataclass(frozen=True)
class MethodStyle:
    """How a method is named and drawn: label for readers, colour (hex), matplotlib marker and line style."""

    label: str
    color: str
    marker: str
    linestyle: str


METHOD_STYLES = {
    "autoregressive": MethodStyle("Autoregressive", BLACK, "|", ":"),
    "pld": MethodStyle("PLD", ORANGE, "s", "--"),
    "rest": MethodStyle("REST", YELLOW, "<", "-."),
    "lookahead": MethodStyle("Lookahead", YELLOW, ">", ":"),
    "token_recycling": MethodStyle("Token Recycling", GREEN, "^", "-."),
    "eagle": MethodStyle("EAGLE", PURPLE, "v", "--"),
    "eagle2": MethodStyle("EAGLE-2", PURPLE, "P", "-"),
    "sam": MethodStyle("SAM", BLUE, "o", "-"),
    "sam[t]": MethodStyle("SAM[T]", VERMILLION, "D", "-"),
    "sam[e]": MethodStyle("SAM[E]", SKY, "h", "--"),
    "sam[e2]": MethodStyle("SAM[E2]", SKY, "p", "-"),
    "suffix_decoding": MethodStyle("SuffixDecoding", GREY, "X", "-."),
    "sam_auto": MethodStyle("SAM auto (ours)", BLACK, "*", "-"),
    "hf_generate": MethodStyle("Hugging Face generate", GREY, "_", ":"),
    "hf_prompt_lookup": MethodStyle("Hugging Face prompt lookup", GREY, "d", "--"),
}

TASK_LABELS = {
    "multi_turn": "Multi-turn",
    "translation": "Translation",
    "summarization": "Summarization",
    "qa": "QA",
    "math_reasoning": "Math",
    "rag": "RAG",
    "overall": "Overall",
}

BLOCK_LABELS = {"paper": "Paper settings", "device": "Sized to this device"}

SOURCE_COLORS = {
    "dynamic": BLUE,
    "static": SKY,
    "pld": ORANGE,
    "token_recycling": GREEN,
    "none": "#BBBBBB",
}


def style_context():
    """The project's matplotlib style as a context manager; a reader's own matplotlibrc has no say in it."""
    return style.context(["default", STYLE_FILE])
