"""Tables, figures and the report page, from saved records; nothing here measures anything."""

from samlib.report.captions import automaton_scale_caption, caption, complexity_caption, cost_caption, table1_caption
from samlib.report.draw import draw_automaton
from samlib.report.figures import plot_automaton_scale, plot_complexity, plot_cost, plot_sources, plot_table1
from samlib.report.page import write_report
from samlib.report.save import SavedFigure, save_csv, save_figure
from samlib.report.sentences import (
    automaton_scale_findings,
    bullets,
    complexity_findings,
    cost_findings,
    table1_findings,
)
from samlib.report.styles import METHOD_STYLES
from samlib.report.tables import save_cost, save_table1, summary_table, table1_markdown
from samlib.report.words import WordAutomaton

__all__ = [
    "METHOD_STYLES",
    "SavedFigure",
    "WordAutomaton",
    "automaton_scale_caption",
    "automaton_scale_findings",
    "bullets",
    "caption",
    "complexity_caption",
    "complexity_findings",
    "cost_caption",
    "cost_findings",
    "draw_automaton",
    "plot_automaton_scale",
    "plot_complexity",
    "plot_cost",
    "plot_sources",
    "plot_table1",
    "save_cost",
    "save_csv",
    "save_figure",
    "save_table1",
    "summary_table",
    "table1_caption",
    "table1_findings",
    "table1_markdown",
    "write_report",
]
