"""`python -m ballast.lm_eval`: the evaluation harness with the model `ballast`."""

from lm_eval.__main__ import cli_evaluate

if __name__ == "__main__":
    cli_evaluate()
