"""Price books: which one is in force, their history, and the form."""

import pytest

from workbench.prices.models import PriceBookRow
from workbench.prices.services import add_price_book, price_book
from workers.documents.prices import Price, PriceBook


def _book(name: str) -> PriceBook:
    price = Price(gpu_class="h200", name="NVIDIA H200", low=1, typical=2, high=3)
    return PriceBook(name=name, date="2026-01-01", source="a contract", prices=[price])


def test_the_newest_book_of_the_organisation_is_in_force(organisation, account, foreigner):
    assert price_book(organisation).name == "Public GPU prices 2026"
    add_price_book(None, None, _book("house"))
    assert price_book(organisation).name == "house"
    add_price_book(organisation, account, _book("old"))
    add_price_book(organisation, account, _book("new"))
    assert price_book(organisation).name == "new"
    assert price_book(foreigner.memberships.get().organisation).name == "house"


def test_a_new_book_keeps_the_history_and_an_engineer_makes_none(browser, account, engineer):
    client = browser(account)
    fields = {"name": "Contract", "date": "2026-11-01", "source": "Our contract"}
    prices = {"h200_low": "2", "h200_typical": "2.5", "h200_high": "3"}
    assert client.post("/prices/", fields | prices).status_code == 302
    assert client.post("/prices/", fields | prices | {"name": "Contract 2"}).status_code == 302
    page = client.get("/prices/").content.decode()
    assert page.index("Contract 2") < page.index(">Contract<")
    assert browser(engineer).post("/prices/", fields | prices).status_code == 403
    assert PriceBookRow.objects.count() == 2
    assert b"Add a new book" not in browser(engineer).get("/prices/").content


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"h200_low": "4"}, "NVIDIA H200: low, typical and high must not fall."),
        ({"h200_high": ""}, "NVIDIA H200 needs low, typical and high, or none of them."),
        ({"h200_low": "-1"}, "Ensure this value is greater than or equal to 0.001."),
        ({"name": " "}, "Spaces alone are not enough."),
        ({"h200_low": "", "h200_typical": "", "h200_high": ""}, "A price book needs at least one price."),
    ],
)
def test_a_wrong_book_is_refused_beside_its_field(browser, account, change, sentence):
    book = {"name": "N", "date": "2026-11-01", "source": "S", "h200_low": "2", "h200_typical": "2.5", "h200_high": "3"}
    answer = browser(account).post("/prices/", book | change)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert sentence in page
    assert page.count('class="error"') == 1, "nothing else is said of it"
    assert not PriceBookRow.objects.exists()


@pytest.mark.parametrize(
    ("change", "price", "sentence"),
    [
        ({"date": "soon"}, {}, "date: should be a date such as 2026-11-20"),
        ({}, {"gpu_class": "x" * 9999}, "prices[0].gpu_class: should match pattern '^[a-z0-9][a-z0-9-]{0,79}$'"),
        ({}, {"typical": 1e308}, "prices[0].typical: should be less than or equal to 10000, not 1e+308"),
        ({}, {"low": 2.5}, "prices[0]: low, typical and high must not fall"),
    ],
)
def test_the_api_refuses_what_the_form_refuses(api, account, change, price, sentence):
    book = _book("N").model_dump() | change
    book["prices"] = [item | price for item in book["prices"]]
    answer = api(account).post("/api/v1/prices", book)
    assert (answer.status_code, answer.json()["detail"]) == (422, sentence)
    assert not PriceBookRow.objects.exists()
