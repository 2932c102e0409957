/* Says on the page why a passkey could not be made or used; django-allauth's scripts tell only the console. */

const REASONS = {
  NotAllowedError: "It was cancelled, or it took too long.",
  InvalidStateError: "This device holds a passkey of this login already.",
  SecurityError: "Passkeys need HTTPS and a host name; at a bare address they do not work.",
  NotSupportedError: "This device has no passkey of the kind that is asked for.",
};

document.addEventListener("allauth.error", (event) => {
  event.preventDefault();
  const place = document.getElementById("passkey-error");
  const { exception } = event.detail;
  place.textContent = `The passkey was not used. ${REASONS[exception.name] || exception.message}`;
  place.hidden = false;
});
