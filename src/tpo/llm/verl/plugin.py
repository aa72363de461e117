"""What verl loads by its entry-point group `verl.plugins`: registers the policy loss and the trainers, and has
the config checked before Ray starts.

verl logs a plug-in that fails at debug level and goes on. Here the failure is an error in the log of every
process; `trainer_mode=tpo` is then unknown to verl, which it says before a worker starts.
"""

import logging

try:
    import verl.utils.config

    from tpo.llm.verl import loss, settings, trainer

    settings.guard(verl.utils.config)
except Exception:
    logging.getLogger("tpo").exception(
        "tpo's plug-in for verl could not be loaded, so that trainer_mode=tpo does not exist. "
        "`pip install 'tpo[verl]'` installs what it needs; `tpo doctor` says what is missing"
    )
    raise

__all__ = ["loss", "settings", "trainer"]
