"""The page at /: it asks the endpoints of the protocol, and holds nothing about the server itself.

Its policy permits one script and one style, by their digests, and connections to this server alone.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from starlette.responses import HTMLResponse


def home() -> HTMLResponse:
    """The page, with the headers that confine it."""
    text, policy = _confined()
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    return HTMLResponse(text, headers=headers)


@cache
def _confined() -> tuple[str, str]:
    """The page with its script, and its policy."""
    html, script = (files(__package__).joinpath(f"page.{kind}").read_text() for kind in ("html", "js"))
    text = html.replace("<script>\n", f"<script>\n{script}")
    rules = [
        f"{tag}-src '{_digest(part)}'"
        for tag in ("script", "style")
        for part in re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    ]
    ends = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return text, "; ".join(["default-src 'none'", "connect-src 'self'", *rules, ends])


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
