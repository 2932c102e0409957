"""Addresses of the pages of notifications."""

from django.urls import path

from workbench.notifications import views

urlpatterns = [
    path("inbox/", views.inbox, name="inbox"),
    path("notifications/", views.notifications, name="notifications"),
    path("notifications/test/", views.test_mail, name="test-mail"),
    path("notifications/log/", views.deliveries, name="deliveries"),
    path("notifications/log/<uuid:delivery_id>/again/", views.send_again, name="delivery-again"),
    path("notifications/webhooks/", views.add_webhook, name="webhook-add"),
    path("notifications/webhooks/<uuid:webhook_id>/test/", views.test_webhook, name="webhook-test"),
    path("notifications/webhooks/<uuid:webhook_id>/remove/", views.remove_webhook, name="webhook-remove"),
    path("unsubscribe/<str:token>/", views.unsubscribe, name="unsubscribe"),
]
