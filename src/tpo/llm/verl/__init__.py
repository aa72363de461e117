"""verl >= 0.9: `trainer.v1.trainer_mode=tpo` trains any objective of the library that needs no critic.

verl loads `plugin` through its entry-point group; nothing of verl is imported before that.
"""
