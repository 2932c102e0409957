"""Members: who sees the page, who changes roles, and the admin that must remain."""

import pytest
from django.urls import reverse

from workbench.accounts.models import ApiToken, Membership, Role
from workbench.accounts.tokens import issue

pytestmark = pytest.mark.django_db


def _membership(user):
    return Membership.objects.get(user=user)


def test_it_shows_the_members_of_the_own_organisation_alone(browser, engineer, foreigner):
    page = browser(engineer).get("/members/").content.decode()
    assert engineer.email in page
    assert foreigner.email not in page


def test_an_admin_changes_a_role(browser, admin, organisation, engineer):
    browser(admin).post(reverse("change-role", args=[_membership(engineer).pk]), {"role": "account"})
    assert _membership(engineer).role == Role.ACCOUNT


@pytest.mark.parametrize("address", ["change-role", "remove-member"])
def test_only_an_admin_changes_members(browser, engineer, account, address):
    response = browser(engineer).post(reverse(address, args=[_membership(account).pk]), {"role": "engineer"})
    assert response.status_code == 403
    assert _membership(account).role == Role.ACCOUNT


@pytest.mark.parametrize(("address", "role"), [("change-role", "engineer"), ("remove-member", "")])
def test_the_last_admin_stays(browser, admin, organisation, address, role):
    page = (
        browser(admin)
        .post(reverse(address, args=[_membership(admin).pk]), {"role": role}, follow=True)
        .content.decode()
    )
    assert "The last admin cannot be removed" in page
    assert _membership(admin).role == Role.ADMIN


def test_one_of_two_admins_may_go(browser, admin, organisation, make_user):
    other = make_user("second@voice.test", organisation, Role.ADMIN)
    browser(admin).post(reverse("remove-member", args=[_membership(other).pk]))
    assert not Membership.objects.filter(user=other).exists()


def test_removing_a_member_ends_their_tokens_and_their_session(browser, admin, organisation, engineer, api):
    script = api(engineer)
    issue(organisation, engineer, "second", "read")
    page = browser(engineer)
    browser(admin).post(reverse("remove-member", args=[_membership(engineer).pk]))
    assert script.get("/api/v1/me").status_code == 401
    assert not ApiToken.objects.filter(user=engineer, revoked_at=None).exists()
    assert "admin@voice.test" not in page.get("/members/").content.decode()


def test_a_member_of_two_organisations_works_for_the_chosen_one(browser, engineer, foreigner, organisation):
    Membership.objects.create(user=foreigner, organisation=organisation, role=Role.ENGINEER)
    client = browser(foreigner)
    assert engineer.email not in client.get("/members/").content.decode()
    assert f'<option value="{organisation.pk}">Voice</option>' in client.get("/members/").content.decode()
    client.post("/organisation/", {"organisation": str(organisation.pk), "next": "/members/"})
    assert engineer.email in client.get("/members/").content.decode()


def test_nobody_switches_to_a_foreign_organisation(browser, foreigner, organisation):
    assert browser(foreigner).post("/organisation/", {"organisation": str(organisation.pk)}).status_code == 404


def test_switching_never_leads_to_another_site(browser, admin, organisation):
    response = browser(admin).post(
        "/organisation/", {"organisation": str(organisation.pk), "next": "https://evil.test/"}
    )
    assert response["Location"] == "/"
