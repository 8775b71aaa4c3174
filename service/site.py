"""What is there beside the API: health, metrics, the schema and its page, the landing page. All of it works offline."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from aiohttp import web
from msgspec import UNSET
from redis.exceptions import ResponseError

from hybrid.config import Board
from hybrid.errors import HybridError
from hybrid.trends.config import Trend
from service.board_routes import NoQuery
from service.routes import Call, Route
from toptail import wire

ASSETS = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript", "favicon-32x32.png": "image/png"}
LISTED = 200  # boards, and as many trends, on the landing page


async def get_health(call: Call) -> wire.Health:
    """Alive: this process answers."""
    return wire.Health(status="stopping" if call.state.is_stopping else "ok")


async def get_ready(call: Call) -> tuple[int, wire.Health]:
    """Ready: Redis answers, and we are not on our way out. That no keeper is at work is worth a word, and no more."""
    state = call.state
    if state.is_stopping:
        return 503, wire.Health(status="stopping")
    try:
        await state.engine.boards.open()
        key = state.engine.schema.keeper
        (is_kept,) = await state.engine.link.run(key, [("EXISTS", key)])
    except (HybridError, ResponseError) as error:
        return 503, wire.Health(status="unavailable", reason=str(error))
    if state.refusal is not None:
        return 503, wire.Health(status="starting", reason=state.refusal)
    return 200, wire.Health(status="ok", reason=UNSET if is_kept else "no keeper is at work: percentiles get older")


async def get_docs(_: Call) -> web.Response:
    return web.Response(text=_DOCS, content_type="text/html")


async def get_asset(call: Call) -> web.StreamResponse:
    name = call.path["name"]
    if name not in ASSETS:
        raise web.HTTPNotFound
    return web.FileResponse(_bundle() / name, headers={"Content-Type": ASSETS[name], "Cache-Control": "max-age=86400"})


async def get_landing(call: Call) -> web.Response:
    engine = call.state.engine
    boards, trends = await engine.boards.list(limit=LISTED), await engine.trends.list(limit=LISTED)
    page = _LANDING.replace("<!-- boards -->", _landing_rows("boards", boards))
    return web.Response(text=page.replace("<!-- trends -->", _landing_rows("trends", trends)), content_type="text/html")


def _landing_rows(kind: str, listed: Sequence[Board | Trend]) -> str:
    rows = (
        f'<tr><td><a href="/v1/{kind}/{escape(each.name)}/top">{escape(each.name)}</a></td>'
        f"<td>{escape(each.config.title)}</td><td>{escape(', '.join(each.config.windows))}</td></tr>"
        for each in listed
    )
    return "".join(rows) or f"<tr><td colspan=3>No {kind} yet.</td></tr>"


def _bundle() -> Path:
    (found,) = Path(str(files("swagger_ui_bundle"))).glob("vendor/swagger-ui-*")
    return found


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.6rem; margin-bottom: .2rem } a { color: #0b57d0 }
table { border-collapse: collapse; width: 100%; margin-top: 1rem }
td, th { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #d8dee4 }
"""
_LANDING = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>toptail</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="/docs/favicon-32x32.png">
<style>{_STYLE}</style></head><body>
<h1>toptail</h1><p>Leaders get an exact rank; everybody else a percentile with a proved interval.</p>
<p><a href="/docs">API documentation</a> · <a href="/openapi.json">openapi.json</a> · <a href="/metrics">metrics</a> ·
<a href="/readyz">ready?</a></p>
<table><thead><tr><th>board</th><th>title</th><th>windows</th></tr></thead><tbody><!-- boards --></tbody></table>
<table><thead><tr><th>trend</th><th>title</th><th>windows</th></tr></thead><tbody><!-- trends --></tbody></table>
</body></html>"""
_DOCS = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>toptail API</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css"></head><body><div id="ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script>SwaggerUIBundle({ url: "/openapi.json", dom_id: "#ui", deepLinking: true });</script></body></html>"""

ROUTES = (
    Route("GET", "/healthz", get_health, "Whether this process is alive", None, {200: wire.Health}, NoQuery),
    Route(
        "GET",
        "/readyz",
        get_ready,
        "Whether requests can be served",
        None,
        {200: wire.Health, 503: wire.Health},
        NoQuery,
    ),
)
PAGES = (
    Route("GET", "/", get_landing, "Boards, trends and links", None, {200: None}),
    Route("GET", "/docs", get_docs, "This page", None, {200: None}),
    Route("GET", "/docs/{name}", get_asset, "Assets of this page", None, {200: None}),
)
