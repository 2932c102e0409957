"""Addresses of login, members, invitations and tokens."""

from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.urls import path, reverse_lazy

from workbench.accounts import token_views, views
from workbench.accounts.forms import LoginForm

login = LoginView.as_view(
    template_name="accounts/login.html", authentication_form=LoginForm, redirect_authenticated_user=True
)
password = PasswordChangeView.as_view(template_name="accounts/password.html", success_url=reverse_lazy("members"))

urlpatterns = [
    path("login/", login, name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("password/", password, name="password"),
    path("organisation/", views.switch_organisation, name="switch-organisation"),
    path("members/", views.members, name="members"),
    path("members/invite/", views.invite, name="invite"),
    path("members/<uuid:membership_id>/role/", views.change_role, name="change-role"),
    path("members/<uuid:membership_id>/remove/", views.remove_member, name="remove-member"),
    path("invitations/<uuid:invitation_id>/withdraw/", views.withdraw_invitation, name="withdraw-invitation"),
    path("invitations/<str:secret>/", views.invitation, name="invitation"),
    path("tokens/", token_views.token_list, name="tokens"),
    path("tokens/<uuid:token_id>/revoke/", token_views.revoke_token, name="revoke-token"),
]
