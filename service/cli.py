"""The `toptail` command. Commands of packages above this one join through the entry points "toptail.commands"."""

from importlib.metadata import entry_points, version

import click


class Commands(click.Group):
    """Looks up a command among the installed entry points, and loads none but the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *entry_points(group="toptail.commands").names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for entry in entry_points(group="toptail.commands", name=cmd_name):
            command: click.Command = entry.load()
            return command
        return super().get_command(ctx, cmd_name)


@click.group(cls=Commands)
@click.version_option(version("toptail"), prog_name="toptail")
def main() -> None:
    """Leaderboards with exact leaders and proved percentiles."""
