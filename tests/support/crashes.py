"""A process that is killed after some of its changes of files, in this process: the rest have no effect."""

import builtins
import contextlib
import os
from unittest import mock

CHANGES = ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink")


class KilledError(BaseException):
    """No `except Exception` or `finally` saves anything: whatever they change is refused as well."""


@contextlib.contextmanager
def killed_after(changes=None):
    """Let the block change files so often, then kill it; None: let it end. Yields the names of its changes.

    `fsync` only counts, which makes the tests cheap.
    """
    made = []

    def counted(name, call):
        def change(*arguments, **options):
            if len(made) == changes:
                raise KilledError
            made.append(name)
            return None if name == "fsync" else call(*arguments, **options)

        return change

    def opened(file, mode="r", *arguments, **options):
        create = counted("open", open_file) if "x" in mode else open_file
        return create(file, mode, *arguments, **options)

    open_file = builtins.open
    with contextlib.ExitStack() as patches:
        for name in CHANGES:
            patches.enter_context(mock.patch.object(os, name, counted(name, getattr(os, name))))
        patches.enter_context(mock.patch.object(builtins, "open", opened))
        with contextlib.suppress(KilledError):
            yield made
