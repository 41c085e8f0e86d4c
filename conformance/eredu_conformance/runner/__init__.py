"""Running checks against a subject: choosing them, doing them side by side, telling what came out, and again."""

from eredu_conformance.runner.plan import Plan
from eredu_conformance.runner.report import Report, Status
from eredu_conformance.runner.result import CheckResult, Outcome
from eredu_conformance.runner.run import Progress, conduct

__all__ = [
    "CheckResult",
    "Outcome",
    "Plan",
    "Progress",
    "Report",
    "Status",
    "conduct",
]
