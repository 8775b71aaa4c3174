"""`toptail serve`: settings, a port, and the supervisor; whatever is wrong with them is said in one sentence."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from service.settings import Settings


@click.command()
@click.option("--redis", metavar="URL", help="A Redis of your own; else one is started.")
@click.option("--data", metavar="DIR", help="Directory of the Redis that is started.")
@click.option("--host", help="Address to listen on; beyond loopback only with API keys.")
@click.option("--port", type=int, help="Port to listen on [8080]; 0 takes any that is free.")
@click.option("--workers", type=int, help="Processes that answer requests.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings, as TOML.")
def serve(config: Path | None, **flags: Any) -> None:
    """Serve boards over HTTP, until Ctrl-C.

    Settings come from a file, the environment (TOPTAIL_...) and flags; later ones win. docs/settings.md lists them all.
    """
    # Imported late: `toptail --help` lists this command without loading what it needs.
    from hybrid.errors import HybridError
    from service.auth import BadKeys
    from service.listening import CannotListen
    from service.logs import mask
    from service.settings import BadSetting, load_settings

    try:
        _run(load_settings(flags, os.environ, config))
    except (BadSetting, BadKeys, CannotListen, HybridError) as error:
        raise click.ClickException(mask(str(error))) from None


def _run(settings: "Settings") -> None:
    import asyncio

    from hybrid.keys import Keys
    from service.auth import load_grants
    from service.listening import check_reach, listen, resolve
    from service.logs import configure_logs
    from service.redis_facts import check_address
    from service.supervisor import supervise

    Keys(settings.prefix)
    if settings.redis:
        check_address(settings.redis)
    if settings.keys_file:
        load_grants(Path(settings.keys_file))
    address = resolve(settings.host)
    check_reach(address, has_keys=bool(settings.keys_file))
    with listen(address, settings.port) as listener:
        configure_logs(settings.log_level, settings.log_format, "supervisor")
        asyncio.run(supervise(settings, listener, say=click.echo))
