"""The reading list under /v1. Whose an article is, is part of every question to the database."""

from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from headgate.toolkit import page_of
from headgate.toolkit.api import (
    IDEMPOTENT,
    NOT_MODIFIED,
    After,
    IfNoneMatch,
    Limit,
    LinkDocument,
    Name,
    TheApp,
    TheCaller,
    TheSite,
    etag_response,
    get_problems,
    json_response,
    model_of,
    page_model,
    post_problems,
    router,
    secret_response,
    write_problems,
)

from . import tables
from .articles import Article, articles_of, describe_articles, find_article
from .pages import LINK, PATH

ArticleId = Annotated[Name, Path(description="The article.")]

EXAMPLE = Article(id="shelf-ada-7", title="On gates", state="success", read_at=None)
ArticleModel = model_of(Article, EXAMPLE)
ArticlePageModel = page_model(
    "ArticlePage", "Articles in the order of their ids.", Article, EXAMPLE
)

routes = router("/v1/reading-list", "Reading list")


@routes.get(
    "",
    operation_id="list_articles_to_read",
    summary="List what is on a reading list",
    response_model=ArticlePageModel,
    responses={**NOT_MODIFIED, **get_problems()},
)
async def list_articles(
    request: Request,
    app: TheApp,
    caller: TheCaller,
    user_id: Annotated[Name | None, Query(description="An admin's key has to name one.")] = None,
    limit: Limit = 50,
    after: After = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """In the order of their ids, each with whether it was read."""
    articles = await articles_of(app, caller.require_user(user_id), limit=limit + 1, after=after)
    return etag_response(request, page_of(articles, limit))


@routes.put(
    "/{article_id}/read",
    operation_id="mark_article_read",
    summary="Mark an article as read",
    response_model=ArticleModel,
    responses=write_problems("not_found"),
)
async def mark_read(app: TheApp, caller: TheCaller, article_id: ArticleId) -> Response:
    """The first time counts."""
    item, now = await find_article(app, article_id, caller.owner), app.clock.now()
    await app.write(lambda tx: tables.mark(tx, item.user_id, item.id, now))
    return json_response((await describe_articles(app, [item]))[0])


@routes.post(
    "/{article_id}/link",
    operation_id="make_article_link",
    summary="A link to the page that shows an article",
    response_model=LinkDocument,
    dependencies=[IDEMPOTENT],
    responses=post_problems("not_found"),
)
async def link(site: TheSite, caller: TheCaller, article_id: ArticleId) -> Response:
    """Whoever has the link may read the article, without a login."""
    item = await find_article(site.app, article_id, caller.owner)
    token = site.links.page_token(LINK, item.id, user_id=item.user_id)
    ends = site.links.open_page(LINK, token).expires_at
    return secret_response(LinkDocument(url=f"{site.public_url}{PATH}{token}", expires_at=ends))
