"""Pages of HTML in a notebook."""

from __future__ import annotations

import html


def framed(page: str, height: int = 900) -> str:
    """A whole page as a part of another, which it cannot disturb. Height in CSS pixels."""
    return (f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="allow-scripts" width="100%" height="{height}" '
            'style="border:none"></iframe>')
