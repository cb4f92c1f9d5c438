"""The report of a run while it goes on: a small server that re-reads the event log when asked."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, Response
from plotly.offline import get_plotlyjs

from ninefold.app.journal import Journal
from ninefold.app.report.build import sections_of, subtitle_of
from ninefold.app.report.page import body_of, charts_of, live_page
from ninefold.core.store import Run

REFRESH_S = 3.0


def create_app(run: Run) -> FastAPI:
    """Routes: the page, Plotly's script, and the content that the page asks for."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    journal = Journal()

    def read() -> str:
        """Take in what is new; the version of what is known."""
        for _ in journal.follow(run):
            pass
        return str(journal.offset)

    @app.get("/")
    async def index() -> Response:
        read()
        return HTMLResponse(live_page(f"Run {run.name}", subtitle_of(journal), sections_of(run, journal), seconds=REFRESH_S))

    @app.get("/plotly.js")
    async def plotly() -> Response:
        return Response(get_plotlyjs(), media_type="text/javascript", headers={"Cache-Control": "max-age=86400"})

    @app.get("/content")
    async def content(version: str = "") -> Response:
        now = read()
        if version == now:
            return Response(status_code=204)
        sections = sections_of(run, journal)
        return JSONResponse({"version": now, "body": body_of(sections), "charts": charts_of(sections)})

    return app
