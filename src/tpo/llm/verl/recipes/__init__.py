"""Configs of verl for the tasks of arXiv 2604.06159; a package, so that hydra finds them."""
