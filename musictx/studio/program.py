"""``musictx studio``: serves the page on this machine, and opens it in the browser."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import webbrowser
from pathlib import Path

from musictx.errors import UserError, reason
from musictx.files import check_writable
from musictx.studio.config import EVERYWHERE, StudioConfig
from musictx.training.run_folder import exclusive_lock

#: Seconds in which running requests may finish when the studio ends.
CLOSE_SECONDS = 3.0


def run(config: StudioConfig) -> None:
    """Serve the page until Ctrl-C or SIGTERM.

    Raise :class:`UserError` if a package is missing, the port is taken, another studio uses the
    folder, or the model does not exist.
    """
    try:
        import aiohttp  # noqa: F401
        import pydantic  # noqa: F401
    except ImportError as error:
        sentence = f"musictx studio needs {error.name}: pip install 'musictx[studio]'"
        raise UserError(sentence) from None
    folder = Path(config.folder).expanduser().resolve()
    check_writable(folder, "folder")
    with exclusive_lock(folder / ".lock", "folder", "is a studio with"):
        asyncio.run(_serve(config))
    if any(thread.name == "composer" for thread in threading.enumerate()):
        # The thread is still in torch, which would crash if Python ended normally. Everything that
        # was acknowledged is on the disk.
        sys.stdout.flush()
        os._exit(0)


async def _serve(config: StudioConfig) -> None:
    from aiohttp import web

    from musictx.studio.app import Studio

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def request_stop() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)  # a second signal ends the process at once
        stop.set()

    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, request_stop)
    studio = Studio(config)
    logger = logging.getLogger("musictx.studio")
    logger.disabled = True  # invalid HTTP requests would fill the terminal
    runner = web.AppRunner(
        studio.app,
        access_log=None,
        logger=logger,
        auto_decompress=False,  # a compressed upload could fill the memory
        shutdown_timeout=CLOSE_SECONDS,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, config.host, config.port)
        try:
            await site.start()
        except OSError as error:
            place = f"host={config.host} port={config.port}"
            raise UserError(f"{place}: {reason(error)}; port=0 takes a free port") from None
        studio.composer.start()
        host = f"[{config.host}]" if ":" in config.host else config.host
        if config.host in EVERYWHERE:
            host = "localhost"
        address = f"http://{host}:{runner.addresses[0][1]}/"
        print(f"the studio is at {address} (Ctrl-C ends)", flush=True)
        if config.host in EVERYWHERE:
            print("anybody in this network can open it and change its pieces", flush=True)
        if config.browser and (browser := _browser()) is not None:
            threading.Thread(target=browser.open, args=[address], daemon=True).start()
        await stop.wait()
    finally:
        await runner.cleanup()


def _browser() -> webbrowser.BaseBrowser | None:
    """Return the graphical browser, if any. A text browser would take over the terminal."""
    with contextlib.suppress(webbrowser.Error):
        browser = webbrowser.get()
        return None if type(browser) is webbrowser.GenericBrowser else browser
    return None


def check() -> str:
    """Return for ``musictx doctor`` the name of the browser that ``musictx studio`` opens."""
    if (browser := _browser()) is None:
        return "none with windows: studio prints the address to open"
    return str(getattr(browser, "name", "") or type(browser).__name__)
