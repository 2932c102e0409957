"""Prices in the public API."""

from typing import Any

from ninja import Router, Status

from workbench.accounts.permissions import reviewer_required
from workbench.prices import services
from workbench.prices.schemas import NewPriceBook
from workers.documents.prices import PriceBook

router = Router(tags=["prices"])


@router.get("/prices", response=PriceBook, summary="Read the price book in force")
def read_prices(request: Any) -> PriceBook:
    """USD per GPU-hour, dated and sourced."""
    return services.price_book(request.organisation)


@router.post("/prices", response={201: PriceBook}, summary="Put a new price book in force")
@reviewer_required
def add_prices(request: Any, body: NewPriceBook) -> Any:
    """Runs from now on use it; reports keep the prices they were made with."""
    return Status(201, services.add_price_book(request.organisation, request.user, body).book)
