"""Reports: what runs show, as one page, as figures and tables in files, and as JSON."""

from .assets import write_assets
from .building import make_report, read_report
from .elements import Report
from .html import render_page
from .serialising import report_json

__all__ = ["Report", "make_report", "read_report", "render_page", "report_json", "write_assets"]
