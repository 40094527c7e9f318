"""Reports: what runs show, as one page, as figures and tables in files, and as JSON."""

from ...errors import RunError

try:
    from .page import Report, read_report, render_page, report_json, write_assets
except ImportError as error:
    raise RunError(f"reports need pandas, matplotlib and Jinja2 ({error}): pip install 'sdlg[eval]'") from error

__all__ = ["Report", "read_report", "render_page", "report_json", "write_assets"]
