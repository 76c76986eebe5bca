"""Pages of HTML in a notebook."""

from __future__ import annotations

import html


def framed(page: str, height: int = 900) -> str:
    """Embeds a page in another one, isolated from it. Height in CSS pixels."""
    return (f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="allow-scripts" width="100%" height="{height}" '
            'style="border:none"></iframe>')
