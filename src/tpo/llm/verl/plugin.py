"""The plug-in, which verl loads through its entry-point group `verl.plugins`.

It registers the policy loss and the trainers, and adds our checks of the config before Ray starts. verl logs a
plug-in that fails at debug level and continues without it. Therefore the failure is logged here as an error, in
every process. verl then rejects `trainer_mode=tpo` as unknown before a worker starts.
"""

import logging

try:
    import verl.utils.config

    from tpo.llm.verl import loss, settings, trainer

    settings.add_check(verl.utils.config)
except Exception:
    logging.getLogger("tpo").exception(
        "tpo's plug-in for verl could not be loaded, so that trainer_mode=tpo does not exist. "
        "`pip install 'tpo[verl]'` installs what it needs; `tpo doctor` says what is missing"
    )
    raise

__all__ = ["loss", "settings", "trainer"]
