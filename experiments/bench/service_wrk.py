"""wrk, which sends requests faster than we answer them: where it is, what it sends, and what it found.

A script of Lua makes the requests. Players are drawn uniformly from a file of names, in lines of one length, so that
the script finds the n-th one without a table of a million strings. One thread of wrk is enough, and leaves the other
processor to whoever answers.
"""

import asyncio
import json
import shutil
import subprocess
from asyncio.subprocess import PIPE
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import click

from experiments.bench.batches import MAX_SCORE, name_of

MISSING = "the service part needs wrk: apt-get install wrk"

_LINE = 25  # a name of up to 24 characters, padded, and the end of the line
_BODIES = 64  # made before the first request is sent

_HEAD = """\
math.randomseed({seed})
local names = io.open("{names}"):read("*a")
local function draw() return names:match("%S+", math.random(0, {last}) * {line} + 1) end
"""
_STANDING = """
request = function() return wrk.format("GET", "/v1/boards/{board}/players/" .. draw()) end
"""
_BATCH = """
wrk.headers["Content-Type"] = "application/json"
local bodies, turn = {{}}, 0
for i = 1, {bodies} do
  local drawn = {{}}
  for j = 1, {batch} do drawn[j] = '"' .. draw() .. '"' end
  bodies[i] = '{{"players":[' .. table.concat(drawn, ",") .. ']}}'
end
request = function()
  turn = turn % {bodies} + 1
  return wrk.format("POST", "/v1/boards/{board}/standings", nil, bodies[turn])
end
"""
_SUBMIT = """
wrk.headers["Content-Type"] = "application/json"
request = function()
  local body = '{{"player":"' .. draw() .. '","score":' .. math.random(0, {max_score}) .. '}}'
  return wrk.format("POST", "/v1/boards/{board}/scores", nil, body)
end
"""
_TAIL = """
done = function(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('\\n{"requests":%d,"seconds":%.6f,"p50_s":%.6f,"p99_s":%.6f,"failed":%d}',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6, latency:percentile(99) / 1e6, failed))
end
"""


class Found(NamedTuple):
    """What wrk says at the end. `failed` counts errors of connections, timeouts, and answers that are not 2xx."""

    requests: int
    seconds: float
    p50_s: float
    p99_s: float
    failed: int


@dataclass(frozen=True, slots=True)
class Names:
    """The players of a board, in a file for wrk, and beside it the scripts that draw from them."""

    path: Path
    players: int
    board: str

    def ask_one(self, seed: int) -> Path:
        return self._save("one", seed, _STANDING.format(board=self.board))

    def ask_batch(self, seed: int, batch: int) -> Path:
        return self._save("batch", seed, _BATCH.format(board=self.board, batch=batch, bodies=_BODIES))

    def submit_one(self, seed: int) -> Path:
        return self._save("submit", seed, _SUBMIT.format(board=self.board, max_score=MAX_SCORE))

    def _save(self, name: str, seed: int, request: str) -> Path:
        head = _HEAD.format(seed=seed, names=self.path, last=self.players - 1, line=_LINE)
        script = self.path.with_suffix(f".{name}.lua")
        script.write_text(head + request + _TAIL, encoding="utf-8")
        return script


def save_names(folder: Path, board: str, players: int) -> Names:
    path = folder / f"{board}.names"
    with path.open("w", encoding="ascii") as file:
        file.writelines(f"{name_of(number):{_LINE - 1}}\n" for number in range(players))
    return Names(path, players, board)


def find_wrk() -> str:
    found = shutil.which("wrk")
    if found is None:
        raise click.ClickException(MISSING)
    return found


def read_version() -> str:
    """The version, as in "wrk 4.1.0"."""
    said = subprocess.run([find_wrk(), "-v"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    return f"wrk {said.split()[1].removeprefix('debian/')}"


async def run_wrk(url: str, script: Path, connections: int, seconds: int) -> Found:
    options = ("-t1", f"-c{connections}", f"-d{seconds}s", "--timeout=10s", f"-s{script}", url)
    process = await asyncio.create_subprocess_exec(find_wrk(), *options, stdout=PIPE, stderr=PIPE)
    said, complained = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"wrk failed: {(said + complained).decode()}")
    return Found(**json.loads(said.splitlines()[-1]))
