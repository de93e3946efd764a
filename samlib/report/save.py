"""Save a figure as a paper needs it: PDF, PNG, the numbers drawn (CSV) and the caption, byte for byte repeatable."""

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from samlib import paths
from samlib.bench.records import write_whole
from samlib.report.styles import style_context


@dataclass(frozen=True)
class SavedFigure:
    """Where a figure was saved. As the last value of a notebook cell it shows itself, with its caption below."""

    png: Path
    pdf: Path
    csv: Path | None
    caption: str
    width: float  # inches

    def _ipython_display_(self):
        # The saved file is what is shown: figure and file can never differ, and no matplotlib backend is involved.
        from IPython.display import Image, Markdown, display

        display(Image(self.png.read_bytes(), width=round(self.width * 115)))
        if self.caption:
            display(Markdown(f"*{self.caption}*"))


def save_figure(fig, name, profile, data=None, caption=""):
    """Write figures/<profile>/<name>.pdf and .png, .csv when `data` (a DataFrame) is given, .txt with the caption.

    Each file is replaced in one piece. Redrawing from the same data gives the same bytes: no time stamp, no random id.
    `profile` is a profile or its name. Returns a SavedFigure.
    """
    folder = figures_folder(profile)
    with style_context():
        write_whole(folder / f"{name}.pdf", _render(fig, "pdf", _pdf_metadata(name, caption)))
        write_whole(folder / f"{name}.png", _render(fig, "png", _png_metadata(name, caption)))
    csv = None if data is None else save_csv(data, name, profile)
    if caption:
        write_whole(folder / f"{name}.txt", f"{caption}\n".encode())
    return SavedFigure(folder / f"{name}.png", folder / f"{name}.pdf", csv, caption, fig.get_figwidth())


def save_csv(frame, name, profile):
    """Write a DataFrame as figures/<profile>/<name>.csv (UTF-8, no index); returns the path."""
    path = figures_folder(profile) / f"{name}.csv"
    write_whole(path, frame.to_csv(index=False, lineterminator="\n").encode())
    return path


def save_markdown(text, name, profile):
    """Write figures/<profile>/<name>.md; returns the path."""
    path = figures_folder(profile) / f"{name}.md"
    write_whole(path, text.encode())
    return path


def figures_folder(profile):
    """The folder figures/<profile> of a profile or a profile's name, made if need be."""
    folder = paths.figures_dir(profile_name(profile))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def profile_name(profile):
    """The name of a profile given as a name or as a Profile."""
    return getattr(profile, "name", profile)


def data_uri(png):
    """A PNG file as a data: address, for a page that needs no other file."""
    return "data:image/png;base64," + base64.b64encode(Path(png).read_bytes()).decode()


def _render(fig, kind, metadata):
    buffer = io.BytesIO()
    fig.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def _pdf_metadata(name, caption):
    # matplotlib stamps the time of day unless told otherwise, and then every run changes every file.
    return {"Title": name, "Subject": caption, "Creator": "samlib", "CreationDate": None}


def _png_metadata(name, caption):
    return {"Title": name, "Description": caption} if caption else {"Title": name}
