"""`toptail key`: make API keys. They are shown once; only their hash is kept, in a file that the operator names."""

import click


@click.group()
def key() -> None:
    """Make API keys."""


@key.command()
@click.option(
    "--role", type=click.Choice(["read", "write", "admin"]), required=True, help="Each may what those before it may."
)
@click.option("--boards", metavar="PATTERN", default="*", show_default=True, help="Boards it is for, like 'game1-*'.")
def new(role: str, boards: str) -> None:
    """Make a key, and the line for the keys file."""
    # Imported late: `toptail --help` lists this command without loading what it needs.
    from service.auth import ROLES, BadKeys, make_key

    try:
        secret, line = make_key(next(known for known in ROLES if known == role), boards)
    except BadKeys as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"The key, shown this once:\n\n    {secret}\n\nThe line for the keys file:\n\n    {line}")
