"""runs/<profile>/report.html: one page that needs no other file, from what the run has left on disk."""

import json
import re
from html import escape
from pathlib import Path

import pandas as pd

from samlib import paths
from samlib.bench.profiles import load_profile
from samlib.report.layouts import LAYOUTS
from samlib.report.save import data_uri, write_whole
from samlib.report.sentences import complexity_findings, cost_findings
from samlib.report.shares import PHASES_TITLE, SOURCES_TITLE, phases_table, sources_table
from samlib.report.table_sentences import table_findings
from samlib.report.tables import all_cells, complete_table, speedup_grid, without_idle_blocks
from samlib.report.training_sentences import training_findings

CSS_FILE = Path(__file__).with_name("page.css")
TABLE_FIGURES = tuple(f"{layout.name}{part}" for layout in LAYOUTS for part in ("", "_sources", "_phases"))
# Any other figure of the run follows these.
FIGURE_ORDER = (*TABLE_FIGURES, "cost", "eagle_training", "complexity", "automaton")


def write_report(profile):
    """Write runs/<profile>/report.html: findings, Tables 1 to 3, figures, environment, links to executed notebooks.

    It reads figures/<profile>/ and runs/<profile>/ and says so where a part is missing. Returns the path.
    """
    name = load_profile(profile).name
    sections = [
        f"<h1>SAM-Decoding, reproduced: profile {escape(name)}</h1>",
        _findings(name),
        *(_table(name, layout) for layout in LAYOUTS),
        _figures(name),
        _notebooks(name),
        _environment(name),
    ]
    path = paths.runs_dir(name) / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _page(f"SAM-Decoding: {name}", sections).encode())
    return path


def _page(title, sections):
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS_FILE.read_text(encoding='utf-8')}</style>"
    )
    body = "\n".join(sections)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _findings(name):
    lists = []
    for layout in LAYOUTS:
        if (frame := _read_csv(name, layout.name)) is not None:
            lists.append(f"<h3>{escape(layout.title)}</h3>{_html_list(table_findings(frame, layout))}")
    if (complexity := _read_csv(name, "complexity")) is not None:
        lists.append("<h3>Cost of a lookup</h3>" + _html_list(complexity_findings(complexity)))
    if (cost := _read_csv(name, "cost")) is not None:
        lists.append("<h3>Cost of a verification forward</h3>" + _html_list(cost_findings(cost)))
    if (training := _read_csv(name, "eagle_training")) is not None:
        lists.append("<h3>The EAGLE head</h3>" + _html_list(training_findings(training)))
    return "<h2>Findings</h2>" + "".join(lists) if lists else _missing("Findings", "Nothing was measured yet.")


def _table(name, layout):
    frame = _read_csv(name, layout.name)
    if frame is None:
        return _missing(layout.short_title, f"Not measured yet: run notebook {layout.notebook}.")
    frame, layout = without_idle_blocks(frame, layout)
    cells = complete_table(frame, layout)
    parts = [f"<h2>{escape(layout.title)}</h2>", f'<p class="note">{escape(_caption(name, layout.name))}</p>']
    for block, label in layout.blocks.items():
        rows = cells[cells["block"] == block]
        parts += [f"<h3>{escape(label)}</h3>", _html_table(speedup_grid(rows, layout))]
        parts.append(_details("Every cell", all_cells(rows, layout)))
    if (sources := _read_csv(name, f"{layout.name}_sources")) is not None:
        parts.append(_details(SOURCES_TITLE, sources_table(sources, layout)))
    if (phases := _read_csv(name, f"{layout.name}_phases")) is not None:
        parts.append(_details(PHASES_TITLE, phases_table(phases, layout)))
    return "\n".join(parts)


def _details(title, table):
    return f"<details><summary>{escape(title)}</summary>{_html_table(table)}</details>"


def _figures(name):
    found = {png.stem: png for png in sorted(paths.figures_dir(name).glob("*.png"))}
    order = [stem for stem in FIGURE_ORDER if stem in found] + [stem for stem in found if stem not in FIGURE_ORDER]
    figures = [
        f'<figure><img src="{data_uri(found[stem])}" alt="{escape(stem)}">'
        f"<figcaption>{escape(_caption(name, stem))}</figcaption></figure>"
        for stem in order
    ]
    return "<h2>Figures</h2>\n" + "\n".join(figures) if figures else _missing("Figures", "None was drawn yet.")


def _notebooks(name):
    executed = sorted(paths.runs_dir(name).glob("[0-9][0-9]_*.ipynb"))
    links = "".join(f'<li><a href="{escape(path.name)}">{escape(path.name)}</a></li>' for path in executed)
    text = f"<ul>{links}</ul>" if links else "<p>None was executed yet.</p>"
    return f"<h2>Executed notebooks</h2>{text}"


def _environment(name):
    manifests = sorted(paths.runs_dir(name).glob("manifest_*.json"))
    if not manifests:
        return _missing("Environment", "No manifest was written yet.")
    manifest = json.loads(manifests[-1].read_text(encoding="utf-8"))
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in _flat(manifest))
    return f"<h2>Environment</h2><p>From the newest manifest, {escape(manifests[-1].name)}:</p><dl>{rows}</dl>"


def _flat(facts, prefix=""):
    """Yield (dotted key, text) of a nested dict; long texts such as checksums are cut."""
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", str(value)[:200]


def _read_csv(name, stem):
    path = paths.figures_dir(name) / f"{stem}.csv"
    return pd.read_csv(path) if path.exists() else None


def _caption(name, stem):
    path = paths.figures_dir(name) / f"{stem}.txt"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def _html_list(sentences):
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>"


def _html_table(table):
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.itertuples(index=False))
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(text):
    return "<td>" + re.sub(r"^\*(.+)\*$", r"<em>\1</em>", escape(str(text))) + "</td>"


def _missing(title, text):
    return f"<h2>{escape(title)}</h2><p>{escape(text)}</p>"
