"""A learner behind a web page and an HTTP API; see :func:`rebll_avalanche.serve.app.make_app`."""
