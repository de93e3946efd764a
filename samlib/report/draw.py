"""A suffix automaton of a short text, drawn: how the longest earlier match and the draft are read off it."""

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Patch

from samlib.report.styles import BLACK, BLUE, GREEN, PAGE_WIDTH, VERMILLION, style_context

RADIUS = 0.28
CLONE_ROW, ROW_HEIGHT = -1.5, 1.0  # height of the first row of clones, distance between rows
EDGE = {"color": BLACK, "linewidth": 0.8}
LINK = {"color": "#999999", "linewidth": 0.8, "linestyle": (0, (4, 2))}
MATCH_LINK = {"color": VERMILLION, "linewidth": 1.6, "linestyle": (0, (4, 2))}
PALE = {BLUE: "#CFE3F1", VERMILLION: "#F8DCC9", GREEN: "#CBEADF", "white": "white"}


def draw_automaton(text):
    """Draw a WordAutomaton of up to about ten words; returns a matplotlib Figure.

    Above, the text: the longest suffix that occurred before, its first occurrence, and the draft that follows that.
    Below, the automaton: the main path from left to right, clones under it, transitions as arrows, suffix links dashed;
    in each state its number and min_endpos (e). The end state's suffix link leads to the state of the match.
    """
    places = layout(text)
    bottom, top = _heights(text, places)
    unit = PAGE_WIDTH / (len(text.words) + 1.2)  # inches from one state of the main path to the next
    with style_context():
        fig = Figure(figsize=(PAGE_WIDTH, 1.55 + unit * (top - bottom)))
        strip, graph = fig.subplots(2, 1, height_ratios=[0.8, unit * (top - bottom)])
        _draw_text(strip, text)
        _draw_graph(graph, text, places)
        graph.set_ylim(bottom, top)
        fig.legend(handles=_legend(), loc="outside lower center", ncols=3)
    return fig


def layout(text):
    """(x, y) of every state: the main path at height 0 by prefix length, clones below by where they first end."""
    places = {state: (float(at), 0.0) for at, state in enumerate(text.path)}
    clones = [state for state in range(len(text.states)) if state not in places]
    taken = set()
    for state in sorted(clones, key=lambda number: text.states[number]["length"]):
        x, row = text.states[state]["first_end"] + 1.0, 0
        while (x, row) in taken:
            row += 1
        taken.add((x, row))
        places[state] = (x, CLONE_ROW - ROW_HEIGHT * row)
    return places


def _heights(text, places):
    """Lowest and highest y of the drawing: the rows of clones, and the transitions that bow upwards."""
    path = set(text.path)
    jumps = [
        places[target][0] - places[number][0]
        for number in path
        for target in text.states[number]["edges"].values()
        if target in path
    ]
    bottom = min(-0.9, min(y for _, y in places.values()) - 0.4)  # links between states of the path bow down to -0.9
    span = max(jumps, default=1)
    return bottom, 0.45 if span <= 1 else 0.2 - _bow(span) * span / 2


def _bow(span):
    """How far a transition over `span` places bows upwards, as matplotlib's arc3 measures it (up is negative)."""
    return -0.28 - 0.02 * span if span > 1 else 0.0


def _draw_text(ax, text):
    for at, word in enumerate(text.words):
        _draw_word(ax, at + 1, word, _word_color(text, at))
        ax.text(at + 1, -0.62, str(at), ha="center", va="center", fontsize=6, color="0.4")
    if text.match_length:
        ax.plot([text.earlier.stop + 0.56, len(text.words) + 0.44], [0.48, 0.48], color=GREEN, linewidth=2.5)
    ax.text(0.35, 0, "text", ha="right", va="center")
    ax.text(0.35, -0.62, "position", ha="right", va="center", fontsize=6, color="0.4")
    ax.set(xlim=(-0.5, len(text.words) + 0.7), ylim=(-0.8, 0.6))
    ax.set_axis_off()


def _word_color(text, at):
    """Blue: first occurrence of the match; vermillion: the suffix itself; green: the draft. The first that applies."""
    if at in text.earlier:
        return BLUE
    if at >= len(text.words) - text.match_length:
        return VERMILLION
    return GREEN if text.match_length and at >= text.earlier.stop else "white"


def _draw_word(ax, x, word, color):
    edge = "0.6" if color == "white" else color
    box = FancyBboxPatch((x - 0.42, -0.3), 0.84, 0.6, boxstyle="round,pad=0.02", facecolor=PALE[color], edgecolor=edge)
    ax.add_patch(box)
    ax.text(x, 0, word, ha="center", va="center")


def _draw_graph(ax, text, places):
    nodes = {number: _draw_state(ax, text, number, place) for number, place in places.items()}
    for number, state in enumerate(text.states):
        for word, target in state["edges"].items():
            _draw_edge(ax, nodes[number], nodes[target], word)
        if state["link"] >= 0:
            look = MATCH_LINK if number == text.end else LINK
            _draw_link(ax, nodes[number], nodes[state["link"]], look)
    ax.set_xlim(-0.5, len(text.words) + 0.7)
    ax.set_aspect("equal")
    ax.set_axis_off()


def _draw_state(ax, text, number, place):
    """Draw a state and return its circle."""
    x, y = place
    color = VERMILLION if number == text.end else BLUE if number == text.match and text.match_length else "white"
    edge = BLACK if color == "white" else color
    circle = Circle(place, RADIUS, facecolor=PALE[color], edgecolor=edge, linewidth=1.0, zorder=3)
    ax.add_patch(circle)
    ax.text(x, y + (0.08 if number else 0), str(number), ha="center", va="center", zorder=5)
    if number:
        ax.text(x, y - 0.12, f"e={text.states[number]['first_end']}", ha="center", va="center", fontsize=5.5, zorder=5)
    return circle


def _draw_edge(ax, start, end, word):
    """A transition; one that skips states of its row bows upwards, so that it crosses none."""
    span = end.center[0] - start.center[0]
    same_row = start.center[1] == end.center[1]
    bow = _bow(span) if same_row else 0.0
    _arrow(ax, start, end, bow, EDGE, "-|>,head_length=3,head_width=1.5")
    x, y = _middle(start.center, end.center, bow)
    ax.text(x, y, word, ha="center", va="center", fontsize=7, zorder=4, bbox=_halo())


def _draw_link(ax, start, end, look):
    """A suffix link; between states of one row it bows downwards."""
    bow = -0.3 if start.center[1] == end.center[1] else 0.08
    _arrow(ax, start, end, bow, look, "->,head_length=2.5,head_width=1.5")


def _arrow(ax, start, end, bow, look, head):
    curve = f"arc3,rad={bow}"
    ends = {"posA": start.center, "posB": end.center, "patchA": start, "patchB": end}
    ax.add_patch(FancyArrowPatch(**ends, connectionstyle=curve, arrowstyle=head, shrinkA=0, shrinkB=0, **look))


def _middle(start, end, bow):
    """Midpoint of matplotlib's arc3 curve: a quadratic Bezier whose control point is `bow` times the chord aside."""
    (x0, y0), (x1, y1) = start, end
    return (x0 + x1) / 2 + bow * (y1 - y0) / 2, (y0 + y1) / 2 - bow * (x1 - x0) / 2


def _halo():
    return {"boxstyle": "round,pad=0.08", "facecolor": "white", "edgecolor": "none", "alpha": 0.9}


def _legend():
    look = {"marker": "o", "markerfacecolor": "white", "color": BLACK, "linestyle": "none", "markersize": 6}
    return [
        Line2D([], [], **look, label="state; e: its min_endpos"),
        Line2D([], [], **EDGE, label="transition"),
        Line2D([], [], **LINK, label="suffix link"),
        Line2D([], [], **MATCH_LINK, label="suffix link of the end state"),
        Patch(facecolor=PALE[VERMILLION], edgecolor=VERMILLION, label="longest suffix seen before; end state"),
        Patch(facecolor=PALE[BLUE], edgecolor=BLUE, label="its first occurrence; state of the match"),
        Line2D([], [], color=GREEN, linewidth=2.5, label="draft: what followed it"),
    ]
