"""The `toptail` command. Commands of packages above this one join through the entry points "toptail.commands"."""

from importlib import import_module
from importlib.metadata import entry_points, version

import click

# name -> where it is. A module of these imports what it needs late, so that listing them all stays quick.
COMMANDS = {
    "key": "service.keys_command:key",
    "load": "service.load_command:load",
    "serve": "service.serve:serve",
    "standing": "service.ask_commands:standing",
    "top": "service.ask_commands:top",
    "trending": "service.trending_command:trending",
    "verify": "service.verify_command:verify",
}


class Commands(click.Group):
    """Looks up a command in the table and among the installed entry points, and loads only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *COMMANDS, *entry_points(group="toptail.commands").names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name].partition(":")
            found: click.Command = getattr(import_module(module), name)
            return found
        for entry in entry_points(group="toptail.commands", name=cmd_name):
            command: click.Command = entry.load()
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=Commands)
@click.version_option(version("toptail"), prog_name="toptail")
def main() -> None:
    """Leaderboards with exact leaders and proved percentiles."""
