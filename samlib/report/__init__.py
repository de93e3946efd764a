"""Tables, figures and the report page, from saved records; nothing here measures anything."""

from samlib.report.captions import (
    automaton_scale_caption,
    caption,
    complexity_caption,
    cost_caption,
    phases_caption,
    sources_caption,
    table_caption,
)
from samlib.report.draw import draw_automaton
from samlib.report.figures import plot_automaton_scale, plot_complexity, plot_cost
from samlib.report.layouts import LAYOUTS, TABLE1, TABLE2, TABLE3, TableLayout
from samlib.report.page import write_report
from samlib.report.save import SavedFigure, save_csv, save_figure
from samlib.report.sentences import automaton_scale_findings, bullets, complexity_findings, cost_findings
from samlib.report.shares import phases_table, sources_table
from samlib.report.styles import METHOD_STYLES, method_style
from samlib.report.table_figures import plot_phases, plot_sources, plot_table
from samlib.report.table_sentences import table_findings
from samlib.report.tables import save_cost, save_table, summary_table, table_markdown
from samlib.report.words import WordAutomaton

__all__ = [
    "LAYOUTS",
    "METHOD_STYLES",
    "TABLE1",
    "TABLE2",
    "TABLE3",
    "SavedFigure",
    "TableLayout",
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
    "method_style",
    "phases_caption",
    "phases_table",
    "plot_automaton_scale",
    "plot_complexity",
    "plot_cost",
    "plot_phases",
    "plot_sources",
    "plot_table",
    "save_cost",
    "save_csv",
    "save_figure",
    "save_table",
    "sources_caption",
    "sources_table",
    "summary_table",
    "table_caption",
    "table_findings",
    "table_markdown",
    "write_report",
]
