"""One fixed look and one fixed name for every method, task and block: the same everywhere, in figures and in tables."""

from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib import style

STYLE_FILE = Path(__file__).with_name("style.mplstyle")
COLUMN_WIDTH, PAGE_WIDTH = 3.4, 7.0  # inches: one column and both columns of a paper

# Okabe and Ito's palette: distinct for colour-blind readers. Markers and line styles keep methods apart in grey.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILLION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#777777"
# More than that palette has: of Tol's, and a brown, those that stay apart from it and from each other.
SAND, BROWN, INDIGO, MAROON = "#DDCC77", "#8B4513", "#332288", "#661100"


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
    "rest": MethodStyle("REST", SKY, "<", "-."),
    "lookahead": MethodStyle("Lookahead", PURPLE, ">", ":"),
    "token_recycling": MethodStyle("Token Recycling", GREEN, "^", "-."),
    "eagle": MethodStyle("EAGLE", SAND, "v", "--"),
    "eagle2": MethodStyle("EAGLE-2", BROWN, "P", "-"),
    "sam": MethodStyle("SAM", BLUE, "o", "-"),
    "sam[t]": MethodStyle("SAM[T]", VERMILLION, "D", "-"),
    "sam[e]": MethodStyle("SAM[E]", INDIGO, "h", "--"),
    "sam[e2]": MethodStyle("SAM[E2]", MAROON, "p", "-"),
    "suffix_decoding": MethodStyle("SuffixDecoding", BLACK, "X", "-."),
    "sam_auto": MethodStyle("SAM auto (ours)", BLACK, "*", "-"),
    "hf_generate": MethodStyle("Hugging Face generate", GREY, "_", ":"),
    "hf_prompt_lookup": MethodStyle("Hugging Face prompt lookup", GREY, "d", "--"),
}

VARIANT_MARKERS = {"cold": "2"}  # three arms: neither filled nor hollow, which is how the paper's values look

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

# Parts of a stacked bar: (label, colour, hatch). The hatches keep neighbours apart where colours are lost.
SOURCE_LOOKS = {
    "dynamic": ("dynamic", BLUE, ""),
    "static": ("static", SKY, "////"),
    "pld": (METHOD_STYLES["pld"].label, ORANGE, "...."),
    "token_recycling": (METHOD_STYLES["token_recycling"].label, GREEN, "\\\\\\\\"),
    "lookahead": (METHOD_STYLES["lookahead"].label, PURPLE, "xxxx"),
    "eagle": (METHOD_STYLES["eagle"].label, SAND, "++++"),
    "eagle2": (METHOD_STYLES["eagle2"].label, BROWN, "||||"),
    "none": ("no draft", "#DDDDDD", ""),
}
PHASE_LOOKS = {
    "prefill": ("prefill", SKY, "////"),
    "draft": ("draft", VERMILLION, ""),
    "verify": ("verify", BLUE, ""),
    "update": ("update", ORANGE, "...."),
    "other": ("other", "#DDDDDD", ""),
}


def method_style(row):
    """The MethodStyle of a table's row: of a method, or of a method and a variant, as in "token_recycling cold".

    A variant is named after its method and drawn in its colour, with a marker of its own where both are in one figure.
    """
    method, _, variant = row.partition(" ")
    look = METHOD_STYLES[method]
    if not variant:
        return look
    joint = " " if variant.startswith("without ") else ", "
    return replace(look, label=f"{look.label}{joint}{variant}", marker=VARIANT_MARKERS.get(variant, look.marker))


def style_context():
    """The project's matplotlib style as a context manager; a reader's own matplotlibrc has no say in it."""
    return style.context(["default", STYLE_FILE])
