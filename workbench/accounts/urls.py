"""Addresses of login, members, invitations and tokens."""

from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeView
from django.urls import path, reverse_lazy

from workbench.accounts.forms import LoginForm, PasswordForm
from workbench.accounts.views import members, tokens

login = LoginView.as_view(
    template_name="accounts/login.html", authentication_form=LoginForm, redirect_authenticated_user=True
)
password = PasswordChangeView.as_view(
    template_name="accounts/password.html", form_class=PasswordForm, success_url=reverse_lazy("members")
)

urlpatterns = [
    path("login/", login, name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("password/", password, name="password"),
    path("organisation/", members.switch_organisation, name="switch-organisation"),
    path("members/", members.members, name="members"),
    path("members/invite/", members.invite, name="invite"),
    path("members/<uuid:membership_id>/role/", members.change_role, name="change-role"),
    path("members/<uuid:membership_id>/remove/", members.remove_member, name="remove-member"),
    path("invitations/<uuid:invitation_id>/withdraw/", members.withdraw_invitation, name="withdraw-invitation"),
    path("invitations/<str:secret>/", members.invitation, name="invitation"),
    path("tokens/", tokens.token_list, name="tokens"),
    path("tokens/<uuid:token_id>/revoke/", tokens.revoke_token, name="revoke-token"),
]
