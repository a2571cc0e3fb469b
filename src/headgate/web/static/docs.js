// Asks for an API key, and renders the API's description with Swagger UI, in the colours that the
// visitor prefers. The key is kept in this page's memory alone, and forgotten with the page.

const dark = matchMedia("(prefers-color-scheme: dark)");

function followScheme() {
  document.documentElement.classList.toggle("dark-mode", dark.matches);
}

dark.addEventListener("change", followScheme);
followScheme();

const place = document.getElementById("api");
const form = document.getElementById("enter");
const field = document.getElementById("key");
const told = document.getElementById("told");

function render(description, key) {
  form.remove();
  const api = SwaggerUIBundle({
    domNode: place,
    spec: description,
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    persistAuthorization: false,
    // Nothing is sent to a validator elsewhere.
    validatorUrl: null,
    onComplete: () => api.preauthorizeApiKey("ApiKey", key),
  });
}

async function refusal(answer) {
  if (answer.status === 401) {
    return "This key is not valid. Check that it is complete, and that it has not been revoked.";
  }
  const problem = await answer.json().catch(() => ({}));
  const sentence = [problem.detail, problem.next].filter(Boolean).join(". ");
  return sentence || `The server answered ${answer.status}. Try again later.`;
}

async function enter(event) {
  event.preventDefault();
  const key = field.value.trim();
  told.textContent = "";
  try {
    // The header takes no other characters, and no key has any.
    if (!/^[\x21-\x7e]+$/.test(key)) {
      told.textContent = "This is not an API key: keys begin with hg_.";
      return;
    }
    const headers = { Authorization: `Bearer ${key}` };
    const answer = await fetch(place.dataset.description, { headers, credentials: "omit" });
    if (answer.ok) {
      render(await answer.json(), key);
    } else {
      told.textContent = await refusal(answer);
    }
  } catch {
    told.textContent = "The server cannot be reached. Try again later.";
  }
}

form.addEventListener("submit", enter);
form.hidden = false;
field.focus();
