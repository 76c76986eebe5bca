"""Renders chat templates with transformers and with tests/support/programs/render_main.cc."""

import datetime
import json
import subprocess
from unittest import mock

import transformers
from transformers.utils import chat_template_utils

NOW = datetime.datetime(2026, 3, 7, 14, 5, 9)


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def render(template, variables):
    """Returns the text, or None if transformers refuses the template or its arguments."""
    with mock.patch.object(chat_template_utils, "datetime", FixedTime):
        try:
            return chat_template_utils._compile_jinja_template(template).render(**variables)
        except Exception:  # any exception that a template raises
            return None


def render_with_ballast(program, requests):
    """Returns the results of build/release/render_lines, one for each (template, trusted variables, users'
    variables)."""
    now = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())
    lines = [json.dumps({"template": template, "trusted": trusted, "from_user": from_user, "now": now})
             for template, trusted, from_user in requests]
    run = subprocess.run([program], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.rstrip("\n").split("\n")]
