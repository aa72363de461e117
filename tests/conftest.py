"""What every test starts from."""

import signal

# A shell's background job ignores Ctrl-C, and so would every command that the tests start and then interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
