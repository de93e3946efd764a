"""Tables, figures and the report page, from saved records; nothing here measures anything."""

from samlib.report.captions import (
    automaton_scale_caption,
    caption,
    complexity_caption,
    cost_caption,
    live_training_caption,
    phases_caption,
    sources_caption,
    table_caption,
    training_caption,
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
from samlib.report.training_figures import plot_live_training, plot_training
from samlib.report.training_sentences import aim_sentence, live_sentence, training_findings
from samlib.report.training_tables import save_training, training_frame, training_table, trial_table, vocabulary_table
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
    "aim_sentence",
    "automaton_scale_caption",
    "automaton_scale_findings",
    "bullets",
    "caption",
    "complexity_caption",
    "complexity_findings",
    "cost_caption",
    "cost_findings",
    "draw_automaton",
    "live_sentence",
    "live_training_caption",
    "method_style",
    "phases_caption",
    "phases_table",
    "plot_automaton_scale",
    "plot_complexity",
    "plot_cost",
    "plot_live_training",
    "plot_phases",
    "plot_sources",
    "plot_table",
    "plot_training",
    "save_cost",
    "save_csv",
    "save_figure",
    "save_table",
    "save_training",
    "sources_caption",
    "sources_table",
    "summary_table",
    "table_caption",
    "table_findings",
    "table_markdown",
    "training_caption",
    "training_findings",
    "training_frame",
    "training_table",
    "trial_table",
    "vocabulary_table",
    "write_report",
]
